"""Measures of confidence against accuracy: calibration error, Brier score, selective risk.

p is the probability of the predicted class and y is 1 if the prediction is right, else 0. Examples
are grouped into bins b of similar confidence. With the share w_b of the examples in a bin, their
accuracy ȳ_b and mean confidence p̄_b, the expected calibration error is

  ECE = Σ_b w_b |ȳ_b - p̄_b|                          (Naeini et al. 2015; Guo et al. 2017).

Bins have equal width, or equal mass: the same number of examples each, except that equal
confidences share a bin, so that the result does not depend on the order of the examples.

ECE is biased upwards, because ȳ_b differs from p̄_b by chance too. The debiased estimator subtracts
the expected bias (Kumar et al. 2019, section 5 and appendix), where ȳ_b is taken as normal around
the observed accuracy of the n_b examples in a bin:

  ECE - (Σ_b w_b E|N(ȳ_b - p̄_b, ȳ_b(1 - ȳ_b)/n_b)| - ECE).

The expectation has a closed form (the folded normal distribution). A negative estimate is set to 0.
The squared error has an unbiased estimator (Bröcker 2012; Ferro and Fricker 2012; Kumar et al.
2019, definition 4.1):

  Σ_b w_b ((ȳ_b - p̄_b)² - ȳ_b(1 - ȳ_b)/(n_b - 1)).

Roelofs et al. (2022) compare numbers and kinds of bins, and recommend equal mass.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from robustness.core.errors import InputError
from robustness.estimates.intervals import BOOTSTRAP, percentile_interval
from robustness.estimates.means import Estimate

BINS = 15
"""The number of bins of Guo et al. (2017)."""
QUANTITIES = ('ece', 'ece_equal_mass', 'rms_calibration_error', 'brier', 'aurc', 'excess_aurc')
"""The measures in `Scores` that tables show, in their order."""
OVERCONFIDENCE = 'overconfidence'
"""The mean confidence minus the accuracy, Σ_b w_b (p̄_b - ȳ_b), in [-1, 1]."""
_ROUNDING = 1e-12  # error of a mean over views
_MAX_WEIGHTS_PER_BATCH = 2**22  # weights of images in the bootstrap samples of a batch


class Bins(NamedTuple):
  """Predictions in M bins of confidence.

  Attributes:
    size: number, or total weight, of the predictions in each bin, [..., M].
    confidence: their mean confidence, [..., M]; 0 in an empty bin.
    accuracy: the share of them that is right, [..., M]; 0 in an empty bin.
  """

  size: np.ndarray
  confidence: np.ndarray
  accuracy: np.ndarray


@dataclasses.dataclass(frozen=True)
class Predictions:
  """Confidences of N predictions, in descending order, and which of them are right.

  Attributes:
    order: int [N], the index of each prediction in the arrays that `sort` was given.
    confidence: [N], the probability of the predicted class, in [0, 1], descending.
    correct: bool [N], or [..., N] for several simulated sets of outcomes.
  """

  order: np.ndarray
  confidence: np.ndarray
  correct: np.ndarray

  @classmethod
  def sort(cls, confidence: ArrayLike, correct: ArrayLike) -> Predictions:
    """Returns predictions sorted by confidence; equal confidences keep their order.

    Args:
      confidence: [N], in [0, 1].
      correct: bool [N], whether each prediction is right.

    Raises:
      InputError: the shapes differ, there is no prediction, or a confidence is outside [0, 1].
    """
    p, y = np.asarray(confidence, float), np.asarray(correct, bool)
    if p.shape != y.shape or p.ndim != 1 or not p.size:
      raise InputError(
        f'confidences have shape {p.shape} and outcomes {y.shape}: give both for N ≥ 1 examples.'
      )
    if not np.all((p >= 0) & (p <= 1 + 1e-6)):
      raise InputError('a confidence is NaN or outside [0, 1]: give probabilities, not logits.')
    order = np.argsort(-p, kind='stable')
    return cls(order, np.minimum(p[order], 1), y[order])

  def equal_width(self, bins: int) -> np.ndarray:
    """Returns the boundaries of M bins of equal width, int [M + 1], as indices of sorted
    predictions.

    Bin m holds confidences in ((m - 1)/M, m/M]. The bin of the highest confidences is first; the
    last entry is N.

    Args:
      bins: the number M of bins.
    """
    index = np.ceil(self.confidence * bins).astype(int).clip(1, bins)
    return np.searchsorted(-index, np.arange(-bins, 1))

  def equal_mass(self, bins: int) -> np.ndarray:
    """Returns the boundaries of M bins of about N/M predictions each, int [M + 1], as `equal_width`
    does.

    Boundaries are only where the confidence changes, so that equal confidences share a bin. Some
    bins may therefore be empty.
    """
    starts = (np.arange(bins + 1) * len(self.order)) // bins
    return self._ties[np.searchsorted(self._ties, starts)]

  def binned(self, starts: np.ndarray, weights: np.ndarray | None = None) -> Bins:
    """Returns the predictions in bins.

    Args:
      starts: [M + 1], boundaries from `equal_width` or `equal_mass`.
      weights: [..., N], the weight of each prediction, such as its count in a bootstrap sample;
        None counts each once.
    """
    w = np.ones(len(self.order)) if weights is None else weights
    total, p, y = (_sums(w * values, starts) for values in (1, self.confidence, self.correct))
    size = np.maximum(total, 1)
    return Bins(total, p / size, y / size)

  @functools.cached_property
  def _ties(self) -> np.ndarray:
    """The index at which each run of equal confidences begins, followed by N."""
    return np.flatnonzero(np.diff(self.confidence, prepend=np.inf, append=-np.inf))

  def area_under_risk_coverage(self, weights: np.ndarray | None = None) -> np.ndarray:
    """Returns AURC = 1/N Σ_k (errors among the k most confident)/k (Geifman and El-Yaniv 2017),
    [...].

    It is the mean error over all shares of the predictions that a classifier could be asked to
    answer. Predictions of equal confidence contribute the mean over all their orders. With K
    predictions and E errors before a run of m equal confidences, among them e errors, the run adds

      Σ_{j=1..m} (E + j e/m)/(K + j) = e + (E - K e/m)(H_{K+m} - H_K),   H_k = 1 + 1/2 + … + 1/k.

    Args:
      weights: int [..., N], how often each prediction counts; None counts each once.
    """
    w = np.ones(len(self.order), int) if weights is None else weights
    size, wrong = (_sums(w * values, self._ties) for values in (1, ~self.correct))
    before, wrong_before = (np.cumsum(x, -1) - x for x in (size, wrong))
    harmonic = special.digamma(np.arange(int(size.sum(-1).max()) + 1) + 1.0)
    share = wrong / np.maximum(size, 1)
    spread = harmonic[before + size] - harmonic[before]
    return np.asarray((wrong + (wrong_before - before * share) * spread).sum(-1) / size.sum(-1))

  def selective_error(self, coverages: np.ndarray) -> np.ndarray:
    """Returns the error among the most confident predictions, [C].

    A coverage that cuts a prediction counts part of it; equal confidences contribute the mean over
    all their orders.

    Args:
      coverages: [C], the shares of the predictions that are answered, in (0, 1].
    """
    wrong = np.concatenate([[0], np.cumsum(_sums((~self.correct).astype(int), self._ties))])
    answered = coverages * len(self.order)
    return np.asarray(np.interp(answered, self._ties, wrong) / answered)


def _sums(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
  """Returns the sums of values [..., N] from each start to the next, [..., M], for starts [M
  + 1].
  """
  zero = np.zeros((*values.shape[:-1], 1), values.dtype)
  sums = np.concatenate([zero, np.cumsum(values, -1)], -1)
  return np.diff(sums[..., starts], axis=-1)


def calibration_error(bins: Bins) -> np.ndarray:
  """Returns ECE, [...], without subtracting the bias that chance adds."""
  return np.asarray((_share(bins) * np.abs(bins.accuracy - bins.confidence)).sum(-1))


def debiased_calibration_error(bins: Bins) -> np.ndarray:
  """Returns ECE minus its expected bias, at least 0, [...]; the module has the formula."""
  gap = np.abs(bins.accuracy - bins.confidence)
  deviation = np.sqrt(bins.accuracy * (1 - bins.accuracy) / np.maximum(bins.size, 1))
  ratio = np.divide(gap, deviation, out=np.full(gap.shape, np.inf), where=deviation > 0)
  spread = deviation * np.sqrt(2 / np.pi) * np.exp(-(ratio**2) / 2)
  expected = spread + gap * special.erf(ratio / np.sqrt(2))
  return np.asarray(np.maximum((_share(bins) * (2 * gap - expected)).sum(-1), 0))


def squared_calibration_error(bins: Bins) -> np.ndarray:
  """Returns the unbiased estimate of the mean squared calibration error, [...].

  It may be negative. Bins of one example show no variance and are left out, as in the released code
  of Kumar et al.
  """
  variance = bins.accuracy * (1 - bins.accuracy) / np.maximum(bins.size - 1, 1)
  squared = (bins.accuracy - bins.confidence) ** 2 - variance
  return np.asarray((_share(bins) * np.where(bins.size > 1, squared, 0)).sum(-1))


def _share(bins: Bins) -> np.ndarray:
  """Returns the share of the predictions in each bin, [..., M]."""
  return np.asarray(bins.size / bins.size.sum(-1, keepdims=True))


def least_area(error: ArrayLike) -> np.ndarray:
  """Returns the smallest possible AURC of a classifier, with all errors least confident, [...].

  With the error r it is r + (1 - r) ln(1 - r) for many predictions. The excess AURC is the AURC
  minus this area (Geifman, Uziel & El-Yaniv, Bias-reduced uncertainty estimation for deep neural
  classifiers, ICLR 2019, equation 5).
  """
  risk = np.asarray(error, float)
  return np.asarray(risk + special.xlogy(1 - risk, 1 - risk))


BIASED = {name: f'{name}_biased' for name in ('ece', 'ece_equal_mass', 'rms_calibration_error')}
"""Names of debiased calibration errors, with the names of the errors before the bias is
subtracted.
"""


@dataclasses.dataclass(frozen=True)
class Scores:
  """The calibration measures of one view, with bootstrap samples and simulated calibrated outcomes.

  A view is one way of showing all images, such as fog at severity 3.

  Attributes:
    values: measures by name: `QUANTITIES`, in which calibration errors are debiased,
      `OVERCONFIDENCE`, 'accuracy', 'mean_confidence', and the calibration errors before debiasing
      by the values of `BIASED`, which are comparable with papers.
    drawn: measures in B bootstrap samples of the images, [B], for `QUANTITIES` and
      `OVERCONFIDENCE`. Calibration errors are not debiased.
    calibrated: measures of B simulated outcomes, [B], by the keys of `BIASED` and `OVERCONFIDENCE`.
      A prediction of confidence p is right with probability p, so that these are values that chance
      alone produces (Bröcker and Smith 2007).
    n: number of images.
  """

  values: Mapping[str, float]
  drawn: Mapping[str, np.ndarray]
  calibrated: Mapping[str, np.ndarray]
  n: int

  @classmethod
  def mean(cls, views: Sequence[Scores]) -> Scores:
    """Returns the mean of each score over views of the same images.

    The values, their bootstrap samples `drawn` and the scores `calibrated` of a calibrated network
    are averaged alike.
    """
    if len(views) == 1:
      return views[0]

    def over(field: str) -> dict[str, Any]:
      """Returns the means over the views for one attribute of `Scores`, by measure."""
      parts = [vars(view)[field] for view in views]
      return {name: np.mean([part[name] for part in parts], axis=0) for name in parts[0]}

    return cls(over('values'), over('drawn'), over('calibrated'), views[0].n)

  def estimate(self, name: str, confidence: float = 0.95) -> Estimate:
    """Returns one of `QUANTITIES` with an interval within [0, 1], or `OVERCONFIDENCE`.

    For Brier scores and areas the ends l and h are percentiles of the bootstrap samples. For
    calibration errors the interval is [2 ECE - h, ECE + h - m], where ECE is not debiased and m is
    the mean of the samples: a bootstrap sample adds the same bias once more. At the upper end no
    bias is subtracted, because most of a large error is real. The interval begins at 0 if a
    calibrated classifier would reach this ECE by chance. docs/calibration.md has the coverage in
    simulations.

    Args:
      name: the measure.
      confidence: confidence of the interval, in (0, 1).
    """
    value, biased, drawn = self.values[name], self._biased(name), self.drawn[name]
    calibrated = self.calibrated.get(name)
    if name == OVERCONFIDENCE:
      return _around(value, drawn, self.n, confidence, biased, calibrated)
    low, high = (float(end) for end in percentile_interval(drawn, self.n, confidence))
    if calibrated is not None:
      low, high = 2 * biased - high, biased + high - float(drawn.mean())
      if biased <= np.quantile(calibrated, (1 + confidence) / 2):
        low = min(low, 0.0)
    low, high = max(min(low, value), 0.0), min(max(high, value), 1.0)  # in this order NaN stays
    return Estimate(float(value), low, high, self.n, self.n, BOOTSTRAP)

  def minus(self, first: Scores, name: str, confidence: float = 0.95) -> Estimate:
    """Returns a measure minus the same of another classifier on the same images.

    The interval has percentiles of the differences in bootstrap samples, shifted so that their mean
    is the value: the samples are biased and the value is not. Debiasing is incomplete, above all
    where confidences are low; therefore the interval includes 0 if two calibrated classifiers would
    reach the biased difference by chance.

    Args:
      first: the scores that are subtracted, from the same `Draws`.
      name: the measure.
      confidence: confidence of the interval, in (0, 1).
    """
    by_chance = None
    if name in self.calibrated:
      # Outcomes of one draw would be right and wrong together, and their difference too narrow.
      by_chance = self.calibrated[name] - np.roll(first.calibrated[name], 1)
    value, drawn = self.values[name] - first.values[name], self.drawn[name] - first.drawn[name]
    biased = self._biased(name) - first._biased(name)
    return _around(value, drawn, self.n, confidence, biased, by_chance)

  def _biased(self, name: str) -> float:
    """Returns a measure, before debiasing if it is a calibration error."""
    return self.values[BIASED.get(name, name)]


def _around(
  value: float,
  drawn: np.ndarray,
  n: int,
  confidence: float,
  biased: float,
  calibrated: np.ndarray | None,
) -> Estimate:
  """Returns a difference with the percentiles of bootstrap samples around it; see `Scores.minus`.

  Args:
    value: the difference of the debiased measures.
    drawn: [B], the differences in bootstrap samples, not debiased.
    n: number of images.
    confidence: confidence of the interval, in (0, 1).
    biased: the difference of the measures before debiasing.
    calibrated: [B], the differences of simulated calibrated outcomes, not debiased; None if chance
      adds no bias. The interval includes 0 if `biased` is within their quantiles.
  """
  below, above = percentile_interval(drawn - drawn.mean(), n, confidence)
  low, high = value + float(below), value + float(above)
  if calibrated is not None:
    lower, upper = np.quantile(calibrated, [(1 - confidence) / 2, (1 + confidence) / 2])
    if lower - _ROUNDING <= biased <= upper + _ROUNDING:
      low, high = min(low, 0.0), max(high, 0.0)
  return Estimate(float(value), max(low, -1.0), min(high, 1.0), n, n, BOOTSTRAP)


class Draws(NamedTuple):
  """Random numbers for N images in B bootstrap samples, shared by all views and classifiers.

  Sharing them makes differences between classifiers paired.

  Attributes:
    counts: int32 [B, N], how often each image is in each sample.
    uniform: float32 [B, N] in [0, 1); an outcome is right if this is below the confidence.
  """

  counts: np.ndarray
  uniform: np.ndarray

  @classmethod
  def generate(cls, num_images: int, resamples: int, seed: int) -> Draws:
    """Returns the draws for N images and B samples.

    Args:
      num_images: the number N of images.
      resamples: the number B of samples.
      seed: seed of NumPy's generator.
    """
    generator = np.random.default_rng(seed)
    chances = np.full(num_images, 1 / num_images)
    counts = generator.multinomial(num_images, chances, size=resamples).astype(np.int32)
    return cls(counts, generator.random((resamples, num_images), np.float32))


def scores(predictions: Predictions, draws: Draws, bins: int = BINS) -> Scores:
  """Returns all measures of a view, with their bootstrap samples.

  Args:
    predictions: confidences and outcomes of N images.
    draws: the bootstrap samples of these images.
    bins: number of bins of confidence.
  """
  width_bins, mass_bins = predictions.equal_width(bins), predictions.equal_mass(bins)
  width, mass = predictions.binned(width_bins), predictions.binned(mass_bins)
  values = {
    **{BIASED.get(name, name): value for name, value in _with_chance(width, mass).items()},
    **_unbinned(predictions, None),
    'ece': debiased_calibration_error(width),
    'ece_equal_mass': debiased_calibration_error(mass),
    'rms_calibration_error': np.sqrt(np.maximum(squared_calibration_error(mass), 0)),
    'accuracy': predictions.correct.mean(),
    'mean_confidence': predictions.confidence.mean(),
  }
  step = max(1, _MAX_WEIGHTS_PER_BATCH // len(predictions.order))
  drawn, calibrated = [], []
  for begin in range(0, len(draws.counts), step):
    counts = draws.counts[begin : begin + step, predictions.order]
    uniform = draws.uniform[begin : begin + step, predictions.order]
    samples = predictions.binned(width_bins, counts), predictions.binned(mass_bins, counts)
    drawn.append({**_with_chance(*samples), **_unbinned(predictions, counts)})
    chance = dataclasses.replace(predictions, correct=uniform < predictions.confidence)
    calibrated.append(_with_chance(chance.binned(width_bins), chance.binned(mass_bins)))

  def joined(batches: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Returns the samples of all batches, by measure."""
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}

  floats = {name: float(value) for name, value in values.items()}
  return Scores(floats, joined(drawn), joined(calibrated), len(predictions.order))


