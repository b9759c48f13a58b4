"""Runs main.py with several lists of arguments, each in a process forked off this one.

The commands share the imports, which take seconds. The program reads a JSON list of lists of
arguments from standard input and prints a JSON list of [exit status, output].
"""

import importlib
import json
import os
import pathlib
import runpy
import sys
import tempfile
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(arguments: list[str]) -> tuple[int, str]:
  """Returns exit status and output of main.py in a forked process."""
  with tempfile.TemporaryFile() as output:
    child = os.fork()
    if not child:
      for stream in (sys.stdout, sys.stderr):
        os.dup2(output.fileno(), stream.fileno())
      os._exit(run_here(arguments))
    _, status = os.waitpid(child, 0)
    output.seek(0)
    return os.waitstatus_to_exitcode(status), output.read().decode()


def run_here(arguments: list[str]) -> int:
  """Runs main.py in this process and returns its exit status."""
  sys.argv = ['main.py', *arguments]
  try:
    runpy.run_path('main.py', run_name='__main__')
  except SystemExit as stop:
    if not isinstance(stop.code, str):
      return stop.code or 0
    print(stop.code, file=sys.stderr)
  except BaseException:
    traceback.print_exc()
  finally:
    sys.stdout.flush()
    sys.stderr.flush()
  return 1


if __name__ == '__main__':
  os.chdir(ROOT)
  sys.path[0] = str(ROOT)
  importlib.import_module('robustness.cli.running')  # what main.py imports
  print(json.dumps([run(arguments) for arguments in json.load(sys.stdin)]))
