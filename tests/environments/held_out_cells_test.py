"""No image of a held-out cell reaches a step: every pair of class and environment, counted."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest

from robustness.parallel.mesh import MeshParallel
from tests.end_to_end.runs import free_port
from tests.environments import counted_training
from tests.environments.counted_training import BATCH, PERMITTED, STEPS

ROOT = pathlib.Path(__file__).resolve().parents[2]


def _two(balanced: str, directory: pathlib.Path) -> None:
  kept = {k: v for k, v in os.environ.items() if k != 'JAX_NUM_CPU_DEVICES'}
  program = [sys.executable, '-m', counted_training.__name__, f'127.0.0.1:{free_port()}']
  both = [
    subprocess.Popen(
      [*program, str(number), balanced, str(directory)],
      cwd=ROOT,
      env=kept,
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
    )
    for number in range(2)
  ]
  for process in both:
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output


def _check(counts: np.ndarray) -> None:
  assert counts.sum() == STEPS * BATCH
  assert {(int(label), int(k)) for label, k in np.argwhere(counts)} == PERMITTED


@pytest.mark.parametrize('balanced', ['', 'environment'])
def test_over_a_resume(tmp_path: pathlib.Path, balanced: str) -> None:
  counted_training.run(balanced, MeshParallel(jax.devices()[:2]), tmp_path)
  counts = counted_training.counts(balanced, tmp_path)
  _check(counts)
  if balanced:
    np.testing.assert_array_equal(counts.sum(0), [STEPS * BATCH / 3] * 3)


@pytest.mark.slow
def test_over_two_processes_and_a_resume(tmp_path: pathlib.Path) -> None:
  _two('', tmp_path / 'two')
  counted_training.run('', MeshParallel(jax.devices()[:2]), tmp_path / 'one')
  counts = counted_training.counts('', tmp_path / 'two')
  _check(counts)
  np.testing.assert_array_equal(counts, counted_training.counts('', tmp_path / 'one'))
