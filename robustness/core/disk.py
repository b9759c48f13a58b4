"""Advice about errors of a disk: full, read-only, without permission, or with a name in use; and of
a file that is too large.
"""

import errno
import os
import pathlib
import shutil

from robustness.core.errors import WORKDIR, causes
from robustness.core.paths import expanded

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of a full disk or exhausted quota."""
NOT_WRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM)
"""Error numbers of a read-only disk or missing permission."""
TOO_LARGE = (errno.EFBIG,)
"""Error number of a file larger than the disk or a limit, such as `ulimit -f`, allows."""
IN_THE_WAY = (errno.EISDIR, errno.ENOTDIR, errno.EEXIST)
"""Error numbers of a file in place of a folder, or the reverse."""
OVERHEAD = 2**18  # bytes of a checkpoint in addition to its arrays


def advice(error: BaseException, directory: str | os.PathLike[str]) -> str | None:
  """Returns sentences on what is wrong with the disk and how to fix it, or None for other errors.

  The problem may be a full disk, a disk or folder that is not writable, a file that is too large,
  or an existing file where the run needs a folder (or the reverse).

  Args:
    error: the error. The errors that caused it are examined too.
    directory: the run's output folder, or '' for a command without one.
  """
  for cause in causes(error):
    error_number = _errno(cause)
    path = directory
    if isinstance(cause, OSError):  # `filename2` is the target if a file was renamed
      path = cause.filename2 or cause.filename or directory
    if error_number in FULL:
      place = f' ({path})' if path else ''
      return (
        f'no space left on disk{place}. What was computed is kept: free some space and run the '
        'same command again.'
      )
    if error_number in TOO_LARGE:
      return (
        f'{path or "a file"}: file too large. What was computed is kept: raise the limit (ulimit '
        '-f), or use another file system, and run the same command again.'
      )
    if error_number in NOT_WRITABLE:
      needed = f'{WORKDIR:--}' if directory else 'folder'
      return (
        f'{path or "files"}: {os.strerror(error_number).lower()}. Give a {needed} that can be '
        'written to, and files that may be read.'
      )
    file = pathlib.Path(path)
    output_folder = expanded(directory).absolute()  # the current folder if `directory` is ''
    if error_number in IN_THE_WAY and output_folder in file.parents:
      existing = next(folder for folder in (file, *file.parents) if folder.exists())
      other = f', or give another {WORKDIR:--}' if directory else ''
      return f'{existing} is in the way of a file or folder of the run: move it{other}.'
  return None


def _errno(error: BaseException) -> int | None:
  """Returns the system's error number, such as `errno.ENOSPC`, or None if there is none.

  C++ libraries (Orbax's store, TensorFlow's event writer) raise errors without a number. Their
  messages are searched for the system's texts, such as 'No space left on device'.
  """
  if isinstance(error, OSError):
    return error.errno
  # texts such as 'No space left on device', which no other error contains
  return next((n for n in (*FULL, *TOO_LARGE, errno.EROFS) if os.strerror(n) in str(error)), None)


def require_space(directory: str | os.PathLike[str], size: int) -> None:
  """Raises OSError (no space left) if the disk of `directory` has less than `size` bytes free.

  `OVERHEAD` bytes must be free in addition. Callers check before they write, which avoids partial
  files.
  """
  if shutil.disk_usage(directory).free < size + OVERHEAD:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(directory))
