"""Tests simultaneous intervals of many estimates: their width, and how often they cover."""

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from robustness.estimates.comparison import paired_difference
from robustness.estimates.fixed_width import MOST_LOOKS
from robustness.estimates.intervals import clopper_pearson, student_interval, t_value
from robustness.estimates.means import (
  Estimate,
  estimate_row,
  means,
  share_difference,
  share_in_clusters,
)
from robustness.estimates.of_means import MeanRatio, Units, log_ratio
from robustness.estimates.outcomes import Outcomes, Sums
from robustness.estimates.quantity import AMOUNT, ERROR, RATIO, Quantity
from robustness.estimates.simultaneous import p_values, significant, widen_for_family
from tests.cases import cases
from tests.refusals import refused

SIZE = Quantity('size', 'size', AMOUNT)


def stated(estimate: Estimate, versus: str = '', confidence: float = 0.95) -> pd.Series:
  """Returns the row of an estimate in the table of results."""
  return pd.Series(estimate_row('net', versus, ERROR, {}, estimate, confidence))


def made(value: float, low: float, high: float, n: int, method: str, **stated_as: Any) -> pd.Series:
  """Returns the row of an estimate from n clusters of one trial each."""
  return stated(Estimate(value, low, high, n, n, method), **stated_as)


def row_of_shares(shares: np.ndarray, views: float, confidence: float = 0.95) -> pd.Series:
  """Returns the row of the mean of shares [clusters] of some views each."""
  sums = Sums(shares, np.ones(len(shares)), len(shares), views * len(shares))
  return stated(share_in_clusters(sums, confidence))


def ends(widened: pd.Series | None) -> tuple[float, float]:
  """Returns the ends of an interval."""
  assert widened is not None
  return widened.low, widened.high


def test_an_interval_for_all_is_the_interval_of_its_method_at_the_joint_confidence():
  random = np.random.default_rng(0)
  exact = widen_for_family(made(7 / 40, *clopper_pearson(7, 40), 40, 'clopper-pearson'), 20, ERROR)
  assert ends(exact) == pytest.approx(clopper_pearson(7, 40, 1 - 0.05 / 20))
  assert (exact.family, exact.value) == (20, 7 / 40)
  values = random.normal(3, 1, 30)
  moments = values.mean(), values.std(ddof=1), 30
  amount = made(moments[0], *student_interval(*moments, 0.9), 30, 'student', confidence=0.9)
  assert ends(widen_for_family(amount, 5, SIZE)) == pytest.approx(
    student_interval(*moments, 1 - 0.1 / 5)
  )
  difference, low, high = paired_difference(900, 2000, 10_000)
  paired = made(difference, low, high, 10_000, 'bonett-price', versus='first')
  expected = paired_difference(900, 2000, 10_000, 1 - 0.05 / 8)[1:]
  assert ends(widen_for_family(paired, 8, ERROR)) == pytest.approx(expected, abs=1e-5)
  widened = widen_for_family(made(0.3, 0.2, 0.41, 80, 'sequential clopper-pearson'), 10, ERROR)
  assert ends(widened) == pytest.approx(clopper_pearson(24, 80, 1 - 0.05 / (10 * MOST_LOOKS)))
  factor = stats.t.ppf(1 - 0.025 / 15, 999) / stats.t.ppf(0.975, 999)
  for method in ('bootstrap', 'bayesian-bootstrap', 'stratified'):
    widened = widen_for_family(made(3.0, 2.9, 3.4, 1000, method), 15, SIZE)
    assert ends(widened) == pytest.approx((3 - 0.1 * factor, 3 + 0.4 * factor))


@pytest.mark.parametrize('views', [1, 5])
def test_an_interval_over_clusters_is_nearly_that_of_the_joint_confidence(views):
  shares = np.random.default_rng(views).binomial(views, 0.3, 200) / views
  expected = ends(row_of_shares(shares, views, 1 - 0.05 / 15))
  # The trials of Korn and Graubard contain a quantile of Student's t at the confidence.
  assert ends(widen_for_family(row_of_shares(shares, views), 15, ERROR)) == pytest.approx(
    expected, abs=1e-3
  )


@cases('clusters, trials, spread, runs', (5, 40, 2, 200), (8, 20, 2, 200), (5, 10, 0.5, 100))
def test_the_largest_of_many_is_covered_with_few_clusters(clusters, trials, spread, runs):
  """Normal quantiles in place of Student's cover in 0.88 of runs with 5 clusters."""
  random, levels, covered = np.random.default_rng(0), 64, 0
  for _ in range(runs):
    right = random.binomial(trials, random.beta(spread, spread, (clusters, levels)))
    largest = row_of_shares(right[:, right.sum(0).argmax()] / trials, trials)
    low, high = ends(widen_for_family(largest, levels, ERROR))
    covered += low <= 0.5 <= high
  assert covered / runs >= 0.95


