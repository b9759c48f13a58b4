r"""Resizing with a triangle filter as matrix products, with traced sizes.

Output pixel o of n is at c = (o + ½)·s with s = (input size)/n; input pixel i has the weight

  max(0, 1 − |i + ½ − c| / max(s, 1)),

divided by the sum of weights. This is Pillow's BILINEAR filter: it interpolates linearly to enlarge
and averages over 2·s pixels to reduce. Images of 8 bits are rounded to 8 bits after each direction,
as in Pillow, which resizes horizontally first; this module resizes vertically first.

The matrices are banded. With a bound of s, `TILE` pixels of `BLOCK` lines are computed at a time
from a window of the input, in loops that end with the image. Such loops suit a CPU that processes
images one by one; under vmap all loops would be as long as the longest.
"""

import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from robustness.scenes.designs import MAX_ASPECT

TILE, BLOCK = 8, 64
"""Number of resized pixels along an axis that are computed at a time, and of lines."""


def triangle_weights(
  positions: jax.Array, pixels: jax.Array, size: ArrayLike, new_size: ArrayLike
) -> jax.Array:
  """Returns the weights of an antialiased linear resize along one axis, float32 [P, Q].

  Output pixel `positions[p]` is the sum over q of weights[p, q] · input pixel `pixels[q]`.

  Args:
    positions: int [P], indices of output pixels. Those outside [0, new_size) get zero weights.
    pixels: int [Q], indices of input pixels, which must include all that the outputs need.
    size: number of input pixels along the axis.
    new_size: number of output pixels.
  """
  scale = jnp.asarray(size, jnp.float32) / jnp.maximum(new_size, 1)
  centre = (positions + 0.5) * scale  # of each output pixel, in pixels of the input
  distance = jnp.abs(pixels[None, :] + 0.5 - centre[:, None]) / jnp.maximum(scale, 1.0)
  weights = jnp.maximum(0.0, 1.0 - distance) * (pixels < size)[None, :]
  # scaled to the sum 1 for each output pixel, or to 0 outside of the output
  return weights * (_inside(positions, new_size) / jnp.maximum(weights.sum(1), 1e-6))[:, None]


def reduction_bound(shape: Sequence[int], area: float, side: int) -> float:
  """Returns an upper bound on the factor that cutouts are scaled down by.

  The factor is size / resized size, for height and width. The bound is infinite for very small
  areas.

  Args:
    shape: height and width in pixels of the array that holds the cutouts, so the largest size.
    area: smallest area of the resized cutouts, as a fraction of the canvas.
    side: side of the canvas in pixels.
  """
  # For a cutout of h × w pixels, size / resized size is √(h w / area) / side, if the resized size
  # is not truncated to whole pixels. This is largest for the largest cutout. Truncation makes a
  # side less than a pixel shorter. The shortest possible side is `shorter`, so that the factor
  # grows by less than shorter / (shorter − 1).
  height, width = shape
  shorter = side * math.sqrt(area / MAX_ASPECT)
  if shorter <= 2:  # truncated it may be 1 or 0
    return math.inf
  return math.sqrt(height * width / area) / side * shorter / (shorter - 1)


def resize_pixels(
  images: jax.Array,
  index: ArrayLike,
  size: jax.Array,
  new_size: jax.Array,
  positions: Sequence[jax.Array],
  max_reduction: float,
) -> jax.Array:
  """Resizes one image and returns its pixels at R rows and K columns, [R, K, C].

  The result has the type of `images`.

  Args:
    images: [N, H, W, C], float32 or uint8.
    index: index of the image to resize, in [0, N).
    size: int32 [2], height and width of this image, which fills the top left of [H, W].
    new_size: int32 [2], height and width after resizing.
    positions: the rows, int32 [R], and columns, int32 [K], of the resized image to return,
      ascending. Positions outside the resized image return 0.
    max_reduction: static upper bound of size / new_size in both directions, which limits how many
      pixels are read. With infinity all pixels are read.
  """
  rows, columns = positions
  # The first call resizes the height and makes [W, R, C] of [H, W, C]. The second call resizes the
  # width, which is the height of the transposed image, and makes [R, K, C].
  resize = functools.partial(_resize_and_transpose, max_reduction=max_reduction)
  all_columns = jnp.int32(0), size[1]
  transposed = resize(images, index, size[0], new_size[0], rows, all_columns)
  # of the rows to return, those in the resized image; the others stay 0
  rows_inside = _first_and_end(_inside(rows, new_size[0]))
  pixels = resize(transposed[None], 0, size[1], new_size[1], columns, rows_inside)
  return pixels[: len(rows), : len(columns)]  # without the padding to whole tiles


