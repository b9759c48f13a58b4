"""Weighted sums of shares from independent samples of strata, such as mCE from one view per image.

A stratum v has the weight w_v and n_v trials; k_v of them succeed, a share p_v. The value is
Σ_v w_v p_v. Its variance is Σ_v w_v² p̃_v (1 − p̃_v) / n_v with p̃_v = (k_v + 1)/(n_v + 2), so that
a stratum without a failure does not count as certain. The interval is normal.

For the difference of two classifiers on the same trials, b_v is the number of trials that succeed
only for the second classifier and c_v the number that succeed only for the first. With p =
(b_v + 1)/(n_v + 2) and q = (c_v + 1)/(n_v + 2), the variance is Σ_v w_v² (p + q − (p − q)²)/n_v.

Reference: Cochran, Sampling techniques (1977), chapter 5; Agresti & Caffo, The American
Statistician 54 (2000), for the successes added.
"""

import math

import numpy as np

from robustness.core.errors import InputError
from robustness.estimates.intervals import z_value
from robustness.estimates.means import Estimate

METHOD = 'stratified'
"""Name of the interval in the table of results."""


def estimate(
  succeeds: np.ndarray, strata: np.ndarray, weights: np.ndarray, confidence: float = 0.95
) -> Estimate:
  """Returns a weighted sum of success rates in V strata, with an interval.

  The sum is Σ_v w_v p_v, where p_v is the share of successes among the trials in stratum v.

  Args:
    succeeds: bool [N], whether each trial succeeds.
    strata: int [N], the stratum of each trial, in 0..V − 1. Trials with another number are ignored.
    weights: w, [V]. Every stratum with a weight above 0 needs a trial.
    confidence: confidence of the interval, in (0, 1).
  """
  n = _trials_per_stratum(strata, len(weights))
  k = _trials_per_stratum(strata[succeeds], len(weights))
  shrunk = (k + 1) / (n + 2)  # not 0 or 1, so that no stratum has the variance 0
  return _with_interval(weights, k, shrunk * (1 - shrunk), n, confidence)


def difference(
  first: np.ndarray,
  second: np.ndarray,
  strata: np.ndarray,
  weights: np.ndarray,
  confidence: float = 0.95,
) -> Estimate:
  """Returns a second classifier's weighted sum of success rates minus a first one's.

  The sum is Σ_v w_v p_v over V strata, where p_v is the share of successes among the trials in
  stratum v. Both classifiers have the same trials.

  Args:
    first: bool [N], whether each trial succeeds for the first classifier.
    second: bool [N], whether the same trials succeed for the second classifier.
    strata: int [N], the stratum of each trial, in 0..V − 1. Trials with another number are ignored.
    weights: w, [V]. Every stratum with a weight above 0 needs a trial.
    confidence: confidence of the interval, in (0, 1).
  """
  n = _trials_per_stratum(strata, len(weights))
  gained = _trials_per_stratum(strata[second & ~first], len(weights))
  lost = _trials_per_stratum(strata[first & ~second], len(weights))
  p, q = (gained + 1) / (n + 2), (lost + 1) / (n + 2)  # neither is 0
  variance = p + q - (p - q) ** 2  # of a trial, which adds 1, −1 or 0
  return _with_interval(weights, gained - lost, variance, n, confidence)


def allocated(weights: np.ndarray, total: int) -> np.ndarray:
  """Distributes `total` trials over V strata in proportion to their weights.

  If all success rates are ½, this makes the interval of the weighted sum of rates narrowest.

  Args:
    weights: [V], at least 0.
    total: number of trials.

  Returns:
    The number of trials of each stratum, int [V]. Fractions are rounded by largest remainders.
  """
  exact = total * weights / weights.sum()
  counts: np.ndarray = exact.astype(int)  # rounded down
  by_remainder = np.argsort(counts - exact, kind='stable')  # strata, the largest remainder first
  counts[by_remainder[: total - counts.sum()]] += 1
  return counts


def trials_needed(weights: np.ndarray, half_width: float, confidence: float = 0.95) -> int:
  """Returns the smallest number of trials for an interval of at most ± `half_width`.

  The interval is of a weighted sum of success rates in V strata. The number suffices for all rates;
  rates of ½ have the widest interval. The trials are distributed by `allocated`.

  Args:
    weights: the weight of each stratum in the sum, [V].
    half_width: half of the largest width of the interval.
    confidence: confidence of the interval, in (0, 1).
  """
  counted = weights[weights > 0]
  # The variance ¼ Σ_v w_v² / n_v of shares of ½ may be at most (half_width/z)²; 1e-9 for rounding.
  limit = (half_width / z_value(confidence)) ** 2 / 0.25 * (1 + 1e-9)  # of Σ_v w_v² / n_v
  # With n_v in proportion to w_v, the sum is (Σ w_v)² / total, which rounding of n_v may exceed.
  total = max(len(counted), math.floor(float(counted.sum()) ** 2 / limit))
  while True:
    trials = allocated(counted, total)
    if trials.all() and float((counted**2 / trials).sum()) <= limit:
      return total
    total += 1


def _trials_per_stratum(strata: np.ndarray, num_strata: int) -> np.ndarray:
  """Returns the number of trials in each of V strata, float [V].

  Args:
    strata: int [N], the stratum of each trial; trials outside 0..V − 1 are ignored.
    num_strata: V.
  """
  counted = strata[(strata >= 0) & (strata < num_strata)]
  return np.bincount(counted, minlength=num_strata).astype(float)


def _with_interval(
  weights: np.ndarray, total: np.ndarray, variance: np.ndarray, n: np.ndarray, confidence: float
) -> Estimate:
  """Returns the weighted sum of the mean values of V strata, with a normal interval.

  Args:
    weights: weights of the strata in the sum, [V]; strata with weight 0 do not count.
    total: the sum of the values of all trials in each stratum, [V].
    variance: the variance of the value of a single trial in each stratum, [V].
    n: the number of trials in each stratum, [V].
    confidence: confidence of the interval, in (0, 1).

  Raises:
    InputError: a stratum that counts has no trial.
  """
  counted = weights > 0
  if not n[counted].all():
    raise InputError(
      f'{int((n[counted] == 0).sum())} of {int(counted.sum())} strata have no trial: give more.'
    )
  w, trials = weights[counted], n[counted]
  value = float((w * total[counted] / trials).sum())
  half = z_value(confidence) * float(np.sqrt((w**2 * variance[counted] / trials).sum()))
  size = int(trials.sum())
  return Estimate(value, value - half, value + half, size, size, METHOD)
