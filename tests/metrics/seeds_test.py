"""Means over seeds with Student's interval, against scipy, and coverage by simulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from robustness.core.errors import InputError
from robustness.estimates.means import means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import CLEAN_ERROR, ERROR, Quantity
from robustness.estimates.table import assemble
from robustness.metrics.seeds import over_seeds, student
from robustness.results import Number, Results
from tests.table_rows import assert_same, estimate

SLOPE = Quantity('slope', 'slope', kind='amount')


def results(seed: int, value: float) -> Results:
  numbers = {'top1': Number(value, value - 0.1, value + 0.1, 50, 'clopper-pearson 0.95')}
  if seed == 0:
    numbers['only_here'] = numbers['top1']
  return Results('accuracy', {'label': 'net', 'sha256': str(seed)}, {'n': 50}, {'k': 1}, numbers)


def test_the_interval_is_scipys() -> None:
  values = [0.91, 0.93, 0.9, 0.95]
  number = student(values)
  low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
  assert (number.value, number.low, number.high) == pytest.approx((np.mean(values), low, high))
  assert (number.n, number.interval) == (4, 'student over seeds 0.95')
  assert math.isnan(student([0.1, float('nan')]).low)
  with pytest.raises(InputError, match='at least two seeds'):
    student([0.5])


def test_equal_values_have_no_interval_and_no_interval_of_no_width() -> None:
  number = student([1.0, 1.0])
  assert number.value == 1 and math.isnan(number.low) and math.isnan(number.high)
  assert number.interval == 'student over seeds 0.95 (none: all are equal)'


@pytest.mark.parametrize('count', [2, 3, 5])
def test_coverage_of_normal_seeds(count: int) -> None:
  """4000 draws: three standard errors of .95 are .0103."""
  draws = np.random.default_rng(count).normal(0.7, 0.02, (4000, count))
  mean, error = draws.mean(1), draws.std(1, ddof=1) / math.sqrt(count)
  half = stats.t.ppf(0.975, count - 1) * error
  covered = np.mean(np.abs(mean - 0.7) <= half)
  number = student(draws[0].tolist())
  assert (number.low, number.high) == pytest.approx((mean[0] - half[0], mean[0] + half[0]))
  assert covered == pytest.approx(0.95, abs=0.0104)


def made(**numbers: Number) -> Results:
  return Results(
    'systematic', {'label': 'net'}, {}, {}, {k.replace('__', '/'): n for k, n in numbers.items()}
  )


def test_what_a_seed_lacks_is_the_mean_of_the_others_and_every_note_is_kept() -> None:
  exact = 'clopper-pearson 0.95'
  by_seed = {
    0: made(top1=Number(0.8, 0.7, 0.9, 50, exact, 'few'), rho=Number(0.5, 0.4, 0.6, 9, 'boot')),
    1: made(top1=Number(0.9, 0.8, 1.0, 50, exact, 'few')),
    2: made(
      top1=Number(0.7, 0.6, 0.8, 50, exact, 'few'),
      rho=Number(0.7, 0.6, 0.8, 9, 'boot', 'undefined in 3'),
    ),
  }
  joined = over_seeds(by_seed)
  assert joined.numbers['top1'].note == 'few'
  number = joined.numbers['rho']
  assert (number.value, number.n) == (pytest.approx(0.6), 2)
  assert number.note == 'seed 2: undefined in 3; without seed 1, which has no such number'
  rows = {row[0]: row[1:] for row in joined.tables['seeds'].rows}
  assert rows['rho'][:4] == [0.5, pytest.approx(float('nan'), nan_ok=True), 0.7, number.value]


@pytest.mark.parametrize(
  ('name', 'kind', 'values', 'expected'),
  [
    ('rho', 'bootstrap within classes 0.95', (0.03, 0.53), (0, 1)),
    ('top1', 'clopper-pearson 0.95', (0.7, 0.99), (0, 1)),
    ('error', 'sequential clopper-pearson 0.95', (0.7, 0.99), (0, 1)),
    ('seen_fog', 'korn-graubard, stratified 0.95', (0.7, 0.99), (0, 1)),
    ('ece__clean', 'bootstrap over images 0.95', (0.01, 0.2), (0, None)),
    ('drop_pm_10', 'paired bonett-price 0.95', (0.01, 0.4), (-1, 1)),
    ('slope', 'bootstrap over images 0.95', (0.2, 0.4), (None, None)),
    ('mCE__official', 'korn-graubard 0.95', (0.7, 0.99), (0, None)),
  ],
)
def test_a_mean_of_shares_stays_among_them(name, kind, values, expected) -> None:
  """Two seeds at 3 and 53 % have Student's −290 to 346 %."""
  by_seed = {k: made(**{name: Number(v, v - 0.1, v + 0.1, 50, kind)}) for k, v in enumerate(values)}
  number = over_seeds(by_seed).numbers[name.replace('__', '/')]
  plain = student(values)
  assert plain.low < -0.5 and plain.high > 0.9
  low, high = (plain.low, plain.high)
  assert number.low == pytest.approx(low if expected[0] is None else max(low, expected[0]))
  most = 1 if name == 'ece__clean' else expected[1]
  assert number.high == pytest.approx(high if most is None else min(high, most))


