"""Computes a statistic, such as 'the prediction is wrong', of every row and view from records.

A row is a stored image, and a view is one way of showing it, such as fog at severity 3.
"""

import dataclasses
import functools
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from absl import logging

from robustness.core.errors import KEYS, InputError
from robustness.core.rows import are_equal_columns
from robustness.estimates.outcomes import Outcomes, statistic_of
from robustness.estimates.quantity import Quantity, Statistic
from robustness.evaluation.records import RANK_FIRST, RANK_LAST, Records, RecordsReader, Shard
from robustness.evaluation.rounds import CommonRows, SequentialRecords


@dataclasses.dataclass(frozen=True)
class Evaluation:
  """The recorded predictions of one classifier for all images in all views of a study.

  Attributes:
    label: label of the classifier in the config.
    records: the predictions. In a sequential evaluation, which shows more images in some views,
      they have only the images that were shown in all views.
    rounds: all records of a sequential evaluation; None for any other evaluation.
  """

  label: str
  records: RecordsReader
  rounds: SequentialRecords | None = None


def as_evaluations(recorded: Mapping[str, Records | SequentialRecords]) -> list[Evaluation]:
  """Returns an `Evaluation` for each classifier, all with the same images.

  A sequential evaluation shows images in rounds: the first rounds in all views (ways of perturbing
  images), later ones only in views with a wide interval. `Evaluation.records` have the rounds in
  which every classifier was shown all views.

  Args:
    recorded: {label of the classifier: its records}.
  """
  sequential = [records for records in recorded.values() if isinstance(records, SequentialRecords)]
  # the number of rounds with all views for every classifier
  common_rounds = min((records.num_full_rounds for records in sequential), default=0)
  evaluations = []
  for label, records in recorded.items():
    if isinstance(records, SequentialRecords):
      evaluations.append(Evaluation(label, CommonRows(records, common_rounds), records))
    else:
      evaluations.append(Evaluation(label, records))
  return evaluations


BASE = 'base_id'
"""The column with the number of the original image, in rows that are stored versions of images,
such as their corruptions."""
MAX_TIED_SHARE = 0.01
"""Largest share of predictions for which the order of classes with equal scores may decide whether
the top k are correct; above it there is no top-k accuracy."""
ONE_VIEW = pd.DataFrame(index=range(1))
"""The table of facets of a single view without facets, which shows images unchanged."""


def refuse_versions(columns: Collection[str]) -> None:
  """Raises InputError if the data have several versions of an image, such as its corruptions.

  Versions of an image depend on one another. Intervals for independent images are not valid for
  them.

  Args:
    columns: names of the columns of the data. Data with versions have the column `BASE`.
  """
  if BASE in columns:
    raise InputError(
      f'some rows are versions of one image (their column {BASE}), and intervals of this study '
      f'are of independent images: leave one version of each ({KEYS.data.image_list}).'
    )


