"""What a training reads: endless shuffled batches that can begin at any step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from robustness.core.errors import InputError
from robustness.core.rows import Batch, numeric_columns


class TrainingBatches(Protocol):
  """A function that opens an endless iterator of batches."""

  def __call__(self, batch_size: int, seed: int, start_step: int) -> Iterator[Batch]:
    """Yields the batches of steps start_step, start_step + 1, ... of the training with this seed.

    Args:
      batch_size: rows a batch.
      seed: decides the order of the rows.
      start_step: batches passed over, without reading them.

    Yields:
      `image` [B, H, W, C], uint8 or float32 in [0, 1]; `label` int32 [B];
      `example_id` int32 [B]; and the columns of the source, [B, ...].
    """


def check(batch: Batch, image_shape: tuple[int, int, int], num_classes: int) -> Batch:
  """Returns the numeric arrays of a batch, which a step takes.

  Args:
    batch: from `TrainingBatches`.
    image_shape: what every image must have.
    num_classes: labels lie in [0, num_classes).

  Raises:
    InputError: images of another shape or type, several labels an image, a label that is no class.
  """
  image, label = batch['image'], batch['label']
  if image.shape[1:] != image_shape or image.dtype not in (np.uint8, np.float32):
    raise InputError(
      f'training images must be uint8 or float32 of shape {image_shape}; got {image.dtype} '
      f'of shape {image.shape[1:]}.'
    )
  if label.ndim != 1:
    raise InputError(f'training takes one label an image; got labels of shape {label.shape}.')
  outside = np.flatnonzero((label < 0) | (label >= num_classes))
  if outside.size:
    raise InputError(
      f'example {batch["example_id"][outside[0]]} has label {label[outside[0]]}; the '
      f'classifier has classes 0 to {num_classes - 1}.'
    )
  return numeric_columns(batch)
