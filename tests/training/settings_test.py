"""Bad training settings are refused by name."""

import ast
import functools
import re

import pytest

from robustness.core import settings
from robustness.training.settings import TrainingSettings
from tests.cases import cases
from tests.refusals import refused

parse = functools.partial(settings.parse, TrainingSettings, where='config.training')
OUT_OF_RANGE = (
  'epochs=0.0 epochs=-1 steps=2147483648 steps=-5 batch_size=0 accumulate=0 learning_rate=0.0 '
  'momentum=1.0 weight_decay=-0.0001 warmup_epochs=-1.0 epsilon=0.0 '
  'clip_norm=-1.0 backbone_rate_multiplier=-0.1 ema_decay=1.0 validation=1.0 '
  'checkpoint_every_steps=-1 evaluate_every_epochs=-0.5 log_every_steps=0 '
  'lookahead=-1 stem_epochs=-1.0 auxiliary_norms=-1'
)


@pytest.mark.parametrize('setting', OUT_OF_RANGE.split())
def test_values_out_of_range_are_named(setting):
  name, value = setting.split('=')
  message = rf'config\.training\.{name} is {re.escape(value)}'
  refused(message, parse, {name: ast.literal_eval(value)})


@cases(
  'section, message',
  ({'epochs': 1e300}, r'config\.training\.epochs is 1e\+300; it must be in \[0, 1000000\]'),
  ({'batch_size': 100, 'accumulate': 3}, r'accumulate is 3.*divisor.*batch_size = 100'),
  ({'learning_rate': float('nan')}, r'config\.training\.learning_rate is nan'),
  ({'split': ''}, r"config\.training\.split is ''"),
  ({'learning_rate': '0.1'}, r'config\.training\.learning_rate must be a float'),
  ({'momentum': 0.0}, r'config\.training\.nesterov is True.*momentum is 0'),
  ({'decay': 'kernel'}, r"config\.training\.decay is 'kernel'; did you mean 'kernels'"),
  ({'schedule': 'plato'}, r"config\.training\.schedule is 'plato'; did you mean 'plateau'"),
  ({'optimizer': 'adam'}, r"config\.training\.optimizer is 'adam'; did you mean 'adamw'"),
  ({'schedule': 'step'}, r'config\.training\.step_epochs is \(\).*ascending'),
  ({'step_epochs': (1.0,)}, r'config\.training\.step_epochs is \(1\.0,\).*every other'),
  ({'schedule': 'step', 'step_epochs': (2.0, 1.0)}, r'step_epochs is \(2\.0, 1\.0\)'),
  ({'schedule': 'step', 'step_epochs': (1.0,), 'step_factor': 1.0}, r'step_factor is 1\.0'),
  ({'lookahead': 5, 'ema_decay': 0.9}, r'config\.training\.lookahead'),
  ({'bias_rate': 64.0, 'optimizer': 'adamw'}, r'config\.training\.bias_rate'),
  ({'schedule': 'triangular', 'triangle': (0.2, 1.0, 0.1)}, r'config\.training\.triangle'),
  ({'schedule': 'triangular', 'triangle': (0.2, 0.1)}, r'config\.training\.triangle'),
  ({'schedule': 'triangular', 'warmup_epochs': 1.0}, r'config\.training\.warmup_epochs'),
  ({'keep': 'bst'}, r"config\.training\.keep is 'bst'; did you mean 'best'"),
  ({'keep': 'best'}, r"config\.training\.keep is 'best'.*validation > 0"),
  ({'keep': 'best', 'validation': 0.1, 'evaluate_every_epochs': 0.0}, 'evaluate_every_epochs is 0'),
  ({'lerning_rate': 0.1}, r"config\.training\.lerning_rate: did you mean 'learning_rate'"),
)
def test_bad_settings_are_named(section, message):
  refused(message, parse, section)


def test_steps_alone_are_enough_and_no_momentum_needs_no_nesterov():
  parsed = parse({'epochs': 0, 'steps': 10, 'momentum': 0, 'nesterov': False})
  assert parse({'optimizer': 'adamw', 'momentum': 0.0}).nesterov, 'of sgd alone'
  assert (parsed.steps, parsed.momentum) == (10, 0.0)
