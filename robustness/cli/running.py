"""The flags of a run, and the run: what `python main.py` and `robustness NAME` share."""

from __future__ import annotations

import _thread
import json
import os
import shlex
import sys
import threading
from collections.abc import Sequence
from typing import NoReturn

from absl import app, flags

from robustness import run
from robustness.cli import command_line, dry_run

SOON = 0.01  # seconds
INTERRUPTED = 'interrupted before the run began; the same command begins it.'

flags.DEFINE_string(
  'config',
  None,
  'What to run: a file of configs/, the name of one (fourier_heatmap:cifar10), or config.json of a '
  'workdir.',
)
WORKDIR = flags.DEFINE_string('workdir', None, 'Where the run writes everything; resumed if there.')
PRINT_CONFIG = flags.DEFINE_bool('print_config', False, 'Print the config as JSON; run nothing.')
DRY_RUN = flags.DEFINE_bool(
  'dry_run', False, 'Print rows, views, sizes and a measured estimate of the time; write nothing.'
)
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


def begin(arguments: Sequence[str], typed: Sequence[str]) -> NoReturn:
  """Reads the command line and runs, or ends with one line that says what is wrong with it.

  Args:
    arguments: the process's name, and flags.
    typed: the words of the command as they were typed, for the report.
  """
  flags.mark_flag_as_required('config')
  flags.register_multi_flags_validator(
    ['workdir', 'print_config', 'dry_run'],
    lambda values: values['workdir'] is not None or values['print_config'] or values['dry_run'],
    'Flag --workdir must have a value other than None.',
  )
  sys.unraisablehook = raise_interrupt_again
  try:
    config, rest = command_line.read(arguments)
    app.run(lambda _: _run(config, shlex.join(typed)), rest, flags_parser=_parse)
  except command_line.InputError as error:
    sys.exit(run.exit_with(run.BAD_INPUT, str(error)))
  except KeyboardInterrupt:
    _end(run.exit_with(run.INTERRUPTED, INTERRUPTED))
  raise AssertionError('app.run ends the process')


def _parse(arguments: list[str]) -> list[str]:
  """Reads the flags, or ends with one line that says what is wrong with them."""
  try:
    rest = flags.FLAGS(arguments)
  except flags.Error as error:
    sys.exit(run.exit_with(run.BAD_INPUT, str(error).strip()))
  if len(rest) > 1:
    message = f'{rest[1]!r} is no flag: give values as --config.KEY=VALUE.'
    sys.exit(run.exit_with(run.BAD_INPUT, message))
  return rest


def _run(config: command_line.ConfigDict | None, command: str) -> int:
  """Runs the config as the flags say; returns the exit status."""
  assert config is not None  # a required flag
  if PRINT_CONFIG.value:
    print(json.dumps(config.to_dict(), indent=2))
    return 0
  if DRY_RUN.value:
    return dry_run.main(config.to_dict())
  processes = run.Processes(
    COORDINATOR.value, NUM_PROCESSES.value, PROCESS_ID.value, DISTRIBUTED.value, JOIN_TIMEOUT.value
  )
  status = run.main(config, str(WORKDIR.value), command, processes, COMPILATION_CACHE.value)
  if status == run.INTERRUPTED:
    _end(status)
  return status


def raise_interrupt_again(unraisable: sys.UnraisableHookArgs) -> None:
  """Raises Ctrl-C once more where it came during a function that may raise nothing.

  Python prints what finalizers and JAX's callback of the garbage collector raise, and goes on. A
  run that compiles spends much of its time in the latter.
  """
  if issubclass(unraisable.exc_type, KeyboardInterrupt):
    threading.Timer(SOON, _thread.interrupt_main).start()  # here it would be lost once more
  else:
    sys.__unraisablehook__(unraisable)


def _end(status: int) -> NoReturn:
  """Ends the process at once.

  Where Ctrl-C comes during a compilation or a step, XLA's threads still work, and fail when the
  interpreter takes itself apart.
  """
  sys.stdout.flush()
  sys.stderr.flush()
  os._exit(status)
