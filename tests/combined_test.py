"""Tests means over seeds: their values, intervals, notes and table."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from robustness.combined import mean_over_seeds
from robustness.estimates.means import Estimate, estimate_row, table_of_rows
from robustness.estimates.means import means as means_of
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import CLEAN_ERROR, ERROR, Quantity
from robustness.estimates.table import assemble
from robustness.results import NO_SPREAD, Results, Table
from tests.cases import cases
from tests.refusals import refused
from tests.table_rows import estimate

SLOPE = Quantity('slope', 'slope', kind='amount')
RHO = Quantity('rho', 'ρ', kind='share')
GAP = Quantity('gap', 'gap', low=-1)
ECE = Quantity('ece', 'ECE', kind='amount', low=0, high=1)
MCE = Quantity('mCE', 'mCE', kind='ratio')
QUANTITIES = (SLOPE, RHO, GAP, ECE, MCE)


def made(values: Mapping[Quantity, float], notes: Mapping = {}, versus: str = '') -> Results:
  """Returns the results of one seed, with one value of each quantity."""
  rows = []
  for quantity, value in values.items():
    ends, note = (value - 0.1, value + 0.1), notes.get(quantity, '')
    seed_mean = Estimate(value, *ends, 50, 50, 'made', note=note)
    rows.append(estimate_row('net', versus, quantity, {}, seed_mean, 0.95))
  table = assemble([table_of_rows(rows)])
  return Results('made', [{'label': 'net'}], {}, {'k': 1}, table=table, quantities=QUANTITIES)


def mean_of(quantity: Quantity, values: Sequence[float], versus: str = '') -> Any:
  """Returns the mean over seeds that have these values."""
  by_seed = {seed: made({quantity: value}, versus=versus) for seed, value in enumerate(values)}
  return estimate(mean_over_seeds(by_seed).over_seeds.table, 'net', quantity.name, versus)


def test_the_interval_is_students():
  values = [0.91, 0.93, 0.9, 0.95]
  mean = mean_of(SLOPE, values)
  low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
  assert (mean.value, mean.low, mean.high) == pytest.approx((np.mean(values), low, high))
  assert (mean.n, mean.clusters, mean.method, mean.confidence) == (4, 4, 'student over seeds', 0.95)
  assert math.isnan(mean_of(SLOPE, [0.1, float('nan')]).low)
  refused('at least two seeds', mean_over_seeds, {0: made({SLOPE: 0.5})})
  narrow = {seed: made({SLOPE: value}) for seed, value in enumerate(values)}
  for results in narrow.values():
    results.table['confidence'] = 0.8
  mean = estimate(mean_over_seeds(narrow).over_seeds.table, 'net', 'slope')
  low, high = stats.t.interval(0.8, 3, np.mean(values), stats.sem(values))
  assert (mean.low, mean.high, mean.confidence) == pytest.approx((low, high, 0.8))


def test_equal_values_have_no_interval():
  mean = mean_of(RHO, [1.0, 1.0])
  assert mean.value == 1 and math.isnan(mean.low) and math.isnan(mean.high)
  assert mean.note == NO_SPREAD


def test_published_values_and_equal_tables_of_all_seeds_stay_as_they_are():
  stated = made({SLOPE: 0.5})
  stated.table[['low', 'high', 'confidence']], stated.table['method'] = np.nan, ''
  mean = estimate(mean_over_seeds({0: stated, 1: stated}).over_seeds.table, 'net', 'slope')
  assert (mean.value, mean.n, mean.method, mean.note) == (0.5, 50, '', ''), 'published'
  equal_table, other = Table(('what',), [['same']]), Table(('what',), [['other']])
  tables = [{'a': equal_table, 'b': table} for table in (equal_table, other)]
  facts = [dataclasses.replace(stated, tables=named) for named in tables]
  assert mean_over_seeds(dict(enumerate(facts))).tables == {'a': equal_table}


def test_a_number_that_a_seed_lacks_is_the_mean_of_at_least_two_others():
  by_seed = {
    0: made({ECE: 0.8, RHO: 0.5}, {ECE: 'few'}),
    1: made({ECE: 0.9, SLOPE: 2}, {ECE: 'few'}),
    2: made({ECE: 0.7, RHO: 0.7}, {ECE: 'few', RHO: 'undefined in 3'}),
  }
  table = mean_over_seeds(by_seed).over_seeds.table
  assert estimate(table, 'net', 'ece').note == 'few'
  mean = estimate(table, 'net', 'rho')
  assert (mean.value, mean.n) == (pytest.approx(0.6), 2)
  assert math.isnan(mean.low) and mean.note == (
    'seed 2: undefined in 3; without seed 1, which has no such number; '
    'no interval: too few seeds, 2'
  )
  assert 'slope' not in set(table['quantity']), 'a single seed has no mean'
  by_seed = {seed: with_views(seed, 0.3) for seed in (0, 1)}
  by_seed[1].table.loc[0, ['value', 'low', 'high']] = np.nan
  first = by_seed[0].table.loc[0]
  over = mean_over_seeds(by_seed).over_seeds.table
  mean = estimate(over, first.classifier, 'error', corruption=first.corruption)
  assert np.isnan(mean.value) and np.isnan(mean.low)


@cases(
  'quantity, versus, lowest, highest',
  (RHO, '', 0, 1),
  (RHO, 'first', -1, 1),
  (GAP, '', -1, 1),
  (ECE, '', 0, 1),
  (ECE, 'first', -1, 1),
  (SLOPE, '', -math.inf, math.inf),
  (MCE, '', 0, math.inf),
  (MCE, 'first', -math.inf, math.inf),
  (Quantity('new', 'not declared'), '', -math.inf, math.inf),
)
def test_a_mean_stays_in_the_range_of_its_quantity(quantity, versus, lowest, highest):
  """Student's interval of three seeds at 0, 3 and 100 % is −107 to 176 %."""
  values = (0.0, 0.03, 1.0)
  low, high = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
  mean = mean_of(quantity, values, versus)
  assert low < -1 and high > 1
  assert (mean.low, mean.high) == pytest.approx((max(low, lowest), min(high, highest)))


