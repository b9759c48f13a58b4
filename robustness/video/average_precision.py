r"""Average precision of detections, and its pm-k: mAP on the worst frame of each neighbor set.

A detection is a true positive if, among the detections of its image and class taken by falling
score, it is the first to claim a ground-truth box with intersection over union of at least the
threshold; it claims the unclaimed box of largest IoU. With precision p(r) made monotone, p*(r) =
max over r' ≥ r of p(r'),

  AP = Σ_i (r_i − r_{i−1}) p*(r_i)              (the area, as Pascal VOC since 2010), or
  AP = mean over t = 0, 1/(n − 1), ..., 1 of p*(t)   (n = 11: VOC 2007; n = 101: COCO).

mAP is the mean over the classes that have ground truth. pm-k replaces the anchor of each set by the
frame of the set with the least per-image AP, the mean over the classes present in that frame of the
AP of that frame alone; among equals the nearest to the anchor. Localisation is the same of
`Boxes.without_classes`.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, section 2.2 and
appendix L.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import pandas as pd

from robustness.core.errors import InputError
from robustness.core.settings import require
from robustness.estimates.means import Estimate
from robustness.estimates.of_means import Units, bootstrap
from robustness.video.boxes import Boxes
from robustness.video.metadata import NeighborSets

RESAMPLES = 500
MOST = 100
"""Detections of an image and class that are taken, those of largest score."""


def overlap(first: np.ndarray, second: np.ndarray) -> np.ndarray:
  """Returns intersection over union of boxes [N, 4] and [M, 4], float [N, M]."""
  low = np.maximum(first[:, None, :2], second[None, :, :2])
  high = np.minimum(first[:, None, 2:], second[None, :, 2:])
  common = np.clip(high - low, 0, None).prod(-1)
  areas = [(boxes[:, 2:] - boxes[:, :2]).prod(-1) for boxes in (first, second)]
  return common / (areas[0][:, None] + areas[1][None] - common)


@dataclasses.dataclass(frozen=True)
class Matches:
  """Detections of F images by falling score, and what each of them is.

  Attributes:
    index: int [D], position of each detection in the boxes given.
    image, category, right: [D]; `right` says whether it is a true positive.
    truths: int [F, C], ground-truth boxes of each image and class.
    categories: int [C], the classes that have ground truth, ascending.
  """

  index: np.ndarray
  image: np.ndarray
  category: np.ndarray
  right: np.ndarray
  truths: np.ndarray
  categories: np.ndarray


def match(truth: Boxes, detections: Boxes, num_images: int, threshold: float = 0.5) -> Matches:
  """Says which detections are true positives; `threshold` is the least IoU, in (0, 1]."""
  if detections.score is None:
    raise InputError('the detections have no scores: average precision needs them.')
  categories, place = np.unique(truth.category, return_inverse=True)
  truths = np.zeros((num_images, len(categories)), int)
  np.add.at(truths, (truth.image, place), 1)
  boxes_of = _grouped(truth, np.arange(len(truth.image)))
  right, kept = np.zeros(len(detections.image), bool), np.zeros(len(detections.image), bool)
  for key, members in _grouped(detections, np.argsort(-detections.score, kind='stable')).items():
    members = members[:MOST]
    kept[members] = True
    own = boxes_of.get(key)
    if own is not None:
      right[members] = _claims(detections.corners[members], truth.corners[own], threshold)
  order = np.lexsort((detections.category, detections.image))
  order = order[np.argsort(-detections.score[order], kind='stable')]
  order = order[kept[order] & np.isin(detections.category[order], categories)]
  return Matches(
    order, detections.image[order], detections.category[order], right[order], truths, categories
  )


def _grouped(boxes: Boxes, order: np.ndarray) -> dict[tuple[int, int], np.ndarray]:
  """Returns positions of boxes by (image, category), in the given order within each."""
  keys = pd.DataFrame({'image': boxes.image[order], 'category': boxes.category[order]})
  return {key: order[own] for key, own in keys.groupby(['image', 'category']).indices.items()}


def _claims(detections: np.ndarray, truth: np.ndarray, threshold: float) -> np.ndarray:
  """Whether each detection, by falling score, claims a box."""
  ious = overlap(detections, truth)
  right = np.zeros(len(detections), bool)
  for row, overlaps in enumerate(ious):
    best = len(overlaps) - 1 - int(np.argmax(overlaps[::-1]))  # the last of equals
    if overlaps[best] >= threshold:
      right[row], ious[:, best] = True, -1
  return right


def average_precisions(matches: Matches, recall_points: int, counts: np.ndarray) -> np.ndarray:
  """Returns the AP of each class over images that count so often [B, F], float [B, C].

  It is NaN for a class without ground truth among the images that count.

  `recall_points` are 0 for the area, else the number of thresholds: 11 (VOC 2007), 101 (COCO).
  """
  precision = np.full((len(counts), len(matches.categories)), np.nan)
  for column, category in enumerate(matches.categories):
    total = counts @ matches.truths[:, column]
    members = matches.category == category
    image, right = matches.image[members], matches.right[members]
    for row in np.flatnonzero(total > 0):  # one at a time: there may be many detections
      precision[row, column] = _weighted(right, counts[row, image], total[row], recall_points)
  return precision


def _weighted(right: np.ndarray, weight: np.ndarray, total: float, recall_points: int) -> float:
  """Returns the AP of detections by falling score, each of which counts `weight` times."""
  hits, seen = np.cumsum(weight * right), np.cumsum(weight)
  recall = hits / total
  precision = np.divide(hits, seen, out=np.zeros(len(seen)), where=seen > 0)
  precision = np.maximum.accumulate(precision[::-1])[::-1]
  if not recall_points:
    return float(np.diff(recall, prepend=0) @ precision)
  at = np.searchsorted(recall, np.linspace(0, 1, recall_points), side='left')
  return float(np.append(precision, 0)[np.minimum(at, len(precision))].mean())


def class_mean(precisions: np.ndarray) -> np.ndarray:
  """Returns the mean over the classes that have ground truth; NaN where none has, [B, C] to [B]."""
  present = np.isfinite(precisions)
  total, number = np.where(present, precisions, 0).sum(1), present.sum(1)
  return np.divide(total, number, out=np.full(len(total), np.nan), where=number > 0)


def per_image(matches: Matches, recall_points: int = 0) -> np.ndarray:
  """Returns the AP of each image alone, the mean over the classes present, float [F].

  It is NaN for an image without ground truth.
  """
  precision = np.full(len(matches.truths), np.nan)
  order = np.argsort(matches.image, kind='stable')
  starts = np.searchsorted(matches.image[order], np.arange(len(precision) + 1))
  for image in np.flatnonzero(matches.truths.sum(1)):
    members = order[starts[image] : starts[image + 1]]
    alone = []
    for column in np.flatnonzero(matches.truths[image]):
      right = matches.right[members[matches.category[members] == matches.categories[column]]]
      total = matches.truths[image, column]
      alone.append(_weighted(right, np.ones(len(right)), total, recall_points))
    precision[image] = np.mean(alone)
  return precision


def worst_frames(
  sets: NeighborSets, precision: np.ndarray, k: int, include_anchor: bool = True
) -> np.ndarray:
  """Returns the frame of each set with the least per-image AP `precision` [F], int [A].

  Among equals the nearest to the anchor, then the earlier one. Frames at most k away are candidates
  if their AP is defined; where there is none the anchor stays.
  """
  chosen = sets.anchors.copy()
  for group, (anchor, frames, offsets) in enumerate(
    zip(sets.anchors, sets.neighbors, sets.offsets, strict=True)
  ):
    members = np.append(frames, anchor) if include_anchor else frames
    distance = np.append(offsets, 0) if include_anchor else offsets
    usable = (np.abs(distance) <= k) & np.isfinite(precision[members])
    if usable.any():
      members, distance = members[usable], distance[usable]
      chosen[group] = members[np.lexsort((distance, np.abs(distance), precision[members]))[0]]
  return chosen


@dataclasses.dataclass(frozen=True)
class Scoring:
  """How detections are scored.

  Attributes:
    k: largest distance from the anchor in frames.
    threshold: least IoU of a true positive.
    recall_points: see `average_precisions`.
    include_anchor: whether the anchor is a candidate for the worst frame.
    confidence: of the intervals.
  """

  k: int = 10
  threshold: float = 0.5
  recall_points: int = 0
  include_anchor: bool = True
  confidence: float = 0.95

  def __post_init__(self) -> None:
    require(self.k >= 1, 'k', self.k, 'at least 1')
    require(0 < self.threshold <= 1, 'threshold', self.threshold, 'an IoU in (0, 1], such as 0.5')
    count, valid = self.recall_points, '0 for the area, or a number of thresholds such as 11 or 101'
    require(count == 0 or count > 1, 'recall_points', count, valid)
    require(0 < self.confidence < 1, 'confidence', self.confidence, 'in (0, 1)')


class DetectionScores(NamedTuple):
  """What a detector loses on neighbors.

  Attributes:
    anchor, worst: mAP on anchors and on the worst frames, with bootstrap intervals over videos.
    drop: their difference, both resampled together.
    frames: int [A], the worst frame of each set.
    alone: float [F], the AP of each frame alone; NaN without ground truth.
  """

  anchor: Estimate
  worst: Estimate
  drop: Estimate
  frames: np.ndarray
  alone: np.ndarray


def detection_pm_k(
  sets: NeighborSets, truth: Boxes, detections: Boxes, scoring: Scoring
) -> DetectionScores:
  """Returns mAP on anchors and at pm-k; images of boxes are positions among the F frames."""
  points = scoring.recall_points
  matches = match(truth, detections, len(sets.frames), scoring.threshold)
  alone = per_image(matches, points)
  frames = worst_frames(sets, alone, scoring.k, scoring.include_anchor)
  of_anchors, of_worst = (
    match(truth.of_images(chosen), detections.of_images(chosen), len(chosen), scoring.threshold)
    for chosen in (sets.anchors, frames)
  )

  videos = np.arange(len(frames)) if sets.videos is None else sets.videos

  def statistic(weights: np.ndarray) -> np.ndarray:
    # whole, so that recalls meet their thresholds exactly
    counts = np.rint(len(units.weight) * weights)[:, videos]
    first, second = (
      class_mean(average_precisions(matches, points, counts)) for matches in (of_anchors, of_worst)
    )
    return np.stack([first, second, first - second], -1)

  each = np.bincount(videos)[:, None].astype(float)
  units = Units(each, each, len(frames), images=len(frames) / len(each))
  anchor, worst, drop = bootstrap(statistic, units, scoring.confidence, resamples=RESAMPLES)
  return DetectionScores(anchor, worst, drop, frames, alone)
