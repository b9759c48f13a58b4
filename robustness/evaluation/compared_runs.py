"""What several classifiers got right in the same views, and how each differs from the first."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from robustness.core.errors import InputError
from robustness.estimates.effective_robustness import FEWEST, effective_robustness
from robustness.estimates.means import Estimate, Row, part, row, share, share_difference
from robustness.estimates.of_means import Units, bootstrap
from robustness.estimates.outcomes import Group, Outcomes
from robustness.estimates.quantity import ACCURACY, Quantity
from robustness.estimates.table import SUBJECT, assemble, facets_of
from robustness.evaluation.entries import Entry
from robustness.evaluation.pairing import Pairing, pair
from robustness.evaluation.records import RecordsReader, SelectedRows
from robustness.evaluation.study import Evaluation
from robustness.evaluation.views import ViewTable
from robustness.results import Results, Table

CONFIDENCE = 0.95
NEWCOMBE = 'newcombe'
CLEAN = 'clean'
EFFECTIVE = Quantity(
  'effective_robustness', 'accuracy above the line through the classifiers', better='higher', low=-1
)
WHY_NOT = 'not compared by the study itself'
"""The fact that the study finds nothing of all classifiers together, with the reason."""


@dataclasses.dataclass(frozen=True)
class Answers:
  """What one classifier made of N images in V views.

  Attributes:
    right: bool [N, V].
    ids: int [N], of the images.
    table: what the views are, and which images count in which.
  """

  right: np.ndarray
  ids: np.ndarray
  table: ViewTable

  @classmethod
  def of(cls, entry: Entry, records: RecordsReader) -> Answers:
    """Returns those that an entry's records hold, or a selection of them."""
    joined, table = entry.finished.study.by_image(records, entry.finished.image_shape)
    return cls(joined.table('rank') == 0, joined.column('example_id'), table)

  def on(self, entry: Entry, rows: np.ndarray) -> Answers:
    """Returns those of given rows of the entry's records."""
    records = _selected(entry, rows)
    return self if records is entry.evaluation.records else Answers.of(entry, records)

  @property
  def named_groups(self) -> dict[str, list[str]]:
    """Names of the views of each group in which any image counts."""
    return {
      group: [self.table.names[view] for view in members]
      for group, members in self.table.groups.items()
      if self.table.counted is None or self.table.counted[:, list(members)].any()
    }

  def group(self, name: str) -> Group:
    """Returns the views of a group; one that is in it twice, such as a mirrored frequency, is one
    that counts twice."""
    views, times = np.unique(list(self.table.groups[name]), return_counts=True)
    return Group(dict(self.table.facets_of(name)), views, times / np.gcd.reduce(times))

  def outcomes(self, **right: np.ndarray) -> Outcomes:
    """Returns answers on these images as outcomes, by name."""
    views, counted = pd.DataFrame(index=range(len(self.table.names))), self.table.counted
    shown = None if counted is None else dict.fromkeys(right, counted)
    return Outcomes(right, views, shown, self.table.units)

  def accuracy(self, group: str) -> Estimate:
    """Returns the accuracy in a group of views, over images or what they are clustered in."""
    return share(self.outcomes(own=self.right).sums('own', self.group(group)), CONFIDENCE)

  def minus(self, first: Answers, group: str) -> Estimate:
    """Returns the accuracy minus the first's on the same images."""
    both = self.outcomes(first=first.right, second=self.right).pair('first', 'second')
    gained, lost = (both.sums(name, self.group(group)) for name in ('gained', 'lost'))
    return share_difference(gained, lost, CONFIDENCE, test=True)

  def shares(self, group: str) -> np.ndarray:
    """Returns the share of the group's views in which each image is right, [N]."""
    return self.right[:, list(self.table.groups[group])].mean(1)


