"""Freed memory is kept; usable cores are counted with and without affinity."""

from __future__ import annotations

import os
import pathlib
import platform
import subprocess
import sys

import pytest

from robustness.core.host import usable_cores

ROOT = pathlib.Path(__file__).resolve().parents[2]
WITHOUT_AFFINITY = """
import os, runpy, sys
del os.sched_getaffinity, os.sched_setaffinity
sys.argv = ['main.py', *sys.argv[1:]]
runpy.run_path('main.py', run_name='__main__')
"""
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


def test_affinity_counts_where_the_system_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
  monkeypatch.setattr(os, 'sched_getaffinity', lambda process: {2, 5, 7}, raising=False)
  assert usable_cores() == 3


@pytest.mark.parametrize(('count', 'expected'), [(6, 6), (None, 1)])
def test_all_cores_count_elsewhere(
  monkeypatch: pytest.MonkeyPatch, count: int | None, expected: int
) -> None:
  monkeypatch.delattr(os, 'sched_getaffinity', raising=False)
  monkeypatch.setattr(os, 'cpu_count', lambda: count)
  assert usable_cores() == expected


@pytest.mark.slow
def test_main_runs_on_a_system_without_affinity(tmp_path: pathlib.Path) -> None:
  flags = [
    '--config=configs/corruption_spectrum.py',
    f'--workdir={tmp_path}',
    '--config.data.num_images=8',
    "--config.study.corruptions=('brightness',)",
    '--config.study.severities=(1,)',
  ]
  ended = subprocess.run(
    [sys.executable, '-c', WITHOUT_AFFINITY, *flags], cwd=ROOT, capture_output=True, text=True
  )
  assert ended.returncode == 0, ended.stderr[-2000:]
  assert (tmp_path / 'report.html').exists()
