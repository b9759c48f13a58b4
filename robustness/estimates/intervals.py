"""Confidence intervals for proportions, proportions in clusters, and means.

All functions broadcast their arguments. Both ends are NumPy scalars if all arguments are numbers.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from robustness.core.errors import InputError

CLOPPER_PEARSON, KORN_GRAUBARD = 'clopper-pearson', 'korn-graubard'
SEQUENTIAL = 'sequential clopper-pearson'
BONETT_PRICE, STUDENT = 'bonett-price', 'student'
REGRESSION = 'student of a regression'  # over the points of a line, and not over images
BOOTSTRAP, LOG_RATIO, EXACT = 'bootstrap', 'log-ratio', 'exact'
BAYESIAN, JACKKNIFE, NEWCOMBE = 'bayesian-bootstrap', 'jackknife', 'newcombe'
THRESHOLD = 'images and threshold'  # of prediction sets with a threshold from held-out images
"""Names of intervals in the column `method` of the table of results."""
_ROUNDING = 1e-12
"""Means of shares closer to 0 or 1 than this count as 0 or 1."""


def clopper_pearson(
  successes: ArrayLike, n: ArrayLike, confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
  """Returns Clopper and Pearson's exact interval (low, high) for a proportion.

  Its coverage is at least `confidence` = 1 − α. For k successes in n trials,

    low = B⁻¹(α/2; k, n − k + 1) and high = B⁻¹(1 − α/2; k + 1, n − k),

  where B⁻¹(q; a, b) is the quantile q of the distribution Beta(a, b). low is 0 for k = 0, and high
  is 1 for k = n. Both are NaN for n = 0.

  Args:
    successes: the numbers k, whole and in [0, n], any shape.
    n: number of trials, any shape that broadcasts with `successes`.
    confidence: 1 − α, in (0, 1).

  Raises:
    InputError: a count is negative, not whole or above n, or the confidence is out of range.

  Reference:
    Clopper & Pearson, The use of confidence or fiducial limits illustrated in the case of the
    binomial, Biometrika 26 (1934).
  """
  k, trials = np.broadcast_arrays(_check_counts(successes, 'successes'), _check_counts(n, 'n'))
  if np.any(k > trials):
    worst = int(np.argmax(k - trials))
    raise InputError(
      f'successes = {k.flat[worst]:g} is above n = {trials.flat[worst]:g}: '
      'successes must lie in [0, n].'
    )
  return proportion_interval(k, trials, confidence)


def korn_graubard(
  mean: ArrayLike, std: ArrayLike, n: ArrayLike, size: ArrayLike, confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
  """Returns Korn and Graubard's interval (low, high) for a proportion of trials in n clusters.

  A cluster is, for example, all views (ways of perturbing images) of one image. The trials of a
  cluster are correlated, so that N trials determine p less precisely than N independent ones. The
  interval is Clopper and Pearson's for n* independent trials, n ≤ n* ≤ N. `effective_trials`
  computes n* from the variance p(1 − p) of a trial and the variance s²/n of the mean p. If p is 0
  or 1, s is 0 and the correlation of the trials is unknown; n* is then n, as for trials that agree
  within each cluster.

  Args:
    mean: p, in [0, 1].
    std: sample standard deviation s (divisor n − 1) of the clusters' proportions.
    n: number of clusters; for clusters of unequal size Kish's effective number. Both ends are NaN
      if it is 0.
    size: number of trials in a cluster, at least 1. Two views with the same outcome, such as a
      frequency and its mirror image, are one trial.
    confidence: confidence of the interval, in (0, 1).

  Reference:
    Korn & Graubard, Confidence intervals for proportions with small expected number of positive
    counts estimated from survey data, Survey Methodology 24 (1998).
  """
  p, s, clusters, size = _broadcast(mean, std, n, size)
  is_inside = (p > _ROUNDING) & (p < 1 - _ROUNDING)  # neither 0 nor 1
  trial_variance = np.where(is_inside, p * (1 - p), 0.0)
  variance = s**2 / np.maximum(clusters, 1)  # of the mean p
  effective = effective_trials(trial_variance, variance, clusters, clusters * size, confidence)
  return proportion_interval(p * effective, effective, confidence)


def effective_trials(
  independent: ArrayLike,
  variance: ArrayLike,
  clusters: ArrayLike,
  trials: ArrayLike,
  confidence: float = 0.95,
) -> np.ndarray:
  """Returns the number n* of independent trials that are as informative as N trials in n clusters.

  The number is n* = f v / V, cut to [n, N]. v is the variance of a single independent trial, and V
  the variance of the mean. f = (t_{N−1} / t_{n−1})² makes intervals from few clusters wider, where
  t_d is Student's quantile at `confidence` for d degrees of freedom. For V = 0, v / V is replaced
  by N. If no variance can be estimated (v = 0, V = NaN or n < 2), n* = n.

  All arguments but `confidence` may be arrays of shapes that broadcast.

  Args:
    independent: v, at least 0.
    variance: V, estimated from the spread between the clusters.
    clusters: n, which need not be whole: an effective number if clusters have unequal sizes.
    trials: N, which need not be whole.
    confidence: confidence level of the interval, in (0, 1).
  """
  v, mean_variance, n, total = _broadcast(independent, variance, clusters, trials)
  has_variance = (v > 0) & (n >= 2) & np.isfinite(mean_variance)
  factor = (t_value(total, confidence) / t_value(n, confidence)) ** 2  # f = (t_{N−1} / t_{n−1})²
  effective = np.where(has_variance, total * factor, n)  # for V = 0, or without a variance
  np.divide(v * factor, mean_variance, out=effective, where=has_variance & (mean_variance > 0))
  return np.clip(effective, n, np.maximum(total, n))


def decimals(width: float) -> int:
  """Returns how many decimals to print for values with an interval of this width > 0, at most 12.

  The last decimal is at most a fifth of the width, so that the interval's ends stay distinct.
  """
  return min(12, max(0, math.ceil(-math.log10(width / 5))))


def student_interval(
  mean: ArrayLike, std: ArrayLike, n: ArrayLike, confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
  """Returns Student's interval (low, high) for a mean, mean ± t·std/√n.

  t is Student's quantile with n − 1 degrees of freedom. The interval is for values without known
  bounds. For a mean of fractions use `korn_graubard`: its interval stays in [0, 1] and has a width
  also if all values are equal.

  Args:
    mean: means of n independent values, any shape and unit.
    std: sample standard deviations (divisor n − 1) of the values, at least 0.
    n: number of values, or their effective number if they have unequal weights; both ends are NaN
      if n < 2.
    confidence: confidence of the interval, in (0, 1).
  """
  quantile = t_value(n, confidence)
  centre, spread, count = _broadcast(mean, std, n)
  half = quantile * spread / np.sqrt(np.where(count >= 2, count, np.nan))
  return (centre - half)[()], (centre + half)[()]


def percentile_interval(
  drawn: ArrayLike, n: float, confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the percentile interval (low, high), [...] each, of bootstrap samples.

  Plain percentiles are too narrow: the variance of bootstrap samples of n units is too small by the
  factor (n − 1)/n, and they ignore that this variance is itself estimated. The ends are therefore
  the quantiles α' and 1 − α' with α' = Φ(−√(n/(n − 1)) t), where Φ is the normal distribution and t
  Student's quantile of (1 + confidence)/2 with n − 1 degrees of freedom.

  Args:
    drawn: [B, ...], the statistic in B bootstrap samples.
    n: number of resampled units, such as images; for units of unequal size their effective number.
      Both ends are NaN if n < 2.
    confidence: confidence of the interval, in (0, 1).

  Reference:
    Hesterberg, What teachers should know about the bootstrap, The American Statistician 69 (2015).
  """
  values = np.asarray(drawn, float)
  if n < 2 or not len(values):
    return np.full(values.shape[1:], np.nan), np.full(values.shape[1:], np.nan)
  tail = special.ndtr(-np.sqrt(n / (n - 1)) * t_value(n, confidence))
  low, high = np.quantile(values, [tail, 1 - tail], axis=0)
  return low, high


