"""Systematic robustness ρ: how far robustness learned on some classes carries over to the others.

A classifier sees an environment, such as blurred images, on the classes C_k alone. Its accuracy in
that environment on C_k is s (seen), on all other classes u (unseen); a baseline classifier's, on
all classes, is b. docs/systematic.md says how to read ρ and when it misleads.

Reference:
  Omran & Schiele (2022), Towards Systematic Robustness for Scalable Visual Recognition, equation 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from robustness.core.settings import choice
from robustness.estimates.comparison import paired_difference
from robustness.estimates.intervals import effective_trials
from robustness.metrics.stratified import Sampled, stratified_share
from robustness.results import Number

FORMULAS = ('clipped', 'printed')
BALANCES = ('class', 'image')
DEGENERATE, UNDEFINED = 'degenerate', 'undefined'


def rho(
  seen: ArrayLike,
  unseen: ArrayLike,
  baseline: ArrayLike = 0.0,
  formula: str = 'clipped',
  baseline_unseen: ArrayLike | None = None,
) -> Any:
  """Returns ρ of accuracies, fractions of any shape.

  With d = s − b and n = max(0, u − b), 'clipped' is

    ρ = min(1, n/d) where d > 0;  1 where d ≤ 0 < n (degenerate);  NaN where d ≤ 0 = n (undefined)
    or an accuracy is NaN.

  The formula as 'printed', min(1, n / min(1, d)), is negative for d < 0 and divides by zero at
  d = 0 (1 for n > 0, NaN for n = 0). The text beside it, by which ρ is trivially 1 if the
  classifier is not much more robust than the baseline, is what 'clipped' does.

  Args:
    seen: s, in [0, 1].
    unseen: u, in [0, 1].
    baseline: b, in [0, 1]; 0 compensates for nothing.
    formula: 'clipped' or 'printed'.
    baseline_unseen: b of the unseen classes where it is not that of the seen ones, for baselines by
      cell; None takes `baseline` for both.

  Returns:
    ρ in [0, 1] or NaN ('printed' may be below 0), a float for scalars.

  Raises:
    InputError: an unknown formula.
  """
  choice('formula', formula, FORMULAS)
  gain, transferred = _gains(seen, unseen, baseline, baseline_unseen)
  with np.errstate(divide='ignore', invalid='ignore'):
    ratio = transferred / np.minimum(1, gain)
  if formula == 'clipped':
    ratio = np.where(gain <= 0, np.where(transferred > 0, 1.0, np.nan), ratio)
  return np.minimum(1, ratio)[()]


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
  s, u, b = (np.asarray(value, float) for value in (seen, unseen, baseline))
  b_unseen = b if baseline_unseen is None else np.asarray(baseline_unseen, float)
  return s - b, np.maximum(0, u - b_unseen)


@dataclasses.dataclass(frozen=True)
class Cells:
  """What was right in every environment, and which classes each environment was trained on.

  Attributes:
    share: [N, E] fractions of an image's views (severities, angles) that are right in each of E
      environments; NaN where an image is not shown in one.
    label: classes [N].
    group: [N]; k where the image's class belongs to C_k, 0 where it is left over.
    own: [E] for each environment the group k it was trained on, 0 for one without (clean images).
    trials: [E] views of an image in each environment.
    balance: 'class' weighs all classes alike, 'image' all images.
    confidence: of intervals.
  """

  share: np.ndarray
  label: np.ndarray
  group: np.ndarray
  own: tuple[int, ...]
  trials: tuple[int, ...]
  balance: str = 'class'
  confidence: float = 0.95

  def __post_init__(self) -> None:
    choice('config.study.balance', self.balance, BALANCES)

  def rows(self, environment: int, part: np.ndarray | None = None) -> np.ndarray:
    """Returns whether each image is shown in an environment [N], of some `part` [N] of them."""
    shown = ~np.isnan(self.share[:, environment])
    return shown if part is None else shown & part

  def accuracy(self, environment: int, part: np.ndarray | None = None) -> Number:
    """Returns the accuracy in an environment, on all images or on some, booleans [N]."""
    rows = self.rows(environment, part)
    classes = self.label[rows] if self.balance == 'class' else np.zeros(rows.sum(), int)
    return stratified_share(
      self.share[rows, environment], classes, self.trials[environment], self.confidence
    )

  def seen(self, environment: int) -> Number:
    """Returns s: the accuracy in an environment on the classes that it was trained on."""
    return self.accuracy(environment, self.group == self.own[environment])

  def unseen(self, environment: int) -> Number:
    """Returns u: the accuracy in an environment on all other classes."""
    return self.accuracy(environment, self.group != self.own[environment])

  def by_group(self, groups: int) -> np.ndarray:
    """Returns accuracies [groups + 1, E, 3] as (value, low, high); row 0 is what is left over."""
    numbers = [
      [self.accuracy(e, self.group == g) for e in range(self.share.shape[1])]
      for g in range(groups + 1)
    ]
    return np.array([[(n.value, n.low, n.high) for n in row] for row in numbers])

  def by_class(self, classes: int) -> np.ndarray:
    """Returns accuracies [classes, E]; NaN where there are no images."""
    shown = ~np.isnan(self.share)
    table = np.zeros((classes, *self.share.shape[1:]))
    counts = np.zeros_like(table)
    np.add.at(table, self.label, np.nan_to_num(self.share))
    np.add.at(counts, self.label, shown)
    return np.divide(table, counts, out=np.full_like(table, np.nan), where=counts > 0)

  def weights(self, environment: int, seen: bool) -> np.ndarray:
    """Returns what each image weighs in s or u, [N]; 0 for those that do not count."""
    rows = self.rows(environment, (self.group == self.own[environment]) == seen)
    if self.balance == 'image':
      return rows.astype(float)
    counts = np.bincount(self.label[rows], minlength=int(self.label.max()) + 1)
    return rows / np.maximum(counts[self.label], 1)


S, U, B_SEEN, B_UNSEEN, B = range(5)
"""Accuracies of `Transfer`: s, u, and the baseline's on seen, unseen and all classes."""


