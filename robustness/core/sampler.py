"""Orders of training rows, and the split into training and validation rows.

The row at position p of the endless sequence depends only on (seed, p). Any step of any process can
therefore be computed directly, and tf.data, arrays and devices read the same order.
"""

import abc
import functools
from collections.abc import Callable, Sequence

import numpy as np

from robustness.core.settings import require

EPOCH = 'epoch'
"""Column of training rows with the number of completed epochs."""
_HELD_OUT = 0x4E1D
"""Seed of the validation rows that `held_out` chooses; it is the same in all trainings."""
_BALANCED = 0xBA1A
"""Constant in the seeds of `Balanced`, which makes its random numbers differ from `Epochs`'."""
_BLOCKS_PER_DRAW = 1024
"""Number of blocks of `Balanced` for which orders are drawn together."""


class Sampler(abc.ABC):
  """Protocol of an endless sequence of rows for training."""

  @abc.abstractmethod
  def positions(self, begin: int, end: int) -> np.ndarray:
    """Returns the rows at positions [begin, end) of the sequence, int64 in [0, N)."""

  def columns(self, begin: int, end: int) -> dict[str, np.ndarray]:
    """Returns columns that the sampler adds to the rows at positions [begin, end) of the sequence.

    They are {name: values [end − begin]}, such as the number of the epoch; {} by default.
    """
    del begin, end
    return {}


def share_of_batch(step: int, batch_size: int, share: tuple[int, int] = (0, 1)) -> tuple[int, int]:
  """Returns (begin, end): the positions in a sampler's sequence that one process reads in a step.

  The global batch of step s has the positions [s·batch_size, (s + 1)·batch_size), so that it may
  span two epochs; each process reads a share of it.

  Args:
    step: number of the step, from 0.
    batch_size: size of the global batch.
    share: (k, n): share number k, from 0, of n contiguous shares.
  """
  process, processes = share
  require(batch_size >= 1, 'batch_size', batch_size, 'at least 1')
  require(0 <= process < processes, 'share', share, '(k, n) with k in 0..n − 1')
  valid = f'a multiple of the {processes} processes'
  require(batch_size % processes == 0, 'config.training.batch_size', batch_size, valid)
  size = batch_size // processes
  begin = step * batch_size + process * size
  return begin, begin + size


