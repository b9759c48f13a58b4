"""Scenes as a table of pairs × levels, and the balanced mix: the same pairs at all levels compared.

A pair is an object with a background. A scene counts if enough of its object is inside; a released
set is a list of scenes in any order, without those that were filtered out. Which pairs count
therefore differs between levels, and with it the mix of objects.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.scenes.designs import Design

SIZE, ROTATION, LOCATION = 'size', 'rotation', 'location'
KEYS = {SIZE: ('area',), ROTATION: ('angle',), LOCATION: ('y', 'x')}
"""Of a level, by factor."""
LOOP_ORDER = ('x', 'y', 'area', 'angle')
COLUMNS = (*LOOP_ORDER, 'object', 'background', 'fraction_inside')
"""Of stored scenes."""


def levels_of(design: Design) -> pd.DataFrame:
  """Returns `area`, `angle`, `x` and `y` of each level; angles in degrees in (−180, 180]."""
  levels = pd.DataFrame(design.factors)
  return levels.assign(angle=180.0 - (180.0 - levels.angle) % 360.0)


def varying(levels: pd.DataFrame) -> dict[str, tuple[str, ...]]:
  """Returns the factors that have more than one value, with their keys."""
  return {
    factor: keys for factor, keys in KEYS.items() if any(levels[key].nunique() > 1 for key in keys)
  }


def places(levels: pd.DataFrame, keys: Sequence[str]) -> np.ndarray:
  """Returns which levels agree in some keys, int [L]; all do in none."""
  return np.asarray(levels.groupby(list(keys)).ngroup()) if keys else np.zeros(len(levels), int)


def balanced(
  shown: np.ndarray, groups: ArrayLike, strata: ArrayLike, share: float = 0.0
) -> np.ndarray:
  """Returns which scenes make up the same mix in every group of levels, bool [P, L].

  In a stratum (a size, where accuracy is given by angle) those pairs are kept that count in every
  group; pairs and strata together are then the same in every group, and groups may be compared
  although strata are pooled. Groups in which no scene counts, or too few do, are left out.

  Args:
    shown: bool [P, L], which scenes count.
    groups: int [L], what is compared, such as the angle.
    strata: int [L], what is pooled in each group.
    share: of the scenes of a group that must count. More leaves out groups, less leaves out pairs.
  """
  group, stratum = np.asarray(groups), np.asarray(strata)
  of_group = [(g, shown[:, group == g]) for g in np.unique(group)]
  present = [g for g, counts in of_group if counts.any() and counts.mean() >= share]
  compared = np.isin(group, present)
  kept = np.zeros_like(shown)
  for value in np.unique(stratum):
    levels = compared & (stratum == value)
    if len(np.unique(group[levels])) == len(present):
      kept[:, levels] = shown[:, levels].all(1, keepdims=True)
  return kept


def normalised(values: ArrayLike) -> np.ndarray:
  """Returns accuracies [..., G] as fractions of the largest of G; NaN throughout if that is 0."""
  array = np.asarray(values, float)
  largest = np.max(array, -1, initial=0.0, where=np.isfinite(array), keepdims=True)
  return np.divide(array, largest, out=np.full(array.shape, np.nan), where=largest > 0)


@dataclasses.dataclass(frozen=True)
class SceneTable:
  """Where each of N scenes stands in a table of P pairs and L levels.

  Attributes:
    design: the levels that occur, in the order of the generator's loop: x, y, area, angle.
    objects: int [P], the object of each pair.
    pair, level: int [N], the place of each scene.
  """

  design: Design
  objects: np.ndarray
  pair: np.ndarray
  level: np.ndarray

  def spread(self, values: np.ndarray, absent: float | bool = 0) -> np.ndarray:
    """Returns one value a scene, [N], as a table [P, L] with `absent` where there is no scene."""
    table = np.full((len(self.objects), len(self.design)), absent, values.dtype)
    table[self.pair, self.level] = values
    return table


def tabulate(columns: Mapping[str, np.ndarray], name: str, side: int) -> SceneTable:
  """Finds pairs and levels of stored scenes.

  The least share inside that occurs is the design's `min_inside`; `side` is in pixels.
  """
  missing = [column for column in COLUMNS if column not in columns]
  if missing:
    raise InputError(
      f'the rows have no column {missing[0]!r}, so they are no stored scenes; read '
      'them with --config.data.source=si_score.'
    )
  factors = np.round(np.stack([columns[factor] for factor in LOOP_ORDER]).astype(np.float64), 7)
  levels, level = np.unique(factors, axis=1, return_inverse=True)
  pairs, pair = np.unique(
    np.stack([columns['object'], columns['background']]), axis=1, return_inverse=True
  )
  place = pair.ravel() * levels.shape[1] + level.ravel()
  if len(np.unique(place)) != len(place):
    twice = int(np.flatnonzero(np.bincount(place) > 1)[0])
    named = zip(LOOP_ORDER, levels[:, twice % levels.shape[1]], strict=True)
    where = ', '.join(f'{factor} {value:g}' for factor, value in named)
    raise InputError(
      'object {} on background {} '.format(*pairs[:, twice // levels.shape[1]])
      + f'is stored more than once at {where}; are several sets mixed?'
    )
  x, y, area, angle = levels
  design = Design(name, side, float(columns['fraction_inside'].min()), area, angle, x, y)
  return SceneTable(design, pairs[0], pair.ravel(), level.ravel())
