"""Prediction sets that contain the true class with a stated probability: split conformal
prediction.

A score s(x, y) is large if class y does not fit image x. Let k be ⌈(n + 1)(1 − α)⌉ for n held-out
images and a miss rate α, and q the k-th smallest of the n scores of their true classes, or ∞ if k
exceeds n. The prediction set of an image is {y: s(x, y) ≤ q}. It contains the true class with
probability ≥ 1 − α for images that are exchangeable with the held-out ones. Corrupted images are
not exchangeable with them.

With probabilities p in descending order, the rank r of y from 1, and U uniform in [0, 1):

  'lac'   1 − p_y
  'aps'   Σ_{j ≤ r} p_(j) − U p_y
  'raps'  Σ_{j ≤ r} p_(j) − U p_y + λ max(0, r − k₀), with settings λ and k₀

Sets may be empty; if that were forbidden, they would contain the class more often than stated.

Reference:
  Sadinle, Lei & Wasserman, Least ambiguous set-valued classifiers with bounded error levels, JASA
  114 (2019); Romano, Sesia & Candès, Classification with valid and adaptive coverage, NeurIPS 2020;
  Angelopoulos et al., Uncertainty sets for image classifiers using conformal prediction, ICLR 2021.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from robustness.core import decimals
from robustness.core.errors import InputError
from robustness.core.settings import choice
from robustness.estimates.intervals import THRESHOLD
from robustness.estimates.quantity import Quantity

LAC, APS, RAPS = 'lac', 'aps', 'raps'
"""Names of the scores."""
SCORES = (LAC, APS, RAPS)
"""All scores."""
SIZES = (0, 2, 4, 11, 101)
"""The smallest set size of each stratum: sizes 0 to 1, 2 to 3, 4 to 10, 11 to 100, and above."""


def scores(
  kind: str, probabilities: np.ndarray, uniform: np.ndarray, penalty: float = 0.01, rank: int = 5
) -> np.ndarray:
  """Returns a conformal score for every class of every image, [..., K].

  The prediction set of an image has the classes with scores up to a threshold. Let p_(j) be the
  probabilities in descending order, and r the rank of class y in this order, from 1. The scores are

    'lac'   1 − p_y
    'aps'   Σ_{j ≤ r} p_(j) − U p_y
    'raps'  Σ_{j ≤ r} p_(j) − U p_y + λ max(0, r − k₀)

  Args:
    kind: 'lac', 'aps' or 'raps'.
    probabilities: [..., K], in [0, 1].
    uniform: U, one random number in [0, 1) per image, [...].
    penalty: λ of 'raps'.
    rank: k₀ of 'raps', the largest rank without a penalty.
  """
  choice('score', kind, SCORES)
  p = np.asarray(probabilities, float)
  if kind == LAC:
    return np.asarray(1 - p)
  order = np.argsort(-p, -1, kind='stable')
  descending = np.take_along_axis(p, order, -1)
  # The scores of the classes by rank, and at the end by class.
  ranked = np.cumsum(descending, -1) - uniform[..., None] * descending
  if kind == RAPS:
    ranked = ranked + penalty * np.maximum(np.arange(1, p.shape[-1] + 1) - rank, 0)
  return np.take_along_axis(ranked, np.argsort(order, -1), -1)


class Threshold(NamedTuple):
  """The threshold of conformal prediction sets, with an interval.

  The interval shows how much the threshold would vary with other held-out images.

  Attributes:
    q: the threshold. A set has the classes with scores ≤ q; ∞ puts all classes in every set.
    low, high: ends of the interval; either may be ∞.
  """

  q: float
  low: float
  high: float


def threshold(of_true_class: np.ndarray, alpha: float, confidence: float = 0.95) -> Threshold:
  """Returns the threshold of prediction sets from the scores of n held-out images.

  The threshold q is the k-th smallest score with k = ⌈(n + 1)(1 − α)⌉, or ∞ if k exceeds n. Sets
  then contain the true class with probability ≥ 1 − α. The ends of the interval are scores some
  ranks below and above k. An end is ∞ if its rank exceeds n; if k exceeds n, the low end is the
  largest score.

  Args:
    of_true_class: the scores of the true classes of the held-out images, [n].
    alpha: the miss rate α, in (0, 1).
    confidence: confidence of the interval, in (0, 1).

  Raises:
    InputError: there is no score, or α is outside (0, 1).

  Reference:
    Woodruff, Confidence intervals for medians and other position measures, JASA 47 (1952).
  """
  count = len(of_true_class)
  if not count or not 0 < alpha < 1:
    raise InputError(f'{count} scores and α = {alpha!r}: give at least one and α in (0, 1).')
  k = max(1, decimals.ceil((count + 1) * (1 - alpha)))
  ordered = np.sort(of_true_class)
  if k > count:
    return Threshold(q=math.inf, low=float(ordered[-1]), high=math.inf)
  # Over draws of the held-out images, the share of new images with a score of at most q has the
  # distribution Beta(k, n + 1 − k) with the mean k / (n + 1). Times n + 1 it is a rank.
  probabilities = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
  lower, upper = (count + 1) * special.betaincinv(k, count + 1 - k, probabilities)
  # If the share at q is d ranks above its mean, q is d ranks too high, and the right score is d
  # ranks below k. The quantiles are therefore mirrored at k.
  low_rank, high_rank = 2 * k - upper, 2 * k - lower
  if count - k < 10:
    # The distribution is skewed near its upper end. Mirrored or not, the lower quantile is taken.
    low_rank = min(low_rank, lower)
  # The scores of ranks 0 to n + 1. Ranks below 1 have the smallest score, ranks above n have ∞.
  score_of_rank = np.concatenate([ordered[:1], ordered, [math.inf]])
  ranks = np.clip([k, math.floor(low_rank), math.ceil(high_rank)], 0, count + 1)
  q, low, high = score_of_rank[ranks].tolist()
  return Threshold(q, low, high)


def with_threshold_draw(
  estimates: pd.DataFrame,
  ends: Sequence[np.ndarray],
  correlations: Sequence[float],
  quantity: Quantity,
) -> pd.DataFrame:
  """Widens intervals of means over prediction sets by the random error of the threshold.

  The threshold q is computed from held-out images, and would differ for others. Intervals of means
  over sets, such as coverage, do not include this. Let w be the distance from a value to an end of
  its interval. Let c be the change of the value if q moves to the end of its interval on the
  same side. The new distance is √(w² + c²).

  A difference of two classifiers has c² = c₁² + c₂² − 2 ρ c₁ c₂. For the low end, c₂ is the change
  of the later classifier downwards and c₁ the change of the first classifier upwards. For the high
  end both are reversed.

  Args:
    estimates: table from `means.means` for L classifiers and G groups of views (ways of perturbing
      images). It has L · G values, followed by (L − 1) · G differences from the first classifier.
    ends: two arrays with the values of the same rows, computed with `Threshold.low` and with
      `Threshold.high` in place of q.
    correlations: ρ, the correlation of two decisions about each held-out image, [L]: whether the
      true class is in each classifier's set, and whether it is in the first classifier's.
    quantity: quantity of the estimates, which limits values and differences.

  Reference:
    Zou & Donner, Construction of confidence limits about effect measures, Statistics in Medicine 27
    (2008).
  """
  is_value = (estimates.versus == '').to_numpy()  # not a difference
  value = estimates.value.to_numpy()
  # How far the values move down and up if q moves to the ends of its interval.
  changes = np.abs(np.stack(ends) - value)[:, is_value]  # [2, L · G]
  down, up = changes.reshape(2, len(correlations), -1)  # [L, G] each
  squares_down = _squared_changes(down, up, correlations)
  squares_up = _squared_changes(up, down, correlations)
  low = value - np.sqrt((value - estimates.low) ** 2 + squares_down)
  high = value + np.sqrt((estimates.high - value) ** 2 + squares_up)
  # The bounds of each row.
  smallest, largest = np.where(is_value[:, None], quantity.range, quantity.difference_range).T
  low, high = np.maximum(low, smallest), np.minimum(high, largest)
  return estimates.assign(low=low, high=high, method=THRESHOLD)


def _squared_changes(
  changes: np.ndarray, opposite: np.ndarray, correlations: Sequence[float]
) -> np.ndarray:
  """Returns the squared changes c² that `with_threshold_draw` adds to one end of each interval.

  Args:
    changes: how far the values of L classifiers in G groups move towards this end, [L, G], at least
      0.
    opposite: how far they move in the opposite direction, [L, G].
    correlations: correlation of each classifier with the first, [L].

  Returns:
    c² of the L · G values, followed by (L − 1) · G differences from the first classifier.
  """
  # The first classifier's value is subtracted: if it moves up, a difference moves down.
  first, later = opposite[:1], changes[1:]
  rho = np.asarray(correlations)[1:, None]
  of_differences = np.maximum(later**2 + first**2 - 2 * rho * later * first, 0)
  return np.concatenate([(changes**2).ravel(), of_differences.ravel()])


def size_stratified_violation(covered: np.ndarray, size: np.ndarray, alpha: float) -> np.ndarray:
  """Returns the largest error |coverage − (1 − α)| over prediction sets grouped by size.

  Coverage is the share of sets with the true class. Sizes are grouped by `SIZES`: 0 to 1, 2 to 3,
  and so on. Groups without a set are left out.

  Args:
    covered: bool [N, ...], whether a set contains the true class.
    size: int [N, ...], number of classes in the set.
    alpha: α, in (0, 1).

  Returns:
    [...], in [0, 1].
  """
  stratum_of_set = np.searchsorted(SIZES, size, side='right')  # from 1
  gaps = []
  for stratum in range(1, len(SIZES) + 1):
    inside = stratum_of_set == stratum
    coverage = (covered & inside).sum(0) / np.maximum(inside.sum(0), 1)
    # 0 leaves a stratum without a set out of the maximum.
    gaps.append(np.where(inside.any(0), np.abs(coverage - (1 - alpha)), 0.0))
  return np.asarray(np.max(gaps, 0))


def class_coverage_gap(covered: np.ndarray, labels: np.ndarray, alpha: float) -> np.ndarray:
  """Returns the mean error |coverage − (1 − α)| of prediction sets over the true classes.

  Coverage is the share of sets with the true class.

  Args:
    covered: bool [N, ...], whether a set contains the true class.
    labels: int [N], the true classes.
    alpha: α, in (0, 1).

  Returns:
    [...], in [0, 1].

  Reference:
    Ding et al., Class-conditional conformal prediction with many classes, NeurIPS 2023.
  """
  gaps = [np.abs(covered[labels == c].mean(0) - (1 - alpha)) for c in np.unique(labels)]
  return np.asarray(np.mean(gaps, 0))