def test_each_seed_stands_beside_the_mean() -> None:
  joined = over_seeds({0: results(0, 0.8), 7: results(7, 0.9)})
  assert joined.numbers['top1'].value == pytest.approx(0.85)
  assert joined.numbers['seed7/top1'].value == 0.9
  assert joined.numbers['seed0/top1'].interval == 'clopper-pearson 0.95'
  assert 'only_here' not in joined.numbers and 'seed0/only_here' in joined.numbers
  assert joined.tables['seeds'].columns == ('number', 'seed 0', 'seed 7', 'mean', 'low', 'high')
  assert joined.tables['seeds'].rows[0][:3] == ['top1', 0.8, 0.9]
  assert joined.classifier['seeds']['7']['sha256'] == '7'
  assert joined.settings == {'k': 1, 'seeds': [0, 7]}


def named(row: Any) -> str:
  """The name of the number that a row of the table is."""
  corruption = '' if pd.isna(row.corruption) else row.corruption
  return '/'.join(filter(None, (row.classifier, row.versus, row.quantity, corruption)))


def with_table(seed: int, share: float, corruptions: tuple[str, ...] = ('fog', 'snow')) -> Results:
  """Two classifiers' errors by corruption, and their numbers, of one seed."""
  generator = np.random.default_rng(seed)
  wrong = {k: generator.random((20, len(corruptions) + 1)) < share for k in ('a', 'b')}
  views = pd.DataFrame({'corruption': [None, *corruptions]})
  outcomes = Outcomes(wrong, views)
  table = assemble(
    [
      means(ERROR, outcomes, ('corruption',), test=True),
      means(CLEAN_ERROR, outcomes, where=views.corruption.isna().to_numpy()),
      means(SLOPE, Outcomes({k: 5.0 * w for k, w in wrong.items()}, views), facets={'layer': '1'}),
    ]
  )
  table.loc[table.quantity == 'slope', 'note'] = '' if seed else 'steep'
  numbers = {}
  for row in table.itertuples():
    name = named(row)
    method = 'bonett-price' if row.versus else row.method
    if row.quantity == 'slope':
      method = 'student'
    text = f'{method} {row.confidence:g}'
    numbers[name] = Number(row.value, row.low, row.high, int(row.n), text, row.note)
  labels = [{'label': label} for label in wrong]
  quantities = (ERROR, CLEAN_ERROR, SLOPE)
  return Results('made', labels, {}, {}, numbers, table=table, quantities=quantities)


def test_the_table_has_each_seed_and_the_mean_of_every_estimate() -> None:
  by_seed = {0: with_table(0, 0.05), 3: with_table(3, 0.9, ('fog',)), 7: with_table(7, 0.4)}
  joined = over_seeds(by_seed)
  for seed, of in by_seed.items():
    own = joined.table[joined.table.seed == seed].drop(columns='seed').reset_index(drop=True)
    pd.testing.assert_frame_equal(own[list(of.table.columns)], of.table, check_dtype=False)
  over = joined.table[joined.table.seed.isna()]
  assert len(over) == sum('seed' not in name for name in joined.numbers) == 12
  for row in over.itertuples():
    name = named(row)
    assert_same(row, joined.numbers[name])
    assert (row.method, row.clusters, row.family) == ('student over seeds', row.n, 1)
  error = estimate(joined.table, 'a', 'error', corruption='fog')
  assert (error.low, error.high) == (0, 1) and np.isnan(error.p)
  snow = estimate(joined.table, 'b', 'error', 'a', corruption='snow')
  assert snow.n == 2 and snow.note == 'without seed 3, which has no such number'
  slope = estimate(joined.table, 'a', 'slope', layer='1')
  assert slope.note == 'seed 0: steep' and slope.low < 0
  assert joined.quantities == by_seed[0].quantities


def test_what_does_not_exist_in_one_seed_has_no_mean_and_one_seed_alone_gives_none() -> None:
  by_seed = {seed: with_table(seed, 0.3) for seed in (0, 1)}
  by_seed[1].table.loc[0, ['value', 'low', 'high']] = np.nan
  by_seed[1].table = by_seed[1].table.drop(index=1)
  over = over_seeds(by_seed).table
  over = over[over.seed.isna()]
  first, second = (by_seed[0].table.loc[k] for k in (0, 1))
  assert np.isnan(estimate(over, first.classifier, 'error', corruption=first.corruption).value)
  assert not len(
    over[(over.classifier == second.classifier) & (over.corruption == second.corruption)].query(
      'versus == "" and quantity == "error"'
    )
  )


def test_studies_without_a_table_have_none_over_seeds() -> None:
  assert not len(over_seeds({0: results(0, 0.8), 7: results(7, 0.9)}).table)
