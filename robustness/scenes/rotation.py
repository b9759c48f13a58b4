r"""Rotation with a bicubic filter, by looking up 4 × 4 neighbours.

At the distance d from the pixel before, the weights are Keys's with a = −1, Pillow's BICUBIC:

  −d + 2d² − d³,   1 − 2d² + d³,   d + d² − d³,   −d² + d³.

Neighbours beyond the image repeat its border; a position outside it is transparent. As in Pillow,
what is looked up has 8 bits a channel: the four channels of a pixel are one word.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

REACH = 2
"""Neighbours lie at most so many pixels outside an image."""


def pack(pixels: jax.Array) -> jax.Array:
  """Returns pixels [H, W, 4] as uint32 [H, W], 8 bits a channel.

  Args:
    pixels: float32 in [0, 1], or uint8.
  """
  if pixels.dtype != jnp.uint8:
    pixels = jnp.round(jnp.clip(pixels, 0.0, 1.0) * 255)
  levels = pixels.astype(jnp.uint32)
  return levels[..., 0] | levels[..., 1] << 8 | levels[..., 2] << 16 | levels[..., 3] << 24


def unpack(words: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Returns the colours and the alpha of packed pixels, float32 [..., 3] and [..., 1] in [0, 1]."""
  colours = _channel(words[..., None], _channels(words.shape))
  return colours / 255, _channel(words[..., None], 3) / 255


def sample(
  packed: jax.Array,
  index: ArrayLike,
  offset: jax.Array,
  size: jax.Array,
  v: jax.Array,
  h: jax.Array,
) -> tuple[jax.Array, jax.Array]:
  """Returns an image at fractional positions: premultiplied colours [..., 3] and alpha [..., 1].

  Args:
    packed: uint32 [A, D, E], windows of images with their borders repeated around them; they must
      hold all neighbours.
    index: which of them is looked at.
    offset: int32 [2], position in the image of the window's first pixel.
    size: int32 [2], height and width of the image.
    v, h: vertical and horizontal positions in the image, any shape, .5 at the first pixel's centre.
  """
  inside = (v >= 0) & (v < size[0]) & (h >= 0) & (h < size[1])
  top, left = jnp.floor(v - 0.5), jnp.floor(h - 0.5)
  down, across = _weights(v - 0.5 - top), _weights(h - 0.5 - left)
  first = _first(
    packed, index, top.astype(jnp.int32) - 1 - offset[0], left.astype(jnp.int32) - 1 - offset[1]
  )
  line, pixels = packed.shape[2], packed.reshape(-1)

  # One row of neighbours a turn: unrolled, the compiler makes code of it that is six times slower.
  def add_row(row: jax.Array, total: list[jax.Array]) -> list[jax.Array]:
    words = [
      pixels.at[first + (row * line + column)].get(mode='promise_in_bounds') for column in range(4)
    ]
    return [
      total[channel]
      + down[row]
      * sum(
        (across[column] * _channel(words[column], channel) for column in range(1, 4)),
        across[0] * _channel(words[0], channel),
      )
      for channel in range(4)
    ]

  total = jax.lax.fori_loop(0, 4, add_row, [jnp.zeros(v.shape, jnp.float32)] * 4)
  red, green, blue, alpha = (x[..., None] for x in total)
  alpha = jnp.clip(alpha, 0.0, 255.0) * inside[..., None]
  channel = _channels(v.shape)
  colours = jnp.where(channel == 0, red, jnp.where(channel == 1, green, blue))
  return jnp.clip(colours, 0.0, alpha) / 255, alpha / 255


def _weights(d: jax.Array) -> jax.Array:
  """Returns the weights of four neighbours, [4, ...]."""
  square, cube = d * d, d * d * d
  return jnp.stack(
    [-d + 2 * square - cube, 1 - 2 * square + cube, d + square - cube, cube - square]
  )


def _first(packed: jax.Array, index: ArrayLike, row: jax.Array, column: jax.Array) -> jax.Array:
  """Returns where the first of 4 × 4 neighbours lies among the pixels in reading order."""
  _, height, width = packed.shape
  row = jnp.clip(row, 0, height - 4) + jnp.asarray(index, jnp.int32) * height
  return row * width + jnp.clip(column, 0, width - 4)


def _channel(words: jax.Array, channel: ArrayLike) -> jax.Array:
  """Returns one channel of packed pixels, float32 in 0..255."""
  return (words >> (8 * channel) & 255).astype(jnp.float32)


def _channels(shape: Sequence[int]) -> jax.Array:
  """Returns the numbers of three colours at every pixel; a stack of planes is ten times slower."""
  return jax.lax.broadcasted_iota(jnp.uint32, (*shape, 3), len(shape))
