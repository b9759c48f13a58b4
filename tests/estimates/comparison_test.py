"""Paired comparisons: published values, symmetry, and the false-discovery rate kept."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from robustness.core.errors import InputError
from robustness.estimates import benjamini_hochberg, discordant, mcnemar, paired_difference
from robustness.estimates.comparison import sign_flip

# The example of Benjamini & Hochberg (1995), section 3.2: four of fifteen at rate .05.
PAPER = [
  0.0001,
  0.0004,
  0.0019,
  0.0095,
  0.0201,
  0.0278,
  0.0298,
  0.0344,
  0.0459,
  0.3240,
  0.4262,
  0.5719,
  0.6528,
  0.7590,
  1.0,
]


@pytest.mark.parametrize(
  ('b', 'c', 'p'), [(0, 0, 1.0), (0, 5, 0.0625), (1, 9, 0.021484375), (6, 6, 1.0), (0, 1, 1.0)]
)
def test_mcnemar_known_values(b, c, p):
  assert mcnemar(b, c) == pytest.approx(p, abs=1e-12)
  assert mcnemar(c, b) == pytest.approx(p, abs=1e-12)


def test_mcnemar_equals_the_exact_binomial_test():
  b, c = np.array([3, 20, 400]), np.array([[10], [25]])
  expected = [[stats.binomtest(int(x), int(x + y[0])).pvalue for x in b] for y in c]
  np.testing.assert_allclose(mcnemar(b, c), expected, rtol=1e-10)


def test_mcnemar_falls_as_counts_diverge():
  p = mcnemar(np.arange(15, 31), np.arange(15, -1, -1))
  assert np.all(np.diff(p) < 0)


def test_mcnemar_refuses_negative_counts():
  with pytest.raises(InputError, match='negative'):
    mcnemar(-1, 2)


def test_sign_flip_of_single_examples_is_mcnemar():
  for b, c in ((0, 0), (0, 5), (3, 4), (10, 31), (200, 150)):
    differences = np.repeat([-1, 1, 0], [b, c, 7])
    np.testing.assert_allclose(sign_flip(differences), mcnemar(b, c), atol=1e-12)


def test_sign_flip_equals_the_enumeration_of_all_signs():
  differences = np.random.default_rng(0).integers(-3, 4, (9, 5))
  signs = np.array(list(itertools.product([-1, 1], repeat=9)))
  sums = np.abs(signs @ np.abs(differences))
  exact = (sums >= np.abs(differences.sum(0))).mean(0)
  np.testing.assert_allclose(sign_flip(differences), exact, atol=1e-12)
  np.testing.assert_allclose(sign_flip(-differences.reshape(9, 5, 1))[:, 0], exact)


def test_sign_flip_refuses_shares():
  with pytest.raises(InputError, match='not whole'):
    sign_flip([0.5, 1])


def test_benjamini_hochberg_paper_example():
  significant, adjusted = benjamini_hochberg(PAPER, 0.05)
  assert significant.tolist() == [True] * 4 + [False] * 11
  np.testing.assert_allclose(adjusted, stats.false_discovery_control(PAPER), rtol=1e-12)


def test_benjamini_hochberg_keeps_shape_and_forgets_order():
  p = np.array(PAPER[:12])
  shuffled = np.random.default_rng(0).permutation(12)
  whole = benjamini_hochberg(p.reshape(3, 4), 0.05)
  mixed = benjamini_hochberg(p[shuffled], 0.05)
  assert whole.adjusted.shape == (3, 4)
  np.testing.assert_array_equal(whole.adjusted.ravel()[shuffled], mixed.adjusted)
  assert np.all(whole.adjusted >= p.reshape(3, 4))


def test_benjamini_hochberg_keeps_the_rate():
  rng = np.random.default_rng(1)
  shares = []
  for _ in range(300):
    p = np.concatenate([rng.uniform(size=160), rng.beta(0.05, 5, size=40)])
    result = benjamini_hochberg(p, 0.1).significant
    shares.append(result[:160].sum() / max(1, result.sum()))
  assert np.mean(shares) < 0.1


@pytest.mark.parametrize('p', [[0.1, np.nan], [1.2], [-0.1]])
def test_benjamini_hochberg_refuses_what_is_no_probability(p):
  with pytest.raises(InputError, match='p-value'):
    benjamini_hochberg(p, 0.05)


def test_benjamini_hochberg_refuses_a_rate_in_percent():
  with pytest.raises(InputError, match='rate = 5'):
    benjamini_hochberg([0.1], 5)


def test_paired_difference_value_and_antisymmetry():
  difference, low, high = paired_difference(30, 10, 200)
  p1, p2 = 31 / 202, 11 / 202
  half = 1.959964 * np.sqrt((p1 + p2 - (p1 - p2) ** 2) / 202)
  np.testing.assert_allclose((difference, low, high), (0.1, p1 - p2 - half, p1 - p2 + half))
  np.testing.assert_allclose(paired_difference(10, 30, 200), (-difference, -high, -low))
  assert np.isnan(paired_difference(0, 0, 0)).all()


def test_paired_difference_covers():
  rng = np.random.default_rng(2)
  counts = rng.multinomial(100, [0.12, 0.05, 0.83], size=4000)
  _, low, high = paired_difference(counts[:, 0], counts[:, 1], 100)
  assert 0.94 < np.mean((low <= 0.07) & (high >= 0.07)) < 0.98


def test_paired_difference_refuses_more_pairs_than_examples():
  with pytest.raises(InputError, match='b \\+ c <= n'):
    paired_difference(6, 6, 10)


def test_discordant_counts_each_side():
  first = np.array([[1, 1], [1, 0], [0, 0]], bool)
  second = np.array([[0, 1], [0, 1], [1, 1]], bool)
  b, c = discordant(first, second)
  assert b.tolist() == [2, 0] and c.tolist() == [1, 2]
  with pytest.raises(InputError, match='same examples'):
    discordant(first, second[:2])
