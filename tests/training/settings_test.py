"""Bad training settings are refused by name."""

from __future__ import annotations

import pytest

from robustness.core import settings
from robustness.core.errors import InputError
from robustness.training import TrainingSettings


@pytest.mark.parametrize(
  ('section', 'message'),
  [
    ({'epochs': 0.0}, r'config\.training\.epochs is 0\.0'),
    ({'epochs': 1e300}, r'config\.training\.epochs is 1e\+300; it must be in \[0, 1000000\]'),
    ({'steps': 2**31}, r'config\.training\.steps is 2147483648'),
    ({'epochs': -1}, r'config\.training\.epochs is -1'),
    ({'steps': -5}, r'config\.training\.steps is -5'),
    ({'batch_size': 0}, r'config\.training\.batch_size is 0'),
    ({'batch_size': 100, 'accumulate': 3}, r'accumulate is 3.*divisor.*batch_size = 100'),
    ({'accumulate': 0}, r'config\.training\.accumulate is 0'),
    ({'learning_rate': 0.0}, r'config\.training\.learning_rate is 0\.0'),
    ({'learning_rate': float('nan')}, r'config\.training\.learning_rate is nan'),
    ({'learning_rate': '0.1'}, r'config\.training\.learning_rate must be a float'),
    ({'momentum': 1.0}, r'config\.training\.momentum is 1\.0'),
    ({'momentum': 0.0}, r'config\.training\.nesterov is True.*momentum is 0'),
    ({'weight_decay': -1e-4}, r'config\.training\.weight_decay is -0\.0001'),
    ({'decay': 'kernel'}, r"config\.training\.decay is 'kernel'; did you mean 'kernels'"),
    ({'warmup_epochs': -1.0}, r'config\.training\.warmup_epochs is -1\.0'),
    ({'schedule': 'plato'}, r"config\.training\.schedule is 'plato'; did you mean 'plateau'"),
    ({'plateau_patience': 0}, r'config\.training\.plateau_patience is 0.*1 or more'),
    ({'plateau_factor': 1.0}, r'config\.training\.plateau_factor is 1\.0.*\(0, 1\)'),
    ({'optimizer': 'adam'}, r"config\.training\.optimizer is 'adam'; did you mean 'adamw'"),
    ({'beta2': 1.0}, r'config\.training\.beta2 is 1\.0'),
    ({'epsilon': 0.0}, r'config\.training\.epsilon is 0\.0'),
    ({'clip_norm': -1.0}, r'config\.training\.clip_norm is -1\.0'),
    ({'body_rate': -0.1}, r'config\.training\.body_rate is -0\.1'),
    ({'ema_decay': 1.0}, r'config\.training\.ema_decay is 1\.0'),
    ({'schedule': 'step'}, r'config\.training\.step_epochs is \(\).*ascending'),
    ({'step_epochs': (1.0,)}, r'config\.training\.step_epochs is \(1\.0,\).*every other'),
    ({'schedule': 'step', 'step_epochs': (2.0, 1.0)}, r'step_epochs is \(2\.0, 1\.0\)'),
    ({'schedule': 'step', 'step_epochs': (1.0,), 'step_factor': 1.0}, r'step_factor is 1\.0'),
    ({'validation': 1.0}, r'config\.training\.validation is 1\.0'),
    ({'keep': 'bst'}, r"config\.training\.keep is 'bst'; did you mean 'best'"),
    ({'keep': 'best'}, r"config\.training\.keep is 'best'.*validation > 0"),
    ({'checkpoint_every_steps': -1}, r'config\.training\.checkpoint_every_steps is -1'),
    ({'evaluate_every_epochs': -0.5}, r'config\.training\.evaluate_every_epochs is -0\.5'),
    ({'log_every_steps': 0}, r'config\.training\.log_every_steps is 0'),
    ({'split': ''}, r"config\.training\.split is ''"),
    ({'lerning_rate': 0.1}, r"config\.training\.lerning_rate: did you mean 'learning_rate'"),
  ],
)
def test_bad_settings_are_named(section, message):
  with pytest.raises(InputError, match=message):
    settings.parse(TrainingSettings, section, 'config.training')


def test_steps_alone_are_enough_and_no_momentum_needs_no_nesterov():
  parsed = settings.parse(
    TrainingSettings,
    {'epochs': 0, 'steps': 10, 'momentum': 0, 'nesterov': False},
    'config.training',
  )
  assert (parsed.steps, parsed.momentum) == (10, 0.0)
