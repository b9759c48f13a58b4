"""Grids of class groups × environments: their order, which a training shows, and their table.

Group k belongs to environment k. Row 0 has the classes left over, column 0 the clean images.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from robustness.environments.class_groups import TITLE_LEFT_OVER
from robustness.results import Table

ENVIRONMENT, GROUP = 'environment', 'group'
GRID, GRID_LOW, GRID_HIGH = 'grid', 'grid_low', 'grid_high'
COLUMNS = ('classifier', 'class group', ENVIRONMENT, 'seen in training', 'accuracy', 'low', 'high')


def in_order(titles: Iterable[str]) -> list[str]:
  """Returns the titles of class groups, that of the classes left over first."""
  return [TITLE_LEFT_OVER, *(title for title in titles if title != TITLE_LEFT_OVER)]


def seen(groups: int, environments: int) -> np.ndarray:
  """Returns which cells a training shows, bool [groups, environments]."""
  group, environment = np.indices((groups, environments))
  return (environment == 0) | (group == environment)


def table(arrays: Mapping[str, np.ndarray], prefixes: Mapping[str, str]) -> Table:
  """Returns the accuracy of every cell that has classes, seen or not.

  Args:
    arrays: `group` and `environment`, and of each classifier `grid` [groups, environments] with
      `_low` and `_high`, NaN where a cell has no classes, and `seen`.
    prefixes: by label, what the names of a classifier's arrays begin with.
  """
  rows = []
  for label, prefix in prefixes.items():
    for g, group in enumerate(arrays[GROUP]):
      for e, environment in enumerate(arrays[ENVIRONMENT]):
        values = [float(arrays[f'{prefix}{name}'][g, e]) for name in (GRID, GRID_LOW, GRID_HIGH)]
        if not np.isnan(values[0]):
          known = 'yes' if arrays[f'{prefix}seen'][g, e] else 'no'
          rows.append([label, str(group), str(environment), known, *values])
  return Table(COLUMNS, rows)
