"""What the host gives this process: cores of the processor, and memory from the C library."""

from __future__ import annotations

import ctypes
import os
import platform

TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = -1, -3, -8  # as in malloc.h
KEPT_BYTES, FROM_HEAP_BYTES = 2**31 - 1, 2**30


def usable_cores() -> int:
  """Returns the number of cores that the system lets this process run on, at least 1.

  Where the system knows no affinity of processes (macOS, Windows), all cores count.
  """
  if hasattr(os, 'sched_getaffinity'):
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1


def keep_freed_memory() -> bool:
  """Has glibc keep up to 2 GB of freed memory, and take blocks of up to 1 GB from one heap.

  On a CPU every call of a compiled step takes its temporary arrays again, tens or hundreds of
  megabytes. glibc returns blocks of that size to the system, which clears every page in the next
  call: a third of the processor's time of EfficientNet-Lite0 in batches of 16, a quarter of that
  of a training step of ResNet-20.

  To be called before JAX starts its threads, or TensorFlow is imported, whose threads would
  otherwise have heaps of small blocks. Changes nothing where the environment has a `MALLOC_...`.

  Returns:
    Whether the C library is glibc and took the settings.
  """
  if platform.libc_ver()[0] != 'glibc' or any(name.startswith('MALLOC_') for name in os.environ):
    return False
  mallopt = ctypes.CDLL(None).mallopt
  settings = {ARENA_MAX: 1, MMAP_THRESHOLD: FROM_HEAP_BYTES, TRIM_THRESHOLD: KEPT_BYTES}
  return all(mallopt(name, value) for name, value in settings.items())
