"""Mistyped keys on the command line; `end_to_end/bad_input_test.py` runs main.py itself."""

from __future__ import annotations

import pytest

from robustness.config import command_line
from robustness.core.errors import InputError

# How ml_collections imports a config file.
pytestmark = pytest.mark.filterwarnings('ignore:the load_module:DeprecationWarning')
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
