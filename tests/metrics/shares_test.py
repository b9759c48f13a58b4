"""Means and differences of shares: known values, bounds, and coverage for few images."""

from __future__ import annotations

import numpy as np
import pytest

from robustness.metrics import (
  clopper_pearson,
  independent_trials,
  korn_graubard,
  mean_difference,
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


def test_trials_of_unequal_weight_are_fewer_and_mirrored_cells_are_none():
  assert independent_trials(np.ones(7)) == 7
  assert independent_trials(np.full(7, 2)) == 7
  assert independent_trials([1, 2, 2]) == pytest.approx(25 / 9)
