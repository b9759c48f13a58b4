"""Functions of means: ratio and bootstrap agree with the metrics written for one of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from robustness.estimates.of_means import LOG_RATIO, of_means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity
from robustness.metrics import corruption_error as metrics
from tests.estimates.means_test import made

MCE = Quantity('mCE', 'mean corruption error', kind='ratio', better='lower')


def ratio(own, base):
  return (own / base).mean(-1)


def excess_ratio(own, base):
  excess, reference = own[..., 1:] - own[..., :1], base[..., 1:] - base[..., :1]
  ratios = np.full(excess.shape, np.nan)
  np.divide(excess, reference, out=ratios, where=reference > 1e-9)
  return ratios.mean(-1)


def errors(outcomes: Outcomes, label: str) -> metrics.Errors:
  wrong = outcomes.values[label]
  return metrics.Errors(wrong[:, 1:].reshape(len(wrong), 2, 3), wrong[:, 0])


def test_mce_against_a_classifier_is_the_linearised_ratio():
  outcomes = made(n=60)
  where = outcomes.views.corruption != 'clean'
  table = of_means(
    MCE, outcomes, ratio, ('corruption',), against='first', method=LOG_RATIO, where=where
  )
  expected = metrics.mce(errors(outcomes, 'second'), errors(outcomes, 'first'))
  own = table[(table.classifier == 'second') & (table.versus == '')].iloc[0]
  assert (own.value, own.low, own.high) == pytest.approx(
    (expected.value, expected.low, expected.high), abs=1e-12
  )
  pair = table[table.versus == 'first'].iloc[0]
  assert (pair.value, pair.low) == pytest.approx((expected.value - 1, expected.low - 1))
  first = table[table.classifier == 'first'].iloc[0]
  assert (first.value, first.low, first.high, first.method) == (1, 1, 1, 'exact')


def test_relative_mce_has_the_bootstrap_of_all_parts_together():
  outcomes = made(n=200)
  table = of_means(MCE, outcomes, excess_ratio, ('corruption',), against='first', paired=False)
  expected = metrics.relative_mce(errors(outcomes, 'second'), errors(outcomes, 'first'))
  row = table[table.classifier == 'second'].iloc[0]
  assert (row.value, row.low, row.high) == pytest.approx(
    (expected.value, expected.low, expected.high), abs=1e-9
  )
  assert (row.n, row.clusters, row.note) == (200, 200, expected.note)


def test_a_denominator_of_zero_is_undefined_and_says_so():
  outcomes = made()
  outcomes.values['first'][:, 4:] = False
  table = of_means(MCE, outcomes, ratio, ('corruption',), against='first', method=LOG_RATIO)
  row = table[table.classifier == 'second'].iloc[0]
  assert np.isnan([row.value, row.low, row.high]).all() and 'undefined' in row.note


def test_units_are_clusters():
  generator = np.random.default_rng(0)
  right = {'a': generator.random((30, 2)) < 0.5}
  views = pd.DataFrame({'x': [0, 1]})
  outcomes = Outcomes(right, views, clusters=np.repeat(np.arange(6), 5))
  gap = Quantity('gap', 'gap', low=-1)
  row = of_means(gap, outcomes, lambda own, base: own[..., 0] - own[..., 1], ('x',)).iloc[0]
  assert (row.n, row.clusters) == (60, 6)
  assert row.value == pytest.approx(right['a'][:, 0].mean() - right['a'][:, 1].mean())
  assert row.low < row.value < row.high
