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
