"""Frames of a video file, decoded by PyAV: pixels, type of compression, frames a second."""

from __future__ import annotations

import io
import itertools
import pathlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from robustness.core.atomic_files import write_atomically
from robustness.core.errors import InputError
from robustness.neighbor_sets.clips import Taken
from robustness.neighbor_sets.metadata import FRAME_TYPES

STOP_AT_ERRORS = {'err_detect': 'explode'}


class VideoFile:
  """A video file; frames that are taken become PNG files, which keep every pixel."""

  def __init__(self, root: pathlib.Path, file: pathlib.Path):
    """The clip of `file`, which lies under `root`; nothing is read yet."""
    self.name = file.relative_to(root).with_suffix('').as_posix()
    self._file = file

  def numbers(self) -> list[int]:
    """See `Clip`; decodes the file, since some packets hold no frame or only half of one."""
    with _opened(self._file) as (container, stream):
      count = sum(1 for _ in self._frames(container, stream))
    if not count:
      raise InputError(f'{self._file} holds no frames.')
    return list(range(count))

  def take(self, wanted: Sequence[int], folder: pathlib.Path) -> list[Taken]:
    """See `Clip`; decodes from the beginning, so that numbers are exact."""
    chosen: dict[int, Taken] = {}
    with _opened(self._file) as (container, stream):
      rate = stream.average_rate or stream.guessed_rate
      for number, frame in self._frames(container, stream):
        if number in wanted:
          chosen[number] = self._saved(frame, number, folder)._replace(
            fps=float(rate) if rate else None
          )
        if number >= max(wanted):
          break
    for number in wanted:
      if number not in chosen:
        raise self._undecodable(number, 'the video ends before it')
    return [chosen[number] for number in wanted]

  def _frames(self, container: Any, stream: Any) -> Iterator[tuple[int, Any]]:
    """Yields every frame with its number; ends at the first one that cannot be decoded."""
    decoder = container.decode(stream)
    for number in itertools.count():
      try:
        frame = next(decoder, None)
      except _av().error.FFmpegError as error:
        raise self._undecodable(number, str(error)) from error
      if frame is None:
        return
      if frame.is_corrupt:
        raise self._undecodable(number, 'its data are damaged')
      yield number, frame

  def _undecodable(self, number: int, why: str) -> InputError:
    return InputError(
      f'frame {number} cannot be decoded: {self._file}: {why}. Replace the file, '
      'or leave it out of the labels.'
    )

  def _saved(self, frame: Any, number: int, folder: pathlib.Path) -> Taken:
    """Writes a frame; returns its path under `folder`, and its type."""
    path = f'{self.name}/{number:06d}.png'
    content = io.BytesIO()
    frame.to_image().save(content, format='PNG')
    write_atomically(folder / path, content.getvalue())
    kind = _av().video.frame.PictureType(frame.pict_type).name.lower()
    return Taken(path, kind if kind in FRAME_TYPES else '')


def _av() -> Any:
  try:
    import av
  except ImportError as error:
    raise InputError(
      "video files are decoded by PyAV: pip install '.[video]', or give folders of frames."
    ) from error
  return av


@contextmanager
def _opened(file: pathlib.Path) -> Iterator[tuple[Any, Any]]:
  """Opens a file and its first video stream."""
  av = _av()
  try:
    container = av.open(str(file))
  except (av.error.FFmpegError, OSError) as error:
    raise InputError(f'{file} cannot be opened as a video: {error}.') from error
  with container:
    if not container.streams.video:
      raise InputError(f'{file} holds no video.')
    stream = container.streams.video[0]
    stream.codec_context.options = STOP_AT_ERRORS
    yield container, stream
