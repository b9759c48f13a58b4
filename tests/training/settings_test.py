"""Bad training settings are refused by name."""

import ast
import functools
import re

import pytest

from robustness.core import settings
from robustness.training.settings import TrainingSettings
from tests.cases import cases
from tests.refusals import bad_setting, refused

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
  ({'epochs': 1e300}, bad_setting('config.training.epochs', 1e300)),
  ({'batch_size': 100, 'accumulate': 3}, bad_setting('config.training.accumulate', 3)),
  ({'learning_rate': float('nan')}, bad_setting('config.training.learning_rate')),
  ({'split': ''}, bad_setting('config.training.split', '')),
  ({'learning_rate': '0.1'}, bad_setting('config.training.learning_rate', '0.1')),
  ({'momentum': 0.0}, bad_setting('config.training.nesterov', True)),
  (
    {'decay': 'kernel'},
    bad_setting('config.training.decay', 'kernel', words="did you mean 'kernels'"),
  ),
  (
    {'schedule': 'plato'},
    bad_setting('config.training.schedule', 'plato', words="did you mean 'plateau'"),
  ),
  (
    {'optimizer': 'adam'},
    bad_setting('config.training.optimizer', 'adam', words="did you mean 'adamw'"),
  ),
  ({'schedule': 'step'}, bad_setting('config.training.step_epochs', ())),
  ({'step_epochs': (1.0,)}, bad_setting('config.training.step_epochs', (1.0,))),
  (
    {'schedule': 'step', 'step_epochs': (2.0, 1.0)},
    bad_setting('config.training.step_epochs', (2.0, 1.0)),
  ),
  (
    {'schedule': 'step', 'step_epochs': (1.0,), 'step_factor': 1.0},
    bad_setting('config.training.step_factor', 1.0),
  ),
  ({'lookahead': 5, 'ema_decay': 0.9}, bad_setting('config.training.lookahead', 5)),
  ({'bias_rate': 64.0, 'optimizer': 'adamw'}, bad_setting('config.training.bias_rate', 64.0)),
  ({'schedule': 'triangular', 'triangle': (0.2, 1.0, 0.1)}, r'config\.training\.triangle'),
  ({'schedule': 'triangular', 'triangle': (0.2, 0.1)}, r'config\.training\.triangle'),
  (
    {'schedule': 'triangular', 'warmup_epochs': 1.0},
    bad_setting('config.training.warmup_epochs', 1.0),
  ),
  ({'keep': 'bst'}, bad_setting('config.training.keep', 'bst', words="did you mean 'best'")),
  ({'keep': 'best'}, bad_setting('config.training.keep', 'best')),
  (
    {'keep': 'best', 'validation': 0.1, 'evaluate_every_epochs': 0.0},
    bad_setting('config.training.evaluate_every_epochs', 0.0),
  ),
  ({'lerning_rate': 0.1}, r"config\.training\.lerning_rate: did you mean 'learning_rate'"),
)
def test_bad_settings_are_named(section, message):
  refused(message, parse, section)


def test_steps_alone_are_enough_and_no_momentum_needs_no_nesterov():
  parsed = parse({'epochs': 0, 'steps': 10, 'momentum': 0, 'nesterov': False})
  assert parse({'optimizer': 'adamw', 'momentum': 0.0}).nesterov, 'of sgd alone'
  assert (parsed.steps, parsed.momentum) == (10, 0.0)
