"""Source `drawn_scenes`: objects and backgrounds drawn in code, so that scenes need no file.

Each object is one of ImageNet's classes. Shading and backgrounds come from fixed seeds. Because
they are drawings, a classifier's accuracy on them differs from that on photographs.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from PIL import Image, ImageDraw

from input_pipeline.cutouts import cut
from input_pipeline.images import Images
from input_pipeline.settings import DataSettings
from input_pipeline.sources.scenes import SceneParts
from robustness.core.typing import PlainValue
from robustness.scenes.classes import imagenet_index

SIDE = 256
"""Side in pixels of the square in which an object is drawn, before it is cropped to the object."""

_FINE = 4
"""Scale at which objects are drawn before they are reduced, for smooth edges."""
_GROUNDS = (
  ((0.42, 0.62, 0.86), (0.75, 0.84, 0.93)),
  ((0.20, 0.42, 0.16), (0.45, 0.60, 0.25)),
  ((0.55, 0.45, 0.33), (0.78, 0.68, 0.52)),
  ((0.12, 0.28, 0.42), (0.35, 0.55, 0.62)),
)
"""The two colours, RGB in [0, 1], that each background mixes: sky, meadow, sand, sea."""

Colour = tuple[int, ...]
"""Red, green, blue and possibly alpha, in 0..255."""
Shape = tuple[str, Sequence[float], Mapping[str, PlainValue]]
"""Name of a method of `ImageDraw`; its coordinates x0, y0, x1, y1, ...; and its other options.
Coordinates and lengths are fractions of the side of the image."""


class DrawnScenes(SceneParts):
  """Computer-drawn objects and backgrounds, which need no files.

  The study `si_score` composes them into scenes. Columns are the same as for the source 'scenes'.
  """

  name = 'drawn_scenes'

  def open(self, settings: DataSettings) -> Images:
    """Returns scenes of objects that are drawn in code, each on two drawn backgrounds.

    Args:
      settings: not used.
    """
    names = list(DRAWINGS)
    cutouts = [draw(name) for name in names]
    grounds = [ground(index, self.side) for index in range(NUM_GROUNDS)]
    return self.pairs(
      title='drawn scenes',
      description={'cutouts': 'drawn in code, no photographs'},
      labels=[imagenet_index(name) for name in names],
      sizes=[(height, width) for height, width, _ in map(np.shape, cutouts)],
      cutout=lambda index: cutouts[index],
      background=lambda index: grounds[index],
      object_names=names,
      background_names=[f'ground {index}' for index in range(NUM_GROUNDS)],
    )


def draw(name: str) -> np.ndarray:
  """Draws an object on a transparent background, uint8 [h, w, 4] with alpha 0 or 255.

  The image is cropped to the object.

  Args:
    name: class of the object, a key of `DRAWINGS`.
  """
  side = SIDE * _FINE  # it is drawn larger and then reduced, for smooth edges
  image = Image.new('RGBA', (side, side))
  pen = ImageDraw.Draw(image)
  for method, coordinates, options in DRAWINGS[name]:
    # coordinates, and options that are lengths, are fractions of the side
    lengths = {key: round(side * options[key]) for key in ('width', 'radius') if key in options}
    getattr(pen, method)([side * x for x in coordinates], **{**options, **lengths})
  pixels = np.array(image.resize((SIDE, SIDE), Image.Resampling.BOX), np.float64)
  colours = np.round(pixels[..., :3] * _shade()[..., None])
  return cut(np.clip(colours, 0, 255).astype(np.uint8), mask=pixels[..., 3] >= 128)


def ground(index: int, side: int) -> np.ndarray:
  """Draws a background, uint8 [side, side, 3], by mixing two colours with 1/f noise.

  The amplitude spectrum of photographs also falls as 1/f with the frequency f.

  Args:
    index: number of the background, below `NUM_GROUNDS`.
    side: side of the background in pixels.
  """
  low, high = (np.array(colour) for colour in _GROUNDS[index % len(_GROUNDS)])
  mix = 0.5 + 0.18 * _clouds(side, seed=index)  # share of the second colour, mostly in [0, 1]
  pixels = low + np.clip(mix, 0, 1)[..., None] * (high - low)
  return np.round(255 * pixels).astype(np.uint8)


NUM_GROUNDS = len(_GROUNDS)
"""Number of different backgrounds."""


def _clouds(side: int, seed: int) -> np.ndarray:
  """Returns noise [side, side] with amplitude spectrum 1/f, mean 0 and standard deviation 1."""
  noise = np.fft.rfft2(np.random.default_rng(seed).normal(size=(side, side)))
  frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None, :])
  frequency[0, 0] = np.inf  # removes the mean
  field = np.fft.irfft2(noise / frequency, (side, side))
  return (field - field.mean()) / field.std()


def _shade() -> np.ndarray:
  """Returns brightness factors near 1, [SIDE, SIDE], of a rough surface lit from the upper left."""
  y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
  rough = np.random.default_rng(SIDE).normal(size=(SIDE, SIDE))
  return 1.12 - 0.35 * np.hypot(x - 0.3, y - 0.3) + 0.02 * rough


def _pen(fill: Colour, width: float) -> dict[str, PlainValue]:
  """Returns drawing options for a line.

  Args:
    fill: colour of the line.
    width: width as a fraction of the image's side.
  """
  return {'fill': fill, 'width': width}


def _polar(count: int, radius: Callable[[float], float]) -> list[float]:
  """Returns points of a closed curve around the image's centre, as coordinates x0, y0, x1, y1, ...

  Args:
    count: number of points.
    radius: called with an angle in radians, clockwise from the top; returns the distance from the
      centre.
  """
  angles = [2 * math.pi * i / count for i in range(count)]
  corners = ((0.5 + radius(a) * math.sin(a), 0.5 - radius(a) * math.cos(a)) for a in angles)
  return [*itertools.chain.from_iterable(corners)]


def _dot(x: float, y: float, across: float, down: float, fill: Colour) -> Shape:
  """Returns an ellipse with centre (x, y) and the semi-axes `across` and `down`."""
  return 'ellipse', (x - across, y - down, x + across, y + down), {'fill': fill}


def _starfish() -> Iterator[Shape]:
  """Yields the shapes of a starfish: a body with five arms, and six dots on each arm."""
  # the radius has a maximum at the top and at every fifth of a turn
  body = _polar(360, lambda t: 0.17 + 0.30 * abs(math.cos(2.5 * t)) ** 2.2)
  yield 'polygon', body, {'fill': (214, 104, 56)}
  for arm, step in itertools.product(range(5), range(1, 7)):
    turn, radius = 2 * math.pi * arm / 5, 0.06 * step
    x, y = 0.5 + radius * math.sin(turn), 0.5 - radius * math.cos(turn)
    yield _dot(x, y, 0.012, 0.012, (244, 190, 150))


def _strawberry() -> Iterator[Shape]:
  """Yields the shapes of a strawberry: its body, seeds, and leaves at the top."""
  body = _polar(360, lambda t: 0.34 + 0.12 * math.cos(t - math.pi) ** 3)
  yield 'polygon', body, {'fill': (206, 24, 36)}
  for row, column in itertools.product(range(7), range(7)):
    # seeds are in rows; every second row is shifted by half a distance
    x, y = 0.24 + 0.09 * column + 0.045 * (row % 2), 0.26 + 0.09 * row
    # inside the body, which reaches farther in its lower half
    if math.hypot(x - 0.5, y - 0.45) < 0.28 + 0.04 * (y > 0.5):
      yield _dot(x, y, 0.011, 0.018, (244, 206, 90))
  for leaf in range(-3, 4):
    tip, middle = 0.5 + 0.13 * leaf, 0.5 + 0.10 * leaf
    # x0, y0, x1, y1, …: from the top to the tip and back
    corners = (0.5, 0.16, middle - 0.04, 0.24, tip, 0.30, middle + 0.05, 0.20)
    yield 'polygon', corners, {'fill': (60, 140, 44)}


def _golf_ball() -> Iterator[Shape]:
  """Yields the shapes of a golf ball: a disc and its dimples."""
  yield 'ellipse', (0.04, 0.04, 0.96, 0.96), {'fill': (240, 240, 238)}
  for row, column in itertools.product(range(-8, 9), range(-8, 9)):
    # every second row of dimples is shifted by half a distance
    x, y = 0.5 + 0.056 * (column + 0.5 * (row % 2)), 0.5 + 0.05 * row
    if math.hypot(x - 0.5, y - 0.5) < 0.42:  # inside the disc
      yield _dot(x, y, 0.02, 0.02, (206, 206, 204))


def _ruler() -> Iterator[Shape]:
  """Yields the shapes of a ruler: a rectangle and 59 marks, with every fifth mark longer."""
  yield 'rectangle', (0.01, 0.38, 0.99, 0.62), {'fill': (228, 190, 96)}
  for mark in range(1, 60):
    x, end = 0.01 + 0.98 * mark / 60, 0.44 if mark % 5 else 0.50
    yield 'line', (x, 0.38, x, end), _pen((40, 30, 16), 0.004)


DRAWINGS: dict[str, Sequence[Shape]] = {
  'banana': (
    ('pieslice', (0.02, -0.45, 0.98, 0.80), {'start': 15, 'end': 165, 'fill': (250, 214, 60)}),
    ('pieslice', (0.10, -0.62, 0.90, 0.55), {'start': 0, 'end': 180, 'fill': (0, 0, 0, 0)}),
    ('line', (0.08, 0.36, 0.04, 0.28), _pen((110, 90, 30), 0.05)),
  ),
  'envelope': (
    ('rectangle', (0.03, 0.20, 0.97, 0.82), {'fill': (238, 230, 208)}),
    *(('line', (x, 0.20, 0.5, 0.56), _pen((150, 140, 116), 0.012)) for x in (0.03, 0.97)),
    *(
      ('line', (x, 0.82, 0.5 + 0.6 * (x - 0.5) * 0.5, 0.50), _pen((196, 186, 160), 0.008))
      for x in (0.03, 0.97)
    ),
  ),
  'golf ball': (*_golf_ball(),),
  'lemon': (
    ('ellipse', (0.10, 0.20, 0.90, 0.80), {'fill': (248, 218, 40)}),
    *(
      ('ellipse', (x - 0.09, 0.44, x + 0.09, 0.58), {'fill': (240, 208, 44)}) for x in (0.12, 0.88)
    ),
  ),
  'orange': (
    ('ellipse', (0.05, 0.08, 0.95, 0.96), {'fill': (246, 138, 20)}),
    ('ellipse', (0.46, 0.12, 0.54, 0.18), {'fill': (88, 112, 40)}),
  ),
  'ruler': (*_ruler(),),
  'starfish': (*_starfish(),),
  'strawberry': (*_strawberry(),),
  'tennis ball': (
    ('ellipse', (0.04, 0.04, 0.96, 0.96), {'fill': (206, 226, 62)}),
    ('arc', (-0.55, 0.10, 0.35, 0.90), {'start': -58, 'end': 58, **_pen((244, 246, 230), 0.035)}),
    ('arc', (0.65, 0.10, 1.55, 0.90), {'start': 122, 'end': 238, **_pen((244, 246, 230), 0.035)}),
  ),
  'traffic light': (
    ('rounded_rectangle', (0.32, 0.02, 0.68, 0.98), {'radius': 0.06, 'fill': (32, 34, 30)}),
    _dot(0.50, 0.19, 0.12, 0.12, (238, 40, 32)),
    _dot(0.50, 0.50, 0.12, 0.12, (120, 96, 20)),
    _dot(0.50, 0.81, 0.12, 0.12, (24, 84, 50)),
  ),
}
"""{SI-Score's name of a class: the shapes of its drawing, from back to front}."""
