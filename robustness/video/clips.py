"""Clips, the sources of frames: folders of image files, and video files decoded by PyAV.

The name of a clip is its path under the folder of videos, without a video's suffix. Its frames are
numbered: by the file names of a folder, or 0, 1, ... in the order in which a video shows them.

A truncated video file is refused, because decoders report its end as if the video were shorter. Its
headers state the expected size: MP4 and QuickTime files are a sequence of boxes and AVI files one
of RIFF chunks, each with its size; Matroska and WebM files are one segment of stated size, unless
they were streamed. MPEG program streams state no size and are not checked.

References: ISO/IEC 14496-12, section 4.2; RFC 8794 (EBML), sections 4 to 6; RFC 9559 (Matroska);
Microsoft, AVI RIFF File Reference.
"""

from __future__ import annotations

import functools
import io
import itertools
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from PIL import Image

from robustness.core.atomic_files import write_atomically
from robustness.core.errors import InputError, importing
from robustness.core.paths import files_in
from robustness.core.pictures import SUFFIXES, damage
from robustness.video.metadata import FRAME_TYPES, FrameFacts, frame_number

if TYPE_CHECKING:
  from av import VideoFrame
  from av.container import InputContainer

IMAGE_SUFFIXES = tuple(suffix for suffix in SUFFIXES if suffix != '.gif')  # GIF files are videos
VIDEO_SUFFIXES = ('.mp4', '.m4v', '.mov', '.avi', '.mkv', '.webm', '.mpg', '.mpeg')
"""Suffixes of video files."""
CONTAINERS = {
  'format_whitelist': 'mov,mp4,m4a,3gp,3g2,mj2,avi,matroska,webm,mpeg,mpegvideo,mpegts,m4v'
}
"""Container formats that FFmpeg may open, as an option of `av.open`. Playlists are left out because
they open other files and network addresses.
"""
STOP_AT_ERRORS = {'err_detect': 'explode'}
"""Option of FFmpeg's decoders: damaged data raise an error instead of being concealed."""
RATE_TOLERANCE, TIME_TOLERANCE = 0.02, 0.002
"""Largest difference between a video's length and the length that a constant frame rate implies,
for which the rate of the headers is kept: as a fraction of the length, and in seconds.
"""
BOXES = (b'ftyp', b'moov', b'mdat', b'free', b'skip', b'wide', b'styp', b'pnot')
"""Types of the first box of MP4 and QuickTime files, bytes 4 to 8 of the file."""
EBML, SEGMENT = b'\x1a\x45\xdf\xa3', b'\x18\x53\x80\x67'
"""First bytes of Matroska and WebM files, and the identifier of their segment."""
RIFF_SLACK = 9
"""Largest excess in bytes of the size of a RIFF chunk: some writers count header or padding."""


def find(root: pathlib.Path) -> dict[str, Clip]:
  """Finds all video clips under a folder and returns them as `{name: clip}`.

  A clip is a video file or a folder of frame images. Its name is its path relative to `root`; the
  suffix of a video file is dropped. The search is recursive. Images directly in `root` are ignored.

  Raises:
    InputError: `root` is not a folder, holds no clips, or holds two clips with the same name.
  """
  if not root.is_dir():
    raise InputError(f'{root} is no folder: give the folder of video files or frame folders.')
  images: dict[pathlib.Path, list[pathlib.Path]] = {}
  clips: list[Clip] = []
  for path in files_in(root):
    if path.suffix.lower() in VIDEO_SUFFIXES:
      clips.append(VideoFile(root, path))
    elif path.suffix.lower() in IMAGE_SUFFIXES and path.parent != root:
      images.setdefault(path.parent, []).append(path)
  clips += [FrameFolder(root, folder, files) for folder, files in images.items()]
  named: dict[str, Clip] = {}
  for clip in clips:
    if clip.name in named:
      raise InputError(f'{root} holds two videos called {clip.name!r}: rename one of them.')
    named[clip.name] = clip
  if not named:
    raise InputError(
      f'{root} holds no videos: give folders of numbered frames ({", ".join(IMAGE_SUFFIXES)}) or '
      f'files ending in {", ".join(VIDEO_SUFFIXES)}.'
    )
  return named