def test_the_largest_difference_of_few_clusters_is_covered():
  """Normal quantiles in place of Student's cover in 0.67 of runs."""
  random, views, levels, covered, runs = np.random.default_rng(1), 40, 64, 0, 200
  for _ in range(runs):
    first = random.beta(1, 1, (5, levels))
    shares = [random.binomial(views, 0.5 * part) / views for part in (first, 1 - first)]
    place = np.abs((shares[0] - shares[1]).mean(0)).argmax()
    gained, lost = (Sums(share[:, place], np.ones(5), 5, 5.0 * views) for share in shares)
    low, high = ends(
      widen_for_family(stated(share_difference(gained, lost), 'first'), levels, ERROR)
    )
    covered += low <= 0 <= high
    assert -1 <= low <= high <= 1
  assert covered / runs >= 0.9


@cases('clusters, gain', (10, 0.75), (20, 0.9))
def test_the_largest_difference_near_1_is_covered_where_its_interval_is_cut(clusters, gain):
  """Around the middle of the cut interval the widened one covers in 0.93 and 0.80 of runs."""
  random, views, levels, covered, runs = np.random.default_rng(2), 5, 16, 0, 200
  for _ in range(runs):
    share = random.beta(2 * gain, 2 * (1 - gain), (clusters, levels))
    gained = random.binomial(views, share)
    lost = random.binomial(views - gained, 0.02 / (1 - gain))
    place = (gained - lost).sum(0).argmax()
    sums = (
      Sums(part[:, place] / views, np.ones(clusters), clusters, clusters * views)
      for part in (gained, lost)
    )
    largest = stated(share_difference(*sums), 'first')
    low, high = ends(widen_for_family(largest, levels, ERROR))
    covered += low <= gain - 0.02 <= high
  assert covered / runs >= 0.95


def test_a_cut_difference_has_no_smaller_p_value_than_before_the_cut():
  expected = 2 * stats.t.sf(0.6 / 0.5 * t_value(9), 8)  # the interval is .6 ± .5
  [p] = p_values(made(0.7, 0.1, 1.0, 9, 'bonett-price', versus='first').to_frame().T)
  assert expected <= p < 2 * expected


@pytest.mark.parametrize('value', [0.0, 1.0])
def test_an_interval_over_clusters_without_spread_is_exact(value):
  widened = widen_for_family(row_of_shares(np.full(50, value), 3), 10, ERROR)
  assert ends(widened) == pytest.approx(clopper_pearson(int(50 * value), 50, 1 - 0.05 / 10))


def test_the_largest_of_many_is_covered_where_a_single_interval_is_too_narrow():
  random, views, n = np.random.default_rng(1), 64, 100
  covered, covered_by_single = 0, 0
  for _ in range(200):
    largest_count = int(random.binomial(n, 0.5, views).max())
    largest = made(largest_count / n, *clopper_pearson(largest_count, n), n, 'clopper-pearson')
    low, high = ends(widen_for_family(largest, views, ERROR))
    covered_by_single += largest.low <= 0.5 <= largest.high
    covered += low <= 0.5 <= high
  assert covered >= 190 > 100 > covered_by_single


@pytest.mark.parametrize('clusters', [5, 10**6])
def test_a_difference_is_widened_by_students_quantile_of_its_clusters(clusters):
  difference = made(0.1, 0.0, 0.2, clusters, 'bonett-price', versus='first')
  half = 0.1 * t_value(clusters, 1 - 0.05 / 8) / t_value(clusters)
  assert ends(widen_for_family(difference, 8, ERROR)) == pytest.approx((0.1 - half, 0.1 + half))


def test_an_interval_stays_in_the_range_of_its_quantity_and_is_unchanged_for_one_estimate():
  widened = widen_for_family(made(0.5, 0.1, 0.9, 3, 'bonett-price', versus='first'), 100, ERROR)
  assert ends(widened) == (-1, 1)
  probability = Quantity('probability', 'probability', AMOUNT, low=0, high=1)
  assert ends(widen_for_family(made(0.5, 0.1, 0.9, 3, 'student'), 100, probability)) == (0, 1)
  single = made(3 / 9, *clopper_pearson(3, 9), 9, 'clopper-pearson')
  assert ends(widen_for_family(single, 1, ERROR)) == pytest.approx((single.low, single.high))
  unknown = widen_for_family(made(0.5, np.nan, np.nan, 1, 'student'), 3, SIZE)
  assert np.isnan(ends(unknown)).all()


