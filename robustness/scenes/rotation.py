r"""Rotation with a bicubic filter, by looking up 4 × 4 neighbours.

At the distance d from the pixel before, the weights are Keys's with a = −1, Pillow's BICUBIC:

  −d + 2d² − d³,   1 − 2d² + d³,   d + d² − d³,   −d² + d³.

Neighbours beyond the image repeat its border; a position outside it is transparent. As in Pillow,
what is looked up has 8 bits a channel, and the four channels of a pixel are read as one word.
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
    packed: uint32 [D, E], a window of the image; it must hold all neighbours.
    offset: int32 [2], position in the image of the window's first pixel.
    size: int32 [2], height and width of the image.
    v, h: vertical and horizontal positions in the image, any shape, .5 at the first pixel's centre.
  """
  inside = (v >= 0) & (v < size[0]) & (h >= 0) & (h < size[1])
  top, left = jnp.floor(v - 0.5), jnp.floor(h - 0.5)
  down, across = _weights(v - 0.5 - top), _weights(h - 0.5 - left)
  rows = [_index(top, k, offset[0], size[0], packed.shape[0]) for k in range(-1, 3)]
  columns = [_index(left, k, offset[1], size[1], packed.shape[1]) for k in range(-1, 3)]
  flat = packed.reshape(-1)
  total = jnp.zeros((4, *v.shape), jnp.float32)
  for row, weight in zip(rows, down, strict=True):
    line = jnp.zeros_like(total)
    for column, share in zip(columns, across, strict=True):
      line += share[None] * _unpack(flat[row * packed.shape[1] + column])
    total += weight[None] * line
  alpha = jnp.clip(total[3:], 0.0, 255.0)
  return jnp.concatenate([jnp.clip(total[:3], 0.0, alpha), alpha]) * (inside[None] / 255)


def _weights(d: jax.Array) -> tuple[jax.Array, ...]:
  square, cube = d * d, d * d * d
  return (-d + 2 * square - cube, 1 - 2 * square + cube, d + square - cube, cube - square)


def _index(base: jax.Array, step: int, offset: jax.Array, size: jax.Array, room: int) -> jax.Array:
  """Returns the place in the window of a neighbour, the image's border repeated."""
  return jnp.clip(jnp.clip(base.astype(jnp.int32) + step, 0, size - 1) - offset, 0, room - 1)


def _unpack(words: jax.Array) -> jax.Array:
  """Returns the four channels of packed pixels, float32 [4, ...] in 0..255."""
  return jnp.stack([words >> shift & 255 for shift in (0, 8, 16, 24)]).astype(jnp.float32)
