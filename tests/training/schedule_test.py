"""The number of steps, the learning rate at each step and the steps of evaluations."""

import dataclasses
import math

import numpy as np
import pytest

from robustness.training.schedule import epoch_steps, is_evaluated, learning_rate, total_steps
from robustness.training.settings import TrainingSettings
from tests.cases import cases
from tests.refusals import bad_setting, refused

WARM = {'epochs': 10, 'warmup_epochs': 2, 'batch_size': 10, 'learning_rate': 0.4}


def test_number_of_steps_and_steps_of_evaluations():
  assert total_steps(TrainingSettings(epochs=10, batch_size=128), 50_000) == 3906
  assert total_steps(TrainingSettings(epochs=0.5, batch_size=10), 100) == 5
  assert total_steps(TrainingSettings(epochs=10, steps=7), 50_000) == 7
  settings = TrainingSettings(batch_size=32, evaluate_every_epochs=1.5)  # 4.6875 steps
  assert [step for step in range(1, 16) if is_evaluated(step, settings, 100)] == [5, 10, 15]
  decimal = TrainingSettings(batch_size=10, evaluate_every_epochs=2.1)  # a float above 2.1
  assert [step for step in range(1, 70) if is_evaluated(step, decimal, 100)] == [21, 42, 63]
  rounded = TrainingSettings(batch_size=500, evaluate_every_epochs=1.1)  # 110.00000000000001 steps
  assert [step for step in range(1, 400) if is_evaluated(step, rounded, 50_000)] == [110, 220, 330]
  never = TrainingSettings(evaluate_every_epochs=0.0)
  assert not any(is_evaluated(step, never, 100) for step in range(1, 100))


def test_reference_values_with_and_without_a_warm_up():
  rate = learning_rate(TrainingSettings(**WARM), 100)  # 20 steps up, 80 down
  later = {n: 0.2 * (1 + math.cos(math.pi * (n - 20) / 80)) for n in (40, 99)}
  expected = {0: 0.0, 5: 0.1, 10: 0.2, 20: 0.4, 60: 0.2, 100: 0.0, **later}
  assert {step: float(rate(step)) for step in expected} == pytest.approx(expected, abs=1e-7)
  without = learning_rate(TrainingSettings(steps=50, learning_rate=0.1), 100)
  values = [float(without(step)) for step in range(51)]
  assert values == sorted(values, reverse=True) and values[0] == pytest.approx(0.1)


def test_the_schedule_of_a_plateau_is_constant_after_the_warm_up():
  settings = TrainingSettings(**WARM, schedule='plateau')
  rate = learning_rate(settings, 100)
  assert [float(rate(step)) for step in (0, 10, 20, 99)] == pytest.approx([0.0, 0.2, 0.4, 0.4])
  constant = learning_rate(TrainingSettings(learning_rate=0.4, schedule='plateau'), 100)
  assert [float(constant(step)) for step in (0, 7)] == pytest.approx([0.4, 0.4])
  assert [epoch_steps(settings, n) for n in (4, 96, 100, 106)] == [1, 10, 10, 11]


@cases(
  'settings, message',
  ({'warmup_epochs': 10.0}, bad_setting('config.training.warmup_epochs', 10.0)),
  ({'epochs': 0.1, 'batch_size': 128}, bad_setting('config.training.epochs', 0.1)),
  ({'schedule': 'step', 'step_epochs': (0.5,)}, 'step_epochs'),
  ({'schedule': 'step', 'step_epochs': (4.0, 4.01)}, 'step_epochs'),
  (
    {'schedule': 'step', 'step_epochs': (4.0, 10.0)},
    bad_setting('config.training.step_epochs', (4.0, 10.0)),
  ),
  ({'lookahead': 101}, bad_setting('config.training.lookahead', 101)),
  ({'lookahead': 5, 'steps': 4, 'warmup_epochs': 0}, bad_setting('config.training.lookahead', 5)),
)
def test_durations_out_of_range_are_refused(settings, message):
  settings = TrainingSettings(**{**WARM, 'warmup_epochs': 1, **settings})
  refused(message, total_steps if settings.epochs < 1 else learning_rate, settings, 100)


def test_step_constant_and_triangular_schedules():
  warm = {**WARM, 'warmup_epochs': 1}  # 10 steps an epoch
  settings = TrainingSettings(**warm, schedule='step', step_epochs=(4.0, 8.0), step_factor=0.1)
  rate = learning_rate(settings, 100)
  for step, value in {0: 0.0, 5: 0.2, 10: 0.4, 39: 0.4, 40: 0.04, 79: 0.04, 80: 0.004}.items():
    assert float(rate(step)) == pytest.approx(value, rel=1e-5, abs=1e-9), step
  constant = learning_rate(dataclasses.replace(settings, schedule='constant', step_epochs=()), 100)
  assert [round(float(constant(step)), 6) for step in (0, 5, 10, 99)] == [0.0, 0.2, 0.4, 0.4]
  steps, settings = 40, {'schedule': 'triangular', 'learning_rate': 0.3, 'batch_size': 10}
  rate = learning_rate(TrainingSettings(steps=steps, **settings), 100)
  corners = np.interp(np.arange(steps + 1), [0, int(0.23 * steps), steps], [0.2, 1, 0.07])
  np.testing.assert_allclose([rate(step) for step in range(steps + 1)], 0.3 * corners, rtol=1e-5)
  peak_of = TrainingSettings(steps=100, triangle=(0.2, 0.29, 0.07), **settings)
  assert float(learning_rate(peak_of, 100)(29)) == pytest.approx(0.3)  # .29 · 100 is below 29
