"""Error consistency: how often two classifiers are wrong together, beyond chance.

Reference:
  Geirhos, Meding and Wichmann, Beyond accuracy: quantifying trial-by-trial behaviour of CNNs and
  humans by measuring error consistency, NeurIPS 2020.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from robustness.estimates.intervals import BAYESIAN
from robustness.estimates.means import Estimate
from robustness.estimates.of_means import Units, dirichlet_means

_CELLS = np.array([[1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
"""First right, second right, and the same, of an image that both, one or none is right on."""


def beyond_chance(observed: np.ndarray, expected: np.ndarray) -> np.ndarray:
  """Returns κ = (p_o − p_e)/(1 − p_e) of observed and expected agreement; NaN where p_e = 1."""
  rest, kappa = 1 - np.asarray(expected, float), np.full(np.shape(expected), np.nan)
  np.divide(observed - expected, rest, out=kappa, where=rest > 1e-12)
  return kappa


def error_consistency(first: ArrayLike, second: ArrayLike, same: ArrayLike) -> np.ndarray:
  """Returns Cohen's κ of two classifiers' right and wrong answers, [...] in [-1, 1].

  κ = (c - e) / (1 - e), where c is how often both are right or both are wrong and e is how often
  independent classifiers of these accuracies p and q are: p q + (1 - p)(1 - q) (equations 1 to 3).
  It is 1 where both are wrong on the same images, 0 where they are as often as by chance, and NaN
  where both are always right or both always wrong.

  Args:
    first, second: accuracies, [...].
    same: how often both are right or both are wrong, [...].
  """
  p, q, agreed = (np.asarray(value, float) for value in (first, second, same))
  return beyond_chance(agreed, p * q + (1 - p) * (1 - q))


def estimates(of: Units, confidence: float = 0.95, seed: int = 0) -> list[Estimate]:
  """Returns the error consistency in G groups, with percentiles of the Bayesian bootstrap.

  The units' weights are drawn from a Dirichlet distribution of ones. Four further units, on which
  both, one or none of the classifiers are right, have ½ each: for a single view this is Jeffreys'
  prior of the four shares. Resampled images cover κ = 0 of two classifiers of accuracy .9 in .78 of
  samples of 50 images, this in .96 (simulated, November 2026). The interval reaches the value.

  Args:
    of: what each of K units adds to the means, [K, 3 G]: accuracies of the first classifier in G
      groups, of the second, and how often they are the same.
    confidence: of each interval, in (0, 1).
    seed: of the draws.
  """
  count, groups = len(of.weight), of.weight.shape[1] // 3
  counts = (of.weight[:, :groups] > 0).sum(0)
  values = error_consistency(*np.split(of.means(np.full(count, 1 / count)), 3))
  each = of.weight.sum(0) / np.tile(np.maximum(counts, 1), 3)
  further = Units(np.repeat(_CELLS, groups, 1) * each, np.tile(each, (4, 1)), of.n)
  kappas = error_consistency(*np.split(dirichlet_means(of, further, seed), 3, -1))
  tail = (1 - confidence) / 2
  ends = np.quantile(kappas, (tail, 1 - tail), axis=0)
  return [
    Estimate(float(value), min(low, value), max(high, value), of.n, units, BAYESIAN)
    if np.isfinite(value)
    else Estimate(np.nan, np.nan, np.nan, of.n, units, BAYESIAN, note='undefined: all alike')
    for value, low, high, units in zip(values, *ends.tolist(), counts.tolist(), strict=True)
  ]
