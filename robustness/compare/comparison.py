"""What several classifiers got right in the same views, and how each differs from the first."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from robustness.compare.entries import Entry
from robustness.compare.pairing import Pairing, pair
from robustness.core.errors import InputError
from robustness.estimates.comparison import benjamini_hochberg, sign_flip
from robustness.estimates.intervals import percentile_interval
from robustness.estimates.means import BONETT_PRICE, KORN_GRAUBARD, Row, of_number
from robustness.estimates.of_means import BOOTSTRAP, resampled
from robustness.estimates.quantity import ACCURACY, Quantity
from robustness.estimates.table import assemble
from robustness.evaluation.records import Records
from robustness.evaluation.row_selection import RowSelection
from robustness.evaluation.study import Evaluation
from robustness.evaluation.view_table import ViewTable
from robustness.metrics.effective_robustness import FEWEST, effective_robustness
from robustness.metrics.shares import mean_difference, mean_share
from robustness.metrics.si_score import Scenes, overall
from robustness.metrics.si_score import compare as compare_scenes
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
NEWCOMBE = 'newcombe'
EFFECTIVE = Quantity(
  'effective_robustness', 'accuracy above the line through the classifiers', better='higher', low=-1
)


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
  def of(cls, entry: Entry, records: Records) -> Answers:
    """Returns those that an entry's records hold, or a selection of them."""
    joined, table = entry.finished.study.by_image(records, entry.finished.image_shape)
    return cls(joined.table('rank') == 0, joined.column('example_id'), table)

  def on(self, entry: Entry, rows: np.ndarray) -> Answers:
    """Returns those of given rows of the entry's records."""
    records = entry.evaluation.records
    if np.array_equal(rows, np.arange(records.layout.num_rows)):
      return self
    return Answers.of(entry, RowSelection(records, rows))

  @property
  def named_groups(self) -> dict[str, list[str]]:
    """Names of the views of each group in which any image counts."""
    return {
      group: [self.table.names[view] for view in members]
      for group, members in self.table.groups.items()
      if self.table.counted is None or self.table.counted[:, list(members)].any()
    }

  def share(self, group: str) -> np.ndarray:
    """Returns the share of the group's views in which each image is right, [N]."""
    return self.right[:, list(self.table.groups[group])].mean(1)

  def scenes(self, group: str) -> Scenes | None:
    """Returns what counts of the group's views; None where all does and images are independent."""
    if self.table.counted is None and self.table.units is None:
      return None
    views = list(self.table.groups[group])
    right = self.right[:, views]
    shown = np.ones_like(right) if self.table.counted is None else self.table.counted[:, views]
    units = np.arange(len(right)) if self.table.units is None else self.table.units
    return Scenes(right, shown, units)

  def trials(self, group: str) -> int:
    """Returns of how many views the group is; one that is in it twice is one."""
    return len(set(self.table.groups[group]))

  def sizes(self, group: str) -> tuple[int, int]:
    """Returns how many images or scenes count, and the independent units they come in."""
    scenes = self.scenes(group)
    if scenes is None:
      return len(self.right), len(self.right)
    return int(scenes.shown.sum()), len(np.unique(scenes.objects[scenes.shown.any(1)]))

  def accuracy(self, group: str) -> Number:
    """Returns the accuracy in a group of views, over images or what they are clustered in."""
    scenes = self.scenes(group)
    if scenes is None:
      return mean_share(self.share(group), self.trials(group), CONFIDENCE)
    return overall(scenes, CONFIDENCE)

  def minus(self, first: Answers, group: str) -> list[float]:
    """Returns accuracy minus the first's on the same images, its low and high end, and p."""
    scenes, others = self.scenes(group), first.scenes(group)
    if scenes is not None and others is not None:
      found = compare_scenes(others, scenes, np.zeros(scenes.right.shape[1], int), RATE, CONFIDENCE)
      return [float(v[0]) for v in (found.value, found.low, found.high, found.p_value)]
    a, b = (own.right[:, list(own.table.groups[group])] for own in (first, self))
    # Of errors the second's minus the first's: what only the first gets right is its loss.
    lost, gained = (a & ~b).mean(1), (b & ~a).mean(1)
    number = mean_difference(lost, gained, self.trials(group), CONFIDENCE)
    p = float(sign_flip(b.sum(1, dtype=int) - a.sum(1, dtype=int)))
    return [*(0.0 - end for end in (number.value, number.high, number.low)), p]


