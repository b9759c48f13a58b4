"""LAION-C's six distortions: glitches, mosaic, stickers, vertical lines, shapes and a checkerboard.

Each maps 8-bit RGB images to 8-bit RGB images; a grey image becomes the grey value of its RGB
copy's result. Mosaics and stickers consist of other pictures: from a folder (`photographs`), or
procedural ones, which differ from LAION-C. The authors took a million images of LAION.

Reference:
  Li et al. (2025), LAION-C: An Out-of-Distribution Benchmark for Web-Scale Vision Models, and the
  released generator; `tests/corruptions/laion_c_test.py` holds what agrees with it.
"""

import functools
import hashlib
import math
import os
import random
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image, ImageDraw

from robustness.core.errors import InputError
from robustness.core.paths import expanded, files_in
from robustness.core.pictures import SUFFIXES, read_rgb
from robustness.corruptions.corruption import Constants, Corruption, Draws, Strength, corruption
from robustness.corruptions.names import ALONE
from robustness.corruptions.pixels import from_levels, grey, to_levels

PICTURES = ('mosaic', 'stickers')
"""Corruptions that need other pictures."""
MAX_PICTURES = 1000  # taken from a folder
PROCEDURAL = 512  # number of procedural pictures
STICKER, CELL = 16, 14  # sides of stickers and of checkerboard cells in pixels
BEND = 40  # shift in pixels of the line of a black pixel
REACH, STAMP = 13, 29  # pixels from a shape's position to the corner of its stamp; a stamp's side
SIZES, TURNS = range(6, 16), 360  # sizes of shapes in pixels, and their angles in degrees
Levels = Callable[..., jax.Array]
"""Function of RGB levels, int32 [H, W, 3], that returns distorted levels."""


def distortion(
  parameters: str, values: Sequence[Any], **declared: Any
) -> Callable[[Levels], Corruption]:
  """Returns a decorator that makes a corruption from a function of RGB levels, int32 [H, W, 3].

  Args:
    parameters: names of the constants, see `corruption`.
    values: constants of each severity, for images of 224 pixels.
    **declared: other arguments of `corruption`.
  """

  def declare(function: Levels) -> Corruption:
    @functools.wraps(function)
    def on_floats(draws: Any, image: jax.Array, strength: Strength, **options: object) -> jax.Array:
      levels = jnp.round(to_levels(image, 'round') * 255).astype(jnp.int32)
      rgb = jnp.broadcast_to(levels, (*levels.shape[:2], 3))
      corrupted = from_levels(function(draws, rgb, strength, **options))
      return grey(corrupted) if image.shape[-1] == 1 else corrupted

    return corruption(parameters, {224: values}, ALONE, **declared)(on_floats)

  return declare


@distortion(
  'level', (2, 4, 5, 8, 10), least_side=lambda constants: 4, reason='or no quarter has a row'
)
def glitched(key: jax.Array, levels: jax.Array, strength: Strength) -> jax.Array:
  """Shifts bands of rows sideways and one entire channel, cyclically; every other row is black.

  All images have the same shifts, because the released generator has a single seed.
  """
  del key
  height, width = levels.shape[:2]
  drawn = [glitches(level, height, width) for level in strength.constants['level']]
  shifts, moves = zip(*drawn, strict=True)
  shift, moved = strength.select(np.array(shifts)), strength.select(np.array(moves))
  columns = (jnp.arange(width)[None] - shift[:, None]) % width
  shifted = jnp.take_along_axis(levels, columns[:, :, None], axis=1)
  channel, right, down = moved
  rolled = jnp.roll(levels, down, axis=0)
  row = jnp.arange(height)[:, None, None]
  rolled = jnp.where(row == down % height, jnp.roll(rolled, right, axis=1), rolled)
  glitched = jnp.where(jnp.arange(3)[None, None] == channel, rolled, shifted)
  return jnp.where(row % 2 == 0, 0, glitched)


