"""Rows that know their class's group, and the order in which environments come equally often."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from robustness.core.errors import InputError, nearest
from robustness.core.rows import ArrayRows
from robustness.core.sampler import Balanced, Sampler
from robustness.environments.class_groups import ClassGroups, from_settings
from robustness.environments.transforms import CLEAN

COLUMN, ENVIRONMENT = 'class_group', 'environment'
SAMPLED = 'sampled_environment'
"""The environment that a balanced sampler drew a row for."""
BALANCED = 'config.training.balanced'


def with_groups(rows: Any, settings: Any) -> Any:
  """Returns rows with the class groups that the section `config.data` asks for, if it does.

  Args:
    rows: opened.
    settings: an `input_pipeline.DataSettings`.

  Raises:
    InputError: see `class_groups.from_settings`.
  """
  if not (settings.class_groups or settings.random_class_groups):
    return rows
  return GroupedRows(rows, from_settings(settings, rows.class_names))


@dataclasses.dataclass(frozen=True)
class GroupedRows:
  """Rows with the further column `class_group`, int32: k for classes of C_k, 0 for those left over.

  Attributes:
    rows: of one label each.
    groups: of their classes.
  """

  rows: Any
  groups: ClassGroups

  def __getattr__(self, name: str) -> Any:
    return getattr(self.rows, name)

  @property
  def description(self) -> Mapping[str, Any]:
    """See `Rows`; with the classes of each group by name."""
    return {**self.rows.description, 'class_groups': self.groups.describe()}

  def at(self, positions: np.ndarray) -> GroupedRows:
    """Returns the rows at some positions."""
    return dataclasses.replace(self, rows=self.rows.at(positions))

  def with_channels(self, channels: int) -> GroupedRows:
    """Returns the same rows with grey images repeated to `channels`."""
    return dataclasses.replace(self, rows=self.rows.with_channels(channels))

  def in_memory(self, most: int) -> ArrayRows | None:
    """See `ArrayRows.in_memory`."""
    arrays = self.rows.in_memory(most)
    if arrays is None:
      return None
    groups = self._grouped({'label': arrays.labels})[COLUMN]
    return dataclasses.replace(arrays, columns={**arrays.columns, COLUMN: groups})

  def without_images(self) -> dict[str, Any]:
    """See `ArrayRows.without_images`."""
    return self._grouped(self.rows.without_images())

  def batches(self, *arguments: Any, **named: Any) -> Iterator[dict[str, Any]]:
    """See `Rows`."""
    return map(self._grouped, self.rows.batches(*arguments, **named))

  def training_batches(self, *arguments: Any, **named: Any) -> Iterator[dict[str, Any]]:
    """See `ArrayRows.training_batches`."""
    return map(self._grouped, self.rows.training_batches(*arguments, **named))

  def _grouped(self, batch: dict[str, Any]) -> dict[str, Any]:
    label = batch['label']
    if label.ndim != 1:
      raise InputError(f'class groups need one label an image; got labels of shape {label.shape}.')
    return {**batch, COLUMN: self.groups.of_label[label]}


def balanced(column: str, rows: Any, transforms: Sequence[str], seed: int) -> Sampler | None:
  """Returns the order in which each value of a column comes equally often.

  Environments of the augmentation `environment` are balanced before they exist: rows of environment
  0 are drawn from all rows, those of environment k from the rows of class group k, and the column
  `SAMPLED` tells the augmentation which of them a row was drawn for. A class of C_k is then seen
  more often than one that is left over.

  Args:
    column: of the rows; '' balances nothing.
    rows: opened for a training, with `without_images`.
    transforms: of the training's augmentation `environment`; () without it.
    seed: of the training.

  Returns:
    The order, or None for rows that all come equally often.

  Raises:
    InputError: rows without such a column, a column of floats or of several values a row, or an
      environment without rows.
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
      f'{BALANCED} is {ENVIRONMENT!r}, which needs class groups: set config.data.class_groups, or '
      'config.data.random_class_groups.'
    )
  own_groups = range(1, len(transforms) + 1)
  members = [np.arange(len(group)), *(np.flatnonzero(group == k) for k in own_groups)]
  for name, own in zip((CLEAN, *transforms), members, strict=True):
    if not len(own):
      raise InputError(
        f'{BALANCED} is {ENVIRONMENT!r}, but the environment {name!r} has no training images: its '
        'class group is empty or missing.'
      )
  return members
