"""LAION-C's six distortions: glitches, mosaic, stickers, vertical lines, shapes and a checkerboard.

Each is a map of 8-bit RGB images to such; a grey image gets the grey value of what its RGB copy
gets. Mosaics and stickers are made of other pictures: those of a folder (`photographs`), or
procedural ones, where results are not LAION-C's. The authors' are a million images of LAION.

Reference:
  Li et al. (2025), LAION-C: An Out-of-Distribution Benchmark for Web-Scale Vision Models, and the
  released generator, with which `tests/corruptions/laion_c_test.py` has what agrees.
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
"""What other pictures are needed for."""
MOST_PICTURES = 1000
PROCEDURAL = 512  # pictures
STICKER, CELL = 16, 14  # sides, pixels
BEND = 40  # pixels that the line of a black pixel is moved
REACH, STAMP = 13, 29  # from a shape's position to the corner of its stamp, and its side
SIZES, TURNS = range(6, 16), 360  # of shapes, pixels and degrees
Levels = Callable[..., jax.Array]


def distortion(
  parameters: str, values: Sequence[Any], **declared: Any
) -> Callable[[Levels], Corruption]:
  """Returns the decorator of a function of RGB levels, int32 [H, W, 3]; constants are those of 224
  pixels."""

  def declare(function: Levels) -> Corruption:
    @functools.wraps(function)
    def of_floats(draws: Any, image: jax.Array, strength: Strength, **options: object) -> jax.Array:
      levels = jnp.round(to_levels(image, 'round') * 255).astype(jnp.int32)
      rgb = jnp.broadcast_to(levels, (*levels.shape[:2], 3))
      made = from_levels(function(draws, rgb, strength, **options))
      return grey(made) if image.shape[-1] == 1 else made

    return corruption(parameters, {224: values}, **declared)(of_floats)

  return declare


@distortion(
  'level',
  (2, 4, 5, 8, 10),
  least_side=lambda constants: 4,
  reason='or no quarter has a row',
  family=ALONE,
)
def glitched(key: jax.Array, levels: jax.Array, strength: Strength) -> jax.Array:
  """Shifts bands of rows sideways and one channel as a whole, around the edges; every other row is
  black. All images have the same shifts, as with the generator's one seed."""
  del key
  height, width = levels.shape[:2]
  each = [glitches(level, height, width) for level in strength.constants['level']]
  shift, moved = (strength.of(np.array(part)) for part in zip(*each, strict=True))
  columns = (jnp.arange(width)[None] - shift[:, None]) % width
  shifted = jnp.take_along_axis(levels, columns[:, :, None], axis=1)
  channel, right, down = moved
  rolled = jnp.roll(levels, down, axis=0)
  first = jnp.arange(height)[:, None, None] == down % height
  whole = jnp.where(first, jnp.roll(rolled, right, axis=1), rolled)
  made = jnp.where(jnp.arange(3)[None, None] == channel, whole, shifted)
  return jnp.where(jnp.arange(height)[:, None, None] % 2 == 0, 0, made)


