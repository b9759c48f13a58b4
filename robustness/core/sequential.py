"""Rows that take branches of their own: one after another, or sorted by branch.

Under `vmap` a `lax.switch` whose index differs between rows computes all branches for every row.
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
  """The columns of one row, cut out of the block's when they are looked at.

  A large column, of which a view needs little, is better reached by `located`: nothing is copied.

  Attributes:
    columns: with the rows as leading axis.
    index: of the row, may be traced.
  """

  columns: Mapping[str, jax.Array]
  index: ArrayLike

  def __getitem__(self, name: str) -> jax.Array:
    column: jax.Array = jax.lax.dynamic_index_in_dim(self.columns[name], self.index, keepdims=False)
    return column

  def __iter__(self) -> Iterator[str]:
    return iter(self.columns)

  def __len__(self) -> int:
    return len(self.columns)


def located(row: Mapping[str, jax.Array], name: str) -> tuple[jax.Array, ArrayLike]:
  """Returns a column of one or more rows, [N, ...], and which of them is this row's."""
  if isinstance(row, SequentialRow):
    return row.columns[name], row.index
  return row[name][None], 0


def map_rows(function: Callable[..., T], rows: Mapping[str, jax.Array], view: PyTree) -> T:
  """Returns `function(row, view)` of one `SequentialRow` after the other, stacked."""
  count = len(next(iter(rows.values())))
  shown: T = jax.lax.map(lambda i: function(SequentialRow(rows, i), view), jnp.arange(count))
  return shown


def map_entries(function: Callable[..., T], *trees: PyTree) -> T:
  """Applies a function to every entry of trees of arrays [N, ...], as is quick on the device.

  On a CPU entries follow one another, so that each stays in the cache and choices that depend on it
  stay choices; accelerators take them all at once.
  """
  if jax.default_backend() == 'cpu':
    applied: T = jax.lax.map(lambda entries: function(*entries), trees)
    return applied
  return jax.vmap(function)(*trees)


TILE = 16
"""Rows of one branch that are computed at once."""


def by_branch(
  function: Callable[..., jax.Array], branches: int, branch: jax.Array, *trees: PyTree
) -> jax.Array:
  """Returns `function(branch, *entries)` of every row, each branch computed for its rows alone.

  Rows are sorted by branch and taken in tiles of one branch, whose number is then the same for all
  of a tile: a `lax.switch` over it stays a choice. Tiles follow one another, rows of a tile are
  computed at once; at most `branches` tiles more are computed than the rows would fill.

  Args:
    function: of the branch, int32 scalar, and one entry of each tree; gives an array.
    branches: how many there are.
    branch: int32 [N] in [0, branches).
    *trees: of arrays [N, ...].
  """
  count = len(branch)
  order = jnp.argsort(branch, stable=True)
  members = jnp.zeros((branches,), jnp.int32).at[branch].add(1)
  tiles = -(-members // TILE)
  ends = jnp.cumsum(tiles)
  ordered = branch[order]
  rank = jnp.arange(count) - (jnp.cumsum(members) - members)[ordered]
  slot = ((ends - tiles)[ordered] + rank // TILE) * TILE + rank % TILE
  nobody = jnp.full(((count // TILE + branches) * TILE,), count)
  rows = nobody.at[slot].set(order).reshape(-1, TILE)
  of_tile = jnp.searchsorted(ends, jnp.arange(len(rows)), side='right')

  def add(number: jax.Array, results: jax.Array) -> jax.Array:
    entries = jax.tree.map(lambda x: x[jnp.minimum(rows[number], count - 1)], trees)
    made = jax.vmap(lambda *entry: function(of_tile[number], *entry))(*entries)
    return results.at[rows[number]].set(made, mode='drop')

  first = jax.tree.map(lambda x: x[0], trees)
  shape = jax.eval_shape(function, branch[0], *first)
  nothing = jnp.zeros((count, *shape.shape), shape.dtype)
  results: jax.Array = jax.lax.fori_loop(0, ends[-1], add, nothing)
  return results
