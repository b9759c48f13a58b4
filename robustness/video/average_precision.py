r"""Average precision of detections, and its pm-k: mAP on the worst frame of each neighbor set.

The detections of an image and class claim ground-truth boxes in order of falling score: each claims
the unclaimed box of largest intersection over union (IoU), and is a true positive if that IoU is at
least the threshold. With r_i the recall after i detections, p(r) the precision at recall r, made
monotone as p*(r) = max over r' ≥ r of p(r'),

  AP = Σ_i (r_i − r_{i−1}) p*(r_i)              (the area, as Pascal VOC since 2010), or
  AP = mean over t = 0, 1/(n − 1), ..., 1 of p*(t)   (n = 11: VOC 2007; n = 101: COCO).

mAP is the mean over the classes that have ground truth. pm-k replaces the anchor of each set by its
frame of least per-image AP, the mean over the classes in a frame of the AP of this frame alone;
ties go to the frame nearest to the anchor. Localisation scores `Boxes.without_classes`.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, section 2.2 and
appendix L.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
import pandas as pd

from robustness.core.settings import require
from robustness.estimates.means import Estimate, known_mean
from robustness.estimates.of_means import Units, bootstrap, unless_equal
from robustness.video.boxes import Boxes
from robustness.video.metadata import NeighborSets, first_of_each_set

RESAMPLES = 500
"""Resamples of the bootstrap."""
MAX_DETECTIONS = 100
"""Detections of one image and class that are scored; the highest scores are taken."""


def overlap(first: np.ndarray, second: np.ndarray) -> np.ndarray:
  """Returns the intersection over union of all pairs of boxes, [N, M].

  Args:
    first: [N, 4], corners x0, y0, x1, y1.
    second: [M, 4], corners x0, y0, x1, y1.
  """
  low = np.maximum(first[:, None, :2], second[None, :, :2])  # x0 and y0 of the intersections
  high = np.minimum(first[:, None, 2:], second[None, :, 2:])
  intersection = np.clip(high - low, 0, None).prod(-1)  # areas, [N, M]; 0 for disjoint boxes
  first_area = (first[:, 2:] - first[:, :2]).prod(-1)
  second_area = (second[:, 2:] - second[:, :2]).prod(-1)
  union = first_area[:, None] + second_area[None] - intersection
  return intersection / union


@dataclasses.dataclass(frozen=True)
class Matches:
  """D detections in F images, each matched to a ground-truth box or not.

  They are sorted by descending score. At most `MAX_DETECTIONS` detections of one class in an image
  are included, and none of classes without ground truth.

  Attributes:
    index: int [D], index of each detection in the detector's original boxes.
    image: int [D], image of each detection.
    category: int [D], class of each detection.
    right: bool [D], whether the detection is a true positive.
    num_truths: int [F, C], number of ground-truth boxes of each image and class.
    categories: int [C], the classes that have ground truth, ascending.
  """

  index: np.ndarray
  image: np.ndarray
  category: np.ndarray
  right: np.ndarray
  num_truths: np.ndarray
  categories: np.ndarray


def match(truth: Boxes, detections: Boxes, num_images: int, threshold: float = 0.5) -> Matches:
  """Matches detections to ground-truth boxes, to find the true positives.

  Detections are taken in order of descending score. Each is compared with the unmatched boxes of
  its image and class. It is matched to the one with the largest intersection over union (IoU), if
  this is at least `threshold`, and is then a true positive.

  Args:
    truth: ground-truth boxes.
    detections: detected boxes, with scores.
    num_images: number F of images.
    threshold: least IoU of a true positive, in (0, 1].
  """
  assert detections.score is not None
  categories, column = np.unique(truth.category, return_inverse=True)
  num_truths = np.zeros((num_images, len(categories)), int)
  np.add.at(num_truths, (truth.image, column), 1)  # counts the boxes of each image and class
  truth_of = _by_image_and_class(truth, np.arange(len(truth.image)))
  by_falling_score = np.argsort(-detections.score, kind='stable')
  is_right = np.zeros(len(detections.image), bool)
  is_scored = np.zeros(len(detections.image), bool)
  # `members` are the detections of an image and class
  for image_and_class, members in _by_image_and_class(detections, by_falling_score).items():
    best = members[:MAX_DETECTIONS]  # the highest scores of the image and class
    is_scored[best] = True
    if image_and_class in truth_of:
      objects = truth.corners[truth_of[image_and_class]]
      is_right[best] = _claims_truth(detections.corners[best], objects, threshold)
  is_scored &= np.isin(detections.category, categories)  # only classes with ground truth
  # over all images, by falling score; detections of equal score by image, then by class (`lexsort`
  # takes the main key last)
  order = np.lexsort((detections.category, detections.image, -detections.score))
  scored = order[is_scored[order]]  # indices of the scored detections in this order
  image, category = detections.image[scored], detections.category[scored]
  return Matches(scored, image, category, is_right[scored], num_truths, categories)


def _by_image_and_class(
  boxes: Boxes | Matches, order: np.ndarray
) -> dict[tuple[int, int], np.ndarray]:
  """Groups N boxes by image and class: {(image, class): indices of its boxes}.

  Args:
    boxes: the boxes.
    order: A permutation of 0, ..., N − 1, which sorts the indices within groups.
  """
  keys = pd.DataFrame({'image': boxes.image[order], 'category': boxes.category[order]})
  rows_by_key = keys.groupby(['image', 'category']).indices
  return {key: order[rows] for key, rows in rows_by_key.items()}


def _claims_truth(detections: np.ndarray, truth: np.ndarray, threshold: float) -> np.ndarray:
  """Returns whether each detection is a true positive, bool [N], in one image and class.

  Each detection in turn is matched to the unmatched ground-truth box with the largest intersection
  over union (IoU), if this is at least `threshold`.

  Args:
    detections: corners of the detections, by descending score, [N, 4].
    truth: corners of the ground-truth boxes, [M, 4].
    threshold: least IoU of a true positive.
  """
  ious = overlap(detections, truth)
  right = np.zeros(len(detections), bool)
  for row, overlaps in enumerate(ious):
    best = len(overlaps) - 1 - int(np.argmax(overlaps[::-1]))  # the last maximum, as in pycocotools
    if overlaps[best] >= threshold:
      right[row] = True
      ious[:, best] = -1  # no other detection can claim this box
  return right


def average_precisions(matches: Matches, recall_points: int, counts: np.ndarray) -> np.ndarray:
  """Returns the average precision (AP) of each class in bootstrap resamples, float [B, C].

  The AP is NaN for a class without ground truth in the images of a resample.

  Args:
    matches: detections in F images.
    recall_points: 0 for the area under the precision-recall curve, else the number of recall
      thresholds, 11 (VOC 2007) or 101 (COCO).
    counts: how often each image occurs in each of B resamples, [B, F].
  """
  precision = np.full((len(counts), len(matches.categories)), np.nan)
  for column, category in enumerate(matches.categories):
    total = counts @ matches.num_truths[:, column]  # ground-truth boxes of the class, [B]
    members = matches.category == category
    image, right = matches.image[members], matches.right[members]
    # one resample at a time: [B, detections] may not fit in memory
    for row in np.flatnonzero(total > 0):
      precision[row, column] = _weighted_average_precision(
        right, counts[row, image], total[row], recall_points
      )
  return precision


def _weighted_average_precision(
  right: np.ndarray, weight: np.ndarray, total: float, recall_points: int
) -> float:
  """Returns the average precision of one class, from detections by descending score.

  Args:
    right: bool [D], whether each detection is a true positive.
    weight: float [D], how often the image of each detection occurs in a resample.
    total: number of ground-truth boxes, each counted as often as its image occurs.
    recall_points: 0 for the area under the precision-recall curve, else the number of recall
      thresholds.
  """
  # the numbers of true positives and of all detections with at least the score of each detection
  num_right, num_detections = np.cumsum(weight * right), np.cumsum(weight)
  recall = num_right / total
  zeros = np.zeros(len(num_detections))
  precision = np.divide(num_right, num_detections, out=zeros, where=num_detections > 0)
  precision = np.maximum.accumulate(precision[::-1])[::-1]  # the largest at this recall or above
  if not recall_points:
    return float(np.diff(recall, prepend=0) @ precision)
  thresholds = np.linspace(0, 1, recall_points)
  # index of the first detection at which each threshold is reached; D, the index of the appended
  # precision 0, if it is never reached
  reached_at = np.searchsorted(recall, thresholds, side='left')
  return float(np.append(precision, 0)[reached_at].mean())


def per_image(matches: Matches, recall_points: int = 0) -> np.ndarray:
  """Returns the average precision (AP) of each image alone, float [F].

  It is averaged over the classes of the image's ground-truth boxes, and NaN without any.

  Args:
    matches: detections in F images.
    recall_points: 0 for the area under the precision-recall curve, else the number of recall
      thresholds.
  """
  precision = np.full(len(matches.num_truths), np.nan)
  detections_of = _by_image_and_class(matches, np.arange(len(matches.image)))
  for image in np.flatnonzero(matches.num_truths.sum(1)).tolist():
    precisions = []
    for column in np.flatnonzero(matches.num_truths[image]):  # of each class with ground truth
      category = int(matches.categories[column])
      members = detections_of.get((image, category), np.zeros(0, int))
      right, total = matches.right[members], matches.num_truths[image, column]
      weight = np.ones(len(members))  # every detection counts once
      precisions.append(_weighted_average_precision(right, weight, total, recall_points))
    precision[image] = np.mean(precisions)
  return precision


def worst_frames(
  sets: NeighborSets, precision: np.ndarray, k: int, include_anchor: bool = True
) -> np.ndarray:
  """Returns the frame with the least average precision in each neighbor set, int [A].

  A neighbor set is an anchor (labelled frame) with nearby frames. Ties go to the frame nearest to
  the anchor, then to the earlier one. If no frame has an average precision, the anchor is returned.

  Args:
    sets: the A neighbor sets.
    precision: average precision of each frame alone, [F]; NaN without ground truth.
    k: largest distance from the anchor in frames.
    include_anchor: whether the anchor may be the worst frame.
  """
  worst = sets.anchors.copy()
  # the set of each frame, the frame, and its offset from the anchor in frames, each [P]
  group, frame, offset = sets.pairs
  if include_anchor:
    group = np.append(group, np.arange(len(worst)))
    frame, offset = np.append(frame, sets.anchors), np.append(offset, np.zeros_like(worst))
  is_candidate = (np.abs(offset) <= k) & np.isfinite(precision[frame])
  group, frame, offset = group[is_candidate], frame[is_candidate], offset[is_candidate]
  first = first_of_each_set(group, precision[frame], np.abs(offset), offset)
  worst[group[first]] = frame[first]
  return worst


@dataclasses.dataclass(frozen=True)
class Scoring:
  """Settings for scoring detections on anchors and their neighboring frames.

  An anchor is a labelled video frame.

  Attributes:
    k: largest distance from the anchor in frames.
    threshold: least IoU (intersection over union) of a true positive, in (0, 1].
    recall_points: 0 for the area under the precision-recall curve, else the number of recall
      thresholds, 11 (VOC 2007) or 101 (COCO).
    include_anchor: whether the anchor may be the worst frame.
    confidence: confidence level of intervals, in (0, 1).
  """

  k: int = 10
  threshold: float = 0.5
  recall_points: int = 0
  include_anchor: bool = True
  confidence: float = 0.95

  def __post_init__(self) -> None:
    """Raises InputError for a setting that is out of range."""
    require(self.k >= 1, 'k', self.k, 'at least 1')
    require(0 < self.threshold <= 1, 'threshold', self.threshold, 'an IoU in (0, 1], such as 0.5')
    count, valid = self.recall_points, '0 for the area, or a number of thresholds such as 11 or 101'
    require(count == 0 or count > 1, 'recall_points', count, valid)
    require(0 < self.confidence < 1, 'confidence', self.confidence, 'in (0, 1)')


class DetectionScores(NamedTuple):
  """Mean average precision (mAP) of a detector on anchors and on the worst nearby frames.

  An anchor is a labelled video frame; a neighbor set is an anchor with nearby frames.

  Attributes:
    anchor: mAP on anchors, with a bootstrap interval over videos.
    worst: mAP on the worst frame of each neighbor set, with a bootstrap interval over videos.
    drop: the difference anchor − worst, with a paired bootstrap interval.
    frames: int [A], index of the worst frame of each set in `NeighborSets.frames`.
    per_image: float [F], average precision of each frame alone; NaN without ground truth.
  """

  anchor: Estimate
  worst: Estimate
  drop: Estimate
  frames: np.ndarray
  per_image: np.ndarray


def detection_pm_k(
  sets: NeighborSets, truth: Boxes, detections: Boxes, scoring: Scoring
) -> DetectionScores:
  """Returns mean average precision (mAP) on anchors and on worst nearby frames (pm-k).

  An anchor is a labelled video frame. Its worst frame has the least average precision among the
  frames within ±k frames of it.

  Args:
    sets: the neighbor sets: anchors with nearby frames.
    truth: ground-truth boxes; `truth.image` is the index of a box's frame in `sets.frames`.
    detections: detected boxes; `detections.image` is an index in `sets.frames` too.
    scoring: k, the threshold, and other settings.
  """
  points = scoring.recall_points

  def matches_on(images: np.ndarray) -> Matches:
    """Matches detections to ground truth on the frames with the given indices.

    A frame may be listed twice, and then counts twice.
    """
    boxes, detected = truth.of_images(images), detections.of_images(images)
    return match(boxes, detected, len(images), scoring.threshold)

  precision = per_image(match(truth, detections, len(sets.frames), scoring.threshold), points)
  frames = worst_frames(sets, precision, scoring.k, scoring.include_anchor)
  on_anchors, on_worst = matches_on(sets.anchors), matches_on(frames)
  videos = np.arange(len(frames)) if sets.videos is None else sets.videos

  def statistic(weights: np.ndarray) -> np.ndarray:
    """Computes mean average precision (mAP) in B bootstrap samples of videos, for `bootstrap`.

    Args:
      weights: [B, V], weights of V videos in each sample, with the sum 1.

    Returns:
      mAP on anchors (labelled frames), on the worst frames of their sets, and the difference, [B,
      3].
    """
    # How often each set is drawn, [B, A]: as often as its video, V · weight times. Rounded, because
    # recalls of whole numbers meet the recall thresholds exactly.
    counts = np.rint(weights.shape[1] * weights)[:, videos]
    anchor = known_mean(average_precisions(on_anchors, points, counts))
    worst = known_mean(average_precisions(on_worst, points, counts))
    return np.stack([anchor, worst, anchor - worst], -1)

  num_sets = np.bincount(videos)[:, None].astype(float)  # of each video, [V, 1]
  # Videos are resampled. `bootstrap` reads only their weights, which are their numbers of sets.
  units = Units(num_sets, weight=num_sets, n=len(frames), images=len(frames) / len(num_sets))
  estimates = bootstrap(statistic, units, scoring.confidence, resamples=RESAMPLES)
  anchor, worst, drop = map(unless_equal, estimates)
  return DetectionScores(anchor, worst, drop, frames, precision)
