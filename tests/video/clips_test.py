"""Tests which frames and rates are read from video files, and that truncated files are refused."""

import pathlib

import numpy as np
import pytest
from PIL import Image

from robustness.video.clips import EBML, SEGMENT, VideoFile, frame_rate, require_complete
from tests.cases import cases
from tests.refusals import refused
from tests.video.small_videos import encode, number_of

MP4 = b'\0\0\0\x10ftypisom\0\0\0\0' + b'\0\0\0\x20mdat' + bytes(24)
LARGE = b'\0\0\0\x01mdat' + (40).to_bytes(8, 'big') + bytes(24)
AVI = b'RIFF' + (36).to_bytes(4, 'little') + b'AVI ' + bytes(32)
OPEN_DML = AVI + b'RIFF' + (20).to_bytes(4, 'little') + b'AVIX' + bytes(16)
MATROSKA = EBML + b'\x84abcd' + SEGMENT + b'\x01' + (30).to_bytes(7, 'big') + bytes(30)


def test_complete_files_pass_and_truncated_files_are_refused(tmp_path):
  path = tmp_path / 'clip'
  for content in (MP4, LARGE, AVI, OPEN_DML, MATROSKA):
    path.write_bytes(content)
    require_complete(path)
    path.write_bytes(content[:-12])
    refused(f'is truncated: .* {len(content)} .*{len(content) - 12}', require_complete, path)
  refused('cannot be read', require_complete, tmp_path / 'none.mp4')


def test_files_without_a_stated_size_pass(tmp_path):
  for content in (
    b'',
    b'no video at all',
    b'\0\0\x01\xba' + bytes(20),  # This is an MPEG program stream.
    MP4[:16] + b'\0\0\0\0mdat' + bytes(8),  # A size of 0 means up to the end of the file.
    MP4 + b'\xff' * 20,  # Other bytes follow the last box.
    b'RIFF' + b'\xff' * 4 + b'AVI ' + bytes(8),  # A streamed AVI file states no size.
    EBML
    + b'\x84abcd'
    + SEGMENT
    + b'\x01'
    + b'\xff' * 7
    + bytes(8),  # A streamed Matroska file states none.
    EBML,
    AVI[:-9],  # Some writers count a header or a padding byte too many.
  ):
    (tmp_path / 'clip').write_bytes(content)
    require_complete(tmp_path / 'clip')


def frame(path: pathlib.Path) -> np.ndarray:
  """Returns the pixels of an image file, uint8 [H, W, 3]."""
  with Image.open(path) as image:
    return np.asarray(image)


@pytest.mark.parametrize('codec', ['mpeg4', 'libx264'])
def test_requested_frames_have_their_types_and_damaged_ones_are_named(tmp_path, codec):
  av = pytest.importorskip('av', reason='PyAV is not installed')
  path, frames = encode(tmp_path / 'a/clip.mp4', 30, codec, fps=24), tmp_path / 'frames'
  clip, numbers = VideoFile(tmp_path, path), [0, 11, 12, 29]
  assert (clip.name, clip.numbers()) == ('a/clip', list(range(30)))
  taken = clip.take(numbers, frames)
  assert list(taken) == [f'a/clip/{n:06d}.png' for n in numbers]
  assert [number_of(frame(frames / path)) for path in taken] == numbers
  assert {facts['fps'] for facts in taken.values()} == {24.0}
  assert len(list(frames.rglob('*.png'))) == 4
  kinds = [facts['frame_type'] for facts in clip.take(range(30), frames).values()]
  assert set(kinds[::8]) == {'i'}, 'a reference frame every 8'
  assert set(kinds) == ({'i', 'p'} if codec == 'mpeg4' else {'i', 'p', 'b'})
  # The packet of frame 16, from which later frames are decoded, becomes invalid.
  with av.open(str(path)) as container:
    packet = [p for p in container.demux(video=0) if p.size][16]
    place, size = packet.pos, packet.size
  content = bytearray(path.read_bytes())
  content[place : place + size] = bytes([0xFF]) * size
  path.write_bytes(content)
  clip = VideoFile(tmp_path, path)
  for read in (clip.numbers, lambda: clip.take([29], tmp_path / 'frames')):
    refused(r'frame 1\d cannot be decoded: .*clip\.mp4', read)
  path.write_bytes(b'no video' * 100)
  refused(r'clip\.mp4 cannot be opened as a video', VideoFile(tmp_path, path).numbers)


