"""Memory that a large array gave back is taken again without the system clearing it."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

COUNT_PAGE_FAULTS = """
import resource, sys, threading
import numpy as np
from robustness.core import allocator

if sys.argv[1] == 'kept':
  assert allocator.keep_freed_memory()

def take():
  for _ in range(5):
    np.ones(2**24)  # 128 MB

def faults():
  before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
  thread = threading.Thread(target=take)
  thread.start()
  thread.join()
  return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
print(faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != 'glibc', reason='the settings are those of glibc')
def test_freed_memory_is_kept() -> None:
  faults = {
    how: int(
      subprocess.run(
        [sys.executable, '-c', COUNT_PAGE_FAULTS, how], check=True, capture_output=True, text=True
      ).stdout
    )
    for how in ('kept', 'returned')
  }
  assert faults['kept'] < faults['returned'] / 10
