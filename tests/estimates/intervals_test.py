"""Tests intervals of shares and means against published values and SciPy."""

import numpy as np
import pytest
from scipy import stats

from robustness.estimates.intervals import (
  clopper_pearson,
  korn_graubard,
  percentile_interval,
  student_interval,
)
from tests.refusals import refused


def test_clopper_pearson_equals_published_values_and_the_exact_interval_of_scipy():
  for successes, n, *ends in (
    *((0, 10, 0.0, 0.3085), (10, 10, 0.6915, 1.0)),
    *((5, 10, 0.1871, 0.8129), (1, 1, 0.025, 1.0)),
  ):
    np.testing.assert_allclose(clopper_pearson(successes, n), ends, atol=5e-5)
  for k in range(0, 41, 5):
    expected = stats.binomtest(k, 40).proportion_ci(0.9, method='exact')
    np.testing.assert_allclose(clopper_pearson(k, 40, 0.9), expected, atol=1e-12)
  low, high = clopper_pearson([[0, 3], [5, 0]], [[5, 5], [5, 0]])
  assert low.shape == high.shape == (2, 2)
  assert low[0, 0] == 0 and high[1, 0] == 1
  assert np.isnan(low[1, 1]) and np.isnan(high[1, 1])


def test_invalid_counts_and_confidences_are_refused():
  for successes, n in ((11, 10), (-1, 10), (2.5, 10), (1, -3)):
    refused(r'successes|n =', clopper_pearson, successes, n)
  for confidence in (0, 1, 95, -0.1):
    refused('confidence', clopper_pearson, 1, 2, confidence)


def test_korn_graubard_counts_images_where_views_agree_and_has_a_width_without_spread():
  p, n = 0.3, 50
  std = np.sqrt(p * (1 - p))
  expected = clopper_pearson(15, 50)
  np.testing.assert_allclose(korn_graubard(p, std, n, 20), expected, atol=1e-9)
  np.testing.assert_allclose(korn_graubard(0.0, 0.0, 10, 30), clopper_pearson(0, 10))
  np.testing.assert_allclose(korn_graubard(1 - 1e-16, 1e-17, 10, 30), clopper_pearson(10, 10))
  low, high = korn_graubard(0.5, 0.0, 10, 30)
  assert low < 0.5 < high
  assert np.isnan(korn_graubard(np.nan, np.nan, 0, 3)).all()


def test_korn_graubard_counts_views_where_they_are_independent():
  p, n, size = 0.3, 50, 20
  std = np.sqrt(p * (1 - p) / size)
  factor = (stats.t.ppf(0.975, n * size - 1) / stats.t.ppf(0.975, n - 1)) ** 2
  trials = n * size * factor
  ends = (0.025, p * trials, (1 - p) * trials + 1), (0.975, p * trials + 1, (1 - p) * trials)
  expected = [stats.beta.ppf(*end) for end in ends]
  np.testing.assert_allclose(korn_graubard(p, std, n, size), expected, atol=1e-9)
  low, _ = clopper_pearson(300, 1000)
  assert expected[0] == pytest.approx(low, abs=0.002), 'fifty clusters estimate it well'


def test_percentile_and_student_intervals_are_wider_for_few_units():
  drawn = np.random.default_rng(0).normal(size=20_000)
  for n in (5, 20, 1000):
    tail = stats.norm.cdf(-np.sqrt(n / (n - 1)) * stats.t.ppf(0.975, n - 1))
    np.testing.assert_allclose(percentile_interval(drawn, n), np.quantile(drawn, [tail, 1 - tail]))
  assert percentile_interval(drawn, 5)[0] < np.quantile(drawn, 0.004)
  assert np.isnan(percentile_interval(drawn, 1)).all()
  for n in (2, 5, 20):
    expected = stats.t.interval(0.9, n - 1, loc=3.0, scale=2.0 / np.sqrt(n))
    np.testing.assert_allclose(student_interval(3.0, 2.0, n, 0.9), expected)
  low, high = student_interval(10.0, 2.0, 10**8)
  np.testing.assert_allclose((low, high), (10 - 0.000391993, 10 + 0.000391993), atol=1e-9)
  assert np.isnan(student_interval([1.0, 1.0], 0.5, [1, 2])[0]).tolist() == [True, False]