@dataclasses.dataclass(frozen=True)
class Transfer:
  """The accuracies that ρ is made of, as samples of the same images.

  Attributes:
    sampled: E · K accuracies, environment by environment: the first K of s, u, and the baseline's
      on seen, unseen and all classes. K is 2 without a baseline.
    changed: 2 E means over the unseen classes, environment by environment: what an image's share is
      above the baseline's, and what it is below it; None without a baseline.
    by_cell: whether the baseline's accuracy is subtracted on seen and unseen classes separately.
    columns: K.
    n: how many images there are.
    interval: what intervals of ρ are called.
    confidence: of intervals.
    formula: of ρ.
    samples, seed: of the draws.
  """

  sampled: Sampled
  changed: Sampled | None
  by_cell: bool
  columns: int
  n: int
  interval: str
  confidence: float
  formula: str = 'clipped'
  samples: int = 2000
  seed: int = 0

  def accuracies(self) -> np.ndarray:
    """Returns s and u, [E, 2]."""
    return self.sampled.value.reshape(-1, self.columns)[:, :2]

  def rho(self, environments: Sequence[int]) -> Number:
    """Returns the mean of ρ over some of the environments, by position.

    The interval has the quantiles of joint draws of the accuracies; see `Sampled.drawn`.
    Environments and draws in which ρ is undefined are left out; the note says how many.
    """
    own = self.sampled.at(self._places(environments).ravel())
    whole = self._of_rho(own.value)
    cases = [rho_case(*accuracies) for accuracies in whole]
    value = float(_mean(self._rho(whole)))
    notes = [
      f'{case} in {cases.count(case)} of {len(cases)} environments' if len(cases) > 1 else case
      for case in (DEGENERATE, UNDEFINED)
      if case in cases
    ]
    if np.isnan(value):
      return Number(value, np.nan, np.nan, self.n, self.interval, '; '.join(notes))
    scores = np.random.default_rng(self.seed).standard_normal((self.samples, len(own.value)))
    kind = np.tile(np.arange(self.columns), len(cases))
    # ρ is low where s is high, u low, and what is subtracted low from s and high from u.
    lowers = ~np.isin(kind, [U, B_SEEN])
    tail, ends = (1 - self.confidence) / 2, []
    for above, quantile in ((lowers, tail), (~lowers, 1 - tail)):
      drawn = _mean(self._rho(self._of_rho(own.drawn(scores, kind, above, self.confidence))))
      known = drawn[~np.isnan(drawn)]
      ends.append(float(np.quantile(known, quantile)) if len(known) else value)
    low, high = min(ends[0], value), max(ends[1], value)
    left_out = len(drawn) - len(known)
    if left_out:
      notes.append(f'undefined in {left_out} of {len(drawn)} draws')
    return Number(value, low, high, self.n, self.interval, '; '.join(notes))

  def mean(self, column: int) -> Number:
    """Returns the mean of `S`, `U` or `B` over all environments, by Korn and Graubard."""
    places = self._places(range(len(self.accuracies())))[:, column]
    return self.sampled.at(places).averaged().number(self.n, self.confidence)

  def _places(self, environments: Sequence[int]) -> np.ndarray:
    return self.columns * np.asarray(environments)[:, None] + np.arange(self.columns)

  def _of_rho(self, accuracies: np.ndarray) -> np.ndarray:
    """Returns s, u and what is subtracted from either, [..., E, 4], of accuracies [..., E · K]."""
    table = accuracies.reshape(*accuracies.shape[:-1], -1, self.columns)
    if self.columns <= B:
      return np.concatenate([table, np.zeros_like(table)], -1)
    return table[..., [S, U, *((B_SEEN, B_UNSEEN) if self.by_cell else (B, B))]]

  def unseen_gain(self, environments: Sequence[int]) -> Number:
    """Returns the mean over some environments of u minus the baseline's accuracy on those classes.

    The interval is Bonett and Price's at the number of independent images that has the variance of
    the paired differences within classes (`effective_trials`).

    Raises:
      ValueError: there is no baseline.
    """
    if self.changed is None:
      raise ValueError('without a baseline there is no gain over it')
    gained, lost = (self.changed.at(2 * np.asarray(environments) + k).averaged() for k in (0, 1))
    b, c = float(gained.value[0]), float(lost.value[0])
    name = f'paired bonett-price, stratified {self.confidence:g}'
    if np.isnan(b):
      return Number(np.nan, np.nan, np.nan, self.n, name)
    variance = float(((gained.part - lost.part) ** 2).sum())
    images = float(gained.freedom[0]) + 1
    views = max(images, float(gained.views[0]))
    size = effective_trials(b + c - (b - c) ** 2, variance, images, views, self.confidence)
    value, low, high = paired_difference(b * size, c * size, size, self.confidence)
    return Number(float(value), float(low), float(high), self.n, name)

  def _rho(self, accuracies: np.ndarray) -> np.ndarray:
    s, u, b, b_unseen = np.moveaxis(accuracies, -1, 0)
    return rho(s, u, b, self.formula, b_unseen)


