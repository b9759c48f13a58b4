r"""Accuracy by size, place and angle of an object, from a table of pairs × levels.

A pair is an object with a background; a scene counts if enough of its object is inside. Which pairs
count therefore differs between levels, and with it the mix of objects: the balanced accuracy counts
the same pairs and sizes at every level that is compared.

Scenes of one object are alike. All intervals take objects as the clusters (`cluster_rates`).
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.estimates.comparison import benjamini_hochberg, paired_difference, sign_flip
from robustness.estimates.intervals import effective_trials, percentile_interval
from robustness.estimates.of_means import resampled
from robustness.metrics.corruption_error import bootstrap
from robustness.metrics.shares import cluster_rates
from robustness.results import Number


@dataclasses.dataclass(frozen=True)
class Scenes:
  """What one classifier predicted.

  Attributes:
    right: bool [P, L], whether the class is right, for P pairs at L levels.
    shown: bool [P, L], which scenes count.
    objects: int [P], the object of each pair.
  """

  right: np.ndarray
  shown: np.ndarray
  objects: np.ndarray

  def __post_init__(self) -> None:
    if self.right.shape != self.shown.shape or self.right.shape[:1] != self.objects.shape:
      raise InputError(
        f'right is {self.right.shape}, shown {self.shown.shape} and objects '
        f'{self.objects.shape}; they must be [P, L], [P, L] and [P].'
      )

  def sums(self, groups: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Returns right predictions and scenes of each object in each group of levels, both [K, G].

    Args:
      groups: int [L], the group of each level, 0 .. G - 1; None makes each level its own.
    """
    members = np.arange(self.shown.shape[1]) if groups is None else np.asarray(groups)
    place = np.unique(self.objects, return_inverse=True)[1]
    tables = []
    for values in (self.right & self.shown, self.shown):
      by_object = np.zeros((place.max() + 1, values.shape[1]))
      np.add.at(by_object, place, values)
      table = np.zeros((len(by_object), members.max() + 1))
      np.add.at(table.T, members, by_object.T)
      tables.append(table)
    return tables[0], tables[1]

  def of(self, pairs: np.ndarray) -> Scenes:
    """Returns the scenes of some pairs, bool [P]."""
    return Scenes(self.right[pairs], self.shown[pairs], self.objects[pairs])

  def only(self, kept: np.ndarray) -> Scenes:
    """Returns the scenes of which a part, bool [P, L], is kept."""
    return dataclasses.replace(self, shown=self.shown & kept)


@dataclasses.dataclass(frozen=True)
class Rates:
  """Accuracy by group: `value`, `low`, `high` fractions [G], `n` scenes [G]; NaN where n is 0."""

  value: np.ndarray
  low: np.ndarray
  high: np.ndarray
  n: np.ndarray


def rates(scenes: Scenes, groups: ArrayLike | None = None, confidence: float = 0.95) -> Rates:
  """Returns the accuracy in each group of levels, with its interval over objects."""
  right, shown = scenes.sums(groups)
  return Rates(*cluster_rates(right, shown, confidence), shown.sum(0).astype(np.int64))


def overall(scenes: Scenes, confidence: float = 0.95) -> Number:
  """Returns the accuracy over all scenes that count."""
  rate = rates(scenes, np.zeros(scenes.shown.shape[1], int), confidence)
  return Number(
    float(rate.value[0]),
    float(rate.low[0]),
    float(rate.high[0]),
    int(rate.n[0]),
    f'korn-graubard {confidence:g} over objects',
  )


def balanced(
  shown: np.ndarray,
  groups: ArrayLike | None = None,
  strata: ArrayLike | None = None,
  share: float = 0.0,
) -> np.ndarray:
  """Returns which scenes make up the same mix in every group of levels, bool [P, L].

  In a stratum (a size, where accuracy is given by angle) those pairs are kept that count in every
  group; pairs and strata together are then the same in every group, and groups may be compared
  although strata are pooled. Groups in which no scene counts, or too few do, are left out.

  Args:
    shown: bool [P, L].
    groups: int [L], what is compared, such as the angle; None makes each level its own.
    strata: int [L], what is pooled in each group; None pools nothing.
    share: of the scenes of a group that must count. More leaves out groups, less leaves out pairs.
  """
  num_levels = shown.shape[1]
  group = np.arange(num_levels) if groups is None else np.asarray(groups)
  stratum = np.zeros(num_levels, int) if strata is None else np.asarray(strata)
  present = [
    g
    for g in np.unique(group)
    if shown[:, group == g].any() and shown[:, group == g].mean() >= share
  ]
  compared = np.isin(group, present)
  kept = np.zeros_like(shown)
  for value in np.unique(stratum):
    levels = compared & (stratum == value)
    if len(np.unique(group[levels])) == len(present):
      kept[:, levels] = shown[:, levels].all(1, keepdims=True)
  return kept


