r"""Resizing with a triangle filter as products with matrices, the sizes being traced.

Pixel o of n lies at c = (o + ½)·s with s = (input size)/n; input pixel i enters with the weight

  max(0, 1 − |i + ½ − c| / max(s, 1)),

divided by the sum of all. That is Pillow's BILINEAR: enlarging interpolates linearly, reducing
averages over 2·s pixels. Pillow rounds to 8 bits after each direction; nothing is rounded here.

The matrices are banded. Where s is known to be at most so much, `TILE` pixels at a time are made
from the window of the input that they see.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from robustness.scene_design import LONGEST

TILE = 8


def triangle_weights(positions: jax.Array, pixels: jax.Array, size: ArrayLike, resized: ArrayLike
                     ) -> jax.Array:
  """Returns the weights of one direction, float32 [len(positions), len(pixels)].

  Args:
    positions: int32 [n], pixels of the resized line; those outside it have no weight.
    pixels: int32, pixels of the line that is resized, all that have a weight among them.
    size: how many pixels of the line hold the image, counted from the first.
    resized: how many pixels the image shall have.
  """
  scale = jnp.asarray(size, jnp.float32) / jnp.maximum(resized, 1)
  centre = (positions + 0.5) * scale
  distance = jnp.abs(pixels[None, :] + 0.5 - centre[:, None]) / jnp.maximum(scale, 1.0)
  weights = jnp.maximum(0.0, 1.0 - distance) * (pixels < size)[None, :]
  return weights * (_inside(positions, resized) / jnp.maximum(weights.sum(1), 1e-6))[:, None]


def most_scale(shape: Sequence[int], area: float, side: int) -> float:
  """Returns how many times a cutout is reduced at most, in either direction.

  Args:
    shape: height and width of the array that holds it; it is at most `LONGEST` times as long as
      wide.
    area: of the resized rectangle, at least this fraction of the canvas.
    side: of the canvas, pixels.
  """
  shorter = side * math.sqrt(area / LONGEST)  # truncated to whole pixels, it loses up to one
  if shorter <= 2:
    return math.inf
  return math.sqrt(shape[0] * shape[1] / area) / side * shorter / (shorter - 1)


def resize_planes(planes: jax.Array, size: jax.Array, resized: jax.Array,
                  positions: Sequence[jax.Array], most: float) -> jax.Array:
  """Returns pixels of resized planes, [C, len(positions[0]), len(positions[1])].

  Args:
    planes: [C, H, W], float32, or uint8 which stands for 255 times as much.
    size: int32 [2], height and width of the image in them, from the first pixel on.
    resized: int32 [2], what they shall be.
    positions: int32, rows and columns of the resized image, ascending; those outside it are 0.
    most: static; size / resized is at most this in both directions.
  """
  rows = _resize_rows(planes, size[0], resized[0], positions[0], most)
  columns = _resize_rows(jnp.swapaxes(rows, 1, 2), size[1], resized[1], positions[1], most)
  return jnp.swapaxes(columns, 1, 2)


def _resize_rows(planes: jax.Array, size: jax.Array, resized: jax.Array, positions: jax.Array,
                 most: float) -> jax.Array:
  """Resizes [C, H, W] along H to [C, len(positions), W]."""
  channels, height, width = planes.shape
  if (TILE + 2) * max(most, 1) + 3 >= height:
    weights = triangle_weights(positions, jnp.arange(height), size, resized)
    return jnp.einsum('yi,ciw->cyw', weights, _floats(planes), precision='highest')
  window = math.ceil((TILE + 2) * max(most, 1)) + 2
  scale = size.astype(jnp.float32) / jnp.maximum(resized, 1)

  def add_tile(number: jax.Array, lines: jax.Array) -> jax.Array:
    places = jax.lax.dynamic_slice(padded, (number * TILE,), (TILE,))
    shown = jnp.where(_inside(places, resized), places, resized).min()
    first = jnp.floor((shown + 0.5) * scale - jnp.maximum(scale, 1.0)).astype(jnp.int32)
    first = jnp.clip(first, 0, height - window)
    part = jax.lax.dynamic_slice(planes, (0, first, 0), (channels, window, width))
    weights = triangle_weights(places, first + jnp.arange(window), size, resized)
    made = jnp.einsum('yi,ciw->cyw', weights, _floats(part), precision='highest')
    return jax.lax.dynamic_update_slice(lines, made, (0, number * TILE, 0))

  count = -(-len(positions) // TILE)
  padded = jnp.pad(positions, (0, count * TILE - len(positions)), mode='edge')
  seen = _inside(padded, resized).reshape(count, TILE).any(1)
  begin, end = seen.argmax(), count - seen[::-1].argmax()
  empty = jnp.zeros((channels, count * TILE, width), jnp.float32)
  return jax.lax.fori_loop(begin, end, add_tile, empty)[:, :len(positions)]


def _inside(positions: jax.Array, resized: ArrayLike) -> jax.Array:
  return (positions >= 0) & (positions < resized)


def _floats(planes: jax.Array) -> jax.Array:
  return planes.astype(jnp.float32) / 255 if planes.dtype == jnp.uint8 else planes
