"""Stored scenes, in any order and with gaps, as a table of pairs × levels.

A released set is a list of scenes: what was filtered out is simply not there. Accuracy by size,
place or angle is computed from a table of pairs and levels, in which such scenes do not count.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from robustness.core.errors import InputError
from robustness.scenes.designs import Design

FACTORS = ('x', 'y', 'area', 'angle')
COLUMNS = (*FACTORS, 'object', 'background', 'fraction_inside')


@dataclasses.dataclass(frozen=True)
class SceneTable:
  """Where each of N scenes stands in a table of P pairs and L levels.

  Attributes:
    design: the levels that occur, in the order of the generator's loop: x, y, area, angle.
    objects, backgrounds: int [P], what each pair is made of.
    pair, level: int [N], the place of each scene.
  """

  design: Design
  objects: np.ndarray
  backgrounds: np.ndarray
  pair: np.ndarray
  level: np.ndarray

  def spread(self, values: np.ndarray, absent: float | bool = 0) -> np.ndarray:
    """Returns one value a scene, [N], as a table [P, L] with `absent` where there is no scene."""
    table = np.full((len(self.objects), len(self.design)), absent, values.dtype)
    table[self.pair, self.level] = values
    return table


def tabulate(columns: Mapping[str, np.ndarray], name: str, side: int) -> SceneTable:
  """Finds pairs and levels of stored scenes.

  Args:
    columns: `COLUMNS` of the rows, [N] each.
    name: of the design, such as 'location'.
    side: of the stored scenes, pixels.

  Returns:
    The table. Its design's `min_inside` is the least share inside that occurs.

  Raises:
    InputError: a column is missing, or two scenes have the same pair and level.
  """
  missing = [column for column in COLUMNS if column not in columns]
  if missing:
    raise InputError(
      f'the rows have no column {missing[0]!r}, so they are no stored scenes; read '
      'them with --config.data.source=si_score.'
    )
  factors = np.round(np.stack([columns[factor] for factor in FACTORS]).astype(np.float64), 7)
  levels, level = np.unique(factors, axis=1, return_inverse=True)
  pairs, pair = np.unique(
    np.stack([columns['object'], columns['background']]), axis=1, return_inverse=True
  )
  place = pair.ravel() * levels.shape[1] + level.ravel()
  if len(np.unique(place)) != len(place):
    twice = int(np.flatnonzero(np.bincount(place) > 1)[0])
    where = ', '.join(
      f'{factor} {value:g}'
      for factor, value in zip(FACTORS, levels[:, twice % levels.shape[1]], strict=True)
    )
    raise InputError(
      f'object {pairs[0, twice // levels.shape[1]]} on background '
      f'{pairs[1, twice // levels.shape[1]]} is stored more than once at {where}; '
      'are several sets mixed?'
    )
  x, y, area, angle = levels
  design = Design(name, side, float(columns['fraction_inside'].min()), area, angle, x, y)
  return SceneTable(design, pairs[0], pairs[1], pair.ravel(), level.ravel())
