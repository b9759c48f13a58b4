"""Invalid settings of a training are refused by name."""

import ast
import functools
import re

import pytest

from robustness.core import settings
from robustness.training.settings import TrainingSettings
from tests.cases import cases
from tests.refusals import bad_setting, refused

parse = functools.partial(settings.parse, TrainingSettings, path='config.training')
OUT_OF_RANGE = (
  'epochs=0.0 epochs=-1 steps=2147483648 steps=-5 batch_size=0 accumulate=0 learning_rate=0.0 '
  'momentum=1.0 weight_decay=-0.0001 warmup_epochs=-1.0 epsilon=0.0 '
  'clip_norm=-1.0 backbone_rate_multiplier=-0.1 ema_decay=1.0 validation=1.0 '
  'checkpoint_every_steps=-1 evaluate_every_epochs=-0.5 log_every_steps=0 '
  'lookahead=-1 stem_epochs=-1.0 auxiliary_norms=-1 layer_decay=0.0 layer_decay=1.5 drop_path=1.0 '
  'head_scale=-1.0'
)


@pytest.mark.parametrize('setting', OUT_OF_RANGE.split())
def test_values_out_of_range_are_named(setting):
  name, value = setting.split('=')
  message = rf'config\.training\.{name} is {re.escape(value)}'
  refused(message, parse, {name: ast.literal_eval(value)})


@cases(
  'key, section',
  ('epochs', {'epochs': 1e300}),
  ('accumulate', {'batch_size': 100, 'accumulate': 3}),
  ('split', {'split': ''}),
  ('learning_rate', {'learning_rate': '0.1'}),
  ('nesterov', {'momentum': 0.0}),
  ('step_epochs', {'schedule': 'step'}),
  ('step_epochs', {'step_epochs': (1.0,)}),
  ('step_epochs', {'schedule': 'step', 'step_epochs': (2.0, 1.0)}),
  ('step_factor', {'schedule': 'step', 'step_epochs': (1.0,), 'step_factor': 1.0}),
  ('lookahead', {'lookahead': 5, 'ema_decay': 0.9}),
  ('bias_rate', {'bias_rate': 64.0, 'optimizer': 'adamw'}),
  ('triangle', {'schedule': 'triangular', 'triangle': (0.2, 1.0, 0.1)}),
  ('triangle', {'schedule': 'triangular', 'triangle': (0.2, 0.1)}),
  ('warmup_epochs', {'schedule': 'triangular', 'warmup_epochs': 1.0}),
  ('keep', {'keep': 'best'}),
  ('evaluate_every_epochs', {'keep': 'best', 'validation': 0.1, 'evaluate_every_epochs': 0.0}),
)
def test_bad_settings_are_named(key, section):
  value = section.get(key, vars(TrainingSettings())[key])
  refused(bad_setting(f'config.training.{key}', value), parse, section)


@cases(
  'key, word, nearest',
  ('decay', 'kernel', 'kernels'),
  ('schedule', 'plato', 'plateau'),
  ('optimizer', 'adam', 'adamw'),
  ('keep', 'bst', 'best'),
)
def test_the_nearest_word_or_key_is_named(key, word, nearest):
  expected = bad_setting(f'config.training.{key}', word, words=f"did you mean '{nearest}'")
  refused(expected, parse, {key: word})
  message = r"config\.training\.lerning_rate: did you mean 'learning_rate'"
  refused(message, parse, {'lerning_rate': 0.1})
  refused(bad_setting('config.training.learning_rate'), parse, {'learning_rate': float('nan')})


def test_steps_need_no_epochs_and_no_momentum_is_valid_without_nesterov():
  parsed = parse({'epochs': 0, 'steps': 10, 'momentum': 0, 'nesterov': False})
  assert parse({'optimizer': 'adamw', 'momentum': 0.0}).nesterov, 'only sgd uses it'
  assert (parsed.steps, parsed.momentum) == (10, 0.0)
