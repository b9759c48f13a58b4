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
  """How the records of a study, a table of images × views, are divided into shards (files).

  A view is one way of perturbing all images. A shard has a block of consecutive images (rows) in a
  chunk of consecutive views.

  Attributes:
    num_rows: number of images.
    num_views: number of views.
    block_rows: number of images of each block; the last block may be smaller.
    chunk_views: number of views of each chunk; the last chunk may be smaller.
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
    """Returns the positions of the images (rows) in a block, given the number of the block."""
    return slice(block * self.block_rows, min((block + 1) * self.block_rows, self.num_rows))

  def views(self, chunk: int) -> slice[int, int]:
    """Returns the positions of the views in a chunk, given the number of the chunk."""
    return slice(chunk * self.chunk_views, min((chunk + 1) * self.chunk_views, self.num_views))

  def size(self, block: int, chunk: int) -> int:
    """Returns the number of predictions, images × views, in a shard.

    Args:
      block: number of the shard's block of images.
      chunk: number of the shard's chunk of views.
    """
    views = self.views(chunk)
    return self.num_rows_of(block) * (views.stop - views.start)

  def num_rows_of(self, block: int) -> int:
    """Returns the number of images (rows) in a block, given the number of the block."""
    rows = self.rows(block)
    return rows.stop - rows.start

  def num_images(self, table: Mapping[int, Sequence[int]]) -> int:
    """Returns the number of predictions, images × views, in several shards together.

    Args:
      table: {number of a block of images: numbers of its chunks of views}, the shards.
    """
    return sum(self.size(block, chunk) for block, chunks in table.items() for chunk in chunks)

  def first_present(self, missing: Sequence[int]) -> int | None:
    """Returns the number of the first chunk of views that is not missing; None if all are.

    Args:
      missing: numbers of the missing chunks.
    """
    return next((chunk for chunk in range(self.num_chunks) if chunk not in missing), None)

  def share(self, process: int, processes: int) -> dict[int, range]:
    """Returns the shards (files) that a process computes.

    Each process takes whole blocks of images: process 0 of 3 takes blocks 0, 3, 6, .... If there
    are more processes than blocks, they take the chunks of views (ways of perturbing images) of
    each block in turn. Each block then starts with another process, so that all have about the same
    number.

    Args:
      process: number of the process, in [0, processes).
      processes: number of processes.

    Returns:
      {number of a block: numbers of its chunks}.
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
  is_staged: bool,
  is_on_host: bool,
  batch_size: int = 0,
  views_per_step: int = 0,
) -> Layout:
  """Chooses how records of images × views are divided into shards (files).

  A shard is also what is computed between two saves. It has the images of one batch in some views
  (ways of perturbing images).

  Args:
    num_rows: number of images.
    num_views: number of views.
    pixels: height × width of the images that the network takes.
    is_staged: whether the views are slow and computed in stages, as AutoAttack (`Views.stages`).
    is_on_host: whether the network runs outside of JAX.
    batch_size: images of a shard. 0 chooses: at most 64 for large images (`LARGE_IMAGE_PIXELS`),
      else at most 512, or `STAGED_ROWS` with `is_staged`.
    views_per_step: views of a shard. 0 chooses: a shard then has about the pixels of `SHARD_IMAGES`
      images of 32 × 32, or of `HOST_SHARD_IMAGES` with `is_on_host`. It has more if there would
      otherwise be over `MAX_DEFAULT_SHARDS` files, as for ImageNet's validation set.
  """
  if pixels >= LARGE_IMAGE_PIXELS:
    # a step on a CPU has 8 large images, so that a multiple of 8 leaves no partial step
    max_rows, row_multiple = 64, 8
  else:
    max_rows, row_multiple = STAGED_ROWS if is_staged else 512, 1
  block_rows = batch_size or min(even_part_size(num_rows, max_rows, row_multiple), num_rows)
  shard_pixels = (HOST_SHARD_IMAGES if is_on_host else SHARD_IMAGES) * 32**2
  shard_images = shard_pixels // max(pixels, 32**2)  # smaller images count as 32 × 32
  min_shard_images = num_rows * num_views // MAX_DEFAULT_SHARDS
  max_views = max(shard_images, min_shard_images) // block_rows
  chunk_views = views_per_step or even_part_size(num_views, max_views)
  return Layout(num_rows, num_views, block_rows, min(chunk_views, num_views))


def even_part_size(total: int, largest: int, multiple: int = 1) -> int:
  """Returns the size of the parts if a number of images or views is cut into equal parts.

  100 images in parts of at most 64 are two parts of 50. With `multiple` = 8, the size is rounded up
  to 56, and the last part has 44 images.

  Args:
    total: number of images or views.
    largest: largest size of a part; 0 counts as 1.
    multiple: divisor of the size, which must also divide `largest`.
  """
  num_parts = -(-total // max(1, largest))  # rounded up, as is the size
  return -(-total // (num_parts * multiple)) * multiple
