"""Means over images of each image's share of wrong views: alone, or as a difference.

An image is seen in many views (corruptions and severities, frequencies), which are right or wrong
together. All intervals therefore take the image as the cluster; docs/intervals.md states how often
they cover the true value in simulations.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from robustness.estimates.comparison import paired_difference
from robustness.estimates.intervals import effective_trials, korn_graubard
from robustness.results import Number


def mean_share(
  share: ArrayLike, trials: float, confidence: float = 0.95, largest: float = 1.0
) -> Number:
  """Returns the mean over images of each image's share, with Korn and Graubard's interval.

  Args:
    share: [N] fractions in [0, 1], one an image; N = 0 gives NaN.
    trials: how many views each share was taken over, at least 1; of weighted views
      `independent_trials`.
    confidence: of the interval, in (0, 1).
    largest: what a share of 1 stands for: value and interval are multiplied by it.

  Returns:
    A `Number` in [0, largest] whose n is the number of images N.
  """
  shares, name = np.asarray(share, float), f'korn-graubard {confidence:g}'
  n = len(shares)
  if not n:
    return Number(np.nan, np.nan, np.nan, n, name)
  std = shares.std(ddof=1) if n > 1 else np.nan
  mean = min(max(float(shares.mean()), 0.0), 1.0)
  low, high = korn_graubard(mean, std, n, trials, confidence)
  return Number(largest * mean, largest * float(low), largest * float(high), n, name)


def mean_difference(
  first_only: ArrayLike,
  second_only: ArrayLike,
  trials: float,
  confidence: float = 0.95,
  largest: float = 1.0,
) -> Number:
  """Returns the mean error of a second classifier minus a first one's, over images and views.

  The interval is Bonett and Price's (`paired_difference`) at the effective number of independent
  trials, which the spread of the difference between images tells (`effective_trials`). It keeps to
  [−1, 1], and does not shrink to a point where no image differs.

  Args:
    first_only: [N], the share of an image's views that are right with the first classifier only.
    second_only: [N], the share right with the second only.
    trials: see `mean_share`.
    confidence: see `mean_share`.
    largest: see `mean_share`.

  Returns:
    A `Number` in [−largest, largest]; positive where the second errs more.
  """
  b, c = np.asarray(first_only, float), np.asarray(second_only, float)
  name = f'paired bonett-price over images {confidence:g}'
  n = len(b)
  if not n:
    return Number(np.nan, np.nan, np.nan, n, name)
  mean_b, mean_c = b.mean(), c.mean()
  variance = (b - c).var(ddof=1) / n if n > 1 else np.nan
  independent = mean_b + mean_c - (mean_b - mean_c) ** 2
  size = effective_trials(independent, variance, n, n * trials, confidence)
  value, low, high = paired_difference(mean_b * size, mean_c * size, size, confidence)
  return Number(largest * float(value), largest * float(low), largest * float(high), n, name)


def cluster_rates(
  successes: ArrayLike, trials: ArrayLike, confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns fractions of trials that come in K clusters of different sizes, with intervals.

  With y_k of m_k trials of cluster k successful and p = Σ y / Σ m, the interval is Korn and
  Graubard's with the variance K / (K − 1) · Σ (y_k − p·m_k)² / (Σ m)².

  Args:
    successes: y, numbers [K, G]: K clusters in each of G groups.
    trials: m, the same; a cluster without trials in a group is none of its clusters.
    confidence: of the intervals, in (0, 1).

  Returns:
    (value, low, high), fractions [G]; NaN where a group has no trials.
  """
  hits, sizes = np.asarray(successes, float), np.asarray(trials, float)
  total, clusters = sizes.sum(0), (sizes > 0).sum(0)
  value = np.divide(hits.sum(0), total, out=np.full(total.shape, np.nan), where=total > 0)
  known = np.nan_to_num(value)
  spread = ((hits - known * sizes) ** 2).sum(0)
  factor = clusters / np.where(clusters > 1, clusters - 1, np.nan)
  std = np.sqrt(factor * spread * clusters) / np.maximum(total, 1)
  size = np.maximum(total / np.maximum(clusters, 1), 1)
  low, high = korn_graubard(known, std, clusters, size, confidence)
  return value, np.asarray(low), np.asarray(high)


def independent_trials(weight: ArrayLike) -> float:
  """Returns how many trials of one weight vary as much as trials of these: (Σw)² / Σw².

  Args:
    weight: [V] positive weights, such as 2 for a frequency that fills two cells of a map.

  Reference:
    Kish, Survey sampling (1965), section 11.2.
  """
  weights = np.asarray(weight, float)
  return float(weights.sum() ** 2 / (weights**2).sum()) if weights.size else 1.0
