"""What several classifiers got right in the same views, and how each differs from the first."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robustness.compare.entries import Entry
from robustness.compare.pairing import Pairing, pair
from robustness.core.errors import InputError
from robustness.estimates.comparison import benjamini_hochberg, sign_flip
from robustness.estimates.intervals import percentile_interval
from robustness.evaluation.row_selection import RowSelection
from robustness.evaluation.study import Evaluation
from robustness.metrics.corruption_error import resampled
from robustness.metrics.effective_robustness import FEWEST, effective_robustness
from robustness.metrics.shares import mean_difference, mean_share
from robustness.results import Number, Results, Table

COLUMNS = (
  'part',
  'views',
  'classifier',
  'images',
  'accuracy',
  'low',
  'high',
  'minus the first',
  'difference low',
  'difference high',
  'p',
  'significant',
  'paired',
  'effective robustness',
  'effective low',
  'effective high',
  'note',
)
CONFIDENCE, RATE = 0.95, 0.05
SEED = 0  # of the bootstrap


@dataclasses.dataclass(frozen=True)
class Compared:
  """One part of several workdirs.

  Attributes:
    rows: of `COLUMNS`.
    together: what the study finds of all classifiers as if one run had measured them, with its own
      paired tests and maps of differences; None where they do not share their images.
    why_not: why there is no `together`.
  """

  rows: list[list[Any]]
  together: Results | None
  why_not: str = ''


def compare(part: str, entries: Sequence[Entry], common: bool, baseline: str) -> Compared:
  """Compares the classifiers of a part with the first of them.

  Args:
    part: its name, '' for a single study.
    entries: at least one.
    common: see `pairing.pair`.
    baseline: label of the first classifier of all parts; where a part lacks it, such as a callable
      in an attack, the notes name the one that differences are from.
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
  groups = first.finished.study.group_views(first.finished.image_shape)
  right = [entry.evaluation.records.table('rank') == 0 for entry in entries]
  rows = [
    [part, group, entry.label, *_of_views(right[0], own, pairing, members, index == 0)]
    for group, members in groups.items()
    for index, (entry, own, pairing) in enumerate(zip(entries, right, pairings, strict=True))
  ]
  _mark_significant(rows)
  _add_effective(rows, groups, right, pairings)
  together, why_not = _together(entries, pairings)
  return Compared([[*row[:13], *row[14:], row[13]] for row in rows], together, why_not)


def _of_views(
  first: np.ndarray, own: np.ndarray, pairing: Pairing, members: Sequence[int], is_first: bool
) -> list[Any]:
  """Returns images, accuracy with interval, difference with interval, p, '', paired and note."""
  trials = len(set(members))
  views = list(members)
  accuracy = mean_share(own[:, views].mean(1), trials, CONFIDENCE)
  stated = [accuracy.n, accuracy.value, accuracy.low, accuracy.high]
  if is_first:
    return [*stated, None, None, None, None, None, '', '']
  if not pairing.paired:
    base = mean_share(first[:, views].mean(1), trials, CONFIDENCE)
    return [*stated, *independent_difference(base, accuracy), None, None, 'no', pairing.note]
  a, b = first[pairing.first][:, views], own[pairing.second][:, views]
  # Of errors the second's minus the first's: what only the first gets right is its loss.
  number = mean_difference((a & ~b).mean(1), (b & ~a).mean(1), trials, CONFIDENCE)
  p = float(sign_flip(b.sum(1, dtype=int) - a.sum(1, dtype=int)))
  difference = [0.0 - end for end in (number.value, number.high, number.low)]
  return [*stated, *difference, p, None, 'yes', pairing.note]


def independent_difference(first: Number, second: Number) -> tuple[float, float, float]:
  """Returns second - first with its interval, from those of two independent proportions.

  Reference:
    Newcombe, Interval estimation for the difference between independent proportions, Statistics in
    Medicine 17 (1998), method 10 with the intervals given.
  """
  value = second.value - first.value
  low = np.hypot(second.value - second.low, first.high - first.value)
  high = np.hypot(second.high - second.value, first.value - first.low)
  return value, value - float(low), value + float(high)


