"""How a table of rows × views is cut into shards, which does not depend on the devices."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

SHARD_IMAGES, HOST_SHARD_IMAGES = 32768, 1024
"""Images of 32 × 32 pixels in a shard by default, and in a shard of a network that runs outside of
JAX, which may be slow: progress is shown and work saved only after whole shards."""
MAX_DEFAULT_SHARDS = 4096
"""Most files of a table of records with the default sizes of shards."""
STAGED_ROWS = 128
"""Most rows of a shard of views with `Views.stages`, such as AutoAttack. A killed run loses the
shard that it computes, which takes long; fewer rows would use an accelerator badly."""
LARGE_IMAGE_PIXELS = 128**2
"""Smallest number of pixels of an image for which a batch exceeds the cache of a CPU core."""


@dataclasses.dataclass(frozen=True)
class Layout:
  """How records, a table of rows (images) × views, are cut into shards, one file each.

  A shard has a block of consecutive rows in a chunk of consecutive views.

  Attributes:
    num_rows: number of rows of the table.
    num_views: number of views of the table.
    block_rows: number of rows of each block; the last one may be smaller.
    chunk_views: number of views of each chunk; the last one may be smaller.
  """

  num_rows: int
  num_views: int
  block_rows: int
  chunk_views: int

  @property
  def num_blocks(self) -> int:
    """The number of blocks of rows."""
    return -(-self.num_rows // self.block_rows)

  @property
  def num_chunks(self) -> int:
    """The number of chunks of views."""
    return -(-self.num_views // self.chunk_views)

  def rows(self, block: int) -> slice[int, int]:
    """Returns the positions of the rows in block number `block`."""
    return slice(block * self.block_rows, min((block + 1) * self.block_rows, self.num_rows))

  def views(self, chunk: int) -> slice[int, int]:
    """Returns the positions of the views in chunk number `chunk`."""
    return slice(chunk * self.chunk_views, min((chunk + 1) * self.chunk_views, self.num_views))

  def size(self, block: int, chunk: int) -> int:
    """Returns how many images, rows × views, are in the shard of a block and a chunk."""
    views = self.views(chunk)
    return self.num_rows_of(block) * (views.stop - views.start)

  def num_rows_of(self, block: int) -> int:
    """Returns the number of rows in block number `block`."""
    rows = self.rows(block)
    return rows.stop - rows.start

  def num_images(self, table: Mapping[int, Sequence[int]]) -> int:
    """Returns how many images, rows × views, are in some shards.

    `table` states the shards: {number of the row block: numbers of its view chunks}.
    """
    return sum(self.size(block, chunk) for block, chunks in table.items() for chunk in chunks)

  def first_present(self, missing: Sequence[int]) -> int | None:
    """Returns the number of the first view chunk that is not in `missing`; None if all are."""
    return next((chunk for chunk in range(self.num_chunks) if chunk not in missing), None)

  def share(self, process: int, processes: int) -> dict[int, range]:
    """Returns the shards that a process computes, {number of the row block: its view chunks}.

    If there are fewer blocks than processes, the processes take the chunks of each block in turn,
    and each block starts with another process, so that all have about the same number. Otherwise
    each process takes whole blocks: blocks 0, 3, 6, ... for process 0 of 3.

    Args:
      process: number of the process, in [0, processes).
      processes: number of processes.
    """
    if self.num_blocks >= processes:
      all_chunks, blocks = range(self.num_chunks), range(self.num_blocks)
      return {b: all_chunks if b % processes == process else range(0) for b in blocks}
    # chunk c of block b is computed by process (b + c) % processes
    first = {block: (process - block) % processes for block in range(self.num_blocks)}
    return {block: range(first[block], self.num_chunks, processes) for block in first}


def default_layout(
  num_rows: int,
  num_views: int,
  pixels: int,
  *,
  is_staged: bool,
  is_on_host: bool,
  batch_size: int = 0,
  views_per_step: int = 0,
) -> Layout:
  """Returns how a table of `num_rows` rows × `num_views` views is cut into shards, one file each.

  Args:
    num_rows: number of rows of the table.
    num_views: number of views of the table.
    pixels: height × width of the images that the network takes.
    is_staged: whether the views are slow and computed in steps (`Views.stages`), as AutoAttack.
    is_on_host: whether the network runs outside of JAX.
    batch_size: rows of a shard. 0 chooses: at most 64 for large images (`LARGE_IMAGE_PIXELS`), else
      at most 512, or `STAGED_ROWS` with `is_staged`.
    views_per_step: views of a shard. 0 chooses: a shard then has about as many pixels as
      `SHARD_IMAGES` images of 32 × 32, or as `HOST_SHARD_IMAGES` with `is_on_host`. It has more if
      there would otherwise be over `MAX_DEFAULT_SHARDS` files, as for ImageNet's validation set.
  """
  max_rows, row_multiple = (STAGED_ROWS if is_staged else 512), 1
  if pixels >= LARGE_IMAGE_PIXELS:
    # a step on a CPU has 8 large images, so that a multiple of 8 leaves no partial step
    max_rows, row_multiple = 64, 8
  block_rows = batch_size or min(even_part_size(num_rows, max_rows, row_multiple), num_rows)
  small_images = HOST_SHARD_IMAGES if is_on_host else SHARD_IMAGES  # images of 32 × 32 pixels
  shard_images = small_images * 32**2 // max(32**2, pixels)  # with the same number of pixels
  min_shard_images = num_rows * num_views // MAX_DEFAULT_SHARDS
  max_views = max(shard_images, min_shard_images) // block_rows
  chunk_views = views_per_step or even_part_size(num_views, max_views)
  return Layout(num_rows, num_views, block_rows, min(chunk_views, num_views))


def even_part_size(total: int, largest: int, multiple: int = 1) -> int:
  """Returns the size of the parts if `total` rows or views are cut into equal parts.

  There are as few parts of at most `largest` as possible: 100 rows in parts of at most 64 are two
  parts of 50. The size is rounded up to a multiple of `multiple`, which must divide `largest`; with
  8 it is 56, and the last part has 44 rows. `largest` = 0 counts as 1.
  """
  num_parts = -(-total // max(1, largest))  # rounded up, as is the size
  return -(-total // (num_parts * multiple)) * multiple
