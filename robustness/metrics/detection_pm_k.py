"""mAP on anchors and on the worst frames of their sets, for detection and for localisation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robustness.estimates.intervals import percentile_interval
from robustness.metrics.detection import (
  ALL_POINTS,
  RESAMPLES,
  Boxes,
  average_precisions,
  class_mean,
  match,
  mean_average_precision,
  of_frames,
  per_image,
  usable,
  worst_frames,
)
from robustness.neighbor_sets.metadata import NeighborSets
from robustness.results import Number


class DetectionScores(NamedTuple):
  """What a detector loses on neighbors.

  Attributes:
    anchor, worst: mAP on anchors and on the worst frames, with bootstrap intervals over sets.
    drop: their difference, both resampled together.
    frames: int [A], the worst frame of each set.
    alone: float [F], the AP of each frame alone; NaN without ground truth.
  """

  anchor: Number
  worst: Number
  drop: Number
  frames: np.ndarray
  alone: np.ndarray


def detection_pm_k(
  sets: NeighborSets,
  truth: Boxes,
  detections: Boxes,
  k: int,
  *,
  localisation: bool = False,
  include_anchor: bool = True,
  threshold: float = 0.5,
  recall_points: int = ALL_POINTS,
  confidence: float = 0.95,
  seed: int = 0,
) -> DetectionScores:
  """Returns mAP on anchors and at pm-k.

  Args:
    sets: F frames; box images are positions among them.
    truth: ground truth.
    detections: detections with scores.
    k: largest distance from the anchor in frames.
    localisation: whether classes are ignored.
    include_anchor: whether the anchor is a candidate for the worst frame.
    threshold: least IoU of a true positive.
    recall_points: see `average_precisions`.
    confidence, seed: of the intervals.

  Reference:
    Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, table 3 and appendix L.
  """
  if localisation:
    truth, detections = truth.without_classes(), detections.without_classes()
  alone = per_image(match(truth, detections, len(sets.frames), threshold), recall_points)
  frames = worst_frames(sets, alone, k, include_anchor)
  matched = [
    match(of_frames(truth, chosen), of_frames(detections, chosen), len(chosen), threshold)
    for chosen in (sets.anchors, frames)
  ]
  anchor, worst = (
    mean_average_precision(matches, recall_points, confidence, seed) for matches in matched
  )
  total = len(frames)
  drawn = np.random.default_rng(seed).multinomial(total, np.full(total, 1 / total), RESAMPLES)
  means = [class_mean(average_precisions(matches, recall_points, drawn)) for matches in matched]
  changes, note = usable(means[0] - means[1])
  low, high = percentile_interval(changes, total, confidence)
  drop = Number(
    anchor.value - worst.value,
    float(low),
    float(high),
    total,
    f'paired bootstrap {confidence:g}{note}',
  )
  return DetectionScores(anchor, worst, drop, frames, alone)
