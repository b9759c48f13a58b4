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
_ROUNDING = 1e-12  # distances from a mean below this are none


@dataclasses.dataclass(frozen=True)
class Sampled:
  """Q weighted means of shares over the same N images, as samples within strata.

  Attributes:
    value: [Q] the means, in [0, 1]; NaN where no image counts.
    weight: [N, Q], the sum of each is 1; 0 where an image does not count.
    part: [N, Q] the contribution of an image to the error of each mean; the sum of squares is the
      variance of the mean, Σ_c s_c²/(n_c K²) for K strata of one weight. A stratum of one image has
      no spread and takes the distance from the mean of all images.
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
  def from_shares(
    cls, weight: np.ndarray, share: np.ndarray, stratum: np.ndarray, trials: ArrayLike
  ) -> Sampled:
    """Returns the means of shares [N, Q] in [0, 1], of some weights ≥ 0 [N, Q], strata int [N], and
    numbers of views [Q] that a share was taken over."""
    counted, is_counted = weight > 0, weight.any(0)
    weight = weight / np.where(is_counted, weight.sum(0), 1)
    value = np.where(is_counted, (weight * share).sum(0), np.nan)
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
      np.asarray(trials) / np.where(is_counted, (weight**2).sum(0), 1),
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
    """Returns Korn and Graubard's effective number of independent trials, [Q].

    It is at least the number of images, and equal to it where no stratum has a spread. With `joint`
    it may exceed the number of views, because strata and views that differ in accuracy vary less
    than trials at their mean accuracy. The variance is then averaged with the variance of
    independent views, which weighs two degrees of freedom, because few images may show a small
    variance by chance.
    """
    images = 1 / np.maximum((self.weight**2).sum(0), _ROUNDING).clip(max=1)
    single = self.value * (1 - self.value)
    variance = (self.part**2).sum(0)
    has_spread = (variance > 0) & (single > 0)
    least = single / self.views
    if joint:
      least = (self.freedom * variance + 2 * self.within / self.views) / (self.freedom + 2)
    trials = np.divide(single, np.maximum(variance, least), out=images.copy(), where=has_spread)
    factor = t_value(np.ceil(self.views), confidence) / t_value(self.freedom + 1, confidence)
    return np.asarray(np.maximum(trials * np.where(has_spread, factor, 1) ** 2, images))

  def estimate(self, confidence: float) -> Estimate:
    """Returns the mean of all Q means with Korn and Graubard's interval; n images count."""
    averaged, n = self.averaged(), int(self.weight.any(1).sum())
    if np.isnan(averaged.value[0]):
      return Estimate(np.nan, np.nan, np.nan, n, n, STRATIFIED)
    trials = averaged.effective(confidence)[0]
    low, high = proportion_interval(averaged.value[0] * trials, trials, confidence)
    return Estimate(float(averaged.value[0]), float(low), float(high), n, n, STRATIFIED)

  def drawn(
    self, scores: np.ndarray, kind: np.ndarray, confidence: float
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns joint draws of the means for other images, [samples, Q], for the lower end of an
    interval and for the upper one.

    With n from `effective`, a mean p is drawn from Beta(p n + ½, (1 − p) n + ½). Where p is 0 it is
    drawn from Beta(1, n) for the upper end, and is 0 for the lower; where p is 1 it is 1 for the
    upper end, and drawn from Beta(n, 1) for the lower: the quantiles are then Clopper and Pearson's
    ends. Means of one kind are averaged later. For these the halves are smaller the less the means
    vary together, because they would not average out.

    Args:
      scores: standard normal, [samples, Q].
      kind: int [Q].
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
    same_kind = kind[:, None] == kind
    half = 0.5 * (np.maximum(correlation, 0) * same_kind).sum(0) / same_kind.sum(0)
    scale, axes = np.linalg.eigh(correlation)
    uniform = special.ndtr(scores @ (axes * np.sqrt(np.maximum(scale, 0))).T)
    all_wrong, all_right = p <= 0, p >= 1
    right = np.where(all_wrong, 2 * half, p * n + np.where(all_right, 0, half))
    wrong = np.where(all_right, 2 * half, (1 - p) * n + np.where(all_wrong, 0, half))
    drawn = special.betaincinv(right, wrong, uniform)
    return np.where(all_wrong, 0, drawn), np.where(all_right, 1, drawn)


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


FORMULAS = ('clipped', 'printed')
BALANCES = ('class', 'image')
DEGENERATES = ('left_out', 'one')
"""How a mean of ρ treats terms that are 1 by definition; 'one' is the paper's mean."""
DEGENERATE, UNDEFINED = 'degenerate', 'undefined'
SAYS_LITTLE = 'says little'
"""The beginning of the note of a ρ that heads no findings."""
ALL, SEEN, UNSEEN = 'all', 'seen', 'unseen'
"""Parts of the images of an environment: all, of classes trained on in it, and of other classes."""
S, U, B_SEEN, B_UNSEEN, B = range(5)
"""Accuracies that ρ is drawn from: s, u, and the baseline's on seen, unseen and all classes."""


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
  trivially 1 if the classifier is not much more robust than the baseline. `baseline_unseen` is b of
  the unseen classes, for baselines by cell; None takes `baseline` for both.
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
  """Returns '' where ρ says something, else 'degenerate' or 'undefined'; see `rho`."""
  gain, transferred = _gains(seen, unseen, baseline, baseline_unseen)
  if gain > 0:
    return ''
  return DEGENERATE if gain <= 0 < transferred else UNDEFINED


def _gains(
  seen: ArrayLike, unseen: ArrayLike, baseline: ArrayLike, baseline_unseen: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray]:
  accuracies = seen, unseen, baseline, baseline if baseline_unseen is None else baseline_unseen
  s, u, b, b_unseen = (np.asarray(value, float) for value in accuracies)
  for values in (s, u, b, b_unseen):
    if ((values < 0) | (values > 1)).any():
      raise InputError('ρ is of accuracies in [0, 1]: divide percentages by 100.')
  gain, transferred = (np.where(np.abs(x) < _ROUNDING, 0, x) for x in (s - b, u - b_unseen))
  return gain, np.maximum(0, transferred)


@dataclasses.dataclass(frozen=True)
class Cells:
  """The right answers in every environment, and the classes that each environment was trained on.

  Attributes:
    share: [N, E] fractions of an image's views (severities, angles) that are right in each of E
      environments; NaN where an image is not shown in one.
    label: classes [N].
    group: [N]; k where the image's class belongs to C_k, 0 where it is left over.
    trained: [E] the group k that each environment was trained on, 0 for none (clean images).
    trials: [E] views of an image in each environment.
    balance: 'class' weighs all classes equally, 'image' all images.
    confidence: of intervals.
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

  def select(self, images: np.ndarray) -> Cells:
    """Returns the cells of some images, bool [N]."""
    columns = {name: getattr(self, name)[images] for name in ('share', 'label', 'group')}
    return dataclasses.replace(self, **columns)

  def accuracy(self, environments: Sequence[int], part: str = ALL) -> Estimate:
    """Returns the mean accuracy over some environments on a part: `ALL`, `SEEN` or `UNSEEN`."""
    cells = [(e, part) for e in environments]
    return self._sampled(cells, self.share[:, environments]).estimate(self.confidence)

  def gain(self, baseline: Cells, environments: Sequence[int]) -> Estimate:
    """Returns the mean over some environments of the accuracy on unseen classes minus another's."""
    cells = [(e, UNSEEN) for e in environments]
    change = self.share[:, environments] - baseline.share[:, environments]
    gained, lost = (self._sampled(cells, np.maximum(sign * change, 0)) for sign in (1, -1))
    return difference(gained, lost, self.confidence)

  def rho(
    self,
    environments: Sequence[int],
    baseline: Cells | None = None,
    formula: str = 'clipped',
    by_cell: bool = False,
    degenerate: str = 'left_out',
    samples: int = 2000,
    seed: int = 0,
  ) -> Estimate:
    """Returns the mean of ρ over some environments, with quantiles of joint draws as interval.

    The accuracies that ρ is computed from are drawn for the same images; see `Sampled.drawn`.
    Images are samples of their class if classes are balanced, together with the baseline's
    predictions. Environments and draws in which ρ is undefined are left out of the mean, and also
    environments in which it is degenerate, 1 by definition. The note states the number of
    environments in the mean, and that ρ says little where more than half of them are undefined or
    degenerate.

    Args:
      environments: columns of `share`, each trained on a group.
      baseline: of the baseline classifier on the same images; None for b = 0.
      formula: see `rho`.
      by_cell: whether the baseline's accuracy is taken on the seen and on the unseen classes
        separately, so that classes that are easier do not count as robustness.
      degenerate: 'left_out', or 'one' for the paper's mean, in which degenerate terms are 1.
      samples, seed: of the draws.
    """
    choice('degenerate', degenerate, DEGENERATES)
    accuracies = self._joint(environments, baseline)
    columns = len(accuracies.value) // len(environments)
    subtracted = [B_SEEN, B_UNSEEN] if by_cell else [B, B]

    def of_rho(means: np.ndarray) -> np.ndarray:
      """Returns s, u and what is subtracted from either, [4, ..., E], of means [..., E · K]."""
      table = np.moveaxis(means.reshape(*means.shape[:-1], -1, columns), -1, 0)
      return np.stack([*table[:B_SEEN], *(table[subtracted] if columns > B else 0 * table)])

    def mean_rho(means: np.ndarray) -> np.ndarray:
      s, u, b, b_unseen = of_rho(means)
      return known_mean(rho(s, u, b, formula, b_unseen))

    cases = [rho_case(*term) for term in of_rho(accuracies.value).T]
    terms = len(cases)
    notes = [
      f'{case} in {cases.count(case)} of {terms} environments' if terms > 1 else case
      for case in (DEGENERATE, UNDEFINED)
      if case in cases
    ]
    if terms > 1 and 2 * cases.count('') < terms:
      notes[0] = f'{SAYS_LITTLE}: {notes[0]}'
    leaves_out = degenerate == 'left_out' and formula == 'clipped' and terms > 1
    useful = [e for e, case in zip(environments, cases, strict=True) if not case]
    averaged = len(useful) if leaves_out else terms - cases.count(UNDEFINED)
    if 0 < averaged < terms:
      notes.append(f'mean over {averaged} of them')
    leaves_out &= DEGENERATE in cases
    if leaves_out and useful:
      selected = self.rho(useful, baseline, formula, by_cell, degenerate, samples, seed)
      return dataclasses.replace(selected, note='; '.join(filter(None, (*notes, selected.note))))
    value = np.nan if leaves_out else float(mean_rho(accuracies.value))
    n, method = int(accuracies.weight.any(1).sum()), JOINT[self.balance]
    if np.isnan(value):
      return Estimate(value, np.nan, np.nan, n, n, method, note='; '.join(notes))
    scores = np.random.default_rng(seed).standard_normal((samples, len(accuracies.value)))
    kind = np.tile(np.arange(columns), len(environments))
    # ρ is low where s is high, u low, and what is subtracted low from s and high from u.
    lowers = ~np.isin(kind, [U, B_SEEN])
    tail, ends = (1 - self.confidence) / 2, []
    below, above = accuracies.drawn(scores, kind, self.confidence)
    for upper, quantile in ((lowers, tail), (~lowers, 1 - tail)):
      drawn = mean_rho(np.where(upper, above, below))
      defined = drawn[~np.isnan(drawn)]
      ends.append(float(np.quantile(defined, quantile)) if len(defined) else value)
    if len(defined) < len(drawn):
      notes.append(f'undefined in {len(drawn) - len(defined)} of {len(drawn)} draws')
    low, high = min(ends[0], value), max(ends[1], value)
    return Estimate(value, low, high, n, n, method, note='; '.join(notes))

  def _joint(self, environments: Sequence[int], baseline: Cells | None) -> Sampled:
    """Returns the accuracies that ρ is computed from, by environment."""
    parts = [(self, SEEN), (self, UNSEEN)]
    if baseline is not None:
      parts += [(baseline, SEEN), (baseline, UNSEEN), (baseline, ALL)]
    cells = [(measured, e, part) for e in environments for measured, part in parts]
    shares = np.stack([measured.share[:, e] for measured, e, _ in cells], 1)
    return self._sampled([(e, part) for _, e, part in cells], shares)

  def _sampled(self, cells: Sequence[tuple[int, str]], shares: np.ndarray) -> Sampled:
    """Returns means of shares [N, Q], each of an environment and a part; NaN has no weight."""
    label = self.label if self.balance == 'class' else np.zeros(len(self.label), int)
    _, stratum = np.unique(label, return_inverse=True)
    weights = np.stack([self._weight(e, part) for e, part in cells], 1)
    trials = [self.trials[e] for e, _ in cells]
    return Sampled.from_shares(weights, np.nan_to_num(shares), stratum, trials)

  def _weight(self, environment: int, part: str) -> np.ndarray:
    """Returns the weight of each image in the accuracy on a part of an environment, [N]."""
    rows = ~np.isnan(self.share[:, environment])
    if part != ALL:
      rows &= (self.group == self.trained[environment]) == (part == SEEN)
    if self.balance == 'image':
      return np.asarray(rows.astype(float))
    counts = np.bincount(self.label[rows], minlength=int(self.label.max(initial=0)) + 1)
    return np.asarray(rows / np.maximum(counts[self.label], 1))
