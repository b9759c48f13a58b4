"""Ranks of several classifiers, with intervals that contain all true ranks together.

Two classifiers differ significantly if their difference exceeds c standard errors. c is the
quantile of the largest difference among equal classifiers, so that with the stated confidence the
difference of no equal pair exceeds c. The interval of a rank holds all ranks that no significant
difference contradicts. Intervals of ranks alone do not say which two classifiers differ: a third
classifier may differ significantly from only one of two classifiers.

Reference: Mogstad, Romano, Shaikh and Wilhelm, Inference for ranks with applications to mobility
across neighbourhoods and academic achievement across countries, Review of Economic Studies 91
(2024), section 3.
"""

from typing import NamedTuple

import numpy as np
import scipy

from robustness.estimates.intervals import z_value
from robustness.estimates.means import Estimate

DRAWS = 20_000
"""Number of normal draws that the bound c of differences is a quantile of."""
METHOD, BONETT_WRIGHT = 'simultaneous ranks', 'bonett-wright'
"""Names of the intervals of ranks and of rank correlations."""
FEWEST_NETWORKS = 5
"""Fewest networks for an interval of a rank correlation."""


class Ranks(NamedTuple):
  """Intervals of the ranks of p classifiers, which contain all true ranks together.

  Rank 1 is the best classifier.

  Attributes:
    low: best possible rank: 1 + the number of classifiers that are significantly better, [p].
    high: worst possible rank: p minus the number of classifiers that are significantly worse, [p].
  """

  low: np.ndarray
  high: np.ndarray


def ranks(values: np.ndarray, errors: np.ndarray, confidence: float = 0.95, seed: int = 0) -> Ranks:
  """Returns intervals of the ranks of p values; the largest value is the best.

  Two values differ significantly if their difference exceeds c standard errors, where c is the
  quantile of the largest difference among equal values. Pairs that differ are removed, and c is
  computed again for the remaining pairs, until no further pair differs (step-down).

  Args:
    values: [p], two or more, finite.
    errors: [p], standard errors of the values, which are independent.
    confidence: probability that all true ranks are in their intervals, in (0, 1).
    seed: seed of the 20,000 normal draws that c is computed from.
  """
  p = len(values)
  # [p, p], for each ordered pair (i, j): value i minus value j, and its standard error.
  difference = values[:, None] - values
  standard_error = np.hypot(errors[:, None], errors)
  # Whether i is significantly better than j, and whether this is not decided yet. If i is better
  # than j, (j, i) stays undecided, because its difference is below 0.
  is_better, is_undecided = np.zeros((p, p), bool), ~np.eye(p, dtype=bool)
  draws = np.random.default_rng(seed).standard_normal((DRAWS, p)) * errors
  while is_undecided.any():
    # The largest difference among equal values in each draw, in standard errors.
    largest = np.zeros(DRAWS)
    # One pair at a time: all pairs at once would need p² · `DRAWS` numbers.
    for i, j in np.argwhere(is_undecided & (standard_error > 0)):
      np.maximum(largest, (draws[:, i] - draws[:, j]) / standard_error[i, j], out=largest)
    bound = np.quantile(largest, confidence, method='higher')
    exceeds_bound = is_undecided & (difference > bound * standard_error)
    if not exceeds_bound.any():
      break
    is_better |= exceeds_bound
    is_undecided &= ~exceeds_bound
  num_better, num_worse = is_better.sum(0), is_better.sum(1)  # values than each value, [p] each
  return Ranks(low=1 + num_better, high=p - num_worse)


def rank_correlation(x: np.ndarray, y: np.ndarray, confidence: float = 0.95) -> Estimate:
  """Returns Spearman's ρ between two quantities of n networks, with an interval.

  Ties have mean ranks. The interval is tanh(atanh ρ ± z √((1 + ρ²/2) / (n − 3))). In this formula
  |ρ| = 1, where atanh is infinite, is replaced by 1 − 6/(n³ − n). That is the middle between 1 and
  the next smaller value of ρ without ties. Fewer than `FEWEST_NETWORKS` networks have no interval.

  Args:
    x: the first quantity of two or more networks, [n], finite.
    y: the second quantity of the same networks, [n], finite.
    confidence: confidence of the interval, in (0, 1).

  Reference:
    Bonett and Wright, Sample size requirements for estimating Pearson, Kendall and Spearman
    correlations, Psychometrika 65 (2000).
  """
  n = len(x)
  if min(np.ptp(x), np.ptp(y)) == 0:
    note = 'undefined: all networks have the same value'
    return Estimate(np.nan, np.nan, np.nan, n, n, BONETT_WRIGHT, note=note)
  rho = float(scipy.stats.spearmanr(x, y).statistic)
  if n < FEWEST_NETWORKS:
    note = f'no interval: fewer than {FEWEST_NETWORKS} networks'
    return Estimate(rho, np.nan, np.nan, n, n, BONETT_WRIGHT, note=note)
  half_step = 6 / (n**3 - n)  # half of the distance from 1 to the next smaller value
  centre = np.clip(rho, -1 + half_step, 1 - half_step)
  half = z_value(confidence) * np.sqrt((1 + centre**2 / 2) / (n - 3))
  low, high = np.tanh(np.arctanh(centre) + np.array([-half, half]))
  return Estimate(rho, min(float(low), rho), max(float(high), rho), n, n, BONETT_WRIGHT)
