"""Pictures of frost: the photographs of the released generator, or procedural ones.

The photographs are no part of this project and their licence is not stated. `load_photographs`
reads them from a folder or from an installed `imagecorruptions`. `procedural_textures` makes
pictures of the photographs' mean colours, contrasts and falling spectra, with crystals; they are
**not** the photographs, and numbers measured with them must say so.
"""

from __future__ import annotations

import functools
import importlib.util
import pathlib

import numpy as np
from PIL import Image

from robustness.errors import InputError

PACKAGE = 'imagecorruptions'
# The generator draws from the first five of its six; the second and third are one picture twice.
FILES = ('frost1.png', 'frost2.png', 'frost3.png', 'frost4.jpg', 'frost5.jpg')
SOURCES = ('procedural', PACKAGE)

SIDES = (336, 480)  # rows and columns of a procedural texture
COLOURS = ((78, 149, 166), (201, 205, 215), (201, 205, 215), (138, 153, 165), (112, 123, 135))
CONTRAST = 55.0  # standard deviation of a texture, in levels
SEED = 19


def load_photographs(source: str = PACKAGE) -> tuple[np.ndarray, ...]:
  """Returns the five photographs of frost that the released generator draws from.

  Args:
    source: a folder that holds frost1.png, frost2.png, frost3.png, frost4.jpg and frost5.jpg, or
      'imagecorruptions', which takes those of the installed package.

  Returns:
    uint8 [h, w, 3], RGB, each of its own size.

  Raises:
    InputError: the package, the folder or a file is missing, or a file is no picture.
  """
  folder = _package_folder() if source == PACKAGE else pathlib.Path(source).expanduser()
  missing = [name for name in FILES if not (folder / name).is_file()]
  if missing:
    raise InputError(f'no {missing[0]} in {str(folder)!r}; frost photographs need a folder with '
                     f'{", ".join(FILES)}, or the installed package {PACKAGE!r}. Without them '
                     "take 'procedural'.")
  return tuple(_read(folder / name) for name in FILES)


def _package_folder() -> pathlib.Path:
  found = importlib.util.find_spec(PACKAGE)
  if found is None or found.origin is None:
    raise InputError(f'the package {PACKAGE!r} is not installed, so its frost photographs are '
                     f"missing: pip install --no-deps {PACKAGE}, name a folder with "
                     f"{', '.join(FILES)}, or take 'procedural'.")
  return pathlib.Path(found.origin).parent / 'frost'


def _read(path: pathlib.Path) -> np.ndarray:
  try:
    with Image.open(path) as picture:
      return np.asarray(picture.convert('RGB'))
  except OSError as error:
    raise InputError(f'{str(path)!r} cannot be read as a picture: {error}') from error


@functools.cache
def procedural_textures() -> tuple[np.ndarray, ...]:
  """Returns five synthetic pictures of frost, uint8 [336, 480, 3], the same on every machine.

  Each is a cloud with an amplitude spectrum 1/f, whose ridges at three scales stand for crystals,
  with the mean colour of one photograph; the second and third are one picture, as there.
  """
  made = {colour: _texture(np.random.RandomState(SEED + i), colour)
          for i, colour in enumerate(dict.fromkeys(COLOURS))}
  return tuple(made[colour] for colour in COLOURS)


def _texture(random: np.random.RandomState, colour: tuple[int, ...]) -> np.ndarray:
  light = _cloud(random, 1.0, 1)
  for finest in (4, 12, 30):
    light = light + 0.6 * (1 - np.abs(_cloud(random, 1.5, finest)))
  light = (light - light.mean()) / light.std()
  tint = np.array(colour, float)[None, None, :]
  levels = tint + CONTRAST * light[:, :, None] * np.array([1.1, 1.0, 0.9])[None, None, :]
  return np.clip(np.round(levels), 0, 255).astype(np.uint8)


def _cloud(random: np.random.RandomState, slope: float, lowest: int) -> np.ndarray:
  """Returns noise with amplitudes 1/f^slope from `lowest` cycles a picture on; mean 0, std 1."""
  fy = np.fft.fftfreq(SIDES[0])[:, None] * SIDES[0]
  fx = np.fft.rfftfreq(SIDES[1])[None, :] * SIDES[0]
  frequency = np.hypot(fy, fx)
  amplitude = np.where(frequency >= lowest, 1 / np.maximum(frequency, 1) ** slope, 0)
  cloud = np.fft.irfft2(np.fft.rfft2(random.standard_normal(SIDES)) * amplitude, s=SIDES)
  return (cloud - cloud.mean()) / cloud.std()
