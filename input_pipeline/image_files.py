"""One image file: its header, and its pixels as grey or RGB.

Pixels are what Pillow decodes, as in the pipelines that published ImageNet accuracies were
measured with; EXIF orientation is not applied, an alpha channel is dropped, and of an animation
the first frame is read.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from PIL import Image, features

from robustness.core.errors import InputError

EXTENSIONS = ('.jpg', '.jpeg', '.png', '.bmp') + (('.webp',) if features.check('webp') else ())
_GREY_MODES = ('1', 'L', 'LA', 'La', 'I')


@dataclasses.dataclass(frozen=True)
class Header:
  """What an image file says of itself before it is decoded: size in pixels, grey or colour."""

  height: int
  width: int
  grey: bool


@contextmanager
def opened(path: str) -> Iterator[Image.Image]:
  """Opens an image file with Pillow.

  Raises:
    InputError: the file is missing, is no image, or ends too soon; the path is named.
  """
  try:
    with Image.open(path) as image:
      yield image
  except (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    struct.error,
    Image.DecompressionBombError,
  ) as error:
    raise InputError(f'unreadable image {path}: {error}. Replace or remove the file.') from error


def read_header(path: str) -> Header:
  """Reads an image file's header.

  Raises:
    InputError: the file is missing or is no image; the path is named.
  """
  with opened(path) as image:
    return Header(image.height, image.width, _is_grey(image))


def read_image(path: str, channels: int) -> np.ndarray:
  """Decodes an image file.

  Args:
    path: a JPEG, PNG, BMP or WebP file: grey (8 or 16 bits), palette, RGB, RGBA or CMYK.
    channels: 1 for grey, 3 for RGB; a grey file is repeated to RGB.

  Returns:
    uint8 [H, W, channels].

  Raises:
    InputError: the file cannot be decoded to the end, or is in colour and `channels` is 1.
  """
  with opened(path) as image:
    grey = _is_grey(image)
    pixels = _grey_pixels(image) if grey else _rgb_pixels(image)
  if channels == 1 and not grey:
    raise InputError(f'{path} is in colour; a grey image was expected.')
  return np.repeat(pixels, channels, axis=-1) if grey and channels > 1 else pixels


def _is_grey(image: Image.Image) -> bool:
  return image.mode in _GREY_MODES or image.mode.startswith('I;16')


def _grey_pixels(image: Image.Image) -> np.ndarray:
  if image.mode.startswith('I'):  # 16 bits: Pillow's own conversion would saturate
    return np.rint(np.asarray(image, np.float64) / 257).astype(np.uint8)[..., None]
  return np.asarray(image.convert('L'))[..., None]


def _rgb_pixels(image: Image.Image) -> np.ndarray:
  if image.mode == 'P' and 'transparency' in image.info:
    image = image.convert('RGBA')
  return np.asarray(image.convert('RGB'))
