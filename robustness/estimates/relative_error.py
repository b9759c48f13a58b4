"""The error of a group of images, such as one site, relative to the error on all images.

With the error e in the group, the error r on all other images and the share π of images in the
group, the ratio is e / (π e + (1 − π) r). It cannot exceed 1/π, which an interval on the scale of
logarithms could.

Reference for the ratio: Idrissi et al. (2023), ImageNet-X: understanding model mistakes with factor
of variation annotations, section 3.
"""

from collections.abc import Sequence

import numpy as np
from scipy import special

from robustness.estimates import jackknife
from robustness.estimates.intervals import JACKKNIFE, z_value
from robustness.estimates.means import Estimate, correlated
from robustness.estimates.of_means import Units

NO_ERROR = 'undefined: no error on all images'
"""The note of a ratio of a classifier without errors."""
ADDED_TO_ANSWERS = 0.25
"""Effective number of images that is added to the counts of wrong and of right images, each inside
and outside the group, if units hold several images.
"""
ADDED_TO_GROUP = 1.0
"""The same for the counts of all images inside and outside the group."""
DRAWS = 10_000
"""Number of joint normal draws of an interval."""


def relative_errors(units: Sequence[Units], confidence: float = 0.95) -> list[Estimate]:
  """Returns the error in each group of images divided by the error on all images.

  With the error e in a group, the error r on all other images and the share π of images in the
  group, the ratio is e / (π e + (1 − π) r). Intervals are quantiles of the ratio over joint random
  draws of the shares e, r and π. Images come in independent units, such as all images of one site.

  If each unit is one image, each share is drawn from its Jeffreys posterior, a beta distribution.
  Otherwise the log odds of each share are drawn from a normal distribution:

  * The variance is the jackknife's over the units, but at least the variance over independent
    images. It is multiplied by the squared ratio of Student's quantile to the normal quantile,
    because few units may dominate it. Student's quantile has Satterthwaite's degrees of freedom of
    the ratio.
  * Before the jackknife, `ADDED_TO_ANSWERS` or `ADDED_TO_GROUP` images, times the design effect d,
    are added to each count. d ≥ 1 is the variance of a share over the units, divided by its
    variance over independent images.
  * There is no interval if the images of the group, or all others, come from fewer than `FEWEST`
    effective units.

  The draws of two shares have the correlation of the jackknife, reduced a little. docs/intervals.md
  has the coverage in simulations.

  Args:
    units: one entry for the ratios of a classifier; two for the ratios of the second classifier
      minus the ratios of the first. For K units and G groups, `total` has the numbers of wrong
      images and `weight` the numbers of images, [K, G] each. The last group has all images and gets
      no estimate.
    confidence: confidence of each interval, in (0, 1).

  Returns:
    G − 1 estimates.
  """
  weight = units[0].weight
  count, groups = weight.shape
  n = int(weight[:, -1].sum())
  is_clustered = bool((weight[:, -1] > 1).any())
  estimates = []
  for group in range(groups - 1):
    images_by_side = _counts_inside_and_outside(weight, group)
    wrong_by_side = [_counts_inside_and_outside(wrong.total, group) for wrong in units]
    # A column per share: e and r of each classifier, then π, [K, 3] or [K, 5]. A share is the sum
    # of its counts (wrong images, or images in the group) divided by the sum of the images.
    counts = np.column_stack([*wrong_by_side, weight[:, group]])
    images_by_classifier = [images_by_side] * len(units)  # all classify the same images
    images = np.column_stack([*images_by_classifier, weight[:, -1]])
    value = float(_ratio(counts.sum(0) / np.maximum(images.sum(0), 1)))
    note = ''
    if np.isnan(value):
      note = NO_ERROR
    elif is_clustered:
      effective = float(jackknife.effective_units(images_by_side).min())
      note = jackknife.too_few(effective) if effective < jackknife.FEWEST else ''
    if note:
      low, high = np.nan, np.nan
    else:
      low, high = _interval_of_ratio(counts, images, is_clustered, confidence)
      low, high = min(low, value), max(high, value)
    estimates.append(Estimate(value, low, high, n, count, JACKKNIFE, note=note))
  return estimates


def _counts_inside_and_outside(columns: np.ndarray, group: int) -> np.ndarray:
  """Returns each unit's number of images inside a group and outside the group, [K, 2].

  Args:
    columns: numbers of images, or of wrong images, of each of K units in each of G groups, [K, G].
      The last group has all images.
    group: index of the group.
  """
  inside, overall = columns[:, group], columns[:, -1]
  return np.stack([inside, overall - inside], 1)


