"""Pillow's arithmetic on 8-bit levels: affine warps, and tables of 256 entries per channel.

Warps equal Pillow's in every bit where the matrix allows it. Output pixel (x, y) shows the input at
(a·x' + b·y' + c, d·x' + e·y' + f) with x' = x + ½ and y' = y + ½; (a, b, c, d, e, f) is the `data`
of `Image.transform(size, AFFINE, data)`. Pixels that show nothing of the input are vacated.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

STEPS_PER_PIXEL = 1 << 16
"""Steps per pixel of the coordinates in Pillow's nearest warp, which are integers."""
TABULATED = (
  *('AutoContrast', 'Equalize', 'Invert', 'Posterize'),
  *('Solarize', 'SolarizeAdd', 'Brightness', 'Contrast'),
)
"""Operations that map each level of a channel to another one, whatever its place."""


def warp_matrix(
  index: jax.Array, names: tuple[str, ...], magnitude: jax.Array, height: int, width: int
) -> jax.Array:
  """Returns the affine matrix (a, b, c, d, e, f) of a rotation, shear or translation, float32 [6].

  Pixel (x, y) of the result shows the input at (a x + b y + c, d x + e y + f).

  Args:
    index: index of the operation in `names`, int32 scalar; may be traced.
    names: the operations that can occur, such as 'Rotate' and 'ShearX'.
    magnitude: size of the change. Translations move the image to the left or up by this number of
      pixels. Rotate turns it by degrees counterclockwise about its centre. Shears have the slope.
    height: height of the image in pixels.
    width: width of the image in pixels.
  """
  angle = -jnp.deg2rad(jnp.float32(magnitude))
  cos, sin = jnp.cos(angle), jnp.sin(angle)
  x, y = width / 2, height / 2  # the centre
  matrices = {
    'ShearX': (1.0, magnitude, 0.0, 0.0, 1.0, 0.0),
    'ShearY': (1.0, 0.0, 0.0, magnitude, 1.0, 0.0),
    'TranslateX': (1.0, 0.0, magnitude, 0.0, 1.0, 0.0),
    'TranslateY': (1.0, 0.0, 0.0, 0.0, 1.0, magnitude),
    'Rotate': (cos, sin, x - cos * x - sin * y, -sin, cos, y + sin * x - cos * y),
  }
  stacked = [jnp.stack([jnp.float32(entry) for entry in matrices[warp]]) for warp in names]
  return jnp.stack(stacked)[index]


