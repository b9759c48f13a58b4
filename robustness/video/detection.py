"""Scores of a detector on neighbor sets: average precision on anchors and at pm-k.

The scores are computed from files of boxes, for `robustness detection`.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, table 3.
"""

import dataclasses
import functools
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from robustness.core.errors import InputError, nearest
from robustness.core.settings import require
from robustness.estimates.means import Row, estimate_row, table_of_rows
from robustness.estimates.quantity import Quantity
from robustness.estimates.table import assemble
from robustness.models import label_space
from robustness.results import Results, Table
from robustness.video import metadata
from robustness.video.average_precision import Scoring, detection_pm_k
from robustness.video.boxes import Boxes, Clipped, Truth, read_detections, read_truth
from robustness.video.detection_figures import ScoredBoxes, pictures
from robustness.video.metadata import NeighborSets, frame_number
from robustness.video.neighbor_estimates import effective_k

PAPER = 'shankar2021image'
KINDS = {'detection': False, 'localisation': True}
"""{kind of score: whether the classes of boxes are ignored}."""
_quantity = functools.partial(Quantity, headline=True)
ANCHOR = _quantity('mAP_anchor', 'mean average precision on anchor frames', better='higher')
WORST = 'the worst frame within k frames'
PM_K = _quantity('mAP_pm_k', f'mean average precision on {WORST} (pm-k)', better='higher')
DROP = _quantity('drop_pm_k', f'drop of mean average precision to {WORST}', better='lower', low=-1)
QUANTITIES = (ANCHOR, PM_K, DROP)
"""All quantities of the table of results of a detector."""
LABEL = 'detector'
"""Label of the detector in the table of results."""


