r"""Prediction sets that hold the true class with a stated probability: split conformal prediction.

A score s(x, y) says how little class y fits image x. Of n images held out, q is the
⌈(n + 1)(1 − α)⌉-th smallest score of the true class, ∞ where that exceeds n, and the set of an
image is {y: s(x, y) ≤ q}. It holds the true class with probability ≥ 1 − α for images that are
exchangeable with those held out; corrupted images are not.

With probabilities p in descending order, r the rank of y from 1 and U uniform in [0, 1):

  'lac'   1 − p_y
  'aps'   Σ_{j ≤ r} p_(j) − U p_y
  'raps'  the same + λ max(0, r − k)

Sets may be empty: forbidding it holds the class more often than stated.

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

from robustness.core.errors import InputError
from robustness.core.settings import choice
from robustness.estimates.intervals import THRESHOLD
from robustness.estimates.quantity import Quantity

LAC, APS, RAPS = 'lac', 'aps', 'raps'
SCORES = (LAC, APS, RAPS)
SIZES = (0, 2, 4, 11, 101)
"""The first sizes of the strata: 0 to 1, 2 to 3, 4 to 10, 11 to 100, above."""


def scores(
  kind: str, probabilities: np.ndarray, uniform: np.ndarray, penalty: float = 0.01, rank: int = 5
) -> np.ndarray:
  """Returns s(x, y) of every class, [..., K].

  Args:
    kind: one of `SCORES`.
    probabilities: [..., K].
    uniform: U, [...], the same for all classes of an image.
    penalty: λ.
    rank: k.
  """
  choice('score', kind, SCORES)
  p = np.asarray(probabilities, float)
  if kind == LAC:
    return np.asarray(1 - p)
  order = np.argsort(-p, -1, kind='stable')
  descending = np.take_along_axis(p, order, -1)
  ranked = np.cumsum(descending, -1) - uniform[..., None] * descending
  if kind == RAPS:
    ranked = ranked + penalty * np.maximum(np.arange(1, p.shape[-1] + 1) - rank, 0)
  by_class: np.ndarray = np.empty_like(ranked)
  np.put_along_axis(by_class, order, ranked, -1)
  return by_class


class Threshold(NamedTuple):
  """q, and the thresholds at the ends of its interval over draws of the images held out."""

  q: float
  low: float
  high: float


def threshold(of_true_class: np.ndarray, alpha: float, confidence: float = 0.95) -> Threshold:
  """Returns the thresholds from the scores [n] of the true classes of the images held out.

  q is the k-th smallest score, k = ⌈(n + 1)(1 − α)⌉, and ∞ where k exceeds n. Over draws of the n
  images the share of exchangeable images with a score of at most q has the distribution
  Beta(k, n + 1 − k) with the mean k / (n + 1). Its quantiles, mirrored at the mean, are the places
  of `low` and `high` among the scores; with fewer than 10 scores above q, `low` is at
  the unmirrored one where that is lower (Woodruff, Confidence intervals for medians and other
  position measures, JASA 47, 1952).

  Raises:
    InputError: no score, or α outside (0, 1).
  """
  count = len(of_true_class)
  if not count or not 0 < alpha < 1:
    raise InputError(f'{count} scores and α = {alpha!r}: give at least one and α in (0, 1).')
  place, ordered = math.ceil((count + 1) * (1 - alpha) - 1e-9), np.sort(of_true_class)

  def score(number: int) -> float:
    """Returns the score of a rank, counted from 1; ∞ beyond the last."""
    return math.inf if number > count else float(ordered[max(number, 1) - 1])

  if place > count:
    return Threshold(math.inf, score(count), math.inf)
  lower, upper = (
    (count + 1) * float(special.betaincinv(place, count + 1 - place, tail))
    for tail in ((1 - confidence) / 2, (1 + confidence) / 2)
  )
  low_place, high_place = 2 * place - upper, 2 * place - lower
  if count - place < 10:
    low_place = min(low_place, lower)
  return Threshold(score(place), score(math.floor(low_place)), score(math.ceil(high_place)))


def with_threshold_draw(
  estimates: pd.DataFrame,
  ends: Sequence[np.ndarray],
  correlations: Sequence[float],
  quantity: Quantity,
) -> pd.DataFrame:
  """Returns estimates of `means` with intervals that include the draw of the images held out.

  The interval of the measured images and the change between q and the ends of its interval are
  added in squares, on either side of the value (MOVER; Zou & Donner, Construction of confidence
  limits about effect measures, Statistics in Medicine 27, 2008).

  Args:
    estimates: rows of L classifiers and G groups: first L · G values, then (L − 1) · G differences
      from the first classifier.
    ends: values of the same rows at the thresholds `low` and `high`.
    correlations: correlation of each classifier's decisions about the images held out with the
      first classifier's.
    quantity: quantity of the estimates, which has the range of values and differences.
  """
  classifiers = len(correlations)
  single = (estimates.versus == '').to_numpy()
  value = estimates.value.to_numpy()
  changes = [np.abs(values - value)[single].reshape(classifiers, -1) for values in ends]
  squares = [change**2 for change in changes]
  rho = np.asarray(correlations)[1:, None]
  for side, other in ((0, 1), (1, 0)):
    shared = 2 * rho * changes[side][1:] * changes[other][:1]
    pairs = np.maximum(changes[side][1:] ** 2 + changes[other][:1] ** 2 - shared, 0)
    squares[side] = np.concatenate([squares[side].ravel(), pairs.ravel()])
  low = value - np.sqrt((value - estimates.low) ** 2 + squares[0])
  high = value + np.sqrt((estimates.high - value) ** 2 + squares[1])
  bounds = np.where(single[:, None], quantity.range, quantity.difference_range).T
  low, high = np.maximum(low, bounds[0]), np.minimum(high, bounds[1])
  return estimates.assign(low=low, high=high, method=THRESHOLD)


def size_stratified_violation(covered: np.ndarray, size: np.ndarray, alpha: float) -> np.ndarray:
  """Returns the largest |coverage − (1 − α)| over strata of set sizes (`SIZES`) that occur.

  Args:
    covered: booleans [N, ...], whether a set holds the true class.
    size: int [N, ...].
    alpha: α.

  Returns:
    [...], in [0, 1].
  """
  stratum = np.searchsorted(SIZES, size, side='right')
  gaps = []
  for k in range(1, len(SIZES) + 1):
    inside = stratum == k
    share = (covered & inside).sum(0) / np.maximum(inside.sum(0), 1)
    gaps.append(np.where(inside.any(0), np.abs(share - (1 - alpha)), 0.0))
  return np.asarray(np.max(gaps, 0))


def class_coverage_gap(covered: np.ndarray, labels: np.ndarray, alpha: float) -> np.ndarray:
  """Returns the mean over classes of |coverage − (1 − α)|, [...], of sets [N, ...] and labels [N].

  Reference: Ding et al., Class-conditional conformal prediction with many classes, NeurIPS 2023.
  """
  gaps = [np.abs(covered[labels == c].mean(0) - (1 - alpha)) for c in np.unique(labels)]
  return np.asarray(np.mean(gaps, 0))
