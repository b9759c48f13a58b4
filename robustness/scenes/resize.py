r"""Resizing with a triangle filter as products with matrices, the sizes being traced.

Pixel o of n lies at c = (o + ½)·s with s = (input size)/n; input pixel i enters with the weight

  max(0, 1 − |i + ½ − c| / max(s, 1)),

divided by the sum of all. That is Pillow's BILINEAR: enlarging interpolates linearly, reducing
averages over 2·s pixels. Images of 8 bits are rounded to 8 bits after each direction, as Pillow
does, which takes the horizontal one first; here it is the vertical.

The matrices are banded. Where s is known to be at most so much, `TILE` pixels of `BLOCK` lines at a
time are made from the window of the input that they see, in loops that end with the image. Such
loops suit a CPU that shows one image after another; vmap would make all as long as the longest.
"""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from robustness.scenes.designs import LONGEST

TILE, BLOCK = 8, 64


def triangle_weights(
  positions: jax.Array, pixels: jax.Array, size: ArrayLike, resized: ArrayLike
) -> jax.Array:
  """Returns the weights of one direction, float32 [len(positions), len(pixels)].

  `positions` are pixels of the resized line, without weight outside it; `pixels` those of the line
  of `size` pixels, all that have a weight among them.
  """
  scale = jnp.asarray(size, jnp.float32) / jnp.maximum(resized, 1)
  centre = (positions + 0.5) * scale
  distance = jnp.abs(pixels[None, :] + 0.5 - centre[:, None]) / jnp.maximum(scale, 1.0)
  weights = jnp.maximum(0.0, 1.0 - distance) * (pixels < size)[None, :]
  return weights * (_inside(positions, resized) / jnp.maximum(weights.sum(1), 1e-6))[:, None]


def most_scale(shape: Sequence[int], area: float, side: int) -> float:
  """Returns how many times a cutout is reduced at most, in either direction.

  It is at most `LONGEST` times as long as wide, held by an array of a shape (height, width), and
  its resized rectangle covers at least the fraction `area` of a canvas of `side` pixels.
  """
  shorter = side * math.sqrt(area / LONGEST)  # truncated to whole pixels, it loses up to one
  if shorter <= 2:
    return math.inf
  return math.sqrt(shape[0] * shape[1] / area) / side * shorter / (shorter - 1)


def resize_pixels(
  images: jax.Array,
  index: ArrayLike,
  size: jax.Array,
  resized: jax.Array,
  positions: Sequence[jax.Array],
  most: float,
) -> jax.Array:
  """Returns pixels of a resized image, [len(positions[0]), len(positions[1]), C] as `images`.

  Args:
    images: [N, H, W, C], float32 or uint8.
    index: which of them is resized.
    size: int32 [2], its height and width, from the first pixel on.
    resized: int32 [2], what they shall be.
    positions: int32, rows and columns of the resized image, ascending; those outside it are 0.
    most: static; size / resized is at most this in both directions. Infinite takes one product with
      whole matrices.
  """
  columns = _resize_down(
    images, index, size[0], resized[0], positions[0], (jnp.int32(0), size[1]), most
  )
  seen = _bounds(_inside(positions[0], resized[0]))
  made = _resize_down(columns[None], 0, size[1], resized[1], positions[1], seen, most)
  return made[: len(positions[0]), : len(positions[1])]


def _resize_down(
  images: jax.Array,
  index: ArrayLike,
  size: jax.Array,
  resized: jax.Array,
  positions: jax.Array,
  lines: tuple[jax.Array, jax.Array],
  most: float,
) -> jax.Array:
  """Resizes one of [N, H, W, C] along H and turns it over to [W, L, C], L at least len(positions).

  Args:
    lines: first and last + 1 along W that hold anything; those far from them may be left 0.
  """
  height, width, channels = images.shape[1:]
  if (TILE + 2) * max(most, 1) + 3 >= height:
    weights = triangle_weights(positions, jnp.arange(height), size, resized)
    image = images[index].astype(jnp.float32)
    return _as(images, jnp.einsum('yi,ixc->xyc', weights, image, precision='highest'))
  flat = images.reshape(*images.shape[:2], -1)
  window, block = math.ceil((TILE + 2) * max(most, 1)) + 2, min(BLOCK, width)

  def add_tile(number: jax.Array, made: jax.Array) -> jax.Array:
    places = jax.lax.dynamic_slice(padded, (number * TILE,), (TILE,))
    shown = jnp.where(_inside(places, resized), places, resized).min()
    # Of (shown + ½) size / resized − max(size / resized, 1), in whole numbers: the slice and the
    # weights must begin at one row, and a compiler may round a float twice, each in its own way.
    first = ((2 * shown + 1) * size - 2 * jnp.maximum(size, resized)) // jnp.maximum(2 * resized, 1)
    first = jnp.clip(first, 0, height - window)
    weights = triangle_weights(places, first + jnp.arange(window), size, resized)

    def add_block(block_number: jax.Array, made: jax.Array) -> jax.Array:
      line = jnp.minimum(lines[0] + block_number * block, width - block)
      part = jax.lax.dynamic_slice(
        flat, (index, first, line * channels), (1, window, block * channels)
      )[0]
      tile = _as(images, jnp.dot(weights, part.astype(jnp.float32), precision='highest'))
      turned = jnp.swapaxes(tile.reshape(TILE, block, channels), 0, 1)
      return jax.lax.dynamic_update_slice(made, turned, (line, number * TILE, 0))

    return jax.lax.fori_loop(0, -(-(lines[1] - lines[0]) // block), add_block, made)

  count = -(-len(positions) // TILE)
  padded = jnp.pad(positions, (0, count * TILE - len(positions)), mode='edge')
  begin, end = _bounds(_inside(padded, resized).reshape(count, TILE).any(1))
  empty = jnp.zeros((width, count * TILE, channels), images.dtype)
  return jax.lax.fori_loop(begin, end, add_tile, empty)


def _inside(positions: jax.Array, resized: ArrayLike) -> jax.Array:
  return (positions >= 0) & (positions < resized)


def _bounds(flags: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Returns the first place that is set, and the last + 1; everything if none is."""
  return flags.argmax(), len(flags) - flags[::-1].argmax()


def _as(images: jax.Array, made: jax.Array) -> jax.Array:
  return jnp.round(made).astype(jnp.uint8) if images.dtype == jnp.uint8 else made
