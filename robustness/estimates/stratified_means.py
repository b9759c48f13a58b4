"""Means over strata, such as classes, of images that are shown in several views, with intervals.

With few images per class, a bootstrap within classes has too little spread: none if a class has a
single image or only right answers, and (n − 1)/n of the variance for n images. The intervals here
therefore use Beta distributions at an effective number of trials.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from robustness.estimates.comparison import paired_difference
from robustness.estimates.intervals import effective_trials, proportion_interval, t_value
from robustness.estimates.means import Estimate, correlated

STRATIFIED_MEAN = 'korn-graubard, stratified'
"""Method of the interval of an accuracy."""
STRATIFIED_DIFFERENCE = 'paired bonett-price, stratified'
"""Method of the interval of a paired difference of two accuracies."""
ROUNDING = 1e-12
"""Differences of accuracies below this are due to floating-point rounding."""


@dataclasses.dataclass(frozen=True)
class StratifiedMeans:
  """Q weighted means over the same N images, sampled within strata such as classes.

  Each mean is an accuracy. An image is shown in several views, such as severities, and its value is
  the share of views that are classified right.

  Attributes:
    value: the means, [Q], in [0, 1]; NaN if no image counts.
    weight: the weights of the images, [N, Q], with the sum 1 in each mean; 0 if an image does not
      count.
    deviation: the contribution of each image to the error of each mean, [N, Q]. The sum of squares
      over the images is the variance of the mean. For K strata of equal weight it is Σ_c s_c²/(n_c
      K²), where the n_c images of stratum c have the standard deviation s_c. A stratum of one image
      has no standard deviation. Its image contributes the distance from the mean of all images.
    view_variance: the variance p (1 − p) of one right or wrong answer, averaged over the images,
      [Q]. p is the accuracy in the image's stratum.
    views: the effective number of answers, one per image and view (Kish), [Q]. If all were
      independent, a plain mean over this number of answers would have the same variance.
    freedom: the degrees of freedom of the variance, [Q], at least 1.
  """

  value: np.ndarray
  weight: np.ndarray
  deviation: np.ndarray
  view_variance: np.ndarray
  views: np.ndarray
  freedom: np.ndarray

  @classmethod
  def from_shares(
    cls, weight: np.ndarray, share: np.ndarray, stratum: np.ndarray, num_views: ArrayLike
  ) -> StratifiedMeans:
    """Returns Q weighted means of per-image accuracies over N images, with their variances.

    The variance of a mean is estimated from the deviations of images from the mean of their
    stratum, such as a class. The returned `deviation` [N, Q] has the sum of squares that is this
    variance, and `view_variance` the variance p (1 − p) of a single answer, with p the accuracy in
    the image's stratum.

    Args:
      weight: relative weights of the images, [N, Q], at least 0; 0 leaves an image out.
      share: the share of an image's views that are right, [N, Q], in [0, 1].
      stratum: int [N], the stratum of each image.
      num_views: the number of views (ways of perturbing images) of an image, [Q].
    """
    is_counted = weight > 0
    has_images = weight.any(0)
    weight = weight / np.where(has_images, weight.sum(0), 1)
    value = np.where(has_images, (weight * share).sum(0), np.nan)
    # A mean of shares that are all 0 or all 1 is exactly 0 or 1.
    value = np.where(np.abs(value - np.round(value)) < ROUNDING, np.round(value), value)
    # The number of images of each stratum in each mean, and the sum of their shares, [strata, Q].
    num_images = np.zeros((int(stratum.max(initial=0)) + 1, share.shape[1]))
    sum_of_shares = np.zeros_like(num_images)
    np.add.at(num_images, stratum, is_counted)
    np.add.at(sum_of_shares, stratum, np.where(is_counted, share, 0))
    mean_share = sum_of_shares / np.maximum(num_images, 1)
    # An image that is alone in its stratum deviates from the mean of all images. [strata, Q]
    expected_in_stratum = np.where(num_images == 1, value, mean_share)
    bessel = np.sqrt(num_images / np.maximum(num_images - 1, 1))  # for unbiased variances
    expected = expected_in_stratum[stratum]  # of each image, [N, Q]
    deviation = weight * (share - expected) * bessel[stratum]
    has_spread = np.abs(deviation).max(0, initial=0) > ROUNDING  # false also for NaN
    deviation[:, ~has_spread] = 0
    # The mean of each stratum of two or more images takes one degree of freedom.
    num_strata = np.maximum((num_images > 1).sum(0), 1)
    return cls(
      value=value,
      weight=np.asfortranarray(weight),
      deviation=np.asfortranarray(deviation),
      view_variance=(weight * np.maximum(expected * (1 - expected), 0)).sum(0),
      views=np.asarray(num_views) / np.where(has_images, (weight**2).sum(0), 1),
      freedom=np.maximum(is_counted.sum(0) - num_strata, 1),
    )

  @functools.cached_property
  def variance(self) -> np.ndarray:
    """The variances of the means, [Q]."""
    return np.asarray((self.deviation**2).sum(0))

  def averaged(self) -> StratifiedMeans:
    """Returns the average of the Q means, as `StratifiedMeans` with a single mean.

    The variance includes the correlation of the means: the contributions of an image to the Q means
    are averaged before they are squared.
    """
    weight = self.weight.mean(1, keepdims=True)
    num_images = (weight > 0).sum()
    return StratifiedMeans(
      value=self.value.mean(keepdims=True),
      weight=weight,
      deviation=self.deviation.mean(1, keepdims=True),
      view_variance=self.view_variance.mean(keepdims=True),
      # If one answer has the variance 1, the average of the Q means has Σ 1/views / Q².
      views=np.array([len(self.value) ** 2 / (1 / self.views).sum()]),
      # Means over the same images are not independent: the degrees of freedom are at most the
      # number of images, minus 1.
      freedom=np.array([min(self.freedom.sum(), max(num_images - 1, 1))]),
    )

  def effective_trials(self, confidence: float, min_variance: np.ndarray) -> np.ndarray:
    """Returns each mean's effective number of independent trials, [Q] (Korn and Graubard).

    A mean of this number of trials has the same variance. The number is multiplied by the squared
    ratio of Student's quantiles with `views` − 1 and with `freedom` degrees of freedom, which makes
    intervals from few images wider. It is at least the effective number of images. It is equal to
    that number if the images of each stratum have the same value.

    Args:
      confidence: confidence of the interval, in (0, 1), at which Student's quantiles are taken.
      min_variance: lower bounds of the variances of the means, [Q]. Few images may show a small
        variance by chance.
    """
    # The effective number of images by their weights (Kish), at least 1.
    images = 1 / (self.weight**2).sum(0).clip(ROUNDING, 1)
    trial_variance = self.value * (1 - self.value)
    has_spread = (self.variance > 0) & (trial_variance > 0)
    variance = np.where(has_spread, np.maximum(self.variance, min_variance), 1)
    ratio = t_value(np.ceil(self.views), confidence) / t_value(self.freedom + 1, confidence)
    trials = np.where(has_spread, trial_variance / variance * ratio**2, images)
    return np.asarray(np.maximum(trials, images))

  def estimate(self, confidence: float) -> Estimate:
    """Returns the average of the Q means with Korn and Graubard's interval.

    The estimate states the number `n` of images that count in at least one mean. If a mean has no
    images, the value and its interval are NaN.
    """
    averaged, n = self.averaged(), int(self.weight.any(1).sum())
    (value,) = averaged.value
    if np.isnan(value):
      return Estimate(np.nan, np.nan, np.nan, n, n, STRATIFIED_MEAN)
    min_variance = averaged.value * (1 - averaged.value) / averaged.views  # of independent views
    (trials,) = averaged.effective_trials(confidence, min_variance)
    low, high = proportion_interval(value * trials, trials, confidence)
    return Estimate(float(value), float(low), float(high), n, n, STRATIFIED_MEAN)

  def drawn(
    self, normals: np.ndarray, kind: np.ndarray, confidence: float
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns random draws of the Q means, as they could be in other samples of images.

    There are draws for lower and for upper ends of intervals, which differ only for means of 0 and
    1. With n from `effective_trials` and h = ½, a mean p is drawn from Beta(p n + h, (1 − p) n +
    h). A mean of 0 is 0 for the lower end, and drawn from Beta(2 h, n) for the upper end. A mean of
    1 is drawn from Beta(n, 2 h) for the lower end, and is 1 for the upper end. Their quantiles are
    the ends of Clopper and Pearson's interval.

    Draws of two means have the same correlation as the images' contributions to the two means.

    The caller averages draws of means of one kind, such as the accuracies on seen classes in all
    environments. h biases every draw, and averaging does not reduce this bias. h is therefore
    multiplied by the mean correlation of a mean with the means of its kind.

    Args:
      normals: standard normal numbers, [samples, Q].
      kind: int [Q], equal numbers for means that are averaged, such as those on seen classes.
      confidence: confidence of the interval, in (0, 1).

    Returns:
      Draws for lower ends and draws for upper ends, [samples, Q] each.

    Reference:
      Brown, Cai & DasGupta, Interval estimation for a binomial proportion, Statistical Science 16
      (2001), for the Beta distributions; Korn & Graubard (1998), see `intervals.korn_graubard`.
    """
    p = self.value
    # The variance is at least its average, weighted `freedom` to 2, with the variance of
    # independent views. Views have the accuracy of their stratum here, in `estimate` all have p.
    of_views = self.view_variance / self.views
    min_variance = (self.freedom * self.variance + 2 * of_views) / (self.freedom + 2)
    n = self.effective_trials(confidence, min_variance)
    # Means without a spread are correlated as far as they weigh the same images.
    contribution = np.where(self.variance > 0, self.deviation, self.weight)  # [N, Q]
    norm = np.maximum(np.sqrt((contribution**2).sum(0)), ROUNDING)
    scaled = contribution / norm  # columns have length 1, so that their products are correlations
    correlation = scaled.T @ scaled
    is_same_kind = kind[:, None] == kind  # [Q, Q]
    h = 0.5 * (np.maximum(correlation, 0) * is_same_kind).sum(0) / is_same_kind.sum(0)  # [Q]
    uniform = special.ndtr(correlated(normals, correlation))  # in [0, 1]
    all_wrong, all_right = p <= 0, p >= 1
    right, wrong = p * n, (1 - p) * n  # effective numbers of trials
    alpha = np.select([all_wrong, all_right], [2 * h, right], right + h)
    beta = np.select([all_wrong, all_right], [wrong, 2 * h], wrong + h)
    drawn = special.betaincinv(alpha, beta, uniform)
    return np.where(all_wrong, 0, drawn), np.where(all_right, 1, drawn)


