"""Blocks of rows on the devices."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from robustness.core.rows import Batch


@dataclasses.dataclass(frozen=True)
class PlacedBlock:
  """A block of rows, checked and on the devices.

  Attributes:
    columns: what the host keeps of the block, all but the images; see `Rows.batches`.
    parts: the rows in parts of the size of a step, on the devices.
  """

  columns: Batch
  parts: Sequence[Mapping[str, Any]]

  @property
  def nbytes(self) -> int:
    """Bytes on the devices."""
    return sum(array.nbytes for array in jax.tree.leaves(self.parts))
