"""Means over seeds with Student's interval, against scipy, and coverage by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from robustness.core.errors import InputError
from robustness.metrics.seeds import over_seeds, student
from robustness.results import Number, Results


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
    ('mCE__official', 'korn-graubard 0.95', (0.7, 0.99), (None, None)),
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
