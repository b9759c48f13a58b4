"""Objects and grounds drawn in code, and the scenes of them, which need no file.

They are drawings and not photographs: what a classifier makes of them says how it takes to
drawings. Each object is one of ImageNet's classes; its shades, and the grounds, come from a fixed
seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw

from input_pipeline.images import Images
from input_pipeline.settings import DataSettings, Source
from input_pipeline.sources.scenes import CANVAS, pairs
from robustness.scenes.classes import imagenet_index

SIDE = 256
"""Pixels of the longer side of an object, before it is cut out tightly."""

_FINE = 4  # drawn larger and reduced, for smooth edges inside
_GROUNDS = (
  ((0.42, 0.62, 0.86), (0.75, 0.84, 0.93)),
  ((0.20, 0.42, 0.16), (0.45, 0.60, 0.25)),
  ((0.55, 0.45, 0.33), (0.78, 0.68, 0.52)),
  ((0.12, 0.28, 0.42), (0.35, 0.55, 0.62)),
)
"""The two colours that each ground is mixed of: sky, meadow, sand, sea."""

Pen = ImageDraw.ImageDraw


class DrawnScenes(Source):
  """Parts of scenes drawn in code, so that a study runs without any file; rows as of `scenes`."""

  name = 'drawn_scenes'
  resized_on_device = True

  def open(self, settings: DataSettings) -> Images:
    """See `Source`."""
    names, side = list(DRAWINGS), settings.canvas or CANVAS
    cutouts = [draw(name) for name in names]
    grounds = [ground(index, side) for index in range(NUM_GROUNDS)]
    return pairs(
      settings,
      'drawn scenes',
      {'cutouts': 'drawn in code, no photographs'},
      labels=[imagenet_index(name) for name in names],
      sizes=[(height, width) for height, width, _ in map(np.shape, cutouts)],
      cutout=cutouts.__getitem__,
      background=grounds.__getitem__,
      names=(names, [f'ground {index}' for index in range(NUM_GROUNDS)]),
    )


def draw(name: str) -> np.ndarray:
  """Returns a cutout, uint8 [h, w, 4] with binary alpha, tight around the object.

  Args:
    name: one of `DRAWINGS`.
  """
  image = Image.new('RGBA', (SIDE * _FINE, SIDE * _FINE))
  DRAWINGS[name](ImageDraw.Draw(image))
  pixels = np.array(image.resize((SIDE, SIDE), Image.Resampling.BOX), np.float64)
  inside = pixels[..., 3] >= 128
  rows, columns = np.flatnonzero(inside.any(1)), np.flatnonzero(inside.any(0))
  pixels[..., :3] *= _shade()[..., None]
  pixels[..., 3] = 255 * inside
  cut = pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
  return np.clip(np.round(cut), 0, 255).astype(np.uint8)


def ground(index: int, side: int) -> np.ndarray:
  """Returns a ground without objects, uint8 [side, side, 3]; its spectrum falls as 1/f."""
  low, high = (np.array(colour) for colour in _GROUNDS[index % len(_GROUNDS)])
  mix = 0.5 + 0.18 * _clouds(side, seed=index)
  pixels = low + np.clip(mix, 0, 1)[..., None] * (high - low)
  return np.round(255 * pixels).astype(np.uint8)


NUM_GROUNDS = len(_GROUNDS)


def _clouds(side: int, seed: int) -> np.ndarray:
  """Returns noise of mean 0 and deviation 1 with the spectrum 1/f."""
  noise = np.fft.rfft2(np.random.default_rng(seed).normal(size=(side, side)))
  frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None, :])
  frequency[0, 0] = np.inf
  field = np.fft.irfft2(noise / frequency, (side, side))
  return (field - field.mean()) / field.std()


def _shade() -> np.ndarray:
  """Returns light from the upper left with a rough surface, factors near 1, [SIDE, SIDE]."""
  y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
  rough = np.random.default_rng(SIDE).normal(size=(SIDE, SIDE))
  return 1.12 - 0.35 * np.hypot(x - 0.3, y - 0.3) + 0.02 * rough


def _box(*ends: float) -> list[float]:
  return [SIDE * _FINE * end for end in ends]


def _points(*corners: tuple[float, float]) -> list[tuple[float, float]]:
  return [(SIDE * _FINE * x, SIDE * _FINE * y) for x, y in corners]


def _width(share: float) -> int:
  return round(SIDE * _FINE * share)


def _polar(count: int, radius: Callable[[float], float]) -> list[tuple[float, float]]:
  """Returns a closed curve about the centre; the angle runs clockwise from the top."""
  turns = [2 * math.pi * i / count for i in range(count)]
  return _points(*((0.5 + radius(t) * math.sin(t), 0.5 - radius(t) * math.cos(t)) for t in turns))


def _orange(pen: Pen) -> None:
  pen.ellipse(_box(0.05, 0.08, 0.95, 0.96), fill=(246, 138, 20))
  pen.ellipse(_box(0.46, 0.12, 0.54, 0.18), fill=(88, 112, 40))


def _lemon(pen: Pen) -> None:
  pen.ellipse(_box(0.10, 0.20, 0.90, 0.80), fill=(248, 218, 40))
  for x in (0.12, 0.88):
    pen.ellipse(_box(x - 0.09, 0.44, x + 0.09, 0.58), fill=(240, 208, 44))


def _banana(pen: Pen) -> None:
  pen.pieslice(_box(0.02, -0.45, 0.98, 0.80), 15, 165, fill=(250, 214, 60))
  pen.pieslice(_box(0.10, -0.62, 0.90, 0.55), 0, 180, fill=(0, 0, 0, 0))
  pen.line(_points((0.08, 0.36), (0.04, 0.28)), fill=(110, 90, 30), width=_width(0.05))


def _starfish(pen: Pen) -> None:
  pen.polygon(
    _polar(360, lambda t: 0.17 + 0.30 * abs(math.cos(2.5 * t)) ** 2.2), fill=(214, 104, 56)
  )
  for arm in range(5):
    for step in range(1, 7):
      turn, radius = 2 * math.pi * arm / 5, 0.06 * step
      x, y = 0.5 + radius * math.sin(turn), 0.5 - radius * math.cos(turn)
      pen.ellipse(_box(x - 0.012, y - 0.012, x + 0.012, y + 0.012), fill=(244, 190, 150))


def _strawberry(pen: Pen) -> None:
  pen.polygon(_polar(360, lambda t: 0.34 + 0.12 * math.cos(t - math.pi) ** 3), fill=(206, 24, 36))
  for row in range(7):
    for column in range(7):
      x, y = 0.24 + 0.09 * column + 0.045 * (row % 2), 0.26 + 0.09 * row
      if math.hypot(x - 0.5, y - 0.45) < 0.28 + 0.04 * (y > 0.5):
        pen.ellipse(_box(x - 0.011, y - 0.018, x + 0.011, y + 0.018), fill=(244, 206, 90))
  for leaf in range(-3, 4):
    pen.polygon(
      _points(
        (0.5, 0.16),
        (0.5 + 0.10 * leaf - 0.04, 0.24),
        (0.5 + 0.13 * leaf, 0.30),
        (0.5 + 0.10 * leaf + 0.05, 0.20),
      ),
      fill=(60, 140, 44),
    )


def _traffic_light(pen: Pen) -> None:
  pen.rounded_rectangle(_box(0.32, 0.02, 0.68, 0.98), _width(0.06), fill=(32, 34, 30))
  for y, colour in ((0.19, (238, 40, 32)), (0.50, (120, 96, 20)), (0.81, (24, 84, 50))):
    pen.ellipse(_box(0.38, y - 0.12, 0.62, y + 0.12), fill=colour)


def _tennis_ball(pen: Pen) -> None:
  pen.ellipse(_box(0.04, 0.04, 0.96, 0.96), fill=(206, 226, 62))
  pen.arc(_box(-0.55, 0.10, 0.35, 0.90), -58, 58, fill=(244, 246, 230), width=_width(0.035))
  pen.arc(_box(0.65, 0.10, 1.55, 0.90), 122, 238, fill=(244, 246, 230), width=_width(0.035))


def _golf_ball(pen: Pen) -> None:
  pen.ellipse(_box(0.04, 0.04, 0.96, 0.96), fill=(240, 240, 238))
  for row in range(-8, 9):
    for column in range(-8, 9):
      x, y = 0.5 + 0.056 * (column + 0.5 * (row % 2)), 0.5 + 0.05 * row
      if math.hypot(x - 0.5, y - 0.5) < 0.42:
        pen.ellipse(_box(x - 0.02, y - 0.02, x + 0.02, y + 0.02), fill=(206, 206, 204))


def _envelope(pen: Pen) -> None:
  pen.rectangle(_box(0.03, 0.20, 0.97, 0.82), fill=(238, 230, 208))
  for end in ((0.03, 0.20), (0.97, 0.20)):
    pen.line(_points(end, (0.5, 0.56)), fill=(150, 140, 116), width=_width(0.012))
  for end in ((0.03, 0.82), (0.97, 0.82)):
    pen.line(
      _points(end, (0.5 + 0.6 * (end[0] - 0.5) * 0.5, 0.50)),
      fill=(196, 186, 160),
      width=_width(0.008),
    )


def _ruler(pen: Pen) -> None:
  pen.rectangle(_box(0.01, 0.38, 0.99, 0.62), fill=(228, 190, 96))
  for mark in range(1, 60):
    x, long = 0.01 + 0.98 * mark / 60, mark % 5 == 0
    pen.line(
      _points((x, 0.38), (x, 0.50 if long else 0.44)), fill=(40, 30, 16), width=_width(0.004)
    )


DRAWINGS: dict[str, Callable[[Pen], None]] = {
  'banana': _banana,
  'envelope': _envelope,
  'golf ball': _golf_ball,
  'lemon': _lemon,
  'orange': _orange,
  'ruler': _ruler,
  'starfish': _starfish,
  'strawberry': _strawberry,
  'tennis ball': _tennis_ball,
  'traffic light': _traffic_light,
}
"""What can be drawn, by SI-Score's name of the class."""
