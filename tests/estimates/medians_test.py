"""Tests medians of values that may be infinite: differences, clusters and coverage."""

import numpy as np
import pandas as pd
import pytest

from robustness.estimates.medians import INFINITE, medians
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import AMOUNT, Quantity
from tests.table_rows import estimate

DISTANCE = Quantity('distance', 'distance', kind=AMOUNT)
GENERATOR = np.random.default_rng(0)


def table_of(values, clusters=None, by=()):
  """Returns the medians of values [rows, attacks] of classifiers."""
  views = pd.DataFrame({'attack': ['a', 'b'][: next(iter(values.values())).shape[1]]})
  return medians(DISTANCE, Outcomes(values, views, clusters=clusters), by)


def test_medians_and_their_differences_equal_those_of_numpy():
  first, second = GENERATOR.exponential(size=(2, 100, 2))
  first[:5], second[:30] = np.inf, second[:30] + 1
  table = table_of({'first': first, 'second': second}, by=('attack',))
  for column, attack in enumerate('ab'):
    expected = [np.median(values[:, column]) for values in (first, second)]
    row, difference = (
      estimate(table, 'second', 'distance', v, attack=attack) for v in ('', 'first')
    )
    assert (row.value, difference.value) == (expected[1], expected[1] - expected[0])
    assert row.low < row.value < row.high and row.n == 100


def test_an_infinite_median_is_missing_with_a_note():
  values = np.where(np.arange(41) < 21, 1.0, np.inf)[:, None]
  assert estimate(table_of({'net': values}), 'net', 'distance').value == 1
  row = estimate(table_of({'net': values[1:]}), 'net', 'distance')
  assert np.isnan(row.value) and row.note == INFINITE


def test_infinite_resamples_count_as_larger_than_all_others():
  def row(num_infinite):
    values = np.r_[np.arange(100.0 - num_infinite), np.full(num_infinite, np.inf)]
    return estimate(table_of({'net': values[:, None]}), 'net', 'distance')

  few, finite = row(38), row(0)
  assert (few.value, few.low, few.high) == (finite.value, finite.low, finite.high)
  many = row(41)  # between 2.5 and 5 % of the resamples have an infinite median
  assert many.value == 49.5 and np.isnan(many.high) and 'an end of the interval' in many.note


def test_rows_of_one_cluster_are_resampled_together():
  values, clusters = GENERATOR.normal(size=(60, 1)).repeat(4, 0), np.arange(60).repeat(4)
  single = estimate(table_of({'net': values[::4]}), 'net', 'distance')
  row = estimate(table_of({'net': values}, clusters), 'net', 'distance')
  assert row.value == single.value and row.clusters == 60
  assert row.high - row.low == pytest.approx(single.high - single.low, rel=0.2)


@pytest.mark.slow
def test_the_interval_covers_the_true_median():
  covers = []
  for _ in range(200):
    row = estimate(table_of({'net': GENERATOR.exponential(size=(100, 1))}), 'net', 'distance')
    covers.append(row.low <= np.log(2) <= row.high)
  assert np.mean(covers) > 0.91
