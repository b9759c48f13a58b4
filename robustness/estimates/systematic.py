"""Systematic robustness ρ: how far robustness learned on some classes carries over to the others.

A classifier sees an environment, such as blurred images, on the classes C_k alone. Its accuracy in
that environment on C_k is s (seen), on all other classes u (unseen); a baseline classifier's, on
all classes, is b. docs/systematic.md says how to read ρ and when it misleads.

These accuracies are means over strata (classes) of the same images, in several environments and of
two classifiers. With few images a class, a bootstrap within classes has too little spread: none for
one image or where all are right, and (n − 1)/n of the variance for n images.

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
JOINT = {'class': 'joint draws within classes', 'image': 'joint draws over images'}
"""The method of an interval of ρ, by what balances."""
_ROUNDING = 1e-12
"""Differences of accuracies below this are due to floating-point rounding."""


@dataclasses.dataclass(frozen=True)
class StratifiedMeans:
  """Q weighted means over the same N images, which are samples within strata.

  What is averaged is the share of an image's views that are right, in [0, 1].

  Attributes:
    value: [Q] the means, in [0, 1]; NaN where no image counts.
    weight: [N, Q] weights of the images with the sum 1 in each mean; 0 where an image does not
      count.
    deviation: [N, Q] the contribution of an image to the error of each mean. The sum of squares is
      the variance of the mean, Σ_c s_c²/(n_c K²) for K strata of equal weight, where the n_c images
      of stratum c have the standard deviation s_c. A stratum of one image has no spread and takes
      the distance from the mean of all images.
    within: [Q] the variance p (1 − p) of a single view in its stratum, averaged.
    views: [Q] the number of independent views of equal weight that would vary as much.
    freedom: [Q] degrees of freedom of the variance, at least 1.
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
      weight: [N, Q], at least 0; 0 leaves an image out.
      share: [N, Q], in [0, 1].
      stratum: int [N], the number of each image's stratum.
      trials: [Q], the number of views that a share was taken over.
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
    """Returns the one mean of all Q means."""
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

    It is at least the number of images, and equal to it where no stratum has a spread. With `joint`
    it may exceed the number of views, because strata and views that differ in accuracy vary less
    than trials at their mean accuracy. The variance is then averaged with the variance of
    independent views, which weighs two degrees of freedom, because few images may show a small
    variance by chance.
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
    """Returns the mean of all Q means with Korn and Graubard's interval; n images count."""
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
    """Returns joint draws of the means for other images, [samples, Q], for the lower end of an
    interval and for the upper one.

    With n from `effective_trials`, a mean p is drawn from Beta(p n + ½, (1 − p) n + ½). Where p is
    0 it is drawn from Beta(1, n) for the upper end, and is 0 for the lower; where p is 1 it is 1
    for the upper end, and drawn from Beta(n, 1) for the lower: the quantiles are then Clopper and
    Pearson's ends. Means of one kind are averaged later. For these the added ½ is smaller the less
    the means vary together, because the halves would not average out.

    Args:
      scores: standard normal numbers, [samples, Q].
      kind: int [Q], the kind of each mean.
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
  """Returns the mean of Q paired differences of shares, gained minus lost.

  The interval is Bonett and Price's at the number of independent images that has the variance of
  the paired differences within strata (`intervals.effective_trials`).
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
BALANCES = ('class', 'image')
DEGENERATES = ('left_out', 'one')
"""How a mean of ρ treats terms that are 1 by definition; 'one' is the paper's mean."""
DEGENERATE, UNDEFINED = 'degenerate', 'undefined'
SAYS_LITTLE = 'says little'
"""The beginning of the note of a ρ that heads no findings."""
ALL, SEEN, UNSEEN = 'all', 'seen', 'unseen'
"""Classes of the images that an accuracy is over: all, those that the training showed in the
environment, and the other ones."""
S, U, B_SEEN, B_UNSEEN, B = range(5)
"""Kinds of accuracies that ρ is drawn from: s, u, and the baseline's b on seen, unseen and all
classes."""


