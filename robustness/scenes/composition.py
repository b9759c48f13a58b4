r"""Pastes a cutout on a background: resize, rotate, place and blend, like the SI-Score generator.

As in the released sets, the cutout is resized by Pillow's BILINEAR filter and rotated
counter-clockwise by BICUBIC on an expanding canvas, both with premultiplied alpha, and then blended
with its alpha. `geometry` computes its place.

Rotation reads 4 × 4 neighbours. At the distance d from the previous pixel, Keys's weights with
a = −1 are −d + 2d² − d³, 1 − 2d² + d³, d + d² − d³ and −d² + d³. Neighbours outside the cutout
repeat its border, and positions outside it are transparent. Like in Pillow, pixels have 8 bits per
channel when they are read: the four channels of a pixel are one word.
"""

import functools
import math
import operator
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from robustness.core.arguments import as_array, as_pixels, check_within
from robustness.core.errors import InputError
from robustness.scenes.geometry import Placement, place
from robustness.scenes.resize import resize_pixels

Pixels = jax.Array | np.ndarray
"""An image as an array of JAX or NumPy."""
MEASURES = ('rectangle', 'mask')
"""What an area measures: the cutout's rectangle (as published), or the pixels of its mask."""
BAND = 32
"""Lines of a scene with a rotated object that an iteration of a loop computes on a CPU."""
REACH = 2
"""Largest distance of a neighbour from the cutout in pixels."""
MARGIN = 12
"""Pixels of a window in addition to the diagonal of the canvas, for neighbours and rounding."""


def compose(
  cutout: Pixels, background: Pixels, area: ArrayLike, angle: ArrayLike, x: ArrayLike, y: ArrayLike
) -> jax.Array:
  """Pastes a cutout on a background and returns the scene, float32 [S, S, 3] in [0, 1].

  The cutout is resized, rotated counter-clockwise and blended as in SI-Score's generator of scenes.
  As there, the premultiplied cutout has 8 bits per channel. The blended scene is not rounded. The
  function can be jitted and vmapped in all arguments.

  Args:
    cutout: [h, w, 4], colours and alpha, not premultiplied. uint8 or floats in [0, 1].
    background: [S, S, 3], uint8 or floats in [0, 1].
    area: area of the resized cutout's rectangle as a fraction of the scene, in (0, 1].
    angle: angle of the rotation in degrees.
    x: horizontal centre of the cutout, from 0 (left edge) to 1 (right edge).
    y: vertical centre of the cutout, from 0 (top edge) to 1 (bottom edge).

  Raises:
    InputError: A shape or a value is not as described above, the alpha is 0 everywhere, or the
      resized cutout would be less than a pixel high or wide. Traced values are not checked.
  """
  cutout, background = as_array('cutout', cutout), as_array('background', background)
  is_square = background.shape[2:] == (3,) and background.shape[0] == background.shape[1]
  if cutout.shape[2:] != (4,) or not is_square or 0 in cutout.shape + background.shape:
    raise InputError(
      f'a cutout has shape {cutout.shape} and a background {background.shape}; give [h, w, 4] with '
      'alpha and a square [S, S, 3].'
    )
  check_within('area', area, 'above 0 and at most 1', float(np.finfo(np.float32).tiny), 1)
  largest = float(np.finfo(np.float32).max)
  check_within('angle', angle, 'of degrees, and finite', -largest, largest)
  for name, position in (('x', x), ('y', y)):
    check_within(name, position, 'in [0, 1], a fraction of the side', 0, 1)
  colours, canvas = _as_floats('cutout', cutout), _as_floats('background', background)
  # values that are traced cannot be checked
  if not isinstance(cutout, jax.core.Tracer) and not np.asarray(cutout)[..., 3].any():
    raise InputError('the alpha of the cutout is 0 everywhere: there is nothing to paste.')
  height, width = cutout.shape[:2]
  side = background.shape[0]
  if not isinstance(area, jax.core.Tracer):
    share = float(np.asarray(area))
    shorter = min(height, width) * math.sqrt(share / (height * width)) * side  # resized, in pixels
    if shorter < 1 - 1e-6:  # up to rounding, at which a side of 1 pixel may be a little less
      raise InputError(
        f'area is {area}, at which a cutout of {height} × {width} pixels is less than a pixel high '
        f'or wide on a background of {side} × {side}: give a larger area or background.'
      )
  return _paste(colours, canvas, (area, angle, x, y))


def _as_floats(name: str, pixels: Pixels) -> jax.Array:
  """Converts pixels (uint8, or floats in [0, 1]) to float32 in [0, 1].

  Args:
    name: what error messages call the image, such as 'cutout'.
    pixels: an image of any shape.
  """
  if pixels.dtype == jnp.uint8:
    return pixels / jnp.float32(255)
  return as_pixels(f'pixels of the {name}', pixels, 'scenes')


