"""Predictions on stored corrupted images, one row each, as a table [images, parts].

Rows tell their corruption (its number in `robustness.corruptions.names`, -1 for clean), severity (0
for clean) and base image in columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robustness.core.errors import InputError
from robustness.corruptions.names import CLEAN, NAMED, SEVERITIES

Part = tuple[int, int]
CLEAN_PART: Part = (CLEAN, 0)


def stored_parts(corruption: np.ndarray, severity: np.ndarray) -> list[Part]:
  """Returns the distinct (corruption, severity) of rows, ascending, clean first.

  Args:
    corruption: integers [R].
    severity: integers [R].
  """
  pairs = np.unique(np.stack([corruption, severity], 1), axis=0)
  return [(int(c), int(s)) for c, s in pairs]


def wanted_parts(
  parts: Sequence[Part], names: Sequence[str], severities: Sequence[int]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
  """Returns which of the given corruptions and severities are stored; they must form a grid.

  Args:
    parts: what is stored.
    names: the corruptions asked for.
    severities: the severities asked for.

  Raises:
    InputError: nothing of that is stored, or a severity of one corruption and not of another.
  """
  stored = [(NAMED[c], s) for c, s in parts if c != CLEAN]
  chosen = tuple(n for n in names if any((n, s) in stored for s in severities))
  levels = tuple(s for s in severities if any((n, s) in stored for n in chosen))
  missing = [f'{n} {s}' for n in chosen for s in levels if (n, s) not in stored]
  if not chosen or missing:
    have = ', '.join(f'{n} {s}' for n, s in stored) or 'no corruption'
    raise InputError(
      f'stored images of {", ".join(missing or names)} are wanted, but the set has '
      f'{have}. Set config.study.corruptions and config.study.severities '
      f'({", ".join(map(str, SEVERITIES))}) to what it has.'
    )
  return chosen, levels


def by_part(values: np.ndarray, columns: Sequence[np.ndarray], parts: Sequence[Part]) -> np.ndarray:
  """Returns values of rows as [images, parts], images by ascending base id.

  Args:
    values: [R].
    columns: corruption, severity and base id, integers [R] each.
    parts: the columns of the result; rows of other parts are left out.

  Raises:
    InputError: an image has no row, or several, in some part.
  """
  corruption, severity, base_id = columns
  images = np.unique(base_id)
  table = np.zeros((len(images), len(parts)), values.dtype)
  for column, (number, level) in enumerate(parts):
    rows = np.flatnonzero((corruption == number) & (severity == level))
    order = rows[np.argsort(base_id[rows], kind='stable')]
    if not np.array_equal(base_id[order], images):
      name = 'clean' if number == CLEAN else f'{NAMED[number]} {level}'
      raise InputError(
        f'{name} has {len(rows)} rows of {len(np.unique(base_id[rows]))} images; '
        f'all {len(images)} images must be there once in every part.'
      )
    table[:, column] = values[order]
  return table
