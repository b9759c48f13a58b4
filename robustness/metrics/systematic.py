"""Systematic robustness ρ: how far robustness learned on some classes carries over to the others.

A classifier sees an environment, such as blurred images, on the classes C_k alone. Its accuracy in
that environment on C_k is s (seen), on all other classes u (unseen); a baseline classifier's, on
all classes, is b. docs/systematic.md says how to read ρ and when it misleads.

Reference:
  Omran & Schiele (2022), Towards Systematic Robustness for Scalable Visual Recognition, equation 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from robustness.core.settings import choice
from robustness.estimates.intervals import korn_graubard, percentile_interval
from robustness.results import Number

FORMULAS = ('clipped', 'printed')
BALANCES = ('class', 'image')
DEGENERATE, UNDEFINED = 'degenerate', 'undefined'
_DRAWS = 256  # bootstrap samples held at once


def rho(
  seen: ArrayLike,
  unseen: ArrayLike,
  baseline: ArrayLike = 0.0,
  formula: str = 'clipped',
  baseline_unseen: ArrayLike | None = None,
) -> Any:
  """Returns ρ of accuracies, fractions of any shape.

  With d = s − b and n = max(0, u − b), 'clipped' is

    ρ = min(1, n/d) where d > 0;  1 where d ≤ 0 < n (degenerate);  NaN where d ≤ 0 = n (undefined).

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
    ratio = np.where(gain > 0, ratio, np.where(transferred > 0, 1.0, np.nan))
  return np.minimum(1, ratio)[()]


def rho_case(
  seen: float, unseen: float, baseline: float = 0.0, baseline_unseen: float | None = None
) -> str:
  """Returns '' where ρ says something, else 'degenerate' or 'undefined'; see `rho`."""
  gain, transferred = _gains(seen, unseen, baseline, baseline_unseen)
  if gain > 0:
    return ''
  return DEGENERATE if transferred > 0 else UNDEFINED


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


def stratified_share(
  share: np.ndarray, stratum: np.ndarray, trials: int, confidence: float
) -> Number:
  """Returns the mean over strata of the mean share in each, with Korn and Graubard's interval.

  The variance of the mean is Σ_c s_c²/(n_c K²) over K strata; a stratum of one image takes the
  standard deviation of all. As many images count as would have that spread if all weighed alike.

  Args:
    share: [N] fractions in [0, 1].
    stratum: [N], whole numbers; all alike gives the mean over images.
    trials: views that each share was taken over.
    confidence: in (0, 1).

  Returns:
    A `Number` with n = N; NaN without images.
  """
  name = f'korn-graubard, stratified {confidence:g}'
  if not len(share):
    return Number(np.nan, np.nan, np.nan, 0, name)
  _, index, count = np.unique(stratum, return_inverse=True, return_counts=True)
  mean = np.bincount(index, share) / count
  squares = np.bincount(index, (share - mean[index]) ** 2)
  pooled = squares.sum() / max(len(share) - len(count), 1)
  variance = np.where(count > 1, squares / np.maximum(count - 1, 1), pooled)
  strata = len(count)
  value = float(np.clip(mean.mean(), 0, 1))
  size = max(1, int(strata**2 / (1 / count).sum()))
  std = np.sqrt((variance / count).sum() / strata**2 * size)
  low, high = korn_graubard(value, std, size, trials, confidence)
  return Number(value, float(low), float(high), len(share), name)


@dataclasses.dataclass(frozen=True)
class Transfer:
  """The accuracies that ρ is made of, as they are and in bootstrap samples.

  Attributes:
    whole: [E, 4]: s, u, and what is subtracted from s and from u.
    drawn: [samples, E, 4], the same of resampled images.
    n: how many images were resampled.
    interval: what intervals are called.
    confidence: of intervals.
    formula: of ρ.
  """

  whole: np.ndarray
  drawn: np.ndarray
  n: int
  interval: str
  confidence: float
  formula: str = 'clipped'

  def rho(self, environments: Sequence[int]) -> Number:
    """Returns the mean of ρ over some of the environments, by position.

    Environments and samples in which ρ is undefined are left out; the note says how many.
    """
    own = list(environments)
    value, drawn = _mean(self._rho(self.whole[own])), _mean(self._rho(self.drawn[:, own]))
    cases = [rho_case(s, u, b, b_unseen) for s, u, b, b_unseen in self.whole[own]]
    left_out = int(np.isnan(drawn).sum())
    notes = [
      f'{case} in {cases.count(case)} of {len(own)} environments' if len(own) > 1 else case
      for case in (DEGENERATE, UNDEFINED)
      if case in cases
    ]
    if left_out:
      notes.append(f'undefined in {left_out} of {len(drawn)} bootstrap samples')
    return self._number(float(value), drawn[~np.isnan(drawn)], '; '.join(notes))

  def mean(self, column: int) -> Number:
    """Returns the mean over all environments of s (0), u (1) or the baseline's accuracy (2)."""
    drawn = self.drawn[:, :, column].mean(1)
    return self._number(float(self.whole[:, column].mean()), drawn)

  def unseen_gain(self, environments: Sequence[int]) -> Number:
    """Returns the mean over some environments of u minus the baseline's accuracy on those classes.

    The baseline's accuracies must have been taken by cell, see `transfer`.
    """
    own = list(environments)
    value, drawn = ((a[..., own, 1] - a[..., own, 3]).mean(-1) for a in (self.whole, self.drawn))
    return self._number(float(value), drawn)

  def _rho(self, accuracies: np.ndarray) -> np.ndarray:
    s, u, b, b_unseen = np.moveaxis(accuracies, -1, 0)
    return rho(s, u, b, self.formula, b_unseen)

  def _number(self, value: float, drawn: np.ndarray, note: str = '') -> Number:
    if np.isnan(value):
      return Number(np.nan, np.nan, np.nan, self.n, self.interval, note)
    low, high = percentile_interval(drawn, self.n, self.confidence)
    ends = min(float(low), value), max(float(high), value)
    return Number(value, *ends, self.n, self.interval, note)


