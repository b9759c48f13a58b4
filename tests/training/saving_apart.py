"""One of two processes that save their own networks at the same time, for `saving_apart_test`."""

from __future__ import annotations

import pathlib
import sys

import jax
import numpy as np

from robustness.parallel.meeting import meet
from robustness.parallel.processes import Processes
from robustness.training.checkpoint import Checkpoints
from robustness.training.training import Training, TrainingSettings
from tests.training.conftest import TinyNet, separable_rows

SAVES = 40


def state():
  """A small network's."""
  rows = separable_rows()
  task = Training(
    model=TinyNet(axis_name=None),
    batches=lambda *_: iter(()),
    num_examples=rows.num_examples,
    image_shape=rows.image_shape,
    settings=TrainingSettings(steps=SAVES, batch_size=8, learning_rate=0.1),
    seed=3,
  )
  return task.initial_state()


def main(address: str, index: int, directory: pathlib.Path) -> None:
  """Joins the other process and saves over and over."""
  Processes(address, 2, index).join()
  saved = state()
  meet('the first save')
  with Checkpoints(directory / str(index), {}, {'seed': 0}) as checkpoints:
    for step in range(1, SAVES + 1):
      checkpoints.save(saved.replace(step=np.int32(step)), 8 * step)
    checkpoints.wait()
  meet('the end')


if __name__ == '__main__':
  jax.config.update('jax_platforms', 'cpu')
  jax.config.update('jax_num_cpu_devices', 1)
  main(sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3]))
