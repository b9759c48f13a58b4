"""One training by one process and by two: rows read, losses, weights, seconds.

python -m benchmarks.several_processes --networks small_cnn resnet20 --steps 200

Each of two processes has one device of the CPU, one process alone has two, so that both cut the
batch alike. The digits are read with tf.data, and the rows counted that each process is given.
Differences are the largest over all steps, or all weights; seconds are those of the training with
compilation.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

import input_pipeline
from benchmarks import timing
from input_pipeline.settings import DataSettings
from robustness import parallel
from robustness.augment.policy import Policy
from robustness.models import catalog
from robustness.models.inputs import Inputs
from robustness.parallel.processes import Processes, barrier
from robustness.training.loop import train
from robustness.training.settings import TrainingSettings
from robustness.training.step import Pipeline
from robustness.training.training import Training

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROCESSES = 2


class Losses:
  """A writer that keeps the loss of every step."""

  def __init__(self) -> None:
    self.values: list[float] = []

  def write_scalars(self, step: int, scalars: Any) -> None:
    """See `ScalarWriter`."""
    del step
    self.values.append(float(scalars['train/loss']))

  def flush(self) -> None:
    """Nothing waits."""


def work(given: argparse.Namespace, directory: pathlib.Path) -> int:
  """Trains in one of the processes, and leaves what it saw in a file."""
  way = parallel.create('jit', given.batch_size, all_processes=True)
  architecture = catalog.get(given.networks[0])
  rows = input_pipeline.load(DataSettings(source='digits', split='train'), 0)
  rows = rows.with_channels(architecture.input_shape[2])
  read: list[np.ndarray] = []

  def counted(batch_size: int, seed: int, start_step: int) -> Iterator[dict[str, Any]]:
    batches = rows.training_batches(batch_size, seed, start_step, *way.share)
    for batch in itertools.islice(batches, given.steps - start_step):
      read.append(batch['example_id'])
      yield batch

  training = Training(
    model=architecture.build(10, axis_name=way.axis_name),
    batches=counted,
    num_examples=rows.num_examples,
    image_shape=rows.image_shape,
    inputs=Inputs(architecture.mean, architecture.std),
    settings=TrainingSettings(
      steps=given.steps,
      batch_size=given.batch_size,
      learning_rate=0.02,
      log_every_steps=1,
      checkpoint_every_steps=given.steps,
    ),
    pipeline=Pipeline(Policy.of(crop={'padding': 2})),
  )
  losses, begin = Losses(), time.monotonic()
  variables = train(training, directory=directory, parallel=way, writer=losses)
  np.savez(
    directory / f'process{way.share[0]}.npz',
    *jax.tree.leaves(variables),
    losses=losses.values,
    read=np.concatenate(read),
    seconds=time.monotonic() - begin,
  )
  barrier('the figures')
  return 0


def run(given: argparse.Namespace, network: str, count: int) -> list[dict[str, np.ndarray]]:
  """Returns what each of some processes saw."""
  with socket.socket() as port, tempfile.TemporaryDirectory() as folder:
    port.bind(('127.0.0.1', 0))
    address = f'127.0.0.1:{port.getsockname()[1]}'
    port.close()
    command = [sys.executable, '-m', 'benchmarks.several_processes', '--networks', network]
    command += [f'--steps={given.steps}', f'--batch_size={given.batch_size}']
    command += [f'--directory={folder}', f'--coordinator={address}', f'--count={count}']
    started = [subprocess.Popen([*command, f'--index={k}'], cwd=ROOT) for k in range(count)]
    statuses = [process.wait() for process in started]
    assert not any(statuses), statuses
    results = []
    for index in range(count):
      with np.load(pathlib.Path(folder) / f'process{index}.npz') as file:
        results.append(dict(file))
    return results


def line(given: argparse.Namespace, network: str) -> list[object]:
  """Returns a row of the table."""
  (alone,), several = run(given, network, 1), run(given, network, PROCESSES)
  arrays = [name for name in alone if name.startswith('arr_')]
  weights = max(np.abs(s[name] - alone[name]).max() for s in several for name in arrays)
  rows = np.stack([s['read'].reshape(given.steps, -1) for s in several], 1).ravel()
  return [
    network,
    len(alone['read']),
    ' '.join(str(len(s['read'])) for s in several),
    bool((rows == alone['read']).all()),
    f'{np.abs(several[0]["losses"] - alone["losses"]).max():.1e}',
    f'{weights:.1e}',
    f'{float(alone["seconds"]):.0f}',
    f'{float(several[0]["seconds"]):.0f}',
    f'{float(several[0]["seconds"] / alone["seconds"]):.2f}',
  ]


def main(arguments: Sequence[str] | None = None) -> None:
  parser = timing.options(__doc__)
  parser.add_argument('--networks', nargs='+', default=['small_cnn'])
  parser.add_argument('--steps', type=int, default=200)
  parser.add_argument('--batch_size', type=int, default=64)
  for name, default in (('directory', ''), ('coordinator', ''), ('count', 1), ('index', 0)):
    parser.add_argument(f'--{name}', type=type(default), default=default, help=argparse.SUPPRESS)
  given = parser.parse_args(arguments)
  if given.directory:
    jax.config.update('jax_platforms', 'cpu')
    jax.config.update('jax_num_cpu_devices', PROCESSES // given.count)
    processes = Processes(given.coordinator, given.count, given.index)
    processes.join()
    sys.exit(processes.end_together(lambda: work(given, pathlib.Path(given.directory))))
  timing.print_table(
    (
      'network',
      'rows read by one',
      'by each of several',
      'the same rows',
      'largest difference of losses',
      'of weights',
      'seconds of one',
      'of several',
      'ratio',
    ),
    [line(given, network) for network in given.networks],
  )


if __name__ == '__main__':
  main()
