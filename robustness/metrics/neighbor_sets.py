r"""Accuracy on anchors and on the worst of their neighbors: acc_orig, pm-k and what follows.

With f the classifier, a_i the anchor of set i and N_k(a_i) its neighbors at most k frames away,

  acc_orig = 1/A Σ_i 1[f(a_i) right],   acc_pm-k = 1/A Σ_i min over b in the set of 1[f(b) right].

A frame is right if the prediction is any of its labels. The released scorer counts the anchor as a
member of the set, and so does `include_anchor` by default; Eq. 1 of the paper leaves it open. A
set without neighbors within k frames is judged by its anchor, so that pm-0 is acc_orig.

Arrays carry models in leading axes: `[..., F]` frames, `[..., A]` anchors, `[..., P]` pairs.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, section 2.2; Gu et
al., Using Videos to Evaluate Image Model Robustness, 2019, for `conditional_accuracy`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.estimates.comparison import paired_difference
from robustness.estimates.intervals import clopper_pearson
from robustness.metrics.accuracy import proportion
from robustness.metrics.shares import cluster_rates, mean_difference
from robustness.neighbor_sets.metadata import FRAME, NeighborSets
from robustness.results import Number

_NEVER = np.iinfo(np.int32).max


@dataclasses.dataclass(frozen=True)
class Outcomes:
  """What models got right.

  Attributes:
    anchor: bool [..., A].
    neighbor: bool [..., P], one entry a pair of an anchor and a neighbor.
    group: int [P], position of each pair's anchor, ascending.
    offset: int [P], signed distance from the anchor in frames, never 0.
  """

  anchor: np.ndarray
  neighbor: np.ndarray
  group: np.ndarray
  offset: np.ndarray

  def __post_init__(self) -> None:
    pairs = self.neighbor.shape[-1]
    if not len(self.group) == len(self.offset) == pairs:
      raise InputError(
        f'{pairs} outcomes, {len(self.group)} groups and {len(self.offset)} '
        'offsets: give one of each a pair.'
      )
    if pairs and (np.diff(self.group) < 0).any():
      raise InputError('pairs are not in the order of their anchors: sort them by group.')
    if pairs and not 0 <= self.group[0] <= self.group[-1] < self.anchor.shape[-1]:
      raise InputError(
        f'pairs of groups {self.group[0]}..{self.group[-1]} for {self.anchor.shape[-1]} anchors.'
      )

  @property
  def num_anchors(self) -> int:
    """A, the number of sets."""
    return self.anchor.shape[-1]

  def of_anchors(self, positions: ArrayLike) -> Outcomes:
    """Returns the outcomes of some anchors (ascending positions) with all of their pairs."""
    chosen = np.asarray(positions)
    place = np.full(self.num_anchors, -1)
    place[chosen] = np.arange(len(chosen))
    pairs = place[self.group] >= 0
    return Outcomes(
      self.anchor[..., chosen],
      self.neighbor[..., pairs],
      place[self.group[pairs]],
      self.offset[pairs],
    )

  def of_pairs(self, kept: np.ndarray) -> Outcomes:
    """Returns the outcomes with the pairs where `kept`, bool [P], holds; all anchors stay."""
    return Outcomes(self.anchor, self.neighbor[..., kept], self.group[kept], self.offset[kept])


def stacked(outcomes: Sequence[Outcomes]) -> Outcomes:
  """Returns the outcomes of several models on the same sets as one, models in the leading axis."""
  return Outcomes(
    np.stack([own.anchor for own in outcomes]),
    np.stack([own.neighbor for own in outcomes]),
    outcomes[0].group,
    outcomes[0].offset,
  )


def is_right(predictions: np.ndarray, labels: np.ndarray) -> np.ndarray:
  """Whether a prediction is any of the labels.

  Args:
    predictions: classes, integers [..., N].
    labels: integers [N, L], padded with −1.

  Returns:
    bool [..., N]; False for a negative prediction.
  """
  right = np.zeros(predictions.shape, bool)
  for column in labels.T:
    rows = np.flatnonzero(column >= 0)
    if len(rows) == len(column):
      right |= predictions == column
    else:  # few frames have a second label
      right[..., rows] |= predictions[..., rows] == column[rows]
  return right


def outcomes(sets: NeighborSets, predictions: np.ndarray, rule: str = FRAME) -> Outcomes:
  """Returns what models got right on neighbor sets.

  Args:
    sets: F frames, their labels and sets.
    predictions: classes, integers [..., F], in the order of `sets.frames`.
    rule: whose labels count for a neighbor, 'frame' or 'anchor' (`NeighborSets.pair_labels`).

  Raises:
    InputError: not one prediction a frame, or see `pair_labels`.
  """
  if predictions.shape[-1] != len(sets.frames):
    raise InputError(f'{predictions.shape[-1]} predictions for {len(sets.frames)} frames.')
  pairs = sets.pairs
  if rule == FRAME and not sets.has_bare_neighbors:
    right = is_right(predictions, sets.labels)
    return Outcomes(right[..., sets.anchors], right[..., pairs.frame], pairs.group, pairs.offset)
  return Outcomes(
    is_right(predictions[..., sets.anchors], sets.labels[sets.anchors]),
    is_right(predictions[..., pairs.frame], sets.pair_labels(rule)),
    pairs.group,
    pairs.offset,
  )


def effective_k(sets: NeighborSets, k: int) -> int:
  """Returns k, or the largest distance of a neighbor from its anchor (1 at least) if k is above.

  Beyond that distance pm-k no longer changes, and would only be called by another k.
  """
  return min(k, max(1, int(np.abs(sets.pairs.offset).max(initial=0))))


def failure_distance(outcomes: Outcomes) -> np.ndarray:
  """Returns the distance of the nearest wrong neighbor, int [..., A]; the largest int for none.

  All of pm-k follows from it: a set's neighbors within k are right where it is above k.
  """
  distance = np.abs(outcomes.offset).astype(np.int32)
  return _least_in_group(np.where(outcomes.neighbor, _NEVER, distance), outcomes)


def _least_in_group(values: np.ndarray, outcomes: Outcomes) -> np.ndarray:
  """Returns the least value [..., A] of the pairs of each anchor; the largest int for none."""
  least = np.full((*values.shape[:-1], outcomes.num_anchors), _NEVER, np.int32)
  if len(outcomes.group):
    starts = np.flatnonzero(np.diff(outcomes.group, prepend=-1))
    least[..., outcomes.group[starts]] = np.minimum.reduceat(values, starts, axis=-1)
  return least


def worst_right(outcomes: Outcomes, k: int, include_anchor: bool = True) -> np.ndarray:
  """Whether every frame of a set within k frames is right, bool [..., A].

  Args:
    outcomes: of one model or of several.
    k: largest distance in frames; 0 leaves the anchor alone.
    include_anchor: whether the anchor must be right too. Without it a set that has no neighbor
      within k frames is still judged by its anchor.

  Raises:
    InputError: a negative k.
  """
  return _worst(outcomes, failure_distance(outcomes), k, include_anchor)


def _worst(outcomes: Outcomes, failure: np.ndarray, k: int, include_anchor: bool) -> np.ndarray:
  if k < 0:
    raise InputError(f'k = {k} is negative: give the largest distance from the anchor in frames.')
  if include_anchor:
    return outcomes.anchor & (failure > k)
  nearest = _least_in_group(np.abs(outcomes.offset).astype(np.int32), outcomes)
  return np.where(nearest <= k, failure > k, outcomes.anchor)


def pm_k_counts(outcomes: Outcomes, largest: int, include_anchor: bool = True) -> np.ndarray:
  """Returns how many sets are right at pm-0, pm-1, ..., pm-`largest`, int [..., largest + 1]."""
  failure = failure_distance(outcomes)
  return np.stack(
    [_worst(outcomes, failure, k, include_anchor).sum(-1) for k in range(largest + 1)], -1
  )


def drop(
  outcomes: Outcomes, k: int, include_anchor: bool = True, confidence: float = 0.95
) -> Number:
  """Returns acc_orig − acc_pm-k of one model.

  With the anchor in the set the drop is the fraction of sets whose anchor is right and one of whose
  neighbors is wrong: it cannot be negative, and has Clopper and Pearson's interval. Without, it is
  a difference in [−1, 1], with Bonett and Price's paired interval.
  """
  worst = worst_right(outcomes, k, include_anchor)
  if include_anchor:
    return proportion(int((outcomes.anchor & ~worst).sum()), outcomes.num_anchors, confidence)
  fallen, risen = (outcomes.anchor & ~worst).sum(), (~outcomes.anchor & worst).sum()
  value, low, high = paired_difference(fallen, risen, outcomes.num_anchors, confidence)
  return Number(
    float(value),
    float(low),
    float(high),
    outcomes.num_anchors,
    f'paired bonett-price {confidence:g}',
  )


def drop_difference(
  first: ArrayLike, second: ArrayLike, include_anchor: bool = True, confidence: float = 0.95
) -> Number:
  """Returns the second model's drop minus the first's on the same sets; negative is more robust.

  Args:
    first: [A], of each set whether the anchor is right minus whether the worst of its frames is.
    second: the same of the second model.
    include_anchor: whether the anchor is among these frames; then both are in {0, 1}, else in
      {−1, 0, 1}.
    confidence: of Bonett and Price's interval; see `shares.mean_difference`.
  """
  more = np.subtract(second, first, dtype=float)
  largest = 1.0 if include_anchor else 2.0
  rises, falls = np.maximum(more, 0) / largest, np.maximum(-more, 0) / largest
  return mean_difference(rises, falls, largest, confidence, largest)


class OffsetErrors(NamedTuple):
  """Errors by signed distance from the anchor.

  Attributes:
    offset: int [O], ascending; 0 is the anchors.
    wrong: int [..., O], number of wrong frames there.
    n: int [O], number of frames there.
  """

  offset: np.ndarray
  wrong: np.ndarray
  n: np.ndarray

  def rate(self, confidence: float = 0.95) -> tuple[np.ndarray, Any, Any]:
    """Returns (error, low, high), [..., O] each, with Clopper–Pearson intervals."""
    return (self.wrong / self.n, *clopper_pearson(self.wrong, self.n, confidence))


def error_by_offset(outcomes: Outcomes) -> OffsetErrors:
  """Returns how often frames at each offset are wrong (the paper's figure 5)."""
  offsets, place, n = np.unique(outcomes.offset, return_inverse=True, return_counts=True)
  member = np.zeros((len(place), len(offsets)))
  member[np.arange(len(place)), place] = 1
  wrong = (~outcomes.neighbor).astype(float) @ member
  zero = np.searchsorted(offsets, 0)
  anchors = (~outcomes.anchor).sum(-1)
  return OffsetErrors(
    np.insert(offsets, zero, 0),
    np.insert(np.rint(wrong).astype(int), zero, anchors, axis=-1),
    np.insert(n, zero, outcomes.num_anchors),
  )


def static_choice(outcomes: Outcomes) -> np.ndarray:
  """Returns for each anchor the pair whose neighbor most models get wrong, int [A].

  Among equals the nearest to the anchor is taken, then the earlier one. −1 stands for a set
  without neighbors.

  Args:
    outcomes: outcomes of several models, neighbor [M, P].

  Reference:
    Shankar et al., appendix C.
  """
  if outcomes.neighbor.ndim != 2:
    raise InputError(
      f'outcomes have shape {outcomes.neighbor.shape}: a static set is chosen by '
      'several models, [M, P].'
    )
  wrong = (~outcomes.neighbor).sum(0)
  order = np.lexsort((outcomes.offset, np.abs(outcomes.offset), -wrong, outcomes.group))
  choice = np.full(outcomes.num_anchors, -1)
  first = np.flatnonzero(np.diff(outcomes.group[order], prepend=-1))
  choice[outcomes.group[order[first]]] = order[first]
  return choice


def static_right(outcomes: Outcomes, choice: np.ndarray) -> np.ndarray:
  """Whether the chosen neighbor of each anchor is right, bool [..., A]; for −1 the anchor."""
  if not len(outcomes.group):
    return outcomes.anchor
  return np.where(choice >= 0, outcomes.neighbor[..., choice], outcomes.anchor)


class Conditional(NamedTuple):
  """P(f(I_k) = y | f(I_0) = y) by k = 1..K, of each anchor that is right.

  Attributes:
    right: int [..., A, K], pairs at exactly k frames that are right and whose anchor is right.
    n: int [..., A, K], pairs at exactly k frames whose anchor is right: 0, 1 or 2.
  """

  right: np.ndarray
  n: np.ndarray

  def rate(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns (accuracy, low, high) of one model, [K] each, with the anchors as clusters."""
    return cluster_rates(self.right, self.n, confidence)


def conditional_accuracy(outcomes: Outcomes, largest: int) -> Conditional:
  """Returns the accuracy at exactly k frames given a right anchor, over both directions.

  Reference:
    Gu et al. 2019, as in Shankar et al., appendix E.
  """
  given = outcomes.anchor[..., outcomes.group]
  distance = np.abs(outcomes.offset)
  shape = (*outcomes.anchor.shape, largest)
  right, n = np.zeros(shape, int), np.zeros(shape, int)
  for k in range(1, largest + 1):
    at = np.flatnonzero(distance == k)
    place: Any = (..., outcomes.group[at], k - 1)
    np.add.at(n, place, given[..., at])
    np.add.at(right, place, (given & outcomes.neighbor)[..., at])
  return Conditional(right, n)
