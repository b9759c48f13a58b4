"""Systematic robustness ρ: how far robustness learned on some classes carries over to the others.

An environment is a way in which images change, such as blur. Training shows an environment on the
classes C_k only. The classifier's accuracy in that environment is s (seen) on C_k and u (unseen) on
all other classes; b is the accuracy of a baseline classifier in it, on all classes. ρ is about (u −
b)/(s − b), see `rho`. docs/systematic.md says how to read ρ and when it misleads.

The accuracies are means over strata (classes) of the same images, in several environments and of
two classifiers. With few images per class, a bootstrap within classes has too little spread: none
if a class has a single image or only right answers, and (n − 1)/n of the variance for n images. The
intervals here therefore use Beta distributions at an effective number of trials.

Reference:
  Omran & Schiele (2022), Towards Systematic Robustness for Scalable Visual Recognition, equation 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from robustness.core.errors import InputError
from robustness.core.settings import choice
from robustness.estimates.comparison import paired_difference
from robustness.estimates.intervals import effective_trials, proportion_interval, t_value
from robustness.estimates.means import Estimate, known_mean

STRATIFIED, PAIRED = 'korn-graubard, stratified', 'paired bonett-price, stratified'
"""Methods of the intervals of accuracies and of their paired differences."""
JOINT = {'class': 'joint draws within classes', 'image': 'joint draws over images'}
"""The method of an interval of ρ, by what has equal weights: classes or images."""
_ROUNDING = 1e-12
"""Differences of accuracies below this are due to floating-point rounding."""


@dataclasses.dataclass(frozen=True)
class StratifiedMeans:
  """Q weighted means over the same N images, which are samples within strata such as classes.

  The value of an image is the share of its views that are classified right, in [0, 1].

  Attributes:
    value: [Q], the means, in [0, 1]; NaN if no image counts.
    weight: [N, Q], the weights of the images, with the sum 1 in each mean; 0 if an image does not
      count.
    deviation: [N, Q], the contribution of each image to the error of each mean. The sum of squares
      is the variance of the mean, Σ_c s_c²/(n_c K²) for K strata of equal weight, where the n_c
      images of stratum c have the standard deviation s_c. A stratum of one image has no standard
      deviation; its image contributes the distance from the mean of all images.
    within: [Q], the variance p (1 − p) of a single view, where p is the accuracy in its stratum,
      averaged over the images.
    views: [Q], the number of independent views of equal weight that would vary as much.
    freedom: [Q], the degrees of freedom of the variance, at least 1.
  """

  value: np.ndarray
  weight: np.ndarray
  deviation: np.ndarray
  within: np.ndarray
  views: np.ndarray
  freedom: np.ndarray

  @classmethod
  def from_shares(
    cls, weight: np.ndarray, share: np.ndarray, stratum: np.ndarray, trials: ArrayLike
  ) -> StratifiedMeans:
    """Returns the means of shares.

    Args:
      weight: [N, Q], relative weights, at least 0; 0 leaves an image out.
      share: [N, Q], the share of an image's views that are right, in [0, 1].
      stratum: int [N], the stratum of each image.
      trials: [Q], the number of views that a share is taken over.
    """
    is_counted = weight > 0
    has_images = weight.any(0)
    weight = weight / np.where(has_images, weight.sum(0), 1)
    value = np.where(has_images, (weight * share).sum(0), np.nan)
    value = np.where(np.abs(value - np.round(value)) < _ROUNDING, np.round(value), value)
    count = np.zeros((int(stratum.max(initial=0)) + 1, weight.shape[1]))  # [strata, Q]
    total = np.zeros_like(count)
    np.add.at(count, stratum, is_counted)
    np.add.at(total, stratum, np.where(is_counted, share, 0))
    stratum_mean = (total / np.maximum(count, 1))[stratum]
    mean = np.where((count == 1)[stratum], value, stratum_mean)
    bessel = np.sqrt(count / np.maximum(count - 1, 1))[stratum]
    deviation = weight * (share - mean) * bessel
    deviation[:, ~(np.abs(deviation).max(0, initial=0) > _ROUNDING)] = 0
    num_strata = np.maximum((count > 1).sum(0), 1)
    return cls(
      value=value,
      weight=np.asfortranarray(weight),
      deviation=np.asfortranarray(deviation),
      within=(weight * np.maximum(mean * (1 - mean), 0)).sum(0),
      views=np.asarray(trials) / np.where(has_images, (weight**2).sum(0), 1),
      freedom=np.maximum(is_counted.sum(0) - num_strata, 1),
    )

  def averaged(self) -> StratifiedMeans:
    """Returns the average of the Q means, as the only mean of the result."""
    weight = self.weight.mean(1, keepdims=True)
    num_images = (weight > 0).sum()
    return StratifiedMeans(
      value=self.value.mean(keepdims=True),
      weight=weight,
      deviation=self.deviation.mean(1, keepdims=True),
      within=self.within.mean(keepdims=True),
      views=np.array([len(self.value) ** 2 / (1 / self.views).sum()]),
      freedom=np.array([min(self.freedom.sum(), max(num_images - 1, 1))]),
    )

  def effective_trials(self, confidence: float, joint: bool = False) -> np.ndarray:
    """Returns Korn and Graubard's effective number of independent trials, [Q].

    It is the number of coin flips that would vary as much as the mean. It is at least the number of
    images, and equal to it if no stratum has a spread.

    Args:
      confidence: confidence of the interval, in (0, 1), at which small samples are corrected for.
      joint: whether the number is for `drawn`. It may then exceed the number of views, because
        strata that differ in accuracy vary less than flips at their mean accuracy. The variance is
        averaged with the variance of independent views, which counts as two degrees of
        freedom, because few images may show a small variance by chance.
    """
    images = 1 / np.maximum((self.weight**2).sum(0), _ROUNDING).clip(max=1)
    variance_of_trial = self.value * (1 - self.value)
    variance = (self.deviation**2).sum(0)
    has_spread = (variance > 0) & (variance_of_trial > 0)
    min_variance = variance_of_trial / self.views
    if joint:
      min_variance = (self.freedom * variance + 2 * self.within / self.views) / (self.freedom + 2)
    trials = np.divide(
      variance_of_trial, np.maximum(variance, min_variance), out=images.copy(), where=has_spread
    )
    factor = t_value(np.ceil(self.views), confidence) / t_value(self.freedom + 1, confidence)
    return np.asarray(np.maximum(trials * np.where(has_spread, factor, 1) ** 2, images))

  def estimate(self, confidence: float) -> Estimate:
    """Returns the average of the Q means with Korn and Graubard's interval.

    `n` is the number of images that count in at least one mean. Without any the ends are NaN.
    """
    averaged, n = self.averaged(), int(self.weight.any(1).sum())
    (value,) = averaged.value
    if np.isnan(value):
      return Estimate(np.nan, np.nan, np.nan, n, n, STRATIFIED)
    (trials,) = averaged.effective_trials(confidence)
    low, high = proportion_interval(value * trials, trials, confidence)
    return Estimate(float(value), float(low), float(high), n, n, STRATIFIED)

  def drawn(
    self, scores: np.ndarray, kind: np.ndarray, confidence: float
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns joint draws of the means in other samples of images, for both ends of an interval.

    The result is two arrays [samples, Q]: the lower end of an interval is a quantile of the first,
    and the upper end one of the second. With n from `effective_trials`, a mean p is drawn from
    Beta(p n + ½, (1 − p) n + ½), correlated with the other means as the images make them. If p is
    0, it is 0 in the first array and drawn from Beta(1, n) in the second; if p is 1, it is drawn
    from Beta(n, 1) in the first array and 1 in the second. The quantiles are then Clopper and
    Pearson's ends. Means of one kind are averaged later. For these the added ½ is smaller the less
    the means vary together, because the halves would not average out.

    Args:
      scores: standard normal numbers, [samples, Q].
      kind: int [Q], the kind of each mean, such as `S` or `U`.
      confidence: confidence of the interval, in (0, 1).

    Reference:
      Brown, Cai & DasGupta, Interval estimation for a binomial proportion, Statistical Science 16
      (2001), for the Beta distributions; Korn & Graubard (1998), see `intervals.korn_graubard`.
    """
    p = self.value
    n = self.effective_trials(confidence, joint=True)
    deviation = np.where((self.deviation**2).sum(0) > 0, self.deviation, self.weight)
    deviation = deviation / np.maximum(np.sqrt((deviation**2).sum(0)), _ROUNDING)
    correlation = deviation.T @ deviation
    is_same_kind = kind[:, None] == kind
    half = 0.5 * (np.maximum(correlation, 0) * is_same_kind).sum(0) / is_same_kind.sum(0)
    eigenvalues, eigenvectors = np.linalg.eigh(correlation)
    root = eigenvectors * np.sqrt(np.maximum(eigenvalues, 0))
    uniform = special.ndtr(scores @ root.T)  # correlated as the means are
    all_wrong, all_right = p <= 0, p >= 1
    alpha = np.where(all_wrong, 2 * half, p * n + np.where(all_right, 0, half))
    beta = np.where(all_right, 2 * half, (1 - p) * n + np.where(all_wrong, 0, half))
    drawn = special.betaincinv(alpha, beta, uniform)
    return np.where(all_wrong, 0, drawn), np.where(all_right, 1, drawn)