def test_the_rotation_in_metadata_is_applied(tmp_path):
  path = encode(tmp_path / 'a.mp4', 5)
  upright = frame(tmp_path / next(iter(VideoFile(tmp_path, path).take([3], tmp_path))))
  content = path.read_bytes()
  place = content.index(b'tkhd') + 44  # the matrix in the header of the track, 9 × 32 bits
  for (a, b, c, d), expected in (
    ((0, 1, -1, 0), np.rot90(upright, -1)),
    ((-1, 0, 0, -1), np.rot90(upright, 2)),
    ((0, -1, 1, 0), np.rot90(upright)),
    ((-1, 0, 0, 1), np.fliplr(upright)),
    ((0, 1, 1, 0), upright.swapaxes(0, 1)),
  ):
    matrix = (np.array([a, b, 0, c, d, 0, 0, 0, 1 << 14]) << 16).astype('>i4')
    path.write_bytes(content[:place] + matrix.tobytes() + content[place + 36 :])
    taken = VideoFile(tmp_path, path).take([3], tmp_path)
    assert np.array_equal(frame(tmp_path / next(iter(taken))), expected)


@cases(
  'name, codec', ('a.mp4', 'libx264'), ('a.mkv', 'mpeg4'), ('a.webm', 'libvpx'), ('a.avi', 'mpeg4')
)
def test_truncated_videos_are_refused(tmp_path, name, codec):
  path = encode(tmp_path / name, 60, codec)
  assert len(VideoFile(tmp_path, path).numbers()) == 60
  content = path.read_bytes()
  for share in (0.75, 0.5):
    path.write_bytes(content[: int(share * len(content))])
    clip = VideoFile(tmp_path, path)
    for read in (clip.numbers, lambda clip=clip: clip.take([1], tmp_path / 'frames')):
      refused(rf'{name} is truncated: its headers state \d+ bytes, and it has', read)


@pytest.mark.parametrize('name', ['a.mp4', 'a.mkv'])
def test_the_rate_of_frames_at_varying_times_is_their_mean(tmp_path, name):
  steps = np.random.default_rng(0).choice([40, 80, 120, 200], 59)  # milliseconds
  times = np.concatenate([[0], np.cumsum(steps)])
  clip = VideoFile(tmp_path, encode(tmp_path / name, 60, 'libx264', times=times.tolist()))
  rate = clip.take([0], tmp_path / 'frames')['a/000000.png']['fps']
  assert rate == pytest.approx(59_000 / times[-1], rel=0.02) and 8 < rate < 12


@pytest.mark.parametrize('fps', [24, 25, 30, 60])
def test_constant_and_stated_frame_rates_are_exact(tmp_path, fps):
  for count in (2, 30):
    clip = VideoFile(tmp_path, encode(tmp_path / f'{count}.mkv', count, fps=fps))
    assert clip.take([0], tmp_path / 'frames')[f'{count}/000000.png']['fps'] == fps
  assert frame_rate([None, None], 25.0) == 25 and frame_rate([0.5], 25.0) == 25
  assert frame_rate([0.0, 0.5, 1.0], None) == 2 and frame_rate([0.0], None) is None


def test_a_playlist_opens_no_other_file(tmp_path):
  """FFmpeg detects containers by content, and also detects lists of files."""
  pytest.importorskip('av', reason='PyAV is not installed')
  other = encode(tmp_path / 'other.mp4', 4, 'mpeg4', fps=24)
  (tmp_path / 'list.mpg').write_text(f'ffconcat version 1.0\nfile {other.name}\n')
  clip = VideoFile(tmp_path, tmp_path / 'list.mpg')
  refused('list.mpg cannot be opened as a video', clip.numbers)