def gap(scenes: Scenes, kept: np.ndarray, seed: int = 0, confidence: float = 0.95) -> Number:
  """Returns the mean over levels of accuracy as published minus balanced.

  The interval is a bootstrap over objects. Levels without a balanced pair are left out; NaN if
  there is none.

  Args:
    scenes: as published.
    kept: bool [P, L], see `balanced`.
    seed: of the resampling.
    confidence: in (0, 1).
  """
  (right, shown), (right_kept, shown_kept) = scenes.sums(), scenes.only(kept).sums()
  levels = shown_kept.sum(0) > 0

  def statistic(weights: np.ndarray) -> np.ndarray:
    with np.errstate(invalid='ignore', divide='ignore'):
      difference = (
        (weights @ right) / (weights @ shown) - (weights @ right_kept) / (weights @ shown_kept)
      )[:, levels]
    return mean_of_finite(difference)

  return bootstrap(statistic, len(right), seed, confidence)


def normalised(values: ArrayLike) -> np.ndarray:
  """Returns accuracies [..., G] as fractions of the largest of G; NaN throughout if that is 0."""
  array = np.asarray(values, float)
  largest = np.max(array, -1, initial=0.0, where=np.isfinite(array), keepdims=True)
  return np.divide(array, largest, out=np.full(array.shape, np.nan), where=largest > 0)


def wrapped(angle: ArrayLike) -> np.ndarray:
  """Returns angles in degrees in (−180, 180]."""
  return 180.0 - (180.0 - np.asarray(angle, float)) % 360.0


@dataclasses.dataclass(frozen=True)
class Difference:
  """Accuracy of the second classifier minus the first's in each group of levels, arrays [G].

  `value`, `low` and `high` are in [−1, 1], NaN where no scene counts; `p_value` is that of flipped
  signs of objects, `significant` after Benjamini and Hochberg over the groups with scenes.
  """

  value: np.ndarray
  low: np.ndarray
  high: np.ndarray
  p_value: np.ndarray
  significant: np.ndarray


def compare(
  first: Scenes,
  second: Scenes,
  groups: ArrayLike | None = None,
  rate: float = 0.05,
  confidence: float = 0.95,
) -> Difference:
  """Compares two classifiers on the same scenes, with objects as the clusters.

  The interval is Bonett and Price's at the number of independent scenes that has the variance over
  objects (`effective_trials`).

  Args:
    first, second: what they predicted.
    groups: int [L], see `Scenes.sums`; None compares level by level.
    rate: false-discovery rate in (0, 1).
    confidence: of each interval, in (0, 1).

  Raises:
    InputError: the scenes are not the same ones.
  """
  if not np.array_equal(first.shown, second.shown):
    raise InputError('the classifiers were shown different scenes: evaluate them in one run.')
  b, c = (
    dataclasses.replace(own, right=own.right & ~other.right).sums(groups)[0]
    for own, other in ((first, second), (second, first))
  )
  shown = first.sums(groups)[1]
  n, clusters = shown.sum(0), (shown > 0).sum(0)
  rates = [part.sum(0) / np.maximum(n, 1) for part in (b, c)]
  mean = rates[1] - rates[0]
  spread = ((c - b - mean * shown) ** 2).sum(0) / np.maximum(n, 1) ** 2
  variance = spread * clusters / np.maximum(clusters - 1, 1)
  size = effective_trials(rates[0] + rates[1] - mean**2, variance, clusters, n, confidence)
  value, low, high = (
    np.asarray(v) for v in paired_difference(rates[1] * size, rates[0] * size, size, confidence)
  )
  p_value = np.where(n > 0, sign_flip(c - b), np.nan)
  significant = np.zeros(n.shape, bool)
  if n.any():
    significant[n > 0] = benjamini_hochberg(p_value[n > 0], rate).significant
  return Difference(value, low, high, p_value, significant)


def compare_normalised(
  first: Scenes,
  second: Scenes,
  groups: ArrayLike | None = None,
  seed: int = 0,
  confidence: float = 0.95,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns the difference of accuracies as shares of their own maxima, second minus first.

  Args:
    first, second, groups: as in `compare`.
    seed: of the bootstrap.
    confidence: of each interval, in (0, 1).

  Returns:
    (difference, low, high), each [G]. Intervals are percentiles of a bootstrap over objects in
    which the maximum is taken anew; NaN where no scene counts.

  Reference:
    Yung et al. (2021), figure 3, which has no intervals.
  """
  (right, shown), (other, _) = first.sums(groups), second.sums(groups)

  def statistic(weights: np.ndarray) -> np.ndarray:
    with np.errstate(invalid='ignore', divide='ignore'):
      rates = [(weights @ correct) / (weights @ shown) for correct in (right, other)]
    return normalised(rates[1]) - normalised(rates[0])

  value = statistic(np.full((1, len(right)), 1 / len(right)))[0]
  drawn = resampled(statistic, len(right), seed)
  interval = np.full((2, len(value)), np.nan)
  seen = np.isfinite(value)
  for group in np.flatnonzero(seen):
    known = drawn[np.isfinite(drawn[:, group]), group]
    interval[:, group] = percentile_interval(known, int((shown[:, group] > 0).sum()), confidence)
  return value, interval[0], interval[1]


def mean_of_finite(values: np.ndarray) -> np.ndarray:
  """Returns the mean of the finite values of each row [B, L], [B]; NaN where there is none."""
  finite = np.isfinite(values)
  count = finite.sum(1)
  return np.divide(
    np.where(finite, values, 0.0).sum(1), count, out=np.full(len(values), np.nan), where=count > 0
  )