@jax.jit
def _paste(colours: jax.Array, canvas: jax.Array, factors: Sequence[ArrayLike]) -> jax.Array:
  """Returns the cutout `colours` pasted on `canvas`, float32 [S, S, 3].

  Args:
    colours: cutout [h, w, 4], floats in [0, 1], not premultiplied.
    canvas: background [S, S, 3], floats in [0, 1].
    factors: area, angle, x and y of the cutout, as in `compose`.
  """
  # The only cutout, with index 0, in 8 bits.
  cutouts = jnp.round(255 * premultiplied(colours)).astype(jnp.uint8)[None]
  size = jnp.array(colours.shape[:2], jnp.int32)
  scene, _ = paste_cutout(cutouts, 0, size, None, canvas, factors, rotate=True)
  return scene


@functools.partial(jax.jit, static_argnames=('rotate', 'max_reduction'))
def paste_cutout(
  cutouts: jax.Array,
  index: ArrayLike,
  size: jax.Array,
  pixels: jax.Array | None,
  background: jax.Array,
  factors: Sequence[ArrayLike],
  rotate: bool,
  max_reduction: float = math.inf,
) -> tuple[jax.Array, jax.Array]:
  """Pastes one of several cutouts on a background, after resizing and rotating it.

  The function can be jitted and vmapped in area, angle, x and y.

  Args:
    cutouts: [N, h, w, 4], premultiplied, float32 in [0, 1] or uint8. Smaller cutouts fill the top
      left of [h, w].
    index: index of the cutout to paste, in [0, N).
    size: int32 [2], height and width of this cutout.
    pixels: number of pixels that are counted as the cutout's area, such as the pixels of its mask.
      None counts its whole rectangle.
    background: the canvas, float32 [S, S, 3] in [0, 1].
    factors: four values. The area of the resized cutout is a fraction (> 0) of the canvas. The
      angle is in degrees counter-clockwise. The centre's x and y are fractions of S, from the left
      and from the top.
    rotate: False ignores the angle, which is faster.
    max_reduction: static upper bound of size / resized size. A finite bound is faster on a CPU;
      infinity is valid for all areas.

  Returns:
    The scene, float32 [S, S, 3] in [0, 1], and the fraction of the rotated cutout's bounding
    rectangle that is on the canvas, float32 [].
  """
  area, angle, x, y = factors
  side = background.shape[0]
  placement = place(size, area, angle if rotate else 0.0, x, y, side, pixels)
  if rotate:
    window, offset = visible_window(cutouts, index, size, placement, side, max_reduction)
    # A finite bound means a CPU, which processes scenes one by one: a loop over bands of lines can
    # then skip those without the cutout.
    lines = side if math.isinf(max_reduction) else BAND
    # The window is the only one, with index 0.
    scene = paste_rotated(pack(window)[None], 0, offset, background, placement, lines)
    return scene, placement.fraction
  # The rows and columns of the resized cutout at the rows and columns of the canvas.
  rows, columns = jnp.arange(side) - placement.corner[0], jnp.arange(side) - placement.corner[1]
  layer = resize_pixels(cutouts, index, size, placement.resized, (rows, columns), max_reduction)
  layer = layer / 255 if layer.dtype == jnp.uint8 else layer
  return blend(layer[..., :3], layer[..., 3:], background), placement.fraction


def premultiplied(foreground: jax.Array) -> jax.Array:
  """Multiplies the colours of a cutout by its alpha; both are [h, w, 4], floats in [0, 1]."""
  channel = jax.lax.broadcasted_iota(jnp.int32, foreground.shape, 2)  # 0, 1, 2, 3 at every pixel
  return foreground * jnp.where(channel < 3, foreground[..., 3:], 1.0)


def blend(colours: jax.Array, alpha: jax.Array, background: jax.Array) -> jax.Array:
  """Blends premultiplied colours with a background and returns the image, [S, S, 3].

  The result is colours + (1 − alpha) · background, clipped to [0, 1].

  Args:
    colours: [S, S, 3], already multiplied by `alpha`.
    alpha: [S, S, 1] in [0, 1].
    background: [S, S, 3] in [0, 1].
  """
  return jnp.clip(colours + (1.0 - alpha) * background, 0.0, 1.0)


