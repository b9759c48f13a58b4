"""Runs one experiment: python main.py --config=configs/fourier_heatmap.py --workdir=DIR."""

import gc
import sys

INTERRUPTED = 'interrupted before the run began. Run the same command to begin it.'

try:
  gc.disable()  # little of what imports allocate is garbage
  from absl import flags

  from robustness.cli import running

  flags.adopt_module_key_flags(running)
  gc.freeze()
  gc.enable()
except KeyboardInterrupt:  # imports take seconds
  print(INTERRUPTED, file=sys.stderr)
  sys.exit(130)
except ValueError as error:  # of JAX or Matplotlib
  from robustness.core import environment_variables

  advice = environment_variables.advice(error)
  if advice is None:
    raise
  print(f'error: {advice}', file=sys.stderr)
  sys.exit(2)

if __name__ == '__main__':
  running.begin(sys.argv, ['python', *sys.argv])
