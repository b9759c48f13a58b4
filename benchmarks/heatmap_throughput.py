"""Heat-map throughput ÷ plain forward throughput of the same network at its best batch.

python -m benchmarks.heatmap_throughput
python -m benchmarks.heatmap_throughput --networks resnet20 --weights FILE --data IMAGES.npz

Both run on all devices. Forward is `lax.map` over batches of ready images inside one jit, at the
best of several batch sizes; the heat map makes its perturbed images in the step, ranks the classes
and brings its records to the host, or to the disk as in a real run. The goal is 0.9.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchmarks import subject, timing

NETWORKS = ('small_cnn', 'resnet20')
SIZES = (16, 32, 64, 128, 256)


def measure(name: str, given: argparse.Namespace) -> list[object]:
  """Returns the row of one network."""
  evaluator, rows = subject.heat_map(name, given)
  heat_map = subject.discarded(evaluator, rows)
  forwards = subject.forwards(evaluator, rows, given.sizes, min(int(heat_map[1]), 4096))
  best = int(timing.fastest(forwards).split()[1])
  timings = timing.alternate(
    {
      'forward': subject.forward(evaluator, rows, best, int(heat_map[1])),
      'heat map': heat_map,
      'written': subject.written(evaluator, rows),
    },
    given.rounds,
  )
  return [
    name,
    best,
    f'{timings.rate("forward"):.0f}',
    f'{timings.rate("heat map"):.0f}',
    timing.describe_ratio(timings.ratio('heat map', 'forward')),
    timing.describe_ratio(timings.ratio('written', 'forward')),
  ]


def main(arguments: Sequence[str] | None = None) -> None:
  parser = subject.options(__doc__, networks=NETWORKS, images=1000, frequencies=64, rounds=5)
  parser.add_argument('--sizes', type=int, nargs='+', default=list(SIZES), help='images a device')
  given = parser.parse_args(arguments)
  timing.print_table(
    (
      'network',
      'best batch a device',
      'forward, images/s',
      'heat map, images/s',
      'ratio, records discarded',
      'ratio, records written',
    ),
    [measure(name, given) for name in given.networks],
  )


if __name__ == '__main__':
  subject.one_device_a_core()
  main()