def difference(gained: StratifiedMeans, lost: StratifiedMeans, confidence: float) -> Estimate:
  """Returns the average of Q paired differences of shares, x − y, of each image.

  The interval is Bonett and Price's for the number of independent images that would have the
  variance of the paired differences within strata (`intervals.effective_trials`).

  Args:
    gained: means of max(0, x − y).
    lost: means of max(0, y − x).
    confidence: confidence of the interval, in (0, 1).
  """
  mean_gained, mean_lost = gained.averaged(), lost.averaged()
  n = int(gained.weight.any(1).sum())
  b, c = float(mean_gained.value[0]), float(mean_lost.value[0])
  if np.isnan(b):
    return Estimate(np.nan, np.nan, np.nan, n, n, PAIRED)
  variance = float(((mean_gained.deviation - mean_lost.deviation) ** 2).sum())
  images = float(mean_gained.freedom[0]) + 1
  views = max(images, float(mean_gained.views[0]))
  size = effective_trials(b + c - (b - c) ** 2, variance, images, views, confidence)
  value, low, high = paired_difference(b * size, c * size, size, confidence)
  return Estimate(float(value), float(low), float(high), n, n, PAIRED)


FORMULAS = ('clipped', 'printed')
"""The formulas of ρ, see `rho`."""
BALANCES = ('class', 'image')
"""What has equal weights in an accuracy: each class or each image."""
DEGENERATES = ('left_out', 'one')
"""How a mean of ρ treats terms that are 1 by definition: it leaves them out, or counts them as 1,
as the paper does.
"""
DEGENERATE, UNDEFINED = 'degenerate', 'undefined'
"""The cases in which ρ is no measurement, see `rho`."""
SAYS_LITTLE = 'says little'
"""The beginning of the note of a ρ that reports do not state first."""
ALL, SEEN, UNSEEN = 'all', 'seen', 'unseen'
"""The classes that an accuracy is over: all classes, those that training showed in the environment,
and the other classes.
"""
S, U, B_SEEN, B_UNSEEN, B = range(5)
"""Kinds of accuracies that ρ is computed from: s, u, and the baseline's accuracy on seen, unseen
and all classes.
"""


