"""Rows with MAITE's protocol `Dataset`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robustness.api import as_rows
from robustness.core import user_data
from robustness.core.errors import InputError
from robustness.core.rows import (
  MAX_CACHED_BYTES,
  ArrayRows,
  Rows,
  numbered_classes,
  refuse_unknown_classes,
)


@dataclasses.dataclass(frozen=True)
class MaiteDataset:
  """A data set that MAITE accepts (its protocol `Dataset`).

  Entries are float32 images in [0, 1] with one-hot targets and ids.

  Attributes:
    rows: the images, each with one label.
    metadata: {'id': source of the images, 'index2label': {class number: class name}}.
  """

  rows: Rows
  metadata: Mapping[str, Any]

  def __len__(self) -> int:
    """Returns the number of images."""
    return self.rows.num_examples

  def __getitem__(self, index: int, /) -> tuple[np.ndarray, np.ndarray, dict[str, int]]:
    """Returns an image (C, H, W), its one-hot target (classes,), and its id as {'id': id}.

    A negative index counts from the last image.

    Raises:
      IndexError: there is no such image.
    """
    position = range(len(self))[index]
    [batch] = self.rows.at(np.array([position])).batches(1)  # a batch of this row alone
    target = np.arange(len(self.rows.class_names)) == batch['label']
    metadata = {'id': int(batch['example_id'][0])}
    return batch['image'][0].transpose(2, 0, 1), target.astype(np.float32), metadata


def as_maite_dataset(
  data: Any, labels: Any = None, *, class_names: Sequence[str] = (), seed: int = 0
) -> MaiteDataset:
  """Returns images and labels as a data set for MAITE (its protocol `Dataset`).

  Args:
    data: images in any form that `robustness.measure` takes, such as float [N, H, W, C] in [0, 1].
    labels: integers [N]; None if `data` has them.
    class_names: the names of the labels, in order; () for none.
    seed: seed of the choice of images, for a source that takes a random sample.

  Raises:
    InputError: the data cannot be used, or an image has no label or several labels.
  """
  rows = as_rows(data, labels, None, class_names, seed)
  refuse_unknown_classes(rows.description, "MAITE's one-hot target")
  metadata = {'id': str(rows.description['source'])}
  rows = rows.in_memory(MAX_CACHED_BYTES) or rows  # None if they are too large
  classes = rows.without_images()['label']
  if classes.ndim > 1:
    raise InputError('images have several labels; targets of MAITE are one-hot.')
  if isinstance(rows, ArrayRows) and not rows.class_names:
    rows = user_data.with_class_names(rows, numbered_classes(int(classes.max()), 'the data'))
  return MaiteDataset(rows, {**metadata, 'index2label': dict(enumerate(rows.class_names))})
