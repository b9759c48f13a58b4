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
  """Base class for the order of rows in training: an endless sequence with random access."""

  @abc.abstractmethod
  def positions(self, begin: int, end: int) -> np.ndarray:
    """Returns the elements [begin, end) of the sequence, which are row indices, int64."""

  def columns(self, begin: int, end: int) -> dict[str, np.ndarray]:
    """Returns further columns for the elements [begin, end) of the sequence.

    The result is {name: values [end − begin]}, such as the number of the epoch, and {} by default.
    """
    return {}


def share_of_batch(step: int, batch_size: int, share: tuple[int, int] = (0, 1)) -> tuple[int, int]:
  """Returns the range (begin, end) of a sampler's sequence that one process reads in a step.

  The global batch of step s is the range [s·batch_size, (s + 1)·batch_size). Each process reads a
  contiguous share of it.

  Args:
    step: number of the step, from 0.
    batch_size: size of the global batch.
    share: (k, n) for process k of n, with k from 0.
  """
  process, processes = share
  require(batch_size >= 1, 'batch_size', batch_size, 'at least 1')
  require(0 <= process < processes, 'share', share, '(k, n) with k in 0..n − 1')
  valid = f'a multiple of the {processes} processes'
  require(batch_size % processes == 0, 'config.training.batch_size', batch_size, valid)
  size = batch_size // processes
  begin = step * batch_size + process * size
  return begin, begin + size