def _selected(entry: Entry, rows: np.ndarray) -> RecordsReader:
  """Returns given rows of an entry's records: these themselves where all are given in order."""
  records = entry.evaluation.records
  whole = np.array_equal(rows, np.arange(records.layout.num_rows))
  return records if whole else SelectedRows(records, rows)


@dataclasses.dataclass(frozen=True)
class Shared:
  """What a classifier is compared by.

  Attributes:
    label: of the classifier.
    own: answers on all its images.
    both: the first classifier's and its own on the images that they share; None without any.
    note: see `Pairing`.
  """

  label: str
  own: Answers
  both: tuple[Answers, Answers] | None
  note: str

  @classmethod
  def of(cls, first: Entry, base: Answers, entry: Entry, pairing: Pairing) -> Shared:
    """Returns the answers of an entry and, where they are paired, of the first one.

    Raises:
      InputError: the same rows are versions of other images in the two runs.
    """
    own = base if entry is first else Answers.of(entry, entry.evaluation.records)
    if not pairing.paired:
      return cls(entry.label, own, None, pairing.note)
    both = base.on(first, pairing.first), own.on(entry, pairing.second)
    if not np.array_equal(both[0].ids, both[1].ids):
      raise InputError(
        f'{first.label} and {entry.label} share stored images, but not which are versions of one '
        'image: run both on the same data set.'
      )
    return cls(entry.label, own, both, pairing.note)


def compare(entries: Sequence[Entry], common: bool, baseline: str) -> Results:
  """Compares the classifiers of a study with the first of them.

  Args:
    entries: at least one.
    common: see `pairing.pair`.
    baseline: label of the first classifier of all parts; where a part lacks it, such as a callable
      in an attack, the notes name the one that differences are from.

  Returns:
    The accuracy of each classifier by group of views, and its difference from the first's; then
    what the study finds of all classifiers on their shared images as if one run had measured them,
    or as a fact why it cannot.
  """
  first = entries[0]
  lacking = (
    '' if first.label == baseline else f'minus {first.label}: {baseline} is not in this part'
  )
  pairings = [
    pair(first.evaluation.records, e.evaluation.records, (first.label, e.label), common).noting(
      lacking
    )
    for e in entries
  ]
  base = Answers.of(first, first.evaluation.records)
  shared = [Shared.of(first, base, e, own) for e, own in zip(entries, pairings, strict=True)]
  compared = Results(
    first.finished.study.name,
    [_described(entry) for entry in entries],
    first.finished.results.data,
    first.finished.results.settings,
    table=assemble([part(_estimates(_common_groups(entries, shared), shared))]),
    quantities=(ACCURACY, EFFECTIVE),
  )
  try:
    return _with_findings(compared, entries, pairings)
  except InputError as error:
    return dataclasses.replace(compared, tables={WHY_NOT: Table(('why',), [[str(error)]])})


def _estimates(groups: Sequence[str], shared: Sequence[Shared]) -> list[Row]:
  """Returns rows of the table of results, group by group."""
  rows, first = [], shared[0]
  for group in groups:
    effective = _effective(shared, group) if group != CLEAN and CLEAN in groups else []
    facets = first.own.table.facets_of(group)
    for each in shared:
      accuracy = each.own.accuracy(group)
      rows.append(row(each.label, '', ACCURACY, facets, accuracy, CONFIDENCE))
      if each is not first:
        difference = (
          each.both[1].minus(each.both[0], group)
          if each.both
          else independent_difference(first.own.accuracy(group), accuracy)
        )
        noted = dataclasses.replace(difference, note=each.note)
        rows.append(row(each.label, first.label, ACCURACY, facets, noted, CONFIDENCE))
    for each, estimate in zip(shared, effective, strict=False):
      if not np.isnan(estimate.value):
        rows.append(row(each.label, '', EFFECTIVE, facets, estimate, CONFIDENCE))
  return rows