def warp_nearest(levels: jax.Array, matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Applies an affine map to an 8-bit image with nearest-neighbour interpolation.

  Args:
    levels: the image, uint8 [H, W, C] with C ≤ 4.
    matrix: (a, b, c, d, e, f), float32 [6]. Pixel (x, y) of the result shows the input at (a x + b
      y + c, d x + e y + f).

  Returns:
    (image uint8 [H, W, C], mask bool [H, W]). The mask is false at pixels that show no part of the
    input; the image is 0 there.
  """
  height, width, channels = levels.shape
  a, b, c, d, e, f = matrix
  x, y = jnp.arange(width)[None, :], jnp.arange(height)[:, None]
  # As in Pillow, coordinates count steps of 1 / 2**16 pixel, and a, b, d and e are rounded to such
  # steps. The first summand is the source point of the centre (½, ½) of pixel (0, 0).
  column_steps = _to_steps(c + (a + b) / 2) + _to_steps(a) * x + _to_steps(b) * y
  row_steps = _to_steps(f + (d + e) / 2) + _to_steps(d) * x + _to_steps(e) * y
  column, row = column_steps >> 16, row_steps >> 16  # divided by 2**16, rounded down to a pixel
  is_inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
  index = jnp.where(is_inside, row * width + column, 0)  # in the flat array of packed pixels
  warped = jnp.where(is_inside, _packed(levels).at[index].get(mode='promise_in_bounds'), 0)
  return _unpacked(warped, channels).astype(levels.dtype), is_inside


def warp_bilinear(levels: jax.Array, matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Applies an affine map to an 8-bit image with bilinear interpolation.

  Results are truncated to integers. Beyond its border the image repeats its edge pixels.
  Coordinates are float32, while Pillow's are float64, so that about one value in a thousand differs
  by 1 from Pillow's.

  Args:
    levels: the image, uint8 [H, W, C] with C ≤ 4.
    matrix: (a, b, c, d, e, f), float32 [6]. Pixel (x, y) of the result shows the input at (a x + b
      y + c, d x + e y + f).

  Returns:
    (image uint8 [H, W, C], mask bool [H, W]). The mask is false at pixels that show no part of the
    input; the image is 0 there.
  """
  height, width, channels = levels.shape
  a, b, c, d, e, f = matrix
  # the centres of the pixels of the result, and their source points
  x, y = jnp.arange(width)[None, :] + 0.5, jnp.arange(height)[:, None] + 0.5
  column, row = a * x + b * y + c, d * x + e * y + f
  is_inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
  x0, y0 = jnp.floor(column - 0.5), jnp.floor(row - 0.5)  # the upper left of four neighbours
  right_share, low_share = column - 0.5 - x0, row - 0.5 - y0
  packed = _packed(levels)  # one int32 for each pixel: one gather moves all its channels

  def neighbour(down: int, right: int) -> jax.Array:
    """Returns one of the four pixels around the source point of each pixel, float32 [H, W, C].

    (y0, x0) is the upper left one, [H, W] each. Rows and columns outside the image repeat its edge.

    Args:
      down: 0 for the upper row, 1 for the lower one.
      right: 0 for the left column, 1 for the right one.
    """
    i = jnp.clip(y0.astype(jnp.int32) + down, 0, height - 1)
    j = jnp.clip(x0.astype(jnp.int32) + right, 0, width - 1)
    values = packed.at[i * width + j].get(mode='promise_in_bounds')
    return _unpacked(values, channels).astype(jnp.float32)

  def interpolated(down: int) -> jax.Array:
    """Returns the values of a row of pixels, interpolated horizontally, float32 [H, W, C].

    `down` is 0 for the row above each source point, and 1 for the row below.
    """
    first, second = neighbour(down, 0), neighbour(down, 1)  # the left and the right one
    return first + (second - first) * right_share[..., None]

  upper, lower = interpolated(0), interpolated(1)
  warped = (upper + (lower - upper) * low_share[..., None]).astype(levels.dtype)
  return jnp.where(is_inside[..., None], warped, 0), is_inside


def _to_steps(value: jax.Array) -> jax.Array:
  """Converts a coordinate from pixels to 1 / `STEPS_PER_PIXEL` of a pixel, int32."""
  return jnp.floor(value * STEPS_PER_PIXEL + 0.5).astype(jnp.int32)


def _packed(levels: jax.Array) -> jax.Array:
  """Packs the channels of each pixel into the bytes of one int32, [H·W].

  One gather then moves all channels of a pixel.
  """
  shifts = 8 * jnp.arange(levels.shape[-1])
  return (levels.astype(jnp.int32) << shifts[None, None, :]).sum(-1, dtype=jnp.int32).ravel()


def _unpacked(packed: jax.Array, channels: int) -> jax.Array:
  """Returns the lowest C bytes of each integer, the channels of a pixel, int32 [..., C]."""
  return (packed[..., None] >> (8 * jnp.arange(channels))[None, None, :]) & 255


def level_table(
  index: jax.Array, names: tuple[str, ...], levels: jax.Array, magnitude: jax.Array
) -> jax.Array:
  """Returns a table from old to new pixel values for an operation, uint8 [256, C].

  Args:
    index: index of the operation in `names`, int32 scalar; may be traced.
    names: the operations that can occur, from `TABULATED`. Only these are compiled.
    levels: the image, uint8 [H, W, C], on which AutoContrast, Equalize and Contrast depend.
    magnitude: size of the change, in the unit of `operations.UNITS`.
  """
  level = jnp.broadcast_to(jnp.arange(256)[:, None], (256, levels.shape[-1]))
  tables: dict[str, Callable[[], jax.Array]] = {
    'Invert': lambda: 255 - level,
    # the mask has ones in the bits that are kept: −16 is …11110000
    'Posterize': lambda: level & -(1 << (8 - magnitude.astype(jnp.int32))),
    'Solarize': lambda: jnp.where(level < magnitude, level, 255 - level),
    'SolarizeAdd': lambda: jnp.where(
      level < 128, jnp.clip(level + magnitude.astype(jnp.int32), 0, 255), level
    ),
    'Brightness': lambda: blend(0, level, magnitude),
    'Contrast': lambda: blend(_mean_grey(levels), level, magnitude),
    'AutoContrast': lambda: _auto_contrast(levels, level),
    'Equalize': lambda: equalize(levels),
  }
  return jax.lax.switch(index, [tables[name] for name in names]).astype(jnp.uint8)


def look_up(levels: jax.Array, entries: jax.Array) -> jax.Array:
  """Replaces each value of an 8-bit image [H, W, C] by its entry in a table [256, C].

  The result at (y, x, c) is `entries[levels[y, x, c], c]`.
  """
  channels = levels.shape[-1]  # entry (level, c) is at level · C + c of the flat table
  index = levels.astype(jnp.int32) * channels + jnp.arange(channels)[None, None, :]
  return entries.ravel().at[index].get(mode='promise_in_bounds')


def blend(degenerate: jax.Array | int, levels: jax.Array, factor: jax.Array) -> jax.Array:
  """Returns degenerate + factor·(levels − degenerate), truncated to an integer in 0..255, int32.

  Args:
    degenerate: the result for the factor 0, as Pillow calls it: black, the mean grey value of the
      image, or a grey or smooth version of the image.
    levels: the image, which is the result for the factor 1.
    factor: weight of the image; above 1 it extrapolates.
  """
  mixed = degenerate + factor * (levels.astype(jnp.int32) - degenerate).astype(jnp.float32)
  return jnp.clip(mixed, 0, 255).astype(jnp.int32)


def grey(levels: jax.Array) -> jax.Array:
  """Returns the grey version of an 8-bit image as Pillow computes it, int32 [H, W, 1].

  A value is .299 R + .587 G + .114 B with weights in 65536ths, rounded.
  """
  levels = levels.astype(jnp.int32)
  if levels.shape[-1] == 1:
    return levels
  weighted = levels * jnp.array([19595, 38470, 7471])[None, None, :]
  return (weighted.sum(-1, keepdims=True) + 32768) >> 16  # ⌊sum / 65536 + ½⌋


def _mean_grey(levels: jax.Array) -> jax.Array:
  """Returns the rounded mean of the grey values of an image, int32 scalar."""
  pixels = levels.shape[0] * levels.shape[1]
  return (2 * grey(levels).sum() + pixels) // (2 * pixels)


def _auto_contrast(levels: jax.Array, identity: jax.Array) -> jax.Array:
  """Returns the table [256, C] of AutoContrast for each channel of an image.

  The table maps the channel's lowest value to 0 and its highest to 255. A channel with a single
  value is unchanged.

  Args:
    levels: the image, uint8 [H, W, C].
    identity: the table that changes nothing, [256, C].
  """
  values = levels.reshape(-1, levels.shape[-1]).astype(jnp.int32)
  low, high = values.min(0, keepdims=True), values.max(0, keepdims=True)
  stretched = _quotient(255 * jnp.maximum(identity - low, 0), high - low)
  return jnp.where(high > low, jnp.minimum(stretched, 255), identity)


def equalize(levels: jax.Array) -> jax.Array:
  """Returns the table [256, C] that equalises each channel's histogram as Pillow does.

  With the histogram h, entry i is ⌊(⌊s/2⌋ + Σ_{j<i} h[j]) / s⌋ with s = ⌊(Σh − h[brightest value
  present]) / 255⌋. If s is 0, entry i is i.
  """
  counts = histogram(levels)  # h, [256, C]
  level = jnp.arange(256)[:, None]
  values = levels.reshape(-1, levels.shape[-1]).astype(jnp.int32)
  brightest_count = jnp.take_along_axis(counts, values.max(0, keepdims=True), 0)
  step = (len(values) - brightest_count) // 255  # s, [1, C]
  below = jnp.cumsum(counts, 0) - counts  # the number of pixels below each level
  equalised = jnp.minimum(_quotient(step // 2 + below, step), 255)
  return jnp.where(step > 0, equalised, jnp.broadcast_to(level, counts.shape))


def _quotient(numerator: jax.Array, denominator: jax.Array) -> jax.Array:
  """Returns numerator // max(denominator, 1) of integers ≥ 0, for quotients below 2^22.

  Float division is faster than integer division on CPUs. Rounding errors are corrected by the
  remainder.
  """
  denominator = jnp.maximum(denominator, 1)
  quotient = (numerator.astype(jnp.float32) / denominator.astype(jnp.float32)).astype(jnp.int32)
  remainder = numerator - quotient * denominator
  return quotient + (remainder >= denominator) - (remainder < 0)


def histogram(levels: jax.Array) -> jax.Array:
  """Returns the number of pixels with each value 0..255, per channel, int32 [256, C]."""
  channels = levels.shape[-1]
  index = levels.astype(jnp.int32) * channels + jnp.arange(channels)[None, None, :]
  # `index` is the place of a value's count in the flat table: level · C + channel
  counts = jnp.zeros((256 * channels,), jnp.int32)
  return counts.at[index.ravel()].add(1, mode='promise_in_bounds').reshape(256, channels)
