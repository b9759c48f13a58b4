"""Pictures of frost: the photographs of the released generator, or procedural ones.

The photographs are not part of this project, and their licence is not stated. `load_photographs`
reads them from a folder or from an installed `imagecorruptions`. `procedural_textures` makes
pictures with their mean colours, contrasts and falling spectra, and with crystals. They are **not**
the photographs, and errors measured with them must say so.
"""

import functools
import hashlib
import importlib.util
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.core.pictures import read_rgb

PACKAGE, PROCEDURAL = 'imagecorruptions', 'procedural'
"""Package with the released photographs, and name of the procedural pictures."""
# The generator draws from the first five of six files; the second and third are the same picture.
FILES = ('frost1.png', 'frost2.png', 'frost3.png', 'frost4.jpg', 'frost5.jpg')

SIDES = (336, 480)  # rows and columns of a procedural picture
COLOURS = ((78, 149, 166), (201, 205, 215), (201, 205, 215), (138, 153, 165), (112, 123, 135))
"""Mean RGB levels of the five photographs, which procedural pictures copy."""
CONTRASTS = (20, 22, 22, 29, 43)  # standard deviations in levels
SEED = 19
"""Seed of the procedural pictures."""
DIRECTIONS = 16  # directions of crystals
NEEDLE = (9.0, 0.45)  # standard deviations of a crystal along and across, in pixels
DENSITY = 2e-3  # crystals per pixel and direction
Source = str | os.PathLike[str] | Sequence[Any] | None
"""A folder, `PACKAGE`, `PROCEDURAL`, or uint8 pictures [h, w, 3]; None for procedural ones."""


def load_photographs(source: str = PACKAGE) -> tuple[np.ndarray, ...]:
  """Returns the five photographs of frost that the released generator uses, uint8 [h, w, 3] each.

  Args:
    source: a folder that contains `FILES`, or 'imagecorruptions' for the installed package.
  """
  folder = expanded(source)
  if source == PACKAGE:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
      raise InputError(
        f'the package {PACKAGE!r} is not installed, so its frost photographs are missing: pip '
        f'install --no-deps {PACKAGE}, name a folder with {", ".join(FILES)}, or leave '
        'photographs empty for procedural frost.'
      )
    folder = pathlib.Path(spec.origin).parent / 'frost'
  missing = [name for name in FILES if not (folder / name).is_file()]
  if missing:
    raise InputError(
      f'no {missing[0]} in {str(folder)!r}; frost photographs need a folder with '
      f'{", ".join(FILES)}, or the installed package {PACKAGE!r}. Left empty, frost is procedural.'
    )
  return tuple(np.asarray(read_rgb(folder / name)) for name in FILES)


def pictures(source: Source) -> tuple[Any, ...]:
  """Returns pictures of frost, uint8 [h, w, 3] each.

  Args:
    source: None, '' or 'procedural' for procedural pictures; a folder or 'imagecorruptions' for
      photographs (`load_photographs`); or a sequence of pictures, which is returned as a tuple.
  """
  if source is None or (isinstance(source, str) and source in ('', PROCEDURAL)):
    return procedural_textures()
  if isinstance(source, (str, os.PathLike)):
    return _loaded_pictures(os.fspath(source))
  try:
    textures = tuple(source)
  except TypeError:
    textures = ()
  for picture in textures:
    shape = tuple(getattr(picture, 'shape', ()))
    dtype = getattr(picture, 'dtype', type(picture).__name__)
    if len(shape) != 3 or shape[2] != 3 or dtype != np.uint8:
      raise InputError(
        f'photographs hold an entry of shape {shape}, {dtype}; each must be a uint8 array '
        f'[h, w, 3]. Or give a folder, {PACKAGE!r} or {PROCEDURAL!r}.'
      )
  if not textures:
    raise InputError(
      f'photographs are {source!r}; give uint8 arrays [h, w, 3], at least one, a folder, '
      f'{PACKAGE!r} or {PROCEDURAL!r}.'
    )
  return textures


_loaded_pictures = functools.lru_cache(maxsize=4)(load_photographs)