def visible_window(
  cutouts: jax.Array,
  index: ArrayLike,
  size: jax.Array,
  placement: Placement,
  side: int,
  max_reduction: float,
) -> tuple[jax.Array, jax.Array]:
  """Resizes a cutout and crops the square that can be visible on the canvas.

  The square, called window, is not yet rotated. It is centred on the position that the middle of
  the canvas shows, and it is large enough for any angle. The pixels at the edge of the cutout are
  repeated `REACH` pixels outwards, because bicubic rotation reads them. Pixels further out are 0.

  Args:
    cutouts: [N, h, w, 4], premultiplied, float32 in [0, 1] or uint8.
    index: index of the cutout, in [0, N).
    size: int32 [2], height and width of this cutout.
    placement: size of the resized cutout and its position on the canvas.
    side: side of the square canvas in pixels.
    max_reduction: static upper bound of size / resized size, as in `paste_cutout`.

  Returns:
    The window, [D, D, 4] with D = `window_side(side)`, and its offset, int32 [2]. The offset is the
    row and column of the window's first pixel in the resized cutout, and may be negative.
  """

  def with_border(positions: jax.Array, length: jax.Array) -> jax.Array:
    """Moves positions up to `REACH` pixels outside [0, length) to the nearest position inside.

    Other positions are not changed.
    """
    is_near = (positions >= -REACH) & (positions < length + REACH)
    return jnp.where(is_near, jnp.clip(positions, 0, length - 1), positions)

  length = window_side(side)
  # The position in the cutout that is shown in the middle of the canvas.
  middle = placement.matrix @ jnp.array([side / 2, side / 2, 1.0], jnp.float32)
  offset = jnp.floor(middle).astype(jnp.int32) - length // 2
  rows = with_border(jnp.arange(length) + offset[0], placement.resized[0])
  columns = with_border(jnp.arange(length) + offset[1], placement.resized[1])
  window = resize_pixels(cutouts, index, size, placement.resized, (rows, columns), max_reduction)
  return window, offset


def window_side(side: int) -> int:
  """Returns the side in pixels of a square crop that covers a canvas at any rotation.

  The crop is a little larger than the diagonal of the canvas.

  Args:
    side: side of the square canvas in pixels.
  """
  return math.ceil(math.sqrt(2) * side) + MARGIN


def paste_rotated(
  packed: jax.Array,
  index: ArrayLike,
  offset: jax.Array,
  background: jax.Array,
  placement: Placement,
  lines: int,
) -> jax.Array:
  """Rotates a resized cutout and pastes it on a background; returns the scene, [S, S, 3].

  Args:
    packed: uint32 [A, D, E], A crops ("windows") of resized cutouts, D pixels high and E wide. Each
      word has the 4 channels of a pixel, 8 bits each; see `pack`.
    index: index of the window to paste, in [0, A).
    offset: int32 [2], row and column of the window's first pixel in the resized cutout.
    background: float32 [S, S, 3] in [0, 1].
    placement: position of the cutout on the canvas.
    lines: how many lines of pixels are computed at once. If this is less than S, a loop computes
      only the lines that the cutout touches.
  """
  side = background.shape[0]
  lines = min(lines, side)

  def add_band(number: ArrayLike, scene: jax.Array) -> jax.Array:
    """Pastes the cutout on one band of the scene: `lines` successive lines of pixels.

    Args:
      number: index of the band, which begins at line number · `lines`. The last band ends with the
        scene and may overlap the one before.
      scene: float32 [S, S, 3]; lines outside the band are returned unchanged.
    """
    first = jnp.minimum(number * lines, side - lines)
    row = (jnp.arange(lines) + first + 0.5)[:, None]
    column = (jnp.arange(side) + 0.5)[None, :]
    # the vertical and horizontal position in the cutout of each pixel of the band, [lines, S]
    v, h = (m[0] * row + m[1] * column + m[2] for m in placement.matrix)
    colours, alpha = _interpolate(packed, index, offset, placement.resized, v, h)
    band = jax.lax.dynamic_slice(background, (first, 0, 0), (lines, side, 3))
    return jax.lax.dynamic_update_slice(scene, blend(colours, alpha, band), (first, 0, 0))

  if lines == side:
    return add_band(0, background)
  top = jnp.clip(placement.corner[0], 0, side)
  bottom = jnp.clip(placement.corner[0] + placement.expanded[0], 0, side)
  first_band, end = top // lines, -(-bottom // lines)  # the end is rounded up
  return jax.lax.fori_loop(first_band, end, add_band, background)


def pack(pixels: jax.Array) -> jax.Array:
  """Packs pixels [H, W, 4], float32 in [0, 1] or uint8, into uint32 [H, W], 8 bits per channel."""
  if pixels.dtype != jnp.uint8:
    pixels = jnp.round(jnp.clip(pixels, 0.0, 1.0) * 255)
  levels = pixels.astype(jnp.uint32)
  return levels[..., 0] | levels[..., 1] << 8 | levels[..., 2] << 16 | levels[..., 3] << 24


