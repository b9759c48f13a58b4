"""Intervals: published values, coverage and limits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from robustness.core.errors import InputError
from robustness.estimates import (
  clopper_pearson,
  korn_graubard,
  percentile_interval,
  student_interval,
)


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
  factor = (stats.t.ppf(0.975, n * size - 1) / stats.t.ppf(0.975, n - 1)) ** 2
  trials = n * size * factor
  expected = (
    stats.beta.ppf(0.025, p * trials, (1 - p) * trials + 1),
    stats.beta.ppf(0.975, p * trials + 1, (1 - p) * trials),
  )
  np.testing.assert_allclose(korn_graubard(p, std, n, size), expected, atol=1e-9)
  of_all = clopper_pearson(300, 1000)
  assert expected[0] == pytest.approx(of_all[0], abs=0.002), 'fifty clusters tell the variance well'


def test_korn_graubard_keeps_a_width_without_spread():
  np.testing.assert_allclose(korn_graubard(0.0, 0.0, 10, 30), clopper_pearson(0, 10))
  np.testing.assert_allclose(korn_graubard(1 - 1e-16, 1e-17, 10, 30), clopper_pearson(10, 10))
  low, high = korn_graubard(0.5, 0.0, 10, 30)
  assert low < 0.5 < high
  assert np.isnan(korn_graubard(np.nan, np.nan, 0, 3)).all()


def test_korn_graubard_counts_fewer_trials_where_few_clusters_tell_their_spread():
  """The degrees of freedom of the variance: t of 99 trials over t of 5 clusters, squared."""
  p, std, size = 0.5, 0.2, 20
  trials = p * (1 - p) / (std**2 / 5) * (stats.t.ppf(0.975, 99) / stats.t.ppf(0.975, 4)) ** 2
  expected = stats.beta.ppf(0.025, p * trials, (1 - p) * trials + 1)
  assert korn_graubard(p, std, 5, size)[0] == pytest.approx(expected, abs=1e-12)


def test_percentile_interval_is_wider_than_the_percentiles_for_few_units():
  drawn = np.random.default_rng(0).normal(size=20_000)
  for n in (5, 20, 1000):
    tail = stats.norm.cdf(-np.sqrt(n / (n - 1)) * stats.t.ppf(0.975, n - 1))
    np.testing.assert_allclose(percentile_interval(drawn, n), np.quantile(drawn, [tail, 1 - tail]))
  assert percentile_interval(drawn, 5)[0] < np.quantile(drawn, 0.004)
  assert np.isnan(percentile_interval(drawn, 1)).all()


def test_student_interval_equals_scipys_and_tends_to_the_normal_one():
  for n in (2, 5, 20):
    expected = stats.t.interval(0.9, n - 1, loc=3.0, scale=2.0 / np.sqrt(n))
    np.testing.assert_allclose(student_interval(3.0, 2.0, n, 0.9), expected)
  low, high = student_interval(10.0, 2.0, 10**8)
  np.testing.assert_allclose((low, high), (10 - 0.000391993, 10 + 0.000391993), atol=1e-9)
  assert np.isnan(student_interval([1.0, 1.0], 0.5, [1, 2])[0]).tolist() == [True, False]
  with pytest.raises(InputError, match='negative'):
    student_interval(1.0, -1.0, 5)
