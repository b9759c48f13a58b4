"""Means over strata (classes) of shares of right views: intervals, and joint draws of several.

The accuracies that ρ is made of are means of the same images, in several environments and of two
classifiers. With few images a class, a bootstrap within classes tells too little: of one image it
has no spread, of n it has (n − 1)/n of the variance, and none where all are right.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from robustness.estimates.comparison import paired_difference
from robustness.estimates.intervals import effective_trials, proportion_interval, t_value
from robustness.estimates.means import Estimate

STRATIFIED, PAIRED = 'korn-graubard, stratified', 'paired bonett-price, stratified'
_ROUNDING = 1e-12  # distances from a mean below this are none


@dataclasses.dataclass(frozen=True)
class Sampled:
  """Q weighted means of shares over the same N images, as samples within strata.

  Attributes:
    value: [Q] the means, in [0, 1]; NaN where no image counts.
    weight: [N, Q], the sum of each is 1; 0 where an image does not count.
    part: [N, Q] what an image adds to the error of each mean; the sum of squares is its variance,
      Σ_c s_c²/(n_c K²) of K strata of one weight. A stratum of one image shows no spread of its own
      and takes the distance from the mean of all.
    within: [Q] the variance p (1 − p) of a single view in its stratum, averaged.
    views: [Q] how many views of one weight vary as much as these if all are independent.
    freedom: [Q] degrees of freedom of the variance, at least 1.
  """

  value: np.ndarray
  weight: np.ndarray
  part: np.ndarray
  within: np.ndarray
  views: np.ndarray
  freedom: np.ndarray

  @classmethod
  def of(
    cls, weight: np.ndarray, share: np.ndarray, stratum: np.ndarray, trials: ArrayLike
  ) -> Sampled:
    """Returns the means of shares [N, Q] in [0, 1], of some weights ≥ 0 [N, Q], strata int [N], and
    numbers of views [Q] that a share was taken over."""
    counted, known = weight > 0, weight.any(0)
    weight = weight / np.where(known, weight.sum(0), 1)
    value = np.where(known, (weight * share).sum(0), np.nan)
    value = np.where(np.abs(value - np.round(value)) < _ROUNDING, np.round(value), value)
    count, total = (np.zeros((int(stratum.max(initial=0)) + 1, weight.shape[1])) for _ in range(2))
    np.add.at(count, stratum, counted)
    np.add.at(total, stratum, np.where(counted, share, 0))
    mean = np.where((count == 1)[stratum], value, (total / np.maximum(count, 1))[stratum])
    part = weight * (share - mean) * np.sqrt(count / np.maximum(count - 1, 1))[stratum]
    part[:, ~(np.abs(part).max(0, initial=0) > _ROUNDING)] = 0
    return cls(
      value,
      np.asfortranarray(weight),
      np.asfortranarray(part),
      (weight * np.maximum(mean * (1 - mean), 0)).sum(0),
      np.asarray(trials) / np.where(known, (weight**2).sum(0), 1),
      np.maximum(counted.sum(0) - np.maximum((count > 1).sum(0), 1), 1),
    )

  def averaged(self) -> Sampled:
    """Returns the one mean of all Q means."""
    weight = self.weight.mean(1, keepdims=True)
    freedom = min(self.freedom.sum(), max((weight > 0).sum() - 1, 1))
    return Sampled(
      self.value.mean(keepdims=True),
      weight,
      self.part.mean(1, keepdims=True),
      self.within.mean(keepdims=True),
      np.array([len(self.value) ** 2 / (1 / self.views).sum()]),
      np.array([freedom]),
    )

  def effective(self, confidence: float, joint: bool = False) -> np.ndarray:
    """Returns how many independent trials tell as much, [Q]: Korn and Graubard's number.

    It is at least the number of images, and that where no stratum has a spread. If it may be
    `joint`, it may exceed the number of views, for strata and views that differ in accuracy vary
    less than trials of their mean; a variance below that of independent views is then taken with
    two further degrees of freedom at this, for few images may show it by chance.
    """
    images = 1 / np.maximum((self.weight**2).sum(0), _ROUNDING).clip(max=1)
    one = self.value * (1 - self.value)
    variance = (self.part**2).sum(0)
    known = (variance > 0) & (one > 0)
    if joint:
      shrunk = (self.freedom * variance + 2 * self.within / self.views) / (self.freedom + 2)
      variance = np.maximum(variance, shrunk)
    else:
      variance = np.maximum(variance, one / self.views)
    trials = np.divide(one, variance, out=images.copy(), where=known)
    factor = t_value(np.ceil(self.views), confidence) / t_value(self.freedom + 1, confidence)
    return np.asarray(np.maximum(trials * np.where(known, factor, 1) ** 2, images))

  def estimate(self, confidence: float) -> Estimate:
    """Returns the mean of all Q means with Korn and Graubard's interval; n images count."""
    whole, n = self.averaged(), int(self.weight.any(1).sum())
    if np.isnan(whole.value[0]):
      return Estimate(np.nan, np.nan, np.nan, n, n, STRATIFIED)
    trials = whole.effective(confidence)[0]
    low, high = proportion_interval(whole.value[0] * trials, trials, confidence)
    return Estimate(float(whole.value[0]), float(low), float(high), n, n, STRATIFIED)

  def drawn(
    self, scores: np.ndarray, kind: np.ndarray, above: np.ndarray, confidence: float
  ) -> np.ndarray:
    """Returns what the means might be with other images, jointly, [samples, Q].

    With n of `effective`, a mean p is drawn from Beta(p n + ½, (1 − p) n + ½). Where p is 0 it is
    drawn from Beta(1, n) above, and is 0 below; where p is 1 it is 1 above, and drawn from Beta(n,
    1) below: the quantiles are then Clopper and Pearson's ends. Of several means of a kind, which
    are to be averaged, the halves are smaller the less these vary together, for they would not
    average out.

    Args:
      scores: standard normal, [samples, Q].
      kind: int [Q].
      above: bool [Q], whether the upper end is asked for.
      confidence: of the interval.

    Reference:
      Brown, Cai & DasGupta, Interval estimation for a binomial proportion, Statistical Science 16
      (2001), for the Beta distributions; Korn & Graubard (1998), see `intervals.korn_graubard`.
    """
    p = self.value
    n = self.effective(confidence, joint=True)
    part = np.where((self.part**2).sum(0) > 0, self.part, self.weight)
    part = part / np.maximum(np.sqrt((part**2).sum(0)), _ROUNDING)
    correlation = part.T @ part
    alike = kind[:, None] == kind
    half = 0.5 * (np.maximum(correlation, 0) * alike).sum(0) / alike.sum(0)
    scale, axes = np.linalg.eigh(correlation)
    uniform = special.ndtr(scores @ (axes * np.sqrt(np.maximum(scale, 0))).T)
    none, all_right = p <= 0, p >= 1
    right = np.where(none, 2 * half, p * n + np.where(all_right, 0, half))
    wrong = np.where(all_right, 2 * half, (1 - p) * n + np.where(none, 0, half))
    drawn = special.betaincinv(right, wrong, uniform)
    return np.where(none & ~above, 0, np.where(all_right & above, 1, drawn))


def difference(gained: Sampled, lost: Sampled, confidence: float) -> Estimate:
  """Returns the mean of Q paired differences of shares, gained minus lost.

  The interval is Bonett and Price's at the number of independent images that has the variance of
  the paired differences within strata (`effective_trials`).
  """
  up, down, n = gained.averaged(), lost.averaged(), int(gained.weight.any(1).sum())
  b, c = float(up.value[0]), float(down.value[0])
  if np.isnan(b):
    return Estimate(np.nan, np.nan, np.nan, n, n, PAIRED)
  variance = float(((up.part - down.part) ** 2).sum())
  images = float(up.freedom[0]) + 1
  views = max(images, float(up.views[0]))
  size = effective_trials(b + c - (b - c) ** 2, variance, images, views, confidence)
  value, low, high = paired_difference(b * size, c * size, size, confidence)
  return Estimate(float(value), float(low), float(high), n, n, PAIRED)