@dataclasses.dataclass(frozen=True)
class Recorded:
  """The recorded predictions of all classifiers of a study.

  Attributes:
    evaluations: one entry per classifier. Other classifiers are compared with the first.
    views: table with a row per view, and a column per facet, such as `corruption` and `severity`.
  """

  evaluations: Sequence[Evaluation]
  views: pd.DataFrame = dataclasses.field(default_factory=lambda: ONE_VIEW)

  @functools.cached_property
  def clusters(self) -> np.ndarray | None:
    """The number of each stored image's original, [N]; None if all originals differ.

    Stored images with the same number are versions of one original, such as its corruptions.
    """
    return versions(self.evaluations[0].records)

  def require_equal_columns(self, names: Iterable[str]) -> None:
    """Raises InputError if a column of the data has other values for another classifier.

    Compared runs may have the same images with other columns, such as other sets of video frames.
    """
    first, *others = self.evaluations
    for name, other in itertools.product(names, others):
      if not are_equal_columns(first.records.column(name), other.records.column(name)):
        raise InputError(
          f'the column {name!r} has other values for {other.label} than for {first.label}: measure '
          'both on the same rows.'
        )

  def require_distinct(self) -> None:
    """Raises InputError if images are versions of the same image, such as its corruptions."""
    if self.clusters is not None:
      refuse_versions([BASE])  # raises: the records have this column

  def top_k(self, k: int) -> list[int]:
    """Returns the k of the top-k accuracies that can be reported: [1, k], or only [1].

    Only top-1 is reported if a classifier has k classes or fewer, as all predictions would be
    right. The same holds if ties decide too many predictions (`decided_by_ties`); a warning is then
    logged.
    """
    num_classes = [len(e.records.identity.get('classes', ())) for e in self.evaluations]
    stated_numbers = [number for number in num_classes if number]  # records may lack the classes
    if stated_numbers and k >= min(stated_numbers):
      return [1]
    if reason := self.decided_by_ties(k):
      logging.warning('%s', reason)
      return [1]
    return sorted({1, k})

  def decided_by_ties(self, k: int) -> str:
    """Returns the reason for reporting no top-k accuracy, or '' if there is none.

    The reason is that a prediction of a classifier is often right or wrong only by the order of
    classes with equal scores. 'Often' is more than the share `MAX_TIED_SHARE` of its predictions.
    """
    if k == 1:  # the prediction, by argmax, decides ties
      return ''
    tied = []
    for evaluation in self.evaluations:
      is_decided = evaluation.records.values(functools.partial(is_decided_by_ties, k=k))  # [N, V]
      share = float(is_decided.mean())
      if share > MAX_TIED_SHARE:
        tied.append(f'{evaluation.label} ({share:.0%})')
    if not tied:
      return ''
    return (
      f'top-{k} is left out: equal scores of classes decide answers of {", ".join(tied)}, as of '
      f'one-hot outputs. Set {KEYS.study.top_k}=1, or give scores of all classes.'
    )

  @functools.cached_property
  def _measured(self) -> dict[Statistic, Outcomes]:
    """Cache of `outcomes`, {statistic: its values for all classifiers}."""
    return {}

  def outcomes(self, quantity: Quantity) -> Outcomes:
    """Computes a quantity's statistic for every classifier, image and view.

    The statistic of the error, for example, is whether a prediction is wrong. Values stay in
    memory. Quantities with the same statistic, such as the errors on clean and on corrupted images,
    therefore read the records once.

    Raises:
      InputError: the quantity has no statistic, or the classifiers were shown different images.
    """
    statistic = statistic_of(quantity)
    if statistic not in self._measured:
      self._measured[statistic] = self._outcomes_of(statistic)
    return self._measured[statistic]

  def _outcomes_of(self, statistic: Statistic) -> Outcomes:
    """Computes a statistic from the records for every classifier, image and view.

    A sequential evaluation shows images in rounds, and only in views (ways of perturbing images)
    with an error that is not precise enough yet. Its outcomes also state which images were shown in
    which views.

    Args:
      statistic: function from a shard (a file of records) of n images and v views to values [n, v].
    """
    sequential = {e.label: e.rounds for e in self.evaluations if e.rounds}
    if not sequential:
      values = {e.label: e.records.values(statistic) for e in self.evaluations}
      return Outcomes(values, self.views, clusters=self.clusters, statistic=statistic)
    # a classifier may have fewer rounds than another, and all get the same number of rows
    num_rows = max(int(records.shown.max()) for records in sequential.values())
    values, is_shown = {}, {}
    for label, records in sequential.items():
      values[label], is_shown[label] = records.values(statistic, num_rows)
    first, *_ = sequential.values()  # all classifiers have the same stopping rule, the design
    return Outcomes(values, self.views, is_shown, design=first.design, statistic=statistic)


def versions(records: RecordsReader) -> np.ndarray | None:
  """Returns the number of each stored image's original, [N]; None if all originals differ.

  Stored images with the same number are versions of one original, such as its corruptions.
  """
  if BASE not in records.read(0, 0).arrays:  # the column with these numbers
    return None
  bases = records.column(BASE)
  return bases if len(np.unique(bases)) < len(bases) else None


def num_images(records: RecordsReader) -> int:
  """Returns the number of images; versions of one image, such as its corruptions, count once."""
  bases = versions(records)
  return records.layout.num_rows if bases is None else len(np.unique(bases))


def image_numbers(records: RecordsReader) -> np.ndarray:
  """Numbers the originals of the stored images, int [N] in 0..(number of originals) − 1.

  Stored images with equal numbers are versions of one original, such as its corruptions.
  """
  bases = versions(records)
  if bases is None:
    return np.arange(records.layout.num_rows)
  return np.unique(bases, return_inverse=True)[1]  # the position of each id among distinct ids


def is_decided_by_ties(shard: Shard, k: int) -> np.ndarray:
  """Returns whether top-k correctness depends on the order of equal scores, bool [n, v].

  It does if the true class is among the k best when placed before all classes with the same score,
  but not when placed after them. Records of earlier versions lack these two ranks, and the result
  is False.

  Args:
    shard: records of n images in v views.
    k: number of classes.
  """
  if RANK_FIRST not in shard.arrays:
    return np.zeros(shard['rank'].shape, bool)
  return (shard[RANK_FIRST] < k) & (shard[RANK_LAST] >= k)
