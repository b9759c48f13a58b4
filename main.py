"""Runs one experiment: python main.py --config=configs/fourier_heatmap.py --workdir=DIR."""

import json
import shlex
import sys

INTERRUPTED = 'interrupted before the run began; the same command begins it.'

try:
  from absl import app, flags

  from robustness import launch
  from robustness.config import command_line
except KeyboardInterrupt:  # imports take seconds
  print(INTERRUPTED, file=sys.stderr)
  sys.exit(130)

flags.DEFINE_string('config', None, 'What to run: a file of configs/, or config.json of a workdir.')
WORKDIR = flags.DEFINE_string('workdir', None, 'Where the run leaves everything; resumed if there.')
PRINT_CONFIG = flags.DEFINE_bool('print_config', False, 'Print the config as JSON; run nothing.')
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

COMPILATION_CACHE = flags.DEFINE_string(
  'compilation_cache',
  None,
  "Folder that keeps compiled programs for later runs; the user's cache folder, or '' for none.",
)


def main(config: command_line.ConfigDict) -> int:
  """Hands config and flags to `launch`; returns the exit status."""
  if PRINT_CONFIG.value:
    print(json.dumps(config.to_dict(), indent=2))
    return 0
  assert WORKDIR.value is not None  # a required flag
  processes = launch.Processes(
    COORDINATOR.value, NUM_PROCESSES.value, PROCESS_ID.value, DISTRIBUTED.value, JOIN_TIMEOUT.value
  )
  command = shlex.join(['python', *sys.argv])
  return launch.main(config, WORKDIR.value, command, processes, COMPILATION_CACHE.value)


def begin() -> None:
  """Reads the command line and runs, or ends with one line that says what is wrong with it."""
  try:
    config, arguments = command_line.read(sys.argv)
  except command_line.InputError as error:
    sys.exit(launch.complain(str(error), launch.BAD_INPUT))
  app.run(lambda _: main(config), arguments, flags_parser=parse)


def parse(arguments: list[str]) -> list[str]:
  """Reads the flags, or ends with one line that says what is wrong with them."""
  try:
    return command_line.parse_flags(arguments)
  except command_line.InputError as error:
    sys.exit(launch.complain(str(error), launch.BAD_INPUT))


if __name__ == '__main__':
  flags.mark_flag_as_required('config')
  flags.register_multi_flags_validator(
    ['workdir', 'print_config'],
    lambda values: values['workdir'] is not None or values['print_config'],
    'Flag --workdir must have a value other than None.',
  )
  try:
    begin()
  except KeyboardInterrupt:
    sys.exit(launch.complain(INTERRUPTED, launch.INTERRUPTED))
