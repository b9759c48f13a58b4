"""Which rows a training reads, and in which order.

Position p of the endless sequence of rows is a pure function of (seed, p), so that any step, of any
process, can be reached at once, and tf.data, arrays and a device read the same order.
"""

import abc
import functools
from collections.abc import Sequence

import numpy as np

from robustness.core.settings import require

EPOCH = 'epoch'
"""The column of training rows that counts the epochs before."""
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


def share_of_batch(step: int, batch_size: int, share: tuple[int, int] = (0, 1)) -> tuple[int, int]:
  """Returns the positions [begin, end) of the k-th of n contiguous shares (k, n) of a step's batch.

  Step s holds positions [s·batch_size, (s + 1)·batch_size), so that a batch may span two epochs.
  """
  process, processes = share
  require(batch_size >= 1, 'batch_size', batch_size, 'at least 1')
  require(0 <= process < processes, 'share', share, '(k, n) with k in 0..n − 1')
  valid = f'a multiple of the {processes} processes'
  require(batch_size % processes == 0, 'config.training.batch_size', batch_size, valid)
  size = batch_size // processes
  begin = step * batch_size + process * size
  return begin, begin + size


class Epochs(Sampler):
  """Epochs laid end to end, each a permutation of all rows: every row once an epoch.

  Attributes:
    num_examples: rows N of an epoch.
    seed: with the epoch's number it fixes the epoch's order.
  """

  def __init__(self, num_examples: int, seed: int, stream: tuple[int, ...] = ()):
    """Checks the arguments; `stream` tells sequences of one seed apart."""
    require(num_examples >= 1, 'num_examples', num_examples, 'at least 1')
    require(seed >= 0, 'seed', seed, 'at least 0')
    self.num_examples, self.seed = num_examples, seed
    self._stream = stream
    self._order = functools.lru_cache(maxsize=2)(self._permutation)

  def _permutation(self, epoch: int) -> np.ndarray:
    key = (self.seed, epoch, *self._stream)
    return np.random.default_rng(key).permutation(self.num_examples)

  def positions(self, begin: int, end: int) -> np.ndarray:
    """See `Sampler`."""
    size = self.num_examples
    epochs = range(begin // size, -(-end // size))
    parts = [self._order(k)[max(begin - k * size, 0) : end - k * size] for k in epochs]
    return np.concatenate([np.zeros(0, np.int64), *parts])

  def columns(self, begin: int, end: int) -> dict[str, np.ndarray]:
    """See `Sampler`; how many epochs are over before each position, int32."""
    return {EPOCH: (np.arange(begin, end) // self.num_examples).astype(np.int32)}


class Balanced(Sampler):
  """Every group of rows equally often: each G positions in a row hold each of G groups once.

  Their order is drawn again every G positions. The rows of a group follow one another in epochs of
  the group, so that rows of small groups come more often.
  """

  def __init__(self, groups: Sequence[np.ndarray], seed: int, column: str = ''):
    """Takes the rows of each of G groups, int64 positions, in which a row may be in several.

    `columns` says under the name `column`, if any, for which group a row was drawn.
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
  the same rows. The share is rounded to rows, or to whole units: integers [N], equal for rows that
  stay on one side, such as the frames of a clip.
  """
  count = round(share * num_examples)
  of_row = np.arange(num_examples) if units is None else np.unique(units, return_inverse=True)[1]
  sizes = np.bincount(of_row, minlength=1)
  together = '' if units is None else f' in {len(sizes)} units, such as clips,'
  possible = not share or (0 < count < num_examples and len(sizes) > 1)
  some = f'a share of the {num_examples} training rows{together} that leaves at least one on'
  require(possible, 'config.training.validation', share, f'0, or {some} either side')
  order = np.random.default_rng(_HELD_OUT).permutation(len(sizes))
  ends = np.cumsum(sizes[order])
  taken = 1 + int(np.argmin(np.abs(ends[:-1] - count))) if share else 0
  held = np.isin(of_row, order[:taken])
  return np.flatnonzero(~held), np.flatnonzero(held)
