"""A training killed by SIGKILL and called again ends with the same bits."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import pytest

SCRIPT = pathlib.Path(__file__).with_name('interrupted_training.py')
ROOT = SCRIPT.parents[2]


def _start(directory, result, pause=0.0):
  return subprocess.Popen(
    [sys.executable, str(SCRIPT), str(directory), str(result), str(pause)],
    cwd=ROOT,
    env=_environment(),
    stderr=subprocess.PIPE,
    text=True,
  )


def _environment():
  """Without the settings of this process's devices: the child chooses its own."""
  return {
    **{k: v for k, v in os.environ.items() if k != 'JAX_NUM_CPU_DEVICES'},
    'PYTHONPATH': str(ROOT),
  }


def _finish(process):
  _, errors = process.communicate(timeout=240)
  assert process.returncode == 0, errors


def _steps(directory):
  return {int(path.name) for path in (directory / 'checkpoints').glob('*') if path.name.isdigit()}


def _kill_after_a_checkpoint(process, directory, beyond):
  deadline = time.monotonic() + 240
  while not any(step > beyond for step in _steps(directory)):
    assert process.poll() is None and time.monotonic() < deadline, process.stderr.read()
    time.sleep(0.01)
  process.kill()
  process.communicate()
  return max(_steps(directory))


@pytest.mark.slow
def test_sigkill_twice_then_the_same_bits(tmp_path):
  whole = _start(tmp_path / 'whole', tmp_path / 'whole.npz')
  cut, last = tmp_path / 'cut', 0
  for _ in range(2):
    last = _kill_after_a_checkpoint(_start(cut, tmp_path / 'cut.npz', 0.2), cut, last)
    assert last < 30
  _finish(_start(cut, tmp_path / 'cut.npz'))
  _finish(whole)
  with np.load(tmp_path / 'whole.npz') as first, np.load(tmp_path / 'cut.npz') as second:
    assert len(first.files) == len(second.files) > 0
    for name in first.files:
      assert first[name].tobytes() == second[name].tobytes()
