"""One of the processes that train a network together, for `shared_training_test`."""

from __future__ import annotations

import itertools
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from robustness import parallel
from robustness.augment.policy import Policy
from robustness.core.rows import ArrayRows
from robustness.models.inputs import Inputs
from robustness.parallel.processes import Processes, barrier
from robustness.training import Pipeline, Training, TrainingSettings, train
from robustness.training.writers import JsonLinesWriter
from tests.training.conftest import TinyNet, separable_rows

STEPS, BATCH = 200, 16


def run(way: Any, rows: ArrayRows, directory: pathlib.Path) -> tuple[list[np.ndarray], list[int]]:
  """Trains; returns the final variables and the examples that this process was given."""
  read: list[int] = []
  index, count = way.share

  def counted(batch_size: int, seed: int, start_step: int) -> Iterator[dict[str, Any]]:
    shares = rows.training_batches(batch_size, seed, start_step, index, count)
    for batch in itertools.islice(shares, STEPS - start_step):
      read.extend(batch['example_id'].tolist())
      yield batch

  training = Training(
    model=TinyNet(axis_name=way.axis_name),
    batches=counted,
    num_examples=rows.num_examples,
    image_shape=rows.image_shape,
    inputs=Inputs((0.4, 0.5, 0.6), (0.2, 0.25, 0.3)),
    settings=TrainingSettings(
      steps=STEPS, batch_size=BATCH, learning_rate=0.1, checkpoint_every_steps=50, accumulate=2
    ),
    pipeline=Pipeline(Policy.of(flip={}, crop={'padding': 1}, mixup={'alpha': 0.4})),
    seed=3,
  )
  directory.mkdir(parents=True, exist_ok=True)
  writer = JsonLinesWriter(directory / f'log{index}.jsonl')
  variables = train(training, directory=directory, parallel=way, writer=writer)
  return jax.tree.leaves(variables), read


def main() -> None:
  """Arguments: coordinator, this process's number of two, kind, directory."""
  coordinator, index, kind, directory = sys.argv[1:]
  jax.config.update('jax_platforms', 'cpu')
  jax.config.update('jax_num_cpu_devices', 1)
  work: Callable[[], int] = lambda: _work(kind, pathlib.Path(directory))  # noqa: E731
  processes = Processes(coordinator, 2, int(index))
  processes.join()
  sys.exit(processes.end_together(work))


def _work(kind: str, directory: pathlib.Path) -> int:
  way = parallel.create(kind, BATCH // 2, all_processes=True)
  variables, read = run(way, separable_rows(), directory)
  np.savez(directory / f'result{way.share[0]}.npz', *variables, read=np.array(read))
  barrier('the results')
  return 0


if __name__ == '__main__':
  main()
