"""Runs one experiment: python main.py --config=configs/fourier_heatmap.py --workdir=DIR."""

import shlex
import sys

INTERRUPTED = 'interrupted before the run began; the same command begins it.'

try:
  from absl import app, flags
  from ml_collections import config_flags

  from robustness import launch
  from robustness.config import command_line
except KeyboardInterrupt:  # imports take seconds
  print(INTERRUPTED, file=sys.stderr)
  sys.exit(130)

CONFIG = config_flags.DEFINE_config_file('config', None, 'What to run: a file of configs/.')
WORKDIR = flags.DEFINE_string('workdir', None, 'Where the run leaves everything; resumed if there.')
COORDINATOR = flags.DEFINE_string('coordinator', '', 'HOST:PORT of process 0, for several.')
NUM_PROCESSES = flags.DEFINE_integer('num_processes', 1, 'Processes that share the run.', 1)
PROCESS_ID = flags.DEFINE_integer('process_id', 0, "This process's number.", 0)
DISTRIBUTED = flags.DEFINE_bool(
  'distributed',
  False,
  'Asks the cluster (SLURM, TPU pod, Kubernetes, Open MPI) for the three above.',
)
JOIN_TIMEOUT = flags.DEFINE_integer(
  'join_timeout', 120, 'Seconds to wait for the coordinator and for all processes.', 1
)


def main(argv: list[str]) -> None:
  """Hands the flags to `launch`."""
  del argv
  assert WORKDIR.value is not None  # a required flag
  processes = launch.Processes(
    COORDINATOR.value, NUM_PROCESSES.value, PROCESS_ID.value, DISTRIBUTED.value, JOIN_TIMEOUT.value
  )
  sys.exit(launch.main(CONFIG.value, WORKDIR.value, shlex.join(['python', *sys.argv]), processes))


def parse(arguments: list[str]) -> list[str]:
  """Reads the flags, or ends with one line that says what is wrong with them."""
  try:
    return command_line.parse(arguments)
  except command_line.InputError as error:
    sys.exit(launch.complain(str(error), launch.BAD_INPUT))


if __name__ == '__main__':
  flags.mark_flags_as_required(['config', 'workdir'])
  try:
    app.run(main, flags_parser=parse)
  except KeyboardInterrupt:
    sys.exit(launch.complain(INTERRUPTED, launch.INTERRUPTED))
