"""What a classifier got wrong, image by image and class by class, summed over views."""

from __future__ import annotations

import dataclasses

import numpy as np

from robustness.evaluation.records import CONFIDENCE, Records, Shard
from robustness.evaluation.view_table import ViewTable


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
  def of(cls, records: Records, table: ViewTable) -> Tally:
    """Returns the sums over all shards of records.

    Args:
      records: of one classifier.
      table: what their views are.
    """
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
      tally._add(shard, table.of(shard))
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
      self._add_by_class(shard, counted[known], wrong[known], labels[known], known)

  def _add_by_class(
    self,
    shard: Shard,
    counted: np.ndarray,
    wrong: np.ndarray,
    labels: np.ndarray,
    known: np.ndarray,
  ) -> None:
    """Adds one label [n] of each image that has it, bool [rows of the shard]."""
    for table, values in ((self.class_right, counted & ~wrong), (self.class_shown, counted)):
      np.add.at(table[:, shard.views], labels, values)
    of_row = np.broadcast_to(labels[:, None], wrong.shape)[wrong]
    pairs = np.stack([of_row, shard['prediction'][known][wrong], np.ones_like(of_row)], 1)
    every = np.concatenate([self.mistakes, pairs])
    distinct, place = np.unique(every[:, :2], axis=0, return_inverse=True)
    counts = np.bincount(place.ravel(), every[:, 2], len(distinct)).astype(int)
    self.mistakes = np.concatenate([distinct, counts[:, None]], 1)
