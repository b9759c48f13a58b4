"""Time and peak memory of the heat map as images × frequencies grow a hundredfold.

python -m benchmarks.scaling

Each size runs in a new process, records on disk and summed at the end; compilation is left
out of the time (a first shard is computed before). Linear time is a constant time a forward pass;
flat memory is a peak (resident set) that does not grow. Ratios are to the first size.
"""

from __future__ import annotations

import json
import pathlib
import resource
import tempfile
from collections.abc import Sequence

from benchmarks import subject, timing
from robustness.evaluation.records import Records
from robustness.studies.fourier_heatmap import FourierHeatmap

SIZES = ('1000x9', '1000x99', '2532x394')


def run_one(network_name: str, images: int, frequencies: int) -> dict[str, float]:
  """Runs one heat map in this process.

  Returns:
    `passes` through the network, `seconds`, `megabytes` of the process at its peak.
  """
  network = subject.classifier(network_name)
  rows = subject.rows(network.input_shape, images)
  evaluator = subject.evaluator(network, FourierHeatmap(), frequencies)
  layout = evaluator.layout(rows.num_examples)
  list(evaluator.shards(rows, layout, {0: [0]}))
  with tempfile.TemporaryDirectory() as folder:
    records = Records(pathlib.Path(folder), layout, {})
    taken = timing.seconds(lambda: evaluator.evaluate(rows, records))
    records.values(lambda shard: shard['rank'] > 0).sum(0)
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
  return {'passes': layout.num_rows * layout.num_views, 'seconds': taken, 'megabytes': peak}


def table(network: str, sizes: Sequence[str]) -> list[list[object]]:
  """Returns a row for each size."""
  runs = [
    timing.in_fresh_process('scaling', '--networks', network, '--only', size) for size in sizes
  ]
  times = [run['seconds'] / run['passes'] for run in runs]
  return [
    [
      network,
      int(run['passes']),
      f'{run["seconds"]:.2f}',
      f'{1e6 * t:.2f}',
      f'{t / times[0]:.2f}',
      f'{run["megabytes"]:.0f}',
      f'{run["megabytes"] / runs[0]["megabytes"]:.2f}',
    ]
    for run, t in zip(runs, times, strict=True)
  ]


def main(arguments: Sequence[str] | None = None) -> None:
  parser = subject.options(__doc__, networks=('small_cnn',), images=0)
  parser.add_argument('--sizes', nargs='+', default=list(SIZES), help='images x frequencies')
  parser.add_argument('--only', default='', help='one size, in this process; prints JSON')
  args = parser.parse_args(arguments)
  if args.only:
    print(json.dumps(run_one(args.networks[0], *map(int, args.only.split('x')))))
    return
  timing.print_table(
    (
      'network',
      'forward passes',
      'seconds',
      'µs a pass',
      'ratio of time a pass',
      'peak MB',
      'ratio of peak',
    ),
    [line for network in args.networks for line in table(network, args.sizes)],
  )


if __name__ == '__main__':
  subject.one_device_a_core()
  main()
