"""The entry point of the command `robustness`, installed with the package."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from robustness.config import packaged
from robustness.core.errors import InputError

INTERRUPTED = 'interrupted before anything was begun.'
USAGE = """\
robustness NAME[:VARIANT] --workdir=DIR [--config.KEY=VALUE ...]
                            runs a packaged config, or goes on with the run in DIR;
                            a file's path or config.json of a workdir stands for NAME too
robustness list [PART]      studies, configs, classifiers, data sources, each with a line
robustness doctor           devices, versions, extras, data at hand, and what is missing
robustness report WORKDIR   draws figures and report again from the results in WORKDIR
robustness --helpfull       all flags of a run
"""


def run() -> None:
  """Runs the command that was typed, and ends the process with its exit status."""
  try:
    status = main(sys.argv[1:])
    sys.stdout.flush()
  except BrokenPipeError:  # who reads the answer, such as head, has seen enough
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    status = 0
  except KeyboardInterrupt:
    print(INTERRUPTED, file=sys.stderr)
    status = 130
  sys.exit(status)


def main(arguments: Sequence[str]) -> int:
  """Runs a command.

  Args:
    arguments: the words after `robustness`.

  Returns:
    The exit status: 0, 2 where the words cannot be used. A run ends the process itself.
  """
  if not arguments or arguments[0] in ('help', '-h', '--help'):
    print(USAGE, end='')
    return 0 if arguments else 2
  first, *rest = arguments
  if first in COMMANDS:
    return _answered(COMMANDS[first], rest)
  return _answered(_begin, arguments)


def _answered(command: Callable[[Sequence[str]], None], arguments: Sequence[str]) -> int:
  """Runs a command that prints its answer; bad input ends in one line."""
  try:
    command(arguments)
  except InputError as error:
    print(f'error: {error}', file=sys.stderr)
    return 2
  return 0


def _begin(arguments: Sequence[str]) -> NoReturn:
  """Runs a config; ends the process."""
  first, *flags = arguments
  if first.startswith('-'):
    flags = list(arguments)
  else:
    packaged.find(first.partition(':')[0], COMMANDS)
    flags.insert(0, f'--config={first}')
  from robustness.command import running

  running.begin(['robustness', *flags], ['robustness', *arguments])


def _list(arguments: Sequence[str]) -> None:
  from robustness.command import overview

  overview.show(arguments)


def _doctor(arguments: Sequence[str]) -> None:
  from robustness.command import doctor

  doctor.show(arguments)


def _report(arguments: Sequence[str]) -> None:
  from robustness.command import redraw

  redraw.show(arguments)


COMMANDS: Mapping[str, Callable[[Sequence[str]], None]] = {
  'list': _list,
  'doctor': _doctor,
  'report': _report,
}

if __name__ == '__main__':
  run()
