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
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import ACCURACY
from robustness.video.columns import sorted_names, whole_numbers
from robustness.video.metadata import FRAME, FRAME_TYPES, NeighborSets, first_of_each_set
from robustness.video.ytbb_robust import VIDEOS

BLOCK = 64
"""Rows that `row_images` reads at once."""
_NEVER = np.iinfo(np.int32).max
"""Distance in frames of a failure that does not occur, larger than any distance."""


@dataclasses.dataclass(frozen=True)
class SetOutcomes:
  """Correctness of the predictions of models on A neighbor sets with P pairs in all.

  A neighbor set is an anchor video frame with similar frames, its neighbors. A pair is an anchor
  with one neighbor.

  Attributes:
    is_anchor_right: bool [..., A], whether the prediction for each anchor is right.
    is_neighbor_right: bool [..., P], whether the prediction for each pair's neighbor is right.
    group: int [P], index in [0, A) of each pair's neighbor set, ascending.
    offset: int [P], frame number of the neighbor minus the frame number of the anchor, never 0.
    videos: int [A], index of each set's video; intervals are clustered by video. None if every set
      has its own video.
    models: labels of the models on the leading axis; () if there is no such axis.
  """

  is_anchor_right: np.ndarray
  is_neighbor_right: np.ndarray
  group: np.ndarray
  offset: np.ndarray
  videos: np.ndarray | None = None
  models: tuple[str, ...] = ()

  @property
  def num_anchors(self) -> int:
    """The number of anchors, A, which is also the number of neighbor sets."""
    return self.is_anchor_right.shape[-1]

  @property
  def mistakes(self) -> np.ndarray:
    """Whether the anchor of each pair is predicted correctly and the neighbor wrongly, [..., P]."""
    return self.is_anchor_right[..., self.group] & ~self.is_neighbor_right

  @functools.cached_property
  def offsets(self) -> np.ndarray:
    """The distinct frame offsets from the anchor in all sets, int [O], ascending, with 0."""
    return np.unique(np.append(self.offset, 0))

  @functools.cached_property
  def has_frame(self) -> np.ndarray:
    """Whether each neighbor set has a frame at each offset in `offsets`, bool [A, O]."""
    return self.by_offset(np.ones_like(self.group, bool), np.ones(self.num_anchors, bool))

  def by_offset(self, of_pairs: np.ndarray, of_anchors: np.ndarray) -> np.ndarray:
    """Arranges values of pairs and anchors in an array with an axis of frame offsets.

    Args:
      of_pairs: bool [..., P], a value for each pair of an anchor (labelled frame) and a neighbor.
      of_anchors: bool [..., A], a value for each anchor, placed at offset 0.

    Returns:
      bool [..., A, O] for the O offsets in `offsets`; False where a set has no frame.
    """
    table = np.zeros((*of_anchors.shape, len(self.offsets)), bool)
    table[..., self.group, np.searchsorted(self.offsets, self.offset)] = of_pairs
    table[..., np.searchsorted(self.offsets, 0)] = of_anchors
    return table

  def of_model(self, index: int) -> SetOutcomes:
    """Returns the outcomes of the model at position `index`, without the axis of models."""
    anchor, neighbor = self.is_anchor_right[index], self.is_neighbor_right[index]
    return dataclasses.replace(self, is_anchor_right=anchor, is_neighbor_right=neighbor, models=())

  def of_anchors(self, positions: np.ndarray) -> SetOutcomes:
    """Selects some neighbor sets: anchors (labelled frames) together with all their pairs.

    A pair is an anchor and a frame near it. `self` says whether models are right on each frame.

    Args:
      positions: indices of the selected anchors, ascending. The anchors of the result are
        renumbered from 0.
    """
    selected = self.of_pairs(np.isin(self.group, positions))
    group = np.searchsorted(positions, selected.group)  # the index of each set in `positions`
    videos = None if self.videos is None else self.videos[positions]
    anchor = self.is_anchor_right[..., positions]
    return dataclasses.replace(selected, is_anchor_right=anchor, group=group, videos=videos)

  def of_pairs(self, is_selected: np.ndarray) -> SetOutcomes:
    """Selects some pairs of an anchor and a neighbor; all anchors remain.

    Args:
      is_selected: bool [P], whether to keep each pair.
    """
    right = self.is_neighbor_right[..., is_selected]
    group, offset = self.group[is_selected], self.offset[is_selected]
    return dataclasses.replace(self, is_neighbor_right=right, group=group, offset=offset)

  def as_one_model(self, label: str) -> SetOutcomes:
    """Flattens the axis of M models: one model on M · A neighbor sets instead of M models on A.

    The sets of the first model come first, then the sets of the second, and so on. Copies of a set
    keep the index of its video, so that intervals treat them as dependent.

    Args:
      label: label of the resulting model.
    """
    num_models = len(self.models)
    # the index of each model's first set in the result, [M, 1]
    first_set = self.num_anchors * np.arange(num_models)[:, None]
    videos = np.arange(self.num_anchors) if self.videos is None else self.videos
    return SetOutcomes(
      is_anchor_right=self.is_anchor_right.reshape(1, -1),
      is_neighbor_right=self.is_neighbor_right.reshape(1, -1),
      group=(first_set + self.group).ravel(),  # [M, P] as one axis
      offset=np.tile(self.offset, num_models),
      videos=np.tile(videos, num_models),
      models=(label,),
    )

  @classmethod
  def stacked(cls, outcomes: Mapping[str, SetOutcomes]) -> SetOutcomes:
    """Stacks the outcomes of several models on the same neighbor sets along a new leading axis.

    Args:
      outcomes: {label of a model: its outcomes without a leading axis}.
    """
    models = list(outcomes.values())
    anchor = np.stack([model.is_anchor_right for model in models])
    neighbor = np.stack([model.is_neighbor_right for model in models])
    return dataclasses.replace(
      models[0], is_anchor_right=anchor, is_neighbor_right=neighbor, models=tuple(outcomes)
    )