def rho(
  seen: ArrayLike,
  unseen: ArrayLike,
  baseline: ArrayLike = 0.0,
  formula: str = 'clipped',
  baseline_unseen: ArrayLike | None = None,
) -> np.ndarray:
  """Returns ρ for accuracies s, u and b, as fractions in arrays that broadcast.

  With d = s − b and n = max(0, u − b), the formula 'clipped' is

    ρ = min(1, n/d) if d > 0;  1 if d ≤ 0 < n (degenerate);  NaN if d ≤ 0 = n (undefined) or an
    accuracy is NaN.

  The formula as 'printed', min(1, n / min(1, d)), is negative for d < 0 and divides by zero at d =
  0 (1 for n > 0, NaN for n = 0). 'clipped' follows the text of the paper, which states that ρ is
  trivially 1 if the classifier is not much more robust than the baseline.

  Args:
    seen: s, accuracy on the classes that training showed in the environment, in [0, 1].
    unseen: u, accuracy on all other classes, in [0, 1].
    baseline: b, accuracy of the baseline, in [0, 1].
    formula: 'clipped' or 'printed'.
    baseline_unseen: the accuracy that is subtracted from u; None takes b.
  """
  choice('formula', formula, FORMULAS)
  gain, transferred = _gains(seen, unseen, baseline, baseline_unseen)
  with np.errstate(divide='ignore', invalid='ignore'):
    ratio = transferred / np.minimum(1, gain)
  if formula == 'clipped':
    ratio = np.where(gain <= 0, np.where(transferred > 0, 1.0, np.nan), ratio)
  clipped: np.ndarray = np.minimum(1, ratio)[()]
  return clipped


