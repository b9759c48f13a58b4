r"""Mean corruption error, and its relative form, from errors by corruption and severity.

With E[k, s] the error under corruption k at severity s and E⁰ a baseline's,

  mCE = 1/K Σ_k (Σ_s E[k, s]) / (Σ_s E⁰[k, s]),
  relative mCE = 1/K Σ_k (Σ_s E[k, s] - E_clean) / (Σ_s E⁰[k, s] - E⁰_clean).

Both are ratios: 1 is the baseline itself (Hendrycks and Dietterich 2019, section 4.2, who print
them times 100; Yin et al. 2019, appendix A).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.results import Number

RESAMPLES = 1000
ROUNDING = 1e-9  # sums of errors closer than this are equal


def mean_corruption_error(error: ArrayLike, baseline: ArrayLike) -> float:
  """Returns mCE as a ratio.

  Args:
    error: [K] or [K, S] errors, fractions; one value a corruption is its mean over severities.
    baseline: the same for the baseline.

  Raises:
    InputError: shapes differ, or the baseline makes no error under a corruption.
  """
  return float(corruption_errors(error, baseline).mean())


def corruption_errors(error: ArrayLike, baseline: ArrayLike) -> np.ndarray:
  """Returns the CE of each corruption, [K]: its error over the baseline's, severities summed."""
  own, reference = _sums(error), _sums(baseline)
  if own.shape != reference.shape:
    raise InputError(f'errors of {own.size} corruptions against a baseline of {reference.size}.')
  if np.any(reference <= 0):
    raise InputError(
      f'the baseline makes no error under corruption {int(np.argmin(reference))}: '
      'a ratio to it is undefined. Choose another baseline or more images.'
    )
  return own / reference


def relative_mean_corruption_error(
  error: ArrayLike, clean: float, baseline: ArrayLike, baseline_clean: float
) -> float:
  """Returns the relative mCE: errors over and above the clean error, as a ratio.

  Args:
    error: [K] mean errors over severities, or [K, S].
    clean: error on clean images.
    baseline, baseline_clean: the same for the baseline.

  Returns:
    The ratio; NaN if the baseline loses nothing, on average, under some corruption.
  """
  own, reference = (np.asarray(e, float) for e in (error, baseline))
  excess, baseline_excess = _sums(own - clean), _sums(reference - baseline_clean)
  if np.any(baseline_excess <= ROUNDING):
    return float('nan')
  return float((excess / baseline_excess).mean())


def bootstrap(
  statistic: Callable[[np.ndarray], np.ndarray],
  num_rows: int,
  seed: int,
  confidence: float = 0.95,
  resamples: int = RESAMPLES,
) -> Number:
  """Returns a statistic of per-image means with its percentile bootstrap interval.

  Images are resampled with replacement; whatever belongs to one image (all corruptions,
  severities and classifiers) is resampled together, so differences and ratios are paired.

  Args:
    statistic: from weights [B, N] that sum to 1 along N to values [B].
    num_rows: N.
    seed: of the resampling.
    confidence: in (0, 1).
    resamples: number of bootstrap samples.

  Returns:
    The value at equal weights; NaN resamples are left out of the interval.

  Reference:
    Efron and Tibshirani, An introduction to the bootstrap (1993), chapter 13.
  """
  value = float(statistic(np.full((1, num_rows), 1 / num_rows))[0])
  drawn = resampled(statistic, num_rows, seed, resamples)
  drawn = drawn[np.isfinite(drawn)]
  tail = (1 - confidence) / 2
  low, high = np.quantile(drawn, [tail, 1 - tail]) if drawn.size else (np.nan, np.nan)
  return Number(value, float(low), float(high), num_rows, f'paired bootstrap {confidence:g}')


def resampled(
  statistic: Callable[[np.ndarray], np.ndarray],
  num_rows: int,
  seed: int,
  resamples: int = RESAMPLES,
) -> np.ndarray:
  """Returns a statistic of `resamples` bootstrap samples, [B, ...]; see `bootstrap`."""
  generator = np.random.default_rng(seed)
  values = []
  for _ in range(0, resamples, 100):
    counts = generator.multinomial(num_rows, np.full(num_rows, 1 / num_rows), size=100)
    values.append(statistic(counts / num_rows))
  return np.concatenate(values)


def _sums(error: ArrayLike) -> np.ndarray:
  array = np.asarray(error, float)
  if array.ndim not in (1, 2) or not array.size:
    raise InputError(
      f'errors have shape {array.shape}: give [corruptions] or [corruptions, severities].'
    )
  return array if array.ndim == 1 else array.mean(1)
