"""A training in a process of its own, for `resume_test`."""

from __future__ import annotations

import pathlib
import sys
import time

import jax
import numpy as np

from robustness import parallel
from robustness.augment.policy import Policy
from robustness.core.rows import ArrayRows
from robustness.models import catalog
from robustness.training import Pipeline, Training, TrainingSettings, train
from robustness.training.writers import JsonLinesWriter


def _task(pause: float) -> Training:
  generator = np.random.default_rng(1)
  images = generator.uniform(size=(200, 12, 12, 1)).astype(np.float32)
  rows = ArrayRows(images, generator.integers(0, 4, 200), tuple('abcd'))

  def batches(batch_size, seed, start_step):
    for batch in rows.training_batches(batch_size, seed, start_step):
      time.sleep(pause)
      yield batch

  return Training(
    model=catalog.get('small_cnn').build(4),
    batches=batches,
    num_examples=200,
    image_shape=(12, 12, 1),
    seed=7,
    settings=TrainingSettings(steps=30, batch_size=32, checkpoint_every_steps=3),
    pipeline=Pipeline(Policy.of(flip={}, crop={'padding': 2}, gaussian={'sigma': 0.1})),
  )


def main() -> None:
  """Trains; arguments: directory, file for the variables, seconds to wait before a step."""
  directory, result, pause = sys.argv[1:]
  jax.config.update('jax_num_cpu_devices', 2)
  pathlib.Path(directory).mkdir(parents=True, exist_ok=True)
  variables = train(
    _task(float(pause)),
    directory=directory,
    parallel=parallel.create('jit'),
    writer=JsonLinesWriter(pathlib.Path(directory) / 'log.jsonl'),
  )
  np.savez(result, *jax.tree.leaves(variables))


if __name__ == '__main__':
  main()
