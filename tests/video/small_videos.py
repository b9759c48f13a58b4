"""Makes small clips, encoded or as image files, that show the number of each frame in pixels."""

import pathlib
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from PIL import Image

SIDE = 32


def picture(number: int) -> np.ndarray:
  """A frame: 2 × 4 blocks that spell its number in binary, uint8 [SIDE, SIDE, 3]."""
  bits = [(number >> position) & 1 for position in range(8)]
  blocks = np.array(bits, np.uint8).reshape(2, 4) * 160 + 40
  return np.repeat(blocks.repeat(SIDE // 2, 0).repeat(SIDE // 4, 1)[..., None], 3, -1)


def number_of(pixels: np.ndarray) -> int:
  """Reads the number that `picture` wrote."""
  middle = pixels.mean(-1).reshape(2, SIDE // 2, 4, SIDE // 4).mean((1, 3)).ravel()
  return int(sum(1 << position for position, value in enumerate(middle) if value > 120))


def encode(
  path: pathlib.Path, count: int, codec: str = 'mpeg4', fps: int = 25, times: Sequence[int] = ()
) -> pathlib.Path:
  """Encodes `count` frames by PyAV, with a reference frame every 8; skips without PyAV.

  `times` are milliseconds, for a video of variable rate.
  """
  av = pytest.importorskip('av', reason='PyAV is not installed')
  path.parent.mkdir(parents=True, exist_ok=True)
  with av.open(str(path), 'w') as container:
    stream = container.add_stream(codec, rate=fps)
    stream.width = stream.height = SIDE
    stream.pix_fmt, stream.bit_rate = 'yuv420p', 4_000_000
    stream.codec_context.gop_size = 8
    stream.codec_context.max_b_frames = 2 if codec != 'mpeg4' else 0
    if times:
      stream.codec_context.time_base = Fraction(1, 1000)
    for number in range(count):
      frame = av.VideoFrame.from_ndarray(picture(number), format='rgb24')
      if times:
        frame.pts, frame.time_base = times[number], Fraction(1, 1000)
      container.mux(stream.encode(frame))
    container.mux(stream.encode())
  return path


def save_frames(folder: pathlib.Path, numbers: Iterable[int], suffix: str = '.png') -> pathlib.Path:
  """Writes frames as image files `<number>.<suffix>`."""
  folder.mkdir(parents=True, exist_ok=True)
  for number in numbers:
    Image.fromarray(picture(number)).save(folder / f'{number:06d}{suffix}')
  return folder
