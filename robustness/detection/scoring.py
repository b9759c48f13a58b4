"""pm-k of a detector from files, to results.

Behind `python -m robustness.neighbor_sets detect`.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, table 3.
"""

from __future__ import annotations

import dataclasses
import os

import numpy as np

from robustness.core.settings import require
from robustness.detection.detections import read_detections, read_truth
from robustness.detection.pictures import Found, pictures
from robustness.labels import label_space
from robustness.metrics.detection import ALL_POINTS
from robustness.metrics.detection_pm_k import DetectionScores, detection_pm_k
from robustness.neighbor_sets import metadata
from robustness.neighbor_sets.metadata import NeighborSets
from robustness.results import Results, Table

TASKS = {'detection': False, 'localisation': True}


@dataclasses.dataclass(frozen=True)
class Settings:
  """How detections are scored.

  Attributes:
    k: largest distance from the anchor in frames.
    threshold: least IoU of a true positive.
    recall_points: 0 for the area under the curve, else the number of recalls, such as 11 or 101.
    include_anchor: whether the anchor is a candidate for the worst frame.
    confidence: of the intervals.
  """

  k: int = 10
  threshold: float = 0.5
  recall_points: int = ALL_POINTS
  include_anchor: bool = True
  confidence: float = 0.95

  def __post_init__(self) -> None:
    require(self.k >= 1, 'k', self.k, 'at least 1')
    require(0 < self.confidence < 1, 'confidence', self.confidence, 'in (0, 1)')


def score(
  folder: str | os.PathLike[str],
  truth_file: str | os.PathLike[str],
  detections_file: str | os.PathLike[str],
  settings: Settings,
  frames: str | os.PathLike[str] = '',
  shown: int = 4,
) -> Results:
  """Scores detections on anchors and on the worst frame of each set.

  Args:
    folder: of the neighbor sets.
    truth_file: COCO annotations of their frames, or a folder of ILSVRC's.
    detections_file: COCO results.
    settings: how to score.
    frames: the folder of the frames, for pictures; '' for none.
    shown: how many sets are pictured, of those whose worst frame loses most.

  Returns:
    Results with `detection/mAP_anchor`, `detection/mAP_pm_<k>`, `detection/drop_pm_<k>`, the same
    of `localisation`, and for both the table of the worst frames and what `pictures` gives.

  Raises:
    InputError: see `metadata.read`, `read_truth`, `read_detections` and `pictures`.
  """
  require(shown >= 0, 'shown', shown, 'at least 0')
  sets = metadata.read(folder)
  names = sets.class_names or label_space.get('imagenet_vid').class_names
  truth = read_truth(truth_file, sets.frames, names)
  found = read_detections(detections_file, truth, sets.frames)
  results = Results(
    'detection_pm_k',
    {'label': 'detector', 'detections': str(detections_file)},
    {
      'metadata': str(folder),
      'truth': str(truth_file),
      'num_examples': len(sets.anchors),
      'frames': len(sets.frames),
    },
    dataclasses.asdict(settings),
  )
  for task, localisation in TASKS.items():
    scores = detection_pm_k(
      sets, truth.boxes, found, localisation=localisation, **dataclasses.asdict(settings)
    )
    results.numbers.update(
      {
        f'{task}/mAP_anchor': scores.anchor,
        f'{task}/mAP_pm_{settings.k}': scores.worst,
        f'{task}/drop_pm_{settings.k}': scores.drop,
      }
    )
    results.tables[f'{task}/worst_frames'] = _worst(sets, scores)
    if frames:
      drawn = (
        Found(scores, truth.boxes.without_classes(), found.without_classes(), {0: 'object'})
        if localisation
        else Found(scores, truth.boxes, found, truth.names)
      )
      results.arrays.update(
        {f'{task}/{name}': values for name, values in pictures(sets, drawn, frames, shown).items()}
      )
  return results


def _worst(sets: NeighborSets, scores: DetectionScores) -> Table:
  numbers = np.array([metadata.frame_number(frame) for frame in sets.frames])
  return Table(
    ('anchor', 'worst frame', 'offset'),
    [
      [sets.frames[anchor], sets.frames[frame], int(numbers[frame] - numbers[anchor])]
      for anchor, frame in zip(sets.anchors, scores.frames, strict=True)
    ],
  )
