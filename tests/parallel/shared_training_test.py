"""Two processes that train one network read half of the rows each and get the weights of one.

This file is also the program of the two processes.
"""

import itertools
import json
import pathlib
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

from robustness import parallel
from robustness.augment.policy import Policy
from robustness.core.rows import ArrayRows
from robustness.models.inputs import Inputs
from robustness.parallel.mesh import MeshParallel
from robustness.parallel.processes import barrier
from robustness.training.loop import train
from robustness.training.settings import TrainingSettings
from robustness.training.training import Pipeline, Training
from robustness.training.writers import JsonLinesWriter
from tests.parallel.pairs import run_two, take_part
from tests.training.conftest import ReadBy, TinyNet, separable_rows

STEPS, BATCH = 200, 16


def run(
  devices: Any, rows: ArrayRows, directory: pathlib.Path
) -> tuple[list[np.ndarray], list[int]]:
  """Trains and returns the final variables and the ids of the examples that this process read."""
  read: list[int] = []

  def counted(shares: Iterator[dict[str, Any]], start_step: int) -> Iterator[dict[str, Any]]:
    for batch in itertools.islice(shares, STEPS - start_step):
      read.extend(batch['example_id'].tolist())
      yield batch

  training = Training(
    model=TinyNet(axis_name=devices.axis_name),
    rows=ReadBy(rows, counted),
    inputs=Inputs((0.4, 0.5, 0.6), (0.2, 0.25, 0.3)),
    settings=TrainingSettings(
      steps=STEPS,
      batch_size=BATCH,
      learning_rate=0.1,
      checkpoint_every_steps=50,
      accumulate=2,
      resident_bytes=0,
    ),
    pipeline=Pipeline(Policy.of(flip={}, crop={'padding': 1}, mixup={'alpha': 0.4})),
    seed=3,
  )
  directory.mkdir(parents=True, exist_ok=True)
  writer = JsonLinesWriter(directory / f'log{devices.share[0]}.jsonl')
  variables = train(training, directory=directory, parallel=devices, writer=writer)
  return jax.tree.leaves(variables), read


def _run_two(kind: str, directory: pathlib.Path) -> list[dict[str, np.ndarray]]:
  run_two('-m', 'tests.parallel.shared_training_test', arguments=(kind, directory))
  results = []
  for index in range(2):
    with np.load(directory / f'result{index}.npz') as file:
      results.append(dict(file))
  return results


def _losses(directory: pathlib.Path) -> list[float]:
  lines = (directory / 'log0.jsonl').read_text().splitlines()
  return [json.loads(line)['train/loss'] for line in lines]


@pytest.fixture(scope='module')
def alone(tmp_path_factory):
  """The variables, example ids and losses of one process on two devices."""
  directory = tmp_path_factory.mktemp('alone')
  devices = MeshParallel(jax.devices()[:2])
  variables, read = run(devices, separable_rows(), directory)
  return variables, read, _losses(directory)


@pytest.mark.slow
@pytest.mark.parametrize('kind', ['jit', 'pmap'])
def test_two_processes_give_the_weights_of_one_and_read_half_each(alone, tmp_path, kind):
  variables, read, losses = alone
  results = _run_two(kind, tmp_path)
  assert [len(result['read']) for result in results] == [len(read) // 2] * 2
  together = np.stack([result['read'].reshape(200, -1) for result in results], 1)
  np.testing.assert_array_equal(together.ravel(), read)
  for result in results:
    for number, expected in enumerate(variables):
      np.testing.assert_allclose(result[f'arr_{number}'], expected, atol=1e-5)
  np.testing.assert_allclose(_losses(tmp_path), losses, atol=1e-5)
  assert {path.name for path in (tmp_path / 'checkpoints').iterdir()} == {'150', '200'}


def work(kind: str, directory: str) -> int:
  devices = parallel.create(kind, BATCH // 2, all_processes=True)
  variables, read = run(devices, separable_rows(), pathlib.Path(directory))
  np.savez(f'{directory}/result{devices.share[0]}.npz', *variables, read=np.array(read))
  barrier('the results')
  return 0


if __name__ == '__main__':
  take_part(work)