def t_value(n: ArrayLike, confidence: float = 0.95) -> np.ndarray:
  """Returns Student's two-sided quantile at `confidence`, any shape.

  Args:
    n: number of units, or their effective number, which need not be whole. There are n − 1 degrees
      of freedom, but at least 1.
    confidence: the probability between minus the quantile and the quantile, in (0, 1).
  """
  freedom = np.maximum(np.asarray(n, float) - 1, 1)
  return np.asarray(special.stdtrit(freedom, 1 - _tail_probability(confidence)))[()]


def z_value(confidence: float) -> float:
  """Returns the two-sided quantile of the standard normal distribution: 1.96 for confidence .95."""
  return float(special.ndtri(1 - _tail_probability(confidence)))


def _tail_probability(confidence: float) -> float:
  """Returns (1 − confidence)/2; raises InputError for a confidence outside (0, 1)."""
  if not 0 < confidence < 1:
    raise InputError(f'confidence = {confidence!r} is not in (0, 1): give for example 0.95.')
  return (1 - confidence) / 2


def _broadcast(*values: ArrayLike) -> tuple[np.ndarray, ...]:
  """Returns the values as arrays of floats of one common shape."""
  return np.broadcast_arrays(*(np.asarray(value, float) for value in values))


def _check_counts(values: ArrayLike, name: str) -> np.ndarray:
  """Returns counts as floats; raises InputError if one is negative or not whole.

  `name` is the name of the counts in the message, such as 'n'.
  """
  counts = np.asarray(values, float)
  is_invalid = (counts < 0) | (counts != np.round(counts))
  if np.any(is_invalid):
    first = counts.flat[int(np.argmax(is_invalid))]
    raise InputError(f'{name} = {first:g} is not a count: give whole numbers >= 0.')
  return counts


def proportion_interval(
  k: np.ndarray | float, n: np.ndarray | float, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
  """Returns Clopper and Pearson's interval (low, high), also for numbers that are not whole.

  Args:
    k: number of successes, in [0, n], such as a share times an effective number of trials.
    n: number of trials; both ends are NaN if it is 0.
    confidence: confidence of the interval, in (0, 1).
  """
  tail = _tail_probability(confidence)
  # The quantiles need parameters above 0; for k = 0 and k = n the ends are set below.
  low = special.betaincinv(np.where(k > 0, k, 1), n - k + 1, tail)
  high = special.betaincinv(k + 1, np.where(k < n, n - k, 1), 1 - tail)
  low = np.where(n == 0, np.nan, np.where(k > 0, low, 0.0))
  high = np.where(n == 0, np.nan, np.where(k < n, high, 1.0))
  return low[()], high[()]
