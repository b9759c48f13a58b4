"""The SI-Score method in Pillow, from its stated conventions: what compositing is compared with."""

from __future__ import annotations

import math
import pathlib

import numpy as np
from PIL import Image


def paste(
  cutout: Image.Image, background: Image.Image, area: float, angle: float, x: float, y: float
) -> tuple[np.ndarray, float]:
  """Returns the scene, uint8 [S, S, 3], and the share of the expanded rectangle inside."""
  layer = turned(cutout, background.width, area, angle)
  left, top = corner(layer, background.width, x, y)
  scene = background.copy()
  scene.paste(layer, (left, top), layer)
  return np.asarray(scene), share_inside(layer, background.width, left, top)


def turned(cutout: Image.Image, side: int, area: float, angle: float) -> Image.Image:
  """Resizes and rotates."""
  width, height = cutout.size
  k = math.sqrt(area / ((width * height) / (side * side)))
  layer = cutout.resize((int(width * k), int(height * k)), Image.Resampling.BILINEAR)
  return layer.rotate(angle, Image.Resampling.BICUBIC, expand=True) if angle % 360 else layer


def corner(layer: Image.Image, side: int, x: float, y: float) -> tuple[int, int]:
  """Returns left and top."""
  left, top = (
    int(int(centre * side) - extent / 2) for centre, extent in zip((x, y), layer.size, strict=True)
  )
  return left, top


def share_inside(layer: Image.Image, side: int, left: int, top: int) -> float:
  across = min(left + layer.width, side) - max(left, 0)
  down = min(top + layer.height, side) - max(top, 0)
  return max(across, 0) * max(down, 0) / (layer.width * layer.height)


def as_floats(image: Image.Image) -> np.ndarray:
  return np.asarray(image, np.float32) / 255


def background(path: pathlib.Path, side: int) -> Image.Image:
  """The largest square from the top-left corner, resized."""
  image = Image.open(path).convert('RGB')
  least = min(image.size)
  return image.crop((0, 0, least, least)).resize((side, side), Image.Resampling.BILINEAR)
