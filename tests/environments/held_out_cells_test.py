"""No image of a held-out cell reaches a step: every pair of class and environment, counted."""

from __future__ import annotations

import pathlib

import jax
import numpy as np
import pytest

from robustness.parallel.mesh import MeshParallel
from tests.environments import counted_training
from tests.environments.counted_training import BATCH, PERMITTED, STEPS
from tests.parallel.pairs import run_two


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
  run_two('-m', counted_training.__name__, more=('', tmp_path / 'two'))
  counted_training.run('', MeshParallel(jax.devices()[:2]), tmp_path / 'one')
  counts = counted_training.counts('', tmp_path / 'two')
  _check(counts)
  np.testing.assert_array_equal(counts, counted_training.counts('', tmp_path / 'one'))
