"""Training ÷ its bare step, and the bare step ÷ PyTorch's.

python -m benchmarks.training_throughput

The bare step is the compiled step on one batch on the devices. A training is the loop
that `main.py` runs, from its first finished step on: rows, checks, metrics and log lines, without
evaluations and checkpoints. Its rows are on the devices (`resident`), or are read with tf.data or
from arrays. PyTorch takes the steps of the same ResNet or airbench with the same batch, policy and
optimizer on rows in memory, in the better of its memory formats, and is compared with the bare
step. Its threads wait busily for each other: by the processor's clock compare on one core,
`taskset -c 0 python -m benchmarks.training_throughput --only torch --clock processor`. The
step's share of an accelerator's matrix rate is a table of `benchmarks.gpu_throughput`.
"""

import functools
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import subject, timing
from robustness import parallel
from robustness.core.rows import ArrayRows
from robustness.models import catalog
from robustness.models.airbench import WIDTHS as AIRBENCH
from robustness.training.loop import train
from robustness.training.training import Training

try:
  import torch

  from benchmarks import torch_networks
  from benchmarks.torch_training import torch_steps
except ImportError:
  torch = None  # type: ignore[assignment]


class Rate:
  """A writer of metrics that keeps a training's last rate, in images per second."""

  def __init__(self) -> None:
    self.images_per_second = 0.0

  def write_scalars(self, step: int, scalars: Mapping[str, Any]) -> None:
    """See `robustness.training.loop.ScalarWriter`."""
    self.images_per_second = scalars.get('train/images_per_second', self.images_per_second)

  def flush(self) -> None:
    """Does nothing."""


def training_rate(training: Training) -> float:
  """Trains, and returns the images per second after the first step, which compiles."""
  writer = Rate()
  devices = parallel.create('jit', training.settings.batch_size)
  with tempfile.TemporaryDirectory() as folder:
    train(training, directory=folder, parallel=devices, writer=writer)
  return writer.images_per_second


def tf_rows(rows: ArrayRows) -> Any:
  """Returns the same rows behind tf.data, or None without TensorFlow."""
  try:
    from input_pipeline.images import array_images
    from input_pipeline.rows import TfRows
    from input_pipeline.selection import select
    from input_pipeline.settings import DataSettings
  except ImportError:
    return None
  source = array_images(rows.images, rows.labels, rows.class_names, 'noise', rows.description)
  return TfRows(select(source, DataSettings()))


def read(rows: Any, batch: int, steps: int) -> None:
  """Reads `steps` training batches from rows and discards them."""
  source = rows.training_batches(batch, 0)
  for _ in range(steps):
    next(source)


def training_rates(
  name: str, batch: int, steps: int, rounds: int
) -> tuple[timing.Timings, list[tuple[str, str]]]:
  """Returns the times of trainings and of their bare step, and the pairs (label, reference).

  Trainings differ in where rows are: resident on the devices, in arrays, or behind tf.data.
  """
  rows = subject.stored_rows(catalog.get(name).input_shape, max(1, steps // 2) * batch)
  through_tf = tf_rows(rows)
  of_rows = functools.partial(subject.training, name, batch=batch, steps=steps)
  trainings = {
    'training, resident': of_rows(rows),
    'training, from arrays': of_rows(rows, resident_bytes=0),
  }
  if through_tf:
    trainings['training, tf.data'] = of_rows(through_tf, resident_bytes=0)
  step, images = subject.bare_steps(trainings['training, resident'], steps)
  step()
  seconds: dict[str, list[float]] = {}
  for _ in range(rounds):
    seconds.setdefault('bare step', []).append(timing.seconds(step))
    for label, training in trainings.items():
      seconds.setdefault(label, []).append(images / training_rate(training))
    if through_tf:
      reading = timing.seconds(functools.partial(read, through_tf, batch, steps))
      seconds.setdefault('tf.data alone', []).append(reading)
  pairs = [(label, 'bare step') for label in seconds if label != 'bare step']
  return timing.Timings(seconds, dict.fromkeys(seconds, images)), pairs


def torch_network(name: str) -> Any:
  """Returns the network of this name in PyTorch."""
  if name in AIRBENCH:
    return torch_networks.airbench(AIRBENCH[name])
  return torch_networks.ResNet(int(name.removeprefix('resnet')))


def torch_rates(
  name: str, batch: int, steps: int, rounds: int, clock: timing.Clock
) -> tuple[timing.Timings, list[tuple[str, str]]]:
  """Returns the times of bare training steps and of PyTorch's, and the pair (label, reference).

  PyTorch takes the faster of two memory formats, channels first and channels last.
  """
  rows = subject.stored_rows(catalog.get(name).input_shape, steps * batch)
  training = subject.training(name, rows, batch, steps)
  formats = {
    f'PyTorch{", channels last" if last else ""}': (
      functools.partial(torch_steps(torch_network(name), rows, training, last), steps),
      steps * batch,
    )
    for last in (False, True)
  }
  best = timing.fastest(formats, 1, clock)
  candidates = {best: formats[best], 'bare step': subject.bare_steps(training, steps)}
  return timing.alternate(candidates, rounds, clock), [('bare step', best)]


def table(
  name: str, batch: int, measured: tuple[timing.Timings, list[tuple[str, str]]]
) -> list[dict[str, object]]:
  """Returns a row of the table for each pair (label, reference) of a network's timings."""
  timings, pairs = measured
  return [
    {
      'network': name,
      'precision': 'float32',
      'batch': batch,
      'measured': label,
      'images/s': f'{timings.rate(label):.0f}',
      'reference': f'{reference}, {timings.rate(reference):.0f}',
      'ratio': timing.describe_ratio(timings.ratio(label, reference)),
      'load': f'{os.getloadavg()[0]:.1f}',
    }
    for label, reference in pairs
  ]


def main(arguments: Sequence[str] | None = None) -> None:
  """Prints the rates of trainings relative to their bare steps and to PyTorch."""
  parser = timing.options(__doc__, rounds=3, clock=True)
  parser.add_argument('--networks', nargs='+', default=['resnet20'], help='names of the catalog')
  parser.add_argument('--batches', type=int, nargs='+', default=[128], help='images a step')
  parser.add_argument('--steps', type=int, default=30)
  parser.add_argument('--only', default='', choices=('', 'loop', 'torch'), help='one comparison')
  args = parser.parse_args(arguments)
  lines: list[dict[str, object]] = []
  for name in args.networks:
    for batch in args.batches:
      if args.only != 'torch':
        lines += table(name, batch, training_rates(name, batch, args.steps, args.rounds))
      # PyTorch is compared on the networks that `torch_networks` has
      if args.only != 'loop' and torch is not None and name in (*subject.CIFAR_RESNETS, *AIRBENCH):
        clock = timing.CLOCKS[args.clock]
        lines += table(name, batch, torch_rates(name, batch, args.steps, args.rounds, clock))
  timing.print_table(lines)


if __name__ == '__main__':
  subject.one_device_and_thread_a_core()
  main()
