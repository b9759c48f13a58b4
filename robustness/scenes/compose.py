r"""Pastes a cutout on a background: resize, rotate, place, blend, as the SI-Score generator does.

The conventions are those of the released sets (`geometry` says where a cutout lands): BILINEAR
resize, BICUBIC rotation counter-clockwise on a canvas that expands, both on premultiplied alpha,
then blending with the cutout's own alpha.

Rotation looks up 4 × 4 neighbours. At the distance d from the pixel before, their weights are
Keys's with a = −1: −d + 2d² − d³, 1 − 2d² + d³, d + d² − d³, −d² + d³. Neighbours beyond the cutout
repeat its border, and a position outside it is transparent. As in Pillow, what is looked up has 8
bits a channel: the four channels of a pixel are one word.
"""

import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from robustness.scenes.geometry import Placement, place
from robustness.scenes.resize import resize_pixels

MEASURES = ('rectangle', 'mask')
"""What an area is of: the cutout's rectangle (the reference), or the pixels of its mask."""
BAND = 32
"""Lines of a rotated object that are made at a time where the length of loops is free."""
REACH = 2
"""Neighbours lie at most so many pixels outside a cutout."""


@functools.partial(jax.jit, static_argnames=('rotate', 'most'))
def compose(
  cutouts: jax.Array,
  index: ArrayLike,
  size: jax.Array,
  pixels: jax.Array | None,
  background: jax.Array,
  factors: Sequence[ArrayLike],
  rotate: bool,
  most: float = math.inf,
) -> tuple[jax.Array, jax.Array]:
  """Returns a scene and the share of the cutout that is in it; jit- and vmap-able in all factors.

  Args:
    cutouts: [N, h, w, 4], premultiplied, float32 in [0, 1] or uint8.
    index: which of them is shown.
    size: int32 [2], its height and width.
    pixels: what the area measures, see `counted`.
    background: float32 [S, S, 3] in [0, 1].
    factors: area of the resized cutout as a fraction of the canvas, > 0; angle, degrees
      counter-clockwise; x and y, place of the centre, fractions of the side from the left and top.
    rotate: False skips the rotation whatever the angle is, which is faster.
    most: how many times the cutout is reduced at most; see `resize.most_scale`.

  Returns:
    float32 [S, S, 3] in [0, 1], and float32 [], the share of the rectangle, expanded by the
    rotation, that lies on the canvas.
  """
  area, angle, x, y = factors
  side = background.shape[0]
  placement = place(size, area, angle if rotate else 0.0, x, y, side, pixels)
  if rotate:
    window, offset = visible(cutouts, index, size, placement, side, most)
    lines = side if math.isinf(most) else BAND
    scene = paste_rotated(pack(window)[None], 0, offset, background, placement, lines)
    return scene, placement.fraction
  positions = [jnp.arange(side) - placement.corner[i] for i in (0, 1)]
  layer = resize_pixels(cutouts, index, size, placement.resized, positions, most)
  layer = layer / 255 if layer.dtype == jnp.uint8 else layer
  return blend(layer[..., :3], layer[..., 3:], background), placement.fraction


def counted(cutout: jax.Array, measure: str) -> jax.Array | None:
  """Returns how many pixels of a cutout [h, w, 4] its area measures; None is its rectangle."""
  half = 128 if cutout.dtype == jnp.uint8 else 0.5
  return (cutout[..., 3] >= half).sum() if measure == 'mask' else None


def premultiplied(foreground: jax.Array) -> jax.Array:
  """Returns colour times alpha, and alpha, [h, w, 4]."""
  channel = jax.lax.broadcasted_iota(jnp.int32, foreground.shape, 2)
  return foreground * jnp.where(channel < 3, foreground[..., 3:], 1.0)


def blend(colours: jax.Array, alpha: jax.Array, background: jax.Array) -> jax.Array:
  """Returns premultiplied colours [S, S, 3] with alpha [S, S, 1] over a background [S, S, 3]."""
  return jnp.clip(colours + (1.0 - alpha) * background, 0.0, 1.0)


def visible(
  cutouts: jax.Array,
  index: ArrayLike,
  size: jax.Array,
  placement: Placement,
  side: int,
  most: float,
) -> tuple[jax.Array, jax.Array]:
  """Returns the part of the resized cutout that can be seen at any angle about this centre.

  A rotation keeps distances, so what lands on the canvas lies within half its diagonal of the point
  that lands in the canvas's middle. Around the cutout its border is repeated, as far as a rotation
  looks; beyond is nothing.
  D = ⌈√2 · side⌉ + 12 pixels a side are returned with the place of the first, int32 [2].
  """

  def bordered(positions: jax.Array, length: jax.Array) -> jax.Array:
    near = (positions >= -REACH) & (positions < length + REACH)
    return jnp.where(near, jnp.clip(positions, 0, length - 1), positions)

  room = math.ceil(math.sqrt(2) * side) + 12
  middle = placement.matrix @ jnp.array([side / 2, side / 2, 1.0], jnp.float32)
  offset = jnp.floor(middle).astype(jnp.int32) - room // 2
  positions = [bordered(jnp.arange(room) + offset[i], placement.resized[i]) for i in (0, 1)]
  return resize_pixels(cutouts, index, size, placement.resized, positions, most), offset


