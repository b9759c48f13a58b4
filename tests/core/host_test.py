"""Tests that freed memory is reused, and the number of usable cores."""

import os
import platform
import subprocess
import sys

import pytest

from robustness.core.host import usable_cores

COUNT_PAGE_FAULTS = """
import resource, sys, threading
import numpy as np
from robustness.core import host

if sys.argv[1] == 'kept':
  assert host.keep_freed_memory()

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
def test_freed_memory_is_reused_without_page_faults():
  commands = [[sys.executable, '-c', COUNT_PAGE_FAULTS, mode] for mode in ('kept', 'returned')]
  with_setting, without = (int(subprocess.check_output(command)) for command in commands)
  assert with_setting < without / 10


def test_usable_cores_follow_affinity_if_the_system_has_it(monkeypatch):
  monkeypatch.setattr(os, 'sched_getaffinity', lambda process: {2, 5, 7}, raising=False)
  assert usable_cores() == 3
  monkeypatch.delattr(os, 'sched_getaffinity')
  for count, expected in ((6, 6), (None, 1)):
    monkeypatch.setattr(os, 'cpu_count', lambda count=count: count)
    assert usable_cores() == expected