def rho_case(
  seen: float, unseen: float, baseline: float = 0.0, baseline_unseen: float | None = None
) -> str:
  """Returns 'degenerate' or 'undefined' if `rho` is so for the same arguments, else ''."""
  gain, transferred = _gains(seen, unseen, baseline, baseline_unseen)
  if gain > 0:
    return ''
  return DEGENERATE if gain <= 0 < transferred else UNDEFINED


def _gains(
  seen: ArrayLike, unseen: ArrayLike, baseline: ArrayLike, baseline_unseen: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray]:
  """Returns d = s − b and n = max(0, u − b) of `rho`, with rounding errors set to 0."""
  if baseline_unseen is None:
    baseline_unseen = baseline
  s, u, b, b_unseen = (np.asarray(x, float) for x in (seen, unseen, baseline, baseline_unseen))
  for accuracy in (s, u, b, b_unseen):
    if ((accuracy < 0) | (accuracy > 1)).any():
      raise InputError('ρ is of accuracies in [0, 1]: divide percentages by 100.')
  gain, transferred = s - b, u - b_unseen
  gain = np.where(np.abs(gain) < _ROUNDING, 0, gain)
  return gain, np.where(transferred < _ROUNDING, 0, transferred)


@dataclasses.dataclass(frozen=True)
class EnvironmentShares:
  """The right answers of one classifier in every environment, with the classes it was trained on
  there.

  Attributes:
    share: [N, E], the fraction of an image's views (severities, angles) that are right in each of E
      environments; NaN if an image is not shown in one.
    label: int [N], the class of each image.
    group: int [N], the class group k of each image, with the classes C_k; 0 for a class in no
      group.
    trained: [E], the class group that training showed in each environment; 0 for none, as for clean
      images.
    trials: [E], the number of views of an image in each environment.
    balance: 'class' weighs all classes equally, 'image' all images.
    confidence: confidence of intervals, in (0, 1).
  """

  share: np.ndarray
  label: np.ndarray
  group: np.ndarray
  trained: Sequence[int]
  trials: Sequence[int]
  balance: str = 'class'
  confidence: float = 0.95

  def __post_init__(self) -> None:
    """Raises InputError if `balance` is not valid."""
    choice('balance', self.balance, BALANCES)

  def select(self, images: np.ndarray) -> EnvironmentShares:
    """Returns the answers for the images at which `images`, bool [N], is true."""
    columns = {name: getattr(self, name)[images] for name in ('share', 'label', 'group')}
    return dataclasses.replace(self, **columns)

  def accuracy(self, environments: Sequence[int], classes: str = ALL) -> Estimate:
    """Returns the accuracy averaged over environments, on the classes `ALL`, `SEEN` or `UNSEEN`."""
    terms = [(e, classes) for e in environments]
    return self._means(terms, self.share[:, environments]).estimate(self.confidence)

  def gain(self, baseline: EnvironmentShares, environments: Sequence[int]) -> Estimate:
    """Returns the accuracy on unseen classes minus the accuracy of `baseline`, averaged over
    environments.
    """
    terms = [(e, UNSEEN) for e in environments]
    change = self.share[:, environments] - baseline.share[:, environments]
    gained = self._means(terms, np.maximum(change, 0))
    lost = self._means(terms, np.maximum(-change, 0))
    return difference(gained, lost, self.confidence)

  def rho(
    self,
    environments: Sequence[int],
    baseline: EnvironmentShares | None = None,
    formula: str = 'clipped',
    by_cell: bool = False,
    degenerate: str = 'left_out',
    samples: int = 2000,
    seed: int = 0,
  ) -> Estimate:
    """Returns ρ averaged over environments, with quantiles of joint draws as interval.

    The accuracies that ρ is computed from are drawn together, see `StratifiedMeans.drawn`: images
    are samples within their class if classes are balanced, and the predictions of the baseline are
    paired with the classifier's. Environments and draws in which ρ is undefined are left out of the
    mean. A note states how many environments are in the mean, and that ρ says little if more than
    half of them are undefined or degenerate.

    Args:
      environments: columns of `share`, each with a class group that training showed in it.
      baseline: answers of the baseline classifier for the same images; None for b = 0.
      formula: 'clipped' or 'printed', see `rho`.
      by_cell: whether b is the baseline's accuracy on the seen classes for s, and on the unseen
        classes for u. Classes that are easier then do not count as robustness.
      degenerate: 'left_out' leaves degenerate environments out of the mean of several; 'one' counts
        them as 1, as the paper does.
      samples: number of draws.
      seed: seed of the draws.
    """
    choice('degenerate', degenerate, DEGENERATES)
    accuracies = self._accuracies_for_rho(environments, baseline)
    num_kinds = len(accuracies.value) // len(environments)

    def arguments_of_rho(means: np.ndarray) -> np.ndarray:
      """Returns the accuracies s and u and the baseline accuracies that are subtracted from s and
      from u, [4, ..., E], given the means [..., E · num_kinds] of E environments.
      """
      by_kind = np.moveaxis(means.reshape(*means.shape[:-1], -1, num_kinds), -1, 0)
      if baseline is None:
        subtracted = 0 * by_kind
      else:
        subtracted = by_kind[[B_SEEN, B_UNSEEN] if by_cell else [B, B]]
      return np.stack([by_kind[S], by_kind[U], *subtracted])

    def mean_rho(means: np.ndarray) -> np.ndarray:
      """Returns ρ averaged over the environments, [...], from means [..., E · num_kinds]."""
      s, u, b, b_unseen = arguments_of_rho(means)
      return known_mean(rho(s, u, b, formula, b_unseen))

    cases = [rho_case(*arguments) for arguments in arguments_of_rho(accuracies.value).T]
    can_leave_out = degenerate == 'left_out' and formula == 'clipped' and len(cases) > 1
    notes = _notes_on_cases(cases, can_leave_out)
    leaves_out = can_leave_out and DEGENERATE in cases
    useful = [e for e, case in zip(environments, cases, strict=True) if not case]
    if leaves_out and useful:
      selected = self.rho(useful, baseline, formula, by_cell, degenerate, samples, seed)
      return dataclasses.replace(selected, note='; '.join(filter(None, (*notes, selected.note))))
    value = np.nan if leaves_out else float(mean_rho(accuracies.value))
    n, method = int(accuracies.weight.any(1).sum()), JOINT[self.balance]
    if np.isnan(value):
      return Estimate(value, np.nan, np.nan, n, n, method, note='; '.join(notes))
    kind = np.tile(np.arange(num_kinds), len(environments))
    scores = np.random.default_rng(seed).standard_normal((samples, len(kind)))
    for_lower_end, for_upper_end = accuracies.drawn(scores, kind, self.confidence)
    # ρ is low where s is high, u low, and what is subtracted low from s and high from u.
    is_low = ~np.isin(kind, [U, B_SEEN])
    tail = (1 - self.confidence) / 2
    ends = []
    for is_upper, quantile in ((is_low, tail), (~is_low, 1 - tail)):
      drawn = mean_rho(np.where(is_upper, for_upper_end, for_lower_end))
      defined = drawn[~np.isnan(drawn)]
      ends.append(float(np.quantile(defined, quantile)) if len(defined) else value)
    if len(defined) < len(drawn):
      notes.append(f'undefined in {len(drawn) - len(defined)} of {len(drawn)} draws')
    low, high = min(ends[0], value), max(ends[1], value)
    return Estimate(value, low, high, n, n, method, note='; '.join(notes))

  def _accuracies_for_rho(
    self, environments: Sequence[int], baseline: EnvironmentShares | None
  ) -> StratifiedMeans:
    """Returns the means that ρ is computed from: for each environment the accuracy on seen and on
    unseen classes and, if there is a baseline, the baseline's on seen, unseen and all classes.
    """
    kinds = [(self, SEEN), (self, UNSEEN)]
    if baseline is not None:
      kinds += [(baseline, SEEN), (baseline, UNSEEN), (baseline, ALL)]
    terms = [(e, classes) for e in environments for _, classes in kinds]
    shares = [measured.share[:, e] for e in environments for measured, _ in kinds]
    return self._means(terms, np.stack(shares, 1))

  def _means(self, terms: Sequence[tuple[int, str]], shares: np.ndarray) -> StratifiedMeans:
    """Returns means of shares [N, Q], without the images with share NaN.

    `terms` has the environment and the classes (`ALL`, `SEEN` or `UNSEEN`) of each of the Q means.
    Classes are strata if they have equal weights; otherwise all images are one stratum.
    """
    label = self.label if self.balance == 'class' else np.zeros(len(self.label), int)
    _, stratum = np.unique(label, return_inverse=True)
    weights = np.stack([self._weight(e, classes) for e, classes in terms], 1)
    trials = [self.trials[e] for e, _ in terms]
    return StratifiedMeans.from_shares(weights, np.nan_to_num(shares), stratum, trials)

  def _weight(self, environment: int, classes: str) -> np.ndarray:
    """Returns each image's weight in the accuracy in one environment on `classes`, [N].

    `classes` is `ALL`, `SEEN` or `UNSEEN`; images of other classes have the weight 0.
    """
    is_counted = ~np.isnan(self.share[:, environment])
    if classes != ALL:
      is_seen = self.group == self.trained[environment]
      is_counted &= is_seen if classes == SEEN else ~is_seen
    if self.balance == 'image':
      return np.asarray(is_counted.astype(float))
    counts = np.bincount(self.label[is_counted], minlength=int(self.label.max(initial=0)) + 1)
    return np.asarray(is_counted / np.maximum(counts[self.label], 1))


def _notes_on_cases(cases: Sequence[str], can_leave_out: bool) -> list[str]:
  """Returns notes on the environments in which ρ is degenerate or undefined.

  Args:
    cases: the case of each environment, see `rho_case`.
    can_leave_out: whether the mean leaves out degenerate environments.
  """
  num_terms, num_useful = len(cases), cases.count('')
  notes = [
    f'{case} in {cases.count(case)} of {num_terms} environments' if num_terms > 1 else case
    for case in (DEGENERATE, UNDEFINED)
    if case in cases
  ]
  if num_terms > 1 and 2 * num_useful < num_terms:
    notes[0] = f'{SAYS_LITTLE}: {notes[0]}'
  num_averaged = num_useful if can_leave_out else num_terms - cases.count(UNDEFINED)
  if 0 < num_averaged < num_terms:
    notes.append(f'mean over {num_averaged} of them')
  return notes
