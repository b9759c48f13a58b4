"""Maps over rows in which each row computes only one branch of a `lax.switch`.

Under `vmap`, a `lax.switch` with different indices in different rows computes all branches for
every row. Here rows are processed in sequence, or sorted by branch.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from robustness.core.typing import PyTree

T = TypeVar('T')


@dataclasses.dataclass(frozen=True, eq=False)
class SequentialRow(Mapping[str, jax.Array]):
  """One row in a loop over N rows: a mapping {column name: value of the row}.

  A value is copied out of its column when it is accessed. A function that needs only a small part
  of a large value should call `column_and_position(row, name)`, which returns the whole column and
  the row's position in it without a copy.

  Attributes:
    columns: {name: values of all N rows, [N, ...]}.
    index: position of the row in [0, N), which may be traced.
  """

  columns: Mapping[str, jax.Array]
  index: ArrayLike

  def __getitem__(self, name: str) -> jax.Array:
    """Returns the value of a column in this row, [...]."""
    column: jax.Array = jax.lax.dynamic_index_in_dim(self.columns[name], self.index, keepdims=False)
    return column

  def __iter__(self) -> Iterator[str]:
    return iter(self.columns)

  def __len__(self) -> int:
    return len(self.columns)


def column_and_position(row: Mapping[str, jax.Array], name: str) -> tuple[jax.Array, ArrayLike]:
  """Returns the column `name` of all N rows, [N, ...], and the position of `row` among them.

  Nothing is copied. For a row that is no `SequentialRow`, N is 1.
  """
  if isinstance(row, SequentialRow):
    return row.columns[name], row.index
  return row[name][None], 0


def map_rows(function: Callable[..., T], rows: Mapping[str, jax.Array], view: PyTree) -> T:
  """Returns the results of `function(row, view)` for every row, computed in sequence and stacked.

  `rows` are columns [N, ...], from which each row is passed as a `SequentialRow`; `view` is the
  same for all rows.
  """
  num_rows = len(next(iter(rows.values())))
  stacked: T = jax.lax.map(lambda i: function(SequentialRow(rows, i), view), jnp.arange(num_rows))
  return stacked


def map_entries(function: Callable[..., T], *trees: PyTree) -> T:
  """Applies a function to each of N entries of trees of arrays [N, ...]; returns stacked results.

  On a CPU the entries run one after another, so that each stays in the cache and a `lax.switch` in
  `function` computes only the selected branch. Accelerators use `vmap`, under which each entry
  computes every branch.
  """
  if jax.default_backend() == 'cpu':
    applied: T = jax.lax.map(lambda entries: function(*entries), trees)
    return applied
  return jax.vmap(function)(*trees)


TILE = 16
"""Number of rows of one branch that are computed at once."""


def by_branch(
  function: Callable[..., jax.Array], branches: int, branch: jax.Array, *trees: PyTree
) -> jax.Array:
  """Returns the results of `function(branch, *entries)` for N rows, stacked as [N, ...].

  For each row only its branch is computed. Rows are sorted by branch and divided into tiles of one
  branch, so that a `lax.switch` over the branch computes one branch per tile. Tiles are computed in
  sequence, and the rows of a tile at once; incomplete tiles add at most `branches` tiles.

  Args:
    function: function from a branch, int32 scalar, and one entry of each tree to an array.
    branches: number of branches.
    branch: int32 [N] in [0, branches).
    *trees: trees of arrays [N, ...].
  """
  # Example: members [3, 0, 5] and TILE = 4 give tiles [1, 0, 2], ends [1, 1, 3], and the slots
  # 0, 1, 2 for the rows of branch 0 and 4, 5, 6, 7, 8 for the rows of branch 2.
  count = len(branch)
  order = jnp.argsort(branch, stable=True)
  members = jnp.zeros((branches,), jnp.int32).at[branch].add(1)  # rows of each branch
  tiles = -(-members // TILE)  # tiles of each branch
  ends = jnp.cumsum(tiles)  # number of the tile after the last one of each branch
  ordered = branch[order]  # ascending
  # 0, 1, ..., members − 1 for the rows of each branch: the position in `ordered` minus the number
  # of rows in earlier branches
  rank = jnp.arange(count) - (jnp.cumsum(members) - members)[ordered]
  # position of each row in all tiles one after another, where each branch begins a new tile
  slot = ((ends - tiles)[ordered] + rank // TILE) * TILE + rank % TILE
  no_row = count  # which mode='drop' ignores
  unused = jnp.full(((count // TILE + branches) * TILE,), no_row)
  rows = unused.at[slot].set(order).reshape(-1, TILE)  # the rows of each tile
  tile_branch = jnp.searchsorted(ends, jnp.arange(len(rows)), side='right')

  def add_tile(number: jax.Array, results: jax.Array) -> jax.Array:
    """Returns `results` [N, ...] with the results of a tile entered."""
    # an empty place of a tile computes the last row, and its result is dropped
    entries = jax.tree.map(lambda x: x[jnp.minimum(rows[number], count - 1)], trees)
    computed = jax.vmap(lambda *entry: function(tile_branch[number], *entry))(*entries)
    return results.at[rows[number]].set(computed, mode='drop')

  first_entries = jax.tree.map(lambda x: x[0], trees)
  result = jax.eval_shape(function, branch[0], *first_entries)
  zeros = jnp.zeros((count, *result.shape), result.dtype)
  results: jax.Array = jax.lax.fori_loop(0, ends[-1], add_tile, zeros)
  return results