def is_right(predictions: np.ndarray, labels: np.ndarray) -> np.ndarray:
  """Returns whether each prediction is one of the labels of its frame, bool [..., N].

  Args:
    predictions: predicted classes, integers [..., N]; −1 is no prediction and never right.
    labels: integers [N, L], the labels of each frame, padded with −1.
  """
  right = np.zeros(predictions.shape, bool)
  for label_of_frame in labels.T:  # the first label of all frames, then the second, and so on
    right |= (label_of_frame >= 0) & (predictions == label_of_frame)
  return right


def outcomes(sets: NeighborSets, predictions: np.ndarray, rule: str = FRAME) -> SetOutcomes:
  """Compares predictions with the labels of anchors (labelled frames) and neighbors.

  Args:
    sets: neighbor sets with F frames in all.
    predictions: class indices [..., F], in the order of `sets.frames`; −1 is never right.
    rule: which labels count as right on a neighbor, 'frame' for its labels or 'anchor' for the
      labels of its anchor.
  """
  pairs = sets.pairs
  anchor = is_right(predictions[..., sets.anchors], sets.labels[sets.anchors])
  neighbor = is_right(predictions[..., pairs.frame], sets.pair_labels(rule))
  return SetOutcomes(anchor, neighbor, group=pairs.group, offset=pairs.offset, videos=sets.videos)


