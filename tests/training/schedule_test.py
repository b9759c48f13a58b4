"""Length and learning rate of a training."""

from __future__ import annotations

import dataclasses
import math

import pytest

from robustness.core.errors import InputError
from robustness.training import TrainingSettings
from robustness.training.schedule import epoch_steps, is_due, learning_rate, total_steps


def test_epochs_become_steps_and_steps_take_their_place():
  assert total_steps(TrainingSettings(epochs=10, batch_size=128), 50_000) == 3906
  assert total_steps(TrainingSettings(epochs=0.5, batch_size=10), 100) == 5
  assert total_steps(TrainingSettings(epochs=10, steps=7), 50_000) == 7


def test_reference_values_with_a_warm_up():
  settings = TrainingSettings(epochs=10, warmup_epochs=2, batch_size=10, learning_rate=0.4)
  rate = learning_rate(settings, 100)  # 20 steps up, 80 down
  expected = {
    0: 0.0,
    5: 0.1,
    10: 0.2,
    20: 0.4,
    40: 0.2 * (1 + math.cos(math.pi / 4)),
    60: 0.2,
    99: 0.2 * (1 + math.cos(math.pi * 79 / 80)),
    100: 0.0,
  }
  assert {step: float(rate(step)) for step in expected} == pytest.approx(expected, abs=1e-7)


def test_without_warm_up_the_first_step_has_the_full_rate():
  rate = learning_rate(TrainingSettings(steps=50, learning_rate=0.1), 100)
  assert float(rate(0)) == pytest.approx(0.1)
  values = [float(rate(step)) for step in range(51)]
  assert values == sorted(values, reverse=True)


def test_under_plateau_the_schedule_itself_is_constant_after_the_warm_up():
  settings = TrainingSettings(
    epochs=10, warmup_epochs=2, batch_size=10, learning_rate=0.4, schedule='plateau'
  )
  rate = learning_rate(settings, 100)
  assert [float(rate(step)) for step in (0, 10, 20, 99)] == pytest.approx([0.0, 0.2, 0.4, 0.4])
  constant = learning_rate(TrainingSettings(learning_rate=0.4, schedule='plateau'), 100)
  assert [float(constant(step)) for step in (0, 7)] == pytest.approx([0.4, 0.4])
  assert [epoch_steps(settings, n) for n in (4, 96, 100, 106)] == [1, 10, 10, 11]


def test_a_warm_up_as_long_as_the_training_and_less_than_one_step_are_refused():
  with pytest.raises(InputError, match=r'config\.training\.warmup_epochs is 10\.0.*100 steps'):
    learning_rate(TrainingSettings(epochs=10, warmup_epochs=10.0, batch_size=10), 100)
  with pytest.raises(InputError, match=r'config\.training\.epochs is 0\.1.*at least 1\.28'):
    total_steps(TrainingSettings(epochs=0.1, batch_size=128), 100)


def test_evaluations_fall_on_the_step_that_ends_each_period():
  settings = TrainingSettings(batch_size=32, evaluate_every_epochs=1.5)  # 4.6875 steps
  assert [step for step in range(1, 16) if is_due(step, settings, 100)] == [5, 10, 15]
  never = TrainingSettings(evaluate_every_epochs=0.0)
  assert not any(is_due(step, never, 100) for step in range(1, 100))


def test_steps_and_a_constant_rate_after_a_warm_up():
  settings = TrainingSettings(
    epochs=10,
    warmup_epochs=1,
    batch_size=10,
    learning_rate=0.4,
    schedule='step',
    step_epochs=(4.0, 8.0),
    step_factor=0.1,
  )
  rate = learning_rate(settings, 100)  # 10 steps an epoch
  for step, value in {0: 0.0, 5: 0.2, 10: 0.4, 39: 0.4, 40: 0.04, 79: 0.04, 80: 0.004}.items():
    assert float(rate(step)) == pytest.approx(value, rel=1e-5, abs=1e-9), step
  constant = learning_rate(dataclasses.replace(settings, schedule='constant', step_epochs=()), 100)
  assert [round(float(constant(step)), 6) for step in (0, 5, 10, 99)] == [0.0, 0.2, 0.4, 0.4]


@pytest.mark.parametrize('epochs', [(0.5,), (4.0, 4.01)])
def test_steps_within_the_warm_up_or_too_close_are_refused(epochs):
  settings = TrainingSettings(
    epochs=10, warmup_epochs=1, batch_size=10, schedule='step', step_epochs=epochs
  )
  with pytest.raises(InputError, match='step_epochs'):
    learning_rate(settings, 100)