def _elements(part: Callable[[int], np.ndarray], size: int, begin: int, end: int) -> np.ndarray:
  """Returns the elements [begin, end) of an endless sequence that is computed part by part.

  Args:
    part: function that is called with k = 0, 1, ... and returns elements [k·size, (k + 1)·size).
    size: number of elements of each part.
    begin: index of the first element.
    end: index after the last element.
  """
  pieces = []
  # the parts that overlap [begin, end); one for an empty range, as the result has its type
  for number in range(begin // size, max(begin, end - 1) // size + 1):
    start = number * size  # index of the first element of the part
    pieces.append(part(number)[max(begin - start, 0) : end - start])
  return np.concatenate(pieces)


class Epochs(Sampler):
  """A sequence of epochs, each a random permutation of all rows.

  Attributes:
    num_examples: number N of rows.
    seed: seed of the permutations.
  """

  def __init__(self, num_examples: int, seed: int, stream: tuple[int, ...] = ()):
    """Creates the sequence for N rows.

    Args:
      num_examples: number N of rows.
      seed: seed of the permutations.
      stream: further seeds. Sequences with the same `seed` and different streams are independent.
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
    """Returns the elements [begin, end) of the sequence, which are row indices, int64 in [0, N)."""
    return _elements(self._order, self.num_examples, begin, end)

  def columns(self, begin: int, end: int) -> dict[str, np.ndarray]:
    """Returns {'epoch': number of completed epochs for the elements [begin, end), int32}."""
    return {EPOCH: (np.arange(begin, end) // self.num_examples).astype(np.int32)}


class Balanced(Sampler):
  """A sequence that draws from each of G groups of rows equally often.

  Each block of G consecutive elements contains one row of each group, in random order. A group is
  permuted again when all its rows were drawn. Rows of small groups are therefore drawn more often.
  """

  def __init__(self, groups: Sequence[np.ndarray], seed: int, column: str = ''):
    """Creates the sequence for G groups of rows.

    Args:
      groups: indices of the rows of each group, int64. Groups may overlap.
      seed: seed of the random orders.
      column: name of a column with the number of each drawn row's group, in [0, G). '' adds no
        column.
    """
    self._groups, self._column, self._seed = [np.asarray(g) for g in groups], column, seed
    # a sequence of rows for each group; `stream` makes them independent
    self._epochs = [Epochs(len(g), seed, stream=(_BALANCED, k)) for k, g in enumerate(groups)]
    self._cached_draw = functools.lru_cache(maxsize=2)(self._draw_group_numbers)

  def _draw_group_numbers(self, number: int) -> np.ndarray:
    """Returns the group numbers in B = `_BLOCKS_PER_DRAW` successive blocks of the sequence.

    They are int [BG]. Each block has the group numbers 0, ..., G − 1 in a random order.

    Args:
      number: index k of the draw, for the blocks kB, ..., (k + 1)B − 1.
    """
    ascending = np.tile(np.arange(len(self._groups)), (_BLOCKS_PER_DRAW, 1))
    rng = np.random.default_rng((_BALANCED, self._seed, number))
    return rng.permuted(ascending, axis=1).ravel()

  def _group_numbers(self, begin: int, end: int) -> np.ndarray:
    """Returns the group numbers of the elements [begin, end) of the sequence, int [end − begin]."""
    return _elements(self._cached_draw, _BLOCKS_PER_DRAW * len(self._groups), begin, end)

  def positions(self, begin: int, end: int) -> np.ndarray:
    """Returns the elements [begin, end) of the sequence, which are row indices, int64.

    The sequence is made of blocks. A block has one row of each group, in random order. The rows of
    a group come from its own shuffled sequence, which `self._epochs` holds.

    Args:
      begin: index of the first element.
      end: index after the last element.
    """
    num_groups = len(self._groups)  # and elements of a block
    first_block, last_block = begin // num_groups, (end - 1) // num_groups
    # block k has row k of the sequence of each group
    rows_of_groups = [
      group[epochs.positions(first_block, last_block + 1)]
      for group, epochs in zip(self._groups, self._epochs, strict=True)
    ]
    blocks = np.arange(begin, end) // num_groups  # block of each element
    groups = self._group_numbers(begin, end)  # group of each element
    return np.asarray(np.stack(rows_of_groups)[groups, blocks - first_block])

  def columns(self, begin: int, end: int) -> dict[str, np.ndarray]:
    """Returns the group numbers of the elements [begin, end) of the sequence as a column.

    The result is {column: group numbers, int32 [end − begin]}, or {} if the column has no name.
    """
    if not self._column:
      return {}
    return {self._column: self._group_numbers(begin, end).astype(np.int32)}


def held_out(
  num_examples: int, share: float, units: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
  """Splits rows into training and validation and returns the indices of both, int64, ascending.

  The split depends only on the arguments. Trainings with different seeds are therefore validated on
  the same rows.

  Args:
    num_examples: number N of rows.
    share: fraction of the rows for validation, rounded to whole rows, or to whole units if given.
    units: integers [N], equal for rows that must stay together, such as the frames of a clip. None
      allows any split.

  Raises:
    InputError: one side would be empty although `share` is not 0.
  """
  count = round(share * num_examples)
  rows_together = np.arange(num_examples) if units is None else units
  _, unit = np.unique(rows_together, return_inverse=True)  # number of each row's unit, [N]
  unit_sizes = np.bincount(unit, minlength=1)  # rows of each unit, [units]
  can_divide = 0 < count < num_examples and len(unit_sizes) > 1
  in_units = '' if units is None else f' in {len(unit_sizes)} units, such as clips,'
  rows = f'the {num_examples} training rows{in_units}'
  valid = f'0, or a share of {rows} that leaves at least one on either side'
  require(share == 0 or can_divide, 'config.training.validation', share, valid)
  if share == 0:
    return np.arange(num_examples), np.arange(0)
  order = np.random.default_rng(_HELD_OUT).permutation(len(unit_sizes))
  num_rows = np.cumsum(unit_sizes[order])  # of the first unit, the first two units, ...
  # the first units that have nearest to `count` rows are for validation, but never all units
  # ([:-1]), because training needs at least one
  num_units = 1 + int(np.argmin(np.abs(num_rows[:-1] - count)))
  is_held_out = np.isin(unit, order[:num_units])
  return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)
