"""The number of usable cores, on systems with and without affinity."""

import os
import pathlib
import subprocess
import sys

import pytest

from robustness.core.cores import usable_cores

ROOT = pathlib.Path(__file__).resolve().parents[2]
WITHOUT_AFFINITY = """
import os, runpy, sys
del os.sched_getaffinity, os.sched_setaffinity
sys.argv = ['main.py', *sys.argv[1:]]
runpy.run_path('main.py', run_name='__main__')
"""


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
