"""Means, differences and ratios of shares: known values, bounds, and coverage for few images."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import interval_coverage
from robustness.core.errors import InputError
from robustness.metrics import (
  clopper_pearson,
  independent_trials,
  korn_graubard,
  mean_difference,
  mean_ratio,
  mean_share,
  paired_difference,
)


def test_twenty_images_all_right_have_an_interval_of_twenty_images():
  number = mean_share(np.zeros(20), 75)
  assert number.value == number.low == 0
  assert number.high == pytest.approx(clopper_pearson(0, 20)[1])


def test_one_share_among_twenty_images_keeps_to_the_fractions():
  share = np.zeros(20)
  share[3] = 0.2
  number = mean_share(share, 5)
  assert number.value == pytest.approx(0.01)
  assert 0 < number.low < 0.01 < number.high < clopper_pearson(1, 20)[1]
  assert (number.low, number.high) == korn_graubard(0.01, share.std(ddof=1), 20, 5)


def test_a_factor_scales_value_and_interval():
  share = np.random.default_rng(0).random(30)
  plain, scaled = mean_share(share, 5), mean_share(share, 5, largest=1.4)
  assert (scaled.value, scaled.low, scaled.high) == pytest.approx(
    (1.4 * plain.value, 1.4 * plain.low, 1.4 * plain.high)
  )


def test_a_difference_of_single_views_is_the_paired_one():
  first_only, second_only = np.zeros(40), np.zeros(40)
  first_only[:7], second_only[20:22] = 1, 1
  number = mean_difference(first_only, second_only, 1)
  assert (number.value, number.low, number.high) == pytest.approx(paired_difference(7, 2, 40))


def test_a_difference_of_views_that_agree_counts_images_and_not_views():
  first_only, second_only = np.zeros(40), np.zeros(40)
  first_only[:7], second_only[20:22] = 1, 1
  number = mean_difference(first_only, second_only, 75)
  assert (number.low, number.high) == pytest.approx(paired_difference(7, 2, 40)[1:], abs=0.01)


def test_no_difference_in_twenty_images_has_an_interval_and_bounds_hold():
  number = mean_difference(np.zeros(20), np.zeros(20), 75)
  assert number.value == 0 and (number.low, number.high) == pytest.approx(
    paired_difference(0, 0, 20)[1:]
  )
  extreme = mean_difference(np.ones(3), np.zeros(3), 5)
  assert extreme.value == extreme.high == 1 and extreme.low > -1


def test_a_ratio_is_undefined_without_errors_of_the_baseline_and_says_so():
  number = mean_ratio(np.ones((4, 2)), np.array([[1, 0]] * 4))
  assert np.isnan([number.value, number.low, number.high]).all()
  assert number.note == 'undefined: the denominator of part 2 of 2 is 0'


def test_a_ratio_of_equal_errors_still_has_an_interval():
  share = np.random.default_rng(0).random((20, 3))
  number = mean_ratio(share, share)
  assert number.value == pytest.approx(1) and number.low < 0.95 and number.high > 1.05
  none = mean_ratio(np.zeros((20, 3)), share)
  assert none.value == none.low == 0 and none.high > 0.05
  assert np.isnan(mean_ratio(share[:1], share[:1]).low)
  with pytest.raises(InputError, match='must both be'):
    mean_ratio(share, share[:, :2])


def test_a_ratio_agrees_with_the_delta_method_for_many_images():
  generator = np.random.default_rng(1)
  denominator = generator.random((5000, 2)) < 0.4
  numerator = denominator & (generator.random((5000, 2)) < 0.5)
  number = mean_ratio(numerator, denominator)
  linear = ((numerator - 0.5 * denominator) / 0.4).mean(1)
  half = 1.96 * linear.std() / np.sqrt(5000)
  assert number.high - number.low == pytest.approx(2 * half, rel=0.05)


def test_trials_of_unequal_weight_are_fewer_and_mirrored_cells_are_none():
  assert independent_trials(np.ones(7)) == 7
  assert independent_trials(np.full(7, 2)) == 7
  assert independent_trials([1, 2, 2]) == pytest.approx(25 / 9)


@pytest.mark.parametrize(
  ('quantity', 'level', 'n'),
  [
    ('mean error', '.6', 5),
    ('mean error', '.2', 20),
    ('mean error, second - first', '.2', 5),
    ('mean error, second - first', '.2', 20),
    ('mCE against AlexNet', '.6', 5),
    ('mCE against AlexNet', '.2', 20),
    ('mCE against the first', '.6', 5),
    ('mCE against the first', '.6', 20),
    ('drop to pm-k', '.2', 5),
    ('accuracy over objects', '.6', 5),
  ],
)
def test_coverage_is_near_its_confidence_for_few_images(quantity: str, level: str, n: int):
  """In 1000 samples a coverage of .95 is seen above .93, three standard errors below it."""
  whole = interval_coverage.population(interval_coverage.LEVELS[level], size=4000)
  function = interval_coverage.QUANTITIES[quantity]
  covered, _, _ = interval_coverage.coverage(function, whole, n, samples=1000)
  assert covered >= 0.93


def test_false_discoveries_of_views_of_the_same_images_stay_at_the_rate():
  whole = interval_coverage.population(-1.0, size=4000, shift=0.8)
  rate, discoveries = interval_coverage.false_discoveries(whole, 200, samples=60)
  assert discoveries > 5 and rate <= 0.05
