"""The folder of frames: only the listed frames are ever read, and only inside the folder."""

from __future__ import annotations

import io
import os
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image

from robustness.core.errors import InputError
from robustness.video.clips import UNDECODABLE

CONTENT_TYPES = {
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.png': 'image/png',
  '.webp': 'image/webp',
  '.gif': 'image/gif',
  '.bmp': 'image/bmp',
}


class Frame(NamedTuple):
  """The bytes of a frame's file, their kind, and a tag that changes with the file."""

  content: bytes
  content_type: str
  tag: str


class FrameFolder:
  """Frames by their index; a request never names a path."""

  def __init__(self, folder: str | os.PathLike[str], paths: Sequence[str]):
    """Checks that every frame can be served.

    Args:
      folder: where the frames lie.
      paths: of the frames, relative to the folder, by index.

    Raises:
      InputError: the folder does not exist, frames are missing (how many, which first), a path
        or a link leads out of the folder, or a file is of no kind that a browser shows.
    """
    if not pathlib.Path(folder).is_dir():
      raise InputError(
        f'there is no folder {os.fspath(folder)}: give --frames the folder in '
        'which the paths of the metadata begin.'
      )
    self._root = pathlib.Path(folder).resolve()
    self._paths = tuple(paths)
    self._damaged: dict[int, tuple[str, str]] = {}  # by index: a file's tag, and what is wrong
    for path in self._paths:
      if pathlib.PurePosixPath(path).suffix.lower() not in CONTENT_TYPES:
        raise InputError(
          f'frame {path} is of no known kind: its name should end in {", ".join(CONTENT_TYPES)}.'
        )
      self._check_inside(path)
    missing = [path for path in self._paths if not (self._root / path).is_file()]
    if missing:
      raise InputError(
        f'{len(missing)} of {len(self._paths)} frames are missing in {folder}, '
        f'the first is {missing[0]}: give --frames the folder in which the paths '
        'of the metadata begin.'
      )

  def read(self, index: int) -> Frame:
    """Reads a frame.

    Raises:
      InputError: no frame has this index, or its file has since become a link out of the folder.
      OSError: the file cannot be read.
    """
    if not 0 <= index < len(self._paths):
      raise InputError(f'there is no frame {index}: 0 to {len(self._paths) - 1} are under review.')
    path = self._paths[index]
    with open(self._check_inside(path), 'rb') as file:
      facts = os.fstat(file.fileno())
      content = file.read()
    suffix = pathlib.PurePosixPath(path).suffix.lower()
    return Frame(content, CONTENT_TYPES[suffix], f'"{facts.st_mtime_ns:x}-{facts.st_size:x}"')

  def damage(self, index: int) -> str:
    """Returns why a frame cannot be decoded whole, or ''.

    A browser shows what there is of a truncated file, without a word.

    """
    try:
      frame = self.read(index)
    except (InputError, OSError) as error:
      return str(error)
    known = self._damaged.get(index)
    if known is None or known[0] != frame.tag:
      known = self._damaged[index] = frame.tag, _damage(frame.content)
    return known[1]

  def _check_inside(self, path: str) -> pathlib.Path:
    resolved = (self._root / path).resolve()
    if not resolved.is_relative_to(self._root):
      raise InputError(
        f'frame {path} lies outside the folder {self._root} (by its name or by a '
        'link): only files of the folder are shown.'
      )
    return resolved


def _damage(content: bytes) -> str:
  """Returns why an image file cannot be decoded whole, or ''."""
  try:
    with Image.open(io.BytesIO(content)) as image:
      image.load()
  except UNDECODABLE as error:
    return str(error)
  return ''