@dataclasses.dataclass(frozen=True)
class Shared:
  """What a classifier is compared by.

  Attributes:
    own: answers on all its images.
    both: the first classifier's and its own on the images that they share; None without any.
    note: see `Pairing`.
  """

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
      return cls(own, None, pairing.note)
    both = base.on(first, pairing.first), own.on(entry, pairing.second)
    if not np.array_equal(both[0].ids, both[1].ids):
      raise InputError(
        f'{first.label} and {entry.label} share stored images, but not which are versions of one '
        'image: run both on the same data set.'
      )
    return cls(own, both, pairing.note)


@dataclasses.dataclass(frozen=True)
class Compared:
  """One part of several workdirs.

  Attributes:
    rows: of `COLUMNS`.
    table: the same as a table of results.
    together: what the study finds of all classifiers as if one run had measured them, with its own
      paired tests and maps of differences; None where they do not share their images.
    why_not: why there is no `together`.
  """

  rows: list[list[Any]]
  table: pd.DataFrame
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
  base = Answers.of(first, first.evaluation.records)
  shared = [Shared.of(first, base, e, own) for e, own in zip(entries, pairings, strict=True)]
  groups = _common_groups(entries, shared)
  rows = [
    [part, group, entry.label, *_of_group(shared[0].own, each, group, index == 0)]
    for group in groups
    for index, (entry, each) in enumerate(zip(entries, shared, strict=True))
  ]
  _mark_significant(rows)
  _add_effective(rows, groups, shared)
  together, why_not = _together(entries, pairings)
  rows = [[*cells[:13], *cells[14:], cells[13]] for cells in rows]
  of_group = [(group, each) for group in groups for each in shared]
  estimates = [
    estimate
    for cells, of in zip(rows, of_group, strict=True)
    for estimate in _estimates(cells, first.label, *of)
  ]
  return Compared(rows, pd.DataFrame(estimates), together, why_not)


def _estimates(cells: list[Any], first: str, group: str, shared: Shared) -> Iterator[Row]:
  """Yields rows of the table of results of a row of `COLUMNS`."""
  known = dict(zip(COLUMNS, cells, strict=True))
  facets, label = shared.own.table.facets_of(group), known['classifier']
  compared = shared.both[1] if shared.both else shared.own
  paired = BONETT_PRICE if shared.both else NEWCOMBE
  for start, versus, quantity, method, answers in (
    ('accuracy', '', ACCURACY, KORN_GRAUBARD, shared.own),
    ('minus the first', first, ACCURACY, paired, compared),
    ('effective robustness', '', EFFECTIVE, BOOTSTRAP, compared),
  ):
    place = COLUMNS.index(start)
    value, low, high = (np.nan if cell is None else cell for cell in cells[place : place + 3])
    if not np.isnan(value):
      n, clusters = answers.sizes(group)
      number = Number(value, low, high, n, method, known['note'] if versus else '')
      own = of_number(label, versus, quantity, facets, number, method, CONFIDENCE)
      yield {**own, 'clusters': clusters, 'p': known['p'] if versus else None}


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


def _of_group(first: Answers, shared: Shared, group: str, is_first: bool) -> list[Any]:
  """Returns images, accuracy with interval, difference with interval, p, '', paired and note."""
  accuracy = shared.own.accuracy(group)
  stated = [accuracy.n, accuracy.value, accuracy.low, accuracy.high]
  if is_first:
    return [*stated, None, None, None, None, None, '', '']
  if shared.both is None:
    difference = independent_difference(first.accuracy(group), accuracy)
    return [*stated, *difference, None, None, 'no', shared.note]
  base, own = shared.both
  return [*stated, *own.minus(base, group), None, 'yes', shared.note]


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


def _add_effective(rows: list[list[Any]], groups: Sequence[str], shared: Sequence[Shared]) -> None:
  """Adds effective robustness, its low and its high to every row, None where there is none."""
  numbers: dict[str, list[list[float | None]]] = {}
  models = len(shared)
  if 'clean' in groups and models > FEWEST:
    for group in groups:
      if group != 'clean':
        numbers[group] = _effective(shared, group)
  for index, row in enumerate(rows):
    own = numbers.get(row[1])
    row.extend(own[index % models] if own else [None, None, None])


def _effective(shared: Sequence[Shared], group: str) -> list[list[float | None]]:
  """Returns effective robustness with a bootstrap interval where all share their images."""
  n = min(len(each.own.right) for each in shared)
  means = [
    np.array([each.own.share(views).mean() for each in shared]) for views in ('clean', group)
  ]
  value = effective_robustness(means[0], means[1], n)
  low = high = np.full(len(shared), np.nan)
  both = [each.both[1] for each in shared if each.both]
  if len(both) == len(shared) and all(len(answers.right) == n for answers in both):
    x, y = (np.stack([answers.share(views) for answers in both], 1) for views in ('clean', group))
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
    assemble(findings.estimates),
    first.study.quantities,
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