def _elements_of_pieces(
  piece: Callable[[int], np.ndarray], size: int, begin: int, end: int
) -> np.ndarray:
  """Returns the elements [begin, end) of an endless sequence that consists of pieces of a size.

  `piece` returns the `size` elements of the piece of a number, from 0.
  """
  # the pieces that overlap [begin, end); one for an empty range, which gives the type and shape
  numbers = range(begin // size, max(begin, end - 1) // size + 1)
  parts = [piece(k)[max(begin - k * size, 0) : end - k * size] for k in numbers]
  return np.concatenate(parts)


class Epochs(Sampler):
  """A sequence of epochs; every epoch is a random permutation of all rows.

  Attributes:
    num_examples: number N of rows.
    seed: seed that, with the epoch's number, determines the permutation.
  """

  def __init__(self, num_examples: int, seed: int, stream: tuple[int, ...] = ()):
    """Begins a sequence over N rows.

    Args:
      num_examples: number N of rows.
      seed: seed of the permutations.
      stream: further seeds, which make sequences with one `seed` independent.
    """
    require(num_examples >= 1, 'num_examples', num_examples, 'at least 1')
    require(seed >= 0, 'seed', seed, 'at least 0')
    self.num_examples, self.seed = num_examples, seed
    self._stream = stream
    self._order = functools.lru_cache(maxsize=2)(self._permutation)

  def _permutation(self, epoch: int) -> np.ndarray:
    """Returns the permutation of the rows in an epoch, int64 [N]."""
    key = (self.seed, epoch, *self._stream)
    return np.random.default_rng(key).permutation(self.num_examples)

  def positions(self, begin: int, end: int) -> np.ndarray:
    """Returns the rows at positions [begin, end) of the sequence, int64 in [0, N)."""
    return _elements_of_pieces(self._order, self.num_examples, begin, end)

  def columns(self, begin: int, end: int) -> dict[str, np.ndarray]:
    """Returns {'epoch': number of completed epochs at positions [begin, end), int32}."""
    return {EPOCH: (np.arange(begin, end) // self.num_examples).astype(np.int32)}


class Balanced(Sampler):
  """A sequence in which every block of G consecutive positions has one row of each of G groups.

  The order of the groups is random in every block. Each group has separate epochs, random
  permutations of its rows, so that rows of small groups are more frequent.
  """

  def __init__(self, groups: Sequence[np.ndarray], seed: int, column: str = ''):
    """Begins a sequence over G groups of rows.

    Args:
      groups: the rows of each of G groups, int64; groups may overlap.
      seed: seed of the orders.
      column: name of the column with the group that each row was drawn for, in [0, G); '' for no
        column.
    """
    self._groups, self._column, self._seed = [np.asarray(g) for g in groups], column, seed
    # a sequence for each group; `stream` makes them independent
    self._epochs = [Epochs(len(g), seed, stream=(_BALANCED, k)) for k, g in enumerate(groups)]
    self._cached_orders = functools.lru_cache(maxsize=2)(self._draw_orders)

  def _draw_orders(self, number: int) -> np.ndarray:
    """Returns random orders of the G groups in B = `_BLOCKS_PER_DRAW` blocks, int [B, G].

    They are the blocks number · B, ..., (number + 1) · B − 1 of the sequence.
    """
    ascending = np.tile(np.arange(len(self._groups)), (_BLOCKS_PER_DRAW, 1))
    return np.random.default_rng((_BALANCED, self._seed, number)).permuted(ascending, axis=1)

  def _orders(self, first: int, last: int) -> np.ndarray:
    """Returns the random order of the groups in each of the blocks [first, last).

    A block is G consecutive positions of the sequence, with one row of each group: an order
    [2, 0, 1] says that the first row is of group 2. The result is int [last − first, G].
    """
    return _elements_of_pieces(self._cached_orders, _BLOCKS_PER_DRAW, first, last)

  def _blocks(self, begin: int, end: int) -> tuple[int, int, slice]:
    """Returns the blocks that contain the positions [begin, end) of the sequence.

    Block k has the positions k·G, ..., (k + 1)·G − 1, where G is the number of groups.

    Returns:
      (first, last, within): the blocks are [first, last), and the slice `within` cuts their
      positions, counted from the start of block `first`, to [begin, end).
    """
    count = len(self._groups)
    first, last = begin // count, -(-end // count)  # rounded down, rounded up
    return first, last, slice(begin - first * count, end - first * count)

  def positions(self, begin: int, end: int) -> np.ndarray:
    """Returns the rows at positions [begin, end) of the sequence, int64."""
    first, last, within = self._blocks(begin, end)
    # block k has the k-th row of the sequence of each group
    rows = [
      group[epochs.positions(first, last)]
      for group, epochs in zip(self._groups, self._epochs, strict=True)
    ]
    by_group = np.stack(rows, 1)  # [blocks, G], in the order of the groups
    in_order = np.take_along_axis(by_group, self._orders(first, last), 1)  # [blocks, G]
    return in_order.ravel()[within]

  def columns(self, begin: int, end: int) -> dict[str, np.ndarray]:
    """Returns {name: number of the group of each row, int32 [end − begin]}.

    They are the rows at positions [begin, end) of the sequence; a row that is in several groups has
    the one that it was drawn for. The name is the `column` of the constructor; without one the
    result is {}.
    """
    if not self._column:
      return {}
    first, last, within = self._blocks(begin, end)
    groups = self._orders(first, last).ravel()  # of all positions in the blocks
    return {self._column: groups[within].astype(np.int32)}


def held_out(
  num_examples: int, share: float, units: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the positions of the rows for training and for validation, int64, both ascending.

  The choice depends only on the arguments, so that trainings with different seeds are validated on
  the same rows.

  Args:
    num_examples: number N of rows.
    share: fraction of the rows for validation, rounded to whole rows or units.
    units: integers [N], equal for rows that must be on the same side, such as the frames of a clip;
      None allows any split of the rows.

  Raises:
    InputError: one side would be empty although `share` is not 0.
  """
  count = round(share * num_examples)
  unit = np.arange(num_examples) if units is None else np.unique(units, return_inverse=True)[1]
  sizes = np.bincount(unit, minlength=1)  # rows of each unit
  can_divide = 0 < count < num_examples and len(sizes) > 1
  in_units = '' if units is None else f' in {len(sizes)} units, such as clips,'
  valid = f'0, or a share of the {num_examples} training rows{in_units} that leaves at least one on'
  require(share == 0 or can_divide, 'config.training.validation', share, f'{valid} either side')
  if share == 0:
    return np.arange(num_examples), np.arange(0)
  order = np.random.default_rng(_HELD_OUT).permutation(len(sizes))
  num_rows = np.cumsum(sizes[order])  # of the first unit, the first two units, ...
  # the first units that have nearest to `count` rows are for validation, but never all units
  # ([:-1]), because training needs at least one
  num_units = 1 + int(np.argmin(np.abs(num_rows[:-1] - count)))
  is_held_out = np.isin(unit, order[:num_units])
  return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)
