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
  """Returns a sampler that draws training images with each value of a column equally often.

  The column 'environment' is special if training uses the augmentation `environment`. An
  environment is a transform that training shows only to one group of classes; environment 0 is
  clean. Each of the M + 1 environments is then drawn equally often: images for environment 0 from
  all classes, and images for environment k ≥ 1 from class group k. The sampler writes k to the
  column 'sampled_environment'.

  Args:
    column: A column of whole numbers or booleans, 'environment', or '' for no sampler.
    rows: the training images.
    transforms: the M transforms of the augmentation `environment`, or () without it.
    seed: seed of the training.

  Returns:
    The sampler, or None if `column` is ''.
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
  """Returns the indices of the training images for each environment; the first is the clean one.

  An environment is a transform that training shows only to one group of classes.

  Args:
    columns: columns of the training images, including the class group.
    transforms: transforms of the augmentation `environment`.

  Raises:
    InputError: the images have no class groups, or a group has no images.
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
