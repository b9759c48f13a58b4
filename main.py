"""Runs one experiment: python main.py --config=configs/fourier_heatmap.py --workdir=DIR."""

import sys

INTERRUPTED = 'interrupted before the run began. Run the same command to begin it.'

try:
  from absl import flags

  from robustness.cli import running

  flags.adopt_module_key_flags(running)
except KeyboardInterrupt:  # imports take seconds
  print(INTERRUPTED, file=sys.stderr)
  sys.exit(130)

if __name__ == '__main__':
  running.begin(sys.argv, ['python', *sys.argv])
