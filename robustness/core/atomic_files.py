"""Atomic writing of files, and locks on files."""

import os
import pathlib
import uuid


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
  """Writes `content` to `path`, replacing an existing file in a single step.

  Concurrent readers see the complete old file or the complete new file. The bytes are first written
  to a temporary file in the same folder, which is then renamed. If writing fails, for example on a
  full disk, the temporary file is removed. Missing parent directories are created.
  """
  target = pathlib.Path(path)
  target.parent.mkdir(parents=True, exist_ok=True)
  temporary = target.with_name(f'.{target.name}.{uuid.uuid4().hex}.tmp')
  try:
    with open(temporary, 'xb') as file:
      file.write(content)
      file.flush()
      os.fsync(file.fileno())
    os.replace(temporary, target)
  except BaseException as error:
    temporary.unlink(missing_ok=True)
    if isinstance(error, OSError):  # name the file, and not the temporary one
      error.filename = os.fspath(target)
    raise
  flush_directory(target.parent)


def flush_directory(directory: pathlib.Path) -> None:
  """Makes new and renamed files of a directory survive a power cut.

  It does nothing on systems that cannot open a directory.
  """
  if os.name == 'posix':
    descriptor = os.open(directory, os.O_RDONLY)
    try:
      os.fsync(descriptor)
    finally:
      os.close(descriptor)


def lock(descriptor: int) -> bool:
  """Tries to lock an open file and returns whether no other process holds the lock.

  The lock lasts until the file is closed or the process ends. On systems without file locks
  (Windows, some network file systems) nothing is locked and the result is True.

  Args:
    descriptor: file descriptor of the open file.
  """
  try:
    import fcntl

    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except BlockingIOError:
    return False
  except (ImportError, OSError):
    pass
  return True
