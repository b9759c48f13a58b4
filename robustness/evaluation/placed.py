"""Blocks of rows on the devices, read once where they are shown again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
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


class KeptBlocks:
  """Blocks for several evaluations of the same rows; iterate it for each.

  The first time they are read; from then on they are still on the devices, unless they have more
  than so many bytes: then they are read anew each time.
  """

  def __init__(self, read: Callable[[], Iterator[PlacedBlock]], most: int):
    """Args: read: reads and places all blocks; most: bytes that are kept, over all devices."""
    self._read, self._most = read, most
    self._kept: list[PlacedBlock] = []

  def __iter__(self) -> Iterator[PlacedBlock]:
    if self._kept:
      yield from self._kept
      return
    kept: list[PlacedBlock] = []
    left = self._most
    for block in self._read():
      left -= block.nbytes
      if left >= 0:
        kept.append(block)
      else:
        kept.clear()
      yield block
    if left >= 0:
      self._kept = kept
