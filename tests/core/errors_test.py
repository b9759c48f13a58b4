"""Tests errors about settings: their sentence, and how they name keys of the user's config."""

import argparse
import ast
import pickle
import re
import sys

import jax
import numpy as np
import pytest

from robustness.__main__ import main
from robustness.cli import running
from robustness.config.defaults import default_config
from robustness.core.errors import (
  KEYS,
  SettingError,
  exits_refused,
  key_name,
  renaming_section,
  users_errors_refused,
)
from robustness.core.random_keys import without_global_draws
from tests.cases import cases
from tests.imports_test import modules
from tests.refusals import refused

STUDY = """
import dataclasses
import sys
from robustness.studies.accuracy import Accuracy

@dataclasses.dataclass(frozen=True)
class AtEstimates(Accuracy):
  def reduce(self, evaluations, image_shape):
    sys.exit(0)
"""

SECTION = re.compile(r'config\.(classifier|data|training|study)\b')


@cases(
  'error, text',
  (SettingError('config.seed', -1, 'at least 0'), 'config.seed is -1; it must be at least 0.'),
  (
    SettingError('config.study.phase', 'left', ('random', 'zero')),
    "config.study.phase is 'left'; valid: 'random', 'zero'.",
  ),
  (
    SettingError('config.data.npz.path', 'x', fix='Give a folder.', problem='which is no folder'),
    "config.data.npz.path is 'x', which is no folder. Give a folder.",
  ),
)
def test_the_sentence_of_an_error_has_its_key_value_valid_values_and_fix(error, text):
  assert str(error) == text


def test_a_section_has_the_name_that_the_config_gives_it():
  with renaming_section('config.study', 'config.battery.maps.study'):
    error = SettingError(KEYS.study.norm, 0.0, f'above {KEYS.data.crop}', f'See {KEYS.study}.')
    with renaming_section('config.study', 'inner'):
      assert key_name('config.study.norm') == 'inner.norm'
      assert key_name('config.studying') == 'config.studying'
    assert key_name('config.study') == 'config.battery.maps.study'
  assert error.key == 'config.battery.maps.study.norm'
  text = 'config.battery.maps.study.norm is 0.0; it must be above config.data.crop. '
  assert str(error) == f'{text}See config.battery.maps.study.'
  assert key_name('config.study.norm') == 'config.study.norm'


def test_a_key_is_renamed_once():
  """A key that was renamed before, such as one of `Part.key`, stays as it is."""
  with renaming_section('config.classifier', 'config.classifiers.mine'):
    once = key_name('config.classifier.seed')
    assert key_name(once) == once == 'config.classifiers.mine.seed'


def test_sentences_take_names_of_keys_from_the_config():
  """A key that is written out in a sentence would not be renamed in a battery."""
  written_out = [
    f'{module}:{raised.lineno}: {node.value}'
    for module, file in modules().items()
    for raised in ast.walk(ast.parse(file.read_text()))
    if isinstance(raised, ast.Raise)
    for node in ast.walk(raised)
    if isinstance(node, ast.Constant) and isinstance(node.value, str)
    if SECTION.search(node.value) and not SECTION.match(node.value)
  ]
  assert not written_out, '\n'.join(written_out)


def test_sys_exit_is_refused_with_its_line_except_in_argparse():
  with exits_refused():
    pass

  def ended():
    with exits_refused():
      sys.exit(0)

  refused(r'errors_test\.py, line \d+, called sys\.exit\(0\)', ended)
  with pytest.raises(SystemExit), exits_refused():
    argparse.ArgumentParser().parse_args(['--help'])


class Mine:
  """Functions of a user with errors, of JAX and of Python."""

  def __call__(self, x):
    return -x if x.mean() > 0 else x @ np.ones((7, 7))

  def missing(self, x):
    return {}[str(x)]


@cases(
  'x, function, text',
  (np.zeros((2, 3)), Mine(), 'Mine.__call__, raised ValueError: .*size'),
  (np.ones((2, 3)), jax.jit(Mine()), 'Mine.__call__, raised TracerBoolConversionError: A[^.]*[.]'),
  (3, Mine().missing, "Mine.missing, raised KeyError: '3'"),
)
def test_errors_of_a_users_code_name_its_line(x, function, text):
  def work():
    with users_errors_refused():
      without_global_draws(function)(x)  # calls it in a file of this project

  message = refused(rf'errors_test.py, line \d+, in {text}', work)
  assert 'was created on line' not in message and 'tracing the function' not in message


def test_errors_of_this_project_and_of_memory_are_raised_as_they_are():
  def of_memory():
    raise MemoryError

  for error, function in ((MemoryError, of_memory), (TypeError, None)):
    with pytest.raises(error):
      users_errors_refused()(without_global_draws(function))()


@pytest.mark.parametrize('text', ['import sys\nsys.exit(0)', 'def get_config():\n  exit(0)'])
def test_a_config_that_ends_the_process_does_not_end_it_with_success(tmp_path, text, capsys):
  (tmp_path / 'own.py').write_text(text)
  with pytest.raises(SystemExit) as ended:
    main([f'{tmp_path}/own.py', f'--workdir={tmp_path}/run'])
  assert ended.value.code == 2
  assert 'exit(0)' in capsys.readouterr().err


@pytest.mark.slow
def test_a_study_that_ends_the_process_while_it_runs_does_not_end_it_with_success(
  tmp_path, monkeypatch, capsys
):
  monkeypatch.setattr('robustness.cli.process.set_devices', lambda _: None)  # the tests set them
  (tmp_path / 'own.py').write_text(STUDY)
  config = default_config(f'{tmp_path}/own.py:AtEstimates')
  config.classifier.train = True
  config.data.num_images, config.training.steps, config.training.batch_size = 8, 1, 8
  assert running.run_command(config, str(tmp_path / 'run'), 'typed') == 2
  assert 'own.py, line 9, called sys.exit(0)' in capsys.readouterr().err


def test_errors_survive_pickling():
  error = SettingError('config.seed', -1, 'at least 0', 'Set it.', 'which is negative')
  copied = pickle.loads(pickle.dumps(error))
  assert (str(copied), vars(copied)) == (str(error), vars(error))
