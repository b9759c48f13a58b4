r"""Accuracy on anchors and on the worst of their neighbors (acc_orig and pm-k).

With f the classifier, a_i the anchor of set i of A and N_k(a_i) its neighbors within k frames,

  acc_orig = 1/A Σ_i 1[f(a_i) right],   acc_pm-k = 1/A Σ_i min over b in N_k(a_i) of 1[f(b) right].

A frame is right if the prediction is any of its labels. By default N_k(a_i) includes the anchor, as
in the released scorer (`include_anchor`); Eq. 1 of the paper leaves it open. A set without
neighbors within k frames is judged by its anchor, so that pm-0 is acc_orig.

Arrays carry models in leading axes: `[..., F]` frames, `[..., A]` anchors, `[..., P]` pairs.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, section 2.2.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.core.pictures import read_rgb
from robustness.core.rows import Rows, as_float32
from robustness.estimates.means import Estimate, mean
from robustness.estimates.outcomes import Group, Outcomes
from robustness.estimates.quantity import ACCURACY
from robustness.video.metadata import FRAME, FRAME_TYPES, NeighborSets
from robustness.video.ytbb_robust import VIDEOS

BLOCK = 64  # rows that are read at once
_NEVER = np.iinfo(np.int32).max


@dataclasses.dataclass(frozen=True)
class SetOutcomes:
  """Correctness of models on the frames of neighbor sets.

  Attributes:
    anchor: bool [..., A], whether the prediction for each anchor is right.
    neighbor: bool [..., P], whether the prediction for the neighbor of each pair is right.
    group: int [P], position of each pair's anchor, ascending.
    offset: int [P], signed distance from the anchor in frames, never 0.
    videos: see `NeighborSets.videos`.
    models: labels of the models in the leading axis, if there is one.
  """

  anchor: np.ndarray
  neighbor: np.ndarray
  group: np.ndarray
  offset: np.ndarray
  videos: np.ndarray | None = None
  models: tuple[str, ...] = ()

  @property
  def num_anchors(self) -> int:
    """A, the number of sets."""
    return self.anchor.shape[-1]

  @property
  def mistakes(self) -> np.ndarray:
    """Whether the neighbor is wrong and its anchor right, bool [..., P]."""
    return self.anchor[..., self.group] & ~self.neighbor

  def of_model(self, place: int) -> SetOutcomes:
    """Returns the outcomes of one of the models, without the leading axis."""
    anchor, neighbor = self.anchor[place], self.neighbor[place]
    return dataclasses.replace(self, anchor=anchor, neighbor=neighbor, models=())

  def of_anchors(self, positions: np.ndarray) -> SetOutcomes:
    """Returns the outcomes of the anchors at ascending positions, with all of their pairs."""
    selected = self.of_pairs(np.isin(self.group, positions))
    group = np.searchsorted(positions, selected.group)
    videos = None if self.videos is None else self.videos[positions]
    anchor = self.anchor[..., positions]
    return dataclasses.replace(selected, anchor=anchor, group=group, videos=videos)

  def of_pairs(self, is_selected: np.ndarray) -> SetOutcomes:
    """Returns the outcomes of all anchors and of the selected pairs; `is_selected` is bool [P]."""
    pairs = {'group': self.group[is_selected], 'offset': self.offset[is_selected]}
    return dataclasses.replace(self, neighbor=self.neighbor[..., is_selected], **pairs)

  @classmethod
  def stacked(cls, outcomes: Mapping[str, SetOutcomes]) -> SetOutcomes:
    """Returns {label: outcomes of a model} on the same sets, joined along a leading axis."""
    models = list(outcomes.values())
    anchor, neighbor = np.stack([m.anchor for m in models]), np.stack([m.neighbor for m in models])
    return dataclasses.replace(models[0], anchor=anchor, neighbor=neighbor, models=tuple(outcomes))


def is_right(predictions: np.ndarray, labels: np.ndarray) -> np.ndarray:
  """Returns whether predictions [..., N] are any of the labels [N, L], padded with −1."""
  right = np.zeros(predictions.shape, bool)
  for column in labels.T:
    rows = np.flatnonzero(column >= 0)
    if len(rows) == len(column):
      right |= predictions == column
    else:  # comparing only the labelled rows is faster: few frames have a second label
      right[..., rows] |= predictions[..., rows] == column[rows]
  return right


def outcomes(sets: NeighborSets, predictions: np.ndarray, rule: str = FRAME) -> SetOutcomes:
  """Returns the correctness of predictions [..., F] on neighbor sets.

  `rule` is 'frame' or 'anchor', see `NeighborSets.pair_labels`.
  """
  if predictions.shape[-1] != len(sets.frames):
    raise InputError(f'{predictions.shape[-1]} predictions for {len(sets.frames)} frames.')
  pairs = sets.pairs
  anchor = is_right(predictions[..., sets.anchors], sets.labels[sets.anchors])
  neighbor = is_right(predictions[..., pairs.frame], sets.pair_labels(rule))
  return SetOutcomes(anchor, neighbor, pairs.group, pairs.offset, sets.videos)


def pm_k(
  correct: ArrayLike,
  anchor_id: ArrayLike,
  offset: ArrayLike,
  k: int,
  *,
  clusters: ArrayLike | None = None,
  confidence: float = 0.95,
) -> Estimate:
  """Returns accuracy pm-k (Shankar et al. 2021, section 2): the share of anchors for which all
  frames at most k frames away are right, the anchor included.

  Args:
    correct: Whether the prediction for each frame is right, bool [N].
    anchor_id: The neighbor set of each frame, [N] integers or words.
    offset: Signed distance from the anchor in frames, int [N]; 0 is the anchor, once in each set.
    k: Largest distance that counts.
    clusters: The video of each frame, [N]; the interval then takes anchors of a video together.
    confidence: Of the interval.

  Raises:
    InputError: arrays of other lengths, or a set without exactly one anchor.
  """
  right, sets, distance = np.asarray(correct, bool), np.asarray(anchor_id), np.asarray(offset)
  if not right.shape == sets.shape == distance.shape or right.ndim != 1 or not len(right):
    raise InputError(
      f'correct, anchor_id and offset have shapes {right.shape}, {sets.shape} and '
      f'{distance.shape}: give one value per frame, [N].'
    )
  names, group = np.unique(sets, return_inverse=True)
  count = np.bincount(group[distance == 0], minlength=len(names))
  if (count != 1).any():
    bad = int(np.argmax(count != 1))
    raise InputError(f'the set {names[bad]} has {count[bad]} frames of offset 0; it needs one.')
  order = np.argsort(group, kind='stable')
  anchors, pairs = order[distance[order] == 0], order[distance[order] != 0]
  frames = SetOutcomes(right[anchors], right[pairs], group[pairs], distance[pairs])
  units = (
    None if clusters is None else np.unique(np.asarray(clusters)[anchors], return_inverse=True)[1]
  )
  at_k = Outcomes({'': right_within(frames, k)[:, -1:]}, pd.DataFrame(index=[0]), clusters=units)
  return mean(ACCURACY, at_k, '', Group({}, np.zeros(1, int), np.ones(1)), confidence)


def effective_k(sets: NeighborSets, k: int) -> int:
  """Returns the smaller of k and the largest distance of a neighbor from its anchor, at least 1.

  Beyond the largest distance pm-k does not change.
  """
  return min(k, max(1, int(np.abs(sets.pairs.offset).max(initial=0))))


def right_within(outcomes: SetOutcomes, largest: int, include_anchor: bool = True) -> np.ndarray:
  """Returns whether all frames of a set within k frames are right, bool [..., A, largest + 1].

  The last axis is k = 0, 1, ..., `largest`. Without `include_anchor` a set that has no neighbor
  within k frames is still judged by its anchor.
  """
  k, distance = np.arange(largest + 1), np.abs(outcomes.offset).astype(np.int32)
  failure = _least_in_group(np.where(outcomes.neighbor, _NEVER, distance), outcomes)[..., None]
  if include_anchor:
    return outcomes.anchor[..., None] & (failure > k)
  nearest = _least_in_group(distance, outcomes)[:, None]
  return np.where(nearest <= k, failure > k, outcomes.anchor[..., None])


def _least_in_group(values: np.ndarray, outcomes: SetOutcomes) -> np.ndarray:
  """Returns the least value of the pairs of each anchor, [..., A]; `_NEVER` without pairs."""
  least = np.full((*values.shape[:-1], outcomes.num_anchors), _NEVER, np.int32)
  if len(outcomes.group):
    starts = np.flatnonzero(np.diff(outcomes.group, prepend=-1))
    least[..., outcomes.group[starts]] = np.minimum.reduceat(values, starts, axis=-1)
  return least


def by_offset(outcomes: SetOutcomes, of_pairs: np.ndarray, of_anchors: np.ndarray) -> np.ndarray:
  """Returns booleans of pairs [..., P] and anchors [..., A] as a table [..., A, O].

  The O offsets ascend, and anchors have offset 0. The table is False where a set has no frame.
  """
  offsets, place = np.unique(np.append(outcomes.offset, 0), return_inverse=True)
  table = np.zeros((*of_anchors.shape, len(offsets)), bool)
  table[..., outcomes.group, place[:-1]] = of_pairs
  table[..., place[-1]] = of_anchors
  return table


def without_frame_types(outcomes: SetOutcomes, sets: NeighborSets) -> dict[str, SetOutcomes]:
  """Returns {frame type: outcomes without frames of this type} (the paper's table 7).

  Anchors of the type are removed with their pairs. The dict is empty for sets without frame types.
  """
  types = sets.frame_types
  if types is None:
    return {}
  return {
    kind: outcomes.of_pairs(types[sets.pairs.frame] != kind).of_anchors(
      np.flatnonzero(types[sets.anchors] != kind)
    )
    for kind in FRAME_TYPES
  }


def by_fps(outcomes: SetOutcomes, sets: NeighborSets) -> dict[int, SetOutcomes]:
  """Returns {frames per second, rounded down: outcomes of the videos of this rate}.

  The paper's table 8 has 25, 29 (for 29.97) and 30. The dict is empty for sets without rates.
  """
  if sets.fps is None:
    return {}
  rates = np.floor(sets.fps[sets.anchors] + 1e-3)  # a measured 25 may be 24.999...
  return {
    int(rate): outcomes.of_anchors(np.flatnonzero(rates == rate))
    for rate in np.unique(rates[np.isfinite(rates)])
  }


def positions(before: NeighborSets, after: NeighborSets) -> np.ndarray:
  """Returns the position of each anchor of `after` among the anchors of `before`, int [A']."""
  place = {before.frames[anchor]: index for index, anchor in enumerate(before.anchors)}
  names = [after.frames[anchor] for anchor in after.anchors]
  missing = [name for name in names if name not in place]
  if missing:
    raise InputError(
      f'{len(missing)} of {len(names)} reviewed anchors are not among the unreviewed, '
      f'first {missing[0]!r}: config.unreviewed holds the sets before the review.'
    )
  return np.array([place[name] for name in names])


def static_pairs(outcomes: SetOutcomes) -> np.ndarray:
  """Returns the indices of the pairs in the static set (the paper's appendix C), ascending by set.

  Each set with neighbors has one: the neighbor that most models get wrong. Among equals it is the
  frame nearest to the anchor, then the earlier one.
  """
  num_wrong = (~outcomes.neighbor).sum(0)
  # np.lexsort sorts by its last key first: by set, then by the most wrong models, and so on
  order = np.lexsort((outcomes.offset, np.abs(outcomes.offset), -num_wrong, outcomes.group))
  _, first_of_set = np.unique(outcomes.group[order], return_index=True)
  return order[first_of_set]


def static_right(outcomes: SetOutcomes, pairs: np.ndarray) -> np.ndarray:
  """Returns whether models are right on the static set, bool [..., A].

  A set with one of the pairs contributes the neighbor of the pair, and any other set its anchor.
  """
  right = outcomes.anchor.copy()
  right[..., outcomes.group[pairs]] = outcomes.neighbor[..., pairs]
  return right


def distances(
  image_of: Callable[[int], np.ndarray],
  anchor_row: np.ndarray,
  pair_row: np.ndarray,
  pair_group: np.ndarray,
) -> np.ndarray:
  """Returns the distances of each pair's images, float32 [P, 2].

  They are the largest absolute difference of any value (ℓ∞) and the root of the mean squared
  difference (ℓ2 divided by the root of the number of values).

  Args:
    image_of: function from a row to its image in [0, 1]; see `row_images` and `stored_images`.
    anchor_row, pair_row: [A] and [P], the rows of anchors and of neighbors.
    pair_group: [P], the position of each pair's anchor.
  """
  distance = np.zeros((len(pair_row), 2), np.float32)
  for pair, (group, row) in enumerate(zip(pair_group, pair_row.tolist(), strict=True)):
    anchor, neighbor = image_of(int(anchor_row[group])), image_of(row)
    if anchor.shape != neighbor.shape:
      raise InputError(
        f'the frames {anchor_row[group]} and {row} of one set have the shapes {anchor.shape} and '
        f'{neighbor.shape}: give all frames of a video at one size.'
      )
    change = anchor - neighbor
    distance[pair] = np.abs(change).max(), np.sqrt(np.mean(change**2))
  return distance


def row_images(rows: Rows) -> Callable[[int], np.ndarray]:
  """Returns a function from a row to its image as classifiers see it.

  It caches a few blocks of rows, because the frames of a set have nearby rows.
  """

  @functools.lru_cache(4)
  def block(number: int) -> np.ndarray:
    images: np.ndarray = next(rows.batches(BLOCK, [number]))['image']
    return images

  return lambda row: block(row // BLOCK)[row % BLOCK]


def stored_images(folder: str, paths: Sequence[str]) -> Callable[[int], np.ndarray]:
  """Returns a function from a row to its stored image, without resize and crop.

  The `paths` begin in the folder, or in its folder `ytbb_videos` if there is one.
  """
  root = expanded(folder)
  root = root / VIDEOS if (root / VIDEOS).is_dir() else root

  @functools.lru_cache(64)
  def image(row: int) -> np.ndarray:
    return as_float32(np.asarray(read_rgb(root / paths[row])))

  return image