class FrameFolder:
  """A video clip that is stored as a folder of image files, one file per frame."""

  def __init__(self, root: pathlib.Path, folder: pathlib.Path, files: Iterable[pathlib.Path]):
    """Initializes the clip; its name is the path of `folder` relative to `root`.

    Args:
      root: folder that holds all clips.
      folder: folder of this clip.
      files: image files of this clip.
    """
    self.name = folder.relative_to(root).as_posix()
    self._sorted = sorted(files)

  @functools.cached_property
  def _files(self) -> dict[int, pathlib.Path]:
    """The image files of a clip that is stored as a folder, as {frame number: path}.

    Raises:
      InputError: two files have the same frame number.
    """
    files: dict[int, pathlib.Path] = {}
    for file in self._sorted:
      number = frame_number(f'{self.name}/{file.name}')
      if number in files:
        names = f'{files[number].name} and {file.name}'
        raise InputError(f'{file.parent} holds frame {number} twice: {names}.')
      files[number] = file
    return files

  def numbers(self) -> list[int]:
    """Returns the frame numbers in the file names, ascending."""
    return sorted(self._files)

  def take(self, numbers: Sequence[int], folder: pathlib.Path) -> dict[str, FrameFacts]:
    """Checks that some frames can be decoded and returns their paths as `{path: {}}`.

    The values are empty because image files store neither frame type nor frame rate. The method has
    the signature of `VideoFile.take`.

    Args:
      numbers: numbers of the frames.
      folder: unused, because no file is written.

    Returns:
      `{'<name of the clip>/<file name>': {}}` with an entry for each frame.

    Raises:
      InputError: a frame cannot be decoded.
    """
    for number in numbers:
      if why := damage(self._files[number]):
        raise _undecodable(self._files[number], number, why)
    return {f'{self.name}/{self._files[number].name}': {} for number in numbers}


class VideoFile:
  """A video clip that is stored as a video file. `take` extracts frames as lossless PNG files."""

  def __init__(self, root: pathlib.Path, file: pathlib.Path):
    """Initializes the clip; its name is the path of `file` under `root`, without the suffix."""
    self.name = file.relative_to(root).with_suffix('').as_posix()
    self._file = file

  def numbers(self) -> list[int]:
    """Decodes the video and returns its frame numbers, `[0, 1, ...]`.

    Counting packets is not enough: a packet may hold no frame, or half of a frame.
    """
    num_frames, _ = self._num_frames_and_rate
    return list(range(num_frames))

  @functools.cached_property
  def _num_frames_and_rate(self) -> tuple[int, float | None]:
    """The number of frames, and the frames per second (None if unknown)."""
    with opened(self._file) as container:
      times = [frame.time for _, frame in frames(self._file, container)]
      stream, *_ = container.streams.video
      rate = stream.average_rate or stream.guessed_rate
    if not times:
      raise InputError(f'{self._file} holds no frames.')
    return len(times), frame_rate(times, float(rate) if rate else None)

  def take(self, numbers: Sequence[int], folder: pathlib.Path) -> dict[str, FrameFacts]:
    """Extracts frames of the video as PNG files and returns their frame types and rates.

    The video is decoded from its beginning, because seeking can miscount frames.

    Args:
      numbers: frame numbers, ascending.
      folder: folder under which the files are written.

    Returns:
      `{path: {'frame_type': ..., 'fps': ...}}`, where `path` is relative to `folder`, such as
      'clip/000042.png' for frame 42.

    Raises:
      InputError: a frame cannot be decoded or is after the end of the video.
    """
    facts: dict[str, FrameFacts] = {}
    _, rate = self._num_frames_and_rate
    with opened(self._file) as container:
      for number, frame in frames(self._file, container):
        if number in numbers:
          path, content = f'{self.name}/{number:06d}.png', io.BytesIO()
          _in_display_orientation(frame).save(content, format='PNG')
          write_atomically(folder / path, content.getvalue())
          kind = _import_av().video.frame.PictureType(frame.pict_type).name.lower()
          facts[path] = {'frame_type': kind if kind in FRAME_TYPES else '', 'fps': rate}
        if number >= max(numbers):
          return facts
    # `facts` holds the frames before the end of the video, so this is the number of the next one
    raise _undecodable(self._file, numbers[len(facts)], 'the video ends before it')