def pm_k(
  correct: ArrayLike,
  anchor_id: ArrayLike,
  offset: ArrayLike,
  k: int,
  *,
  clusters: ArrayLike | None = None,
  confidence: float = 0.95,
) -> Estimate:
  """Returns accuracy pm-k with a confidence interval (Shankar et al. 2021, section 2).

  A neighbor set is an anchor (a video frame) with its neighbors (similar frames nearby). pm-k is
  the fraction of sets in which the anchor (labelled frame) and all neighbors at most k frames away
  are predicted correctly.

  Args:
    correct: whether the prediction for each frame is right, bool [N].
    anchor_id: neighbor set of each frame, integers or strings [N].
    offset: signed distance from the anchor in frames, int [N]; 0 for exactly one frame of each set,
      the anchor.
    k: largest distance in frames of a neighbor that is used.
    clusters: video of each frame, integers or strings [N]. If given, the interval treats sets of
      the same video as dependent.
    confidence: confidence level of the interval, in (0, 1).

  Raises:
    InputError: the arrays differ in length, `correct` has values other than True and False,
      `offset` or `k` is not an integer, `k` is negative, identifiers are missing or mix numbers
      with strings, or a set does not have exactly one anchor and one video.
  """
  right, sets, offsets = np.asarray(correct), np.asarray(anchor_id), np.asarray(offset)
  if not np.isin(right, (0, 1)).all():
    raise InputError('correct has values other than True and False: give predictions == labels.')
  right = right.astype(bool)
  if not right.shape == sets.shape == offsets.shape or right.ndim != 1 or not len(right):
    raise InputError(
      f'correct, anchor_id and offset have shapes {right.shape}, {sets.shape} and '
      f'{offsets.shape}: give one value per frame, [N].'
    )
  if not isinstance(k, int | np.integer) or k < 0:
    raise InputError(f'k is {k!r}; it must be an integer, at least 0.')
  offsets = whole_numbers('offset', offsets)
  videos = None if clusters is None else np.asarray(clusters)
  set_outcomes = _group_by_set(right, sets, offsets, videos)
  # a larger k selects no further neighbors, and would need more memory
  max_k = min(int(k), int(np.abs(offsets).max()))
  right_at_k = right_within(set_outcomes, max_k)[:, -1:]  # for the last of 0, 1, ..., max_k: [A, 1]
  # `mean` takes outcomes of classifiers in views: here of one, with the label '', in one view
  outcomes_at_k = Outcomes({'': right_at_k}, pd.DataFrame(index=[0]), clusters=set_outcomes.videos)
  (view,) = outcomes_at_k.groups()
  return mean(ACCURACY, outcomes_at_k, '', view, confidence)


def _group_by_set(
  right: np.ndarray, sets: np.ndarray, offset: np.ndarray, clusters: np.ndarray | None
) -> SetOutcomes:
  """Converts values of N frames to `SetOutcomes`, with neighbor sets sorted by name.

  Args:
    right: bool [N], whether the prediction for each frame is right.
    sets: [N], the name of each frame's neighbor set.
    offset: int [N], signed distance from the anchor (labelled frame) of the set.
    clusters: [N], the name of each frame's video; None if videos are unknown.

  Raises:
    InputError: a set does not have exactly one anchor and one video, or names cannot be sorted.
  """
  names, group = sorted_names('anchor_id', sets)
  num_anchors = np.bincount(group[offset == 0], minlength=len(names))  # of each set
  if (num_anchors != 1).any():
    bad = int(np.argmax(num_anchors != 1))
    raise InputError(
      f'the set {names[bad]} has {num_anchors[bad]} frames of offset 0; it needs one.'
    )
  frames_by_set = np.argsort(group, kind='stable')  # indices of the frames, set by set
  is_anchor = offset[frames_by_set] == 0
  anchors, neighbors = frames_by_set[is_anchor], frames_by_set[~is_anchor]
  outcomes = SetOutcomes(right[anchors], right[neighbors], group[neighbors], offset[neighbors])
  if clusters is None:
    return outcomes
  if clusters.shape != sets.shape:
    raise InputError(f'clusters has the shape {clusters.shape}; give a video per frame, [N].')
  _, video_of_frame = sorted_names('clusters', clusters)
  video_of_set = video_of_frame[anchors]
  has_other_video = video_of_frame != video_of_set[group]
  if has_other_video.any():
    name = names[group[has_other_video.argmax()]]
    raise InputError(f'clusters has several videos for the set {name}; all its frames are of one.')
  return dataclasses.replace(outcomes, videos=video_of_set)


def effective_k(sets: NeighborSets, k: int) -> int:
  """Limits k to the largest distance, in frames, between a neighbor and its anchor.

  Larger k do not change accuracy pm-k, which uses the neighbors at most k frames away. The result
  is at least 1.
  """
  return min(k, max(1, int(np.abs(sets.pairs.offset).max(initial=0))))


