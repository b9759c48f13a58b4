"""Means over images of each image's share of wrong views: alone, as a difference, as a ratio.

An image is seen in many views (corruptions and severities, frequencies), which are right or wrong
together. All intervals therefore take the image as the cluster; docs/intervals.md states how often
they cover the true value in simulations.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.estimates.comparison import paired_difference
from robustness.estimates.intervals import effective_trials, korn_graubard, t_value
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


def mean_ratio(numerator: ArrayLike, denominator: ArrayLike, confidence: float = 0.95) -> Number:
  """Returns the mean over K parts of the ratio of two means over the same images.

    R = 1/K Σ_k (Σ_i a_ik) / (Σ_i b_ik)

  The interval is R̃ exp(± t s / R̃), with R̃ and the standard error s from the images and two further
  images of weight ½, one with a = 1 and b = 0 and one with a = 0 and b = 1 in all parts; s is that
  of the linearised ratio, t Student's quantile with N − 1 degrees of freedom. The value is R
  itself, and the interval reaches it. It does not shrink to a point where all images are alike.

  Args:
    numerator: a, shares in [0, 1], [N, K].
    denominator: b, the same.
    confidence: of the interval, in (0, 1).

  Returns:
    A `Number` with n = N; NaN throughout, with a note, where a denominator is 0, and without an
    interval for a single image.

  Reference:
    Walter, The distribution of Levin's measure of attributable risk, Biometrika 62 (1975), for the
    logarithm of a ratio with ½ added; the linearisation is the delta method.
  """
  a, b = np.asarray(numerator, float), np.asarray(denominator, float)
  if a.shape != b.shape or a.ndim != 2 or not a.size:
    raise InputError(
      f'numerator {a.shape} and denominator {b.shape} must both be [N, K], N, K ≥ 1.'
    )
  n, parts = a.shape
  name = f'log ratio, paired {confidence:g}'
  if np.any(b.sum(0) <= 0):
    part = int(np.argmin(b.sum(0)))
    note = f'undefined: the denominator of part {part + 1} of {parts} is 0'
    return Number(np.nan, np.nan, np.nan, n, name, note)
  value = float((a.sum(0) / b.sum(0)).mean())
  if n < 2:
    return Number(value, np.nan, np.nan, n, name, 'no interval from a single image')
  whole, half = np.ones((1, parts)), np.array([*np.ones(n), 0.5, 0.5])
  a, b = np.concatenate([a, whole, 0 * whole]), np.concatenate([b, 0 * whole, whole])
  means = half @ b / (n + 1)
  ratio = half @ a / (n + 1) / means
  linear = ((a - ratio * b) / means).mean(1)
  error = np.sqrt(half @ linear**2 / (n * (n + 1)))
  factor = np.exp(t_value(n, confidence) * error / ratio.mean())
  low, high = ratio.mean() / factor, ratio.mean() * factor
  return Number(value, float(min(low, value)), float(max(high, value)), n, name)


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
