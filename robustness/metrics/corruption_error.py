r"""Mean corruption error, and its relative form, from errors by corruption and severity.

With E[k, s] the error under corruption k at severity s and E⁰ a baseline's,

  mCE = 1/K Σ_k (Σ_s E[k, s]) / (Σ_s E⁰[k, s]),
  relative mCE = 1/K Σ_k (Σ_s E[k, s] - E_clean) / (Σ_s E⁰[k, s] - E⁰_clean).

Both are ratios: 1 is the baseline itself (Hendrycks and Dietterich 2019, section 4.2, who print
them times 100; Yin et al. 2019, appendix A).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.estimates.intervals import percentile_interval
from robustness.estimates.of_means import RESAMPLES, resampled
from robustness.metrics.shares import independent_trials, mean_difference, mean_ratio, mean_share
from robustness.results import Number

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
    baseline: the mean errors of the baseline, of the shape of `error`.
    baseline_clean: its error on clean images.

  Returns:
    The ratio; NaN if the baseline loses nothing, on average, under some corruption.
  """
  own, reference = (np.asarray(e, float) for e in (error, baseline))
  excess, baseline_excess = _sums(own - clean), _sums(reference - baseline_clean)
  if np.any(baseline_excess <= ROUNDING):
    return float('nan')
  return float((excess / baseline_excess).mean())


@dataclasses.dataclass(frozen=True)
class Errors:
  """What one classifier got wrong under K corruptions at S severities.

  Attributes:
    corrupted: bool [N, K, S].
    clean: bool [N]; None where no clean images were shown.
    names: of the corruptions, for notes; () names them by number.
  """

  corrupted: np.ndarray
  clean: np.ndarray | None = None
  names: tuple[str, ...] = ()

  @property
  def by_corruption(self) -> np.ndarray:
    """Each image's share of wrong severities under each corruption, [N, K]."""
    return self.corrupted.mean(2)

  @property
  def num_views(self) -> int:
    """K · S."""
    return int(np.prod(self.corrupted.shape[1:]))

  def of(self, corruptions: Sequence[int]) -> Errors:
    """Returns the errors under some corruptions, by position."""
    names = tuple(self.names[k] for k in corruptions) if self.names else ()
    return Errors(self.corrupted[:, list(corruptions)], self.clean, names)

  def named(self, chosen: np.ndarray) -> str:
    """Writes out the corruptions that are True, bool [K]."""
    names = self.names or [f'corruption {k + 1} of {len(chosen)}' for k in range(len(chosen))]
    return ', '.join(name for name, has in zip(names, chosen, strict=True) if has)


@dataclasses.dataclass(frozen=True)
class Published:
  """A baseline of which only the mean errors are known, on many images: they count as exact.

  Attributes:
    corrupted: [K] mean errors over severities.
    clean: error on clean images.
  """

  corrupted: np.ndarray
  clean: float


def mean_error(errors: Errors, confidence: float = 0.95) -> Number:
  """Returns the mean error over corruptions and severities; see `shares.mean_share`."""
  return mean_share(errors.corrupted.mean((1, 2)), errors.num_views, confidence)


def mean_error_difference(first: Errors, second: Errors, confidence: float = 0.95) -> Number:
  """Returns the second's mean error minus the first's; see `shares.mean_difference`."""
  only_first, only_second = _discordant(first.corrupted, second.corrupted)
  return mean_difference(
    only_first.mean((1, 2)), only_second.mean((1, 2)), first.num_views, confidence
  )


def mce(errors: Errors, baseline: Errors | Published, confidence: float = 0.95) -> Number:
  """Returns mCE with an interval over images.

  Against published errors mCE is a weighted mean of an image's shares, and has their interval
  (`shares.mean_share`); against errors on the same images it is a mean of ratios of paired means
  (`shares.mean_ratio`). NaN, with a note, where the baseline makes no error under a corruption.
  """
  if isinstance(baseline, Errors):
    if baseline is errors:
      return _of_the_baseline(len(errors.corrupted))
    number = mean_ratio(errors.by_corruption, baseline.by_corruption, confidence)
    none = np.asarray(~baseline.corrupted.any((0, 2)))
    if none.any():
      note = f'undefined: the baseline makes no error under {baseline.named(none)}'
      return dataclasses.replace(number, note=note)
    return number
  weight, largest = _weights(baseline.corrupted)
  trials = independent_trials(np.repeat(weight, errors.corrupted.shape[2]))
  return mean_share(errors.by_corruption @ weight, trials, confidence, largest)


def mce_difference(
  first: Errors, second: Errors, baseline: Errors | Published, confidence: float = 0.95
) -> Number:
  """Returns the second's mCE minus the first's, which is the baseline unless that is published.

  Raises:
    InputError: the baseline is a third classifier.
  """
  if isinstance(baseline, Errors):
    if baseline is not first:
      raise InputError('mCE differs from that of the baseline, or against published errors.')
    number = mce(second, baseline, confidence)
    ends = {name: getattr(number, name) - 1 for name in ('value', 'low', 'high')}
    return dataclasses.replace(number, **ends)
  weight, largest = _weights(baseline.corrupted)
  only_first, only_second = (
    part.mean(2) @ weight for part in _discordant(first.corrupted, second.corrupted)
  )
  trials = independent_trials(np.repeat(weight, first.corrupted.shape[2]))
  return mean_difference(only_first, only_second, trials, confidence, largest)


