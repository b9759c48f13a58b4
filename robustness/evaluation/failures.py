"""Which classes and images suffer most in a study's views, from the records of any of them.

An image is damaged by the views in which it is wrong. Where a view shows images clean, damage is of
those that are right in it. Each is shown in the view of its most confident mistake.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from robustness.estimates.means import Row, part, row, share
from robustness.estimates.outcomes import Sums
from robustness.estimates.quantity import ACCURACY, CLEAN_ACCURACY
from robustness.estimates.table import assemble, select
from robustness.evaluation.records import CONFIDENCE, RecordsReader, Shard
from robustness.evaluation.study import Evaluation, Findings, Study
from robustness.evaluation.views import ViewTable
from robustness.models.imagenet_names import in_words
from robustness.results import DAMAGED_IMAGES, Table

MOST_IMAGES = 6
"""Of each classifier, that are listed and shown."""
MOST_CLASSES = 50
"""That the table has room for."""
AFFECTED_CLASSES = 'most affected classes'
IMAGE_COLUMNS = (
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

  Estimates are the accuracies of all classes; tables are `AFFECTED_CLASSES`, in which stored
  versions of one image are one image, and `DAMAGED_IMAGES`, each of which is stored. The second
  value is by classifier the row and view of each such image, int [F, 2].
  """
  classes: list[dict[str, object]] = []
  images: list[list[object]] = []
  rows: list[Row] = []
  places = {}
  for label, records in ((evaluation.label, evaluation.records) for evaluation in evaluations):
    names = in_words(records.identity.get('classes', ()))
    table = study.by_row(records, image_shape)
    own = of_class = Tally.of(records, table)
    joined, views = study.by_image(records, image_shape)
    if joined is not records:
      of_class = Tally.of(joined, views)
    rows += class_accuracies(label, of_class, names, study.confidence, views.units)
    classes += most_affected(label, of_class, names, views.names)
    chosen = most_damaged(own)
    images += [[label, *row] for row in _listed(records, table, own, chosen, names)]
    places[label] = np.stack([chosen, own.view[chosen]], 1).astype(np.int32)
  tables = {
    AFFECTED_CLASSES: Table([*classes[0]] if classes else [], [[*row.values()] for row in classes]),
    DAMAGED_IMAGES: Table(IMAGE_COLUMNS, images),
  }
  return Findings(tables=tables, estimates=[part(rows)]), places


def with_classes(table: pd.DataFrame, by_class: Sequence[pd.DataFrame]) -> pd.DataFrame:
  """Adds accuracies by class, but for a quantity that a study estimates by class itself."""
  further = assemble(by_class)
  present = {
    name for name in set(further.quantity) if len(select(table, name, None, **{'class': ...}))
  }
  return assemble([table, further[~further.quantity.isin(present)]])


def most_damaged(tally: Tally) -> np.ndarray:
  """Returns up to `MOST_IMAGES` rows that are wrong in some view, the largest share of wrong views
  first, of equal ones the lowest mean probability of the class."""
  candidates = np.flatnonzero((tally.view >= 0) & (True if tally.clean is None else tally.clean))
  shown = np.maximum(tally.shown, 1)
  share, probability = tally.wrong / shown, tally.probability / shown
  order = np.lexsort((probability[candidates], -share[candidates]))
  return candidates[order][:MOST_IMAGES]


def _listed(
  records: RecordsReader, table: ViewTable, tally: Tally, chosen: np.ndarray, names: Sequence[str]
) -> list[list[object]]:
  """Returns rows of `IMAGE_COLUMNS`, without the classifier, of chosen images."""
  ids = records.column('example_id')[chosen]
  clean: list[list[object]] = [[None, None]] * len(chosen)
  if tally.clean is not None:
    prediction = records.column('prediction', table.clean or 0)[chosen]
    confidence = records.column(CONFIDENCE, table.clean or 0)[chosen]
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
      table.names[tally.view[row]] if table.rows is None else table.rows[row],
      class_name(int(tally.prediction[row]), names),
      float(tally.confidence[row]),
      *when_clean,
    ]
    for example, row, when_clean in zip(ids, chosen, clean, strict=True)
  ]


def class_accuracies(
  label: str,
  tally: Tally,
  names: Sequence[str],
  confidence: float = 0.95,
  units: np.ndarray | None = None,
) -> Iterator[Row]:
  """Yields the accuracy of every class that has images as rows of the table of results.

  `accuracy` is over all views but the clean one, each image's share of right views once, and
  `clean_accuracy` in that where there is one. The interval is Clopper and Pearson's for a single
  view, else Korn and Graubard's with the image as the cluster, or its one of `units` [N]. A class
  without a name is called by its number.
  """
  for number, own in _members(tally):
    facets, each = {'class': class_name(number, names)}, np.ones(len(own))
    right = {ACCURACY: (1 - tally.wrong[own] / tally.shown[own], tally.shown[own])}
    if tally.clean is not None:
      right[CLEAN_ACCURACY] = tally.clean[own].astype(float), each
    _, unit = np.unique(own if units is None else units[own], return_inverse=True)
    for quantity, (shares, trials) in right.items():
      total, weight = np.bincount(unit, shares), np.bincount(unit).astype(float)
      estimate = share(Sums(total, weight, len(own), float(trials.sum())), confidence)
      yield row(label, '', quantity, facets, estimate, confidence)


