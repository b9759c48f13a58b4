"""Predictions of a classifier on neighbor sets, from its records alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from robustness.core.errors import InputError
from robustness.estimates.largest import predicted
from robustness.evaluation.records import Records
from robustness.models import label_space
from robustness.models.label_space import LOGITS, PROBABILITIES, project_scores
from robustness.video.columns import FPS, FRAME_TYPE, GROUP, LABEL, OFFSET, PATH, from_columns
from robustness.video.metadata import NeighborSets

PREDICTION = 'prediction'
OUTPUTS = ('output/unprojected_logits', 'output/logits')


class FramePredictions(NamedTuple):
  """Predictions of one classifier.

  Attributes:
    sets: whose frames are the rows of the records.
    prediction: int [F].
    confidence: float [F], probability of the predicted class among those of the sets.
  """

  sets: NeighborSets
  prediction: np.ndarray
  confidence: np.ndarray


def read_sets(records: Records) -> NeighborSets:
  """Returns the sets whose frames are the rows of records."""
  names = records.read(0, 0).arrays
  columns = {
    name: records.column(name) for name in (LABEL, GROUP, OFFSET, FRAME_TYPE, FPS) if name in names
  }
  paths = records.column(PATH).tolist() if PATH in names else ()
  return from_columns(columns, paths, records.identity.get('classes', ()))


def read_predictions(records: Records, merge: str = '') -> FramePredictions:
  """Reads records of the study `video_pm_k`.

  Args:
    records: with the columns of neighbor sets and recorded logits.
    merge: '' keeps the merge rule of the run, where predictions were projected onto a coarser label
      space; 'max', 'sum' or 'mean' projects the recorded scores anew.

  Raises:
    InputError: records of other rows, or a merge rule for scores that were not projected.
  """
  names, identity = records.read(0, 0).arrays, records.identity
  field = next((name for name in OUTPUTS if name in names), None)
  if field is None:
    raise InputError(f'{records.directory} holds no scores ({" or ".join(OUTPUTS)}).')
  scores = records.column(field)
  kind = identity['classifier'].get('scores', LOGITS)
  projected = _projected(scores, identity['classifier'], merge, kind)
  recorded = not merge and PREDICTION in names
  prediction = records.column(PREDICTION) if recorded else predicted(projected)
  shares = projected if kind == PROBABILITIES else special.softmax(projected, axis=1)
  confidence = shares[np.arange(len(shares)), prediction].astype(np.float32)
  return FramePredictions(read_sets(records), prediction, confidence)


def _projected(scores: np.ndarray, classifier: dict, merge: str, kind: str) -> np.ndarray:
  """Returns scores of the classes of the sets."""
  name = classifier.get('label_space', '')
  space = label_space.get(name) if name else None
  if space is None or scores.shape[1] == len(space.class_names):
    if merge:
      raise InputError(
        f'config.study.merge is {merge!r}, but the {scores.shape[1]} recorded '
        "scores are of the classes of the sets already: leave it ''."
      )
    return scores
  return project_scores(scores, space, merge or classifier.get('merge', 'max'), kind)
