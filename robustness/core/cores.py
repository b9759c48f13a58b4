"""How many cores of the processor this process may use."""

from __future__ import annotations

import os


def usable_cores() -> int:
  """Returns the number of cores that the system lets this process run on, at least 1.

  Where the system knows no affinity of processes (macOS, Windows), all cores count.
  """
  if hasattr(os, 'sched_getaffinity'):
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1
