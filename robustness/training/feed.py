"""How rows reach the step: read on the host a few steps ahead, or held on the devices.

Both ways give a step the same rows in the same order with the same bits, so that the weights are
the same; only the work of the host differs.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from robustness.core.rows import ArrayRows
from robustness.parallel import Parallel
from robustness.parallel.mesh import REPLICATED
from robustness.training.training import Training, check_batch

AHEAD = 2
POSITION = 'position'


class StreamedFeed:
  """Batches of the reader, checked one by one and placed `AHEAD` steps before they are needed.

  Attributes:
    resident: what every step is given beside its batch; here nothing.
  """

  def __init__(self, training: Training, parallel: Parallel):
    """Args: training: gives `batches`; parallel: places them."""
    self._training, self._parallel = training, parallel
    self.resident: dict[str, jax.Array] = {}

  def steps(self, begin: int) -> Iterator[Any]:
    """Yields what the steps from `begin` to the last are given, placed on the devices.

    Raises:
      InputError: a batch that does not fit the training.
    """
    training = self._training
    source = iter(training.batches(training.settings.batch_size, training.seed, begin))
    left = itertools.islice(source, training.total_steps - begin)
    return ahead((self._placed(batch) for batch in left), AHEAD)

  @staticmethod
  def rows(resident: dict[str, jax.Array], batch: dict[str, jax.Array]) -> dict[str, jax.Array]:
    """Returns the rows of a step, inside the compiled step."""
    del resident
    return batch

  def _placed(self, batch: dict[str, Any]) -> Any:
    training = self._training
    columns = check_batch(batch, training.image_shape, training.num_classes)
    training.check_columns(columns)
    return self._parallel.put_batch(columns)


class ResidentFeed:
  """All rows on every device; a step gets positions and gathers its rows.

  What the sampler says of a position comes with it.

  Attributes:
    resident: the columns of all rows, [N, ...], on every device.
  """

  def __init__(self, training: Training, parallel: Parallel, arrays: ArrayRows):
    """Checks all rows once and places them.

    Args:
      training: gives the order of the rows and what they must be.
      parallel: places them.
      arrays: all rows.

    Raises:
      InputError: rows that do not fit the training.
    """
    self._training, self._parallel = training, parallel
    rows = {'image': np.asarray(arrays.images), **arrays.without_images()}
    columns = check_batch(rows, training.image_shape, training.num_classes)
    training.check_columns(columns)
    place = parallel.compile(lambda tree: tree, (REPLICATED,), REPLICATED)
    self.resident: dict[str, jax.Array] = place(parallel.replicate(columns))

  def steps(self, begin: int) -> Iterator[Any]:
    """Yields `POSITION`, int32 [B], and the sampler's columns of each step, on the devices."""
    training = self._training
    order, size = training.order, training.settings.batch_size

    def chosen(step: int) -> dict[str, np.ndarray]:
      return {POSITION: order.batch(step, size).astype(np.int32), **order.batch_columns(step, size)}

    steps = range(begin, training.total_steps)
    return ahead((self._parallel.put_batch(chosen(step)) for step in steps), AHEAD)

  @staticmethod
  def rows(resident: dict[str, jax.Array], chosen: dict[str, jax.Array]) -> dict[str, jax.Array]:
    """Returns the rows of a step, inside the compiled step."""
    columns = dict(chosen)
    positions = columns.pop(POSITION)
    gathered = {
      name: value.at[positions].get(mode='promise_in_bounds') for name, value in resident.items()
    }
    return {**gathered, **columns}


def open_feed(training: Training, parallel: Parallel, begin: int) -> StreamedFeed | ResidentFeed:
  """Returns the way that pays: rows are held on the devices where they are few and read again.

  That is where no other process shares the batch, where `config.training.resident_bytes` has room
  for the rows on every device of a CPU, or on one accelerator, and where at least one epoch is left
  from step `begin` on.
  """
  left = (training.total_steps - begin) * training.settings.batch_size
  copies = parallel.num_devices if jax.default_backend() == 'cpu' else 1
  if parallel.share[1] == 1 and left >= training.num_examples:
    arrays = training.arrays(training.settings.resident_bytes // copies)
    if arrays is not None:
      return ResidentFeed(training, parallel, arrays)
  return StreamedFeed(training, parallel)


def ahead(source: Iterator[Any], count: int) -> Iterator[Any]:
  """Yields what `source` does, taken `count` elements before it is needed."""
  waiting = collections.deque(itertools.islice(source, count))
  while waiting:
    yield waiting.popleft()
    waiting.extend(itertools.islice(source, 1))
