"""Corruptions of brightness, contrast, colour, resolution and coding; none is random."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from robustness.corruptions import jpeg
from robustness.corruptions.corruption import Strength, published
from robustness.corruptions.filters import HIGHEST
from robustness.corruptions.names import BLUR, HAZE, UNLIKE_OTHERS
from robustness.corruptions.pixels import from_levels, scale_saturation, shift_value

FRACTION = 22  # fractional bits of Pillow's weights
BAND = 32  # groups of lines that one matrix product averages


@published(UNLIKE_OTHERS)
def brightness(key: jax.Array, image: jax.Array, strength: Strength) -> jax.Array:
  """Adds the constant `shift` to V of the hue, saturation, value model: clip(V + shift, 0, 1).

  `key` is unused.
  """
  return jnp.clip(shift_value(image, strength['shift']), 0, 1)


@published(HAZE)
def contrast(key: jax.Array, image: jax.Array, strength: Strength) -> jax.Array:
  """Scales every channel x about its mean m over the image: clip(m + factor (x - m), 0, 1).

  `factor` is the constant of the severity. `key` is unused.
  """
  mean = image.mean(1, keepdims=True).mean(0, keepdims=True)  # averaging lines first rounds less
  return jnp.clip((image - mean) * strength['factor'] + mean, 0, 1)


@published(UNLIKE_OTHERS)
def saturate(key: jax.Array, image: jax.Array, strength: Strength) -> jax.Array:
  """Changes the saturation S of the hue, saturation, value model: clip(factor S + shift, 0, 1).

  `factor` and `shift` are the constants of the severity. A grey image is unchanged. `key` is
  unused.
  """
  return jnp.clip(scale_saturation(image, strength['factor'], strength['shift']), 0, 1)


@published(UNLIKE_OTHERS)
def jpeg_compression(key: jax.Array, image: jax.Array, strength: Strength) -> jax.Array:
  """Compresses the image to JPEG with the constant `quality` and decodes it again.

  Chroma is stored at half the height and width (4:2:0). A grey image is stored without chroma.
  `key` is unused.
  """
  return jpeg.round_trip(image, strength['quality'])


@published(
  BLUR,
  least_side=lambda constants: int(np.ceil(1 / min(constants['scale']))),
  reason='or less than one large pixel remains',
)
def pixelate(key: jax.Array, image: jax.Array, strength: Strength) -> jax.Array:
  """Shrinks the image by box averaging, then enlarges it to its size by repeating pixels.

  A side of n pixels shrinks to ⌊n · `scale`⌋, where `scale` is the constant of the severity. The
  result equals Pillow's to the bit: pixels are rounded to 8-bit levels first, and again after the
  horizontal and the vertical averaging. `key` is unused.
  """
  # a branch for each severity, because the shapes of the shrunk images differ
  branches = [functools.partial(_pixelate, scale=scale) for scale in strength.constants['scale']]
  return jax.lax.switch(strength.index, branches, image)


def _pixelate(image: jax.Array, scale: float) -> jax.Array:
  """Returns an image [H, W, C] with its sides shrunk by the factor `scale` ≤ 1, then enlarged."""
  height, width, channels = image.shape
  small_height, small_width = int(height * scale), int(width * scale)
  # Shrink: each pixel of the small image is the mean over a box of pixels. Channels are side by
  # side in `levels`, R G B R G B ... Column j C + c is channel c of the pixels in column j.
  levels = jnp.round(jnp.clip(image, 0, 1) * 255).reshape(height, width * channels)
  # box i C + c has channel c of all pixels in box i, [small_width · C, width · C]
  boxes_of_channels = np.kron(box_membership(width, small_width), np.eye(channels, dtype=int))
  narrow_levels = _rounded_means(levels, boxes_of_channels, axis=1)
  small_levels = _rounded_means(narrow_levels, box_membership(height, small_height), axis=0)
  small = from_levels(small_levels.astype(jnp.int32)).reshape(small_height, small_width, channels)
  # Enlarge: the box of a pixel of the result has one pixel of the small image, found by `argmax`.
  rows = box_membership(small_height, height).argmax(1)
  columns = box_membership(small_width, width).argmax(1)
  wide = small.at[:, columns].get(mode='promise_in_bounds')
  return wide.at[rows].get(mode='promise_in_bounds')


def _rounded_means(levels: jax.Array, members: np.ndarray, axis: int) -> jax.Array:
  """Averages groups of neighbouring rows or columns, rounded by Pillow's 22-bit arithmetic.

  Args:
    levels: whole numbers in 0..255, float32 [H, W].
    members: [groups, lines], 1 where a line (a row or a column) belongs to a group, else 0.
    axis: 0 if lines are rows, 1 if they are columns.

  Returns:
    The mean levels, [groups, W] or [H, groups].
  """
  sums = []
  # neighbouring groups have few of the lines, which are cut out to keep the products small
  for start in range(0, len(members), BAND):
    members_in_band = members[start : start + BAND]
    lines_in_band = np.flatnonzero(members_in_band.any(0))
    first, last = int(lines_in_band[0]), int(lines_in_band[-1])
    weights = members_in_band[:, first : last + 1].astype(np.float32)
    lines = jax.lax.slice_in_dim(levels, first, last + 1, axis=axis)
    factors = (weights, lines) if axis == 0 else (lines, weights.T)
    sums.append(jnp.matmul(*factors, precision=HIGHEST))
  # 1 / (lines of the group) and the ½ for rounding, both times 2²²
  shares = np.floor(2**FRACTION / members.sum(1) + 0.5).astype(np.int32)
  half = 1 << (FRACTION - 1)
  shares = shares[:, None] if axis == 0 else shares[None, :]
  joined = jnp.concatenate(sums, axis).astype(jnp.int32)
  return ((joined * shares + half) >> FRACTION).astype(jnp.float32)


def box_membership(old: int, new: int) -> np.ndarray:
  """Returns which pixels each pixel of a resized line averages, 0 or 1, int64 [new, old].

  The boxes are as in Pillow's box filter, and so is the rounding at the boundary of two boxes. If
  the line is enlarged (new > old), a box contains only the nearest pixel.

  Args:
    old: number of pixels of the line.
    new: number of pixels of the resized line.
  """
  step = old / new
  width = max(step, 1.0)  # of a box, in old pixels
  centre = (np.arange(new) + 0.5) * step
  # the first pixel of a box and the pixel after its last, rounded as in Pillow
  first = np.maximum((centre - 0.5 * width + 0.5).astype(int), 0)[:, None]
  end = np.minimum((centre + 0.5 * width + 0.5).astype(int), old)[:, None]
  pixel = np.arange(old)[None, :]
  offset = (pixel - centre[:, None] + 0.5) * (1 / width)  # in [-½, ½] inside of the box
  has_weight = (offset > -0.5) & (offset <= 0.5)
  return ((pixel >= first) & (pixel < end) & has_weight).astype(np.int64)
