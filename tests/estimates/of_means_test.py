"""Tests functions of means: ratios and bootstraps against the same in NumPy."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from robustness.estimates.corruption_error import MCE, RELATIVE_MCE
from robustness.estimates.intervals import percentile_interval
from robustness.estimates.of_means import MeanRatio, Units, bootstrap, function_of_means, log_ratio
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity
from tests.estimates.means_test import made

GAP = Quantity('gap', 'gap', low=-1, function=lambda means, _: means[..., 0] - means[..., 1])
mean_ratio, excess_ratio = MCE.function, RELATIVE_MCE.function


def units_of(measured: np.ndarray, base: np.ndarray) -> tuple[Units, Units]:
  """Returns the units of errors [images, parts] of a classifier and of its baseline."""
  names = tuple(f'part {k}' for k in range(measured.shape[1]))
  return tuple(Units(x.astype(float), np.ones(x.shape), len(x), names) for x in (measured, base))


def linearised(a: np.ndarray, b: np.ndarray) -> tuple[float, float, float]:
  """Returns the mean ratio of errors [images, parts] and its interval by the delta method.

  Two half images are added, one wrong only for the classifier and one only for the baseline.
  """
  n, parts = a.shape
  value = (a.mean(0) / b.mean(0)).mean()
  ones, zeros, half = np.ones((1, parts)), np.zeros((1, parts)), np.array([*np.ones(n), 0.5, 0.5])
  a, b = np.concatenate([a, ones, zeros]), np.concatenate([b, zeros, ones])
  means = half @ b / (n + 1)
  ratio = half @ a / (n + 1) / means
  error = np.sqrt(half @ ((a - ratio * b) / means).mean(1) ** 2 / (n * (n + 1)))
  factor = np.exp(stats.t.ppf(0.975, n - 1) * error / ratio.mean())
  return value, min(value, ratio.mean() / factor), max(value, ratio.mean() * factor)


def test_mce_against_a_classifier_has_the_interval_of_the_linearised_ratio():
  outcomes = made(n=60)
  is_corrupted = outcomes.views.corruption != 'clean'
  table = function_of_means(MCE, outcomes, where=is_corrupted)
  second, first = outcomes.values['second'], outcomes.values['first']
  measured, base = (wrong[:, 1:].reshape(60, 2, 3).mean(2) for wrong in (second, first))
  row = table[(table.classifier == 'second') & (table.versus == '')].iloc[0]
  expected = linearised(measured, base)
  assert (row.value, row.low, row.high) == pytest.approx(expected, abs=1e-12)
  pair = table[table.versus == 'first'].iloc[0]
  assert (pair.value, pair.low) == pytest.approx((expected[0] - 1, expected[1] - 1))
  first = table[table.classifier == 'first'].iloc[0]
  assert (first.value, first.low, first.high, first.method) == (1, 1, 1, 'exact')


def test_intervals_of_ratios_of_equal_errors_of_no_error_and_of_many_images():
  errors = np.random.default_rng(0).random((20, 3))
  equal = log_ratio(mean_ratio, *units_of(errors, errors))
  assert equal.value == pytest.approx(1) and equal.low < 0.95 and equal.high > 1.05
  no_error = log_ratio(mean_ratio, *units_of(np.zeros((20, 3)), errors))
  assert no_error.value == no_error.low == 0 and no_error.high > 0.05
  single = log_ratio(mean_ratio, *units_of(errors[:1], errors[:1]))
  assert np.isnan(single.low) and 'too few clusters' in single.note
  generator = np.random.default_rng(1)
  denominator = generator.random((5000, 2)) < 0.4
  numerator = denominator & (generator.random((5000, 2)) < 0.5)
  estimate = log_ratio(mean_ratio, *units_of(numerator, denominator))
  linear = ((numerator - 0.5 * denominator) / 0.4).mean(1)
  half = 1.96 * linear.std() / np.sqrt(5000)
  assert estimate.high - estimate.low == pytest.approx(2 * half, rel=0.05)


def test_the_interval_of_a_ratio_over_clusters_has_their_effective_number():
  generator = np.random.default_rng(0)
  sizes, right = np.array([40, 20, 10, 10, 10, 10]), generator.random((100, 2)) < 0.3
  views, site = pd.DataFrame({'x': ['a']}), np.repeat(np.arange(6), sizes)
  rows = {
    k: function_of_means(
      dataclasses.replace(MCE, function=MeanRatio('x')),
      Outcomes({'first': right[:, :1], 'second': right[:, 1:]}, views, clusters=clusters),
    ).iloc[1]
    for k, clusters in {'images': None, 'singles': np.arange(100), 'sites': site}.items()
  }
  ends = ['value', 'low', 'high']
  assert rows['singles'][ends].tolist() == pytest.approx(rows['images'][ends].tolist())
  wrong = right * 1.0
  deviation = wrong - (wrong[:, :1].mean(), wrong[:, 1].mean())
  by_site = np.add.reduceat(deviation, np.cumsum([0, *sizes[:-1]])) / wrong.sum(0)
  error = np.sqrt(((by_site[:, 1] - by_site[:, 0]) ** 2).sum() * 6 / 5)
  effective = 100**2 / (sizes**2).sum()
  half = stats.t.ppf(0.975, effective - 1) * error
  measured = np.log(rows['sites'].high / rows['sites'].low) / 2
  assert measured == pytest.approx(half, rel=0.15)


def test_relative_mce_has_a_bootstrap_of_whole_images():
  outcomes = made(n=200)
  views = outcomes.views.assign(corruption=outcomes.views.corruption.replace('clean', np.nan))
  table = function_of_means(RELATIVE_MCE, dataclasses.replace(outcomes, views=views))
  first, second = (
    np.column_stack([wrong[:, 0], wrong[:, 1:].reshape(200, 2, 3).mean(2)])
    for wrong in outcomes.values.values()
  )
  counts = np.random.default_rng(0).multinomial(200, np.full(200, 1 / 200), size=1000)
  drawn = excess_ratio(counts @ second / 200, counts @ first / 200)
  low, high = percentile_interval(drawn[np.isfinite(drawn)], 200)
  row = table[table.classifier == 'second'].iloc[0]
  value = float(excess_ratio(second.mean(0), first.mean(0)))
  assert (row.value, row.low, row.high) == pytest.approx((value, low, high), abs=1e-9)
  assert (row.n, row.clusters) == (200, 200)


def test_a_bootstrap_of_a_mean_agrees_with_the_normal_interval():
  values = np.random.default_rng(0).normal(size=400)
  units = Units(values[:, None], np.ones((400, 1)), 400)
  (estimate,) = bootstrap(lambda weights: weights @ values, units)
  half = 1.96 * values.std(ddof=1) / 20
  assert estimate.value == pytest.approx(values.mean())
  assert estimate.high - estimate.low == pytest.approx(2 * half, rel=0.1)
  (repeated,) = bootstrap(lambda weights: weights @ values, units)
  assert str(estimate) == str(repeated)  # as text, because p is NaN


def test_an_end_that_differs_from_0_by_rounding_is_0():
  values = np.random.default_rng(0).normal(size=400)
  units = Units(values[:, None], np.ones((400, 1)), 400)
  (estimate,) = bootstrap(lambda weights: np.maximum(weights @ values, 1e-17), units)
  assert estimate.low == 0 < estimate.high


def test_clusters_are_resampled():
  generator = np.random.default_rng(0)
  right = {'a': generator.random((30, 2)) < 0.5}
  views = pd.DataFrame({'x': [0, 1]})
  outcomes = Outcomes(right, views, clusters=np.repeat(np.arange(6), 5))
  row = function_of_means(GAP, outcomes, ('x',)).iloc[0]
  assert (row.n, row.clusters) == (60, 6)
  assert row.value == pytest.approx(right['a'][:, 0].mean() - right['a'][:, 1].mean())
  assert row.low < row.value < row.high


@pytest.mark.parametrize('clusters', [None, np.arange(12) // 2])
def test_images_that_count_in_no_view_are_left_out(clusters):
  generator = np.random.default_rng(0)
  right = {label: generator.random((12, 3)) < 0.5 for label in 'ab'}
  is_shown = np.ones((12, 3), bool)
  is_shown[8:, 1:] = False
  views = pd.DataFrame({'x': [0, 1, 2]})
  outcomes = Outcomes(right, views, dict.fromkeys(right, is_shown), clusters)
  first_images = {label: values[:8] for label, values in right.items()}
  reduced = Outcomes(first_images, views, clusters=None if clusters is None else clusters[:8])
  is_grouped = np.array([False, True, True])
  tables = [
    function_of_means(GAP, measured, ('x',), where=is_grouped) for measured in (outcomes, reduced)
  ]
  pd.testing.assert_frame_equal(*tables)
  assert set(tables[0].n) == {8 if clusters is None else 16}
  assert set(tables[0].clusters) == {8 if clusters is None else 4}
