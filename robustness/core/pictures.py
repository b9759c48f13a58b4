"""Image files that users give."""

import os
import struct

from PIL import Image

from robustness.core.errors import InputError

UNDECODABLE = (
  *(OSError, SyntaxError, ValueError, EOFError),
  *(struct.error, Image.DecompressionBombError),
)
"""What Pillow raises for files that are damaged."""


def read_rgb(path: str | os.PathLike[str]) -> Image.Image:
  """Returns a file as Pillow decodes it, in RGB; refuses one that cannot be decoded."""
  try:
    with Image.open(path) as picture:
      return picture.convert('RGB')
  except UNDECODABLE as error:
    raise InputError(f'{os.fspath(path)!r} cannot be read as a picture: {error}') from error
