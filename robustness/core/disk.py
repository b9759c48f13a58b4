"""Faults of a disk: full, read-only or not permitted, in whatever words a library reports them."""

from __future__ import annotations

import errno
import os
import shutil

FULL = (errno.ENOSPC, errno.EDQUOT)
NOT_WRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM)
OVERHEAD = 2**18
"""Bytes that a checkpoint takes beside its arrays, for metadata and directories."""


def advice(error: BaseException, directory: str | os.PathLike[str]) -> str | None:
  """Returns what a user can do about a fault of the disk; None if the error is something else.

  Libraries written in C++ (Orbax's store, TensorFlow's writer of events) pass the system's words on
  in the text of errors of their own, so texts are searched too, of causes as well.

  Args:
    error: what was raised.
    directory: the workdir.
  """
  cause: BaseException | None = error
  seen: set[int] = set()
  while cause is not None and id(cause) not in seen:
    seen.add(id(cause))
    number = _number(cause)
    path = (cause.filename if isinstance(cause, OSError) else None) or directory
    if number in FULL:
      return (
        f'no space left on disk ({path}). What was computed is kept: free some space and run the '
        'same command again.'
      )
    if number in NOT_WRITABLE:
      return (
        f'{path}: {os.strerror(number).lower()}. Give a --workdir that can be written to, and '
        'files that may be read.'
      )
    cause = cause.__cause__ or cause.__context__
  return None


def require_space(directory: str | os.PathLike[str], size: int) -> None:
  """Raises OSError (no space left) unless a file system has room for `size` bytes and `OVERHEAD`.

  Writing that is refused before it begins leaves nothing half written.
  """
  if shutil.disk_usage(directory).free < size + OVERHEAD:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(directory))


def _number(error: BaseException) -> int | None:
  """Returns the system's number of an error, from its text where the text leaves no doubt."""
  if isinstance(error, OSError):
    return error.errno
  text = str(error)
  return next((n for n in (*FULL, errno.EROFS) if os.strerror(n) in text), None)