def paste_rotated(
  packed: jax.Array,
  index: ArrayLike,
  offset: jax.Array,
  background: jax.Array,
  placement: Placement,
  lines: int,
) -> jax.Array:
  """Returns a scene with one of some windows rotated, float32 [S, S, 3].

  Where `lines` is less than the side, that many are made at a time, of those that the object
  reaches; `packed`, `index` and `offset` are those of `_sample`.
  """
  side = background.shape[0]
  lines = min(lines, side)

  def add_band(number: ArrayLike, scene: jax.Array) -> jax.Array:
    first = jnp.minimum(number * lines, side - lines)
    row, column = (jnp.arange(lines) + first + 0.5)[:, None], (jnp.arange(side) + 0.5)[None, :]
    v, h = (m[0] * row + m[1] * column + m[2] for m in placement.matrix)
    colours, alpha = _sample(packed, index, offset, placement.resized, v, h)
    under = jax.lax.dynamic_slice(background, (first, 0, 0), (lines, side, 3))
    return jax.lax.dynamic_update_slice(scene, blend(colours, alpha, under), (first, 0, 0))

  if lines == side:
    return add_band(0, background)
  top = jnp.clip(placement.corner[0], 0, side)
  bottom = jnp.clip(placement.corner[0] + placement.expanded[0], 0, side)
  return jax.lax.fori_loop(top // lines, -(-bottom // lines), add_band, background)


def pack(pixels: jax.Array) -> jax.Array:
  """Returns pixels [H, W, 4], float32 in [0, 1] or uint8, as uint32 [H, W], 8 bits a channel."""
  if pixels.dtype != jnp.uint8:
    pixels = jnp.round(jnp.clip(pixels, 0.0, 1.0) * 255)
  levels = pixels.astype(jnp.uint32)
  return levels[..., 0] | levels[..., 1] << 8 | levels[..., 2] << 16 | levels[..., 3] << 24


def unpack(words: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Returns the colours and the alpha of packed pixels, float32 [..., 3] and [..., 1] in [0, 1]."""
  colours = _channel(words[..., None], _channels(words.shape))
  return colours / 255, _channel(words[..., None], 3) / 255


def _channel(words: jax.Array, channel: ArrayLike) -> jax.Array:
  """Returns one channel of packed pixels, float32 in 0..255."""
  return (words >> (8 * channel) & 255).astype(jnp.float32)


def _channels(shape: Sequence[int]) -> jax.Array:
  """Returns the numbers of three colours at every pixel; a stack of planes is ten times slower."""
  return jax.lax.broadcasted_iota(jnp.uint32, (*shape, 3), len(shape))


def _sample(
  packed: jax.Array,
  index: ArrayLike,
  offset: jax.Array,
  size: jax.Array,
  v: jax.Array,
  h: jax.Array,
) -> tuple[jax.Array, jax.Array]:
  """Returns a cutout at fractional positions: premultiplied colours [..., 3] and alpha [..., 1].

  Args:
    packed: uint32 [A, D, E], windows of cutouts with their borders repeated around them; they must
      hold all neighbours.
    index: which of them is looked at.
    offset: int32 [2], position in the cutout of the window's first pixel.
    size: int32 [2], height and width of the cutout.
    v, h: vertical and horizontal positions in it, any shape, .5 at the first pixel's centre.
  """

  def weights(d: jax.Array) -> jax.Array:
    square, cube = d * d, d * d * d
    return jnp.stack(
      [-d + 2 * square - cube, 1 - 2 * square + cube, d + square - cube, cube - square]
    )

  inside = (v >= 0) & (v < size[0]) & (h >= 0) & (h < size[1])
  top, left = jnp.floor(v - 0.5), jnp.floor(h - 0.5)
  down, across = weights(v - 0.5 - top), weights(h - 0.5 - left)
  _, height, width = packed.shape
  row = jnp.clip(top.astype(jnp.int32) - 1 - offset[0], 0, height - 4)
  row = row + jnp.asarray(index, jnp.int32) * height
  first = row * width + jnp.clip(left.astype(jnp.int32) - 1 - offset[1], 0, width - 4)
  pixels = packed.reshape(-1)

  # One row of neighbours a turn: unrolled, the compiler makes code of it that is six times slower.
  def add_row(row: jax.Array, total: list[jax.Array]) -> list[jax.Array]:
    words = [
      pixels.at[first + (row * width + column)].get(mode='promise_in_bounds') for column in range(4)
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