def _mark_significant(rows: list[list[Any]]) -> None:
  """Fills in 'significant': Benjamini and Hochberg's procedure over a classifier's paired tests."""
  place = COLUMNS.index('p')
  for label in {row[2] for row in rows}:
    tested = [row for row in rows if row[2] == label and row[place] is not None]
    if tested:
      kept = benjamini_hochberg([row[place] for row in tested], RATE).significant
      for row, significant in zip(tested, kept, strict=True):
        row[place + 1] = bool(significant)


def _add_effective(
  rows: list[list[Any]],
  groups: Mapping[str, Sequence[int]],
  right: Sequence[np.ndarray],
  pairings: Sequence[Pairing],
) -> None:
  """Adds effective robustness, its low and its high to every row, None where there is none."""
  numbers: dict[str, list[list[float | None]]] = {}
  models = len(right)
  if 'clean' in groups and models > FEWEST:
    clean = list(groups['clean'])
    shared = all(pairing.paired for pairing in pairings)
    for group, members in groups.items():
      if group != 'clean':
        numbers[group] = _effective(right, pairings, clean, list(members), shared)
  for index, row in enumerate(rows):
    own = numbers.get(row[1])
    row.extend(own[index % models] if own else [None, None, None])


def _effective(
  right: Sequence[np.ndarray],
  pairings: Sequence[Pairing],
  clean: list[int],
  members: list[int],
  shared: bool,
) -> list[list[float | None]]:
  """Returns effective robustness with a bootstrap interval where all share their images."""
  tables = [[table[:, views].mean(1) for table in right] for views in (clean, members)]
  n = min(map(len, right))
  means = [np.array([share.mean() for share in table]) for table in tables]
  value = effective_robustness(means[0], means[1], n)
  low = high = np.full(len(right), np.nan)
  if shared and all(len(p.second) == n for p in pairings):
    x, y = (
      np.stack([share[p.second] for share, p in zip(table, pairings, strict=True)], 1)
      for table in tables
    )
    drawn = resampled(lambda w: effective_robustness(w @ x, w @ y, n), n, SEED)
    low, high = percentile_interval(drawn, n, CONFIDENCE)
  return [
    [None if np.isnan(number) else float(number) for number in numbers]
    for numbers in zip(value, low, high, strict=True)
  ]


def _together(entries: Sequence[Entry], pairings: Sequence[Pairing]) -> tuple[Results | None, str]:
  """Returns what the study finds of all classifiers on their shared images, or why it cannot."""
  if len(entries) < 2:
    return None, 'a single classifier'
  if not all(pairing.paired for pairing in pairings):
    return None, 'not all classifiers were shown the same images'
  places = pairings[0].first
  for pairing in pairings[1:]:
    places = np.intersect1d(places, pairing.first)
  evaluations = []
  for entry, pairing in zip(entries, pairings, strict=True):
    rows = pairing.second[np.isin(pairing.first, places)]
    whole = np.array_equal(rows, np.arange(entry.evaluation.records.layout.num_rows))
    records = entry.evaluation.records
    evaluations.append(Evaluation(entry.label, records if whole else RowSelection(records, rows)))
  first = entries[0].finished
  try:
    findings = first.study.reduce(evaluations, first.image_shape)
  except InputError as error:
    return None, str(error)
  own = tuple(prefix for prefix in first.results.prefixes.values() if prefix)
  kept = {k: v for k, v in first.results.arrays.items() if not k.startswith(own or ('\0',))}
  return Results(
    first.study.name,
    [_described(entry) for entry in entries],
    {**first.results.data, 'num_examples': len(places)},
    first.results.settings,
    findings.numbers,
    findings.tables,
    {**kept, **findings.arrays},
  ), ''


def _described(entry: Entry) -> dict[str, Any]:
  """Returns what the workdir says of a classifier, under its label here."""
  described = entry.finished.results.classifier
  several = [described] if isinstance(described, Mapping) else described
  own = next(each for each in several if each['label'] == entry.own)
  return {**own, 'label': entry.label, 'workdir': str(entry.finished.folder)}


def table(compared: Mapping[str, Compared]) -> Table:
  """Returns one table of all parts."""
  return Table(COLUMNS, [row for part in compared.values() for row in part.rows])
