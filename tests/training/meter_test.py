"""Means between log lines, and numbers that are not finite."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.training.loop import LAG, Meter

DEVICE_NUMBER = jnp.float32(1)


def _metrics(loss, norm=1.0, rate=0.1):
  return {
    'loss': np.float32(loss),
    'gradient_norm': np.float32(norm),
    'learning_rate': np.float32(rate),
  }


def test_means_since_the_last_summary_and_the_last_learning_rate():
  meter = Meter(10)
  for step, loss in enumerate((1.0, 2.0, 6.0)):
    meter.add(step, _metrics(loss, rate=0.5 / (step + 1)))
  first = meter.summary()
  assert first['loss'] == pytest.approx(3.0)
  assert first['learning_rate'] == pytest.approx(0.5 / 3)
  assert first['images_per_second'] > 0
  meter.add(3, _metrics(8.0))
  assert meter.summary()['loss'] == pytest.approx(8.0)


def test_a_pause_takes_the_first_step_after_it_out_of_the_rate():
  meter = Meter(10)
  meter.add(0, _metrics(1.0))
  assert 'images_per_second' not in meter.summary()
  meter.pause()
  meter.add(1, _metrics(1.0))
  assert 'images_per_second' not in meter.summary()


@pytest.mark.parametrize(
  ('bad', 'message'),
  [
    (_metrics(np.nan), 'loss is nan at step 5 .learning rate 0.1.*Lower config.training.learning_'),
    (_metrics(1.0, np.inf), 'gradient norm is inf at step 5'),
  ],
)
def test_a_number_that_is_not_finite_names_step_and_fix_when_metrics_are_read(bad, message):
  for read in (Meter.flush, Meter.summary):
    meter = Meter(10)
    meter.add(5, bad)
    meter.add(6, _metrics(1.0))
    with pytest.raises(InputError, match=message):
      read(meter)


def test_metrics_are_fetched_once_and_for_all_steps():
  fetched = []

  def fetch(metrics):
    fetched.append(len(metrics))
    return metrics

  meter = Meter(10, fetch)
  for step in range(5):
    meter.add(step, _metrics(float(step)))
  assert fetched == []
  assert meter.summary()['loss'] == pytest.approx(2.0)
  assert fetched == [5]


def test_the_host_waits_for_the_step_before_the_last_two():
  """A transfer would be seen; waiting is all that `add` does with what is on a device."""
  meter, step = Meter(10), jax.jit(lambda x: {'loss': x, 'gradient_norm': x, 'learning_rate': x})
  with jax.transfer_guard('disallow_explicit'):
    for number in range(LAG + 2):
      meter.add(number, step(DEVICE_NUMBER))
      assert len(meter._under_way) <= LAG
  assert meter.summary()['loss'] == pytest.approx(1.0)
