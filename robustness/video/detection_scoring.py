"""pm-k of a detector from files, to results.

Behind `robustness detection`.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, table 3.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from robustness.core.errors import InputError
from robustness.core.settings import require
from robustness.estimates.means import Row, part, row
from robustness.estimates.quantity import Quantity
from robustness.estimates.table import assemble
from robustness.models import label_space
from robustness.results import Results, Table
from robustness.video import metadata
from robustness.video.average_precision import ALL_POINTS, DetectionScores, detection_pm_k
from robustness.video.detection_pictures import DrawnTask, pictures
from robustness.video.detections import Detections, Truth, read_detections, read_truth
from robustness.video.metadata import NeighborSets
from robustness.video.neighbor_estimates import effective_k

PAPER = 'shankar2021image'
TASKS = {'detection': False, 'localisation': True}
ANCHOR = Quantity(
  'mAP_anchor',
  'mean average precision on anchor frames',
  better='higher',
  headline=True,
  paper=PAPER,
)
PM_K = Quantity(
  'mAP_pm_k',
  'mean average precision on the worst frame within k frames (pm-k)',
  better='higher',
  headline=True,
  paper=PAPER,
)
DROP = Quantity(
  'drop_pm_k',
  'drop of mean average precision to the worst frame within k frames',
  better='lower',
  low=-1,
  headline=True,
  paper=PAPER,
)
QUANTITIES = (ANCHOR, PM_K, DROP)
LABEL = 'detector'


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


class Inputs(NamedTuple):
  """What a detector is scored on.

  Attributes:
    sets: the neighbor sets.
    truth: ground truth of their frames.
    detections: what the detector gave for them.
    files: where the three were read.
  """

  sets: NeighborSets
  truth: Truth
  detections: Detections
  files: Mapping[str, str]

  @property
  def digest(self) -> str:
    """SHA-256 of what is scored, so that files that changed are told apart."""
    digest = hashlib.sha256(metadata.digest(self.sets).encode())
    for boxes in (self.truth.boxes, self.detections.boxes):
      for array in (boxes.image, boxes.category, boxes.corners, boxes.score):
        digest.update(b'' if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()

  def remarks(self) -> list[tuple[str, int, int, str]]:
    """Returns what is unusual about the boxes: (what, boxes, of how many, the first)."""
    truth, detections = self.truth.boxes, self.detections.boxes
    strange = np.flatnonzero(~np.isin(detections.category, truth.category))
    first = f'class {detections.category[strange[0]]}' if len(strange) else ''
    return [
      (what, clipped.number, len(boxes.image), clipped.first)
      for what, boxes, clipped in (
        ('ground truth cut at the border of its image', truth, self.truth.clipped),
        ('detections cut at the border of their image', detections, self.detections.clipped),
      )
    ] + [('detections of classes without ground truth', len(strange), len(detections.image), first)]


def read(
  folder: str | os.PathLike[str],
  truth_file: str | os.PathLike[str],
  detections_file: str | os.PathLike[str],
) -> Inputs:
  """Reads what is scored.

  Args:
    folder: of the neighbor sets.
    truth_file: COCO annotations of their frames, or a folder of ILSVRC's.
    detections_file: COCO results.

  Raises:
    InputError: see `metadata.read`, `read_truth` and `read_detections`; no anchor has ground truth.
  """
  sets = metadata.read(folder)
  names = sets.class_names or label_space.get('imagenet_vid').class_names
  truth = read_truth(truth_file, sets.frames, names)
  if not np.isin(sets.anchors, truth.boxes.image).any():
    raise InputError(
      f'{truth_file} has no box on any of the {len(sets.anchors)} anchors, and '
      f'{len(truth.boxes.image)} on all frames: without, average precision is undefined.'
    )
  detections = read_detections(detections_file, truth, sets.frames)
  files = {'metadata': folder, 'truth': truth_file, 'detections': detections_file}
  return Inputs(sets, truth, detections, {name: str(file) for name, file in files.items()})


def score(
  inputs: Inputs, settings: Settings, frames: str | os.PathLike[str] = '', shown: int = 4
) -> Results:
  """Scores detections on anchors and on the worst frame of each set.

  Args:
    inputs: from `read`.
    settings: how to score; above the largest distance of a neighbor, that distance takes k's place,
      and the results' settings hold `asked_k`.
    frames: the folder of the frames, for pictures; '' for none.
    shown: how many sets are pictured, of those whose worst frame loses most.

  Returns:
    Results with mAP on anchors, at pm-k and its drop by the facets `task` and `k`; for each task
    the table of the worst frames and what `pictures` gives; the table `remarks`.

  Raises:
    InputError: a negative `shown`, or see `detection_pm_k` and `pictures`.
  """
  require(shown >= 0, 'shown', shown, 'at least 0')
  sets, truth, detections = inputs.sets, inputs.truth.boxes, inputs.detections.boxes
  asked_k, settings = settings.k, dataclasses.replace(settings, k=effective_k(sets, settings.k))
  results = Results(
    'detection_pm_k',
    {'label': LABEL, 'detections': inputs.files['detections']},
    {
      'metadata': inputs.files['metadata'],
      'truth': inputs.files['truth'],
      'num_examples': len(sets.anchors),
      'frames': len(sets.frames),
    },
    {**dataclasses.asdict(settings), **({'asked_k': asked_k} if asked_k > settings.k else {})},
    quantities=QUANTITIES,
  )
  rows: list[Row] = []
  results.tables['remarks'] = Table(('what', 'boxes', 'of', 'first'), inputs.remarks())
  for task, localisation in TASKS.items():
    scores = detection_pm_k(
      sets, truth, detections, localisation=localisation, **dataclasses.asdict(settings)
    )
    for quantity, estimate in zip(QUANTITIES, scores[:3], strict=True):
      facets = {'task': task, **({} if quantity is ANCHOR else {'k': settings.k})}
      rows.append(row(LABEL, '', quantity, facets, estimate, settings.confidence))
    results.tables[f'{task}/worst_frames'] = _worst(sets, scores)
    if frames:
      boxes = truth, detections, inputs.truth.names
      if localisation:
        boxes = truth.without_classes(), detections.without_classes(), {0: 'object'}
      drawn = DrawnTask(scores, *boxes, settings.threshold)
      results.arrays.update(
        {f'{task}/{name}': values for name, values in pictures(sets, drawn, frames, shown).items()}
      )
  results.table = assemble([part(rows)])
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
