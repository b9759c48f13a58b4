"""Proportions and means."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from robustness.core.errors import InputError
from robustness.metrics import average, proportion


def test_proportion_reports_value_n_and_method():
  number = proportion(0, 10)
  assert (number.value, number.low, number.n) == (0.0, 0.0, 10)
  assert number.high == pytest.approx(0.3085, abs=5e-5)
  assert number.interval == 'clopper-pearson 0.95'
  assert math.isnan(proportion(0, 0).value)


def test_average_is_the_mean_with_students_interval():
  number = average([1.0, 2.0, 3.0, 4.0], 0.9)
  assert number.value == 2.5 and number.n == 4
  half = stats.t.ppf(0.95, 3) * np.std([1, 2, 3, 4], ddof=1) / 2
  assert number.high - number.value == pytest.approx(half)
  few = [0] * 19 + [1]
  assert average(few).low < 0 and average(few, lowest=0).low == 0
  assert average(few, lowest=0).high == average(few).high
  with pytest.raises(InputError, match='at least one'):
    average([])
