"""Tests simultaneous intervals of ranks, and rank correlations and their intervals."""

import numpy as np
import pytest
from scipy import stats

from robustness.estimates.ranks import rank_correlation, ranks


def test_values_far_apart_have_single_ranks_and_equal_values_all_ranks():
  different = ranks(np.array([0.2, 0.9, 0.5]), np.full(3, 1e-3))
  assert different.low.tolist() == different.high.tolist() == [3, 1, 2]
  equal = ranks(np.array([0.5, 0.5, 0.5]), np.full(3, 1e-2))
  assert equal.low.tolist() == [1, 1, 1] and equal.high.tolist() == [3, 3, 3]


def test_two_values_differ_beyond_the_normal_quantile():
  errors = np.array([0.01, 0.02])
  error = np.hypot(*errors)
  for factor, differs in ((1.90, False), (2.02, True)):  # on either side of 1.96
    ends = ranks(np.array([0.5, 0.5 + factor * error]), errors)
    assert (ends.low.tolist() == [2, 1]) == differs


def test_values_without_error_have_single_ranks():
  assert ranks(np.array([0.5, 0.52]), np.zeros(2)).low.tolist() == [2, 1]


def test_the_second_step_down_distinguishes_more_values():
  # The distant value leaves first; the remaining differences have a smaller bound.
  values = np.array([0.0, 2.2, 2.2 + 3.2, 40.0])
  assert ranks(values, np.full(4, 0.5**0.5)).low.tolist()[-1] == 1


@pytest.mark.parametrize('spread', [0.0, 0.5, 3.0])
def test_intervals_cover_all_true_ranks_together(monkeypatch, spread):
  monkeypatch.setattr('robustness.estimates.ranks.DRAWS', 1000)
  rng = np.random.default_rng(0)
  truth = spread * np.arange(6.0)
  errors = np.linspace(0.5, 1, 6)
  covered = 0
  for draw in range(300):
    ends = ranks(truth + errors * rng.standard_normal(6), errors, 0.9, seed=draw)
    low = 1 + (truth > truth[:, None]).sum(1)
    high = 6 - (truth < truth[:, None]).sum(1)
    covered += bool((ends.low <= low).all() and (high <= ends.high).all())
  assert covered / 300 > 0.9 - 3 * np.sqrt(0.9 * 0.1 / 300)


def test_rank_correlations_equal_those_of_scipy_and_their_intervals_cover():
  generator, covered = np.random.default_rng(0), 0
  true = 6 / np.pi * np.arcsin(0.7 / 2)  # Spearman's ρ of normal values with the correlation 0.7
  for _ in range(400):
    x, noise = generator.normal(size=(2, 15))
    y = 0.7 * x + np.sqrt(1 - 0.49) * noise
    estimate = rank_correlation(x, y)
    assert estimate.value == pytest.approx(stats.spearmanr(x, y).statistic)
    covered += estimate.low <= true <= estimate.high
  assert 0.92 <= covered / 400 <= 0.99


def test_few_or_equal_networks_have_no_interval_and_equal_ranks_have_one():
  x = np.arange(12.0)
  perfect = rank_correlation(x, x**3)
  assert (perfect.value, perfect.high) == (1, 1) and 0.9 < perfect.low < 1
  assert rank_correlation(x, -x).low == -1
  of_four = rank_correlation(x[:4], x[:4])
  assert of_four.value == 1 and np.isnan(of_four.low) and 'fewer than 5' in of_four.note
  assert 'same value' in rank_correlation(x, 0 * x).note