def describe(source: str) -> dict[str, str]:
  """Describes the pictures of frost for results.

  Returns:
    {'source': 'procedural'}, or {'source': 'photographs', 'from': the package or the folder's name,
    'sha256': digest of the pixels}.
  """
  if not source:
    return {'source': PROCEDURAL}
  digest = hashlib.sha256()
  for picture in load_photographs(source):
    digest.update(f'{picture.shape}'.encode() + picture.tobytes())
  name = expanded(source).resolve().name
  return {'source': 'photographs', 'from': name, 'sha256': digest.hexdigest()}


@functools.cache
def procedural_textures() -> tuple[np.ndarray, ...]:
  """Returns five synthetic pictures of frost, uint8 [336, 480, 3], the same on every machine.

  Each consists of clouds, with amplitudes that fall with frequency, and needles in all directions.
  It has the mean colour and contrast of a photograph that the released generator uses. The second
  and third pictures are equal, as in the released generator.
  """
  looks = list(zip(COLOURS, CONTRASTS, strict=True))
  textures = {
    look: _texture(np.random.RandomState(SEED + i), *look)
    for i, look in enumerate(dict.fromkeys(looks))
  }
  return tuple(textures[look] for look in looks)


def _texture(random: np.random.RandomState, colour: tuple[int, ...], contrast: int) -> np.ndarray:
  """Draws a synthetic picture of frost: a random cloud with ice needles, uint8 [336, 480, 3].

  Args:
    random: the generator of random numbers.
    colour: mean of the red, green and blue levels, in 0..255.
    contrast: standard deviation of the levels, equal in all channels.
  """
  # The cloud is noise with amplitude f^−1.4 at frequency f, in 1 / pixel. Frequencies below one
  # wave over the height count as this frequency, which avoids a division by 0.
  frequency = np.maximum(np.hypot(*_frequencies()), 1 / SIDES[0])
  cloud = _filtered(random.standard_normal(SIDES), 1 / frequency**1.4)
  brightness = cloud + _needles(random)  # [336, 480]
  brightness = (brightness - brightness.mean()) / brightness.std()
  levels = np.array(colour, float) + contrast * brightness[:, :, None]
  return np.clip(np.round(levels), 0, 255).astype(np.uint8)


def _frequencies() -> tuple[np.ndarray, np.ndarray]:
  """Returns the frequencies of `rfft2` of a texture, fy [336, 1] and fx [1, 241], in 1 / pixel."""
  return np.fft.fftfreq(SIDES[0])[:, None], np.fft.rfftfreq(SIDES[1])[None, :]


def _filtered(noise: np.ndarray, response: np.ndarray) -> np.ndarray:
  """Returns noise [336, 480] filtered by a frequency response, with mean 0 and deviation 1.

  `response` [336, 241] holds the factor of each frequency, in the layout of `rfft2`.
  """
  filtered = np.fft.irfft2(np.fft.rfft2(noise) * response, s=SIDES)
  return (filtered - filtered.mean()) / filtered.std()


def _needles(random: np.random.RandomState) -> np.ndarray:
  """Returns a frost-like texture [336, 480] of needles in `DIRECTIONS` directions.

  It has mean 0 and standard deviation 1. In each direction, random points are smoothed by a
  Gaussian that is long along the direction and narrow across it.
  """
  fy, fx = _frequencies()
  total = np.zeros(SIDES)
  for angle in np.arange(DIRECTIONS) * np.pi / DIRECTIONS:
    along = fx * np.cos(angle) + fy * np.sin(angle)
    across = fy * np.cos(angle) - fx * np.sin(angle)
    # (σ f)², summed over both axes of the needle: exp(-2π² (σ f)²) is a Gaussian's response
    exponent = (NEEDLE[0] * along) ** 2 + (NEEDLE[1] * across) ** 2
    seeds = (random.uniform(size=SIDES) < DENSITY) * random.standard_normal(SIDES)
    total += _filtered(seeds, np.exp(-2 * np.pi**2 * exponent))
  return total / total.std()