def rho(
  seen: ArrayLike,
  unseen: ArrayLike,
  baseline: ArrayLike = 0.0,
  formula: str = 'clipped',
  baseline_unseen: ArrayLike | None = None,
) -> np.ndarray:
  """Returns ρ of accuracies s, u and b, fractions of any shape.

  With d = s − b and n = max(0, u − b), 'clipped' is

    ρ = min(1, n/d) where d > 0;  1 where d ≤ 0 < n (degenerate);  NaN where d ≤ 0 = n (undefined)
    or an accuracy is NaN.

  The formula as 'printed', min(1, n / min(1, d)), is negative for d < 0 and divides by zero at d =
  0 (1 for n > 0, NaN for n = 0). 'clipped' follows the text of the paper, which states that ρ is
  trivially 1 if the classifier is not much more robust than the baseline. `baseline_unseen` is the
  b that is subtracted from u, if it is not the one that is subtracted from s.
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
  """Returns 'degenerate' or 'undefined' where ρ is, see `rho`, else ''."""
  gain, transferred = _gains(seen, unseen, baseline, baseline_unseen)
  if gain > 0:
    return ''
  return DEGENERATE if gain <= 0 < transferred else UNDEFINED


def _gains(
  seen: ArrayLike, unseen: ArrayLike, baseline: ArrayLike, baseline_unseen: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray]:
  """Returns d = s − b and n = max(0, u − b) of `rho`, in which rounding errors are 0."""
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
  """The right answers in every environment, and the classes that each environment was trained on.

  Attributes:
    share: [N, E] fractions of an image's views (severities, angles) that are right in each of E
      environments; NaN where an image is not shown in one.
    label: classes [N].
    group: [N]; k where the image's class belongs to C_k, 0 where it is left over.
    trained: [E] the group k that each environment was trained on, 0 for none (clean images).
    trials: [E] views of an image in each environment.
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
    choice('balance', self.balance, BALANCES)

  def select(self, images: np.ndarray) -> EnvironmentShares:
    """Returns the answers for some images, bool [N]."""
    columns = {name: getattr(self, name)[images] for name in ('share', 'label', 'group')}
    return dataclasses.replace(self, **columns)

  def accuracy(self, environments: Sequence[int], classes: str = ALL) -> Estimate:
    """Returns the mean accuracy over some environments on classes: `ALL`, `SEEN` or `UNSEEN`."""
    terms = [(e, classes) for e in environments]
    return self._means(terms, self.share[:, environments]).estimate(self.confidence)

  def gain(self, baseline: EnvironmentShares, environments: Sequence[int]) -> Estimate:
    """Returns the mean over some environments of the accuracy on unseen classes minus another's."""
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
    """Returns the mean of ρ over some environments, with quantiles of joint draws as interval.

    The accuracies that ρ is computed from are drawn for the same images; see
    `StratifiedMeans.drawn`. Images are samples of their class if classes are balanced, together
    with the baseline's predictions. Environments and draws in which ρ is undefined are left out of
    the mean, and also environments in which it is degenerate, 1 by definition. The note states the
    number of environments in the mean, and that ρ says little where more than half of them are
    undefined or degenerate.

    Args:
      environments: columns of `share`, each trained on a group.
      baseline: answers of the baseline classifier on the same images; None for b = 0.
      formula: see `rho`.
      by_cell: whether the baseline's accuracy is taken on the seen and on the unseen classes
        separately, so that classes that are easier do not count as robustness.
      degenerate: 'left_out', or 'one' for the paper's mean, in which degenerate terms are 1.
      samples: number of draws.
      seed: seed of the draws.
    """
    choice('degenerate', degenerate, DEGENERATES)
    accuracies = self._accuracies_for_rho(environments, baseline)
    num_kinds = len(accuracies.value) // len(environments)

    def arguments_of_rho(means: np.ndarray) -> np.ndarray:
      """Returns s, u and the b subtracted from each, [4, ..., E], of means [..., E · num_kinds]."""
      by_kind = np.moveaxis(means.reshape(*means.shape[:-1], -1, num_kinds), -1, 0)
      if baseline is None:
        subtracted = 0 * by_kind
      else:
        subtracted = by_kind[[B_SEEN, B_UNSEEN] if by_cell else [B, B]]
      return np.stack([by_kind[S], by_kind[U], *subtracted])

    def mean_rho(means: np.ndarray) -> np.ndarray:
      """Returns the mean [...] of ρ over the environments, of means [..., E · num_kinds]."""
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
    """Returns the accuracies that ρ is computed from, by environment and then by kind."""
    kinds = [(self, SEEN), (self, UNSEEN)]
    if baseline is not None:
      kinds += [(baseline, SEEN), (baseline, UNSEEN), (baseline, ALL)]
    terms = [(e, classes) for e in environments for _, classes in kinds]
    shares = [measured.share[:, e] for e in environments for measured, _ in kinds]
    return self._means(terms, np.stack(shares, 1))

  def _means(self, terms: Sequence[tuple[int, str]], shares: np.ndarray) -> StratifiedMeans:
    """Returns the means of shares [N, Q], in which NaN has no weight.

    `terms` are the Q environments and classes (`ALL`, `SEEN` or `UNSEEN`) of the means. Classes are
    strata if they are balanced.
    """
    label = self.label if self.balance == 'class' else np.zeros(len(self.label), int)
    _, stratum = np.unique(label, return_inverse=True)
    weights = np.stack([self._weight(e, classes) for e, classes in terms], 1)
    trials = [self.trials[e] for e, _ in terms]
    return StratifiedMeans.from_shares(weights, np.nan_to_num(shares), stratum, trials)

  def _weight(self, environment: int, classes: str) -> np.ndarray:
    """Returns the weight of each image in the accuracy in an environment on classes, [N]."""
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