def difference(gained: StratifiedMeans, lost: StratifiedMeans, confidence: float) -> Estimate:
  """Returns the difference of two classifiers' accuracies, paired by image, with an interval.

  Let x and y be the shares of an image's views that the two classifiers get right. The difference
  is the mean of x − y, averaged over Q means over the same images, such as Q environments. The
  interval is Bonett and Price's at the effective number of images.

  Args:
    gained: Q means of max(0, x − y).
    lost: Q means of max(0, y − x).
    confidence: confidence of the interval, in (0, 1).
  """
  mean_gained, mean_lost = gained.averaged(), lost.averaged()
  n = int(gained.weight.any(1).sum())
  gain, loss = float(mean_gained.value[0]), float(mean_lost.value[0])
  if np.isnan(gain):
    return Estimate(np.nan, np.nan, np.nan, n, n, STRATIFIED_DIFFERENCE)
  variance = float(((mean_gained.deviation - mean_lost.deviation) ** 2).sum())
  effective_images = float(mean_gained.freedom[0]) + 1
  answers = max(effective_images, float(mean_gained.views[0]))  # at least one answer per image
  trial_variance = gain + loss - (gain - loss) ** 2  # of a difference that is 1, −1 or 0
  trials = effective_trials(trial_variance, variance, effective_images, answers, confidence)
  value, low, high = paired_difference(gain * trials, loss * trials, trials, confidence)
  return Estimate(float(value), float(low), float(high), n, n, STRATIFIED_DIFFERENCE)
