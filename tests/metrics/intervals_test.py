"""Intervals: published values, coverage and limits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from robustness.core.errors import InputError
from robustness.metrics import clopper_pearson, korn_graubard, mean_interval, student_interval


@pytest.mark.parametrize(
  ('successes', 'n', 'low', 'high'),
  [(0, 10, 0.0, 0.3085), (10, 10, 0.6915, 1.0), (5, 10, 0.1871, 0.8129), (1, 1, 0.025, 1.0)],
)
def test_clopper_pearson_known_values(successes, n, low, high):
  np.testing.assert_allclose(clopper_pearson(successes, n), (low, high), atol=5e-5)


def test_clopper_pearson_equals_scipys_exact_interval():
  for k in range(0, 41, 5):
    expected = stats.binomtest(k, 40).proportion_ci(0.9, method='exact')
    np.testing.assert_allclose(clopper_pearson(k, 40, 0.9), expected, atol=1e-12)


def test_clopper_pearson_is_vectorised_and_empty_is_nan():
  low, high = clopper_pearson([[0, 3], [5, 0]], [[5, 5], [5, 0]])
  assert low.shape == high.shape == (2, 2)
  assert low[0, 0] == 0 and high[1, 0] == 1
  assert np.isnan(low[1, 1]) and np.isnan(high[1, 1])


def test_clopper_pearson_covers_at_least_its_confidence():
  k = np.arange(31)
  low, high = clopper_pearson(k, 30)
  for p in np.linspace(0.01, 0.99, 50):
    covered = stats.binom.pmf(k, 30, p)[(low <= p) & (p <= high)].sum()
    assert covered >= 0.95


def test_clopper_pearson_grows_with_successes_and_confidence():
  low, high = clopper_pearson(np.arange(21), 20)
  assert np.all(np.diff(low) > 0) and np.all(np.diff(high) > 0)
  wide_low, wide_high = clopper_pearson(np.arange(1, 20), 20, 0.99)
  assert np.all(wide_low < low[1:-1]) and np.all(wide_high > high[1:-1])


@pytest.mark.parametrize(('successes', 'n'), [(11, 10), (-1, 10), (2.5, 10), (1, -3)])
def test_clopper_pearson_refuses_what_is_no_count(successes, n):
  with pytest.raises(InputError, match=r'successes|n ='):
    clopper_pearson(successes, n)


@pytest.mark.parametrize('confidence', [0, 1, 95, -0.1])
def test_confidence_is_a_fraction(confidence):
  with pytest.raises(InputError, match='confidence'):
    clopper_pearson(1, 2, confidence)


def test_korn_graubard_is_clopper_pearson_where_views_agree():
  p, n = 0.3, 50
  std = np.sqrt(p * (1 - p))
  expected = clopper_pearson(15, 50)
  np.testing.assert_allclose(korn_graubard(p, std, n, 20), expected, atol=1e-9)


def test_korn_graubard_is_clopper_pearson_of_all_trials_where_independent():
  p, n, size = 0.3, 50, 20
  std = np.sqrt(p * (1 - p) / size)
  np.testing.assert_allclose(korn_graubard(p, std, n, size), clopper_pearson(300, 1000), atol=1e-9)


def test_korn_graubard_keeps_a_width_without_spread():
  np.testing.assert_allclose(korn_graubard(0.0, 0.0, 10, 30), clopper_pearson(0, 10))
  np.testing.assert_allclose(korn_graubard(1 - 1e-16, 1e-17, 10, 30), clopper_pearson(10, 10))
  low, high = korn_graubard(0.5, 0.0, 10, 30)
  assert low < 0.5 < high
  assert np.isnan(korn_graubard(np.nan, np.nan, 0, 3)).all()


def test_mean_interval_known_value_and_undefined_spread():
  low, high = mean_interval(10.0, 2.0, 100)
  np.testing.assert_allclose((low, high), (10 - 0.391993, 10 + 0.391993), atol=1e-6)
  low, high = mean_interval([1.0, 1.0], [0.5, 0.5], [1, 4])
  assert np.isnan(low[0]) and low[1] < 1 < high[1]
  with pytest.raises(InputError, match='negative'):
    mean_interval(0.0, -1.0, 3)


def test_student_interval_equals_scipys_and_tends_to_the_normal_one():
  for n in (2, 5, 20):
    expected = stats.t.interval(0.9, n - 1, loc=3.0, scale=2.0 / np.sqrt(n))
    np.testing.assert_allclose(student_interval(3.0, 2.0, n, 0.9), expected)
  np.testing.assert_allclose(student_interval(3.0, 2.0, 10**6), mean_interval(3.0, 2.0, 10**6))
  assert np.isnan(student_interval([1.0, 1.0], 0.5, [1, 2])[0]).tolist() == [True, False]
  with pytest.raises(InputError, match='negative'):
    student_interval(1.0, -1.0, 5)