Clip = FrameFolder | VideoFile
"""A video under a folder of videos."""


def _in_display_orientation(frame: VideoFrame) -> Image.Image:
  """Returns a frame in the orientation in which players display it.

  The display matrix in the frame's metadata states quarter turns and mirroring. Its entries a, b,
  c, d say that the pixel (x, y) is displayed at (a x + c y, b x + d y).

  Args:
    frame: a decoded frame.
  """
  pixels = frame.to_ndarray(format='rgb24')
  matrix: Any = frame.side_data.get(_import_av().sidedata.sidedata.Type.DISPLAYMATRIX)
  if matrix is not None:
    # of the matrix 3 × 3, row by row; the pixel x, y is displayed at a x + c y, b x + d y
    a, b, _, c, d, *_ = np.frombuffer(matrix, np.int32).tolist()
    across, down = a, d  # below 0: the frame is mirrored across, or down
    if abs(b) > abs(a):  # a quarter turn
      pixels = pixels.swapaxes(0, 1)
      across, down = c, b
    if across < 0:
      pixels = pixels[:, ::-1]
    if down < 0:
      pixels = pixels[::-1]
  return Image.fromarray(np.ascontiguousarray(pixels))


def frame_rate(times: Sequence[float | None], header_rate: float | None) -> float | None:
  """Returns the frames per second of a video, from its headers if they are plausible.

  The headers of a video with a variable frame rate can state a wrong rate.

  Args:
    times: times of the n frames in seconds; None for an unknown time.
    header_rate: the rate in the headers; None if they state none.

  Returns:
    `header_rate` if it agrees with `times` or the times are unknown; otherwise the mean rate, (n −
    1) / (last time − first time).
  """
  first, last = times[0], times[-1]
  if first is None or last is None or last <= first:
    return header_rate
  duration, num_intervals = last - first, len(times) - 1
  expected = num_intervals / header_rate if header_rate else 0.0  # duration at the header's rate
  if abs(duration - expected) <= max(TIME_TOLERANCE, RATE_TOLERANCE * expected):
    return header_rate
  return num_intervals / duration


def _import_av() -> ModuleType:
  """Returns the package PyAV; raises InputError if it is not installed."""
  advice = "pip install '.[video]', or give folders of frames"
  with importing(f'video files are decoded by PyAV: {advice}'):
    import av
  return av


@contextmanager
def opened(file: pathlib.Path) -> Iterator[InputContainer]:
  """A context manager that opens a video file, yields its PyAV container, and closes it.

  Raises:
    InputError: the file is truncated, cannot be opened or has no video stream.
  """
  av = _import_av()
  require_complete(file)
  try:
    container = av.open(str(file), options=CONTAINERS)
  except (av.error.FFmpegError, OSError) as error:
    raise InputError(f'{file} cannot be opened as a video: {error}.') from error
  with container:
    if not container.streams.video:
      raise InputError(f'{file} holds no video.')
    stream, *_ = container.streams.video
    stream.codec_context.options = STOP_AT_ERRORS
    yield container


def frames(file: pathlib.Path, container: InputContainer) -> Iterator[tuple[int, VideoFrame]]:
  """Yields `(number, frame)` for each frame of a video's first stream, in display order.

  Args:
    file: path of the video file, for error messages.
    container: the opened file, from `opened`.

  Raises:
    InputError: a frame cannot be decoded.
  """
  decoder = container.decode(video=0)
  for number in itertools.count():
    try:
      frame = next(decoder, None)
    except _import_av().error.FFmpegError as error:
      raise _undecodable(file, number, str(error)) from error
    if frame is None:
      return
    if frame.is_corrupt:
      raise _undecodable(file, number, 'its data are damaged')
    yield number, frame


def _undecodable(file: pathlib.Path, number: int, why: str) -> InputError:
  """Returns the error that frame `number` of `file` cannot be decoded; `why` is the reason."""
  problem = f'frame {number} cannot be decoded: {file}: {why}'
  return InputError(f'{problem}. Replace the file, or leave it out.')


