"""The order of training rows in which every environment, or every class, comes equally often."""

from collections.abc import Sequence

import numpy as np

from robustness.core.errors import KEYS, InputError, nearest
from robustness.core.rows import Rows
from robustness.core.sampler import Balanced, Sampler
from robustness.environments.class_groups import COLUMN, SAMPLED
from robustness.environments.transforms import CLEAN

ENVIRONMENT = 'environment'
BALANCED = 'config.training.balanced'


def balanced(column: str, rows: Rows, transforms: Sequence[str], seed: int) -> Sampler | None:
  """Returns the order in which each value of a column comes equally often.

  Environments of the augmentation `environment` are balanced before they exist: rows of environment
  0 are drawn from all rows, those of environment k from the rows of class group k, and the column
  `SAMPLED` says which of them a row was drawn for. None is the order of rows that all come equally
  often.

  Args:
    column: of the rows; '' balances nothing.
    rows: opened for a training, with `without_images`.
    transforms: of the training's augmentation `environment`; () without it.
    seed: of the training.
  """
  if not column:
    return None
  columns = rows.without_images()
  if column == ENVIRONMENT and transforms:
    return Balanced(_generated(columns, transforms), seed, SAMPLED)
  values = columns.get(column)
  known = [name for name, own in columns.items() if own.ndim == 1 and own.dtype.kind in 'biu']
  if values is None or column not in known:
    raise InputError(f'{BALANCED} is {column!r}; {nearest(column, known)}.')
  return Balanced([np.flatnonzero(values == value) for value in np.unique(values)], seed)


def _generated(columns: dict[str, np.ndarray], transforms: Sequence[str]) -> list[np.ndarray]:
  """Returns the rows of each environment that the augmentation makes, E_0 first."""
  group = columns.get(COLUMN)
  if group is None:
    raise InputError(
      f'{BALANCED} is {ENVIRONMENT!r}, which needs class groups: set {KEYS.data.class_groups}, or '
      f'{KEYS.data.random_class_groups}.'
    )
  of_groups = (np.flatnonzero(group == 1 + k) for k in range(len(transforms)))
  members = [np.arange(len(group)), *of_groups]
  for name, own in zip((CLEAN, *transforms), members, strict=True):
    if not len(own):
      raise InputError(
        f'{BALANCED} is {ENVIRONMENT!r}, but the environment {name!r} has no training images: its '
        'class group is empty or missing.'
      )
  return members
