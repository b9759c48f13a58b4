"""Runs main.py with several lists of arguments, each in a process forked off this one.

The imports, which take seconds, are shared. A JSON list of lists of arguments is read from standard
input, and a JSON list of [exit status, output] is printed.
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
