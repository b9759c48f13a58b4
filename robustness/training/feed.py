"""How rows reach the step: read on the host a few steps ahead, or held on the devices.

Both ways give a step the same rows in the same order with the same bits, so that the weights are
the same; only the work of the host differs.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping

import jax
import numpy as np

from robustness.core.rows import ArrayRows
from robustness.parallel import Parallel
from robustness.parallel.mesh import REPLICATED
from robustness.training.training import Training, check_batch

AHEAD = 2
POSITION = 'position'
Columns = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class Feed:
  """What the steps of a training are given.

  Attributes:
    steps: yields what the steps from one to the last are given, on the devices; raises InputError
      for a batch that does not fit the training.
    resident: what every step is given beside that: the columns of all rows, [N, ...], on every
      device, or nothing.
  """

  steps: Callable[[int], Iterator[Columns]]
  resident: Columns = dataclasses.field(default_factory=dict)

  def rows(self, resident: Columns, batch: Columns) -> Columns:
    """Returns the rows of a step, inside the compiled step."""
    if not self.resident:
      return batch
    columns = dict(batch)
    positions = columns.pop(POSITION)
    gathered = {
      name: value.at[positions].get(mode='promise_in_bounds') for name, value in resident.items()
    }
    return {**gathered, **columns}


def open_feed(training: Training, parallel: Parallel, begin: int) -> Feed:
  """Returns the way that pays: rows are held on the devices where they are few and read again.

  That is where no other process shares the batch, where `config.training.resident_bytes` has room
  for the rows on every device of a CPU, or on one accelerator, and where at least one epoch is left
  from step `begin` on.

  Raises:
    InputError: rows to be held that do not fit the training.
  """
  left = (training.total_steps - begin) * training.settings.batch_size
  copies = parallel.num_devices if jax.default_backend() == 'cpu' else 1
  if parallel.share[1] == 1 and left >= training.num_examples:
    arrays = training.arrays(training.settings.resident_bytes // copies)
    if arrays is not None:
      return _resident(training, parallel, arrays)
  return _streamed(training, parallel)


def _streamed(training: Training, parallel: Parallel) -> Feed:
  """Batches of the reader, checked one by one and placed `AHEAD` steps before they are needed."""

  def steps(begin: int) -> Iterator[Columns]:
    source = iter(training.batches(training.settings.batch_size, training.seed, begin))
    left = itertools.islice(source, training.total_steps - begin)
    return ahead((parallel.put_batch(_checked(training, batch)) for batch in left), AHEAD)

  return Feed(steps)


def _resident(training: Training, parallel: Parallel, arrays: ArrayRows) -> Feed:
  """All rows on every device, checked once; a step gets positions, and what the sampler says of
  these, and gathers its rows."""
  columns = _checked(training, {'image': np.asarray(arrays.images), **arrays.without_images()})
  place = parallel.compile(lambda tree: tree, (REPLICATED,), REPLICATED)
  order, size = training.order, training.settings.batch_size

  def batch(step: int) -> dict[str, np.ndarray]:
    return {POSITION: order.batch(step, size).astype(np.int32), **order.batch_columns(step, size)}

  def steps(begin: int) -> Iterator[Columns]:
    left = range(begin, training.total_steps)
    return ahead((parallel.put_batch(batch(step)) for step in left), AHEAD)

  return Feed(steps, place(parallel.replicate(columns)))


def _checked(training: Training, batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
  columns = check_batch(dict(batch), training.image_shape, training.num_classes)
  training.check_columns(columns)
  return columns


def ahead(source: Iterator[Columns], count: int) -> Iterator[Columns]:
  """Yields what `source` does, taken `count` elements before it is needed."""
  waiting = collections.deque(itertools.islice(source, count))
  while waiting:
    yield waiting.popleft()
    waiting.extend(itertools.islice(source, 1))