def require_complete(path: pathlib.Path) -> None:
  """Raises InputError if a video file is shorter than its headers state.

  Files with headers that state no size are accepted.
  """
  try:
    with path.open('rb') as file:
      size = os.fstat(file.fileno()).st_size
      declared = _declared_size(file, size)
  except OSError as error:
    raise InputError(f'{path} cannot be read: {error.strerror}.') from error
  if declared > size:
    problem = f'{path} is truncated: its headers state {declared} bytes, and it has {size}'
    raise InputError(f'{problem}. Replace the file, or leave it out.')


def _declared_size(file: BinaryIO, size: int) -> int:
  """Returns the file size in bytes that the headers of a video file declare.

  Args:
    file: the video file, at its beginning.
    size: actual size of the file in bytes.

  Returns:
    The declared size. It is 0 if the headers declare none, and for an AVI file with a declared size
    that is at most `RIFF_SLACK` bytes too large, an error that some writers make.
  """
  start = file.read(12)
  if start[4:8] in BOXES:  # MP4 and QuickTime
    return _end_of_chunks(file, size, _box_length)
  if start[:4] == b'RIFF' and start[8:] == b'AVI ':  # AVI
    end = _end_of_chunks(file, size, _riff_length)
    return end if end - size > RIFF_SLACK else 0
  return _end_of_segment(file) if start[:4] == EBML else 0


def _end_of_chunks(file: BinaryIO, size: int, length_of: Callable[[bytes], int]) -> int:
  """Returns the byte position where the last chunk of a video file should end.

  The file is a sequence of chunks, each with its length in its header. In a truncated file the
  result exceeds `size`. Chunks after one of unknown length are ignored.

  Args:
    file: the video file.
    size: actual size of the file in bytes.
    length_of: called with the first 16 bytes of a chunk; returns the length of the chunk in bytes
      including its header, or 0 if it is unknown.
  """
  end = 0
  while end + 8 <= size:  # 8 bytes are the shortest header
    file.seek(end)
    length = length_of(file.read(16))
    if not length:
      break
    end += length
  return end


def _box_length(header: bytes) -> int:
  """Returns the total length in bytes of an MP4 box, or 0 if it is unknown.

  Args:
    header: the first 16 bytes of the box.
  """
  length = int.from_bytes(header[:4], 'big')
  if length == 1:  # the length is in 64 bits after the type
    length = int.from_bytes(header[8:], 'big')
  # a box of length 0 extends to the end; other short lengths and odd names are not boxes
  return length if length >= 8 and header[4:8].isalnum() else 0


def _riff_length(header: bytes) -> int:
  """Returns the total length in bytes of a RIFF chunk, or 0 if it is unknown.

  Args:
    header: the first 16 bytes of the chunk.
  """
  length = int.from_bytes(header[4:8], 'little')
  is_known = header[:4] == b'RIFF' and 0 < length < 0xFFFFFFF0  # other lengths mean streaming
  return 8 + length + length % 2 if is_known else 0  # the header, and padding to an even length


def _end_of_segment(file: BinaryIO) -> int:
  """Returns the byte position where the data of a Matroska file end; 0 if unknown.

  A Matroska file has a header (identifier `EBML`, length, content), then a segment (identifier
  `SEGMENT`, length, content) with all data.
  """
  file.seek(len(EBML))
  file.seek(_ebml_number(file), os.SEEK_CUR)  # by the length of the header, to its end
  if file.read(4) != SEGMENT:
    return 0
  length = _ebml_number(file)
  return file.tell() + length if length else 0


def _ebml_number(file: BinaryIO) -> int:
  """Reads a variable-length integer (RFC 8794, section 4) from a Matroska file.

  The number of leading zero bits in the first byte is the number of bytes that follow.

  Args:
    file: the file, at the position of the integer.

  Returns:
    The integer; 0 if it is invalid, or if all its bits are 1, which means 'unknown'.
  """
  first = file.read(1)
  if not first or not first[0]:
    return 0
  further_bytes = 8 - first[0].bit_length()
  mask = (1 << 7 * (further_bytes + 1)) - 1  # all bits but the leading ones that state the length
  value = int.from_bytes(first + file.read(further_bytes), 'big') & mask
  return 0 if value == mask else value
