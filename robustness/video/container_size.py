"""Whether a video file is shorter than its own headers say: an interrupted download or copy.

Decoders read such a file up to the cut and then report its end, as if the video were shorter. MP4
and QuickTime files are a row of boxes, each with its size; AVI is one or more RIFF chunks with
theirs; Matroska and WebM hold everything in one segment of known size, unless they were streamed.
MPEG program streams declare no size, and nothing can be said of them.

References: ISO/IEC 14496-12, section 4.2; RFC 8794 (EBML), sections 4 to 6; RFC 9559 (Matroska);
Microsoft, AVI RIFF File Reference.
"""

from __future__ import annotations

import os
import pathlib
from typing import BinaryIO

from robustness.core.errors import InputError

BOXES = (b'ftyp', b'moov', b'mdat', b'free', b'skip', b'wide', b'styp', b'pnot')
EBML, SEGMENT = b'\x1a\x45\xdf\xa3', b'\x18\x53\x80\x67'
RIFF_SLACK = 9
"""Bytes by which the size of a RIFF chunk may be too large: writers count its header or padding."""


def require_whole(path: pathlib.Path) -> None:
  """Refuses a video file that ends before its headers say.

  Args:
    path: an existing file; of another kind than MP4, QuickTime, AVI, Matroska or WebM it passes.

  Raises:
    InputError: it is cut; both sizes are named. Or it cannot be read.
  """
  try:
    with path.open('rb') as file:
      size = os.fstat(file.fileno()).st_size
      declared = _declared_size(file, size)
  except OSError as error:
    raise InputError(f'{path} cannot be read: {error.strerror}.') from error
  if declared > size:
    raise InputError(
      f'{path} is cut: its headers say {declared} bytes, and it has {size}. Replace the file, or '
      'leave it out of the labels.'
    )


def _declared_size(file: BinaryIO, size: int) -> int:
  """Returns where the file should end at least, bytes; 0 where its headers do not tell."""
  start = file.read(12)
  file.seek(0)
  if start[4:8] in BOXES:
    return _end_of_boxes(file, size)
  if start[:4] == b'RIFF' and start[8:] == b'AVI ':
    return _end_of_riff(file, size)
  if start[:4] == EBML:
    return _end_of_segment(file)
  return 0


def _end_of_boxes(file: BinaryIO, size: int) -> int:
  end = 0
  while end + 8 <= size:
    file.seek(end)
    header = file.read(16)
    length = int.from_bytes(header[:4], 'big')
    if length == 1:
      length = int.from_bytes(header[8:16], 'big')
    if length < 8 or not header[4:8].isalnum():  # 0: up to the end; else no box
      break
    end += length
  return end


def _end_of_riff(file: BinaryIO, size: int) -> int:
  end = 0
  while end + 8 <= size:
    file.seek(end)
    header = file.read(8)
    length = int.from_bytes(header[4:], 'little')
    if header[:4] != b'RIFF' or not 0 < length < 0xFFFFFFF0:  # streamed: not known
      break
    end += 8 + length + length % 2
  return end if end - size > RIFF_SLACK else 0


def _end_of_segment(file: BinaryIO) -> int:
  file.read(4)
  length = _ebml_number(file)
  file.seek(length, os.SEEK_CUR)
  if file.read(4) != SEGMENT:
    return 0
  length = _ebml_number(file)
  return file.tell() + length if length else 0


def _ebml_number(file: BinaryIO) -> int:
  """Reads a number whose leading zero bits tell its length; 0 where all others are ones."""
  first = file.read(1)
  if not first or not first[0]:
    return 0
  more = 8 - first[0].bit_length()
  value = int.from_bytes(first + file.read(more), 'big')
  bits = 7 * (more + 1)
  value &= (1 << bits) - 1
  return 0 if value == (1 << bits) - 1 else value