def transfer(
  cells: Cells,
  environments: Sequence[int],
  baseline: Cells | None = None,
  formula: str = 'clipped',
  by_cell: bool = False,
  samples: int = 2000,
  seed: int = 0,
) -> Transfer:
  """Resamples images and returns the accuracies of the classifier and the baseline.

  Images are drawn with replacement, within their class if classes are balanced and within the
  environments that they are shown in; the baseline's predictions go with the image.

  Args:
    cells: of the classifier.
    environments: columns of `cells`, each with a group of its own.
    baseline: of the baseline classifier on the same images; None for b = 0.
    formula: of ρ, see `rho`.
    by_cell: whether the baseline's accuracy is taken on the seen and on the unseen classes
      separately, so that classes that are easier do not count as robustness.
    samples: of the bootstrap.
    seed: of the bootstrap.
  """
  choice('config.study.formula', formula, FORMULAS)
  sums = np.stack([_sums(cells, e, baseline) for e in environments], 1)  # [N, E, 8]
  flat = sums.reshape(len(sums), -1)
  drawn = np.concatenate(
    [
      _accuracies((counts @ flat).reshape(-1, *sums.shape[1:]), by_cell)
      for counts in _resampled(cells, samples, seed)
    ]
  )
  within = 'within classes' if cells.balance == 'class' else 'over images'
  return Transfer(
    _accuracies(sums.sum(0), by_cell),
    drawn,
    len(cells.label),
    f'bootstrap {within} {cells.confidence:g}',
    cells.confidence,
    formula,
  )


def _sums(cells: Cells, environment: int, baseline: Cells | None) -> np.ndarray:
  """Returns what each image adds, [N, 8]: to s, u and the baseline's three accuracies, and to what
  these are divided by."""
  of_seen, of_unseen = cells.weights(environment, True), cells.weights(environment, False)
  right = np.nan_to_num(cells.share[:, environment])
  before = np.zeros_like(right)
  if baseline is not None:
    before = np.nan_to_num(baseline.share[:, environment])
  of_all = of_seen + of_unseen
  added = [of_seen * right, of_unseen * right, of_seen * before, of_unseen * before]
  return np.stack([*added, of_all * before, of_seen, of_unseen, of_all], 1)


def _accuracies(totals: np.ndarray, by_cell: bool) -> np.ndarray:
  """Returns s, u and the baseline's accuracy for either [..., 4], from summed `_sums` [..., 8]."""
  s, u, b_seen, b_unseen, b_all, of_seen, of_unseen, of_all = np.moveaxis(totals, -1, 0)
  with np.errstate(divide='ignore', invalid='ignore'):
    baseline = [b_seen / of_seen, b_unseen / of_unseen] if by_cell else [b_all / of_all] * 2
    return np.stack([s / of_seen, u / of_unseen, *baseline], -1)


def _mean(values: np.ndarray) -> np.ndarray:
  """Returns the mean over the last axis of what is no NaN; NaN where all are."""
  known = ~np.isnan(values)
  total = np.where(known, values, 0).sum(-1)
  return np.divide(total, known.sum(-1), out=np.full(total.shape, np.nan), where=known.any(-1))


def _resampled(cells: Cells, samples: int, seed: int) -> Iterator[np.ndarray]:
  """Yields how often each image was drawn, [≤ 256, N]."""
  rng = np.random.default_rng(seed)
  label = cells.label if cells.balance == 'class' else np.zeros(len(cells.label), int)
  kinds = np.column_stack([label, ~np.isnan(cells.share)])
  _, stratum = np.unique(kinds, axis=0, return_inverse=True)
  members = [np.flatnonzero(stratum == s) for s in range(int(stratum.max()) + 1)]
  for begin in range(0, samples, _DRAWS):
    counts = np.zeros((min(_DRAWS, samples - begin), len(cells.label)))
    for member in members:
      chance = np.full(len(member), 1 / len(member))
      counts[:, member] = rng.multinomial(len(member), chance, len(counts))
    yield counts
