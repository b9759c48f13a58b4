"""What importing parts of the project costs, beside NumPy and TensorFlow, as a ratio to JAX.

python -m benchmarks.imports

Every import is made in a fresh process, one module after another in rounds; what a bare interpreter
takes is taken off.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Sequence

import numpy as np

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
  candidates = {name: (functools.partial(run, code), 1.0) for name, code in codes.items()}
  timings = timing.alternate(candidates, given.rounds, cold=candidates)
  bare, *taken = (float(np.median(timings.seconds[name])) for name in codes)
  cost = {name: max(0.0, value - bare) for name, value in zip([*codes][1:], taken, strict=True)}
  timing.print_table(
    ['import', 'seconds', 'ratio to jax'],
    [[name, f'{value:.2f}', f'{value / cost[REFERENCE]:.2f}'] for name, value in cost.items()],
  )


if __name__ == '__main__':
  main()
