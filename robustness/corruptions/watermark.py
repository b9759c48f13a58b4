"""ImageNet-W's watermark: six white, half transparent Chinese characters across the image.

The characters 捷径 ("shortcut") are written three times, on a line that begins at 1 % of the width
and 40 % of the height. The published font, Source Han Serif SC ExtraLight, is not part of this
project. Without a font file the characters consist of strokes that were drawn for this project:
they have the layout of the characters, and one width without serifs, so errors measured with them
differ from ImageNet-W's. With the font file (`font`) the text is Pillow's, as in the release.

Reference: Li et al. (2023), A Whac-A-Mole Dilemma: Shortcuts Come in Multiples Where Mitigating One
Amplifies Others; and the released transform.
"""

import functools
import itertools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.corruptions.corruption import Strength, corruption
from robustness.corruptions.names import UNLIKE_OTHERS

OPACITIES = (0.1, 0.25, 0.5, 0.75, 1.0)
"""Opacity by severity; the third is ImageNet-W's."""
FONT_SIZES = {224: 36, 384: 62, 512: 82, 518: 84}
"""{side: published font size}, both in pixels; for other sides it is ⌊side / 6.22⌋."""
REPEATS, LEFT, TOP = 3, 0.01, 0.4
"""Repeats of the two characters; and column and row of the corner of the text, divided by the
image's width and height."""
STROKES = {
  '捷': '0428 3728, 2105 2190 1793 0688, 0560 3647, 3417 9417, 3928 8228 8257, 3241 9741, '
  '3854 8254, 6205 6288, 6269 8969, 4561 4373 3784 2795, 4474 5082 5887 6889 9789',
  '径': '2906 2116 1224 0431, 3027 2438 1450 0360, 2045 2096, 4014 8214 7526 6537 5147 3255, '
  '6735 7839 8745 9354, 3959 8859, 6259 6290, 3090 9690',
}
"""{character: its strokes}, polylines of points xxyy in hundredths of the font size; y points
down."""
STROKE_WIDTH = 0.025
"""Width of a stroke, divided by the font size."""
ASCENT, ABOVE_BASELINE = 1.151, 0.88
"""Heights above the baseline, of the published font's lines and of its characters, divided by the
font size: where Pillow puts the characters below the corner of the text."""
SAMPLES = 4
"""Samples per pixel along each axis when strokes are drawn."""


@functools.lru_cache(maxsize=8)
def coverage(height: int, width: int, font: str = '') -> np.ndarray:
  """Returns the fraction of each pixel that the text 捷径捷径捷径 covers, float32 [height, width].

  Args:
    height: height of the image in pixels.
    width: width of the image in pixels.
    font: font file from which Pillow draws the characters. '' draws built-in strokes, with 4 × 4
      samples per pixel.

  Raises:
    InputError: the file is not a font.
  """
  side = min(height, width)
  size = FONT_SIZES.get(side, int(side / 6.22))
  if not font:
    return _coverage_by_strokes(height, width, size)
  try:
    characters = ImageFont.truetype(expanded(font), size)
  except OSError as error:
    raise InputError(f'font of watermark is {font!r}, which is no font file: {error}.') from error
  drawing = Image.new('L', (width, height))
  text = ''.join(STROKES) * REPEATS
  ImageDraw.Draw(drawing).text((LEFT * width, TOP * height), text, fill=255, font=characters)
  return np.asarray(drawing, np.float32) / 255


def _coverage_by_strokes(height: int, width: int, size: int) -> np.ndarray:
  """Returns the fraction of each pixel that the strokes of the text cover, float32 [height, width].

  Args:
    height: height of the image in pixels.
    width: width of the image in pixels.
    size: size of the font in pixels.
  """
  corner_x = LEFT * width
  # Pillow puts the characters this far below the corner of the text
  corner_y = TOP * height + (np.ceil(ASCENT * size) - ABOVE_BASELINE * size)
  # pixels of the two characters; one more, because their corner is inside of a pixel
  rows, columns = size + 1, len(STROKES) * size + 1

  def sample_positions(count: int, corner: float) -> np.ndarray:
    """Returns the rows or columns of the samples in `count` pixels, relative to the text's corner.

    They are in units of the font size.

    Args:
      count: number of pixels. The first pixel contains the corner.
      corner: row or column of the corner, in pixels.
    """
    corner_in_pixel = corner % 1 / size  # from the edge of the first pixel
    return (np.arange(SAMPLES * count) + 0.5) / SAMPLES / size - corner_in_pixel

  y, x = sample_positions(rows, corner_y), sample_positions(columns, corner_x)
  # means over the samples of each pixel
  pair = _is_on_stroke(y, x).reshape(rows, SAMPLES, columns, SAMPLES).mean((1, 3))
  page = np.zeros((height, width), np.float32)
  # the pair side by side, three times; the additional column of a pair overlaps the next one
  top = int(corner_y)
  for repeat in range(REPEATS):
    left = int(corner_x) + repeat * (columns - 1)
    page[top : top + rows, left : left + columns] += pair
  return page


def _is_on_stroke(y: np.ndarray, x: np.ndarray) -> np.ndarray:
  """Returns whether samples are on a stroke of the two characters, bool [Y, X].

  Args:
    y: rows of the samples, [Y], in units of the font size from the upper left corner of the text.
    x: columns of the samples, [X], in the same unit from the same corner.
  """
  is_on_stroke = np.zeros((len(y), len(x)), bool)
  for (x0, y0), (x1, y1) in _segments():
    dx, dy = x1 - x0, y1 - y0
    from_start = (x - x0) * dx + (y[:, None] - y0) * dy
    along = np.clip(from_start / (dx**2 + dy**2), 0, 1)  # fraction of the way to the end
    squared_distance = (x - x0 - along * dx) ** 2 + (y[:, None] - y0 - along * dy) ** 2
    is_on_stroke |= squared_distance <= (STROKE_WIDTH / 2) ** 2
  return is_on_stroke


def _segments() -> Iterator[tuple[np.ndarray, np.ndarray]]:
  """Yields the straight pieces of the strokes that the watermark's letters consist of.

  A piece is the pair of its ends (x, y), in units of the font size.
  """
  for index, strokes in enumerate(STROKES.values()):
    for stroke in strokes.split(','):
      # corners (x, y) of the polyline: '0428' is (.04, .28); character `index` begins at x = index
      points = np.array([divmod(int(point), 100) for point in stroke.split()]) / 100 + (index, 0)
      yield from itertools.pairwise(points)


@corruption(
  'opacity',
  {32: OPACITIES, 224: OPACITIES},
  UNLIKE_OTHERS,
  options={'font': ()},
  least_side=lambda constants: 32,
  reason='or its characters have too few pixels',
)
def watermark(key: jax.Array, image: jax.Array, strength: Strength, font: str = '') -> jax.Array:
  """Mixes the image x with white by opacity times coverage c: x + opacity c (1 − x).

  `opacity` is the constant of the severity, and c the fraction of each pixel that the characters
  cover (`coverage`). `font` is a font file; '' takes the strokes of this project. `key` is
  unused.

  Severity 3 has the opacity ½ of ImageNet-W. The other severities, and sides other than those in
  `FONT_SIZES`, are this project's. The released transform draws on images of 8 bits after
  the crop, with the opacity 128 / 255.
  """
  cover = jnp.asarray(coverage(*image.shape[:2], font))[..., None]
  return image + strength['opacity'] * cover * (1 - image)