@functools.lru_cache
def glitches(level: float, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns the random shifts of `glitched`, as glitch_this draws them with seed 1.

  Returns:
    The shift of each row to the right, int32 [height]; and the number of the moved channel with its
    shifts to the right and down, int32 [3].
  """
  max_shift, count = int(level**2 / 100 * width), int(2 * level)
  shift = np.zeros(height, np.int32)
  for number in range(count):
    draw = random.Random(1 + number)
    offset = draw.randint(-max_shift, max_shift)
    if offset:
      start = draw.randint(0, height)
      shift[start : start + draw.randint(1, height // 4)] = offset
  draw = random.Random(1)
  moved = [draw.randint(0, 2), draw.randint(-count, count), draw.randint(-count, count)]
  return shift, np.array(moved, np.int32)


@distortion(
  'tile',
  (4, 6, 8, 16, 28),
  options={'photographs': ()},
  least_side=lambda constants: max(constants['tile']),
  reason='or no tile fits',
)
def mosaic(
  key: jax.Array, levels: jax.Array, strength: Strength, photographs: str | None = None
) -> jax.Array:
  """Replaces every tile of the image by the shrunk picture of the nearest mean colour.

  The grid of tiles is centred, and cells beyond the edge repeat it. The colour of a tile is
  its pixel's colour in the image shrunk by Pillow's bicubic filter. `photographs` is a folder of
  pictures; None takes procedural ones.
  """
  del key
  sides, (height, width) = tuple(strength.constants['tile']), levels.shape[:2]

  def tiled(side: int, pictures: np.ndarray) -> jax.Array:
    y0, x0 = -height % side // 2, -width % side // 2
    pads = (y0, -height % side - y0), (x0, -width % side - x0), (0, 0)
    padded = jnp.pad(levels, pads, mode='edge')
    means = pictures.mean((1, 2), np.float32)
    distance = jnp.square(shrunk(padded, side)[:, :, None] - means[None, None]).sum(-1)
    tiles = jnp.asarray(pictures)[distance.argmin(-1)].astype(jnp.int32)
    joined = tiles.transpose(0, 2, 1, 3, 4).reshape(padded.shape)
    return joined[y0 : y0 + height, x0 : x0 + width]

  pictures = zip(sides, load_tiles(photographs, sides), strict=True)
  branches = [functools.partial(tiled, *pair) for pair in pictures]
  return jax.lax.switch(strength.index, branches)


def shrunk(levels: jax.Array, factor: int) -> jax.Array:
  """Returns levels [H, W, 3] shrunk by a factor that divides H and W.

  Columns are shrunk and rounded before rows.
  """

  def along(values: jax.Array, axis: int) -> jax.Array:
    weights = bicubic(values.shape[axis], factor)
    exact = jnp.tensordot(weights, values, (1, axis), precision=jax.lax.Precision.HIGHEST)
    return jnp.clip(jnp.floor(jnp.moveaxis(exact, 0, axis) + 0.5), 0, 255)

  return along(along(levels.astype(jnp.float32), 1), 0)


def bicubic(size: int, factor: int) -> np.ndarray:
  """Returns the weights of Pillow's antialiased bicubic filter (a = -.5), [size / factor, size]."""
  centre = (np.arange(size // factor)[:, None] + 0.5) * factor
  pixel = np.arange(size)
  start, end = np.floor(centre - 2 * factor + 0.5), np.floor(centre + 2 * factor + 0.5)
  x = np.abs((pixel + 0.5 - centre) / factor)
  near = (1.5 * x - 2.5) * x * x + 1
  far = ((-0.5 * x + 2.5) * x - 4) * x + 2
  is_in_window = (pixel >= start) & (pixel < end)
  weights = np.where(x < 1, near, np.where(x < 2, far, 0)) * is_in_window
  return np.asarray(weights / weights.sum(1, keepdims=True), np.float32)


def _draw_stickers(
  key: jax.Array, shape: tuple[int, ...], constants: Constants, photographs: str | None = None
) -> Draws:
  """Returns random numbers of N stickers.

  `corner` is the row and column of the upper left pixel, int32 [N, 2], and `picture`, uint32 [N],
  modulo the number of pictures is the index of the picture.
  """
  key_corner, key_picture = jax.random.split(key)
  count = max(constants['count'])
  room = jnp.array(shape[:2]) - STICKER
  corner = jax.random.randint(key_corner, (count, 2), 0, room[None])
  return {'corner': corner, 'picture': jax.random.bits(key_picture, (count,), jnp.uint32)}


@distortion(
  'count',
  (100, 200, 400, 600, 1200),
  draw=_draw_stickers,
  options={'photographs': ()},
  least_side=lambda constants: STICKER + 1,
  reason='or no sticker fits',
)
def stickers(
  draws: Draws, levels: jax.Array, strength: Strength, photographs: str | None = None
) -> jax.Array:
  """Pastes pictures of 16 × 16 pixels at random positions, each over the earlier ones.

  `photographs` is a folder of pictures; None takes procedural ones.
  """
  (pictures,) = load_tiles(photographs, (STICKER,))
  count, corner = len(draws['corner']), draws['corner']
  square = jnp.ones((count, STICKER, STICKER), bool)
  last = last_stamp(levels.shape, corner, square, jnp.arange(count) < strength['count'])
  picture = (draws['picture'] % len(pictures)).astype(jnp.int32)[last]
  rows, columns = jnp.indices(levels.shape[:2])
  y = jnp.clip(rows - corner[last][..., 0], 0, STICKER - 1)
  x = jnp.clip(columns - corner[last][..., 1], 0, STICKER - 1)
  pasted = jnp.asarray(pictures)[picture, y, x].astype(jnp.int32)
  return jnp.where(last[..., None] < 0, levels, pasted)


def last_stamp(
  shape: Sequence[int], corner: jax.Array, stamps: jax.Array, is_used: jax.Array
) -> jax.Array:
  """Returns the index of the last stamp that covers each pixel, int32 [H, W], or -1.

  `corner` int [N, 2] holds the row and column of the first pixel of each stamp, `stamps` bool
  [N, K, K] its covered pixels, and `is_used` bool [N] whether it is drawn.
  """
  number, down, right = jnp.indices(stamps.shape)
  y, x = corner[:, 0, None, None] + down, corner[:, 1, None, None] + right
  is_covered = stamps & is_used[:, None, None] & (y >= 0) & (x >= 0)
  empty = jnp.full(shape[:2], -1, jnp.int32)
  return empty.at[jnp.where(is_covered, y, shape[0]), x].max(number, mode='drop')


def _draw_shapes(key: jax.Array, shape: tuple[int, ...], constants: Constants) -> Draws:
  """Returns random numbers of N shapes, int32.

  They are `kind` [N] (0 to 3: triangle, square, circle, star), `place` [N, 2], row and column,
  `size` [N] in pixels, `colour` [N, 3] in levels, and `turn` [N] in degrees.
  """
  keys, count = jax.random.split(key, 5), max(constants['count'])
  return {
    'kind': jax.random.randint(keys[0], (count,), 0, 4),
    'place': jax.random.randint(keys[1], (count, 2), 0, jnp.array(shape[:2])[None]),
    'size': jax.random.randint(keys[2], (count,), SIZES[0], SIZES[-1] + 1),
    'colour': jax.random.randint(keys[3], (count, 3), 0, 256),
    'turn': jax.random.randint(keys[4], (count,), 0, TURNS),
  }


@distortion('count', (150, 300, 600, 800, 1000), draw=_draw_shapes)
def geometric_shapes(draws: Draws, levels: jax.Array, strength: Strength) -> jax.Array:
  """Draws shapes of a single colour at random positions, each over the earlier ones."""
  kind, size = draws['kind'], draws['size'] - SIZES[0]
  number = jnp.where(kind < 3, kind * len(SIZES) + size, 3 * len(SIZES) + size * TURNS)
  stamps = jnp.asarray(shape_stamps())[number + jnp.where(kind < 3, 0, draws['turn'])]
  is_used = jnp.arange(len(kind)) < strength['count']
  last = last_stamp(levels.shape, draws['place'] - REACH, stamps, is_used)
  return jnp.where(last[..., None] < 0, levels, draws['colour'][last])


@functools.cache
def shape_stamps() -> np.ndarray:
  """Returns masks of shapes as Pillow draws them, bool [3 · 10 + 10 · 360, 29, 29].

  Triangles, squares and circles of the 10 sizes are followed by stars of each size at the angles of
  0 to 359°. The position of a shape is at pixel (REACH, REACH) of its mask.
  """
  stamps = []

  def drawn(shape: str, points: Sequence[tuple[float, float]]) -> None:
    stamp = Image.new('1', (STAMP, STAMP))
    getattr(ImageDraw.Draw(stamp), shape)([(REACH + x, REACH + y) for x, y in points], fill=1)
    stamps.append(np.asarray(stamp))

  for size in SIZES:
    drawn('polygon', ((0, 0), (size, 0), (size / 2, size)))
  for shape in ('rectangle', 'ellipse'):
    for size in SIZES:
      drawn(shape, ((0, 0), (size, size)))
  for size in SIZES:
    for turn in range(TURNS):
      angles = [math.radians(36 * corner + turn) for corner in range(10)]
      corners = zip([size / 1.2, size / 2.4] * 5, angles, strict=True)
      drawn('polygon', [(r * math.sin(a), r * math.cos(a)) for r, a in corners])
  return np.stack(stamps)


def _draw_cells(key: jax.Array, shape: tuple[int, ...], constants: Constants) -> jax.Array:
  """Returns a random number for each cell, uniform on [0, 1), float32 [rows, columns]."""
  return jax.random.uniform(key, [-(-size // CELL) for size in shape[:2]])


@distortion('low high', ((0, 50), (50, 100), (100, 125), (125, 150), (150, 255)), draw=_draw_cells)
def luminance_checkerboard(draws: jax.Array, levels: jax.Array, strength: Strength) -> jax.Array:
  """Makes cells of 14 × 14 pixels alternately lighter and darker, by U(low, high) levels each."""
  rows, columns = jnp.indices(draws.shape)
  sign = jnp.where((rows + columns) % 2 == 0, 1, -1)
  change = sign * (strength['low'] + draws * (strength['high'] - strength['low']))
  pixels = jnp.repeat(jnp.repeat(change, CELL, 0), CELL, 1)[: levels.shape[0], : levels.shape[1]]
  return jnp.floor(jnp.clip(levels + pixels[..., None], 0, 255)).astype(jnp.int32)


@distortion('columns step', ((224, 1), (178, 2), (112, 4), (84, 6), (60, 8)))
def vertical_lines(key: jax.Array, levels: jax.Array, strength: Strength) -> jax.Array:
  """Draws vertical lines on black, each bent to the left by 40 (1 - I / 255) pixels.

  Line i of L starts at column iW / L of the width W and runs down in segments of `step` rows. A
  segment has the mean colour of the W / L columns of these rows to its right, and I is their mean
  grey level. Pixels follow Bresenham's lines between integer coordinates, as in Pillow.
  """
  del key
  height, width = levels.shape[:2]
  counts = strength.constants['columns']
  tables = zip(*(line_tables(count, max(counts), width) for count in counts), strict=True)
  start, end, ends = (strength.select(np.stack(arrays)) for arrays in tables)
  step, number = strength['step'], jnp.arange(height)
  top, bottom = jnp.minimum(number * step, height), jnp.minimum((number + 1) * step, height)
  luma = (levels @ jnp.array([19595, 38470, 7471]) + 2**15) >> 16
  stack = jnp.concatenate([levels, luma[..., None]], -1)
  sums = jnp.pad(stack.cumsum(0).cumsum(1), ((1, 0), (1, 0), (0, 0)))

  def colours(line: jax.Array, block: jax.Array) -> jax.Array:
    """Returns the mean R, G, B and grey levels of a line's blocks of pixels, rounded down."""
    y0, y1, x0, x1 = top[block], bottom[block], start[line], end[line]
    total = sums[y1, x1] - sums[y0, x1] - sums[y1, x0] + sums[y0, x0]
    return total // jnp.maximum((y1 - y0) * (x1 - x0), 1)[..., None]

  def draw(line: jax.Array, last: jax.Array) -> jax.Array:
    x1 = ends[line, colours(line, number)[:, 3]]
    x0 = jnp.roll(x1, 1).at[0].set(start[line])
    y, x = bresenham(x0, jnp.maximum(top - step, 0), x1, top)
    is_inside = (x >= 0) & (x < width) & (top[:, None] < height)
    order = jnp.broadcast_to((line * height + number)[:, None], y.shape)
    return last.at[jnp.where(is_inside, y, height), x].max(order, mode='drop')

  last = jax.lax.fori_loop(0, strength['columns'], draw, jnp.full((height, width), -1, jnp.int32))
  colour = colours(last // height, last % height)[..., :3]
  return jnp.where(last[..., None] < 0, 0, colour)


@functools.lru_cache
def line_tables(count: int, size: int, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns the columns of `count` vertical lines for an image that is `width` pixels wide.

  A line stands for a block of columns. Entries from `count` on, up to `size`, are unused.

  Returns:
    The first column of each line's block, int32 [size]; the column after the block, int32 [size];
    and the column in which a segment of the line ends for each mean level of the block's pixels,
    int32 [size, 256], truncated as in Pillow.
  """
  x = np.arange(size) / count * width
  bent = x[:, None] + (1 - np.arange(256) / 255) * -BEND
  end = np.minimum((x + width / count).astype(np.int32), width)
  return x.astype(np.int32), end, bent.astype(np.int32)


def bresenham(
  x0: jax.Array, y0: jax.Array, x1: jax.Array, y1: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """Returns the rows and the columns of the pixels of N lines, int32 [N, BEND + 2] each.

  Lines run from (x0, y0) to (x1, y1), int32 [N] each. A line with fewer pixels repeats its last.
  """
  dx, dy = x1 - x0, y1 - y0
  across = jnp.maximum(jnp.abs(dx), jnp.abs(dy))[:, None]
  steps = jnp.minimum(jnp.arange(BEND + 2)[None], across)

  def along(start: jax.Array, change: jax.Array) -> jax.Array:
    moved = (2 * steps * jnp.abs(change)[:, None] + across) // jnp.maximum(2 * across, 1)
    return start[:, None] + jnp.sign(change)[:, None] * moved

  return along(y0, dy), along(x0, dx)


@functools.lru_cache(maxsize=4)
def load_tiles(
  source: str | os.PathLike[str] | None, sides: tuple[int, ...]
) -> tuple[np.ndarray, ...]:
  """Returns pictures shrunk to squares, uint8 [pictures, side, side, 3] for each of `sides`.

  `source` is a folder; its first 1000 image files by path are read, at any depth. None and ''
  select procedural pictures. As in the generator, pictures are resized to 256, cropped to the
  centre of 224, and resized bilinearly.
  """
  pictures = _folder_pictures(os.fspath(source)) if source else _procedural_pictures()
  return tuple(
    np.stack([np.asarray(p.resize((side, side), Image.Resampling.BILINEAR)) for p in pictures])
    for side in sides
  )


def _folder_pictures(source: str) -> list[Image.Image]:
  """Returns the first `MAX_PICTURES` pictures in a folder, resized to 256 and cropped to 224."""
  folder = expanded(source)
  files = [f for f in files_in(folder) if f.suffix.lower() in SUFFIXES][:MAX_PICTURES]
  if not files:
    raise InputError(
      f'{source!r} is no folder with pictures for {" and ".join(PICTURES)}: name one with files '
      f'ending in {", ".join(SUFFIXES)}, or none for procedural pictures.'
    )
  pictures = []
  for rgb in map(read_rgb, files):
    size = [256 * side // min(rgb.size) for side in rgb.size]
    x0, y0 = ((side - 224) // 2 for side in size)
    box = (x0, y0, x0 + 224, y0 + 224)
    pictures.append(rgb.resize(size, Image.Resampling.BILINEAR).crop(box))
  return pictures


def _procedural_pictures() -> list[Image.Image]:
  """Returns smooth patches around colours that fill the RGB cube, equal on every machine."""
  draw = np.random.RandomState(19)
  colour = draw.uniform(0, 255, (PROCEDURAL, 1, 1, 3))
  patches = np.clip(colour + draw.normal(0, 30, (PROCEDURAL, 7, 7, 3)), 0, 255).astype(np.uint8)
  return [Image.fromarray(p).resize((56, 56), Image.Resampling.BICUBIC) for p in patches]


def describe(source: str) -> dict[str, object]:
  """Returns facts for results on the pictures of mosaics and stickers: origin, number, digest."""
  if not source:
    return {'source': 'procedural'}
  (tiles,) = load_tiles(source, (STICKER,))
  digest = hashlib.sha256(tiles.tobytes()).hexdigest()
  name = expanded(source).resolve().name
  return {'source': 'photographs', 'from': name, 'count': len(tiles), 'sha256': digest}