class ScoredInputs(NamedTuple):
  """Neighbor sets with the true and detected boxes of their frames, to score a detector.

  A neighbor set is an anchor frame with similar frames of the same video.

  Attributes:
    sets: the neighbor sets.
    truth: ground-truth boxes of the frames.
    detections: boxes that the detector found on the frames.
    clipped: number and an example of detections that extended beyond their image and were clipped.
    files: input paths, with the keys 'metadata', 'truth' and 'detections'.
  """

  sets: NeighborSets
  truth: Truth
  detections: Boxes
  clipped: Clipped
  files: Mapping[str, str]

  @property
  def digest(self) -> str:
    """SHA-256 of the neighbor sets and all boxes, to detect changed input files."""
    digest = hashlib.sha256(self.sets.digest.encode())
    for boxes in (self.truth.boxes, self.detections):
      for array in (boxes.image, boxes.category, boxes.corners, boxes.score):
        digest.update(b'' if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()

  def predictions(self) -> dict[str, list[float]]:
    """Converts detections to class scores of each frame, `{path: scores}` (the paper's Table 2).

    The score of a class is the highest score among its boxes, or −∞ if it has none. A frame without
    any boxes has the scores []. With these scores the detector is evaluated as a classifier.

    Raises:
      InputError: the ground truth has no class names, or a detected class is not in `sets`.
    """
    names = self.sets.class_names or label_space.get('imagenet_vid').class_names
    column_of_name, boxes = label_space.index_by_name(names), self.detections
    if not self.truth.names:
      raise InputError(f'{self.files["truth"]} has no categories, which name the detected classes.')
    scores = np.full((len(self.sets.frames), len(names)), -np.inf)
    for category in np.unique(boxes.category).tolist():
      name = self.truth.names[category]
      if name not in column_of_name:
        raise InputError(
          f'{self.files["detections"]}: category_id {category} {name!r} is none of the '
          f'{len(names)} classes of the sets; {nearest(name, column_of_name)}.'
        )
      is_of_class = boxes.category == category
      frame_and_class = boxes.image[is_of_class], column_of_name[name]
      np.maximum.at(scores, frame_and_class, np.asarray(boxes.score)[is_of_class])
    rows = zip(self.sets.frames, scores, strict=True)
    return {frame: row.tolist() if np.isfinite(row).any() else [] for frame, row in rows}

  def remarks(self) -> list[tuple[str, int, int, str]]:
    """Counts boxes that may point to mistakes in the input files.

    Returns:
      `(description, count, total, example)` for each kind of such boxes: ground truth and
      detections clipped at the image border, and detections of classes without ground truth.
      `total` counts all true or all detected boxes; `example` is '' if `count` is 0.
    """
    truth, detected = self.truth.boxes.category, self.detections.category
    unknown = detected[~np.isin(detected, truth)]  # classes of detections without ground truth
    first_unknown = f'class {unknown[0]}' if len(unknown) else ''
    num_truth, num_detected = len(truth), len(detected)
    num_cut, first_cut = self.clipped
    num_cut_truth, first_cut_truth = self.truth.clipped
    return [
      ('ground truth cut at the border of its image', num_cut_truth, num_truth, first_cut_truth),
      ('detections cut at the border of their image', num_cut, num_detected, first_cut),
      ('detections of classes without ground truth', len(unknown), num_detected, first_unknown),
    ]


def read(folder: Path, truth_file: Path, detections_file: Path) -> ScoredInputs:
  """Reads neighbor sets with their true and detected boxes from files.

  Args:
    folder: folder of the neighbor sets.
    truth_file: COCO annotations, or a folder of ILSVRC annotations.
    detections_file: COCO results of the detector.

  Raises:
    InputError: a file is missing or invalid, or no anchor (labelled frame) has a ground-truth box.
  """
  sets = metadata.read(folder)
  names = sets.class_names or label_space.get('imagenet_vid').class_names
  truth = read_truth(truth_file, sets.frames, names)
  if not np.isin(sets.anchors, truth.boxes.image).any():
    raise InputError(
      f'{truth_file} has no box on any of the {len(sets.anchors)} anchors, and '
      f'{len(truth.boxes.image)} on all frames: without, average precision is undefined.'
    )
  detections, clipped = read_detections(detections_file, truth, sets.frames)
  files = {'metadata': str(folder), 'truth': str(truth_file), 'detections': str(detections_file)}
  return ScoredInputs(sets, truth, detections, clipped, files)


def score(
  inputs: ScoredInputs, scoring: Scoring, frames: str | os.PathLike[str] = '', num_drawn: int = 4
) -> Results:
  """Scores a detector on the anchors (labelled frames) and on the worst frame near each anchor.

  The worst frame of a set is at most `scoring.k` frames from the anchor. Everything is scored
  twice: 'detection' compares boxes with their classes, 'localisation' ignores classes.

  If `scoring.k` exceeds the largest distance in `inputs.sets`, this distance is used. The results
  then store the original k in their setting `asked_k`.

  Args:
    inputs: neighbor sets, ground truth and detections.
    scoring: settings of the score.
    frames: folder of the images, to draw boxes on them; '' draws nothing.
    num_drawn: most sets that are drawn, those with the largest drop of average precision.
  """
  require(num_drawn >= 0, 'shown', num_drawn, 'at least 0')  # the option --shown
  sets, asked_k = inputs.sets, scoring.k
  scoring = dataclasses.replace(scoring, k=effective_k(sets, asked_k))
  results = Results(
    study='detection_pm_k',
    classifiers=[{'label': LABEL, 'detections': inputs.files['detections']}],
    data={
      'metadata': inputs.files['metadata'],
      'truth': inputs.files['truth'],
      'dataset': sets.title,
      'num_examples': len(sets.anchors),
      'frames': len(sets.frames),
    },
    settings=dataclasses.asdict(scoring),
    quantities=QUANTITIES,
  )
  if asked_k > scoring.k:
    results.settings['asked_k'] = asked_k
  results.tables['remarks'] = Table(('what', 'boxes', 'of', 'first'), inputs.remarks())
  rows: list[Row] = []
  for kind, ignores_classes in KINDS.items():
    truth, detections, names = inputs.truth.boxes, inputs.detections, inputs.truth.names
    if ignores_classes:
      truth, detections = truth.without_classes(), detections.without_classes()
      names = {0: 'object'}
    scores = detection_pm_k(sets, truth, detections, scoring)
    estimates = {ANCHOR: scores.anchor, PM_K: scores.worst, DROP: scores.drop}
    for quantity, estimate in estimates.items():
      facets = {'kind': kind} if quantity is ANCHOR else {'kind': kind, 'k': scoring.k}
      rows.append(estimate_row(LABEL, '', quantity, facets, estimate, scoring.confidence))
    results.tables[f'{kind}/worst_frames'] = _worst_frames(sets, scores.frames)
    if frames:
      scored = ScoredBoxes(scores, truth, detections, names, scoring.threshold)
      arrays = pictures(sets, scored, frames, num_drawn)
      results.arrays.update({f'{kind}/{name}': values for name, values in arrays.items()})
  results.table = assemble([table_of_rows(rows)])
  return results


def _worst_frames(sets: NeighborSets, worst: np.ndarray) -> Table:
  """Returns a table of the anchor (labelled frame) and the worst frame of each set.

  Args:
    sets: A neighbor sets.
    worst: int [A], index in `sets.frames` of the worst frame of each set.
  """
  rows = []
  for anchor, frame in zip(sets.anchors, worst, strict=True):
    anchor_path, path = sets.frames[anchor], sets.frames[frame]
    rows.append([anchor_path, path, frame_number(path) - frame_number(anchor_path)])
  return Table(('anchor', 'worst frame', 'offset'), rows)