def most_affected(
  label: str, tally: Tally, names: Sequence[str], views: Sequence[str]
) -> list[dict[str, object]]:
  """Returns by column the `MOST_CLASSES` classes that lose most accuracy against the clean view;
  where there is none, the least accurate ones. Only where several views count there is a worst."""
  rows, order = [], []
  for number, own in _members(tally):
    accuracy = float((1 - tally.wrong[own] / tally.shown[own]).mean())
    row: dict[str, object] = {'classifier': label, 'class': class_name(number, names)}
    row['images'] = len(own)
    if tally.clean is None:
      row['accuracy'] = accuracy
      order.append(accuracy)
    else:
      row['accuracy when clean'] = clean = float(tally.clean[own].mean())
      row['accuracy lost'] = lost = round(clean - accuracy, 9) + 0.0  # no −0
      order.append(-lost)
    row |= {'views wrong': int(tally.wrong[own].sum()), 'of': int(tally.shown[own].sum())}
    if len(views) - (tally.clean is not None) > 1:
      shown = tally.class_shown[number]
      right = np.where(shown > 0, tally.class_right[number] / np.maximum(shown, 1), 2)
      least = np.flatnonzero(right == right.min())
      row['least accurate in'] = views[least[0]] if len(least) == 1 else f'{len(least)} views alike'
    taken, times = 'none', 0
    made = tally.mistakes[tally.mistakes[:, 0] == number]
    if len(made):
      _, other, times = made[made[:, 2].argmax()].tolist()
      taken = class_name(other, names)
    rows.append({**row, 'most often taken for': taken, 'times': times})
  return [rows[place] for place in np.argsort(order, kind='stable')[:MOST_CLASSES]]


def _members(tally: Tally) -> Iterator[tuple[int, np.ndarray]]:
  """Yields each class that has images that count, and which these are, int [n]."""
  counted = tally.shown > 0
  for number in np.unique(tally.labels[counted]):
    if number >= 0:
      yield int(number), np.flatnonzero(counted & (tally.labels == number).any(1))


def class_name(label: int, names: Sequence[str]) -> str:
  """Returns the name of a class, its number where it has none."""
  return str(names[label]) if 0 <= label < len(names) else str(label)


@dataclasses.dataclass
class Tally:
  """Sums over views of N images, gathered shard by shard.

  Attributes:
    labels: int [N, L], -1 where an image has fewer than L; it counts in each of its classes.
    clean: bool [N], right in the view that shows images clean; None where there is none.
    wrong, shown: int [N], views in which an image is wrong, and in which it counts.
    probability: [N], of the true class, summed over these views.
    view, prediction, confidence: [N], of the most confident mistake; view is -1 without one.
    mistakes: int [P, 3]: label, wrong prediction, how often.
    class_right, class_shown: int [C, V].
  """

  labels: np.ndarray
  clean: np.ndarray | None
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
  def of(cls, records: RecordsReader, table: ViewTable) -> Tally:
    """Returns the sums over all shards of a classifier's records, whose views `table` describes."""
    labels = records.column('label')
    count, by_class = len(labels), (int(labels.max()) + 1, len(table.names))
    alone = table.clean is None or len(table.names) == 1
    tally = cls(
      labels=labels.reshape(count, -1),
      clean=None if alone else records.column('rank', table.clean or 0) == 0,
      wrong=np.zeros(count, int),
      shown=np.zeros(count, int),
      probability=np.zeros(count),
      view=np.full(count, -1),
      prediction=np.full(count, -1),
      confidence=np.full(count, -1.0),
      mistakes=np.zeros((0, 3), int),
      class_right=np.zeros(by_class, int),
      class_shown=np.zeros(by_class, int),
    )
    for shard in records.shards():
      tally._add(shard, table.counted_in(shard))
    return tally

  def _add(self, shard: Shard, counted: np.ndarray) -> None:
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
    for labels in self.labels[rows].T:
      known = labels >= 0
      here, missed, own = counted[known], wrong[known], labels[known]
      for table, values in ((self.class_right, here & ~missed), (self.class_shown, here)):
        np.add.at(table[:, shard.views], own, values)
      of_row = np.broadcast_to(own[:, None], missed.shape)[missed]
      pairs = np.stack([of_row, shard['prediction'][known][missed], np.ones_like(of_row)], 1)
      every = np.concatenate([self.mistakes, pairs])
      distinct, place = np.unique(every[:, :2], axis=0, return_inverse=True)
      counts = np.bincount(place.ravel(), every[:, 2], len(distinct)).astype(int)
      self.mistakes = np.concatenate([distinct, counts[:, None]], 1)
