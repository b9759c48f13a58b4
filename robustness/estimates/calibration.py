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
_ROUNDING = 1e-12  # largest rounding error of a mean over views
_MAX_WEIGHTS_PER_BATCH = 2**22  # weights of images in the bootstrap samples of a batch


class Bins(NamedTuple):
  """Predictions in M bins of confidence.

  Attributes:
    size: number, or total weight, of the predictions in each bin, [..., M].
    confidence: mean confidence of the predictions in each bin, [..., M]; 0 in an empty bin.
    accuracy: share of right predictions in each bin, [..., M]; 0 in an empty bin.
  """

  size: np.ndarray
  confidence: np.ndarray
  accuracy: np.ndarray


@dataclasses.dataclass(frozen=True)
class Predictions:
  """N predictions in descending order of confidence: their confidences, and whether each is right.

  Attributes:
    order: int [N], the index of each prediction in the unsorted arrays that `sort` was given.
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
    if not np.all((p >= 0) & (p <= 1 + 1e-6)):  # a softmax in float32 may exceed 1 by rounding
      raise InputError('a confidence is NaN or outside [0, 1]: give probabilities, not logits.')
    order = np.argsort(-p, kind='stable')
    return cls(order, np.minimum(p[order], 1), y[order])

  def equal_width(self, bins: int) -> np.ndarray:
    """Splits the predictions into M bins of equal width; returns their bounds, int [M + 1].

    Bin i = 0, ..., M - 1 contains the sorted predictions bounds[i], ..., bounds[i + 1] - 1. The
    first bin has the confidences in (1 - 1/M, 1], and the last bin those in [0, 1/M].

    Args:
      bins: the number M of bins.
    """
    # The bin of each prediction, counted from 1 for the lowest confidences; it descends from M to
    # 1.
    bin_from_below = np.ceil(self.confidence * bins).astype(int).clip(1, bins)
    # `searchsorted` needs ascending numbers: -M, …, -1. The search for 0, above all, returns N.
    return np.searchsorted(-bin_from_below, np.arange(-bins, 1))

  def equal_mass(self, bins: int) -> np.ndarray:
    """Splits the predictions into M bins of about equal size; returns their bounds, int [M + 1].

    Bin i = 0, ..., M - 1 contains the sorted predictions bounds[i], ..., bounds[i + 1] - 1. Equal
    confidences share a bin. Some bins may therefore be empty.

    Args:
      bins: the number M of bins.
    """
    starts = (np.arange(bins + 1) * len(self.order)) // bins
    # Each start moves to the next index in `_ties`, the indices at which the confidence changes.
    next_change = np.searchsorted(self._ties, starts)
    return self._ties[next_change]

  def binned(self, starts: np.ndarray, weights: np.ndarray | None = None) -> Bins:
    """Returns the size, mean confidence and accuracy of each bin.

    Args:
      starts: bounds of the bins, [M + 1], from `equal_width` or `equal_mass`.
      weights: [..., N], the weight of each prediction, such as its count in a bootstrap sample;
        None counts each once.
    """
    w = np.ones(len(self.order)) if weights is None else weights
    size = _sums_by_bin(w, starts)
    confidence = _sums_by_bin(w * self.confidence, starts)
    correct = _sums_by_bin(w * self.correct, starts)
    divisor = np.maximum(size, 1)  # not 0 in an empty bin
    return Bins(size, confidence / divisor, correct / divisor)

  @functools.cached_property
  def _ties(self) -> np.ndarray:
    """The index at which each run of equal confidences begins, followed by N."""
    return np.flatnonzero(np.diff(self.confidence, prepend=np.inf, append=-np.inf))

  def area_under_risk_coverage(self, weights: np.ndarray | None = None) -> np.ndarray:
    """Returns the area under the risk-coverage curve (Geifman and El-Yaniv 2017), [...].

    A classifier may answer only its k most confident predictions. The area (AURC) is the mean error
    of these answers over all k: 1/N Σ_{k=1..N} (number of errors among the k most confident)/k.

    Predictions of equal confidence contribute the mean over all their orders. Let a run of m equal
    confidences contain e errors, and let K predictions with E errors precede it. It adds to the sum

      Σ_{j=1..m} (E + j e/m)/(K + j) = e + (E - K e/m)(H_{K+m} - H_K),   H_k = 1 + 1/2 + … + 1/k.

    Args:
      weights: int [..., N], how often each prediction counts; None counts each once.
    """
    w = np.ones(len(self.order), int) if weights is None else weights
    # m, e, K and E of each run of equal confidences.
    size = _sums_by_bin(w, self._ties)
    wrong = _sums_by_bin(w * ~self.correct, self._ties)
    size_before = np.cumsum(size, -1) - size
    wrong_before = np.cumsum(wrong, -1) - wrong
    # H_k minus Euler's constant, which the difference of two of these numbers does not contain.
    harmonic = special.digamma(np.arange(int(size.sum(-1).max()) + 1) + 1.0)
    error_rate = wrong / np.maximum(size, 1)
    reciprocals = harmonic[size_before + size] - harmonic[size_before]
    # What each run adds to the sum, [..., runs].
    by_run = wrong + (wrong_before - size_before * error_rate) * reciprocals
    return np.asarray(by_run.sum(-1) / size.sum(-1))

  def selective_error(self, coverages: np.ndarray) -> np.ndarray:
    """Returns the share of errors among the most confident predictions, [C].

    `self` has the predictions of one view (a way of perturbing images), sorted by descending
    confidence, and `_ties`, the R + 1 bounds of R runs of equal confidence: the indices at which
    they begin, and the number of predictions, where the last one ends. If a coverage is
    not a whole number of predictions, the last prediction counts in part. Equal confidences
    contribute the mean over all their orders.

    Args:
      coverages: [C], the shares of the predictions that are answered, in (0, 1].
    """
    wrong_in_run = _sums_by_bin((~self.correct).astype(int), self._ties)
    # the number of errors before each bound in `_ties`: 0 before the first, all before the last
    wrong_before = np.concatenate([[0], np.cumsum(wrong_in_run)])
    answered = coverages * len(self.order)
    # Within a run of equal confidences the number of errors grows linearly.
    return np.asarray(np.interp(answered, self._ties, wrong_before) / answered)


def _sums_by_bin(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
  """Returns the sum of the values in each of M bins, [..., M].

  Args:
    values: [..., N].
    starts: bounds of the bins, int [M + 1]: bin i contains starts[i] to starts[i + 1] - 1.
  """
  zero = np.zeros((*values.shape[:-1], 1), values.dtype)
  sum_before = np.concatenate([zero, np.cumsum(values, -1)], -1)
  return np.diff(sum_before[..., starts], axis=-1)


def calibration_error(bins: Bins) -> np.ndarray:
  """Returns the expected calibration error (ECE), [...], without correction of its upward bias."""
  return np.asarray((_bin_shares(bins) * np.abs(bins.accuracy - bins.confidence)).sum(-1))


def debiased_calibration_error(bins: Bins) -> np.ndarray:
  """Returns the expected calibration error (ECE) minus its expected bias, at least 0, [...].

  Let d be the gap between accuracy and confidence in a bin, and σ the standard error of the
  accuracy. A true gap d is measured as |N(d, σ²)|, so that the expected bias is E|N(d, σ²)| − d.
  The mean of this folded normal distribution is

    E|N(d, σ²)| = σ √(2/π) exp(-d²/(2 σ²)) + d erf(d/(σ √2)), which is d if σ is 0.

  Args:
    bins: predictions in M bins of confidence, with size, mean confidence and accuracy of each bin,
      [..., M].
  """
  gap = np.abs(bins.accuracy - bins.confidence)
  deviation = np.sqrt(bins.accuracy * (1 - bins.accuracy) / np.maximum(bins.size, 1))
  # d/σ, ∞ if σ is 0
  ratio = np.divide(gap, deviation, out=np.full(gap.shape, np.inf), where=deviation > 0)
  at_no_gap = deviation * np.sqrt(2 / np.pi) * np.exp(-(ratio**2) / 2)
  expected_gap = at_no_gap + gap * special.erf(ratio / np.sqrt(2))
  # The bias is expected_gap - gap; without it gap becomes 2 gap - expected_gap.
  return np.asarray(np.maximum((_bin_shares(bins) * (2 * gap - expected_gap)).sum(-1), 0))


def squared_calibration_error(bins: Bins) -> np.ndarray:
  """Returns the unbiased estimate of the mean squared calibration error, [...].

  For each bin this is (accuracy − confidence)² minus the sampling variance of the accuracy,
  averaged over predictions. The result may be negative. Bins of one prediction show no variance and
  count as 0, as in the released code of Kumar et al.
  """
  variance = bins.accuracy * (1 - bins.accuracy) / np.maximum(bins.size - 1, 1)
  squared = (bins.accuracy - bins.confidence) ** 2 - variance
  return np.asarray((_bin_shares(bins) * np.where(bins.size > 1, squared, 0)).sum(-1))


def _bin_shares(bins: Bins) -> np.ndarray:
  """Returns the share of the predictions in each bin, [..., M]."""
  return np.asarray(bins.size / bins.size.sum(-1, keepdims=True))


def least_area(error: ArrayLike) -> np.ndarray:
  """Returns the smallest possible AURC of a classifier with a given error, [...].

  It is reached if all wrong predictions are less confident than all right predictions. For the
  error r and many predictions it is r + (1 - r) ln(1 - r). The excess AURC is the AURC minus this
  area (Geifman, Uziel & El-Yaniv, Bias-reduced uncertainty estimation for deep neural classifiers,
  ICLR 2019, equation 5).

  Args:
    error: the error r, in [0, 1], [...].
  """
  risk = np.asarray(error, float)
  return np.asarray(risk + special.xlogy(1 - risk, 1 - risk))


BIASED = {name: f'{name}_biased' for name in ('ece', 'ece_equal_mass', 'rms_calibration_error')}
"""{name of a debiased calibration error: name of the same error before the bias is subtracted}."""


@dataclasses.dataclass(frozen=True)
class Scores:
  """Calibration measures of a classifier on one view, with samples for confidence intervals.

  A view is one way of showing all images, such as fog at severity 3.

  Attributes:
    values: {name: measure}. The names are `QUANTITIES`, `OVERCONFIDENCE`, 'accuracy',
      'mean_confidence' and the values of `BIASED`, such as 'ece_biased'. The latter are calibration
      errors without debiasing, as in papers; 'ece' and its like are debiased.
    drawn: {name: [B]}, measures in B bootstrap samples of the images, for `QUANTITIES` and
      `OVERCONFIDENCE`. Calibration errors are not debiased.
    calibrated: {name: [B]}, measures that a perfectly calibrated classifier has by chance, in B
      simulations (Bröcker and Smith 2007). A prediction of confidence p is simulated as right with
      probability p. The names are the keys of `BIASED`, not debiased, and `OVERCONFIDENCE`.
    n: number of images.
  """

  values: Mapping[str, float]
  drawn: Mapping[str, np.ndarray]
  calibrated: Mapping[str, np.ndarray]
  n: int

  @classmethod
  def mean(cls, views: Sequence[Scores]) -> Scores:
    """Returns the scores of a group of views of the same images, as means over the views.

    `Scores` has the value of each score, such as a calibration error, in the data, in bootstrap
    samples and in simulations of a calibrated classifier. Sample b of the result is the mean over
    sample b of all views (ways of perturbing images), and so is each simulation.
    """

    def mean_of(attribute: str) -> dict[str, Any]:
      """Returns {name: mean over the views} for an attribute of `Scores`, such as 'values'."""
      by_view = [vars(view)[attribute] for view in views]
      return {name: np.mean([view[name] for view in by_view], axis=0) for name in by_view[0]}

    return cls(mean_of('values'), mean_of('drawn'), mean_of('calibrated'), views[0].n)

  def estimate(self, name: str, confidence: float = 0.95) -> Estimate:
    """Returns a measure with its confidence interval.

    Brier scores and areas have percentile intervals of the bootstrap. For overconfidence see
    `_difference_estimate`.

    A calibration error e without debiasing exceeds the true error on average. The bootstrap samples
    exceed e by about the same bias. Let h be their high percentile and m their mean.

    * The low end is e - (h - e), which subtracts the bias and a random error.
    * The high end is e + (h - m), which adds the random error alone. The bias of e is kept, because
      most of a large error is real.
    * The low end is 0 if a calibrated classifier would reach the error e by chance.

    Intervals are cut to [0, 1], or [-1, 1] for overconfidence. docs/calibration.md has their
    coverage in simulations.

    Args:
      name: the measure, one of `QUANTITIES` or `OVERCONFIDENCE`.
      confidence: confidence level of the interval, in (0, 1).
    """
    value, biased, drawn = self.values[name], self._biased(name), self.drawn[name]
    calibrated = self.calibrated.get(name)
    if name == OVERCONFIDENCE:
      return _difference_estimate(value, drawn, self.n, confidence, biased, calibrated)
    low, high = map(float, percentile_interval(drawn, self.n, confidence))
    if calibrated is not None:
      low = 2 * biased - high  # e − (h − e), with the high percentile h
      high = biased + high - float(drawn.mean())  # e + (h − m)
      if biased <= np.quantile(calibrated, (1 + confidence) / 2):
        low = min(low, 0.0)
    # The interval contains the value and is cut to [0, 1]. An end that is NaN stays NaN, because
    # Python's min and max then return their first argument.
    low = max(min(low, value), 0.0)
    high = min(max(high, value), 1.0)
    return Estimate(float(value), low, high, self.n, self.n, BOOTSTRAP)

  def minus(self, other: Scores, name: str, confidence: float = 0.95) -> Estimate:
    """Returns the difference of a measure between two classifiers, with its confidence interval.

    The interval has percentiles of the differences in bootstrap samples as ends, shifted so that
    their mean is the debiased difference. It is extended to include 0 if chance alone explains the
    difference. This is so if the difference without debiasing is in the range of differences
    between two perfectly calibrated classifiers in simulations.

    Args:
      other: the scores to subtract, on the same images and with the same `Draws`.
      name: the measure, one of `QUANTITIES` or `OVERCONFIDENCE`.
      confidence: confidence level of the interval, in (0, 1).
    """
    by_chance = None
    if name in self.calibrated:
      # Simulation i of both classifiers uses the same random numbers, so that their outcomes are
      # similar and the difference varies too little. Simulation i of `self` is therefore paired
      # with simulation i - 1 of `other`.
      by_chance = self.calibrated[name] - np.roll(other.calibrated[name], 1)
    value, drawn = self.values[name] - other.values[name], self.drawn[name] - other.drawn[name]
    biased = self._biased(name) - other._biased(name)
    return _difference_estimate(value, drawn, self.n, confidence, biased, by_chance)

  def _biased(self, name: str) -> float:
    """Returns a measure without debiasing; only calibration errors are debiased at all."""
    return self.values[BIASED.get(name, name)]


def _difference_estimate(
  value: float,
  drawn: np.ndarray,
  n: int,
  confidence: float,
  biased: float,
  calibrated: np.ndarray | None,
) -> Estimate:
  """Returns a difference with an interval from the percentiles of its bootstrap samples.

  The difference is between two classifiers, or between confidence and accuracy. The percentiles are
  shifted so that the mean of the samples equals `value`. The interval is cut to [-1, 1]. It
  includes 0 if `biased` is between the quantiles (1 ± `confidence`)/2 of `calibrated`.

  Args:
    value: the difference of the debiased measures.
    drawn: [B], the differences in bootstrap samples, not debiased.
    n: number of images.
    confidence: confidence level of the interval, in (0, 1).
    biased: the difference of the measures without debiasing.
    calibrated: [B], the differences in simulations of calibrated classifiers, not debiased; None if
      the measure has no bias.
  """
  below, above = percentile_interval(drawn - drawn.mean(), n, confidence)
  low, high = value + float(below), value + float(above)
  if calibrated is not None:
    lower, upper = np.quantile(calibrated, [(1 - confidence) / 2, (1 + confidence) / 2])
    if lower - _ROUNDING <= biased <= upper + _ROUNDING:
      low, high = min(low, 0.0), max(high, 0.0)
  return Estimate(float(value), max(low, -1.0), min(high, 1.0), n, n, BOOTSTRAP)


class Draws(NamedTuple):
  """Random numbers of B bootstrap samples and B simulations of N images.

  All views and classifiers are resampled with the same numbers. Their differences are therefore
  paired.

  Attributes:
    counts: int32 [B, N], how often each image is in each bootstrap sample.
    uniform: float32 [B, N], in [0, 1). In a simulation of a calibrated classifier, a prediction is
      right if this number is below its confidence.
  """

  counts: np.ndarray
  uniform: np.ndarray

  @classmethod
  def generate(cls, num_images: int, resamples: int, seed: int) -> Draws:
    """Draws the random numbers of bootstrap samples and simulations from a seed.

    They are how often each sample has each image, [B, N], and uniform numbers in [0, 1), [B, N].

    Args:
      num_images: the number N of images.
      resamples: the number B of bootstrap samples, and of simulations.
      seed: seed of NumPy's generator.
    """
    generator = np.random.default_rng(seed)
    probabilities = np.full(num_images, 1 / num_images)
    counts = generator.multinomial(num_images, probabilities, size=resamples).astype(np.int32)
    return cls(counts, generator.random((resamples, num_images), np.float32))


def scores(predictions: Predictions, draws: Draws, bins: int = BINS) -> Scores:
  """Returns all calibration measures of a classifier on one view, such as fog at severity 3.

  Args:
    predictions: confidences of N images, and whether each prediction is right.
    draws: random numbers of the bootstrap samples and simulations, for the same images.
    bins: number of bins of confidence.
  """
  starts = predictions.equal_width(bins), predictions.equal_mass(bins)  # bounds of the bins
  measured = _biased_measures(predictions, starts)
  # Errors before debiasing are called 'ece_biased' etc.; the overconfidence keeps its name.
  values = {BIASED.get(name, name): value for name, value in measured.items()}
  values |= _unbinned(predictions)
  width, mass = map(predictions.binned, starts)
  values |= {
    'ece': debiased_calibration_error(width),
    'ece_equal_mass': debiased_calibration_error(mass),
    'rms_calibration_error': np.sqrt(np.maximum(squared_calibration_error(mass), 0)),
    'accuracy': predictions.correct.mean(),
    'mean_confidence': predictions.confidence.mean(),
  }
  batch_size = max(1, _MAX_WEIGHTS_PER_BATCH // len(predictions.order))
  drawn, calibrated = [], []  # measures of bootstrap samples, and of calibrated simulations
  for begin in range(0, len(draws.counts), batch_size):
    batch = slice(begin, begin + batch_size)
    # [samples in the batch, N], in the order of the predictions.
    counts = draws.counts[batch, predictions.order]
    uniform = draws.uniform[batch, predictions.order]
    resampled = _biased_measures(predictions, starts, counts)
    drawn.append({**resampled, **_unbinned(predictions, counts)})
    simulated = dataclasses.replace(predictions, correct=uniform < predictions.confidence)
    calibrated.append(_biased_measures(simulated, starts))
  floats = {name: float(value) for name, value in values.items()}
  return Scores(floats, _joined(drawn), _joined(calibrated), len(predictions.order))


def _joined(batches: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
  """Concatenates the measures in batches of samples: {name: values in all samples}."""
  return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def _biased_measures(
  predictions: Predictions, starts: tuple[np.ndarray, np.ndarray], weights: np.ndarray | None = None
) -> dict[str, np.ndarray]:
  """Returns the calibration errors without debiasing, and the overconfidence, as {name: [...]}.

  The names are the keys of `BIASED`, and `OVERCONFIDENCE`.

  Args:
    predictions: N predictions.
    starts: bounds of the bins of equal width, and of the bins of equal mass.
    weights: int [..., N], how often each prediction counts; None counts each once.
  """
  width, mass = (predictions.binned(bounds, weights) for bounds in starts)
  squared = (_bin_shares(mass) * (mass.accuracy - mass.confidence) ** 2).sum(-1)
  return {
    'ece': calibration_error(width),
    'ece_equal_mass': calibration_error(mass),
    'rms_calibration_error': np.sqrt(squared),
    OVERCONFIDENCE: (_bin_shares(width) * (width.confidence - width.accuracy)).sum(-1),
  }


def _unbinned(predictions: Predictions, weights: np.ndarray | None = None) -> dict[str, np.ndarray]:
  """Returns the measures that need no bins, as {name: [...]}.

  They are 'brier', the mean of (confidence − outcome)²; 'aurc', the area under the risk-coverage
  curve; and 'excess_aurc', the excess over the smallest possible area.

  Args:
    predictions: N predictions.
    weights: int [..., N], how often each prediction counts; None counts each once.
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
