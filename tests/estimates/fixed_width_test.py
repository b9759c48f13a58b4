"""Tests sequential intervals of a fixed width: coverage, expected trials, and sizes."""

import functools

import numpy as np
import pytest
from scipy import stats

from robustness.estimates.fixed_width import FixedWidth, fixed_size, plan, wald_lower_bound
from tests.cases import cases
from tests.refusals import refused

SMALL = FixedWidth(half_width=0.2, confidence=0.9, level=0.92, trials=6, looks=5)


def exact(successes: int, n: int, level: float) -> tuple[float, float]:
  """Returns the exact interval of SciPy."""
  interval = stats.binomtest(successes, n).proportion_ci(level, 'exact')
  return interval.low, interval.high


def by_recursion(design: FixedWidth, p: float) -> tuple[float, float]:
  """Returns the coverage and the expected number of trials, over all paths of successes."""

  @functools.cache
  def follow(look: int, successes: int, is_covered: bool) -> tuple[float, float]:
    n = look * design.trials
    if n:
      low, high = exact(successes, n, design.level)
      finished = (high - low) / 2 <= design.half_width
      if not finished:
        low, high = exact(successes, n, design.early_level)
      is_covered = is_covered and low <= p <= high
      if finished or look == design.looks:
        return float(is_covered), float(n)
    parts = [
      (stats.binom.pmf(gained, design.trials, p), *follow(look + 1, successes + gained, is_covered))
      for gained in range(design.trials + 1)
    ]
    return sum(q * c for q, c, _ in parts), sum(q * t for q, _, t in parts)

  return follow(0, 0, True)


@pytest.mark.parametrize('p', [0.03, 0.2, 0.42, 0.5, 0.71])
def test_coverage_and_expected_trials_are_sums_over_all_paths(p):
  coverage, trials = by_recursion(SMALL, p)
  assert SMALL.coverage([p]) == pytest.approx([coverage], abs=1e-9)
  assert SMALL.expected_trials([p]) == pytest.approx([trials], abs=1e-6)
  assert SMALL.trials < trials < SMALL.most_trials or p > 0.4, 'the looks must matter'


@cases(
  'half_width, confidence',
  (0.1, 0.95),
  (0.1, 0.99),
  (0.05, 0.95),
  (0.08, 0.99),
  pytest.param(0.03, 0.95, marks=pytest.mark.slow),
)
def test_coverage_is_enough_just_outside_every_end_of_an_interval(half_width, confidence):
  """Levels that were checked at only some ends covered in 0.98887, 0.9485 and 0.9498."""
  design = plan(half_width, confidence)
  ends = []
  for n in range(design.trials, design.most_trials + 1, design.trials):
    low, high = design.interval(np.arange(n + 1), n)
    ends += [np.nextafter(low, 0), np.nextafter(high, 1)]
  proportions = np.unique(np.concatenate(ends))
  proportions = proportions[(proportions > 0) & (proportions <= 0.5)]
  parts = np.array_split(proportions, len(proportions) // 128)
  coverage = min(design.coverage(part).min() for part in parts)
  assert design.looks > 5 and confidence <= coverage
  assert coverage < confidence + 0.6 * (1 - confidence), 'not wider than it must be'


def test_the_level_of_a_single_look_covers_too_rarely_over_many_looks():
  design = plan(0.05, 0.95)
  naive = FixedWidth(0.05, 0.95, 0.95, design.trials, design.looks)
  assert naive.coverage(naive.proportions_to_test()).min() < 0.945


def test_intervals_of_other_quantities_have_the_union_bound_over_looks():
  design = plan(0.1, 0.95)
  low, high = design.other_interval(3, 40)
  assert (low, high) == pytest.approx(exact(3, 40, 1 - 0.05 / design.looks))


def test_a_wide_interval_has_a_single_look():
  single = plan(0.2, 0.95)
  assert (single.looks, single.level) == (1, 0.95)
  assert single.most_trials == fixed_size(0.2, 0.95)


@cases('half_width, confidence', (0.3, 0.99), (0.2, 0.95), (0.06, 0.95))
def test_fixed_size_is_the_least_number_of_trials_for_the_half_width(half_width, confidence):
  size = fixed_size(half_width, confidence)
  widest = [
    max(np.subtract(*exact(k, n, confidence)[::-1]) / 2 for k in range(n // 2 - 1, n // 2 + 2))
    for n in (size - 1, size)
  ]
  assert widest[1] <= half_width < widest[0]


@pytest.mark.parametrize('half_width', [0.2, 0.06, 0.01])
@pytest.mark.parametrize('confidence', [0.5, 0.95, 0.99])
def test_the_lower_bound_of_the_number_of_trials_is_close(half_width, confidence):
  bound, size = wald_lower_bound(half_width, confidence), fixed_size(half_width, confidence)
  assert bound <= size <= bound + 2 / half_width + 2  # one trial moves the half width by 1 / n


@cases('half_width, confidence', (0.0, 0.95), (0.5, 0.95), (0.1, 1.0))
def test_values_out_of_range_are_refused(half_width, confidence):
  refused('is not in', plan, half_width, confidence)
