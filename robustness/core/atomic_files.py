"""Files written whole or not at all, and locks on files."""

import os
import pathlib
import uuid


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
  """Writes `content` to `path`: a reader sees the old file or the new one, never a part.

  The bytes are flushed to a temporary file beside it, which then takes the name `path` in one step,
  and is removed if anything fails (a full disk, say). Missing directories are made.
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
    if isinstance(error, OSError) and error.filename is None:  # as of writing and flushing
      error.filename = os.fspath(target)
    raise
  flush_directory(target.parent)


def flush_directory(directory: pathlib.Path) -> None:
  """Makes a new or renamed file of the directory durable, where a directory can be opened."""
  if os.name != 'posix':
    return
  descriptor = os.open(directory, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  finally:
    os.close(descriptor)


def lock(descriptor: int) -> bool:
  """Locks an open file for this process until it is closed; returns False if another has it.

  The system lifts the lock when the process ends, however it ends. Where it has no such locks
  (Windows, some network file systems) nothing is locked.
  """
  try:
    import fcntl

    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except BlockingIOError:
    return False
  except (ImportError, OSError):
    pass
  return True
