"""One row of a block, as views see it where a CPU takes row after row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike


class SequentialRow(Mapping[str, jax.Array]):
  """The columns of one row, cut out of the block's when they are looked at.

  A large column, of which a view needs little, is better reached by `located`: nothing is copied.
  """

  def __init__(self, columns: Mapping[str, jax.Array], index: ArrayLike):
    """Args: columns: with the rows as leading axis; index: of the row, may be traced."""
    self.columns, self.index = columns, index

  def __getitem__(self, name: str) -> jax.Array:
    return jax.lax.dynamic_index_in_dim(self.columns[name], self.index, keepdims=False)

  def __iter__(self) -> Iterator[str]:
    return iter(self.columns)

  def __len__(self) -> int:
    return len(self.columns)


def located(row: Mapping[str, jax.Array], name: str) -> tuple[jax.Array, ArrayLike]:
  """Returns a column of one or more rows, [N, ...], and which of them is this row's."""
  if isinstance(row, SequentialRow):
    return row.columns[name], row.index
  return row[name][None], 0


def map_rows(function: Callable, rows: Mapping[str, jax.Array], view: Any) -> Any:
  """Returns `function(row, view)` of one `SequentialRow` after the other, stacked."""
  count = len(next(iter(rows.values())))
  return jax.lax.map(lambda index: function(SequentialRow(rows, index), view), jnp.arange(count))
