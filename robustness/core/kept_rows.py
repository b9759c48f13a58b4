"""Rows that are read from storage once, for several classifiers and studies."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from robustness.core.rows import ArrayRows, Batch, chosen_blocks

MOST_BYTES = 2**31
"""Of images and columns that are kept in the host's memory."""


@dataclasses.dataclass(frozen=True)
class KeptRows:
  """Rows whose images are decoded when most of them are first asked for, and kept.

  They give the same batches. A few rows, such as samples for a figure, are read as ever, and so are
  all if they have more than `most` bytes or cannot be kept (see `in_memory` of the rows).

  Attributes:
    rows: with `in_memory`.
    most: bytes.
  """

  rows: Any
  most: int = MOST_BYTES

  def __getattr__(self, name: str) -> Any:
    return getattr(self.rows, name)

  @functools.cached_property
  def _kept(self) -> ArrayRows | None:
    return self.rows.in_memory(self.most)

  def at(self, positions: np.ndarray) -> Any:
    """Returns the rows at some positions: those kept, or, before any are, read from storage."""
    kept = self.__dict__.get('_kept')
    return (kept or self.rows).at(positions)

  def batches(
    self, batch_size: int, blocks: Sequence[int] | None = None, *, stored: bool = False
  ) -> Iterator[Batch]:
    """See `Rows`."""
    chosen = chosen_blocks(self.rows.num_examples, batch_size, blocks)
    most_of_them = 2 * len(chosen) * batch_size > self.rows.num_examples
    source = self._kept if most_of_them or '_kept' in self.__dict__ else None
    yield from (source or self.rows).batches(batch_size, blocks, stored=stored)
