"""Intervals for the numbers a study reports: proportions, clustered proportions and means.

Of numbers both ends are NumPy scalars, of arrays they are arrays of the broadcast shape.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from robustness.core.errors import InputError

CLOPPER_PEARSON, KORN_GRAUBARD = 'clopper-pearson', 'korn-graubard'
SEQUENTIAL = 'sequential clopper-pearson'
BONETT_PRICE, STUDENT = 'bonett-price', 'student'
REGRESSION = 'student of a regression'  # over its points, and not over images
BOOTSTRAP, LOG_RATIO, EXACT = 'bootstrap', 'log-ratio', 'exact'
BAYESIAN, JACKKNIFE, NEWCOMBE = 'bayesian-bootstrap', 'jackknife', 'newcombe'
THRESHOLD = 'images and threshold'  # of shares of sets with a threshold from other images
"""Names of intervals in the column `method` of the table of results."""
_ROUNDING = 1e-12  # means of shares that are closer to 0 or 1 count as 0 or 1


def clopper_pearson(
  successes: ArrayLike, n: ArrayLike, confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
  """Exact interval (low, high) for a proportion, of coverage at least `confidence`.

  With α = 1 − confidence and B⁻¹(q; a, b) the quantile q of the Beta(a, b) distribution, low =
  B⁻¹(α/2; k, n − k + 1) and high = B⁻¹(1 − α/2; k + 1, n − k); low is 0 for k = 0, high 1 for k =
  n, both NaN for n = 0.

  Args:
    successes: counts k, whole numbers in [0, n], any shape.
    n: numbers of trials, broadcast against `successes`.
    confidence: 1 − α, in (0, 1).

  Raises:
    InputError: a count is negative, not whole, or above n; or a bad confidence.

  Reference:
    Clopper & Pearson, The use of confidence or fiducial limits illustrated in the case of the
    binomial, Biometrika 26 (1934).
  """
  k, trials = np.broadcast_arrays(_counts(successes, 'successes'), _counts(n, 'n'))
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
  """Interval (low, high) for a proportion of trials that come in n clusters (views of one image).

  The Clopper–Pearson interval at the effective number of trials n* (`effective_trials`) of p(1 − p)
  and s²/n. Where p is 0 or 1, n* = n: such data only show that no cluster differs.

  Args:
    mean: p, in [0, 1].
    std: sample standard deviation s (divisor n − 1) of the clusters' proportions.
    n: number of clusters, of unequal ones Kish's; where it is 0 both ends are NaN.
    size: number of trials in a cluster, at least 1. A trial that is counted twice, such as a
      frequency and its mirror, is one trial.
    confidence: confidence of the interval, in (0, 1).

  Reference:
    Korn & Graubard, Confidence intervals for proportions with small expected number of positive
    counts estimated from survey data, Survey Methodology 24 (1998).
  """
  p, s, clusters, trials = np.broadcast_arrays(
    *(np.asarray(value, float) for value in (mean, std, n, size))
  )
  inside = (p > _ROUNDING) & (p < 1 - _ROUNDING)
  independent = np.where(inside, p * (1 - p), 0.0)
  variance = s**2 / np.maximum(clusters, 1)
  effective = effective_trials(independent, variance, clusters, clusters * trials, confidence)
  return proportion_interval(p * effective, effective, confidence)


def effective_trials(
  independent: ArrayLike,
  variance: ArrayLike,
  clusters: ArrayLike,
  trials: ArrayLike,
  confidence: float = 0.95,
) -> np.ndarray:
  """Returns how many independent trials are as informative as N trials that come in n clusters.

  n* = v / V · (t_{N−1} / t_{n−1})², cut to [n, N], with v ≥ 0 the variance of one independent
  trial, V the variance of the mean, estimated from the spread between the n clusters, and t_d
  Student's quantile 1 − α/2 with d degrees of freedom. It is n if all trials of a cluster agree,
  and where no variance can be estimated: v = 0, V = NaN or a single cluster. See `korn_graubard`.
  """
  v, mean_variance, n, total = np.broadcast_arrays(
    *(np.asarray(value, float) for value in (independent, variance, clusters, trials))
  )
  has_variance = (v > 0) & (n > 1) & np.isfinite(mean_variance)
  quantile = 1 - _tail(confidence)
  quantiles = (special.stdtrit(np.maximum(count - 1, 1), quantile) for count in (total, n))
  factor = (next(quantiles) / next(quantiles)) ** 2
  effective = np.where(has_variance, total * factor, n)
  np.divide(v * factor, mean_variance, out=effective, where=has_variance & (mean_variance > 0))
  return np.clip(effective, n, np.maximum(total, n))


def student_interval(
  mean: ArrayLike, std: ArrayLike, n: ArrayLike, confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
  """Student's interval (low, high) for a mean: mean ± t·std/√n, with n − 1 degrees of freedom.

  For values without known bounds. A mean of fractions has `korn_graubard`, which keeps to [0, 1]
  and does not shrink to a point where all values are equal.

  Args:
    mean: means of n independent values, any shape and unit.
    std: sample standard deviations (divisor n − 1) of the values, at least 0.
    n: how many values, of unequal clusters their effective number; where n < 2 both ends are NaN.
    confidence: confidence of the interval, in (0, 1).

  Raises:
    InputError: a negative standard deviation, or a bad confidence.
  """
  quantile = t_value(np.asarray(n, float), confidence)
  centre, spread, count = np.broadcast_arrays(
    np.asarray(mean, float), np.asarray(std, float), np.asarray(n, float)
  )
  if np.any(spread < 0):
    raise InputError(f'std = {np.nanmin(spread):g} is negative: give standard deviations >= 0.')
  half = quantile * spread / np.sqrt(np.where(count >= 2, count, np.nan))
  return (centre - half)[()], (centre + half)[()]


def percentile_interval(
  drawn: ArrayLike, n: float, confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
  """Percentile interval [...] of B bootstrap samples [B, ...], widened for few resampled units.

  The ends are the quantiles α' and 1 − α' with α' = Φ(−√(n/(n − 1)) t), t Student's quantile 1 −
  α/2 with n − 1 degrees of freedom: resampling n units (images, objects) shows a spread that is too
  small by (n − 1)/n, and the plain percentiles take it for known. Units of unequal size count as
  their effective number, which is not whole. For n < 2 both ends are NaN.

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
  """Returns Student's quantile 1 − (1 − confidence)/2 with n − 1 degrees of freedom, at least 1.

  n may be an effective number of units, which is not whole.
  """
  freedom = np.maximum(np.asarray(n, float) - 1, 1)
  quantile: np.ndarray = special.stdtrit(freedom, 1 - _tail(confidence))
  return quantile


