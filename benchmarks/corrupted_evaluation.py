"""Throughput of corruption and forward pass ÷ forward pass alone, for each corruption.

python -m benchmarks.corrupted_evaluation
python -m benchmarks.corrupted_evaluation --networks resnet50 --images 512

The step is that of the study `corruption_error` with its corruptions, all 19 by default, at
severity 3 in one compilation, whose time is printed; it corrupts, predicts and ranks. `alone` is
the making of the images without a network. The goal is .8 for all but glass_blur on an accelerator.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from benchmarks import subject, timing
from robustness import parallel
from robustness.core import random_keys
from robustness.core.rows import numeric_columns
from robustness.corruptions import NAMES
from robustness.evaluation.runner import Evaluator
from robustness.parallel.mesh import BATCH, REPLICATED
from robustness.studies.corruption_error import CorruptionError

SEVERITY = 3


def measure(
  name: str, images: int, rounds: int, corruptions: Sequence[str]
) -> tuple[list[list[object]], float]:
  """Returns a row for each corruption, and the seconds that the one compilation takes."""
  network = subject.classifier(name)
  rows = subject.rows(network.input_shape, images)
  study = CorruptionError(corruptions=tuple(corruptions), severities=(SEVERITY,))
  devices = parallel.create('jit')
  evaluator = Evaluator(
    network, study.views(rows.image_shape), random_keys.stream(0, study.name), devices
  )
  layout = evaluator.layout(rows.num_examples, images, 1)
  batch = numeric_columns(next(rows.batches(layout.block_rows)))
  placed, variables = devices.put_batch(batch), devices.replicate(network.variables)
  predict = devices.compile(
    lambda weights, x: network.forward(weights, x['image'], ())[0], (REPLICATED, BATCH), BATCH
  )
  show = devices.compile(evaluator.show, (REPLICATED, BATCH, REPLICATED), BATCH)
  chunks = {
    corruption: evaluator._chunk(layout, 1 + index) for index, corruption in enumerate(study.names)
  }

  def run(call: object, *arguments: object) -> object:
    return jax.block_until_ready(call(*arguments))  # type: ignore[operator]

  begun = time.perf_counter()
  run(evaluator.run, variables, placed, chunks[study.names[0]])
  compiling = time.perf_counter() - begun
  table = []
  for corruption, chunk in chunks.items():
    view = devices.replicate(jax.tree.map(lambda x: jnp.asarray(x)[0], chunk))
    timings = timing.alternate(
      {
        'forward': (lambda: run(predict, variables, placed), images),
        'corrupted': (lambda c=chunk: run(evaluator.run, variables, placed, c), images),
        'alone': (lambda v=view: run(show, variables, placed, v), images),
      },
      rounds,
    )
    table.append(
      [
        corruption,
        f'{timings.rate("alone"):.0f}',
        f'{timings.rate("corrupted"):.1f}',
        timing.describe_ratio(timings.ratio('corrupted', 'forward')),
      ]
    )
  return table, compiling


def main(arguments: Sequence[str] | None = None) -> None:
  """Prints a table for each network."""
  parser = subject.options(__doc__, networks=('resnet50',), images=8, rounds=3)
  parser.add_argument('--corruptions', nargs='+', default=list(NAMES))
  given = parser.parse_args(arguments)
  for name in given.networks:
    table, compiling = measure(name, given.images, given.rounds, given.corruptions)
    print(
      f'{name}, severity {SEVERITY}: {compiling:.0f} s for the first step, which compiles '
      f'{len(given.corruptions)} corruptions with the network'
    )
    timing.print_table(
      ('corruption', 'alone, images/s', 'with forward, images/s', 'ratio to forward alone'), table
    )


if __name__ == '__main__':
  subject.one_device_a_core()
  main()
