"""Means between log lines, and numbers that are not finite."""

from __future__ import annotations

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.training.meter import LAG, Meter


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
def test_a_number_that_is_not_finite_names_step_and_mend_at_most_two_steps_late(bad, message):
  meter = Meter(10)
  meter.add(5, bad)
  with pytest.raises(InputError, match=message):
    for step in range(6, 6 + LAG):
      meter.add(step, _metrics(1.0))
