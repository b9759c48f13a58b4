"""No image of a held-out cell reaches a step: every pair of class and environment, counted.

This file is also the program of the two processes of a test. The objective counts in the train
state, which checkpoints hold, so that the count continues after a resume. The pixels of an image
show its environment.
"""

import functools
import itertools
import pathlib
from collections.abc import Iterator
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness import parallel
from robustness.augment.policy import Policy
from robustness.core.rows import ArrayRows
from robustness.environments.balance import balanced
from robustness.environments.class_groups import by_name, with_groups
from robustness.objectives import Arrays, Minimised, Objective, State, Total
from robustness.parallel.mesh import MeshParallel
from robustness.parallel.processes import barrier
from robustness.training.checkpoint import Checkpoints
from robustness.training.loop import train
from robustness.training.settings import TrainingSettings
from robustness.training.training import Pipeline, Training
from robustness.training.writers import JsonLinesWriter
from tests.parallel.pairs import run_two, take_part
from tests.training.conftest import ReadBy

NAMES = tuple('abcde')
GROUPS = by_name((('a', 'b'), ('c',)), NAMES)
PERMITTED = {*((label, 0) for label in range(5)), (0, 1), (1, 1), (2, 2)}
STEPS, BATCH, STOP, SAVED = 15, 24, 8, 5
CLEAN = np.zeros((4, 4, 1), np.float32)
CLEAN[0, 0] = 1
SHOWN = (CLEAN, np.rot90(CLEAN).copy())
"""The image of every row, and what rotation by 90° makes of it; noise makes neither."""


class StoppedError(Exception):
  """Ends a training in between."""


class Counted(Objective):
  """Counts images by class and environment: clean, rotated, neither."""

  name = 'counted'  # also where this file is the program

  def initial_state(self, num_classes: int) -> State:
    return {'counts': jnp.zeros((num_classes, 3), jnp.int32)}

  def __call__(self, outputs: Arrays, batch: Arrays, state: State, total: Total) -> Minimised:
    clean, rotated = ((batch['image'] == x[None]).all((1, 2, 3)) for x in SHOWN)
    environment = jnp.where(clean, 0, jnp.where(rotated, 1, 2))
    pairs = jax.nn.one_hot(batch['label'], len(NAMES), dtype=jnp.int32)[:, :, None]
    pairs = pairs * jax.nn.one_hot(environment, 3, dtype=jnp.int32)[:, None]
    losses = outputs['logits'].sum(-1)
    counts = state['counts'] + total(pairs.sum(0))
    return losses, jnp.ones_like(losses), {'counts': counts}, {}


class Linear(nn.Module):
  """Logits of the pixels."""

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    del train
    return nn.Dense(len(NAMES))(x.reshape(len(x), -1))


def training(column: str, stop: int = STEPS) -> Training:
  """Returns a training on 40 rows; reading them fails at the step `stop`."""
  images = np.repeat(CLEAN[None], 40, 0)
  rows = with_groups(ArrayRows(images, np.arange(40) % 5, NAMES), GROUPS)
  transforms = ('rotation', 'gaussian_noise')
  environment = {'transforms': transforms, 'angles': (90,), 'severities': (5,)}
  order = balanced(column, rows, transforms, 3)

  def read(every: Iterator[dict[str, Any]], start_step: int) -> Iterator[dict[str, Any]]:
    yield from itertools.islice(every, stop - start_step)
    if stop < STEPS:
      raise StoppedError

  saved = {'checkpoint_every_steps': SAVED, 'balanced': column, 'resident_bytes': 0}
  return Training(
    model=Linear(),
    rows=ReadBy(rows, read),
    settings=TrainingSettings(steps=STEPS, batch_size=BATCH, **saved),
    pipeline=Pipeline(Policy.of(environment=environment), objective=Counted()),
    seed=3,
    sampler=order,
  )


def run(balanced: str, devices: Any, directory: pathlib.Path) -> None:
  """Trains, stops after a checkpoint, and resumes."""
  directory.mkdir(parents=True, exist_ok=True)
  writer = JsonLinesWriter(directory / f'log{devices.share[0]}.jsonl')
  begin = functools.partial(train, directory=directory, parallel=devices, writer=writer)
  with pytest.raises(StoppedError):
    begin(training(balanced, STOP))
  begin(training(balanced))


def counts_of(balanced: str, directory: pathlib.Path) -> np.ndarray:
  """Returns how many images the finished training saw by class and environment, [5, 3]."""
  task = training(balanced)
  with Checkpoints(directory, task.facts({})) as checkpoints:
    state = checkpoints.restore(task.state_shapes())
  assert state is not None and int(state.step) == STEPS
  return np.asarray(state.objective['counts'])


def _check(counts: np.ndarray) -> None:
  assert counts.sum() == STEPS * BATCH
  assert {(int(label), int(k)) for label, k in np.argwhere(counts)} == PERMITTED


@pytest.mark.slow
@pytest.mark.parametrize('balanced', ['', 'environment'])
def test_over_a_resume(tmp_path, balanced):
  run(balanced, MeshParallel(jax.devices()[:2]), tmp_path)
  counts = counts_of(balanced, tmp_path)
  _check(counts)
  if balanced:
    np.testing.assert_array_equal(counts.sum(0), [STEPS * BATCH / 3] * 3)


@pytest.mark.slow
def test_over_two_processes_and_a_resume(tmp_path):
  run_two('-m', 'tests.environments.held_out_cells_test', more=('', tmp_path / 'two'))
  run('', MeshParallel(jax.devices()[:2]), tmp_path / 'one')
  counts = counts_of('', tmp_path / 'two')
  _check(counts)
  np.testing.assert_array_equal(counts, counts_of('', tmp_path / 'one'))


def work(balanced: str, directory: str) -> int:
  run(balanced, parallel.create('jit', BATCH, all_processes=True), pathlib.Path(directory))
  barrier('the end')
  return 0


if __name__ == '__main__':
  take_part(work)
