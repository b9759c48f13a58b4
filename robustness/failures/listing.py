"""Which classes and images suffer most in a study's views, from the records of any of them.

An image is damaged by the views in which it is wrong. Where a view shows images clean, damage is of
those that are right in it; the others were lost before. Each damaged image is shown in the view of
its most confident mistake.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from robustness.estimates.means import CLOPPER_PEARSON, KORN_GRAUBARD, Row, of_number, part
from robustness.estimates.quantity import ACCURACY, CLEAN_ACCURACY
from robustness.evaluation.records import CONFIDENCE, Records, Shard
from robustness.evaluation.study import Evaluation, Findings, Study, prefixes
from robustness.evaluation.view_table import ViewTable
from robustness.labels.imagenet_names import in_words
from robustness.metrics.by_class import ClassAccuracy, Outcomes, accuracies, by_class, class_name
from robustness.results import DAMAGED_IMAGES, Table

BY_CLASS, ROWS = 'by_class', 'failure_rows'
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


@dataclasses.dataclass
class Tally:
  """Sums over views of N images, gathered shard by shard.

  Attributes:
    wrong, shown: int [N], views in which an image is wrong, and in which it counts.
    probability: [N], of the true class, summed over these views.
    view, prediction, confidence: [N], of the most confident mistake; view is -1 without one.
    mistakes: int [P, 3]: label, wrong prediction, how often.
    class_right, class_shown: int [C, V]; an image counts in each of its classes.
  """

  wrong: np.ndarray
  shown: np.ndarray
  probability: np.ndarray
  view: np.ndarray
  prediction: np.ndarray
  confidence: np.ndarray
  mistakes: np.ndarray
  class_right: np.ndarray
  class_shown: np.ndarray

  @classmethod
  def of(cls, records: Records, table: ViewTable, labels: np.ndarray) -> Tally:
    """Returns the sums over all shards of records.

    Args:
      records: of one classifier.
      table: what their views are.
      labels: [N], or [N, L].
    """
    count, classes = len(labels), int(labels.max()) + 1
    several = labels.reshape(count, -1)
    views = len(table.names)
    tally = cls(
      wrong=np.zeros(count, int),
      shown=np.zeros(count, int),
      probability=np.zeros(count),
      view=np.full(count, -1),
      prediction=np.full(count, -1),
      confidence=np.full(count, -1.0),
      mistakes=np.zeros((0, 3), int),
      class_right=np.zeros((classes, views), int),
      class_shown=np.zeros((classes, views), int),
    )
    for shard in records.shards():
      tally._add(shard, table.of(shard), several[shard.rows])
    return tally

  def _add(self, shard: Shard, counted: np.ndarray, labels: np.ndarray) -> None:
    wrong = (shard['rank'] > 0) & counted
    rows = shard.rows
    self.wrong[rows] += wrong.sum(1)
    self.shown[rows] += counted.sum(1)
    if 'probability' in shard.arrays:
      self.probability[rows] += (shard['probability'] * counted).sum(1, dtype=float)
    confidence = shard.arrays.get(CONFIDENCE, np.zeros(wrong.shape))
    best = np.where(wrong, confidence, -1.0)
    own = best.argmax(1)
    place = np.arange(len(own))
    better = np.flatnonzero(best[place, own] > self.confidence[rows])
    at = rows.start + better
    self.confidence[at] = best[better, own[better]]
    self.view[at] = shard.views.start + own[better]
    self.prediction[at] = shard['prediction'][better, own[better]]
    for own_labels in labels.T:
      self._add_by_class(shard, counted, wrong, own_labels)

  def _add_by_class(
    self, shard: Shard, counted: np.ndarray, wrong: np.ndarray, labels: np.ndarray
  ) -> None:
    """Adds one label of each image, of those that have it."""
    known = labels >= 0
    wrong, counted, labels = wrong[known], counted[known], labels[known]
    for table, values in ((self.class_right, counted & ~wrong), (self.class_shown, counted)):
      np.add.at(table[:, shard.views], labels, values)
    of_row = np.broadcast_to(labels[:, None], wrong.shape)[wrong]
    pairs = np.stack([of_row, shard['prediction'][known][wrong], np.ones_like(of_row)], 1)
    every = np.concatenate([self.mistakes, pairs])
    distinct, place = np.unique(every[:, :2], axis=0, return_inverse=True)
    counts = np.bincount(place.ravel(), every[:, 2], len(distinct)).astype(int)
    self.mistakes = np.concatenate([distinct, counts[:, None]], 1)


@dataclasses.dataclass(frozen=True)
class Failures:
  """What one classifier's records say of classes and images.

  Attributes:
    classes: the table by class; None where no image counts.
    accuracies: of all classes.
    images: rows of the table `DAMAGED_IMAGES`, without the classifier.
    places: int [F, 2], row and view of each.
  """

  classes: Table | None
  accuracies: list[ClassAccuracy]
  images: list[list[Any]]
  places: np.ndarray


def findings(
  study: Study, evaluations: Sequence[Evaluation], image_shape: tuple[int, int, int]
) -> Findings:
  """Returns the most affected classes and the most damaged images of every classifier.

  Tables `by_class`, in which versions of one image are one image also where they are stored, and
  'most damaged images', each of which is stored; arrays `failure_rows` [F, 2], row and view of each
  such image, from which its pictures are made. Estimates are the accuracies of all classes.
  """
  result, classes, images = Findings(), [], []
  rows: list[Row] = []
  columns: Sequence[str] = ()
  for evaluation, prefix in zip(evaluations, prefixes(evaluations), strict=True):
    table = study.view_table(evaluation.records, image_shape)
    confidence = getattr(study, 'confidence', 0.95)
    own = failures(evaluation.records, table, confidence)
    joined, views = study.by_image(evaluation.records, image_shape)
    of_class = own if joined is evaluation.records else failures(joined, views, confidence)
    if of_class.classes:
      columns = ('classifier', *of_class.classes.columns)
      classes += [[evaluation.label, *row] for row in of_class.classes.rows]
    rows += _estimates(evaluation.label, of_class.accuracies, confidence)
    images += [[evaluation.label, *row] for row in own.images]
    result.arrays[prefix + ROWS] = own.places
  result.estimates.append(part(rows))
  if classes:
    result.tables[BY_CLASS] = Table(columns, classes)
  result.tables[DAMAGED_IMAGES] = Table(COLUMNS, images)
  return result


def _estimates(label: str, classes: Sequence[ClassAccuracy], confidence: float) -> Iterator[Row]:
  """Yields rows of the table of results; see `robustness.estimates.table`."""
  for name, *numbers in classes:
    for quantity, number in zip((ACCURACY, CLEAN_ACCURACY), numbers, strict=True):
      if number:
        exact = number.interval.startswith(CLOPPER_PEARSON)
        method = CLOPPER_PEARSON if exact else KORN_GRAUBARD
        yield of_number(label, '', quantity, {'class': name}, number, method, confidence)


def failures(records: Records, table: ViewTable, confidence: float = 0.95) -> Failures:
  """Returns the most affected classes and the most damaged images.

  Images are ordered by the share of their views that are wrong, then by the mean probability of
  their class, lowest first.

  Args:
    records: of one classifier.
    table: what their views are.
    confidence: of the intervals.
  """
  labels = records.column('label')
  tally = Tally.of(records, table, labels)
  names = in_words(records.identity.get('classes', ()))
  clean = None
  if table.clean is not None and len(table.names) > 1:
    clean = records.column('rank', table.clean) == 0
  chosen = _most_damaged(tally, clean)
  images = _listed(records, table, tally, chosen, labels, names)
  classes, every = None, []
  if tally.shown.any():
    outcomes = _outcomes(tally, table, labels, clean)
    classes = by_class(outcomes, names, confidence)
    every = accuracies(outcomes, names, confidence)
  places = np.stack([chosen, tally.view[chosen]], 1).astype(np.int32)
  return Failures(classes, every, images, places)


def _most_damaged(tally: Tally, clean: np.ndarray | None) -> np.ndarray:
  """Returns up to `MOST` rows that are wrong in some view, the most damaged first."""
  candidates = np.flatnonzero((tally.view >= 0) & (True if clean is None else clean))
  shown = np.maximum(tally.shown, 1)
  share, probability = tally.wrong / shown, tally.probability / shown
  order = np.lexsort((probability[candidates], -share[candidates]))
  return candidates[order][:MOST]


def _outcomes(
  tally: Tally, table: ViewTable, labels: np.ndarray, clean: np.ndarray | None
) -> Outcomes:
  kept = tally.shown > 0
  shown = tally.shown[kept]
  by_view = None
  if len(table.names) > 1:
    some = tally.class_shown > 0
    by_view = np.full(some.shape, np.nan)
    np.divide(tally.class_right, tally.class_shown, out=by_view, where=some)
  return Outcomes(
    labels[kept],
    1 - tally.wrong[kept] / shown,
    shown,
    tally.mistakes,
    None if clean is None else clean[kept],
    by_view,
    table.names,
  )


def _listed(
  records: Records,
  table: ViewTable,
  tally: Tally,
  chosen: np.ndarray,
  labels: np.ndarray,
  names: Sequence[str],
) -> list[list[Any]]:
  ids = records.column('example_id')[chosen] if len(chosen) else chosen
  clean = [] if table.clean is None or len(table.names) == 1 or not len(chosen) else [table.clean]
  seen = [(records.column('prediction', v), _confidence(records, v)) for v in clean]
  return [
    [
      int(example),
      _classes(labels[row], names),
      int(tally.wrong[row]),
      int(tally.shown[row]),
      float(tally.probability[row] / tally.shown[row]),
      table.shown(row, int(tally.view[row])),
      class_name(int(tally.prediction[row]), names),
      float(tally.confidence[row]),
      class_name(int(seen[0][0][row]), names) if seen else None,
      float(seen[0][1][row]) if seen else None,
    ]
    for example, row in zip(ids, chosen, strict=True)
  ]


def _confidence(records: Records, view: int) -> np.ndarray:
  if CONFIDENCE in records.read(0, 0).arrays:
    return records.column(CONFIDENCE, view)
  return np.zeros(records.layout.num_rows)  # of an earlier version


def _classes(labels: np.ndarray, names: Sequence[str]) -> str:
  """Returns the name of an image's class, or of all its classes."""
  return ', '.join(class_name(int(label), names) for label in np.atleast_1d(labels) if label >= 0)