def test_a_log_ratio_is_widened_on_its_scale_and_a_difference_from_1_likewise():
  ratio = made(0.8, 0.8 / 1.2, 0.8 * 1.2, 10**6, 'log-ratio')
  factor = 1.2 ** (t_value(10**6, 1 - 0.05 / 8) / t_value(10**6))
  expected = np.array([0.8 / factor, 0.8 * factor])
  mce = Quantity('mCE', 'mCE', RATIO)
  assert ends(widen_for_family(ratio, 8, mce)) == pytest.approx(expected)
  less = made(-0.2, 0.8 / 1.2 - 1, 0.8 * 1.2 - 1, 10**6, 'log-ratio', versus='first')
  assert ends(widen_for_family(less, 8, mce)) == pytest.approx(expected - 1)


@cases('n, groups', (100, 1), (1000, 4))
def test_the_ratio_of_a_classifier_without_errors_is_widened_and_tested(n, groups):
  errors = (np.random.default_rng(0).random((n, groups)) < 0.3).astype(float)
  units = Units(errors, np.ones_like(errors), n), Units(0 * errors, np.ones_like(errors), n)
  mce = Quantity('mCE', 'mCE', RATIO, function=MeanRatio('corruption'))
  levels = 0.95, 1 - 0.05 / 8
  single, joint = (log_ratio(mce.function, *reversed(units), level) for level in levels)
  assert single.low == single.value == 0
  assert ends(widen_for_family(stated(single), 8, mce)) == pytest.approx((0, joint.high), rel=0.05)
  less = made(-1, -1, single.high - 1, n, 'log-ratio', versus='first')
  low, high = ends(widen_for_family(less, 8, mce))
  assert (low, 1 + high) == (-1, pytest.approx(joint.high, rel=0.05))
  [p] = p_values(less.to_frame().T)
  reaching_1 = log_ratio(mce.function, *reversed(units), 1 - p)
  assert reaching_1.high == pytest.approx(1, abs=0.15) and p < 0.01


@pytest.mark.parametrize(
  'method', ['bonett-price', 'student', 'bootstrap', 'log-ratio', 'newcombe', 'stratified']
)
@pytest.mark.parametrize('n', [6, 400])
def test_a_p_value_is_the_level_at_which_the_interval_reaches_0(method, n):
  """An interval with the confidence 1 − p ends at 0. The p-value of a test takes precedence."""
  for value, low, high in ((0.2, 0.05, 0.35), (-0.1, -0.25, 0.05)):
    difference = made(value, low, high, n, method, versus='first')
    [p] = p_values(difference.to_frame().T)
    assert (p < 0.05) == (low > 0)
    widened = ends(widen_for_family(difference, 0.05 / p, ERROR)) if p < 0.05 else (0.0, 0.0)
    assert np.abs(widened).min() == pytest.approx(0, abs=1e-9)
    assert p_values(pd.DataFrame([{**difference, 'p': 0.3}])).tolist() == [0.3]
  unknown = made(0.5, np.nan, np.nan, 1, method, versus='first').to_frame().T
  assert np.isnan(p_values(unknown)).all() and not significant(unknown, ERROR).any()


def test_a_difference_of_shares_may_reach_minus_1():
  row = made(-0.5, -1.0, 0.1, 8, 'bonett-price', versus='first').to_frame().T
  assert 0.05 < p_values(row)[0] < 0.2


def test_differences_over_seeds_of_biased_quantities_are_not_significant():
  row = made(-0.3, -0.31, -0.29, 5, 'student over seeds', versus='first').to_frame().T
  assert significant(row, SIZE).all()
  assert not significant(row, dataclasses.replace(SIZE, biased=True)).any()


@pytest.mark.slow
@pytest.mark.parametrize('test', [True, False])
@cases('networks, corruptions, n, runs', (2, 15, 300, 600), (5, 15, 300, 300), (5, 3, 60, 300))
def test_without_any_difference_at_most_5_percent_of_figures_mark_one(
  networks, corruptions, n, runs, test
):
  """Single intervals mark one in 0.47 of runs with 2 networks and 15 corruptions, 0.96 with 5."""
  random, marked = np.random.default_rng(networks), 0
  views = pd.DataFrame({'corruption': [f'c{k}' for k in range(corruptions)]})
  for _ in range(runs):
    error = random.beta(1, 2, (n, 1)) * random.uniform(0.5, 1, corruptions)
    answers = {f'net {k}': random.random((n, corruptions)) < error for k in range(networks)}
    table = means(ERROR, Outcomes(answers, views), ('corruption',), test=test)
    marked += significant(table[table.versus != ''], ERROR).any()
  assert marked / runs <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / runs)


def test_exact_values_and_products_of_shares_have_no_interval_for_all():
  assert widen_for_family(made(0.5, 0.4, 0.6, 9, 'exact'), 2, ERROR) is None
  factor = Quantity('mCE', 'mCE', RATIO)
  assert widen_for_family(made(0.9, 0.8, 1.0, 9, 'korn-graubard'), 2, factor) is None
  refused('a family of 0', widen_for_family, made(0.5, 0.4, 0.6, 9, 'student'), 0, ERROR)
