"""What a training reads: endless shuffled batches that can begin at any step."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows, Batch


class TrainingBatches(Protocol):
  """A function that opens an endless iterator of batches."""

  def __call__(self, batch_size: int, seed: int, start_step: int) -> Iterator[Batch]:
    """Yields the batches of steps start_step, start_step + 1, ... of the training with this seed.

    Args:
      batch_size: rows a batch.
      seed: decides the order of the rows.
      start_step: batches passed over, without reading them.

    Yields:
      `image` float32 [B, H, W, C] in [0, 1]; `label` int32 [B]; `example_id` int32 [B].
    """


def array_batches(rows: ArrayRows) -> TrainingBatches:
  """Returns the batches of rows in memory, for a machine without TensorFlow.

  Whole epochs follow each other, each in an order that depends on (seed, epoch) alone; a batch may
  hold the end of one and the beginning of the next.

  Args:
    rows: with one label a row.
  """
  ids = np.arange(rows.num_examples) if rows.example_ids is None else rows.example_ids

  def batches(batch_size: int, seed: int, start_step: int) -> Iterator[Batch]:
    order = functools.lru_cache(maxsize=2)(
      lambda epoch: np.random.default_rng((seed, epoch)).permutation(rows.num_examples)
    )
    while True:
      places = np.arange(start_step * batch_size, (start_step + 1) * batch_size)
      picked = np.array([order(p // rows.num_examples)[p % rows.num_examples] for p in places])
      yield {
        'image': rows.images[picked],
        'label': rows.labels[picked].astype(np.int32),
        'example_id': ids[picked].astype(np.int32),
      }
      start_step += 1

  return batches


def check(batch: Batch, image_shape: tuple[int, int, int], num_classes: int) -> Batch:
  """Returns the three arrays of a batch that a step takes.

  Args:
    batch: from `TrainingBatches`.
    image_shape: what every image must have.
    num_classes: labels lie in [0, num_classes).

  Raises:
    InputError: images of another shape or type, several labels an image, a label that is no class.
  """
  image, label = batch['image'], batch['label']
  if image.shape[1:] != image_shape or image.dtype != np.float32:
    raise InputError(
      f'training images must be float32 of shape {image_shape}; got {image.dtype} '
      f'of shape {image.shape[1:]}.'
    )
  if label.ndim != 1:
    raise InputError(f'training takes one label an image; got labels of shape {label.shape}.')
  wrong = np.flatnonzero((label < 0) | (label >= num_classes))
  if wrong.size:
    raise InputError(
      f'example {batch["example_id"][wrong[0]]} has label {label[wrong[0]]}; the '
      f'classifier has classes 0 to {num_classes - 1}.'
    )
  return {'image': image, 'label': label, 'example_id': batch['example_id']}
