r"""Rotation with a bicubic filter, by looking up 4 × 4 neighbours.

At the distance d from the pixel before, the weights are Keys's with a = −1, Pillow's BICUBIC:

  −d + 2d² − d³,   1 − 2d² + d³,   d + d² − d³,   −d² + d³.

Neighbours beyond the image repeat its border; a position outside it is transparent. As in Pillow,
what is looked up has 8 bits a channel: the four channels of a pixel are one word.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp


def pack(planes: jax.Array) -> jax.Array:
  """Returns four planes in [0, 1], [4, H, W], as uint32 [H, W] of 8 bits a channel."""
  levels = jnp.round(jnp.clip(planes, 0.0, 1.0) * 255).astype(jnp.uint32)
  return levels[0] | levels[1] << 8 | levels[2] << 16 | levels[3] << 24


def sample(packed: jax.Array, offset: jax.Array, size: jax.Array, v: jax.Array, h: jax.Array
           ) -> jax.Array:
  """Returns an image at fractional positions, premultiplied, float32 [4, ...] in [0, 1].

  Args:
    packed: uint32 [D, E], a window of the image with its border repeated around it; it must hold
      all neighbours.
    offset: int32 [2], position in the image of the window's first pixel.
    size: int32 [2], height and width of the image.
    v, h: vertical and horizontal positions in the image, any shape, .5 at the first pixel's centre.
  """
  inside = (v >= 0) & (v < size[0]) & (h >= 0) & (h < size[1])
  top, left = jnp.floor(v - 0.5), jnp.floor(h - 0.5)
  weights = _weights(v - 0.5 - top)[..., :, None] * _weights(h - 0.5 - left)[..., None, :]
  words = _neighbours(packed, top.astype(jnp.int32) - 1 - offset[0],
                      left.astype(jnp.int32) - 1 - offset[1])
  total = (unpack(words) * weights[None]).sum((-2, -1))
  alpha = jnp.clip(total[3:], 0.0, 255.0)
  return jnp.concatenate([jnp.clip(total[:3], 0.0, alpha), alpha]) * (inside[None] / 255)


def _weights(d: jax.Array) -> jax.Array:
  """Returns the weights of four neighbours, [..., 4]."""
  square, cube = d * d, d * d * d
  return jnp.stack([-d + 2 * square - cube, 1 - 2 * square + cube, d + square - cube,
                    cube - square], -1)


def _neighbours(packed: jax.Array, rows: jax.Array, columns: jax.Array) -> jax.Array:
  """Returns the 4 × 4 pixels from each (row, column) on, uint32 [..., 4, 4]."""
  def at(row: jax.Array, column: jax.Array) -> jax.Array:
    return jax.lax.dynamic_slice(packed, (row, column), (4, 4))
  return jax.vmap(at)(rows.ravel(), columns.ravel()).reshape(*rows.shape, 4, 4)


def unpack(words: jax.Array) -> jax.Array:
  """Returns the four channels of packed pixels, float32 [4, ...] in 0..255."""
  return jnp.stack([words >> shift & 255 for shift in (0, 8, 16, 24)]).astype(jnp.float32)
