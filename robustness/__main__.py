"""The command `robustness`, installed with the package; `python -m robustness` is the same."""

import gc
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version

from robustness import __version__
from robustness.config import packaged
from robustness.core import disk, environment_variables, plain_characters
from robustness.core.errors import InputError, error_of_user, exits_refused

INTERRUPTED = 'interrupted before anything was begun.'
USAGE = """\
robustness NAME[:VARIANT] --workdir=DIR [--config.KEY=VALUE ...]
                            runs a packaged config, or goes on with the run in DIR;
                            a file's path or config.json of a workdir stands for NAME too
robustness NAME --help      the config's text, its variants, and its keys with their meaning
robustness NAME --help=WORD the keys that have WORD in their name or meaning
robustness --help=WORD      the studies, configs, classifiers and data sources that have WORD
robustness --version        the versions of this package, JAX and Flax
robustness list [PART]      studies, configs, classifiers, data sources, each with a line
robustness doctor           devices, versions, extras, data at hand, and what is missing
robustness report WORKDIR   draws figures and report again from the results in WORKDIR
robustness table WORKDIR    a table of finished runs as LaTeX, Markdown or CSV
robustness compare          finished workdirs side by side, with paired differences
robustness leaderboard DIR  checks and ranks the finished runs in a folder, as one page
robustness correlations     rank correlations between quantities over many networks
robustness export WORKDIR   result files for model hubs, and a paragraph for a paper's checklist
robustness detection        scores a detector on neighbor sets of video frames
robustness neighbor_sets    builds neighbor sets from videos
robustness review           serves neighbor sets for review, and writes what was decided
robustness cutouts          cuts objects out of annotated pictures

Each command has --help.
"""

_SAME_NAME = (
  *('doctor', 'table', 'compare', 'leaderboard', 'correlations', 'export', 'detection'),
  *('neighbor_sets', 'review', 'cutouts'),
)
"""Commands that have the name of their module."""
_OTHER_NAMES = {'list': 'overview', 'report': 'redraw'}
COMMANDS: Mapping[str, str] = _OTHER_NAMES | {name: name for name in _SAME_NAME}
"""Modules of `robustness.cli` by command, imported at first use. `main(arguments)` of each returns
the exit status.
"""


def run() -> None:
  """Runs the command that was typed and ends the process with its exit status."""
  plain_characters.use()
  try:
    status = main(sys.argv[1:])
    sys.stdout.flush()
  except BrokenPipeError:
    # A program that reads the output, such as head, has ended. With the null device as stdout the
    # last flush of the interpreter does not fail.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    status = 0
  except KeyboardInterrupt:
    print(INTERRUPTED, file=sys.stderr)
    status = 130
  sys.exit(status)


def _advice(error: Exception) -> str | None:
  """Returns advice for the user about an error, such as which value to correct.

  None means that the error is no mistake of the user, but a bug.
  """
  if isinstance(error, InputError):
    return str(error)
  advice_on_disk = disk.advice(error, directory='') if isinstance(error, OSError) else None
  advice = environment_variables.advice(error) or advice_on_disk or error_of_user(error)
  return str(advice) if advice else None


def main(arguments: Sequence[str]) -> int:
  """Runs the command that the command-line arguments name.

  Returns the exit status: 0, or 2 if the arguments are not a valid command. Does not return if the
  command runs a config, because such a run exits the process.
  """
  if not arguments or arguments[0] in ('help', '-h', '--help'):
    print(USAGE, end='')
    return 0 if arguments else 2
  if arguments[0] == '--version':
    print(f'robustness {__version__}', *(f'{name} {version(name)}' for name in ('jax', 'flax')))
    return 0
  first, *rest = arguments
  command_name = first.replace('-', '_')
  try:
    if command_name in COMMANDS:
      command = importlib.import_module(f'robustness.cli.{COMMANDS[command_name]}')
      with exits_refused():
        status: int = command.main(rest)
      return status
    # all other arguments run a config: NAME:VARIANT or a flag such as --config=FILE
    if not first.startswith('-'):
      packaged.find(first.partition(':')[0], COMMANDS)  # raises if there is no such config
      first = f'--config={first}'
    gc.disable()  # collecting during imports takes time and frees little memory
    from robustness.cli import running

    gc.enable()
    running.begin(['robustness', first, *rest], typed=['robustness', *arguments])
  except Exception as error:
    advice = _advice(error)
    if advice is None:
      raise
    print(f'error: {advice}', file=sys.stderr)
    return 2


if __name__ == '__main__':
  run()