def relative_mce(
  errors: Errors, baseline: Errors | Published, seed: int = 0, confidence: float = 0.95
) -> Number:
  """Returns relative mCE with an interval over images; all errors must have clean ones.

  Against published errors it is a weighted mean of paired differences to the clean image
  (`shares.mean_difference`). Against errors on the same images it is a ratio of such differences,
  whose denominators may be near 0: a bootstrap, which says how many samples had no value. If more
  than 1 − confidence of them had none, no interval is given.
  """
  clean = _clean(errors)
  if isinstance(baseline, Errors):
    if baseline is errors:
      return _of_the_baseline(len(clean))
    return _relative_to_rows(errors, baseline, seed, confidence)
  weight, largest = _weights(baseline.corrupted - baseline.clean)
  gained, lost = (
    part.mean(2) @ weight for part in _discordant(clean[:, None, None], errors.corrupted)
  )
  trials = independent_trials(np.repeat(weight, errors.corrupted.shape[2]))
  return mean_difference(gained, lost, trials, confidence, largest)


def _relative_to_rows(errors: Errors, baseline: Errors, seed: int, confidence: float) -> Number:
  own, reference = (
    np.concatenate([e.by_corruption, _clean(e)[:, None].astype(float)], 1)
    for e in (errors, baseline)
  )

  def statistic(weights: np.ndarray) -> np.ndarray:
    excess, base = (means[:, :-1] - means[:, -1:] for means in (weights @ own, weights @ reference))
    ratios = np.full(excess.shape, np.nan)
    np.divide(excess, base, out=ratios, where=base > ROUNDING)
    return ratios.mean(1)

  number = bootstrap(statistic, len(own), seed, confidence)
  none = baseline.by_corruption.mean(0) - _clean(baseline).mean() <= ROUNDING
  if none.any():
    note = f'undefined: the baseline errs no more than when clean under {baseline.named(none)}'
    return dataclasses.replace(number, note=note)
  return number


def _clean(errors: Errors) -> np.ndarray:
  if errors.clean is None:
    raise InputError('there are no clean images: relative mCE needs the clean error.')
  return errors.clean


def _of_the_baseline(n: int) -> Number:
  return Number(1.0, 1.0, 1.0, n, 'exact', 'the baseline itself')


def _weights(denominators: np.ndarray) -> tuple[np.ndarray, float]:
  """Returns 1/K Σ x_k / d_k as weights w that sum to 1 and a factor: factor · Σ w_k x_k."""
  inverse = 1 / np.asarray(denominators, float)
  return inverse / inverse.sum(), float(inverse.mean())


def _discordant(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns where the first alone, and where the second alone, is right, of what is wrong."""
  return ~first & second, first & ~second


def bootstrap(
  statistic: Callable[[np.ndarray], np.ndarray],
  num_rows: int,
  seed: int,
  confidence: float = 0.95,
  resamples: int = RESAMPLES,
) -> Number:
  """Returns a statistic of per-image means with its bootstrap interval (`percentile_interval`).

  Images are resampled with replacement; whatever belongs to one image (all corruptions,
  severities and classifiers) is resampled together, so differences and ratios are paired.

  Args:
    statistic: from weights [B, N] that sum to 1 along N to values [B]; NaN where it is undefined.
    num_rows: N.
    seed: of the resampling.
    confidence: in (0, 1).
    resamples: number of bootstrap samples.

  Returns:
    The value at equal weights. A note says how many resamples were undefined and left out; there is
    no interval if the value itself is undefined, or more than 1 − confidence of the resamples.
  """
  value = float(statistic(np.full((1, num_rows), 1 / num_rows))[0])
  drawn = resampled(statistic, num_rows, seed, resamples)
  known = drawn[np.isfinite(drawn)]
  name, undefined = f'paired bootstrap {confidence:g}', len(drawn) - len(known)
  if not np.isfinite(value):
    return Number(np.nan, np.nan, np.nan, num_rows, name, 'undefined: a denominator is not above 0')
  note = f'undefined in {undefined} of {len(drawn)} resamples' if undefined else ''
  if undefined > (1 - confidence) * len(drawn):
    return Number(value, np.nan, np.nan, num_rows, name, f'{note}: too many for an interval')
  note = f'{note}, which are left out' if note else ''
  low, high = percentile_interval(known, num_rows, confidence)
  return Number(value, float(low), float(high), num_rows, name, note)


def _sums(error: ArrayLike) -> np.ndarray:
  array = np.asarray(error, float)
  if array.ndim not in (1, 2) or not array.size:
    raise InputError(
      f'errors have shape {array.shape}: give [corruptions] or [corruptions, severities].'
    )
  return array if array.ndim == 1 else array.mean(1)
