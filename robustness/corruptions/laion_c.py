"""LAION-C's six distortions: glitches, mosaic, stickers, vertical lines, shapes and a checkerboard.

Each maps 8-bit RGB images to 8-bit RGB images. A grey image is corrupted as an RGB image with equal
channels, and the grey value of the result is taken. Mosaics and stickers consist of other pictures,
for which the authors took a million images of LAION. Here they come from a folder (`photographs`)
or are procedural, and therefore differ from LAION-C.

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
from robustness.corruptions.corruption import Constants, Corruption, Draws, Strength, published
from robustness.corruptions.names import UNLIKE_OTHERS
from robustness.corruptions.pixels import from_levels, grey, to_levels

PICTURES = ('mosaic', 'stickers')
"""Corruptions that need other pictures."""
MAX_PICTURES = 1000  # most pictures that are taken from a folder
PROCEDURAL = 512  # number of procedural pictures
STICKER, CELL = 16, 14  # sides of stickers and of checkerboard cells in pixels
BEND = 40  # shift in pixels, to the left, of a vertical line where pixels are black
REACH, STAMP = 13, 29  # pixels from a shape's position to the corner of its stamp; a stamp's side
SIZES, TURNS = range(6, 16), 360  # sizes of shapes in pixels, and number of angles, 1° apart
STAR = 3  # number of the kind of shape that is rotated: triangles, squares, circles, stars
LevelsFunction = Callable[..., jax.Array]
"""Function of RGB levels, int32 [H, W, 3], that returns distorted levels."""


def distortion(**declared: Any) -> Callable[[LevelsFunction], Corruption]:
  """Returns a decorator that turns a function of RGB levels, int32 [H, W, 3], into a corruption.

  Args:
    **declared: fields of `Corruption` but constants and family, such as `draw`.
  """

  def declare(function: LevelsFunction) -> Corruption:
    """Turns a function of RGB levels into a `Corruption` of float images.

    Args:
      function: function (draws, levels int32 [H, W, 3], strength) -> levels. `strength` has its
        constants at the severity.
    """

    @functools.wraps(function)
    def on_floats(draws: Any, image: jax.Array, strength: Strength, **options: object) -> jax.Array:
      """Applies `function`, which takes RGB levels, to an image of floats in [0, 1].

      Args:
        draws: random numbers for the function.
        image: float32 [H, W, C]; a grey image gets three equal channels, and its result is grey.
        strength: the constants of the severity.
        **options: options of the corruption.
      """
      levels = jnp.round(to_levels(image, 'round') * 255).astype(jnp.int32)
      rgb = jnp.broadcast_to(levels, (*levels.shape[:2], 3))  # three equal channels if it is grey
      corrupted = from_levels(function(draws, rgb, strength, **options))
      return grey(corrupted) if image.shape[-1] == 1 else corrupted

    return published(UNLIKE_OTHERS, **declared)(on_floats)

  return declare


@distortion(least_side=lambda constants: 4, reason='or no quarter has a row')
def glitched(key: jax.Array, levels: jax.Array, strength: Strength) -> jax.Array:
  """Shifts bands of rows sideways and one colour channel downwards; every other row is black.

  Shifts are cyclic. All images have the same shifts, because the released generator has a single
  seed. The constant `level`, the strength of the package glitch_this, sets the number and the size
  of the shifts. A band has at most a quarter of the rows. `key` is unused.
  """
  height, width = levels.shape[:2]
  by_severity = [draw_glitches(level, height, width) for level in strength.constants['level']]
  row_shifts, channel_moves = map(np.array, zip(*by_severity, strict=True))
  row_shift, channel_move = strength.select(row_shifts), strength.select(channel_moves)
  source_column = (jnp.arange(width)[None] - row_shift[:, None]) % width  # [H, W]
  with_shifted_rows = jnp.take_along_axis(levels, source_column[:, :, None], axis=1)
  channel, right, down = channel_move
  moved_down = jnp.roll(levels, down, axis=0)
  row = jnp.arange(height)[:, None, None]
  # as released, only the row that was the first, now at row `down`, moves to the right
  moved = jnp.where(row == down % height, jnp.roll(moved_down, right, axis=1), moved_down)
  # one channel is moved, the two others have shifted rows
  mixed = jnp.where(jnp.arange(3)[None, None] == channel, moved, with_shifted_rows)
  return jnp.where(row % 2 == 0, 0, mixed)


@functools.lru_cache
def draw_glitches(level: float, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns the random shifts of `glitched`, as the package glitch_this draws them with seed 1.

  Args:
    level: strength of glitch_this, from 0 to 10; larger values make more bands and larger shifts.
    height: height of the image in pixels.
    width: width of the image in pixels.

  Returns:
    The shift of each row to the right, int32 [height]; and the number of the moved channel with its
    shifts to the right and down, int32 [3].
  """
  max_shift, num_bands = int(level**2 / 100 * width), int(2 * level)
  shift = np.zeros(height, np.int32)
  for band in range(num_bands):
    generator = random.Random(1 + band)
    offset = generator.randint(-max_shift, max_shift)
    if offset:
      start = generator.randint(0, height)
      shift[start : start + generator.randint(1, height // 4)] = offset
  generator = random.Random(1)
  channel = generator.randint(0, 2)
  right = generator.randint(-num_bands, num_bands)
  down = generator.randint(-num_bands, num_bands)
  return shift, np.array([channel, right, down], np.int32)


@distortion(
  options={'photographs': ()},
  least_side=lambda constants: max(constants['tile']),
  reason='or no tile fits',
)
def mosaic(
  key: jax.Array, levels: jax.Array, strength: Strength, photographs: str | None = None
) -> jax.Array:
  """Replaces each tile of the image by the picture with the nearest mean colour.

  Tiles and pictures have `tile` × `tile` pixels. The grid of tiles is centred, and the image is
  extended to whole tiles by repeating its edge. The colours of the tiles are found by shrinking the
  image to one pixel per tile by Pillow's bicubic filter.

  Args:
    key: unused.
    levels: RGB levels, int32 [H, W, 3].
    strength: has the constant `tile`.
    photographs: folder of pictures, which are shrunk. None makes procedural pictures.
  """
  # the side of tiles at each severity
  sides, (height, width) = tuple(strength.constants['tile']), levels.shape[:2]

  def tiled(side: int, pictures: np.ndarray) -> jax.Array:
    """Returns the image as a mosaic of pictures, each of about the mean colour of its tile.

    Args:
      side: side of the tiles in pixels.
      pictures: the P pictures to choose from, uint8 [P, side, side, 3].

    Returns:
      int32 [H, W, 3].
    """
    # up to whole tiles: 2 for a height of 30 and a side of 8
    missing_height, missing_width = -height % side, -width % side
    y0, x0 = missing_height // 2, missing_width // 2
    pads = (y0, missing_height - y0), (x0, missing_width - x0), (0, 0)
    padded = jnp.pad(levels, pads, mode='edge')
    means = pictures.mean((1, 2), np.float32)
    # squared distance of colours, [rows of tiles, columns of tiles, P]
    distance = jnp.square(shrink(padded, side)[:, :, None] - means[None, None]).sum(-1)
    tiles = jnp.asarray(pictures)[distance.argmin(-1)].astype(jnp.int32)
    # from [rows of tiles, columns of tiles, side, side, 3] to [rows of pixels, columns, 3]
    joined = tiles.transpose(0, 2, 1, 3, 4).reshape(padded.shape)
    return joined[y0 : y0 + height, x0 : x0 + width]

  # a branch for each severity, because the shapes of tiles differ
  by_severity = zip(sides, load_tiles(photographs, sides), strict=True)
  branches = [functools.partial(tiled, side, pictures) for side, pictures in by_severity]
  return jax.lax.switch(strength.index, branches)


def shrink(levels: jax.Array, factor: int) -> jax.Array:
  """Returns levels [H, W, 3] shrunk by a factor that divides H and W, float32.

  As in Pillow, the width is shrunk and rounded to whole levels before the height.
  """

  def along(values: jax.Array, axis: int) -> jax.Array:
    """Shrinks values along one axis bicubically, and rounds them to whole levels in 0..255.

    Args:
      values: [H, W, 3], float32.
      axis: 0 or 1; its length is divided by `factor`.
    """
    weights = bicubic(values.shape[axis], factor)
    exact = jnp.tensordot(weights, values, (1, axis), precision=jax.lax.Precision.HIGHEST)
    return jnp.clip(jnp.floor(jnp.moveaxis(exact, 0, axis) + 0.5), 0, 255)

  return along(along(levels.astype(jnp.float32), 1), 0)


def bicubic(size: int, factor: int) -> np.ndarray:
  """Returns the weights of Pillow's antialiased bicubic filter that shrinks a line of pixels.

  Args:
    size: number of pixels of the line.
    factor: a divisor of `size`; the shrunk line has `size` / `factor` pixels.

  Returns:
    The weight of each pixel in each shrunk pixel, float32 [size / factor, size]; rows sum to 1.
  """
  centre = (np.arange(size // factor)[:, None] + 0.5) * factor
  pixel = np.arange(size)
  # Pillow rounds the window of 4 shrunk pixels to whole pixels
  start, end = np.floor(centre - 2 * factor + 0.5), np.floor(centre + 2 * factor + 0.5)
  x = np.abs((pixel + 0.5 - centre) / factor)  # distance in shrunk pixels
  # Keys' cubic kernel with a = −½ for x < 1 and for 1 ≤ x < 2
  near = (1.5 * x - 2.5) * x * x + 1
  far = ((-0.5 * x + 2.5) * x - 4) * x + 2
  is_in_window = (pixel >= start) & (pixel < end)
  weights = np.where(x < 1, near, np.where(x < 2, far, 0)) * is_in_window
  return np.asarray(weights / weights.sum(1, keepdims=True), np.float32)


def _draw_stickers(
  key: jax.Array, shape: tuple[int, ...], constants: Constants, photographs: str | None = None
) -> Draws:
  """Returns the random positions and pictures of N stickers.

  N is the number of stickers at the highest severity. `photographs` is unused: a `draw` function
  gets the options of its corruption.

  Returns:
    {'corner': int32 [N, 2], 'picture': uint32 [N]}. `corner` is the row and column of a sticker's
    upper left pixel. `picture` modulo the number of pictures is the index of the picture.
  """
  key_corner, key_picture = jax.random.split(key)
  count = max(constants['count'])
  end = jnp.array(shape[:2]) - STICKER  # exclusive
  corner = jax.random.randint(key_corner, (count, 2), 0, end[None])
  return {'corner': corner, 'picture': jax.random.bits(key_picture, (count,), jnp.uint32)}


@distortion(
  draw=_draw_stickers,
  options={'photographs': ()},
  least_side=lambda constants: STICKER + 1,
  reason='or no sticker fits',
)
def stickers(
  draws: Draws, levels: jax.Array, strength: Strength, photographs: str | None = None
) -> jax.Array:
  """Pastes small pictures at random positions; a later sticker covers an earlier one.

  Args:
    draws: for each sticker its `corner`, row and column, and the random number of its `picture`.
    levels: RGB levels, int32 [H, W, 3].
    strength: has the constant `count`, the number of stickers.
    photographs: folder of pictures, which are shrunk to 16 × 16 pixels. None makes procedural
      pictures.
  """
  (pictures,) = load_tiles(photographs, (STICKER,))
  count, corner = len(draws['corner']), draws['corner']
  square = jnp.ones((count, STICKER, STICKER), bool)
  # Number of the sticker that each pixel shows, −1 for none, [H, W]. Pixels without a sticker get
  # the picture and the corner of the last one here, and their old levels at the end.
  sticker = last_stamp(levels.shape, corner, square, jnp.arange(count) < strength['count'])
  picture = (draws['picture'] % len(pictures)).astype(jnp.int32)[sticker]
  rows, columns = jnp.indices(levels.shape[:2])
  # position of the pixel in its sticker
  y = jnp.clip(rows - corner[sticker][..., 0], 0, STICKER - 1)
  x = jnp.clip(columns - corner[sticker][..., 1], 0, STICKER - 1)
  pasted = jnp.asarray(pictures)[picture, y, x].astype(jnp.int32)
  return jnp.where(sticker[..., None] < 0, levels, pasted)


def last_stamp(
  shape: Sequence[int], corner: jax.Array, stamps: jax.Array, is_used: jax.Array
) -> jax.Array:
  """Returns the index of the last stamp that covers each pixel, int32 [H, W]; -1 for none.

  Args:
    shape: shape of the image, which begins with H and W.
    corner: row and column of the upper left pixel of each stamp, int [N, 2]; it may be negative.
    stamps: which pixels each stamp covers, bool [N, K, K].
    is_used: whether each stamp is drawn, bool [N].
  """
  number, down, right = jnp.indices(stamps.shape)
  y, x = corner[:, 0, None, None] + down, corner[:, 1, None, None] + right
  # a negative index would count from the end
  is_covered = stamps & is_used[:, None, None] & (y >= 0) & (x >= 0)
  empty = jnp.full(shape[:2], -1, jnp.int32)
  # Pixels that are not covered get row H, which mode='drop' ignores. `max` keeps the last stamp.
  return empty.at[jnp.where(is_covered, y, shape[0]), x].max(number, mode='drop')


def _draw_shapes(key: jax.Array, shape: tuple[int, ...], constants: Constants) -> Draws:
  """Returns the random properties of N shapes, int32.

  N is the number of shapes at the highest severity.

  Returns:
    A dictionary with `kind` [N], 0 to 3 for triangle, square, circle and star; `place` [N, 2], row
    and column; `size` [N] in pixels; `colour` [N, 3] in levels; and `turn` [N], the angle of a star
    in degrees.
  """
  keys, count = jax.random.split(key, 5), max(constants['count'])
  return {
    'kind': jax.random.randint(keys[0], (count,), 0, 4),
    'place': jax.random.randint(keys[1], (count, 2), 0, jnp.array(shape[:2])[None]),
    'size': jax.random.randint(keys[2], (count,), SIZES[0], SIZES[-1] + 1),
    'colour': jax.random.randint(keys[3], (count, 3), 0, 256),
    'turn': jax.random.randint(keys[4], (count,), 0, TURNS),
  }


@distortion(draw=_draw_shapes)
def geometric_shapes(draws: Draws, levels: jax.Array, strength: Strength) -> jax.Array:
  """Draws shapes of a single colour at random positions; a later shape covers an earlier one.

  Shapes are triangles, squares, circles and stars of 6 to 15 pixels. Stars have a random angle. The
  constant `count` is the number of shapes.
  """
  kind, size = draws['kind'], draws['size'] - SIZES[0]  # the index of the size in `SIZES`
  # `shape_stamps` has a stamp for each kind below STAR and size, and then for each size and angle
  # of stars
  star_number = STAR * len(SIZES) + size * TURNS + draws['turn']
  number = jnp.where(kind < STAR, kind * len(SIZES) + size, star_number)
  stamps = jnp.asarray(shape_stamps())[number]
  is_used = jnp.arange(len(kind)) < strength['count']
  # index of the shape at each pixel, −1 for none; a shape is at pixel (REACH, REACH) of its stamp
  shape = last_stamp(levels.shape, draws['place'] - REACH, stamps, is_used)
  return jnp.where(shape[..., None] < 0, levels, draws['colour'][shape])


@functools.cache
def shape_stamps() -> np.ndarray:
  """Returns masks of all shapes as Pillow draws them, bool [3 · 10 + 10 · 360, 29, 29].

  The masks are triangles, squares and circles in 10 sizes, then stars of each size at angles of 0
  to 359°. A shape's position in the image is pixel (REACH, REACH) of its mask.
  """
  stamps = []

  def draw(shape: str, points: Sequence[tuple[float, float]]) -> None:
    """Draws a shape with Pillow and appends its mask to `stamps`.

    Args:
      shape: name of a method of `ImageDraw`, such as 'polygon'.
      points: corners (x, y) in pixels, relative to the shape's position.
    """
    stamp = Image.new('1', (STAMP, STAMP))
    getattr(ImageDraw.Draw(stamp), shape)([(REACH + x, REACH + y) for x, y in points], fill=1)
    stamps.append(np.asarray(stamp))

  for size in SIZES:
    draw('polygon', ((0, 0), (size, 0), (size / 2, size)))
  for shape in ('rectangle', 'ellipse'):
    for size in SIZES:
      draw(shape, ((0, 0), (size, size)))
  for size in SIZES:
    radii = [size / 1.2, size / 2.4] * 5  # tips and inner corners of a star alternate
    for turn in range(TURNS):
      angles = [math.radians(36 * corner + turn) for corner in range(10)]
      corners = zip(radii, angles, strict=True)
      # angles are measured from the downward direction
      draw('polygon', [(r * math.sin(a), r * math.cos(a)) for r, a in corners])
  return np.stack(stamps)


def _draw_cells(key: jax.Array, shape: tuple[int, ...], constants: Constants) -> jax.Array:
  """Returns random numbers in [0, 1) for the cells of a checkerboard, float32 [rows, columns].

  Cells are `CELL` pixels high and wide, and the last ones may be cut off.

  Args:
    key: random key.
    shape: shape of the image, [H, W, ...].
    constants: ignored.
  """
  return jax.random.uniform(key, [-(-side // CELL) for side in shape[:2]])  # rounded up


@distortion(draw=_draw_cells)
def luminance_checkerboard(draws: jax.Array, levels: jax.Array, strength: Strength) -> jax.Array:
  """Makes the cells of a checkerboard alternately lighter and darker.

  A cell has 14 × 14 pixels. Its change, in 8-bit levels, is uniform on [low, high).

  Args:
    draws: random number for each cell, uniform on [0, 1), [rows of cells, columns of cells].
    levels: RGB levels, int32 [H, W, 3].
    strength: has the constants `low` and `high`.
  """
  rows, columns = jnp.indices(draws.shape)
  sign = jnp.where((rows + columns) % 2 == 0, 1, -1)
  change = sign * (strength['low'] + draws * (strength['high'] - strength['low']))
  height, width = levels.shape[:2]
  pixel_change = jnp.repeat(jnp.repeat(change, CELL, 0), CELL, 1)[:height, :width]
  return jnp.floor(jnp.clip(levels + pixel_change[..., None], 0, 255)).astype(jnp.int32)


@distortion()
def vertical_lines(key: jax.Array, levels: jax.Array, strength: Strength) -> jax.Array:
  """Redraws the image as vertical lines on black that bend to the left where the image is dark.

  There are L lines (the constant `columns`) in an image of width W. Line i starts at column iW / L
  and consists of segments of `step` rows. A segment has the mean colour of a block of pixels: its
  rows, and the W / L columns to the right of the line's start. It ends 40 (1 - I / 255) pixels to
  the left of the line's start, where I is the mean grey level of the block. Pixels follow
  Bresenham's algorithm between integer coordinates, as in Pillow. `key` is unused.
  """
  height, width = levels.shape[:2]
  counts = strength.constants['columns']
  by_severity = [line_tables(count, max(counts), width) for count in counts]
  # the first column of each line's block and the column after it, [lines]; and the column in which
  # a segment ends, by line and mean grey level, [lines, 256]
  by_kind = zip(*by_severity, strict=True)
  block_start, block_end, segment_end = (strength.select(np.stack(tables)) for tables in by_kind)
  # Numbers of the segments of a line, and their rows from top to bottom − 1. There are `height`
  # segments, because their number of rows, `step`, is traced; segments below the image are empty.
  step, segments = strength['step'], jnp.arange(height)
  top = jnp.minimum(segments * step, height)
  bottom = jnp.minimum((segments + 1) * step, height)
  sums = _sums_to_corner(levels)

  def mean_levels(line: jax.Array, segment: jax.Array) -> jax.Array:
    """Returns the mean R, G, B and grey levels of segments' blocks, rounded down, [..., 4].

    Args:
      line: number of the line of each segment.
      segment: number of each segment in its line.
    """
    # sums over the rows y0 to y1 - 1 and the columns x0 to x1 - 1, from cumulative sums
    y0, y1 = top[segment], bottom[segment]
    x0, x1 = block_start[line], block_end[line]
    total = sums[y1, x1] - sums[y0, x1] - sums[y1, x0] + sums[y0, x0]
    return total // jnp.maximum((y1 - y0) * (x1 - x0), 1)[..., None]

  def draw_line(line: jax.Array, drawn: jax.Array) -> jax.Array:
    """Draws one line and returns the number of the last segment drawn at each pixel.

    Segment s of line i has the number i · height + s.

    Args:
      line: number i of the line.
      drawn: result of the line before, int32 [H, W]; −1 where nothing was drawn.
    """
    block_grey = mean_levels(line, segments)[:, 3]
    end = segment_end[line, block_grey]
    start = jnp.roll(end, 1).at[0].set(block_start[line])  # where the segment before ends
    # a segment goes from the top of the segment before to its own top
    y, x = bresenham(start, jnp.maximum(top - step, 0), end, top)
    is_inside = (x >= 0) & (x < width) & (top[:, None] < height)
    number = jnp.broadcast_to((line * height + segments)[:, None], y.shape)
    # pixels outside get row `height`, which mode='drop' ignores
    return drawn.at[jnp.where(is_inside, y, height), x].max(number, mode='drop')

  num_lines, nothing_drawn = strength['columns'], jnp.full((height, width), -1, jnp.int32)
  drawn = jax.lax.fori_loop(0, num_lines, draw_line, nothing_drawn)
  # pixels on no line, -1, get the colour of any segment here and are black at the end
  rgb = mean_levels(line=drawn // height, segment=drawn % height)[..., :3]
  return jnp.where(drawn[..., None] < 0, 0, rgb)


def _sums_to_corner(levels: jax.Array) -> jax.Array:
  """Returns cumulative sums of R, G, B and grey levels along both axes, int32 [H + 1, W + 1, 4].

  Entry [y, x] is the sum over all pixels above row y and left of column x.
  """
  grey_level = (levels @ jnp.array([19595, 38470, 7471]) + 2**15) >> 16  # as in Pillow
  stack = jnp.concatenate([levels, grey_level[..., None]], -1)
  return jnp.pad(stack.cumsum(0).cumsum(1), ((1, 0), (1, 0), (0, 0)))


@functools.lru_cache
def line_tables(count: int, size: int, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns the columns that each line of `vertical_lines` starts from, averages and bends to.

  Args:
    count: number of lines.
    size: length of the tables, at least `count`; entries from `count` on are unused.
    width: width of the image in pixels.

  Returns:
    A tuple (start, stop, end). A line starts at column `start`, int32 [size], and averages the
    pixels in columns [start, stop), int32 [size]. `end`, int32 [size, 256], is the column in which
    a segment ends, for each mean grey level 0 to 255.
  """
  block_start = np.arange(size) / count * width
  block_end = np.minimum((block_start + width / count).astype(np.int32), width)
  # BEND pixels to the left of the line's start for the grey level 0, none for 255
  segment_end = block_start[:, None] - BEND * (1 - np.arange(256) / 255)
  return block_start.astype(np.int32), block_end, segment_end.astype(np.int32)


def bresenham(
  x0: jax.Array, y0: jax.Array, x1: jax.Array, y1: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """Returns the rows and the columns of the pixels of N lines, int32 [N, BEND + 2] each.

  Lines run from (x0, y0) to (x1, y1), int32 [N] each, and have at most BEND + 2 pixels. A shorter
  line repeats its last pixel.
  """
  dx, dy = x1 - x0, y1 - y0
  num_steps = jnp.maximum(jnp.abs(dx), jnp.abs(dy))[:, None]  # of one pixel along the longer axis
  step = jnp.minimum(jnp.arange(BEND + 2)[None], num_steps)  # number of the step of each pixel

  def along(start: jax.Array, change: jax.Array) -> jax.Array:
    """Returns the coordinate of each pixel of lines that run from `start` to `start + change`."""
    # ⌊step · |change| / num_steps + ½⌋ in integers
    moved = (2 * step * jnp.abs(change)[:, None] + num_steps) // jnp.maximum(2 * num_steps, 1)
    return start[:, None] + jnp.sign(change)[:, None] * moved

  return along(y0, dy), along(x0, dx)


@functools.lru_cache(maxsize=4)
def load_tiles(
  source: str | os.PathLike[str] | None, sides: tuple[int, ...]
) -> tuple[np.ndarray, ...]:
  """Returns pictures cropped and shrunk to squares, uint8 [pictures, side, side, 3] for each side.

  As in the released generator, the shorter side of a picture is resized to 256 pixels. The central
  224 × 224 pixels are resized bilinearly to side × side pixels.

  Args:
    source: a folder. Its first `MAX_PICTURES` image files by path, at any depth, are read. None and
      '' make procedural pictures.
    sides: sides in pixels.
  """
  pictures = _folder_pictures(os.fspath(source)) if source else _procedural_pictures()
  return tuple(
    np.stack([np.asarray(p.resize((side, side), Image.Resampling.BILINEAR)) for p in pictures])
    for side in sides
  )


def _folder_pictures(source: str) -> list[Image.Image]:
  """Returns the first `MAX_PICTURES` pictures in a folder, 224 × 224 pixels each.

  The shorter side of each picture is resized to 256 pixels, then the centre is cut out.
  """
  files = [f for f in files_in(expanded(source)) if f.suffix.lower() in SUFFIXES][:MAX_PICTURES]
  if not files:
    raise InputError(
      f'{source!r} is no folder with pictures for {" and ".join(PICTURES)}: name one with files '
      f'ending in {", ".join(SUFFIXES)}, or none for procedural pictures.'
    )
  pictures = []
  for rgb in map(read_rgb, files):
    size = [256 * side // min(rgb.size) for side in rgb.size]
    x0, y0 = (size[0] - 224) // 2, (size[1] - 224) // 2
    box = (x0, y0, x0 + 224, y0 + 224)
    pictures.append(rgb.resize(size, Image.Resampling.BILINEAR).crop(box))
  return pictures


def _procedural_pictures() -> list[Image.Image]:
  """Returns pictures of smooth random colours, 56 × 56 pixels each.

  Their mean colours are spread over all of RGB. A fixed seed makes them the same on every machine.
  """
  generator = np.random.RandomState(19)
  colour = generator.uniform(0, 255, (PROCEDURAL, 1, 1, 3))
  variation = generator.normal(0, 30, (PROCEDURAL, 7, 7, 3))  # on 7 × 7 pixels, enlarged below
  patches = np.clip(colour + variation, 0, 255).astype(np.uint8)
  return [Image.fromarray(p).resize((56, 56), Image.Resampling.BICUBIC) for p in patches]


def describe(source: str) -> dict[str, object]:
  """Returns facts on the pictures of mosaics and stickers, to be saved with results.

  Args:
    source: folder of pictures, or '' for procedural pictures.

  Returns:
    {'source': 'procedural'}, or {'source': 'photographs', 'from': name of the folder, 'count':
    number of pictures, 'sha256': their digest}.
  """
  if not source:
    return {'source': 'procedural'}
  (tiles,) = load_tiles(source, (STICKER,))
  digest = hashlib.sha256(tiles.tobytes()).hexdigest()
  name = expanded(source).resolve().name
  return {'source': 'photographs', 'from': name, 'count': len(tiles), 'sha256': digest}
