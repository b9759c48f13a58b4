"""Affine warps of 8-bit images as Pillow computes them, bit for bit where the matrix allows it.

Output pixel (x, y) shows the input at (a·x' + b·y' + c, d·x' + e·y' + f) with x' = x + ½ and
y' = y + ½; (a, b, c, d, e, f) is the `data` of Pillow's `Image.transform(size, AFFINE, data)`. What
lies outside the input is vacated.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

FIXED = 1 << 16
"""Pillow's nearest warp counts coordinates in 65536ths of a pixel."""


def matrix(
  name: jax.Array, names: tuple[str, ...], magnitude: jax.Array, height: int, width: int
) -> jax.Array:
  """Returns (a, b, c, d, e, f) float32 [6] of the operation `names[name]`.

  ShearX and ShearY are (1, s, 0, 0, 1, 0) and (1, 0, 0, s, 1, 0); TranslateX and TranslateY show
  what is `magnitude` pixels to the right or below; Rotate turns counterclockwise about the image's
  centre, by degrees.

  Args:
    name: int32 scalar, a position in `names`.
    names: of these five operations.
    magnitude: float32 scalar, in the operation's unit.
    height, width: of the image.
  """
  matrices = {
    'ShearX': (1.0, magnitude, 0.0, 0.0, 1.0, 0.0),
    'ShearY': (1.0, 0.0, 0.0, magnitude, 1.0, 0.0),
    'TranslateX': (1.0, 0.0, magnitude, 0.0, 1.0, 0.0),
    'TranslateY': (1.0, 0.0, 0.0, 0.0, 1.0, magnitude),
    'Rotate': _rotation(magnitude, height, width),
  }
  every = jnp.stack([jnp.stack([jnp.float32(x) for x in matrices[n]]) for n in names])
  return every[name]


def _rotation(degrees: jax.Array, height: int, width: int) -> tuple[jax.Array, ...]:
  angle = -jnp.deg2rad(jnp.float32(degrees))
  cos, sin = jnp.cos(angle), jnp.sin(angle)
  x, y = width / 2, height / 2
  return cos, sin, x - cos * x - sin * y, -sin, cos, y + sin * x - cos * y


def nearest(levels: jax.Array, data: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Returns the warped image, and which pixels show the input and are not vacated, bool [H, W].

  Args:
    levels: uint8 [H, W, C], C ≤ 4.
    data: (a, b, c, d, e, f), float32 [6].
  """
  height, width, channels = levels.shape
  a, b, c, d, e, f = data
  x, y = jnp.arange(width)[None, :], jnp.arange(height)[:, None]
  column = (_fixed(c + (a + b) / 2) + _fixed(a) * x + _fixed(b) * y) >> 16
  row = (_fixed(f + (d + e) / 2) + _fixed(d) * x + _fixed(e) * y) >> 16
  inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
  place = jnp.where(inside, row * width + column, 0)
  warped = jnp.where(inside, _packed(levels).at[place].get(mode='promise_in_bounds'), 0)
  return _unpacked(warped, channels).astype(levels.dtype), inside


def bilinear(levels: jax.Array, data: jax.Array) -> tuple[jax.Array, jax.Array]:
  """See `nearest`; mixes the four neighbours of the place, truncated to a level.

  Neighbours beyond the border are the border's pixels. Coordinates are float32, Pillow's are
  float64: about one value in a thousand differs, by one level.
  """
  height, width, channels = levels.shape
  a, b, c, d, e, f = data
  x, y = jnp.arange(width)[None, :] + 0.5, jnp.arange(height)[:, None] + 0.5
  column, row = a * x + b * y + c, d * x + e * y + f
  inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
  left, top = jnp.floor(column - 0.5), jnp.floor(row - 0.5)
  right_share, low_share = column - 0.5 - left, row - 0.5 - top
  packed = _packed(levels)

  def neighbour(down: int, right: int) -> jax.Array:
    i = jnp.clip(top.astype(jnp.int32) + down, 0, height - 1)
    j = jnp.clip(left.astype(jnp.int32) + right, 0, width - 1)
    values = packed.at[i * width + j].get(mode='promise_in_bounds')
    return _unpacked(values, channels).astype(jnp.float32)

  def mixed(down: int) -> jax.Array:
    first, second = neighbour(down, 0), neighbour(down, 1)
    return first + (second - first) * right_share[..., None]

  upper, lower = mixed(0), mixed(1)
  warped = (upper + (lower - upper) * low_share[..., None]).astype(levels.dtype)
  return jnp.where(inside[..., None], warped, 0), inside


def _fixed(value: jax.Array) -> jax.Array:
  return jnp.floor(value * FIXED + 0.5).astype(jnp.int32)


def _packed(levels: jax.Array) -> jax.Array:
  """Returns a pixel's channels in one int32, [H·W]: a gather then moves a pixel at once."""
  shifts = 8 * jnp.arange(levels.shape[-1])
  return (levels.astype(jnp.int32) << shifts[None, None, :]).sum(-1, dtype=jnp.int32).ravel()


def _unpacked(packed: jax.Array, channels: int) -> jax.Array:
  return (packed[..., None] >> (8 * jnp.arange(channels))[None, None, :]) & 255