def z_value(confidence: float) -> float:
  """The quantile 1 − (1 − confidence)/2 of the standard normal distribution."""
  return float(special.ndtri(1 - _tail(confidence)))


def _tail(confidence: float) -> float:
  """Returns (1 − confidence)/2; raises InputError for a confidence outside (0, 1)."""
  if not 0 < confidence < 1:
    raise InputError(f'confidence = {confidence!r} is not in (0, 1): give for example 0.95.')
  return (1 - confidence) / 2


def _counts(values: ArrayLike, name: str) -> np.ndarray:
  """Returns counts as floats; raises InputError for values that are negative or not whole."""
  counts = np.asarray(values, float)
  bad = (counts < 0) | (counts != np.round(counts))
  if np.any(bad):
    first = counts.flat[int(np.argmax(bad))]
    raise InputError(f'{name} = {first:g} is not a count: give whole numbers >= 0.')
  return counts


def proportion_interval(
  k: np.ndarray | float, n: np.ndarray | float, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
  """Returns Clopper–Pearson's ends, for real k and n as well; see `clopper_pearson`."""
  tail = _tail(confidence)
  low = special.betaincinv(np.where(k > 0, k, 1), n - k + 1, tail)
  high = special.betaincinv(k + 1, np.where(k < n, n - k, 1), 1 - tail)
  low = np.where(n == 0, np.nan, np.where(k > 0, low, 0.0))
  high = np.where(n == 0, np.nan, np.where(k < n, high, 1.0))
  return low[()], high[()]