def _with_chance(width: Bins, mass: Bins) -> dict[str, np.ndarray]:
  """Returns `OVERCONFIDENCE` and the calibration errors before debiasing, by measure, [...].

  These are the measures that `Scores.calibrated` has. `width` and `mass` are the predictions in
  bins of equal width and of equal mass.
  """
  squared = (_share(mass) * (mass.accuracy - mass.confidence) ** 2).sum(-1)
  return {
    'ece': calibration_error(width),
    'ece_equal_mass': calibration_error(mass),
    'rms_calibration_error': np.sqrt(squared),
    OVERCONFIDENCE: (_share(width) * (width.confidence - width.accuracy)).sum(-1),
  }


def _unbinned(predictions: Predictions, weights: np.ndarray | None) -> dict[str, np.ndarray]:
  """Returns Brier score, AURC and excess AURC, by measure, [...].

  Args:
    predictions: N predictions.
    weights: int [..., N], how often each counts; None counts each once.
  """
  p, y = predictions.confidence, predictions.correct
  w = np.ones(len(p), int) if weights is None else weights
  total = w.sum(-1)
  area = predictions.area_under_risk_coverage(w)
  return {
    'brier': (w @ (p - y) ** 2) / total,
    'aurc': area,
    'excess_aurc': area - least_area((w @ ~y) / total),
  }
