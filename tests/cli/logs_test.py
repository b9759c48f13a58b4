"""Tests which log records and warnings of this project and of other packages are printed."""

import logging
import os
import subprocess
import sys

import pytest

from robustness.cli import logs
from tests.cases import cases
from tests.end_to_end.runs import ROOT


def record(path, level, message='a message'):
  return logging.LogRecord('absl', level, path, 1, message, None, None)


@cases(
  'path, least_level',
  (f'{ROOT}/robustness/launch.py', logging.INFO),
  (f'{ROOT}/robustness/core/progress.py', logging.INFO),
  ('/site-packages/orbax/checkpoint/manager.py', logging.ERROR),
  ('/site-packages/tensorflow_datasets/core/reader.py', logging.ERROR),
  ('/site-packages/jax/_src/xla_bridge.py', logging.WARNING),
  ('/home/user/mine.py', logging.WARNING),
)
def test_the_least_printed_level_depends_on_the_package(path, least_level):
  levels = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
  printed = [level for level in levels if logs.is_shown(record(path, level))]
  assert printed == [level for level in levels if level >= least_level]


def test_lines_are_bare_and_warnings_have_their_level():
  lines = logs.LineFormatter()
  assert lines.format(record('x.py', logging.INFO)) == 'a message'
  assert lines.format(record('x.py', logging.WARNING)) == 'warning: a message'


@pytest.mark.slow
def test_warnings_of_listed_packages_are_ignored_and_all_others_are_shown():
  code = """
import warnings
from robustness.cli import logs
logs.set_up()
for module in ('tensorflow.python.ops', 'orbax', 'robustness.launch', 'jax.interpreters', 'kerasy'):
  warnings.warn_explicit(f'of {module}', UserWarning, 'file.py', 1, module)
warnings.warn('Some donated buffers were not usable: f32[3]')
"""
  command = [sys.executable, '-c', code]
  answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
  printed = [
    line.rpartition(' ')[2] for line in answer.stderr.splitlines() if 'Warning: of' in line
  ]
  assert printed == ['robustness.launch', 'jax.interpreters', 'kerasy']
  assert 'donated' not in answer.stderr


@pytest.mark.slow
@cases('level, expected', (None, '3'), ('0', '0'))
def test_libraries_in_c_print_only_fatal_errors_unless_the_user_sets_a_level(level, expected):
  """The level must be set before JAX is imported, which sets another one."""
  environment = {k: v for k, v in os.environ.items() if k != 'TF_CPP_MIN_LOG_LEVEL'}
  if level is not None:
    environment['TF_CPP_MIN_LOG_LEVEL'] = level
  code = 'from robustness.cli import running; import os; print(os.environ["TF_CPP_MIN_LOG_LEVEL"])'
  command = [sys.executable, '-c', code]
  answer = subprocess.run(
    command, cwd=ROOT, capture_output=True, text=True, check=True, env=environment
  )
  assert answer.stdout.strip() == expected