@functools.lru_cache
def glitches(level: float, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns how far each row is moved to the right, int [height], and the moved channel with how
  far it is moved to the right and down, as glitch_this draws them from Python's generator, seed 1.
  """
  most, count = int(level**2 / 100 * width), int(2 * level)
  shift = np.zeros(height, np.int32)
  for number in range(count):
    draw = random.Random(1 + number)
    offset = draw.randint(-most, most)
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
  family=ALONE,
)
def mosaic(
  key: jax.Array, levels: jax.Array, strength: Strength, photographs: str | None = None
) -> jax.Array:
  """Replaces every tile by the shrunk picture whose mean colour is nearest to the tile's colour.

  The grid is centred, and cells beyond the edge repeat it. A tile's colour is that of the image
  shrunk by Pillow's bicubic filter.
  """
  del key
  sides = tuple(strength.constants['tile'])

  def of_side(side: int, pictures: np.ndarray) -> jax.Array:
    before = [-size % side // 2 for size in levels.shape[:2]]
    pads = [(b, -size % side - b) for b, size in zip(before, levels.shape[:2], strict=True)]
    padded = jnp.pad(levels, (*pads, (0, 0)), mode='edge')
    colours = shrunk(padded, side)
    means = pictures.mean((1, 2), np.float32)
    distance = jnp.square(colours[:, :, None] - means[None, None]).sum(-1)
    tiles = jnp.asarray(pictures)[distance.argmin(-1)].astype(jnp.int32)
    whole = tiles.transpose(0, 2, 1, 3, 4).reshape(padded.shape)
    return whole[before[0] :, before[1] :][: levels.shape[0], : levels.shape[1]]

  made = zip(sides, tiles_of(photographs, sides), strict=True)
  branches = [functools.partial(of_side, side, pictures) for side, pictures in made]
  return jax.lax.switch(strength.place, branches)


def shrunk(levels: jax.Array, factor: int) -> jax.Array:
  """Returns levels [H, W, 3] shrunk by a factor that divides H and W, columns first, rounded after
  each axis."""

  def along(values: jax.Array, axis: int) -> jax.Array:
    weights = bicubic(values.shape[axis], factor)
    exact = jnp.tensordot(weights, values, (1, axis), precision=jax.lax.Precision.HIGHEST)
    return jnp.clip(jnp.floor(jnp.moveaxis(exact, 0, axis) + 0.5), 0, 255)

  return along(along(levels.astype(jnp.float32), 1), 0)


def bicubic(size: int, factor: int) -> np.ndarray:
  """Returns the weights of Pillow's antialiased bicubic filter (a = -.5), [size / factor, size]."""
  centre = (np.arange(size // factor)[:, None] + 0.5) * factor
  inside = (np.arange(size) >= np.floor(centre - 2 * factor + 0.5)) & (
    np.arange(size) < np.floor(centre + 2 * factor + 0.5)
  )
  x = np.abs((np.arange(size) + 0.5 - centre) / factor)
  near = (1.5 * x - 2.5) * x * x + 1
  far = ((-0.5 * x + 2.5) * x - 4) * x + 2
  weights = np.where(inside, np.where(x < 1, near, np.where(x < 2, far, 0)), 0)
  return np.asarray(weights / weights.sum(1, keepdims=True), np.float32)


def _draw_stickers(
  key: jax.Array, shape: tuple[int, ...], constants: Constants, photographs: str | None = None
) -> Draws:
  """Returns `corner` int32 [N, 2], rows and columns, and `picture` uint32 [N], any number."""
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
  family=ALONE,
)
def stickers(
  draws: Draws, levels: jax.Array, strength: Strength, photographs: str | None = None
) -> jax.Array:
  """Pastes pictures of 16 × 16 pixels at random places, each over those before it."""
  (pictures,) = tiles_of(photographs, (STICKER,))
  count, corner = len(draws['corner']), draws['corner']
  square = jnp.ones((count, STICKER, STICKER), bool)
  last = last_over(levels.shape, corner, square, jnp.arange(count) < strength['count'])
  first = corner[last]
  picture = (draws['picture'] % len(pictures)).astype(jnp.int32)[last]
  y, x = (
    jnp.clip(own - first[..., axis], 0, STICKER - 1)
    for axis, own in enumerate(jnp.indices(levels.shape[:2]))
  )
  pasted = jnp.asarray(pictures)[picture, y, x].astype(jnp.int32)
  return jnp.where(last[..., None] < 0, levels, pasted)


def last_over(
  shape: Sequence[int], corner: jax.Array, stamps: jax.Array, counts: jax.Array
) -> jax.Array:
  """Returns the number of the last stamp over each pixel, int32 [H, W], -1 where there is none.

  `corner` int [N, 2] are rows and columns of the stamps' first pixels, `stamps` bool [N, K, K],
  and `counts` bool [N] which of them are there.
  """
  number, down, right = jnp.indices(stamps.shape)
  y, x = (corner[:, axis, None, None] + own for axis, own in enumerate((down, right)))
  there = stamps & counts[:, None, None] & (y >= 0) & (x >= 0)
  empty = jnp.full(shape[:2], -1, jnp.int32)
  return empty.at[jnp.where(there, y, shape[0]), x].max(number, mode='drop')


def _draw_shapes(key: jax.Array, shape: tuple[int, ...], constants: Constants) -> Draws:
  """Returns for N shapes, int32, `kind` (triangle, square, circle, star), `place` [N, 2] rows and
  columns, `size` in pixels, `colour` [N, 3] and `turn` in degrees."""
  keys, count = jax.random.split(key, 5), max(constants['count'])
  return {
    'kind': jax.random.randint(keys[0], (count,), 0, 4),
    'place': jax.random.randint(keys[1], (count, 2), 0, jnp.array(shape[:2])[None]),
    'size': jax.random.randint(keys[2], (count,), SIZES[0], SIZES[-1] + 1),
    'colour': jax.random.randint(keys[3], (count, 3), 0, 256),
    'turn': jax.random.randint(keys[4], (count,), 0, TURNS),
  }


@distortion('count', (150, 300, 600, 800, 1000), draw=_draw_shapes, family=ALONE)
def geometric_shapes(draws: Draws, levels: jax.Array, strength: Strength) -> jax.Array:
  """Draws shapes of one colour at random places, each over those before it."""
  kind, size = draws['kind'], draws['size'] - SIZES[0]
  number = jnp.where(kind < 3, kind * len(SIZES) + size, 3 * len(SIZES) + size * TURNS)
  stamps = jnp.asarray(shape_stamps())[number + jnp.where(kind < 3, 0, draws['turn'])]
  counts = jnp.arange(len(kind)) < strength['count']
  last = last_over(levels.shape, draws['place'] - REACH, stamps, counts)
  return jnp.where(last[..., None] < 0, levels, draws['colour'][last])


@functools.cache
def shape_stamps() -> np.ndarray:
  """Returns what Pillow draws of triangles, squares and circles of each size, then of stars of each
  size at each angle, bool [3 · 10 + 10 · 360, 29, 29]; a shape's position is at REACH."""
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
  """Returns U(0, 1) of each cell, float32 [rows, columns]."""
  return jax.random.uniform(key, [-(-size // CELL) for size in shape[:2]])


@distortion(
  'low high',
  ((0, 50), (50, 100), (100, 125), (125, 150), (150, 255)),
  draw=_draw_cells,
  family=ALONE,
)
def luminance_checkerboard(drawn: jax.Array, levels: jax.Array, strength: Strength) -> jax.Array:
  """Makes cells of 14 × 14 pixels lighter and darker by turns, by U(low, high) levels each."""
  rows, columns = jnp.indices(drawn.shape)
  sign = jnp.where((rows + columns) % 2 == 0, 1, -1)
  change = sign * (strength['low'] + drawn * (strength['high'] - strength['low']))
  whole = jnp.repeat(jnp.repeat(change, CELL, 0), CELL, 1)[: levels.shape[0], : levels.shape[1]]
  return jnp.floor(jnp.clip(levels + whole[..., None], 0, 255)).astype(jnp.int32)


@distortion('columns step', ((224, 1), (178, 2), (112, 4), (84, 6), (60, 8)), family=ALONE)
def vertical_lines(key: jax.Array, levels: jax.Array, strength: Strength) -> jax.Array:
  """Draws a black image's vertical lines, each bent to the left by 40 (1 - I / 255) pixels.

  Line i of L starts at the column iW / L and goes on from row to row, `step` rows at once, in the
  mean colour of the block that it passes; I is the block's mean grey level. Pixels are those of
  Bresenham's lines between whole coordinates, as Pillow draws them.
  """
  del key
  height, width = levels.shape[:2]
  counts = strength.constants['columns']
  tables = [line_tables(count, width) for count in counts]
  start, end, ends = (
    strength.of(np.stack([np.pad(t, ((0, max(counts) - len(t)), *[(0, 0)] * (t.ndim - 1)))
                          for t in each]))
    for each in zip(*tables, strict=True)
  )  # fmt: skip
  step, number = strength['step'], jnp.arange(height)
  top, bottom = jnp.minimum(number * step, height), jnp.minimum((number + 1) * step, height)
  luma = (levels @ jnp.array([19595, 38470, 7471]) + 2**15) >> 16
  stack = jnp.concatenate([levels, luma[..., None]], -1)
  sums = jnp.pad(stack.cumsum(0).cumsum(1), ((1, 0), (1, 0), (0, 0)))

  def colours(line: jax.Array, block: jax.Array) -> jax.Array:
    """The mean levels of blocks, R, G, B and grey, rounded down."""
    y0, y1, x0, x1 = top[block], bottom[block], start[line], end[line]
    total = sums[y1, x1] - sums[y0, x1] - sums[y1, x0] + sums[y0, x0]
    return total // jnp.maximum((y1 - y0) * (x1 - x0), 1)[..., None]

  def draw(line: jax.Array, last: jax.Array) -> jax.Array:
    x1 = ends[line, colours(line, number)[:, 3]]
    x0 = jnp.roll(x1, 1).at[0].set(start[line])
    y1, y0 = top, jnp.maximum(top - step, 0)
    y, x = bresenham(x0, y0, x1, y1)
    inside = (x >= 0) & (x < width) & (top[:, None] < height)
    order = jnp.broadcast_to((line * height + number)[:, None], y.shape)
    return last.at[jnp.where(inside, y, height), x].max(order, mode='drop')

  last = jax.lax.fori_loop(0, strength['columns'], draw, jnp.full((height, width), -1, jnp.int32))
  colour = colours(last // height, last % height)[..., :3]
  return jnp.where(last[..., None] < 0, 0, colour)


@functools.lru_cache
def line_tables(count: int, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns the first column of each line, the one after its block, [count], and by mean level of
  the block where a bent line ends, [count, 256]; whole numbers are cut off as Pillow does it."""
  x = np.arange(count) / count * width
  bent = x[:, None] + (1 - np.arange(256) / 255) * -BEND
  end = np.minimum((x + width / count).astype(np.int32), width)
  return x.astype(np.int32), end, bent.astype(np.int32)


def bresenham(
  x0: jax.Array, y0: jax.Array, x1: jax.Array, y1: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """Returns rows and columns of lines between points, [N] each, int32 [N, BEND + 2]; the last pixel
  is repeated."""
  dx, dy = x1 - x0, y1 - y0
  across = jnp.maximum(jnp.abs(dx), jnp.abs(dy))[:, None]
  steps = jnp.minimum(jnp.arange(BEND + 2)[None], across)

  def along(start: jax.Array, change: jax.Array) -> jax.Array:
    moved = (2 * steps * jnp.abs(change)[:, None] + across) // jnp.maximum(2 * across, 1)
    return start[:, None] + jnp.sign(change)[:, None] * moved

  return along(y0, dy), along(x0, dx)


def tiles_of(source: str | os.PathLike[str] | None, sides: tuple[int, ...]) -> list[np.ndarray]:
  """Returns pictures shrunk to squares of some sides, uint8 [pictures, side, side, 3] each.

  `source` is a folder, of which the first 1000 image files count, at any depth, by path; None takes
  procedural pictures. Pictures are prepared as the generator does it: resized to 256, the centre of
  224 cropped, resized bilinearly.
  """
  return [*_tiles(os.fspath(source or ''), sides)]


@functools.lru_cache(maxsize=4)
def _tiles(source: str, sides: tuple[int, ...]) -> tuple[np.ndarray, ...]:
  made: list[list[np.ndarray]] = [[] for _ in sides]
  for picture in _folder_pictures(source) if source else _procedural_pictures():
    for own, side in zip(made, sides, strict=True):
      own.append(np.asarray(picture.resize((side, side), Image.Resampling.BILINEAR)))
  return tuple(np.stack(own) for own in made)


def _folder_pictures(source: str) -> list[Image.Image]:
  folder = expanded(source)
  files = [f for f in files_in(folder) if f.suffix.lower() in SUFFIXES][:MOST_PICTURES]
  if not files:
    raise InputError(
      f'{source!r} is no folder with pictures for {" and ".join(PICTURES)}: name one with files '
      f'ending in {", ".join(SUFFIXES)}, or none for procedural pictures.'
    )
  pictures = []
  for rgb in map(read_rgb, files):
    size = [256 * side // min(rgb.size) for side in rgb.size]
    left, top = ((side - 224) // 2 for side in size)
    box = (left, top, left + 224, top + 224)
    pictures.append(rgb.resize(size, Image.Resampling.BILINEAR).crop(box))
  return pictures


def _procedural_pictures() -> list[Image.Image]:
  """Returns smooth patches around colours that fill the cube, the same on every machine."""
  draw = np.random.RandomState(19)
  colour = draw.uniform(0, 255, (PROCEDURAL, 1, 1, 3))
  patches = np.clip(colour + draw.normal(0, 30, (PROCEDURAL, 7, 7, 3)), 0, 255).astype(np.uint8)
  return [Image.fromarray(p).resize((56, 56), Image.Resampling.BICUBIC) for p in patches]


def describe(source: str) -> dict[str, object]:
  """Returns what mosaics and stickers are made of, for results; see `textures.describe`."""
  if not source:
    return {'source': 'procedural'}
  (tiles,) = tiles_of(source, (STICKER,))
  digest = hashlib.sha256(tiles.tobytes()).hexdigest()
  name = expanded(source).resolve().name
  return {'source': 'photographs', 'from': name, 'count': len(tiles), 'sha256': digest}