def right_within(outcomes: SetOutcomes, max_k: int, include_anchor: bool = True) -> np.ndarray:
  """Returns whether all frames within k frames of the anchor are predicted correctly, for many k.

  Args:
    outcomes: correctness of the predictions on A neighbor sets (an anchor with similar frames).
    max_k: the largest k.
    include_anchor: whether the anchor (labelled frame) must be right too. If not, only neighbors
      count; a set without neighbors within k frames is still judged by its anchor.

  Returns:
    bool [..., A, max_k + 1], where the last axis is k = 0, 1, ..., `max_k`.
  """
  k = np.arange(max_k + 1)
  distance = np.abs(outcomes.offset.astype(np.int32))  # [P]
  is_anchor_right = outcomes.is_anchor_right[..., None]
  distance_if_wrong = np.where(outcomes.is_neighbor_right, _NEVER, distance)
  nearest_wrong = _least_in_group(distance_if_wrong, outcomes)  # [..., A]
  are_neighbors_right = nearest_wrong[..., None] > k  # all of them within k frames
  if include_anchor:
    return is_anchor_right & are_neighbors_right
  has_neighbors = _least_in_group(distance, outcomes)[:, None] <= k  # within k frames
  return np.where(has_neighbors, are_neighbors_right, is_anchor_right)


def _least_in_group(values: np.ndarray, outcomes: SetOutcomes) -> np.ndarray:
  """Returns the minimum of `values` over the pairs of each anchor (labelled frame), int32 [..., A].

  The minimum of an anchor without pairs is `_NEVER`, the largest int32.

  Args:
    values: int32 [..., P], a value for each pair of an anchor and a neighbor.
    outcomes: assigns the pairs to anchors.
  """
  least = np.full((*values.shape[:-1], outcomes.num_anchors), _NEVER, np.int32)
  # the pairs of a set follow each other, so a minimum is over pairs from one start to the next
  starts = np.flatnonzero(np.diff(outcomes.group, prepend=-1))  # first pair of each set
  least[..., outcomes.group[starts]] = np.minimum.reduceat(values, starts, axis=-1)
  return least


def without_frame_types(outcomes: SetOutcomes, sets: NeighborSets) -> dict[str, SetOutcomes]:
  """Removes all frames of each compression type in turn, as in the paper's Table 7.

  The pairs of a removed anchor (labelled frame) are removed too.

  Args:
    outcomes: correctness of predictions on neighbor sets.
    sets: the neighbor sets, with the type ('i', 'p' or 'b') of each frame.

  Returns:
    {removed frame type: remaining outcomes}; {} if the frame types are unknown.
  """
  types = sets.frame_types
  if types is None:
    return {}
  neighbor_types, anchor_types = types[sets.pairs.frame], types[sets.anchors]
  remaining = {}
  for removed_type in FRAME_TYPES:
    kept_pairs = outcomes.of_pairs(neighbor_types != removed_type)
    kept_anchors = np.flatnonzero(anchor_types != removed_type)
    remaining[removed_type] = kept_pairs.of_anchors(kept_anchors)
  return remaining


def by_fps(outcomes: SetOutcomes, sets: NeighborSets) -> dict[int, SetOutcomes]:
  """Splits outcomes by the frame rate of the video, as in the paper's Table 8.

  Args:
    outcomes: correctness of predictions on neighbor sets.
    sets: the neighbor sets, with frames per second. Sets of unknown rate are left out.

  Returns:
    {frames per second, rounded down: outcomes}, for instance with the keys 25, 29 and 30; {} if all
    rates are unknown.
  """
  if sets.fps is None:
    return {}
  rates = np.floor(sets.fps[sets.anchors] + 1e-3)  # a measured 25 may be 24.999...
  return {
    int(rate): outcomes.of_anchors(np.flatnonzero(rates == rate))
    for rate in np.unique(rates[np.isfinite(rates)])
  }


def anchor_positions(before: NeighborSets, after: NeighborSets) -> np.ndarray:
  """Finds the anchors of reviewed neighbor sets among the anchors before the review.

  Args:
    before: neighbor sets before human reviewers removed bad anchors (labelled frames).
    after: neighbor sets after the review, with A' anchors.

  Returns:
    int [A'], the index of each anchor of `after` in `before.anchors`.

  Raises:
    InputError: an anchor of `after` is not an anchor of `before`.
  """
  index_of = {before.frames[anchor]: index for index, anchor in enumerate(before.anchors)}
  names = [after.frames[anchor] for anchor in after.anchors]
  missing = [name for name in names if name not in index_of]
  if missing:
    raise InputError(
      f'{len(missing)} of {len(names)} reviewed anchors are not among the unreviewed, '
      f'first {missing[0]!r}: config.unreviewed holds the sets before the review.'
    )
  return np.array([index_of[name] for name in names])


