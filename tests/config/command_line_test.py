"""Mistyped keys on the command line; `end_to_end/bad_input_test.py` runs main.py itself."""

from __future__ import annotations

import pathlib

import pytest

from robustness.config import command_line
from robustness.core.errors import InputError

HEAT_MAP = '--config=configs/fourier_heatmap.py'


@pytest.mark.parametrize(
  'arguments',
  [
    [HEAT_MAP, '--config.study.norm=4'],
    ['--config', 'configs/accuracy.py', '--config.seed=1'],
    [f'{HEAT_MAP}:cifar10', '--config.classifier.augment.flip=True'],
    [HEAT_MAP, '--noconfig.study.clip', '--config.classifiers.natural.name=resnet20'],
    ['--workdir=/tmp/x'],
    [],
  ],
)
def test_keys_that_exist_pass(arguments: list[str]) -> None:
  command_line.check_overrides(['main.py', *arguments])


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    ([HEAT_MAP, '--config.study.nrm=4'], r"unknown key config\.study\.nrm: did you mean 'norm'"),
    ([HEAT_MAP, '--noconfig.study.clop'], r"config\.study\.clop: did you mean 'clip'"),
    ([HEAT_MAP, '--config.classifier.name=x'], r"config\.classifier: did you mean 'classifiers'"),
    ([f'{HEAT_MAP}:cifar10', '--config.classifiers.natural.name=x'], r"did you mean 'classifier'"),
    (['--config=configs/accuracy.py', '--config.study.top_k.x=1'], 'single value'),
    (['--config=configs/none.py'], r'config file configs/none\.py does not exist'),
  ],
)
def test_keys_that_do_not_are_named(arguments: list[str], message: str) -> None:
  with pytest.raises(InputError, match=message):
    command_line.check_overrides(['main.py', *arguments])


@pytest.mark.parametrize(
  ('source', 'variant', 'message'),
  [
    ('x = 1', '', r'own\.py has no function get_config that returns the config'),
    ('def get_config():\n  return {}["gone"]', '', r"own\.py, line 2 raised KeyError: 'gone'"),
    ('def get_config():\n  return int("a")', '', r'invalid literal.*own\.py, line 2\)'),
    ('import gone', '', r"own\.py, line 1 raised ModuleNotFoundError: No module named 'gone'"),
    ('def get_config(:', '', r'raised SyntaxError: invalid syntax \(own\.py, line 1\)'),
    ('def get_config():\n  pass', '', r'get_config returned None; it must return'),
    ('def get_config():\n  pass', ':x', r'has no variants: give --config=\S*own\.py alone'),
    ('def get_config(x):\n  pass', '', r'needs a variant: give --config=\S*own\.py:VARIANT'),
  ],
)
def test_a_config_file_that_cannot_be_used_is_named(
  source: str, variant: str, message: str, tmp_path: pathlib.Path
) -> None:
  (tmp_path / 'own.py').write_text(source)
  with pytest.raises(InputError, match=message):
    command_line.parse(['main.py', f'--config={tmp_path / "own.py"}{variant}'])


def test_a_config_file_may_hold_dataclasses(tmp_path: pathlib.Path) -> None:
  source = """
from __future__ import annotations
import dataclasses, ml_collections

@dataclasses.dataclass
class Size:
  side: int = 3

def get_config():
  return ml_collections.ConfigDict(dataclasses.asdict(Size()))
"""
  (tmp_path / 'own.py').write_text(source)
  assert command_line.load_config(str(tmp_path / 'own.py')).side == 3
