"""Atomic writing of files, and locks on files."""

import os
import pathlib
import uuid


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
  """Writes `content` to `path`, where readers see the complete old or new file, never a part.

  The bytes are flushed to a temporary file in the same folder, which is then renamed to `path`; it
  is removed if anything fails, for example on a full disk. Missing directories are created.
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
  """Locks an open file for this process until it is closed; returns whether that was possible.

  It is not possible if another process has the lock. The system releases the lock when the process
  ends. Systems without such locks (Windows, some network file systems) lock nothing, and the result
  is True.
  """
  try:
    import fcntl

    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except BlockingIOError:
    return False
  except (ImportError, OSError):
    pass
  return True