def _interval_of_ratio(
  counts: np.ndarray, images: np.ndarray, is_clustered: bool, confidence: float
) -> tuple[float, float]:
  """Returns the interval of an error inside a group relative to the error on all images.

  Let e be the error in the group, r the error on all other images, and π the share of images in the
  group. The ratio is e / (π e + (1 − π) r), see `relative_errors`. Both arrays have a row for each
  of K units. Their columns are e and r of each of C classifiers, followed by π.

  Args:
    counts: numerators of these shares, [K, 2C + 1]: wrong images inside the group, wrong images
      outside, and images in the group.
    images: denominators of these shares, [K, 2C + 1]: images inside the group, images outside, and
      all images.
    is_clustered: whether units hold several images.
    confidence: confidence of the interval, in (0, 1).

  Returns:
    The ends (low, high).
  """
  added = _added_images(counts, images) if is_clustered else 0.5  # 0.5 is Jeffreys' prior
  # Images that each share counts, and images that it does not count, [2C + 1] each.
  counted, uncounted = counts.sum(0) + added, (images - counts).sum(0) + added
  # Log odds of the shares if one of the K units is left out, [K, 2C + 1].
  log_odds_without = np.log((counted - counts) / (uncounted - images + counts))
  deviation = jackknife.jackknife_deviations(log_odds_without)
  correlation = _reduced_correlation(deviation, counted + uncounted)
  independent = np.random.default_rng(0).standard_normal((DRAWS, counts.shape[1]))
  normal = correlated(independent, correlation)
  if is_clustered:  # normal draws of the log odds
    ratio_without = _ratio(special.expit(log_odds_without))
    student = jackknife.student_quantile(jackknife.jackknife_deviations(ratio_without), confidence)
    variance_of_independent = 1 / counted + 1 / uncounted
    log_odds_variance = np.maximum((deviation**2).sum(0), variance_of_independent)
    standard_error = np.sqrt(log_odds_variance) * student / z_value(confidence)
    shares = special.expit(np.log(counted / uncounted) + normal * standard_error)
  else:  # quantiles of Jeffreys' posteriors, beta distributions, at the draws' probabilities
    shares = special.betaincinv(counted, uncounted, special.ndtr(normal))
  low, high = np.quantile(_ratio(shares), [(1 - confidence) / 2, (1 + confidence) / 2])
  return float(low), float(high)


def _added_images(counts: np.ndarray, images: np.ndarray) -> np.ndarray:
  """Returns how many images are added to the counts of each of S shares before the jackknife, [S].

  The number is `ADDED_TO_ANSWERS`, or `ADDED_TO_GROUP` for the last share, times the design effect
  d. d ≥ 1 is the variance of the share over the units, divided by its variance over independent
  images.

  Args:
    counts: numerators of the shares in each of K units, [K, S].
    images: denominators of the shares, [K, S].
  """
  num_units, num_shares = counts.shape
  num_images = np.maximum(images.sum(0), 1)  # of each share
  share = (counts.sum(0) + 0.5) / (num_images + 1)
  # Both variances are multiplied by the number of images: p (1 − p) for independent images.
  variance = ((counts - share * images) ** 2).sum(0) / num_images * num_units / (num_units - 1)
  design_effect = np.maximum(variance / (share * (1 - share)), 1)
  added_by_share = [ADDED_TO_ANSWERS] * (num_shares - 1) + [ADDED_TO_GROUP]
  return np.asarray(design_effect * added_by_share)


def _reduced_correlation(deviation: np.ndarray, images: np.ndarray) -> np.ndarray:
  """Returns the jackknife correlations of S shares, [S, S], reduced for small samples.

  Shares that are equal here may differ on other images. The correlation of two shares of n₁ and n₂
  images is therefore multiplied by √(1 − 2/(n₁ + 1)) and by √(1 − 2/(n₂ + 1)).

  Args:
    deviation: jackknife deviations of the log odds of the shares for K units, [K, S].
    images: number of images n of each share, [S].
  """
  norm = np.sqrt((deviation**2).sum(0))
  reduction = np.sqrt(1 - 2 / (images + 1))
  # Correlations are products of deviations that are divided by their norm.
  scale = np.divide(reduction, norm, out=np.zeros_like(norm), where=norm > 0)
  reduced_deviation = deviation * scale
  correlation = np.asarray(reduced_deviation.T @ reduced_deviation)
  np.fill_diagonal(correlation, 1)
  return correlation


def _ratio(shares: np.ndarray) -> np.ndarray:
  """Returns the error in a group divided by the error on all images, or a difference of two.

  Let e be the error in the group, r the error on all other images, and π the share of images in the
  group. The ratio is e / (π e + (1 − π) r). It is NaN if a classifier makes no error.

  Args:
    shares: e, r and π, [..., 3]. For the second classifier's ratio minus the first's: e₁, r₁, e₂,
      r₂ and π, [..., 5].

  Returns:
    [...].
  """
  group_share, ratios = shares[..., -1], []
  for column in range(0, shares.shape[-1] - 1, 2):  # the columns of e, each before its r
    inside, outside = shares[..., column], shares[..., column + 1]
    overall = group_share * inside + (1 - group_share) * outside
    ratios.append(inside / np.where(overall > 0, overall, np.nan))
  return np.asarray(ratios[1] - ratios[0] if len(ratios) > 1 else ratios[0])