def _resize_and_transpose(
  images: jax.Array,
  index: ArrayLike,
  size: jax.Array,
  new_size: jax.Array,
  positions: jax.Array,
  needed: tuple[jax.Array, jax.Array],
  max_reduction: float,
) -> jax.Array:
  """Resizes the height of one image, selects R rows and returns them transposed, [W, L, C].

  Column i of the result is row `positions[i]` of the resized image. If the image is resized in
  tiles, L is R rounded up to a multiple of `TILE`, and the last columns are padding. Otherwise L is
  R.

  Args:
    images: [N, H, W, C].
    index: index of the image, in [0, N).
    size: height of the image, which begins at the first row of [H, W].
    new_size: height after resizing.
    positions: rows of the resized image to return, int32 [R], ascending.
    needed: first and end of the range of image columns to compute. The others, which are rows of
      the result, may be 0.
    max_reduction: static upper bound of size / new_size.
  """
  height, width, channels = images.shape[1:]
  first_needed, end_needed = needed
  # Rows of the image that a tile, `TILE` resized rows, depends on, with a margin for rounding.
  rows_of_tile = (TILE + 2) * max(max_reduction, 1)
  if rows_of_tile + 3 >= height:  # a tile would need the whole image
    weights = triangle_weights(positions, jnp.arange(height), size, new_size)
    image = images[index].astype(jnp.float32)
    return _as_type(images, jnp.einsum('yi,ixc->xyc', weights, image, precision='highest'))
  flat = images.reshape(*images.shape[:2], -1)  # [N, H, W · C]
  # A tile reads a window of rows of the image, block by block of its columns.
  window = math.ceil(rows_of_tile) + 2
  block = min(BLOCK, width)
  num_tiles = -(-len(positions) // TILE)  # rounded up; the last tile is filled up
  padded = jnp.pad(positions, (0, num_tiles * TILE - len(positions)), mode='edge')

  def add_tile(number: jax.Array, output: jax.Array) -> jax.Array:
    """Computes `TILE` rows of the resized image and writes them to columns of `output`.

    Args:
      number: index of the tile, with the rows `positions[number · TILE : (number + 1) · TILE]`.
      output: [W, L, C], the transposed result so far.
    """
    resized_rows = jax.lax.dynamic_slice(padded, (number * TILE,), (TILE,))
    lowest = jnp.where(_inside(resized_rows, new_size), resized_rows, new_size).min()
    # The window starts at ⌊(lowest + ½) s − max(s, 1)⌋ with s = size / new_size, in integers: the
    # slice and the weights must agree, and a compiler may round two uses of a float differently.
    numerator = (2 * lowest + 1) * size - 2 * jnp.maximum(size, new_size)
    first_row = jnp.clip(numerator // jnp.maximum(2 * new_size, 1), 0, height - window)
    weights = triangle_weights(resized_rows, first_row + jnp.arange(window), size, new_size)

    def add_block(block_number: jax.Array, output: jax.Array) -> jax.Array:
      """Computes the tile's rows in one block of image columns, for `lax.fori_loop`.

      A tile is `TILE` rows of the resized image. They are `weights` [TILE, window] times a window
      of image rows, of which `block` columns are computed at a time.

      Args:
        block_number: number of the block.
        output: the transposed result, [columns, rows, channels], which the rows are written to.
      """
      # the last block may overlap the one before
      column = jnp.minimum(first_needed + block_number * block, width - block)
      corner = index, first_row, column * channels
      source = jax.lax.dynamic_slice(flat, corner, (1, window, block * channels))[0]
      tile = _as_type(images, jnp.dot(weights, source.astype(jnp.float32), precision='highest'))
      transposed = jnp.swapaxes(tile.reshape(TILE, block, channels), 0, 1)
      return jax.lax.dynamic_update_slice(output, transposed, (column, number * TILE, 0))

    num_blocks = -(-(end_needed - first_needed) // block)  # rounded up
    return jax.lax.fori_loop(0, num_blocks, add_block, output)

  # The first tile with pixels of the resized image, and the one after the last.
  start, end = _first_and_end(_inside(padded, new_size).reshape(num_tiles, TILE).any(1))
  empty = jnp.zeros((width, num_tiles * TILE, channels), images.dtype)
  return jax.lax.fori_loop(start, end, add_tile, empty)


def _inside(positions: jax.Array, size: ArrayLike) -> jax.Array:
  """Returns whether positions are in [0, size), bool."""
  return (positions >= 0) & (positions < size)


def _first_and_end(flags: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Returns the index of the first True in `flags`, and the index after the last True.

  Without any True the results are 0 and the length of `flags`.
  """
  return flags.argmax(), len(flags) - flags[::-1].argmax()


def _as_type(images: jax.Array, resized: jax.Array) -> jax.Array:
  """Rounds a resized image to uint8 if the original `images` are uint8."""
  return jnp.round(resized).astype(jnp.uint8) if images.dtype == jnp.uint8 else resized
