"""Rows that know their class's group."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows
from robustness.environments.class_groups import ClassGroups, from_settings

COLUMN = 'class_group'
SAMPLED = 'sampled_environment'
"""The environment that a balanced sampler drew a row for; see `robustness.environments.balance`."""


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
