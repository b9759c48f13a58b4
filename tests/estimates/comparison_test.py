"""Tests paired comparisons, false discovery rates and effective robustness."""

import itertools

import numpy as np
import pytest
from scipy import special, stats

from robustness.estimates.comparison import (
  benjamini_hochberg,
  effective_robustness,
  mcnemar,
  paired_difference,
  sign_flip,
)
from tests.refusals import refused

PUBLISHED_P_VALUES = np.array(
  [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344]
  + [0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]
)
"""The example of Benjamini and Hochberg (1995), section 3.2: four of fifteen at the rate 0.05."""


def test_mcnemar_is_the_exact_binomial_test():
  for b, c, p in ((0, 0, 1.0), (0, 5, 0.0625), (1, 9, 0.021484375), (6, 6, 1.0), (0, 1, 1.0)):
    assert (mcnemar(b, c), mcnemar(c, b)) == pytest.approx((p, p), abs=1e-12)
  b, c = np.array([3, 20, 400]), np.array([[10], [25]])
  expected = [[stats.binomtest(int(x), int(x + y[0])).pvalue for x in b] for y in c]
  np.testing.assert_allclose(mcnemar(b, c), expected, rtol=1e-10)


def test_sign_flip_equals_mcnemar_for_single_examples_and_counts_all_signs():
  for b, c in ((0, 0), (0, 5), (3, 4), (10, 31), (200, 150)):
    differences = np.repeat([-1, 1, 0], [b, c, 7])
    np.testing.assert_allclose(sign_flip(differences), mcnemar(b, c), atol=1e-12)
  differences = np.random.default_rng(0).integers(-3, 4, (9, 5))
  signs = np.array(list(itertools.product([-1, 1], repeat=9)))
  sums = np.abs(signs @ np.abs(differences))
  exact = (sums >= np.abs(differences.sum(0))).mean(0)
  np.testing.assert_allclose(sign_flip(differences), exact, atol=1e-12)
  np.testing.assert_allclose(sign_flip(-differences.reshape(9, 5, 1))[:, 0], exact)


def test_benjamini_hochberg_of_the_published_example_in_any_shape_and_order():
  assert benjamini_hochberg(PUBLISHED_P_VALUES, 0.05).tolist() == [True] * 4 + [False] * 11
  p, rate = PUBLISHED_P_VALUES[:12], 0.02
  shuffled = np.random.default_rng(0).permutation(12)
  as_table = benjamini_hochberg(p.reshape(3, 4), rate)
  assert as_table.shape == (3, 4) and 0 < as_table.sum() < 12
  np.testing.assert_array_equal(as_table.ravel()[shuffled], benjamini_hochberg(p[shuffled], rate))
  assert benjamini_hochberg([], rate).shape == (0,)


def test_benjamini_hochberg_equals_the_adjusted_values_of_scipy():
  rng = np.random.default_rng(0)
  for digits in range(1, 9):  # rounded p-values have ties
    p = np.round(rng.random(30) ** 4, digits)
    for rate in (0.01, 0.05, 0.3):
      np.testing.assert_array_equal(
        benjamini_hochberg(p, rate), stats.false_discovery_control(p) <= rate
      )


def test_paired_differences_by_hand():
  difference, low, high = paired_difference(30, 10, 200)
  p1, p2 = 31 / 202, 11 / 202  # one pair of each kind is added, as Bonett and Price do
  half = 1.959964 * np.sqrt((p1 + p2 - (p1 - p2) ** 2) / 202)
  np.testing.assert_allclose((difference, low, high), (0.1, p1 - p2 - half, p1 - p2 + half))
  np.testing.assert_allclose(paired_difference(10, 30, 200), (-difference, -high, -low))
  assert np.isnan(paired_difference(0, 0, 0)).all()


def test_impossible_counts_and_p_values_are_refused():
  refused('negative', mcnemar, -1, 2)
  refused('not whole', sign_flip, [0.5, 1])
  for p in ([0.1, np.nan], [1.2], [-0.1]):
    refused('p-value', benjamini_hochberg, p, 0.05)
  refused('rate = 5', benjamini_hochberg, [0.1], 5)
  refused(r'b \+ c <= n', paired_difference, 6, 6, 10)


CLEAN = np.array([[0.7], [0.8], [0.9], [0.95]])
SHIFTED = special.expit(0.8 * special.logit(CLEAN[:, 0]) - 1.2)


def test_effective_robustness_is_the_height_above_the_line_of_logits():
  np.testing.assert_allclose(effective_robustness(CLEAN, SHIFTED, 10**6), 0, atol=1e-12)
  shifted = SHIFTED + np.array([0, 0.07, 0, 0])
  assert effective_robustness(CLEAN, shifted, 10**6)[1] == pytest.approx(0.07)


def test_each_bootstrap_sample_has_a_line_and_equal_models_have_none():
  samples = np.stack([SHIFTED, SHIFTED + [0.1, 0, 0, 0]])
  values = effective_robustness(np.stack([CLEAN, CLEAN]), samples, 10**6)
  np.testing.assert_allclose(values[0], effective_robustness(CLEAN, samples[0], 10**6), atol=1e-12)
  np.testing.assert_allclose(values[1], effective_robustness(CLEAN, samples[1], 10**6))
  equal = np.array([[0.5], [0.5], [0.5], [0.9]])
  assert np.isnan(effective_robustness(equal, SHIFTED, 100)).tolist() == [False] * 3 + [True]
  accuracy = np.array([0.5, 0.8, 0.9, 1.0])
  with_perfect = effective_robustness(accuracy[:, None], accuracy, 1000)
  np.testing.assert_allclose(with_perfect, 0, atol=0.05)
  refused('1 reference set needs at least 4 models, not 3', effective_robustness, CLEAN[:3], [], 9)