def _common_groups(entries: Sequence[Entry], shared: Sequence[Shared]) -> list[str]:
  """Returns the groups of views that are the same in all.

  Raises:
    InputError: there is none, because the runs have other stored versions of their images.
  """
  named = [answers.named_groups for each in shared for answers in (each.own, *(each.both or ()))]
  groups = [group for group, names in named[0].items() if all(o.get(group) == names for o in named)]
  if not groups:
    places = ', '.join(dict.fromkeys(str(entry.finished.folder) for entry in entries))
    raise InputError(
      f'{places} have no group of views in common: their images are stored in other versions. Run '
      'them on the same ones.'
    )
  return groups


def independent_difference(first: Estimate, second: Estimate) -> Estimate:
  """Returns second - first with its interval, from those of two independent proportions.

  Reference:
    Newcombe, Interval estimation for the difference between independent proportions, Statistics in
    Medicine 17 (1998), method 10 with the intervals given.
  """
  value = second.value - first.value
  low = value - float(np.hypot(second.value - second.low, first.high - first.value))
  high = value + float(np.hypot(second.high - second.value, first.value - first.low))
  return Estimate(value, low, high, second.n, second.clusters, NEWCOMBE)


def _effective(shared: Sequence[Shared], group: str) -> list[Estimate]:
  """Returns each classifier's effective robustness, none of too few classifiers; with a bootstrap
  interval over images where all share them."""
  if len(shared) <= FEWEST:
    return []
  counts = [len(each.own.ids) for each in shared]
  n = min(counts)
  both = [each.both[1] for each in shared if each.both]
  if len(both) == len(shared) and all(len(answers.ids) == n for answers in both):
    x, y = (np.stack([answers.shares(views) for answers in both], 1) for views in (CLEAN, group))
    units = Units(x, np.ones_like(x), n)
    return bootstrap(lambda w: effective_robustness(w @ x, w @ y, n), units, CONFIDENCE)
  x, y = (np.array([each.own.shares(k).mean() for each in shared]) for k in (CLEAN, group))
  values = effective_robustness(x, y, n)
  return [
    Estimate(float(value), np.nan, np.nan, count, count, '')
    for value, count in zip(values, counts, strict=True)
  ]


def _with_findings(
  compared: Results, entries: Sequence[Entry], pairings: Sequence[Pairing]
) -> Results:
  """Adds what the study finds of all classifiers on their shared images.

  Raises:
    InputError: why it cannot.
  """
  first = entries[0].finished
  if len(entries) < 2:
    raise InputError('a single classifier')
  if not all(pairing.paired for pairing in pairings):
    raise InputError('not all classifiers were shown the same images')
  places = functools.reduce(np.intersect1d, (pairing.first for pairing in pairings))
  evaluations = [
    Evaluation(entry.label, _selected(entry, own.second[np.isin(own.first, places)]))
    for entry, own in zip(entries, pairings, strict=True)
  ]
  findings = first.study.reduce(evaluations, first.image_shape)
  own = tuple(prefix for prefix in first.results.prefixes.values() if prefix)
  kept = {k: v for k, v in first.results.arrays.items() if not k.startswith(own or ('\0',))}
  table = pd.concat([own.astype(object) for own in (compared.table, *findings.estimates)])
  again = table.duplicated([*SUBJECT, *facets_of(table)])
  known = {quantity.name for quantity in compared.quantities}
  declared = (quantity for quantity in first.study.quantities if quantity.name not in known)
  return dataclasses.replace(
    compared,
    data={**first.results.data, 'num_examples': len(places)},
    tables=findings.tables,
    arrays={**kept, **findings.arrays},
    table=assemble([table[~again]]),
    quantities=(*compared.quantities, *declared),
  )


def _described(entry: Entry) -> dict[str, Any]:
  """Returns what the workdir says of a classifier, under its label here."""
  described = entry.finished.results.classifier
  several = [described] if isinstance(described, Mapping) else described
  own = next(each for each in several if each['label'] == entry.own)
  return {**own, 'label': entry.label, 'workdir': str(entry.finished.folder)}
