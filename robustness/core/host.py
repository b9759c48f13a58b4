"""Resources of the host: usable processor cores, and how the C library manages memory."""

import ctypes
import os
import platform

TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = -1, -3, -8  # numbers of the settings in malloc.h
KEPT_BYTES, FROM_HEAP_BYTES = 2**31 - 1, 2**30
"""Freed memory that glibc keeps, and largest block that it takes from the heap, in bytes."""


def usable_cores() -> int:
  """Returns the number of cores that this process may use, at least 1.

  It is the number of all cores on systems without affinity of processes.
  """
  if hasattr(os, 'sched_getaffinity'):
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1


def keep_freed_memory() -> bool:
  """Makes glibc keep up to 2 GB of freed memory, and take blocks of up to 1 GB from one heap.

  On a CPU every call of a compiled step allocates its temporary arrays again. By default glibc
  returns large blocks to the system, which clears every page for the next call: a third of the
  processor's time of EfficientNet-Lite0 in batches of 16. Call this before JAX starts its threads
  and before TensorFlow is imported.

  Returns:
    Whether the settings were made: they are not without glibc, nor if the environment has a
    variable `MALLOC_...`.
  """
  if platform.libc_ver()[0] != 'glibc' or any(name.startswith('MALLOC_') for name in os.environ):
    return False
  mallopt = ctypes.CDLL(None).mallopt
  settings = {ARENA_MAX: 1, MMAP_THRESHOLD: FROM_HEAP_BYTES, TRIM_THRESHOLD: KEPT_BYTES}
  return all(mallopt(name, value) for name, value in settings.items())
