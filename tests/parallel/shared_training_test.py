"""Two processes train one network: one process's weights, half of the rows each."""

from __future__ import annotations

import json
import pathlib

import jax
import numpy as np
import pytest

from robustness.parallel.mesh import MeshParallel
from tests.parallel import shared_training
from tests.parallel.pairs import run_two
from tests.training.conftest import separable_rows


def _two(kind: str, directory: pathlib.Path) -> list[dict[str, np.ndarray]]:
  run_two('-m', shared_training.__name__, more=(kind, directory))
  results = []
  for index in range(2):
    with np.load(directory / f'result{index}.npz') as file:
      results.append(dict(file))
  return results


def _losses(directory: pathlib.Path) -> list[float]:
  lines = (directory / 'log0.jsonl').read_text().splitlines()
  return [json.loads(line)['train/loss'] for line in lines]


@pytest.fixture(scope='module')
def alone(tmp_path_factory: pytest.TempPathFactory):
  """One process on two devices."""
  directory = tmp_path_factory.mktemp('alone')
  way = MeshParallel(jax.devices()[:2])
  variables, read = shared_training.run(way, separable_rows(), directory)
  return variables, read, _losses(directory)


@pytest.mark.slow
@pytest.mark.parametrize('kind', ['jit', 'pmap'])
def test_two_processes_give_the_weights_of_one_and_read_half_each(
  alone, tmp_path: pathlib.Path, kind: str
) -> None:
  variables, read, losses = alone
  both = _two(kind, tmp_path)
  assert [len(result['read']) for result in both] == [len(read) // 2] * 2
  together = np.stack([result['read'].reshape(200, -1) for result in both], 1)
  np.testing.assert_array_equal(together.ravel(), read)
  for result in both:
    for number, expected in enumerate(variables):
      np.testing.assert_allclose(result[f'arr_{number}'], expected, atol=1e-5)
  np.testing.assert_allclose(_losses(tmp_path), losses, atol=1e-5)
  assert {path.name for path in (tmp_path / 'checkpoints').iterdir()} == {'150', '200'}
