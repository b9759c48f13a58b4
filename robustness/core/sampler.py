"""Which rows a training reads, and in which order.

A sampler is decided before anything is read: position p of the endless sequence of rows is a pure
function of (seed, p), so that any step, of any process, can be reached at once, and a tf.data
pipeline, arrays and a device read the same rows in the same order.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Sequence

import numpy as np

from robustness.core.settings import require

_HELD_OUT = 0x4E1D  # the random stream of `held_out`
_BALANCED = 0xBA1A  # the random stream of `Balanced`
_BLOCKS = 1024  # of `Balanced`, whose orders are drawn together


class Sampler(abc.ABC):
  """The endless sequence of rows."""

  @abc.abstractmethod
  def positions(self, begin: int, end: int) -> np.ndarray:
    """Returns the rows at positions [begin, end) of the sequence, int64 in [0, N)."""

  def columns(self, begin: int, end: int) -> dict[str, np.ndarray]:
    """Returns what the sampler says of positions [begin, end), [end − begin] each."""
    del begin, end
    return {}

  def batch(self, step: int, batch_size: int, process: int = 0, processes: int = 1) -> np.ndarray:
    """Returns the rows of a process's share of a batch, int64 [batch_size / processes].

    Raises:
      InputError: see `share_of_batch`.
    """
    return self.positions(*share_of_batch(step, batch_size, process, processes))

  def batch_columns(
    self, step: int, batch_size: int, process: int = 0, processes: int = 1
  ) -> dict[str, np.ndarray]:
    """Returns `columns` of the rows that `batch` gives."""
    return self.columns(*share_of_batch(step, batch_size, process, processes))


def share_of_batch(step: int, batch_size: int, process: int, processes: int) -> tuple[int, int]:
  """Returns the positions [begin, end) of a process's contiguous share of the batch of a step.

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
  return begin, begin + share


class Epochs(Sampler):
  """Epochs laid end to end, each a permutation of all rows: every row once an epoch.

  Attributes:
    num_examples: rows N of an epoch.
    seed: with the epoch's number it fixes the epoch's order.
  """

  def __init__(self, num_examples: int, seed: int, stream: tuple[int, ...] = ()):
    """Checks the arguments.

    Args:
      num_examples: see there.
      seed: see there.
      stream: tells sequences of one seed apart.

    Raises:
      InputError: no rows, or a negative seed.
    """
    require(num_examples >= 1, 'num_examples', num_examples, 'at least 1')
    require(seed >= 0, 'seed', seed, 'at least 0')
    self.num_examples, self.seed = num_examples, seed
    self._stream = stream
    self._order = functools.lru_cache(maxsize=2)(self._permutation)

  def _permutation(self, epoch: int) -> np.ndarray:
    key = (self.seed, epoch, *self._stream)
    return np.random.default_rng(key).permutation(self.num_examples)

  def positions(self, begin: int, end: int) -> np.ndarray:
    """Returns the rows at positions [begin, end) of the sequence, int64 in [0, N)."""
    epochs = range(begin // self.num_examples, -(-end // self.num_examples))
    parts = []
    for epoch in epochs:
      low = epoch * self.num_examples
      order = self._order(epoch)
      parts.append(order[max(begin - low, 0) : min(end - low, self.num_examples)])
    return np.concatenate([np.zeros(0, np.int64), *parts])


class Balanced(Sampler):
  """Every group of rows equally often: each G positions in a row hold each of G groups once.

  Their order is drawn anew every G positions. The rows of a group follow one another in epochs of
  its own, so that rows of small groups come more often. A batch of B rows holds ⌊B/G⌋ or ⌈B/G⌉ of a
  group, or one more or less where it begins and ends within G positions.
  """

  def __init__(self, groups: Sequence[np.ndarray], seed: int, column: str = ''):
    """Args:
      groups: rows of each of G groups, int64 positions; a row may be in several.
      seed: decides the order.
      column: the name under which `columns` tells for which group a row was drawn; '' for none.

    Raises:
      InputError: an empty group, or a negative seed.
    """
    self._groups, self._column, self._seed = [np.asarray(g) for g in groups], column, seed
    self._rows = [Epochs(len(g), seed, (_BALANCED, k)) for k, g in enumerate(groups)]
    self._orders = functools.lru_cache(maxsize=2)(self._drawn)

  def _drawn(self, number: int) -> np.ndarray:
    """Returns the order of the groups in `_BLOCKS` blocks, [_BLOCKS, G]."""
    ascending = np.tile(np.arange(len(self._groups)), (_BLOCKS, 1))
    return np.random.default_rng((_BALANCED, self._seed, number)).permuted(ascending, axis=1)

  def _blocks(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray, slice]:
    """Returns the blocks that hold positions [begin, end), their orders, and where these lie."""
    count = len(self._groups)
    first, last = begin // count, -(-end // count)
    drawn = [self._orders(k) for k in range(first // _BLOCKS, -(-last // _BLOCKS))]
    skipped = first // _BLOCKS * _BLOCKS
    orders = np.concatenate([np.zeros((0, count), int), *drawn])[first - skipped : last - skipped]
    return np.arange(first, last), orders, slice(begin - first * count, end - first * count)

  def positions(self, begin: int, end: int) -> np.ndarray:
    """See `Sampler`."""
    blocks, orders, own = self._blocks(begin, end)
    if not len(blocks):
      return np.zeros(0, np.int64)
    span = int(blocks[0]), int(blocks[-1]) + 1
    rows = [
      group[epochs.positions(*span)] for group, epochs in zip(self._groups, self._rows, strict=True)
    ]
    return np.take_along_axis(np.stack(rows, 1), orders, 1).ravel()[own]

  def columns(self, begin: int, end: int) -> dict[str, np.ndarray]:
    """See `Sampler`; the group of each position, int32."""
    if not self._column:
      return {}
    _, orders, own = self._blocks(begin, end)
    return {self._column: orders.ravel()[own].astype(np.int32)}


def held_out(
  num_examples: int, share: float, units: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the rows to train on and those to validate on, each ascending int64 positions.

  The choice depends on the arguments alone, so that trainings with several seeds are validated on
  the same rows.

  Args:
    num_examples: rows there are.
    share: of them that is held out, rounded to rows, or to whole units.
    units: integers [N], equal for rows that stay on one side, such as the frames of a clip; None
      where each row is a unit.

  Raises:
    InputError: none would be held out, or none left.
  """
  count = round(share * num_examples)
  of_row = np.arange(num_examples) if units is None else np.unique(units, return_inverse=True)[1]
  sizes = np.bincount(of_row, minlength=1)
  together = '' if units is None else f' in {len(sizes)} units, such as clips,'
  require(
    not share or (0 < count < num_examples and len(sizes) > 1),
    'config.training.validation',
    share,
    f'0, or a share of the {num_examples} training rows{together} that leaves at least one on '
    'either side',
  )
  order = np.random.default_rng(_HELD_OUT).permutation(len(sizes))
  ends = np.cumsum(sizes[order])
  taken = 1 + int(np.argmin(np.abs(ends[:-1] - count))) if share else 0
  held = np.isin(of_row, order[:taken])
  return np.flatnonzero(~held), np.flatnonzero(held)
