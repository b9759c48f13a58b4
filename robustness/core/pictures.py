"""Reader of untrusted pictures, by a fixed list of formats and within limits.

No other module opens pictures. Pillow detects a format by a file's content, and would start
Ghostscript for EPS; therefore only the formats of a list are admitted.
"""

import io
import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from PIL import Image, UnidentifiedImageError, features

from robustness.core.errors import InputError
from robustness.core.limits import MAX_PIXELS_PER_IMAGE

FORMATS = {
  'JPEG': ('.jpg', '.jpeg', '.jfif', '.jpe'),
  'PNG': ('.png',),
  'WEBP': ('.webp',),
  'GIF': ('.gif',),
  'BMP': ('.bmp',),
  'TIFF': ('.tif', '.tiff'),
  'PPM': ('.ppm', '.pgm', '.pbm', '.pnm'),
  'AVIF': ('.avif',),
  'JPEG2000': ('.jp2', '.j2k', '.jpx'),
}
"""{Pillow's name of a format: its suffixes}."""
_CODECS = {'WEBP': 'webp', 'AVIF': 'avif', 'JPEG2000': 'jpg_2000'}  # optional in Pillow
SUFFIXES = tuple(
  suffix
  for name, suffixes in FORMATS.items()
  if name not in _CODECS or features.check(_CODECS[name])
  for suffix in suffixes
)
"""Suffixes of the files that this Pillow can decode."""

Picture = str | os.PathLike[str] | bytes | BinaryIO
"""A path, the bytes of an encoded file, or an open file."""

# `opened` refuses the pictures that Pillow warns about
warnings.filterwarnings('ignore', category=Image.DecompressionBombWarning)


@contextmanager
def opened(file: Picture) -> Iterator[Image.Image]:
  """A context manager that opens an image file without decoding its pixels.

  Args:
    file: a path, encoded bytes or an open binary file in one of the `FORMATS`.

  Yields:
    The Pillow image.

  Raises:
    InputError: the file is not a regular file, has another format, has more than
      `MAX_PIXELS_PER_IMAGE` pixels, or cannot be decoded. Errors of decoding within the context are
      turned into InputError too.
  """
  name = f' {os.fspath(file)}' if isinstance(file, str | os.PathLike) else ''
  try:
    if isinstance(file, str | os.PathLike) and not stat.S_ISREG(os.stat(file).st_mode):
      raise InputError('it is no regular file')
    encoded = io.BytesIO(file) if isinstance(file, bytes) else file
    with Image.open(encoded, formats=[*FORMATS]) as picture:
      if picture.width * picture.height > MAX_PIXELS_PER_IMAGE:
        size = f'{picture.width} × {picture.height} pixels'
        raise InputError(f'it has {size}, above the limit of {MAX_PIXELS_PER_IMAGE:,} in all')
      yield picture
  except Exception as error:  # decoders of damaged files fail in their own ways
    reason = reason_of(error)
    if isinstance(file, bytes):
      raise InputError(f'{len(file)} bytes are no readable image: {reason}.') from error
    raise InputError(f'unreadable image{name}: {reason}. Replace or remove the file.') from error


def reason_of(error: Exception) -> str:
  """Returns in a few words why a picture cannot be decoded, given the error of opening it."""
  # an InputError of `opened` was raised from the error that has the reason
  if isinstance(error, InputError) and isinstance(error.__cause__, Exception):
    return reason_of(error.__cause__)
  if isinstance(error, UnidentifiedImageError):
    return f'its content is none of {", ".join(FORMATS)}'
  if isinstance(error, OSError) and error.strerror:
    return error.strerror
  return str(error) or type(error).__name__


def read_rgb(path: str | os.PathLike[str]) -> Image.Image:
  """Returns a decoded picture in RGB; raises InputError if it cannot be decoded."""
  with opened(path) as picture:
    return picture.convert('RGB')


def damage(file: Picture) -> str:
  """Returns why a picture cannot be decoded completely; '' if it can."""
  try:
    with opened(file) as picture:
      picture.load()
  except InputError as error:
    return reason_of(error)
  return ''
