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
  """One row of a batch in a loop over its rows, as a mapping from column names to values.

  `row[name]` copies the value out of its column. A function that needs only a small part of a large
  value, such as a crop of an image, should call `column_and_position` instead.

  Attributes:
    columns: {name: values of all N rows, [N, ...]}.
    index: index of the row in [0, N), which may be traced.
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
  """Returns a column and the index of a row in it, to read a value without a copy.

  `column[index]` equals `row[name]`. In a loop over rows, `row[name]` would copy the whole value. A
  function that needs only a crop of a large image slices the column instead.

  Returns:
    (column, index). The column has the values of all N rows of the loop, [N, ...]. N is 1 if `row`
    is not a `SequentialRow`.
  """
  if isinstance(row, SequentialRow):
    return row.columns[name], row.index
  return row[name][None], 0


def map_rows(function: Callable[..., T], rows: Mapping[str, jax.Array], view: PyTree) -> T:
  """Applies a function to each row of a batch, one after another, and stacks the results.

  Args:
    function: called as `function(row, view)` with a row as a `SequentialRow`.
    rows: {name of a column: values, [N, ...]}.
    view: second argument of `function`, the same for all rows, such as parameters of a corruption.
  """
  num_rows = len(next(iter(rows.values())))
  stacked: T = jax.lax.map(lambda i: function(SequentialRow(rows, i), view), jnp.arange(num_rows))
  return stacked


def map_entries(function: Callable[..., T], *trees: PyTree) -> T:
  """Applies a function to each slice along the leading axis of the arrays, and stacks the results.

  On a CPU the slices are processed one after another by `lax.map`. Each stays in the cache, and a
  `lax.switch` in `function` computes only the selected branch. Accelerators use `vmap`, which
  computes every branch for each slice.

  Args:
    function: called with one slice of each tree, with arrays [...].
    *trees: trees of arrays [N, ...].
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
  """Applies a function with a `lax.switch` to N rows and computes only each row's branch.

  Rows are sorted by branch and divided into tiles of rows with the same branch. Tiles are computed
  one after another, and the rows of a tile in parallel by `vmap`. A tile that is not full costs as
  much as a full one; this adds at most `branches` tiles.

  Args:
    function: called as `function(branch, *entries)` with an int32 scalar and one slice of each
      tree. It returns an array [...].
    branches: number of branches.
    branch: branch of each row, int32 [N] in [0, branches).
    *trees: trees of arrays [N, ...].

  Returns:
    The results of all rows, [N, ...].
  """
  # Example: 3 rows of branch 0, none of branch 1 and 5 of branch 2 fill tiles of TILE = 4 places so
  # (- is an empty place): tile 0 has 0 0 0 -, tile 1 has 2 2 2 2, tile 2 has 2 - - -.
  num_rows = len(branch)
  order = jnp.argsort(branch, stable=True)
  branch_rows = jnp.zeros((branches,), jnp.int32).at[branch].add(1)  # [3, 0, 5] in the example
  branch_tiles = -(-branch_rows // TILE)  # rounded up: [1, 0, 2]
  end_tiles = jnp.cumsum(branch_tiles)  # the tile after the last one of each branch: [1, 1, 3]
  ordered = branch[order]  # [0, 0, 0, 2, 2, 2, 2, 2]
  positions = jnp.arange(num_rows)
  earlier_rows = jnp.cumsum(branch_rows) - branch_rows  # rows of earlier branches: [0, 3, 3]
  # number of each row among the rows of its branch: [0, 1, 2, 0, 1, 2, 3, 4]
  rank = positions - earlier_rows[ordered]
  first_tile = (end_tiles - branch_tiles)[ordered]  # of the row's branch: [0, 0, 0, 1, 1, 1, 1, 1]
  place = (first_tile + rank // TILE) * TILE + rank % TILE  # [0, 1, 2, 4, 5, 6, 7, 8]
  no_row = num_rows  # an index out of range marks an empty place
  max_tiles = num_rows // TILE + branches  # each branch may have one tile that is not full
  empty = jnp.full((max_tiles * TILE,), no_row)
  tile_rows = empty.at[place].set(order).reshape(-1, TILE)  # [tiles, TILE], indices of rows
  tile_branch = jnp.searchsorted(end_tiles, jnp.arange(len(tile_rows)), side='right')  # [tiles]

  def compute_tile(tile: jax.Array, results: jax.Array) -> jax.Array:
    """Computes the rows of tile number `tile` and writes them into `results` [N, ...]."""
    # an empty place computes the last row; mode='drop' ignores its result
    entries = jax.tree.map(lambda x: x[jnp.minimum(tile_rows[tile], num_rows - 1)], trees)
    computed = jax.vmap(lambda *entry: function(tile_branch[tile], *entry))(*entries)
    return results.at[tile_rows[tile]].set(computed, mode='drop')

  first_entries = jax.tree.map(lambda x: x[0], trees)
  result = jax.eval_shape(function, branch[0], *first_entries)
  zeros = jnp.zeros((num_rows, *result.shape), result.dtype)
  results: jax.Array = jax.lax.fori_loop(0, end_tiles[-1], compute_tile, zeros)
  return results
