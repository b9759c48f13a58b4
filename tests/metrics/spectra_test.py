"""Means with Student's intervals, and energy fractions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from robustness.core.errors import InputError
from robustness.metrics import averages, energy_fraction


def test_averages_are_scipys_where_all_is_known():
  values = np.random.default_rng(0).normal(size=(12, 3, 2))
  means = averages(values, 0.9)
  expected = stats.ttest_1samp(values, 0, axis=0).confidence_interval(0.9)
  np.testing.assert_allclose(means.value, values.mean(0))
  np.testing.assert_allclose([means.low, means.high], [expected.low, expected.high])
  number = means.number(1, 0)
  assert (number.n, number.interval) == (12, 'student 0.9')
  assert number.value == pytest.approx(values[:, 1, 0].mean())
  assert list(means.arrays('x')) == ['x', 'x_low', 'x_high']


def test_intervals_are_cut_where_values_end():
  means = averages([[0.0, 1.0], [0.1, 0.9]], bounds=(0, 1))
  assert means.low[0] == 0 < means.high[0] < 1 and means.high[1] == 1 > means.low[1] > 0


def test_images_without_a_value_are_left_out_and_n_says_so():
  means = averages([[1, np.nan, np.nan], [3, 5, np.nan]])
  np.testing.assert_array_equal(means.n, [2, 1, 0])
  np.testing.assert_array_equal(means.value, [2, 5, np.nan])
  np.testing.assert_array_equal(np.isnan(means.low), [False, True, True])
  with pytest.raises(InputError, match='at least one image'):
    averages(np.zeros((0, 3)))


def test_a_fraction_of_no_energy_is_unknown():
  np.testing.assert_array_equal(energy_fraction([0, 1, 2.0000001], [0, 4, 2]), [np.nan, 0.25, 1])
