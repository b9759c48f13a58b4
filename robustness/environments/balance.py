"""Samplers of training rows in which every environment, or every class, is equally frequent."""

from collections.abc import Sequence

import numpy as np

from robustness.core.errors import KEYS, InputError
from robustness.core.rows import Rows
from robustness.core.sampler import Balanced, Sampler
from robustness.core.settings import choice
from robustness.environments.class_groups import COLUMN, SAMPLED
from robustness.environments.transforms import CLEAN

ENVIRONMENT = 'environment'
"""Column of rows with the number of the environment."""


def balanced_sampler(
  column: str, rows: Rows, transforms: Sequence[str], seed: int
) -> Sampler | None:
  """Returns a sampler that draws each value of a column equally often, or None for no column.

  With the column 'environment' and M `transforms`, it is a sampler that draws each environment k =
  0..M equally often. It draws the rows to show in environment 0 (clean) from all rows, and in
  environment k ≥ 1 from class group k, and writes k to the column 'sampled_environment'.

  Args:
    column: A column of whole numbers or booleans, 'environment', or '' for no sampler.
    rows: Rows of a training.
    transforms: Transforms of the training's augmentation `environment`, or () without it.
    seed: Seed of the training.
  """
  if not column:
    return None
  columns = rows.without_images()
  if column == ENVIRONMENT and transforms:
    return Balanced(_rows_by_environment(columns, transforms), seed, SAMPLED)
  # Columns with a whole number or a boolean for each row.
  valid = [name for name, array in columns.items() if array.ndim == 1 and array.dtype.kind in 'biu']
  choice(str(KEYS.training.balanced), column, valid)
  # One group of row indices for each value; groups are drawn equally often.
  values = columns[column]
  return Balanced([np.flatnonzero(values == value) for value in np.unique(values)], seed)


def _rows_by_environment(
  columns: dict[str, np.ndarray], transforms: Sequence[str]
) -> list[np.ndarray]:
  """Returns the indices of the rows that may be shown in each environment, first the clean one.

  Args:
    columns: columns of the rows, among them the class group.
    transforms: transforms of the augmentation `environment`.

  Raises:
    InputError: the rows have no class groups, or a group has no rows.
  """
  group = columns.get(COLUMN)
  if group is None:
    raise InputError(
      f'{KEYS.training.balanced} is {ENVIRONMENT!r}, which needs class groups: set '
      f'{KEYS.data.class_groups}, or {KEYS.data.random_class_groups}.'
    )
  all_rows = np.arange(len(group))
  members = [all_rows, *(np.flatnonzero(group == k) for k in range(1, len(transforms) + 1))]
  for name, indices in zip((CLEAN, *transforms), members, strict=True):
    if not len(indices):
      raise InputError(
        f'{KEYS.training.balanced} is {ENVIRONMENT!r}, but the environment {name!r} has no '
        'training images: its class group is empty or missing.'
      )
  return members
