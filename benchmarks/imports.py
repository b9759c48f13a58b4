"""What importing parts of the project costs, beside NumPy and TensorFlow, as a ratio to JAX.

python -m benchmarks.imports

Every import is made in a fresh process, one module after another in rounds; what a bare interpreter
takes is taken off.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Sequence

from benchmarks import timing

REFERENCE = 'jax'
MODULES = (
  'numpy',
  'tensorflow',
  'input_pipeline',
  'input_pipeline.builders',
  'robustness.corruptions',
  'robustness.__main__',
  'robustness.run',
)


def run(code: str) -> None:
  subprocess.run([sys.executable, '-c', code], check=True, stderr=subprocess.DEVNULL)


def main(arguments: Sequence[str] | None = None) -> None:
  parser = timing.options(__doc__, rounds=3)
  parser.add_argument('--modules', nargs='+', default=MODULES)
  given = parser.parse_args(arguments)
  codes = {'': 'pass', **{name: f'import {name}' for name in (REFERENCE, *given.modules)}}
  taken: dict[str, list[float]] = {name: [] for name in codes}
  for _ in range(given.rounds):
    for name, code in codes.items():
      taken[name].append(timing.seconds(lambda code=code: run(code)))
  medians = {name: statistics.median(values) for name, values in taken.items()}
  cost = {name: max(0.0, value - medians['']) for name, value in medians.items() if name}
  timing.print_table(
    ['import', 'seconds', 'ratio to jax'],
    [[name, f'{value:.2f}', f'{value / cost[REFERENCE]:.2f}'] for name, value in cost.items()],
  )


if __name__ == '__main__':
  main()