def with_views(seed: int, share: float, corruptions: tuple[str, ...] = ('fog', 'snow')) -> Results:
  """Returns the results of one seed: two classifiers, clean and under corruptions."""
  shape, wrong = (20, len(corruptions) + 1), {}
  for label in ('a', 'b'):
    wrong[label] = np.random.default_rng([seed, label == 'a']).random(shape) < share
  views = pd.DataFrame({'corruption': [None, *corruptions]})
  outcomes = Outcomes(wrong, views)
  clean = means_of(CLEAN_ERROR, outcomes, where=views.corruption.isna().to_numpy())
  table = assemble([means_of(ERROR, outcomes, ('corruption',), test=True), clean])
  labels = [{'label': label, 'sha256': f'{seed}{label}'} for label in wrong]
  return Results('made', labels, {}, {'k': 1}, table=table, quantities=(ERROR, CLEAN_ERROR))


def test_the_table_has_each_seed_and_the_mean_of_every_estimate():
  by_seed = {0: with_views(0, 0.05), 3: with_views(3, 0.9, ('fog',)), 7: with_views(7, 0.4)}
  joined = mean_over_seeds(by_seed)
  for seed, results in by_seed.items():
    mean = joined.table[joined.table.seed == seed].drop(columns='seed').reset_index(drop=True)
    pd.testing.assert_frame_equal(
      mean[list(results.table.columns)], results.table, check_dtype=False
    )
  over = joined.over_seeds.table
  assert 'seed' not in over.columns and len(over) == 9
  for mean in over.itertuples():
    facets = {} if pd.isna(mean.corruption) else {'corruption': mean.corruption}
    values = [
      estimate(results.table, mean.classifier, mean.quantity, mean.versus, **facets).value
      for seed, results in by_seed.items()
      if mean.corruption is pd.NA or mean.corruption != 'snow' or seed != 3
    ]
    assert mean.value == pytest.approx(np.mean(values)) and mean.n == len(values)
    assert mean.family == 1 and np.isnan(mean.p)
  error = estimate(over, 'a', 'error', corruption='fog')
  assert (error.low, error.high) == (0, 1)
  snow = estimate(over, 'b', 'error', 'a', corruption='snow')
  assert snow.n == 2 and snow.note.startswith('without seed 3, which has no such number; ')
  assert joined.quantities == by_seed[0].quantities
  assert joined.classifiers[1]['seeds']['7'] == {'label': 'b', 'sha256': '7b'}
  assert joined.settings == {'k': 1, 'seeds': [0, 3, 7]}
