"""How the review of neighbor sets changes what is measured on them.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, table 4 and figure 5.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd

from robustness.core.errors import InputError
from robustness.estimates.means import CLOPPER_PEARSON, arrays, of_number, part
from robustness.estimates.of_means import BOOTSTRAP
from robustness.evaluation.study import Evaluation, Findings, prefixes
from robustness.metrics import neighbor_estimates
from robustness.metrics.frame_predictions import FramePredictions, read_predictions
from robustness.metrics.neighbor_analysis import ACCURACY_COLUMNS, accuracies, review_impact
from robustness.metrics.neighbor_sets import error_by_offset, outcomes
from robustness.neighbor_sets import metadata
from robustness.neighbor_sets.metadata import NeighborSets
from robustness.rescoring.frame_predictions import Rescoring, records_of
from robustness.results import Table

KINDS = ('unreviewed', 'reviewed')


class NeighborStudy(Protocol):
  """The settings of a study of neighbor sets, and its reduction of records."""

  @property
  def k(self) -> int:
    """Largest distance from the anchor, frames."""

  @property
  def include_anchor(self) -> bool:
    """Whether the anchor must be right too."""

  @property
  def label_rule(self) -> str:
    """Whose labels count for a neighbor."""

  @property
  def merge(self) -> str:
    """How recorded scores are projected anew, or ''."""

  @property
  def confidence(self) -> float:
    """Of all intervals."""

  @property
  def described(self) -> dict[str, Any]:
    """Name, settings and facts as plain values."""

  def reduce(
    self, evaluations: Sequence[Evaluation], image_shape: tuple[int, int, int]
  ) -> Findings:
    """Reduces records to numbers, tables and arrays."""


def add(
  findings: Findings,
  study: NeighborStudy,
  rescoring: Rescoring,
  evaluations: Sequence[Evaluation],
  directory: pathlib.Path,
) -> None:
  """Adds the table `review`, the changes `review_<what>`, and errors by offset of both.

  Args:
    findings: of the study on the reviewed sets.
    study: its settings.
    rescoring: the predictions, and the sets before the review.
    evaluations: the records on the reviewed sets.
    directory: where records on the unreviewed sets are written.

  Raises:
    InputError: a reviewed anchor that is not among the unreviewed, or see `rescoring.evaluations`.
  """
  before = metadata.read(rescoring.unreviewed)
  for reviewed, prefix in zip(evaluations, prefixes(evaluations), strict=True):
    path = rescoring.paths[reviewed.label]
    records = records_of(rescoring, reviewed.label, path, before, directory / 'unreviewed')
    _add(
      findings,
      study,
      [read_predictions(recorded, study.merge) for recorded in (records, reviewed.records)],
      prefix,
      reviewed.label,
    )


def _add(
  findings: Findings,
  study: NeighborStudy,
  both: Sequence[FramePredictions],
  prefix: str,
  label: str,
) -> None:
  """Adds what the review changes of one classifier's accuracy, before and after it."""
  by_kind = [outcomes(a.sets, a.prediction, study.label_rule) for a in both]
  change = review_impact(
    by_kind[0],
    by_kind[1],
    positions(both[0].sets, both[1].sets),
    study.k,
    study.include_anchor,
    study.confidence,
  )
  findings.numbers.update({f'{prefix}review_{name}': number for name, number in change.items()})
  rows = []
  at_k = {'anchor': {}, 'worst': {'k': study.k}, 'drop': {'k': study.k}}
  findings.estimates.append(
    part(
      [
        of_number(
          label,
          '',
          neighbor_estimates.REVIEW[name],
          at_k[name],
          number,
          BOOTSTRAP,
          study.confidence,
        )
        for name, number in change.items()
      ]
    )
  )
  for kind, outcome in zip(KINDS, by_kind, strict=True):
    given = {label: outcome}, study.k, study.include_anchor, study.confidence
    findings.estimates += neighbor_estimates.accuracies(*given, {'frames': kind})
    three = accuracies(outcome, study.k, study.include_anchor, study.confidence)
    rows.append(
      [
        kind,
        outcome.num_anchors,
        *(value for number in three for value in (number.value, number.low, number.high)),
      ]
    )
    errors = error_by_offset(outcome)
    facets = pd.DataFrame({'frames': kind, 'offset': errors.offset})
    findings.estimates.append(
      arrays(
        neighbor_estimates.OFFSET_ERROR,
        label,
        facets,
        *errors.rate(study.confidence),
        n=errors.n,
        method=CLOPPER_PEARSON,
        confidence=study.confidence,
      )
    )
    findings.arrays.update(
      {
        f'{prefix}review/{kind}_{name}': np.asarray(values)
        for name, values in errors._asdict().items()
      }
    )
  findings.tables[f'{prefix}review'] = Table(('frames', *ACCURACY_COLUMNS), rows)


def positions(before: NeighborSets, after: NeighborSets) -> np.ndarray:
  """Returns where each anchor of the reviewed sets stands among the unreviewed, int [A'].

  Raises:
    InputError: an anchor that is not there.
  """
  place = {before.frames[anchor]: index for index, anchor in enumerate(before.anchors)}
  names = [after.frames[anchor] for anchor in after.anchors]
  missing = [name for name in names if name not in place]
  if missing:
    raise InputError(
      f'{len(missing)} of {len(names)} reviewed anchors are not among the unreviewed, '
      f'first {missing[0]!r}: config.unreviewed holds the sets before the review.'
    )
  return np.array([place[name] for name in names])
