"""Faults of a disk: full, read-only or not permitted, in whatever words a library reports them, and
what lies in a workdir under the name of something else."""

import errno
import os
import pathlib
import shutil

from robustness.core.errors import causes
from robustness.core.paths import expanded

FULL = (errno.ENOSPC, errno.EDQUOT)
NOT_WRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM)
IN_THE_WAY = (errno.EISDIR, errno.ENOTDIR, errno.EEXIST)
OVERHEAD = 2**18  # bytes that a checkpoint takes beside its arrays


def advice(error: BaseException, directory: str | os.PathLike[str]) -> str | None:
  """Returns what a user can do about a fault of the disk; None if the error is something else.

  `directory` is the workdir, '' of a command that has none.
  Libraries written in C++ (Orbax's store, TensorFlow's writer of events) pass the system's words on
  in the text of their own errors, so texts are searched too, of causes as well.
  """
  for cause in causes(error):
    if isinstance(cause, OSError):
      number, path = cause.errno, cause.filename2 or cause.filename or directory
    else:  # where the text leaves no doubt
      named = (n for n in (*FULL, errno.EROFS) if os.strerror(n) in str(cause))
      number, path = next(named, None), directory
    if number in FULL:
      where = f' ({path})' if path else ''
      return (
        f'no space left on disk{where}. What was computed is kept: free some space and run the '
        'same command again.'
      )
    if number in NOT_WRITABLE:
      place = '--workdir' if directory else 'folder'
      return (
        f'{path or "files"}: {os.strerror(number).lower()}. Give a {place} that can be written to, '
        'and files that may be read.'
      )
    inside = pathlib.Path(path), *pathlib.Path(path).parents
    if number in IN_THE_WAY and expanded(directory).absolute() in inside[1:]:
      there = next(place for place in inside if place.exists())
      other = ', or give another --workdir' if directory else ''
      return f'{there} is in the way of a file or folder of the run: move it{other}.'
  return None


def require_space(directory: str | os.PathLike[str], size: int) -> None:
  """Raises OSError (no space left) unless a file system has room for `size` bytes and `OVERHEAD`.

  Writing that is refused before it begins leaves nothing half written.
  """
  if shutil.disk_usage(directory).free < size + OVERHEAD:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(directory))
