"""Frames of a video file, decoded by PyAV: pixels, type of compression, frames a second.

Frames a second are those of the file's headers where the times of its frames agree with them, and
else the mean over all frames: headers give videos of variable rate any number.
"""

from __future__ import annotations

import functools
import io
import itertools
import pathlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from robustness.core.atomic_files import write_atomically
from robustness.core.errors import InputError
from robustness.video.clips import Taken
from robustness.video.container_size import require_whole
from robustness.video.metadata import FRAME_TYPES

STOP_AT_ERRORS = {'err_detect': 'explode'}
RATE_TOLERANCE, TIME_TOLERANCE = 0.02, 0.002
"""By how much the times of frames may differ from a constant rate: a fraction, or seconds."""


class Survey(NamedTuple):
  """What decoding a whole video tells.

  Attributes:
    frames: how many there are.
    fps: frames a second; None where neither headers nor frames tell.
  """

  frames: int
  fps: float | None


class VideoFile:
  """A video file; frames that are taken become PNG files, which keep every pixel."""

  def __init__(self, root: pathlib.Path, file: pathlib.Path):
    """The clip of `file`, which lies under `root`; nothing is read yet."""
    self.name = file.relative_to(root).with_suffix('').as_posix()
    self._file = file

  def numbers(self) -> list[int]:
    """See `Clip`; decodes the file, since some packets hold no frame or only half of one."""
    return list(range(self._survey.frames))

  @functools.cached_property
  def _survey(self) -> Survey:
    with _opened(self._file) as (container, stream):
      times = [frame.time for _, frame in self._frames(container, stream)]
      rate = stream.average_rate or stream.guessed_rate
    if not times:
      raise InputError(f'{self._file} holds no frames.')
    return Survey(len(times), frame_rate(times, float(rate) if rate else None))

  def take(self, numbers: Sequence[int], folder: pathlib.Path) -> list[Taken]:
    """See `Clip`; decodes from the beginning, so that numbers are exact."""
    chosen: dict[int, Taken] = {}
    with _opened(self._file) as (container, stream):
      for number, frame in self._frames(container, stream):
        if number in numbers:
          chosen[number] = self._saved(frame, number, folder)._replace(fps=self._survey.fps)
        if number >= max(numbers):
          break
    for number in numbers:
      if number not in chosen:
        raise self._undecodable(number, 'the video ends before it')
    return [chosen[number] for number in numbers]

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


def frame_rate(times: Sequence[float | None], stated: float | None) -> float | None:
  """Returns frames a second.

  Args:
    times: when each frame is shown, seconds; None where a frame does not tell.
    stated: what the headers say, or None.

  Returns:
    `stated` where the frames agree with it or do not tell, else (n − 1) / (last − first).
  """
  first, last = (times[0], times[-1]) if times else (None, None)
  if first is None or last is None or last <= first:
    return stated
  expected = (len(times) - 1) / stated if stated else 0.0
  if abs(last - first - expected) <= max(TIME_TOLERANCE, RATE_TOLERANCE * expected):
    return stated
  return (len(times) - 1) / (last - first)


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
  """Opens a file and its first video stream; refuses one that is cut."""
  av = _av()
  require_whole(file)
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
