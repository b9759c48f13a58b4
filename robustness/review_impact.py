"""How the review of neighbor sets changes what is measured on them.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, table 4 and figure 5.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np

from robustness.errors import InputError
from robustness.metrics.neighbor_analysis import accuracies, review_impact
from robustness.metrics.neighbor_sets import error_by_offset, outcomes
from robustness.neighbor_sets import metadata
from robustness.neighbor_sets.metadata import NeighborSets
from robustness.neighbor_sets.recorded import Answers, answers
from robustness.rescoring import Rescoring, records_of
from robustness.results import Table
from robustness.studies.video_pm_k import ACCURACY_COLUMNS, Study
from robustness.study import Evaluation, Findings, prefixes

KINDS = ('unreviewed', 'reviewed')


def add(findings: Findings, study: Study, wanted: Rescoring, evaluations: Sequence[Evaluation],
        directory: pathlib.Path) -> None:
  """Adds the table `review`, the changes `review_<what>`, and errors by offset of both.

  Args:
    findings: of the study on the reviewed sets.
    study: its settings.
    wanted: the predictions, and the sets before the review.
    evaluations: the records on the reviewed sets.
    directory: where records on the unreviewed sets are written.

  Raises:
    InputError: a reviewed anchor that is none of the unreviewed, or see `rescoring.evaluations`.
  """
  before = metadata.read(wanted.unreviewed)
  for reviewed, prefix in zip(evaluations, prefixes(evaluations), strict=True):
    path = wanted.paths[reviewed.label]
    records = records_of(wanted, reviewed.label, path, before, directory / 'unreviewed')
    _add(findings, study, [answers(one, study.merge) for one in (records, reviewed.records)],
         prefix)


def _add(findings: Findings, study: Study, both: Sequence[Answers], prefix: str) -> None:
  """Adds what the review changes of one classifier's answers, before and after it."""
  found = [outcomes(one.sets, one.prediction, study.label_rule) for one in both]
  change = review_impact(found[0], found[1], positions(both[0].sets, both[1].sets), study.k,
                         study.include_anchor, study.confidence)
  findings.numbers.update({f'{prefix}review_{name}': number for name, number in change.items()})
  rows = []
  for kind, one in zip(KINDS, found, strict=True):
    three = accuracies(one, study.k, study.include_anchor, study.confidence)
    rows.append([kind, one.num_anchors, *(value for number in three
                                          for value in (number.value, number.low, number.high))])
    errors = error_by_offset(one)
    findings.arrays.update({f'{prefix}review/{kind}_{name}': np.asarray(values)
                            for name, values in errors._asdict().items()})
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
    raise InputError(f'{len(missing)} of {len(names)} reviewed anchors are none of the unreviewed, '
                     f'first {missing[0]!r}: config.unreviewed holds the sets before the review.')
  return np.array([place[name] for name in names])
