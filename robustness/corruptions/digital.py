"""Corruptions of single pixels, of resolution and of coding.

All are deterministic. Each is `f(key, image, severity, constants)`; see `severities`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from robustness.corruptions import jpeg
from robustness.corruptions.colour import scale_saturation, shift_value
from robustness.corruptions.filters import separable
from robustness.corruptions.severities import Constants, at


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
  mean = image.mean((0, 1), keepdims=True)
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
  """Shrinks by averaging whole pixels over boxes and enlarges by repetition.

  Pillow's nearest pixel, by which imagecorruptions enlarges, gives the same for 32, 64 and 224
  pixels and differs in one line for 299.

  Args:
    key: unused.
    image: float32 [H, W, C] in [0, 1]; its sides times the smallest scale are at least 1.
    severity: 1..5; may be traced.
    constants: `scale` c; a side of n pixels shrinks to ⌊n c⌋.
  """
  del key
  rows, columns = (_means(size, severity, constants['scale']) for size in image.shape[:2])
  return separable(image, rows, columns)


def _means(size: int, severity: jax.Array | int, scales: tuple[float, ...]) -> jax.Array:
  """Returns the matrix [size, size] that shrinks and enlarges a line of pixels."""
  first, last = (
    at(np.array(ends)[:, :, None], severity)
    for ends in zip(*(box_lines(size, scale) for scale in scales), strict=True)
  )
  line = np.arange(size)[None, :]
  return jnp.where((line >= first) & (line < last), 1 / (last - first), 0)


def box_lines(size: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
  """Returns which lines [first, last) are averaged into each line of a shrunk and enlarged axis.

  Pillow's box filter, in its float64 arithmetic, which decides about lines on a boundary.

  Args:
    size: n, lines of the axis.
    scale: c; the axis shrinks to ⌊n c⌋ lines.
  """
  small = int(size * scale)
  down, up = _box(size, small), _box(small, size)
  weights = up @ down > 0
  return weights.argmax(1), size - weights[:, ::-1].argmax(1)


def _box(old: int, new: int) -> np.ndarray:
  """Returns [new, old], 1 where an old line falls into the box of a new one."""
  step = old / new
  reach = max(step, 1.0)
  centre = (np.arange(new) + 0.5) * step
  first = np.maximum((centre - 0.5 * reach + 0.5).astype(int), 0)[:, None]
  last = np.minimum((centre + 0.5 * reach + 0.5).astype(int), old)[:, None]
  line = np.arange(old)[None, :]
  offset = (line - centre[:, None] + 0.5) * (1 / reach)
  return ((line >= first) & (line < last) & (offset > -0.5) & (offset <= 0.5)).astype(np.int64)
