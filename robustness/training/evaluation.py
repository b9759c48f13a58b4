"""Measures the accuracy of weights during a training, and holds out rows for validation."""

from collections.abc import Callable, Iterator, Mapping

import jax
import numpy as np

from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.core.rows import Rows
from robustness.core.sampler import held_out
from robustness.core.typing import Variables
from robustness.evaluation.outcomes import BASE
from robustness.evaluation.runner import BlockOnDevices, Evaluator
from robustness.evaluation.views import stored_view
from robustness.models.classifier import Classifier
from robustness.parallel import Parallel
from robustness.parallel.mesh import own_copy
from robustness.parallel.processes import exchange
from robustness.video.columns import GROUP, OFFSET, clip_numbers


class AccuracyOnRows:
  """Computes the accuracy of weights on a data set, for evaluations during training.

  Each process evaluates a part of the data in batches on its devices.
  """

  def __init__(
    self, classifier: Classifier, rows: Rows, seed: int, parallel: Parallel, resident_bytes: int
  ):
    """Prepares the evaluation; the data are read by the first call.

    Args:
      classifier: the classifier, with weights or only their shapes.
      rows: the data, images and labels.
      seed: seed of the evaluation's random numbers.
      parallel: layout of the devices.
      resident_bytes: data up to this size stay on the devices after the first call.
    """
    self.classifier, self.rows = classifier, rows
    key = random_keys.stream(seed, 'accuracy')
    self.evaluator = Evaluator(classifier, stored_view(), key, parallel)  # shows images unchanged
    self._layout = self.evaluator.layout(rows.num_examples)  # how rows are divided into blocks
    self._blocks = CachedBlocks(self._blocks_of_process, resident_bytes)

  def __call__(self, variables: Variables) -> dict[str, float]:
    """Returns {'accuracy': share of the data that the weights classify correctly}.

    All processes must call this method. Each evaluates a part, and all get the same result.
    """
    local = own_copy(variables)  # an evaluation uses the devices of one process only
    results = self.evaluator.shards_of_blocks(self._blocks, self._layout, variables=local)
    # the rank of a label is the number of classes with a larger logit
    num_correct = sum(int((columns['rank'] == 0).sum()) for _, _, columns in results)
    # the number of every process, as a text
    counts = exchange(f'the evaluation of {self.evaluator.name}', str(num_correct))
    return {'accuracy': sum(map(int, counts)) / self.rows.num_examples}

  def _blocks_of_process(self) -> Iterator[BlockOnDevices]:
    """Yields the batches of this process on its devices: every n-th batch of n processes."""
    numbers = range(jax.process_index(), self._layout.num_blocks, jax.process_count())
    if numbers:  # there may be fewer blocks than processes
      yield from self.evaluator.blocks_on_devices(self.rows, self._layout, numbers)


class CachedBlocks:
  """Batches of data on the devices, to iterate over again and again.

  If all batches take at most `max_bytes`, summed over the devices, they stay on the devices after
  the first iteration. Otherwise they are read again each time.
  """

  def __init__(self, read: Callable[[], Iterator[BlockOnDevices]], max_bytes: int):
    """Prepares an empty cache.

    Args:
      read: function that reads all batches and copies them to the devices.
      max_bytes: total size up to which the batches stay on the devices.
    """
    self._read, self._max_bytes = read, max_bytes
    self._cache: list[BlockOnDevices] = []

  def __iter__(self) -> Iterator[BlockOnDevices]:
    """Yields the batches of an evaluation, on the devices; the first pass may cache them there.

    They are cached if all of them fit into `_max_bytes`. Otherwise each pass reads them again.
    """
    if self._cache:
      yield from self._cache
      return
    blocks: list[BlockOnDevices] = []
    bytes_left = self._max_bytes
    for block in self._read():
      bytes_left -= block.nbytes
      if bytes_left >= 0:
        blocks.append(block)
      else:
        blocks.clear()  # frees the devices' memory: all blocks stay or none
      yield block
    if bytes_left >= 0:
      self._cache = blocks


def split_validation(rows: Rows, share: float) -> tuple[np.ndarray, np.ndarray]:
  """Splits data into training and validation; returns the row indices of each.

  Rows that belong together are not separated: frames of a video clip, versions of an image (for
  example corrupted ones), and rows with the same `group_id`.

  Args:
    rows: the data.
    share: fraction of rows for validation, in [0, 1).

  Raises:
    InputError: The data have versions of images, and are too many to read all columns.
  """
  if not share:
    return held_out(rows.num_examples, share, None)
  # versions of an image must not be separated: raises InputError if columns cannot be read
  columns = rows.without_images() if 'base_images' in rows.description else columns_of(rows)
  # the group or base image of each row; None if rows have neither, and each is split by itself
  groups = columns.get(GROUP, columns.get(BASE))
  # frames of video have both columns, with integers (dtype kinds i and u) as numbers of clips
  if {GROUP, OFFSET} <= columns.keys() and columns[GROUP].dtype.kind in 'iu':
    groups = clip_numbers(columns)
  return held_out(rows.num_examples, share, groups)


def columns_of(rows: Rows) -> Mapping[str, np.ndarray]:
  """Returns the columns of the data without images; {} for data that are only streamed."""
  try:
    return rows.without_images()
  except InputError:
    return {}
