"""Which classes and images suffer most in a study's views, from the records of any of them.

An image is damaged by the views in which it is wrong. Where a view shows images clean, damage is of
those that are right in it; the others were lost before. Each damaged image is shown in the view of
its most confident mistake.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from robustness.estimates.means import Row, part
from robustness.evaluation import failures_by_class as by_class
from robustness.evaluation.failure_tally import Tally
from robustness.evaluation.failures_by_class import class_name
from robustness.evaluation.records import CONFIDENCE, Records
from robustness.evaluation.study import Evaluation, Findings, Study
from robustness.evaluation.view_table import ViewTable
from robustness.models.imagenet_names import in_words
from robustness.results import DAMAGED_IMAGES, Table

AFFECTED_CLASSES = 'most affected classes'
MOST = 6
"""Images of each classifier that are listed and shown."""

COLUMNS = (
  'classifier',
  'image',
  'class',
  'views wrong',
  'of',
  'probability of its class',
  'shown in',
  'taken for',
  'confidence',
  'taken for when clean',
  'confidence when clean',
)


def findings(
  study: Study, evaluations: Sequence[Evaluation], image_shape: tuple[int, int, int]
) -> tuple[Findings, dict[str, np.ndarray]]:
  """Returns the most affected classes and the most damaged images of every classifier.

  Returns:
    (findings, places): estimates are the accuracies of all classes; tables are `AFFECTED_CLASSES`,
    in which versions of one image are one image also where they are stored, and `DAMAGED_IMAGES`,
    each of which is stored. Places are by classifier int [F, 2], row and view of each such image.
  """
  classes: list[list[Any]] = []
  images: list[list[Any]] = []
  rows: list[Row] = []
  places = {}
  confidence = getattr(study, 'confidence', 0.95)
  for label, records in ((evaluation.label, evaluation.records) for evaluation in evaluations):
    names = in_words(records.identity.get('classes', ()))
    table = study.view_table(records, image_shape)
    own = of_class = Tally.of(records, table)
    joined, views = study.by_image(records, image_shape)
    if joined is not records:
      of_class = Tally.of(joined, views)
    rows += by_class.estimates(label, of_class, names, confidence)
    classes += by_class.most_affected(label, of_class, names, views.names)
    chosen = most_damaged(own)
    images += [[label, *row] for row in _listed(records, table, own, chosen, names)]
    places[label] = np.stack([chosen, own.view[chosen]], 1).astype(np.int32)
  tables = {
    AFFECTED_CLASSES: Table(by_class.COLUMNS, classes),
    DAMAGED_IMAGES: Table(COLUMNS, images),
  }
  return Findings(tables=tables, estimates=[part(rows)]), places


def most_damaged(tally: Tally) -> np.ndarray:
  """Returns up to `MOST` rows that are wrong in some view, the most damaged first.

  They are ordered by the share of their views that are wrong, then by the mean probability of
  their class, lowest first.
  """
  candidates = np.flatnonzero((tally.view >= 0) & (True if tally.clean is None else tally.clean))
  shown = np.maximum(tally.shown, 1)
  share, probability = tally.wrong / shown, tally.probability / shown
  order = np.lexsort((probability[candidates], -share[candidates]))
  return candidates[order][:MOST]


def _listed(
  records: Records, table: ViewTable, tally: Tally, chosen: np.ndarray, names: Sequence[str]
) -> list[list[Any]]:
  """Returns rows of `COLUMNS`, without the classifier, of chosen images."""
  if not len(chosen):
    return []
  ids = records.column('example_id')[chosen]
  clean: list[list[Any]] = [[None, None]] * len(chosen)
  if tally.clean is not None:
    prediction = records.column('prediction', table.clean or 0)[chosen]
    confidence = _confidence(records, table.clean or 0)[chosen]
    clean = [
      [class_name(int(taken), names), float(sure)]
      for taken, sure in zip(prediction, confidence, strict=True)
    ]
  return [
    [
      int(example),
      ', '.join(class_name(int(label), names) for label in tally.labels[row] if label >= 0),
      int(tally.wrong[row]),
      int(tally.shown[row]),
      float(tally.probability[row] / tally.shown[row]),
      table.shown(row, int(tally.view[row])),
      class_name(int(tally.prediction[row]), names),
      float(tally.confidence[row]),
      *when_clean,
    ]
    for example, row, when_clean in zip(ids, chosen, clean, strict=True)
  ]


def _confidence(records: Records, view: int) -> np.ndarray:
  if CONFIDENCE in records.read(0, 0).arrays:
    return records.column(CONFIDENCE, view)
  return np.zeros(records.layout.num_rows)  # of an earlier version
