"""Corruptions of single pixels, of resolution and of coding.

All are deterministic. Each is `f(key, image, severity, constants)`; see `severities`.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from robustness.corruptions import jpeg
from robustness.corruptions.colour import scale_saturation, shift_value
from robustness.corruptions.filters import HIGHEST
from robustness.corruptions.levels import from_levels
from robustness.corruptions.severities import Constants, at

FRACTION = 22  # bits after the binary point of Pillow's weights
BAND = 32  # lines of a shrunk axis that one product of matrices makes


def brightness(
  key: jax.Array, image: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Adds to the value of every pixel in the hue, saturation, value model: V ← clip(V + c, 0, 1).

  Args:
    key: unused.
    image: float32 [H, W, C] in [0, 1]; the value of a grey image is the image.
    severity: 1..5; may be traced.
    constants: `shift` c.
  """
  del key
  return jnp.clip(shift_value(image, at(constants['shift'], severity)), 0, 1)


def contrast(
  key: jax.Array, image: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Draws every channel towards its mean over the image: clip(m + c (x - m), 0, 1).

  Args:
    key: unused.
    image: float32 [H, W, C] in [0, 1].
    severity: 1..5; may be traced.
    constants: `factor` c.
  """
  del key
  mean = image.mean(1, keepdims=True).mean(0, keepdims=True)  # of lines first: rounds less
  return jnp.clip((image - mean) * at(constants['factor'], severity) + mean, 0, 1)


def saturate(
  key: jax.Array, image: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Changes the saturation of every pixel: S ← clip(c S + d, 0, 1).

  Args:
    key: unused.
    image: float32 [H, W, C] in [0, 1]; a grey image is left as it is.
    severity: 1..5; may be traced.
    constants: `factor` c, `shift` d.
  """
  del key
  factor, shift = at(constants['factor'], severity), at(constants['shift'], severity)
  return jnp.clip(scale_saturation(image, factor, shift), 0, 1)


def jpeg_compression(
  key: jax.Array, image: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Passes the image through a JPEG file with 4:2:0 chroma; see `jpeg`.

  Args:
    key: unused.
    image: float32 [H, W, C] in [0, 1], of any size; one channel makes a grey file.
    severity: 1..5; may be traced.
    constants: `quality`, libjpeg's 1..100.
  """
  del key
  return jpeg.round_trip(image, at(constants['quality'], severity))


def pixelate(
  key: jax.Array, image: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Shrinks by averaging whole pixels over boxes and enlarges by repetition, as Pillow does.

  All is done in 8 bits, to the bit: the image is rounded to levels, columns are averaged and
  rounded, then rows are. Pillow's nearest pixel, by which imagecorruptions enlarges, gives the same
  for 32, 64 and 224 pixels and differs in one line for 299.

  Args:
    key: unused.
    image: float32 [H, W, C] in [0, 1]; its sides times the smallest scale are at least 1.
    severity: 1..5; may be traced.
    constants: `scale` c; a side of n pixels shrinks to ⌊n c⌋.

  Returns:
    float32 [H, W, C], levels k / 255.
  """
  del key
  branches = [functools.partial(_pixelate, scale=scale) for scale in constants['scale']]
  return jax.lax.switch(jnp.asarray(severity) - 1, branches, image)


def _pixelate(image: jax.Array, scale: float) -> jax.Array:
  height, width, channels = image.shape
  rows, columns = (repeats(size, scale) for size in (height, width))
  levels = jnp.round(jnp.clip(image, 0, 1) * 255).reshape(height, width * channels)
  levels = _rounded_means(levels, np.kron(shrinking(width, scale), np.eye(channels, dtype=int)), 1)
  levels = _rounded_means(levels, shrinking(height, scale), 0)
  small = from_levels(levels.astype(jnp.int32)).reshape(len(levels), -1, channels)
  wide = small.at[:, columns].get(mode='promise_in_bounds')
  return wide.at[rows].get(mode='promise_in_bounds')


def _rounded_means(levels: jax.Array, members: np.ndarray, axis: int) -> jax.Array:
  """Returns the means over boxes of lines, rounded by Pillow's fixed-point arithmetic of 22 bits.

  Args:
    levels: float32 [H, W], integers 0..255; sums of a box are exact.
    members: [new, old], 1 where an old line belongs to the box of a new one.
    axis: of the lines, 0 or 1.
  """
  sums = [
    jnp.matmul(part, levels[first:last], precision=HIGHEST)
    if axis == 0
    else jnp.matmul(levels[:, first:last], part.T, precision=HIGHEST)
    for first, last, part in _bands(members)
  ]
  shares = np.floor(2**FRACTION / members.sum(1) + 0.5).astype(np.int32)
  half = 1 << (FRACTION - 1)
  shares = shares[:, None] if axis == 0 else shares[None, :]
  joined = jnp.concatenate(sums, axis).astype(jnp.int32)
  return ((joined * shares + half) >> FRACTION).astype(jnp.float32)


def _bands(members: np.ndarray) -> list[tuple[int, int, np.ndarray]]:
  """Returns a matrix of boxes as pieces of `BAND` lines: first and last old line, [BAND, old].

  Boxes follow one another, so that all else of the matrix is 0 and need not be multiplied.
  """
  pieces = []
  for start in range(0, len(members), BAND):
    piece = members[start : start + BAND]
    first, last = np.flatnonzero(piece.any(0))[[0, -1]]
    pieces.append((int(first), int(last) + 1, piece[:, first : last + 1].astype(np.float32)))
  return pieces


def shrinking(size: int, scale: float) -> np.ndarray:
  """Returns which lines of an axis are averaged into each line of the shrunk one.

  Args:
    size: n, lines of the axis.
    scale: c; the axis shrinks to ⌊n c⌋ lines.

  Returns:
    int64 [⌊n c⌋, n] of 0 and 1.
  """
  return _box(size, int(size * scale))


def repeats(size: int, scale: float) -> np.ndarray:
  """Returns which line of the shrunk axis each line of the enlarged one repeats, int64 [size]."""
  return _box(int(size * scale), size).argmax(1)


def _box(old: int, new: int) -> np.ndarray:
  """Returns [new, old], 1 where an old line falls into the box of a new one.

  Pillow's box filter, in its float64 arithmetic, which decides about lines on a boundary.
  """
  step = old / new
  reach = max(step, 1.0)
  centre = (np.arange(new) + 0.5) * step
  first = np.maximum((centre - 0.5 * reach + 0.5).astype(int), 0)[:, None]
  last = np.minimum((centre + 0.5 * reach + 0.5).astype(int), old)[:, None]
  line = np.arange(old)[None, :]
  offset = (line - centre[:, None] + 0.5) * (1 / reach)
  return ((line >= first) & (line < last) & (offset > -0.5) & (offset <= 0.5)).astype(np.int64)
