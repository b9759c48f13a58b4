"""Intervals for the largest of several numbers: how they are widened, and how often they hold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from robustness.core.errors import InputError
from robustness.estimates.comparison import paired_difference
from robustness.estimates.intervals import t_value
from robustness.metrics import clopper_pearson, mean_share, proportion, student_interval
from robustness.metrics.accuracy import average
from robustness.metrics.fixed_width import MOST_LOOKS
from robustness.metrics.shares import mean_difference
from robustness.metrics.simultaneous import simultaneous
from robustness.results import Number


def test_each_kind_is_what_its_own_method_gives_at_the_joint_confidence():
  random = np.random.default_rng(0)
  exact = simultaneous(proportion(7, 40), 20)
  assert (exact.low, exact.high) == pytest.approx(clopper_pearson(7, 40, 1 - 0.05 / 20))
  assert exact.interval == 'clopper-pearson 0.95 for all 20' and exact.value == 7 / 40
  values = random.normal(3, 1, 30)
  student = simultaneous(average(values, 0.9), 5)
  expected = student_interval(values.mean(), values.std(ddof=1), 30, 1 - 0.1 / 5)
  assert (student.low, student.high) == pytest.approx(expected)
  difference, low, high = paired_difference(9, 20, 100, 0.95)
  paired = simultaneous(Number(difference, low, high, 100, 'paired bonett-price 0.95'), 8)
  assert (paired.low, paired.high) == pytest.approx(paired_difference(9, 20, 100, 1 - 0.05 / 8)[1:])


@pytest.mark.parametrize('views', [1, 5])
def test_of_clusters_it_is_nearly_what_the_joint_confidence_gives(views):
  shares = np.random.default_rng(views).binomial(views, 0.3, 200) / views
  wide = simultaneous(mean_share(shares, views), 15)
  expected = mean_share(shares, views, 1 - 0.05 / 15)
  # Korn and Graubard's number of trials has a quantile of Student's in it, of the confidence.
  assert (wide.low, wide.high) == pytest.approx((expected.low, expected.high), abs=1e-3)


def test_of_a_sequential_design_it_holds_at_every_look_too():
  number = Number(0.3, 0.2, 0.41, 80, 'sequential clopper-pearson 0.95')
  wide = simultaneous(number, 10)
  expected = clopper_pearson(24, 80, 1 - 0.05 / (10 * MOST_LOOKS))
  assert (wide.low, wide.high) == pytest.approx(expected)


@pytest.mark.parametrize(('clusters', 'views'), [(5, 40), (8, 20)])
def test_the_largest_of_many_is_covered_with_few_clusters(clusters, views):
  """Normal quantiles of the joint confidence, in place of Student's, held in .88 of 5 clusters."""
  random, levels, held, runs = np.random.default_rng(0), 64, 0, 200
  for _ in range(runs):
    right = random.binomial(views, random.beta(2, 2, (clusters, levels)))
    least = mean_share(right[:, right.sum(0).argmin()] / views, views)
    wide = simultaneous(least, levels)
    held += wide.low <= 0.5 <= wide.high
  assert held / runs >= 0.95


def test_the_largest_difference_of_few_clusters_is_covered():
  """Normal quantiles held in .67."""
  random, views, levels, held, runs = np.random.default_rng(1), 40, 64, 0, 200
  for _ in range(runs):
    first = random.beta(1, 1, (5, levels))
    b, c = (random.binomial(views, 0.5 * part) / views for part in (first, 1 - first))
    place = np.abs((b - c).mean(0)).argmax()
    wide = simultaneous(mean_difference(b[:, place], c[:, place], views), levels)
    held += wide.low <= 0 <= wide.high
    assert -1 <= wide.low <= wide.high <= 1
  assert held / runs >= 0.9


def test_of_a_bootstrap_either_side_grows_by_the_ratio_of_the_quantiles():
  wide = simultaneous(Number(3.0, 2.9, 3.4, 1000, 'bootstrap over images 0.95'), 15)
  factor = stats.t.ppf(1 - 0.025 / 15, 999) / stats.t.ppf(0.975, 999)
  assert (wide.low, wide.high) == pytest.approx((3 - 0.1 * factor, 3 + 0.4 * factor))


@pytest.mark.parametrize('share', [0.0, 1.0])
def test_of_clusters_without_spread_it_is_exact(share):
  wide = simultaneous(mean_share(np.full(50, share), 3), 10)
  expected = clopper_pearson(int(50 * share), 50, 1 - 0.05 / 10)
  assert (wide.low, wide.high) == pytest.approx(expected)


def test_the_largest_of_many_is_covered_where_its_own_interval_is_not():
  random, views, n = np.random.default_rng(1), 64, 100
  held, own = 0, 0
  for _ in range(200):
    counts = random.binomial(n, 0.5, views)
    largest = proportion(int(counts.max()), n)
    wide = simultaneous(largest, views)
    own += largest.low <= 0.5 <= largest.high
    held += wide.low <= 0.5 <= wide.high
  assert held >= 190 > 100 > own


def test_the_largest_of_many_is_covered_where_few_clusters_show_how_trials_spread():
  random, levels, clusters, trials = np.random.default_rng(2), 64, 5, 10
  held = []
  for _ in range(100):
    likely = random.beta(0.5, 0.5, (clusters, levels))
    shares = random.binomial(trials, likely) / trials
    wide = simultaneous(mean_share(shares[:, shares.mean(0).argmax()], trials), levels)
    held.append(wide.low <= 0.5 <= wide.high)
  assert np.mean(held) >= 0.95


def test_a_difference_over_few_clusters_is_widened_by_students_quantile():
  few = Number(0.1, 0.0, 0.2, 5, 'paired bonett-price over objects 0.95')
  many = Number(0.1, 0.0, 0.2, 10**6, few.interval)
  single = Number(0.1, 0.0, 0.2, 5, 'paired bonett-price 0.95')
  widths = [wide.high - wide.low for wide in (simultaneous(n, 8) for n in (few, many, single))]
  factor = t_value(5, 1 - 0.05 / 8) / t_value(5)
  assert widths[0] == pytest.approx(0.2 * factor) and widths[1] == pytest.approx(widths[2])


def test_a_difference_of_shares_stays_within_one():
  wide = simultaneous(Number(0.5, 0.1, 0.9, 3, 'paired bonett-price over objects 0.95'), 100)
  assert (wide.low, wide.high) == (-1, 1)


def test_of_one_it_is_the_number_itself_and_without_an_interval_there_is_none():
  number = proportion(3, 9)
  alone = simultaneous(number, 1)
  assert (alone.low, alone.high) == pytest.approx((number.low, number.high))
  unknown = simultaneous(Number(0.5, np.nan, np.nan, 1, 'student 0.95'), 3)
  assert np.isnan(unknown.low) and np.isnan(unknown.high)


@pytest.mark.parametrize(
  ('interval', 'count'), [('log ratio, paired 0.95', 2), ('exact', 2), ('x 0.9', 0)]
)
def test_what_cannot_be_widened_is_refused(interval, count):
  with pytest.raises(InputError, match='interval'):
    simultaneous(Number(0.5, 0.4, 0.6, 9, interval), count)
