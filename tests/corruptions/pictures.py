"""Makes pictures to corrupt and photographs, and has parts that several references share."""

import functools
import io
import math
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import scipy.ndimage
from PIL import Image

from robustness.corruptions import textures
from robustness.corruptions.catalog import CORRUPTIONS, TABLES
from robustness.corruptions.corruption import Constants, Strength


def photographs(shared_dir: pathlib.Path, side: int, count: int = 2) -> np.ndarray:
  """Real pictures, shorter side scaled and cropped to a square: float32 levels / 255."""
  paths = sorted((shared_dir / 'data' / 'imagenet_samples').rglob('*.jpg'))[:count]
  return np.stack([_square(Image.open(path).convert('RGB'), side) for path in paths])


def _square(picture: Image.Image, side: int) -> np.ndarray:
  scale = side / min(picture.size)
  size = [max(side, round(n * scale)) for n in picture.size]
  x0, y0 = ((n - side) // 2 for n in size)
  resized = picture.resize(size, Image.Resampling.BILINEAR)
  cropped = resized.crop((x0, y0, x0 + side, y0 + side))
  return (np.asarray(cropped, np.float64) / 255).astype(np.float32)


def natural(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
  """A random picture with a 1/f spectrum, correlated channels and all levels: levels / 255."""
  random = np.random.default_rng(seed)
  frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None, :])
  falloff = 1 / np.maximum(frequency, 1 / max(height, width))

  def field() -> np.ndarray:
    noise = np.fft.rfft2(random.normal(size=(height, width)))
    return np.fft.irfft2(noise * falloff, s=(height, width))

  grey = field()
  stack = np.stack([grey + 0.4 * field() for _ in range(channels)], -1)
  low, high = np.quantile(stack, [0.02, 0.98])
  return (np.round(np.clip((stack - low) / (high - low), 0, 1) * 255) / 255).astype(np.float32)


def write_photographs(folder: pathlib.Path) -> None:
  """Writes pictures of one colour each under the names of the photographs of frost."""
  for i, name in enumerate(textures.FILES):
    pixels = np.full((70 + i, 80, 3), (50 * i, 20, 30), np.uint8)
    Image.fromarray(pixels).save(folder / name)


def share_within(first: np.ndarray, second: np.ndarray, levels: float = 1.0) -> float:
  """Returns the fraction of values that differ by at most so many levels of 255."""
  difference = np.abs(np.asarray(first, np.float64) - np.asarray(second, np.float64)) * 255
  return float((difference <= levels + 1e-3).mean())


def floor_levels(x: np.ndarray) -> np.ndarray:
  """Returns values truncated to levels / 255."""
  return np.floor(np.clip(x, 0, 1) * 255 + 1e-9) / 255


def constants(name: str, side: int, severity: int) -> list[Any]:
  """Returns the constants of a corruption at a severity."""
  return [values[severity - 1] for values in TABLES[side][name].values()]


@functools.cache
def from_draws(name: str, side: int, **options: str) -> Callable[..., jax.Array]:
  """Returns a corruption as a compiled function of given draws, a picture and a severity."""
  function = CORRUPTIONS[name].function
  return jax.jit(lambda draws, x, s: function(draws, x, Strength(TABLES[side][name], s), **options))


def table_of(name: str, side: int) -> Constants:
  """Returns the constants for images of a side, or for 224 pixels if there are none."""
  by_side = CORRUPTIONS[name].constants
  return by_side[side if side in by_side else 224]


@functools.cache
def with_draws(name: str, side: int) -> Callable[..., tuple[Any, jax.Array]]:
  """Returns the compiled function (key, image, severity) -> draws and the corrupted image."""
  corruption, table = CORRUPTIONS[name], table_of(name, side)

  @jax.jit
  def corrupt(key: jax.Array, image: jax.Array, severity: int) -> tuple[Any, jax.Array]:
    draws = corruption.draw(key, image.shape, table) if corruption.draw else {}
    return draws, corruption.function(draws, image, Strength(table, severity))

  return corrupt


def through_a_file(levels: np.ndarray, quality: int) -> np.ndarray:
  """Returns levels [H, W, C] after Pillow's JPEG compression, uint8."""
  file = io.BytesIO()
  plane = levels[..., 0] if levels.shape[-1] == 1 else levels
  Image.fromarray(plane.astype(np.uint8)).save(file, 'JPEG', quality=quality)
  return np.asarray(Image.open(file)).reshape(levels.shape)


def smooth(x: np.ndarray, sigma: float, mode: str = 'nearest', truncate: float = 4) -> np.ndarray:
  """Smooths [H, W] or each channel of [H, W, C] by SciPy's Gaussian, in float64."""
  sigmas = (sigma, sigma, 0)[: x.ndim]
  return scipy.ndimage.gaussian_filter(x.astype(np.float64), sigmas, mode=mode, truncate=truncate)


def sample(picture: np.ndarray, y: np.ndarray, x: np.ndarray, mode: str) -> np.ndarray:
  """Samples each channel of [H, W, C] bilinearly by SciPy, in float64."""
  planes = np.moveaxis(picture.astype(np.float64), -1, 0)
  at = functools.partial(scipy.ndimage.map_coordinates, coordinates=[y, x], order=1, mode=mode)
  return np.stack([at(plane) for plane in planes], -1)


def motion(x: np.ndarray, radius: int, sigma: float, angle: float) -> np.ndarray:
  """Blurs [H, W] or [H, W, C] along an angle in degrees, edges replicated."""
  weights = np.exp(-(np.arange(2 * radius + 1) ** 2) / (2 * sigma**2))
  turn, total = np.deg2rad(angle), np.zeros(x.shape)
  for i, weight in enumerate(weights / weights.sum()):
    down, right = (math.ceil(i * f(turn) - 0.5) for f in (np.sin, np.cos))
    steps = zip(x.shape, (down, right), strict=False)
    rows, columns = (np.clip(np.arange(n) + step, 0, n - 1) for n, step in steps)
    total += weight * x[rows][:, columns]
  return total


def zoomed(x: np.ndarray, zoom: float) -> np.ndarray:
  """Enlarges the centre of a square [N, N] or [N, N, C] by SciPy."""
  side = len(x)
  piece = math.ceil(side / zoom)
  start = (side - piece) // 2
  zooms = (zoom, zoom, 1)[: x.ndim]
  large = scipy.ndimage.zoom(x[start : start + piece, start : start + piece], zooms, order=1)
  trim = (len(large) - side) // 2
  return large[trim : trim + side, trim : trim + side]


def zoom_blur(x: np.ndarray, zooms: tuple[float, ...]) -> np.ndarray:
  """Averages a square picture with enlargements of its centre."""
  return np.clip((x + sum(zoomed(x, zoom) for zoom in zooms)) / (len(zooms) + 1), 0, 1)