def static_pairs(outcomes: SetOutcomes) -> np.ndarray:
  """Selects the hardest neighbor of each anchor, the one that most models predict wrongly.

  An anchor is a labelled frame, and its neighbors, frames nearby, are its neighbor set. These
  neighbors form the static set of the paper's appendix C, one adversarial frame per anchor for all
  models. Ties are resolved by distance from the anchor, then in favor of the earlier frame.

  Args:
    outcomes: correctness of the predictions, with models on the leading axis. Its arrays over the P
      pairs of an anchor and a neighbor include `group`, the number of the pair's set.

  Returns:
    int array of indices of pairs, ascending by anchor. Anchors without neighbors have no pair.
  """
  num_wrong = (~outcomes.is_neighbor_right).sum(0)
  return first_of_each_set(outcomes.group, -num_wrong, np.abs(outcomes.offset), outcomes.offset)


def static_right(outcomes: SetOutcomes, pairs: np.ndarray) -> np.ndarray:
  """Returns whether each model is right on a fixed frame of each of A sets, bool [..., A].

  The fixed frame is the selected neighbor, or the anchor if no neighbor of it is selected.

  Args:
    outcomes: correctness of the predictions.
    pairs: indices of the selected pairs of an anchor and a neighbor, at most one per anchor, for
      instance from `static_pairs`.
  """
  right = outcomes.is_anchor_right.copy()
  right[..., outcomes.group[pairs]] = outcomes.is_neighbor_right[..., pairs]
  return right


def distances(image_of: Callable[[int], np.ndarray], sets: NeighborSets) -> np.ndarray:
  """Returns the ℓ∞ distance and RMS difference of each pair's images, float32 [P, 2].

  A pair is an anchor frame and one of its neighbors.

  Args:
    image_of: called with the index of a frame; returns its image, float [H, W, C] in [0, 1]. See
      `row_images` and `stored_images`.
    sets: neighbor sets with P pairs in all.

  Raises:
    InputError: the two images of a pair differ in shape.
  """
  anchor_frames = sets.anchors[sets.pairs.group]  # of each pair
  distance = np.zeros((len(anchor_frames), 2), np.float32)
  pairs = zip(anchor_frames.tolist(), sets.pairs.frame.tolist(), strict=True)
  for index, (anchor_frame, neighbor_frame) in enumerate(pairs):
    anchor, neighbor = image_of(anchor_frame), image_of(neighbor_frame)
    if anchor.shape != neighbor.shape:
      raise InputError(
        f'the frames {anchor_frame} and {neighbor_frame} of one set have the shapes '
        f'{anchor.shape} and {neighbor.shape}: give all frames of a video at one size.'
      )
    change = anchor - neighbor
    distance[index] = np.abs(change).max(), np.sqrt(np.mean(change**2))
  return distance


def row_images(rows: Rows) -> Callable[[int], np.ndarray]:
  """Returns a function from the index of a frame to its image as classifiers see it.

  Images are resized and cropped. They are read in blocks, and the last four blocks are cached,
  because the frames of a neighbor set are close to each other.

  Args:
    rows: data source with a row for each frame.
  """

  @functools.lru_cache(4)
  def block(number: int) -> np.ndarray:
    """Returns block `number` of images: at most `BLOCK` rows, float [rows, H, W, C]."""
    images: np.ndarray = next(rows.batches(BLOCK, [number]))['image']
    return images

  return lambda row: block(row // BLOCK)[row % BLOCK]


def stored_images(folder: str, paths: Sequence[str]) -> Callable[[int], np.ndarray]:
  """Returns a function from the index of a frame to its image file's content, without resizing.

  Args:
    folder: folder of the frames, or a folder that contains them in `ytbb_videos`.
    paths: path of each frame, relative to the folder of the frames.
  """
  root = expanded(folder)
  if (root / VIDEOS).is_dir():
    root = root / VIDEOS

  @functools.lru_cache(64)
  def image(row: int) -> np.ndarray:
    """Returns the image of a row, float32 [H, W, 3] in [0, 1]."""
    return as_float32(np.asarray(read_rgb(root / paths[row])))

  return image
