"""Files that end before their headers say, by kind of container, and files that tell nothing."""

from __future__ import annotations

import pathlib

import pytest

from robustness.core.errors import InputError
from robustness.video.container_size import EBML, SEGMENT, require_whole

MP4 = b'\0\0\0\x10ftypisom\0\0\0\0' + b'\0\0\0\x20mdat' + bytes(24)
LARGE = b'\0\0\0\x01mdat' + (40).to_bytes(8, 'big') + bytes(24)
AVI = b'RIFF' + (36).to_bytes(4, 'little') + b'AVI ' + bytes(32)
OPEN_DML = AVI + b'RIFF' + (20).to_bytes(4, 'little') + b'AVIX' + bytes(16)
MATROSKA = EBML + b'\x84abcd' + SEGMENT + b'\x01' + (30).to_bytes(7, 'big') + bytes(30)


@pytest.mark.parametrize('content', [MP4, LARGE, AVI, OPEN_DML, MATROSKA])
def test_a_file_passes_whole_and_not_cut(tmp_path: pathlib.Path, content: bytes) -> None:
  path = tmp_path / 'clip'
  path.write_bytes(content)
  require_whole(path)
  path.write_bytes(content[:-12])
  with pytest.raises(InputError, match=f'is cut: .* {len(content)} .*{len(content) - 12}'):
    require_whole(path)


@pytest.mark.parametrize(
  'content',
  [
    b'',
    b'no video at all',
    b'\0\0\x01\xba' + bytes(20),  # an MPEG program stream
    MP4[:16] + b'\0\0\0\0mdat' + bytes(8),  # the last box reaches to the end
    MP4 + b'\xff' * 20,  # followed by something else
    b'RIFF' + b'\xff' * 4 + b'AVI ' + bytes(8),  # streamed
    EBML + b'\x84abcd' + SEGMENT + b'\x01' + b'\xff' * 7 + bytes(8),  # streamed
    EBML,
    AVI[:-9],  # writers count a header or a padding byte too much
  ],
)
def test_a_file_that_tells_no_size_passes(tmp_path: pathlib.Path, content: bytes) -> None:
  path = tmp_path / 'clip'
  path.write_bytes(content)
  require_whole(path)


def test_a_file_that_cannot_be_read(tmp_path: pathlib.Path) -> None:
  with pytest.raises(InputError, match='cannot be read'):
    require_whole(tmp_path / 'none.mp4')