def unpack(words: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Unpacks pixels that `pack` packed: returns colours [..., 3] and alpha [..., 1].

  Both are float32 in [0, 1]. `words` are uint32 [...], one word per pixel.
  """
  colours = _channel(words[..., None], _colour_channels(words.shape))
  return colours / 255, _channel(words[..., None], 3) / 255


def _channel(words: jax.Array, channel: ArrayLike) -> jax.Array:
  """Extracts a channel, 0 to 3, from packed pixels; returns float32 in [0, 255]."""
  return (words >> (8 * channel) & 255).astype(jnp.float32)


def _colour_channels(shape: Sequence[int]) -> jax.Array:
  """Returns uint32 [*shape, 3] with the channel indices 0, 1 and 2 along the last axis."""
  # Stacking three planes is ten times slower.
  return jax.lax.broadcasted_iota(jnp.uint32, (*shape, 3), len(shape))


def _interpolate(
  crops: jax.Array, index: ArrayLike, offset: jax.Array, size: jax.Array, v: jax.Array, h: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """Reads a cutout at fractional positions by bicubic interpolation of 4 × 4 pixels.

  Args:
    crops: uint32 [A, D, E], crops ("windows") of cutouts, 8 bits per channel; see `pack`.
    index: index of the window to read, in [0, A). It must hold the neighbours of all positions.
    offset: int32 [2], row and column of the window's first pixel in the cutout.
    size: int32 [2], height and width of the cutout.
    v, h: vertical and horizontal positions in the cutout, in pixels, of any shape [...]. The centre
      of the first pixel is at 0.5.

  Returns:
    Premultiplied colours, float32 [..., 3], and alpha, float32 [..., 1]. Both are in [0, 1], and 0
    outside the cutout.
  """
  is_inside = (v >= 0) & (v < size[0]) & (h >= 0) & (h < size[1])
  # The second row and column of the 4 × 4 neighbours: the last ones that are not beyond (v, h).
  second_row, second_column = jnp.floor(v - 0.5), jnp.floor(h - 0.5)
  row_weights = _cubic_weights(v - 0.5 - second_row)
  column_weights = _cubic_weights(h - 0.5 - second_column)
  _, height, width = crops.shape
  # Row and column in the window of the first of the 16 neighbours.
  first_row = jnp.clip(second_row.astype(jnp.int32) - 1 - offset[0], 0, height - 4)
  first_column = jnp.clip(second_column.astype(jnp.int32) - 1 - offset[1], 0, width - 4)
  pixels = crops.reshape(-1)  # the windows are below one another
  rows_above = jnp.asarray(index, jnp.int32) * height
  first = (first_row + rows_above) * width + first_column  # index in `pixels`

  # An iteration adds one row of the 4 × 4 neighbours; the unrolled loop is six times slower.
  def add_row(number: jax.Array, total: list[jax.Array]) -> list[jax.Array]:
    """Adds one row of the 4 × 4 neighbouring pixels, times its weights, for `lax.fori_loop`.

    `pixels` is a flat array of 32-bit pixels, and `first` the index in it of the first neighbour of
    each position.

    Args:
      number: number of the row, 0 to 3.
      total: the sums of the rows before, one array for each of the 4 channels.
    """
    start = first + number * width
    words = [pixels.at[start + column].get(mode='promise_in_bounds') for column in range(4)]
    new_total = []
    for channel in range(4):
      terms = (column_weights[column] * _channel(words[column], channel) for column in range(4))
      row_sum = functools.reduce(operator.add, terms)
      new_total.append(total[channel] + row_weights[number] * row_sum)
    return new_total

  total = jax.lax.fori_loop(0, 4, add_row, [jnp.zeros(v.shape, jnp.float32)] * 4)
  red, green, blue, alpha = (x[..., None] for x in total)
  alpha = jnp.clip(alpha, 0.0, 255.0) * is_inside[..., None]
  channel = _colour_channels(v.shape)
  colours = jnp.where(channel == 0, red, jnp.where(channel == 1, green, blue))
  return jnp.clip(colours, 0.0, alpha) / 255, alpha / 255


def _cubic_weights(distance: jax.Array) -> jax.Array:
  """Returns the cubic convolution weights (Keys, a = −1) of 4 neighbouring pixels, [4, ...].

  Args:
    distance: how far the position is beyond the second of the 4 neighbours, in pixels, in [0, 1).
      Any shape [...].
  """
  square, cube = distance * distance, distance * distance * distance
  second, third = 1 - 2 * square + cube, distance + square - cube
  return jnp.stack([-distance + 2 * square - cube, second, third, cube - square])
