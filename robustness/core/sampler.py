"""Which rows a training reads, and in which order.

A sampler is decided before anything is read: position p of the endless sequence of rows is a pure
function of (seed, p), so that any step, of any process, can be reached at once, and a tf.data
pipeline, arrays and a device read the same rows in the same order.
"""

from __future__ import annotations

import functools

import numpy as np

from robustness.core.settings import require

_HELD_OUT = 0x4E1D  # the random stream of `held_out`


class Epochs:
  """Epochs laid end to end, each a permutation of all rows: every row once an epoch.

  Attributes:
    num_examples: rows N of an epoch.
    seed: with the epoch's number it fixes the epoch's order.
  """

  def __init__(self, num_examples: int, seed: int):
    """Checks the arguments.

    Raises:
      InputError: no rows, or a negative seed.
    """
    require(num_examples >= 1, 'num_examples', num_examples, 'at least 1')
    require(seed >= 0, 'seed', seed, 'at least 0')
    self.num_examples, self.seed = num_examples, seed
    self._order = functools.lru_cache(maxsize=2)(self._permutation)

  def _permutation(self, epoch: int) -> np.ndarray:
    return np.random.default_rng((self.seed, epoch)).permutation(self.num_examples)

  def positions(self, begin: int, end: int) -> np.ndarray:
    """Returns the rows at positions [begin, end) of the sequence, int64 in [0, N)."""
    epochs = range(begin // self.num_examples, -(-end // self.num_examples))
    parts = []
    for epoch in epochs:
      low = epoch * self.num_examples
      order = self._order(epoch)
      parts.append(order[max(begin - low, 0) : min(end - low, self.num_examples)])
    return np.concatenate([np.zeros(0, np.int64), *parts])

  def batch(self, step: int, batch_size: int, process: int = 0, processes: int = 1) -> np.ndarray:
    """Returns a process's contiguous share of the batch of a step, int64 [batch_size / processes].

    Step s holds positions [s·batch_size, (s + 1)·batch_size), so that a batch may hold the end of
    one epoch and the beginning of the next.

    Raises:
      InputError: no batch, one that does not divide over the processes, or no such process.
    """
    require(batch_size >= 1, 'batch_size', batch_size, 'at least 1')
    require(0 <= process < processes, 'process_index', process, f'in 0..{processes - 1}')
    require(
      batch_size % processes == 0,
      'config.training.batch_size',
      batch_size,
      f'a multiple of the {processes} processes',
    )
    share = batch_size // processes
    begin = step * batch_size + process * share
    return self.positions(begin, begin + share)


def held_out(num_examples: int, share: float) -> tuple[np.ndarray, np.ndarray]:
  """Returns the rows to train on and those to validate on, each ascending int64 positions.

  The choice depends on the two numbers alone, so that trainings with several seeds are validated on
  the same rows.

  Args:
    num_examples: rows there are.
    share: of them that is held out, rounded to rows.

  Raises:
    InputError: none would be held out, or none left.
  """
  count = round(share * num_examples)
  require(
    not share or 0 < count < num_examples,
    'config.training.validation',
    share,
    f'0, or a share of the {num_examples} training rows that leaves at least one on either side',
  )
  order = np.random.default_rng(_HELD_OUT).permutation(num_examples)
  return np.sort(order[count:]), np.sort(order[:count])
