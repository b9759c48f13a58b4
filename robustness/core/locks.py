"""Locks on files, which the system lifts when the process that holds one ends, however it ends."""

from __future__ import annotations


def take(descriptor: int) -> bool:
  """Locks an open file for this process until it is closed; returns False if another has it.

  Where the system has no such locks (Windows, some network file systems) nothing is locked, and
  one user a file is the user's care.
  """
  try:
    import fcntl
  except ImportError:
    return True
  try:
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except BlockingIOError:
    return False
  except OSError:
    return True
  return True
