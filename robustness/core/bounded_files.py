"""Readers of untrusted files, which neither fill the memory nor wait for ever."""

import errno
import os
import pathlib
import stat
from typing import BinaryIO

from robustness.core.errors import InputError


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
  """Opens a regular file for reading in binary; `path` may be a link to it.

  Raises:
    InputError: the path is a device, a pipe or a socket, which may never end.
    OSError: the file does not exist or cannot be read.
  """
  # O_NONBLOCK: opening a pipe would wait for a writer; systems without a flag need none
  flags = os.O_RDONLY | getattr(os, 'O_NONBLOCK', 0) | getattr(os, 'O_BINARY', 0)
  descriptor = os.open(path, flags)
  mode = os.fstat(descriptor).st_mode
  if stat.S_ISREG(mode):
    return os.fdopen(descriptor, 'rb')
  os.close(descriptor)
  if stat.S_ISDIR(mode):
    raise IsADirectoryError(errno.EISDIR, 'Is a directory', os.fspath(path))
  raise InputError(f'{os.fspath(path)} is a device, a pipe or a socket: give a regular file.')


def read_bounded(path: str | os.PathLike[str], max_bytes: int) -> bytes:
  """Returns the bytes of a regular file; raises InputError for more than `max_bytes`."""
  with open_regular(path) as file:
    content = file.read(max_bytes + 1)  # one more shows that the file is too large
  if len(content) > max_bytes:
    raise InputError(f'{os.fspath(path)} is larger than {max_bytes / 2**20:,.0f} MiB.')
  return content


def refuse_special(folder: pathlib.Path) -> None:
  """Raises InputError if a folder contains a link, device, pipe or socket at any depth.

  A folder that is itself a link is refused too.
  """
  pending = [folder]
  while pending:
    path = pending.pop()
    mode = path.lstat().st_mode
    if stat.S_ISDIR(mode):
      pending += path.iterdir()
    elif not stat.S_ISREG(mode):
      kind = 'a link' if stat.S_ISLNK(mode) else 'a device, a pipe or a socket'
      raise InputError(f'{path.relative_to(folder.parent)} is {kind}: give a copy of the file.')
