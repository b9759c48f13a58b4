"""Clips to choose frames from: folders of frames, and video files.

A clip is named by its path under the folder of videos, without a video's suffix. Its frames have
numbers: those in the file names of a folder, or 0, 1, ... in the order in which a video shows them.
"""

from __future__ import annotations

import pathlib
import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from PIL import Image

from robustness.core.errors import InputError
from robustness.video.metadata import frame_number

IMAGE_SUFFIXES = ('.jpg', '.jpeg', '.png', '.bmp', '.webp')
UNDECODABLE = (
  OSError,
  SyntaxError,
  ValueError,
  EOFError,
  struct.error,
  Image.DecompressionBombError,
)
"""What Pillow raises for files that are damaged."""

VIDEO_SUFFIXES = ('.mp4', '.m4v', '.mov', '.avi', '.mkv', '.webm', '.mpg', '.mpeg')


class Taken(NamedTuple):
  """A frame that was chosen.

  Attributes:
    path: under the folder of frames, with slashes.
    frame_type: 'i', 'p', 'b', or '' where the container does not tell.
    fps: frames a second, or None.
  """

  path: str
  frame_type: str = ''
  fps: float | None = None


class Clip(Protocol):
  """Frames of one video."""

  @property
  def name(self) -> str:
    """Its path under the folder of videos."""

  def numbers(self) -> list[int]:
    """Returns the numbers of its frames, ascending."""

  def take(self, numbers: Sequence[int], folder: pathlib.Path) -> list[Taken]:
    """Makes frames ready, in `folder` where they are not files already, and returns them.

    Args:
      numbers: of frames, ascending.
      folder: of all frames.

    Raises:
      InputError: a frame cannot be decoded; its path and number are named.
    """


class FrameFolder:
  """A folder whose image files are the frames."""

  def __init__(self, root: pathlib.Path, folder: pathlib.Path, files: Iterable[pathlib.Path]):
    """Numbers the files of `folder`, which lies under `root`.

    Raises:
      InputError: a name without a number, or two of the same.
    """
    self.name = folder.relative_to(root).as_posix()
    self._files: dict[int, pathlib.Path] = {}
    for file in sorted(files):
      number = frame_number(f'{self.name}/{file.name}')
      if number in self._files:
        raise InputError(
          f'{folder} holds frame {number} twice: {self._files[number].name} and {file.name}.'
        )
      self._files[number] = file

  def numbers(self) -> list[int]:
    """See `Clip`."""
    return sorted(self._files)

  def take(self, numbers: Sequence[int], folder: pathlib.Path) -> list[Taken]:
    """See `Clip`; every frame is decoded once to see that it can be."""
    del folder
    for number in numbers:
      _check_decodes(self._files[number], number)
    return [Taken(f'{self.name}/{self._files[number].name}') for number in numbers]


def _check_decodes(file: pathlib.Path, number: int) -> None:
  try:
    with Image.open(file) as image:
      image.load()
  except UNDECODABLE as error:
    raise InputError(
      f'frame {number} cannot be decoded: {file}: {error}. Replace the file, or '
      'leave its video out of the labels.'
    ) from error


def find(root: pathlib.Path) -> dict[str, Clip]:
  """Returns the clips under a folder by name.

  Args:
    root: every folder under it that holds images is a clip, and every video file.

  Raises:
    InputError: no such folder, no clips in it, two clips of one name, or see `FrameFolder`.
  """
  from robustness.video.video_files import VideoFile

  if not root.is_dir():
    raise InputError(f'{root} is no folder: give the folder of video files or frame folders.')
  images: dict[pathlib.Path, list[pathlib.Path]] = {}
  clips: list[Clip] = []
  for path in sorted(root.rglob('*')):
    if path.name.startswith('.') or not path.is_file():
      continue
    if path.suffix.lower() in VIDEO_SUFFIXES:
      clips.append(VideoFile(root, path))
    elif path.suffix.lower() in IMAGE_SUFFIXES and path.parent != root:
      images.setdefault(path.parent, []).append(path)
  clips += [FrameFolder(root, folder, files) for folder, files in images.items()]
  return _by_name(root, clips)


def _by_name(root: pathlib.Path, clips: Iterable[Clip]) -> dict[str, Clip]:
  named: dict[str, Clip] = {}
  for clip in clips:
    if clip.name in named:
      raise InputError(f'{root} holds two videos called {clip.name!r}: rename one of them.')
    named[clip.name] = clip
  if not named:
    raise InputError(
      f'{root} holds no videos: give folders of numbered frames '
      f'({", ".join(IMAGE_SUFFIXES)}) or files ending in '
      f'{", ".join(VIDEO_SUFFIXES)}.'
    )
  return named