def transfer(
  cells: Cells,
  environments: Sequence[int],
  baseline: Cells | None = None,
  formula: str = 'clipped',
  by_cell: bool = False,
  samples: int = 2000,
  seed: int = 0,
) -> Transfer:
  """Returns the accuracies of the classifier and the baseline, as samples of the same images.

  Images are samples of their class if classes are balanced; the baseline's predictions go with the
  image.

  Args:
    cells: of the classifier.
    environments: columns of `cells`, each with a group of its own.
    baseline: of the baseline classifier on the same images; None for b = 0.
    formula: of ρ, see `rho`.
    by_cell: whether the baseline's accuracy is taken on the seen and on the unseen classes
      separately, so that classes that are easier do not count as robustness.
    samples: how many draws an interval of ρ takes.
    seed: of the draws.

  Raises:
    InputError: an unknown formula.
  """
  choice('config.study.formula', formula, FORMULAS)
  weights, shares, trials = [], [], []
  changes: list[np.ndarray] = []
  for environment in environments:
    seen, unseen = (cells.weights(environment, part) for part in (True, False))
    owners = [(cells, seen), (cells, unseen)]
    if baseline is not None:
      owners += [(baseline, seen), (baseline, unseen), (baseline, seen + unseen)]
      change = np.nan_to_num(cells.share[:, environment] - baseline.share[:, environment])
      changes += [np.maximum(change, 0), np.maximum(-change, 0)]
    for owner, weight in owners:
      weights.append(weight)
      shares.append(np.nan_to_num(owner.share[:, environment]))
      trials.append(owner.trials[environment])
  label = cells.label if cells.balance == 'class' else np.zeros(len(cells.label), int)
  _, stratum = np.unique(label, return_inverse=True)
  within = 'within classes' if cells.balance == 'class' else 'over images'
  columns = 2 if baseline is None else 5
  changed = None
  if baseline is not None:
    unseen_weights = np.repeat(np.stack(weights[U::columns], 1), 2, 1)
    of_views = np.repeat(trials[U::columns], 2)
    changed = Sampled.of(unseen_weights, np.stack(changes, 1), stratum, of_views)
  return Transfer(
    Sampled.of(np.stack(weights, 1), np.stack(shares, 1), stratum, trials),
    changed,
    by_cell,
    columns,
    len(cells.label),
    f'joint draws {within} {cells.confidence:g}',
    cells.confidence,
    formula,
    samples,
    seed,
  )


def _mean(values: np.ndarray) -> np.ndarray:
  """Returns the mean over the last axis of what is no NaN; NaN where all are."""
  known = ~np.isnan(values)
  total = np.where(known, values, 0).sum(-1)
  return np.divide(total, known.sum(-1), out=np.full(total.shape, np.nan), where=known.any(-1))
