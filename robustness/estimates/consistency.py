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


def estimates(
  of: Units, groups: np.ndarray, confidence: float = 0.95, seed: int = 0
) -> list[Estimate]:
  """Returns the mean error consistency of each group of views, with percentiles of the Bayesian
  bootstrap.

  κ is of one view, as by condition in the authors' toolbox (model-vs-human,
  `ErrorConsistency.get_result_df`), and a group has the mean of its views in which κ is defined. κ
  of several views together would be above 0 for classifiers that are wrong independently of each
  other, because some views are harder for both.

  The units' weights are drawn from a Dirichlet distribution of ones. Four further units, on which
  both, one or none of the classifiers are right, have ½ each, which is Jeffreys' prior of the four
  shares. Resampled images cover κ = 0 of two classifiers of accuracy .9 in .78 of samples of 50
  images, this in .96 (simulated, November 2026). The interval reaches the value.

  Args:
    of: what each of K units adds to the means, [K, 3 V]: accuracies of the first classifier in V
      views, of the second, and how often they are the same.
    groups: how often a view counts in each of G groups, [G, V].
    confidence: of each interval, in (0, 1).
    seed: of the draws.
  """
  count, views = len(of.weight), of.weight.shape[1] // 3
  there = of.weight[:, :views] > 0
  each = of.weight.sum(0) / np.tile(np.maximum(there.sum(0), 1), 3)
  further = Units(np.repeat(_CELLS, views, 1) * each, np.tile(each, (4, 1)), of.n)
  by_view = error_consistency(*np.split(of.means(np.full(count, 1 / count)), 3))
  defined = np.isfinite(by_view)
  drawn = error_consistency(*np.split(dirichlet_means(of, further, seed), 3, -1))[:, defined]
  tail, found = (1 - confidence) / 2, []
  for own in groups:
    weight, units = own[defined], int(there[:, own > 0].any(1).sum())
    absent = int((own[~defined] > 0).sum())
    in_some = f' in {absent} view{"s" * (absent > 1)}' if weight.any() else ''
    note = f'undefined{in_some}: all alike' if absent else ''
    value, low, high = np.nan, np.nan, np.nan
    if weight.any():
      value = float(by_view[defined] @ weight / weight.sum())
      ends = np.quantile(drawn @ weight / weight.sum(), (tail, 1 - tail))
      low, high = min(float(ends[0]), value), max(float(ends[1]), value)
    found.append(Estimate(value, low, high, of.n, units, BAYESIAN, note=note))
  return found
