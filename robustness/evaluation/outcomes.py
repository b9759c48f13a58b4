"""Outcomes from records: a statistic of every row in every view, for several classifiers."""

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd
from absl import logging

from robustness.core.errors import KEYS, InputError
from robustness.estimates.outcomes import Outcomes, statistic_of
from robustness.estimates.quantity import Quantity, Statistic
from robustness.evaluation.records import FIRST_PLACE, LAST_PLACE, Records, RecordsReader, Shard
from robustness.evaluation.rounds import CommonRows, SequentialRecords


@dataclasses.dataclass(frozen=True)
class Evaluation:
  """One classifier's records, under the label it has in the config.

  Of a sequential design there are `rounds`; `records` are then of the rows that all views have.
  """

  label: str
  records: RecordsReader
  rounds: SequentialRecords | None = None


def of_recorded(recorded: Mapping[str, Records | SequentialRecords]) -> list[Evaluation]:
  """Returns evaluations of what is recorded by label.

  Of rounds, the records are of the rows that all views of all labels have.
  """
  rounds = [records for records in recorded.values() if isinstance(records, SequentialRecords)]
  common = min((records.common for records in rounds), default=0)
  return [
    Evaluation(label, CommonRows(records, common), records)
    if isinstance(records, SequentialRecords)
    else Evaluation(label, records)
    for label, records in recorded.items()
  ]


BASE = 'base_id'
"""The column of rows that says which image a stored version is of."""
MOST_TIES = 0.01
"""Share of answers that equal scores may decide in a top-k accuracy."""
ONE_VIEW = pd.DataFrame(index=range(1))
"""The facets of the view of a study that shows images as they are."""


def refuse_versions(columns: Collection[str]) -> None:
  """Raises InputError for columns of rows that are versions of the same images."""
  if BASE in columns:
    raise InputError(
      f'some rows are versions of one image (their column {BASE}), and intervals of this study '
      f'are of independent images: leave one version of each ({KEYS.data.image_list}).'
    )


@dataclasses.dataclass(frozen=True)
class Recorded:
  """The records of all classifiers, the baseline first, and facets of the views, a row a view."""

  evaluations: Sequence[Evaluation]
  views: pd.DataFrame = dataclasses.field(default_factory=lambda: ONE_VIEW)

  @functools.cached_property
  def clusters(self) -> np.ndarray | None:
    """The image that each row is a version of, [N]; None where each image has one row."""
    return versions(self.evaluations[0].records)

  def require_distinct(self) -> None:
    """Refuses rows that are versions of the same images."""
    if self.clusters is not None:
      refuse_versions((BASE,))

  def top_k(self, k: int) -> list[int]:
    """Returns 1, and k if it leaves out classes of all classifiers or no records say these, and
    ties decide few answers (`decided_by_ties`); what is left out for ties is logged."""
    counts = [len(e.records.identity.get('classes', ())) for e in self.evaluations]
    if k >= min(filter(None, counts), default=k + 1):
      return [1]
    if reason := self.decided_by_ties(k):
      logging.warning('%s', reason)
      return [1]
    return sorted({1, k})

  def decided_by_ties(self, k: int) -> str:
    """Returns why there is no top-k accuracy: the classifiers with more than `MOST_TIES` of the
    answers right or wrong by the order of classes with equal scores; '' where there is one."""
    if k == 1:  # argmax decides, which is the prediction
      return ''
    shares = {
      e.label: float(e.records.values(functools.partial(is_decided_by_ties, k=k)).mean())
      for e in self.evaluations
    }
    tied = [f'{label} ({share:.0%})' for label, share in shares.items() if share > MOST_TIES]
    if not tied:
      return ''
    return (
      f'top-{k} is left out: equal scores of classes decide answers of {", ".join(tied)}, as of '
      f'one-hot outputs. Set {KEYS.study.top_k}=1, or give scores of all classes.'
    )

  @functools.cached_property
  def _measured(self) -> dict[Statistic, Outcomes]:
    return {}

  def outcomes(self, quantity: Quantity) -> Outcomes:
    """Returns the statistic of a quantity, of every row and view, in memory; quantities with one
    statistic, such as the error on clean and on corrupted images, share what was read.

    Raises:
      InputError: the quantity has no statistic, or the classifiers were shown different rows.
    """
    statistic = statistic_of(quantity)
    if statistic not in self._measured:
      self._measured[statistic] = self._outcomes_of(statistic)
    return self._measured[statistic]

  def _outcomes_of(self, statistic: Statistic) -> Outcomes:
    if not any(evaluation.rounds for evaluation in self.evaluations):
      values = {e.label: e.records.values(statistic) for e in self.evaluations}
      return Outcomes(values, self.views, clusters=self.clusters, statistic=statistic)
    tables = {e.label: _rounds(e.rounds, statistic) for e in self.evaluations if e.rounds}
    if len(tables) < len(self.evaluations):
      raise InputError('some classifiers were shown rows in rounds and others all at once.')
    num_rows = max(len(values) for values, _ in tables.values())
    padded = {label: [_padded(x, num_rows) for x in pair] for label, pair in tables.items()}
    first = self.evaluations[0].rounds
    return Outcomes(
      {label: values for label, (values, _) in padded.items()},
      self.views,
      {label: is_shown for label, (_, is_shown) in padded.items()},
      design=first.design if first else None,
      statistic=statistic,
    )


def versions(records: RecordsReader) -> np.ndarray | None:
  """Returns which image each row is a version of, [N]; None where no image has several."""
  if BASE not in records.read(0, 0).arrays:
    return None
  bases = records.column(BASE)
  return bases if len(np.unique(bases)) < len(bases) else None


def num_images(records: RecordsReader) -> int:
  """Returns how many images rows are, or are versions of."""
  bases = versions(records)
  return records.layout.num_rows if bases is None else len(np.unique(bases))


def image_numbers(records: RecordsReader) -> np.ndarray:
  """Returns the number of the image that each row is a version of, int [N]."""
  bases = versions(records)
  if bases is None:
    return np.arange(records.layout.num_rows)
  return np.unique(bases, return_inverse=True)[1]


def is_decided_by_ties(shard: Shard, k: int) -> np.ndarray:
  """Returns whether the order of classes with the score of the true one decides if that is among
  the k best, bool [n, v]; False in records of earlier versions."""
  if FIRST_PLACE not in shard.arrays:
    return np.zeros(shard['rank'].shape, bool)
  return (shard[FIRST_PLACE] < k) & (shard[LAST_PLACE] >= k)


def _rounds(rounds: SequentialRecords, statistic: Statistic) -> tuple[np.ndarray, np.ndarray]:
  """Returns values and what was shown of all rows of the rounds, [N, V] each."""
  values, is_shown = [], []
  for records, views in zip(rounds.rounds, rounds.views, strict=True):
    part = records.values(statistic)
    values.append(np.zeros((len(part), rounds.num_views), part.dtype))
    values[-1][:, views] = part
    is_shown.append(np.zeros(values[-1].shape, bool))
    is_shown[-1][:, views] = True
  return np.concatenate(values), np.concatenate(is_shown)


def _padded(values: np.ndarray, num_rows: int) -> np.ndarray:
  return np.pad(values, ((0, num_rows - len(values)), (0, 0)))
