"""Finished workdirs side by side: what each classifier got right in the same views, and how it
differs from the first."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import os
import pathlib
import re
import sys
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd

from robustness import workdir
from robustness.core.errors import KEYS, InputError
from robustness.core.paths import expanded
from robustness.core.rows import refuse_unknown_classes
from robustness.core.settings import check_name, choice, differing_keys
from robustness.core.typing import Facts
from robustness.estimates import consistency
from robustness.estimates.comparison import effective_robustness, fewest_models
from robustness.estimates.fixed_width import FixedWidth
from robustness.estimates.intervals import NEWCOMBE
from robustness.estimates.means import Estimate, Row, mean, part, row, share_difference
from robustness.estimates.of_means import Units, bootstrap, units
from robustness.estimates.outcomes import Group, Outcomes
from robustness.estimates.quantity import ACCURACY, AMOUNT, Quantity
from robustness.estimates.table import SUBJECT, assemble, facets_of
from robustness.evaluation.provenance import IMAGE_DIGEST
from robustness.evaluation.recorded_study import check_used
from robustness.evaluation.records import RecordsReader, SelectedRows
from robustness.evaluation.study import Evaluation
from robustness.evaluation.views import ALL_VIEWS, DRAWS, ViewTable
from robustness.results import SINGLE, Results, Table
from robustness.workdir import FinishedStudy

CLEAN = 'clean'
EFFECTIVE = Quantity(
  'effective_robustness', 'accuracy above the line through the classifiers', better='higher', low=-1
)
CONSISTENCY = Quantity(
  'error_consistency', 'error consistency with the first (κ)', AMOUNT, low=-1, high=1
)
WHY_NOT = 'not compared by the study itself'
"""The fact that the study finds nothing of all classifiers together, with the reason."""
FOREMOST = 'foremost'
"""The setting that lists the facets of the accuracies that the command prints."""
PREPARATION = (
  *('subset_seed', 'prepared_for', 'crop_margin', 'num_examples', 'image_shape', 'resize', 'crop'),
  *('interpolation', 'resized_by'),
)
"""Keys of a description of data that differ where the same stored images are shown otherwise."""
COUNTS = ('subset_seed', 'num_examples')
"""Those of them that change which images there are and no image."""


@dataclasses.dataclass(frozen=True)
class Entry:
  """One classifier of one workdir, in one study: a label distinct among all that are compared, its
  own in its workdir, the study, its records under `label`, and the confidence of all intervals,
  that of the first workdir."""

  label: str
  own: str
  finished: FinishedStudy
  evaluation: Evaluation
  confidence: float


def read_entries(
  workdirs: Mapping[str, pathlib.Path], study_file: str = '', typed: Collection[str] = ()
) -> dict[str, list[Entry]]:
  """Returns the classifiers of all workdirs by the tasks that all have; `SINGLE` for one study.

  Tasks that measure images alone are left out, and so are, with a note on stderr, tasks that some
  of the workdirs lack.

  Args:
    workdirs: by name, see `named_workdirs`.
    study_file: FILE.py:NAME that the user gives for the study of that name; '' for none.
    typed: the names that the user typed, see `typed_labels`.

  Raises:
    InputError: fewer than two classifiers, workdirs of different studies or of different settings
      of what is shown, no task of classifiers in common, or see `workdir.read`.
  """
  tasks = {name: workdir.read(path, study_file) for name, path in workdirs.items()}
  check_used(study_file, [own.study for of in tasks.values() for own in of.values()])
  first = next(iter(tasks.values()))
  common = [task for task in first if all(task in of for of in tasks.values())]
  if not common:
    listed = '; '.join(
      f'{name}: {", ".join(task or f"the study {own.study.name}" for task, own in of.items())}'
      for name, of in tasks.items()
    )
    raise InputError(f'these workdirs have no study or task in common ({listed}).')
  for task in dict.fromkeys(itertools.chain(*tasks.values())):
    holders = [name for name, studies in tasks.items() if task in studies]
    if task not in common:
      print(f'note: task {task} is left out: only {", ".join(holders)} has it', file=sys.stderr)
  common = [task for task in common if first[task].study.needs_classifier]
  if not common:
    raise InputError(
      f'{", ".join(workdirs)} measure images alone: give workdirs of studies of classifiers.'
    )
  labels = distinct_labels(
    {
      name: {e.label for task in common for e in studies[task].evaluations}
      for name, studies in tasks.items()
    },
    typed,
  )
  entries = {
    task: [
      Entry(label, e.label, of[task], Evaluation(label, e.records), first[task].study.confidence)
      for name, of in tasks.items()
      for e in of[task].evaluations
      for label in [labels[name, e.label]]
    ]
    for task in common
  }
  if all(len(several) < 2 for several in entries.values()):
    raise InputError('a comparison needs at least two classifiers: give another workdir.')
  for task, several in entries.items():
    for entry in several:
      data = entry.evaluation.records.identity['data']
      refuse_unknown_classes(data, f'{entry.finished.folder}: a comparison')
    _check_same_views(task, several)
  return entries


def named_workdirs(workdirs: Sequence[str]) -> dict[str, pathlib.Path]:
  """Returns the paths of workdirs, PATH or LABEL=PATH, by label, or by the name of the folder;
  refuses two of one name."""
  named = {}
  for text in workdirs:
    label, path = _label_and_path(text)
    label = label or path.resolve().name
    check_name('the comparison', label, is_key=False)
    named[label] = path
  if len(named) < len(workdirs):
    raise InputError(
      f'two of the workdirs {", ".join(workdirs)} have one name: write a label before each, as in '
      f'first={next(iter(named.values()))}.'
    )
  return named


def typed_labels(workdirs: Sequence[str]) -> set[str]:
  """Returns the labels that the user typed before workdirs, as LABEL=PATH."""
  return {label for label, _ in map(_label_and_path, workdirs) if label}


def _label_and_path(text: str) -> tuple[str, pathlib.Path]:
  """Splits LABEL=PATH; the label of a plain path is ''."""
  label, equals, place = text.partition('=')
  if equals and '/' not in label and label.strip() and not os.path.exists(text):
    return label.strip(), expanded(place)
  return '', expanded(text)


def distinct_labels(
  labels_by_workdir: Mapping[str, set[str]], typed: Collection[str] = ()
) -> dict[tuple[str, str], str]:
  """Returns a label for each classifier that no other one has.

  The only classifier of a workdir has the label that the user typed for the workdir. Any other
  classifier keeps its label where it is the only one with it; else it has the name of the workdir,
  if it is the only classifier there, or both. All have both if two would have one label.

  Args:
    labels_by_workdir: the labels of the classifiers of each workdir.
    typed: the names of workdirs that the user typed.

  Returns:
    The labels by name of the workdir and label in it.
  """
  count = collections.Counter(itertools.chain(*labels_by_workdir.values()))

  def chosen(name: str, label: str, is_only: bool) -> str:
    if is_only and (name in typed or count[label] > 1):
      return name
    return label if count[label] == 1 else f'{name} {label}'

  distinct = {
    (name, label): chosen(name, label, len(labels) == 1)
    for name, labels in labels_by_workdir.items()
    for label in labels
  }
  alike = len(set(distinct.values())) < len(distinct)
  return {key: ' '.join(key) for key in distinct} if alike else distinct


def _check_same_views(task: str, entries: Sequence[Entry]) -> None:
  first, where = entries[0].finished, '' if task == SINGLE else f'in the task {task}, '
  for other in (entry.finished for entry in entries[1:]):
    if other.study.name != first.study.name:
      raise InputError(
        f'{where}{first.folder} is of the study {first.study.name} and {other.folder} of '
        f'{other.study.name}: give workdirs of the same study.'
      )
    # what fixes how a study shows an image; not to how many, nor its intervals
    shown = [
      {k: v for k, v in of.study.recording.items() if k not in ('half_width', 'confidence')}
      for of in (first, other)
    ]
    lines = differing_keys(shown[0], shown[1])
    names = [of.study.view_table(of.image_shape).names for of in (first, other)]
    if lines or names[0] != names[1]:
      lines = lines or [f'image_shape: {first.image_shape} → {other.image_shape}']
      raise InputError(
        f'{where}{first.folder} and {other.folder} show their images differently; keys of '
        f'{KEYS.study} that differ: {"; ".join(lines)}. Run one again with the same.'
      )


@dataclasses.dataclass(frozen=True)
class Pairing:
  """The images that two runs share.

  Attributes:
    first, second: [n] places of the same images among each run's rows; none where not paired.
    note: why they are not paired, or what a reader must know of it.
  """

  first: np.ndarray
  second: np.ndarray
  note: str = ''


def pair(
  first: RecordsReader, second: RecordsReader, names: tuple[str, str], common: bool
) -> Pairing:
  """Finds the images that two runs share.

  Images are the same if their example ids are, and their digests; where the digests differ, because
  each classifier has its own size, if both runs say the same of where their images are stored.

  Raises:
    InputError: the runs say the same of their data but have other images under the same ids, or
      they share some of their images and `common` is False.
  """
  ids = [records.column('example_id') for records in (first, second)]
  shared, *places = np.intersect1d(ids[0], ids[1], return_indices=True)
  lines = differing_keys(first.identity['data'], second.identity['data'])
  differing = {re.split('[:.]', line)[0] for line in lines}
  both = list(zip((first, second), places, strict=True))
  digests = [records.column(IMAGE_DIGEST)[at] for records, at in both]
  equal = np.array_equal(digests[0], digests[1])
  if not len(shared) or not (equal or differing <= set(PREPARATION)):
    return Pairing(np.zeros(0, int), np.zeros(0, int), 'other images')
  if not equal and differing <= set(COUNTS):
    raise InputError(
      f'{names[0]} and {names[1]} say the same of their data and have {len(shared)} example ids in '
      'common, but not the same images: the files were changed between the runs. Run one again.'
    )
  if len(shared) < max(map(len, ids)) and not common:
    raise InputError(
      f'{names[0]} and {names[1]} share {len(shared)} of {len(ids[0])} and {len(ids[1])} images: '
      'run both on the same images, or give --common to compare them on those alone.'
    )
  if DRAWS in first.read(0, 0).arrays:  # what an image is shown as may depend on which others are
    draws = [records.column(DRAWS)[at] for records, at in both]
    if not np.array_equal(draws[0], draws[1]):
      none = np.zeros(0, int)
      return Pairing(none, none, f'other images, and {len(shared)} of the same shown otherwise')
  notes = []
  if not equal:
    notes.append('the same stored images, prepared otherwise')
  classes = first.identity.get('classes')
  if classes and classes == second.identity.get('classes'):
    labels = [records.column('label')[at] for records, at in both]
    if not np.array_equal(labels[0], labels[1]):
      notes.append('some images have other labels')
  if first.identity.get('seed') != second.identity.get('seed'):
    notes.append('other seeds: what is drawn differs')
  order = np.argsort(places[0])  # as the first run has them
  return Pairing(places[0][order], places[1][order], '; '.join(notes))


@dataclasses.dataclass(frozen=True)
class Answers:
  """What one classifier made of N images in V views: bool [N, V], ids [N], the table of the views
  which images count in which, the confidence of intervals, and the design of a sequential run."""

  right: np.ndarray
  ids: np.ndarray
  table: ViewTable
  confidence: float
  design: FixedWidth | None = None

  @classmethod
  def of(cls, entry: Entry, records: RecordsReader) -> Answers:
    """Returns those that an entry's records hold, or a selection of them."""
    joined, table = entry.finished.study.by_image(records, entry.finished.image_shape)
    right, ids = joined.table('rank') == 0, joined.column('example_id')
    return cls(right, ids, table, entry.confidence, entry.finished.study.sequential_design)

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
    return Outcomes(right, views, shown, self.table.units, design=self.design)

  def accuracy(self, group: str) -> Estimate:
    """Returns the accuracy in a group of views, over images or what they are clustered in."""
    outcomes = self.outcomes(own=self.right)
    return mean(ACCURACY, outcomes, 'own', self.group(group), self.confidence)

  def minus(self, first: Answers, group: str) -> Estimate:
    """Returns the accuracy minus the first's on the same images."""
    both = self.outcomes(first=first.right, second=self.right).pair('first', 'second')
    gained, lost = (both.sums(name, self.group(group)) for name in ('gained', 'lost'))
    return share_difference(gained, lost, self.confidence, test=True)

  def consistency(self, first: Answers, groups: Sequence[str]) -> list[Estimate]:
    """Returns the error consistency with the first on the same images in each group of views, over
    images or what they are clustered in."""
    right = {'first': first.right, 'second': self.right, 'same': first.right == self.right}
    outcomes, own = self.outcomes(**right), [self.group(name) for name in groups]
    views = np.unique(np.concatenate([group.views for group in own]))
    single = [Group({}, np.array([view]), np.ones(1)) for view in views]
    columns = [outcomes.columns(name, view) for name in right for view in single]
    total, weight = (np.stack(parts, 1) for parts in zip(*columns, strict=True))
    times = np.zeros((len(own), len(views)))
    for row_of, group in zip(times, own, strict=True):
      row_of[np.searchsorted(views, group.views)] = group.weight
    n = [outcomes.observations('same', group.views) for group in own]
    found = consistency.estimates(Units(total, weight, max(n)), times, self.confidence)
    return [dataclasses.replace(each, n=count) for each, count in zip(found, n, strict=True)]

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
  """What a classifier is compared by: its label, answers on all its images, the first classifier's
  and its own on those that they share (None without any), and the note of the `Pairing`."""

  label: str
  own: Answers
  both: tuple[Answers, Answers] | None
  note: str

  @classmethod
  def of(cls, first: Entry, base: Answers, entry: Entry, pairing: Pairing, lacking: str) -> Shared:
    """Returns the answers of an entry and, where they are paired, of the first one."""
    own = base if entry is first else Answers.of(entry, entry.evaluation.records)
    note = '; '.join(filter(None, (pairing.note, lacking)))
    if not len(pairing.first):
      return cls(entry.label, own, None, note)
    both = base.on(first, pairing.first), own.on(entry, pairing.second)
    if not np.array_equal(both[0].ids, both[1].ids):
      raise InputError(
        f'{first.label} and {entry.label} share stored images, but not which are versions of one '
        'image: run both on the same data set.'
      )
    return cls(entry.label, own, both, note)


def compare(entries: Sequence[Entry], common: bool, baseline: str) -> Results:
  """Compares the classifiers of a study with the first of them.

  Args:
    entries: at least one.
    common: whether runs that share some of their images are compared on those that all of them
      share; what has none in common with the first keeps its own.
    baseline: label of the first classifier of all tasks; where a task lacks it, such as a callable
      in an attack, the notes name the one that differences are from.

  Returns:
    The accuracy of each classifier by group of views, and its difference from the first's; then
    what the study finds of all classifiers on their shared images as if one run had measured
    them, or as a fact why it cannot.
  """
  first = entries[0]
  lacking = f'minus {first.label}: {baseline} is not in this task'
  pairings = [
    pair(first.evaluation.records, e.evaluation.records, (first.label, e.label), common)
    for e in entries
  ]
  if common:
    entries, pairings = _on_shared_images(entries, pairings)
    first = entries[0]
  base = Answers.of(first, first.evaluation.records)
  shared = [
    Shared.of(first, base, e, own, '' if first.label == baseline else lacking)
    for e, own in zip(entries, pairings, strict=True)
  ]
  groups = _common_groups(entries, shared)
  compared = Results(
    first.finished.study.name,
    [_described(entry) for entry in entries],
    first.finished.results.data,
    {**first.finished.results.settings, FOREMOST: _foremost(groups, base.table)},
    table=assemble([part(_estimates(groups, shared))]),
    quantities=(ACCURACY, EFFECTIVE, CONSISTENCY),
  )
  try:
    return _with_findings(compared, entries, pairings)
  except InputError as error:
    return dataclasses.replace(compared, tables={WHY_NOT: Table(('why',), [[str(error)]])})


def _on_shared_images(
  entries: Sequence[Entry], pairings: Sequence[Pairing]
) -> tuple[list[Entry], list[Pairing]]:
  """Returns both with those images alone that all have which have any of the first's."""
  paired = {e.label: own.first for e, own in zip(entries, pairings, strict=True) if len(own.first)}
  places = functools.reduce(np.intersect1d, paired.values())
  if not len(places):
    raise InputError(f'no image is in all of {", ".join(paired)}: compare them two by two.')
  in_order, shared, pairs = np.arange(len(places)), list(entries), list(pairings)
  for place, (entry, own) in enumerate(zip(entries, pairings, strict=True)):
    if len(own.first):
      records = _selected(entry, own.second[np.isin(own.first, places)])
      shared[place] = dataclasses.replace(entry, evaluation=Evaluation(entry.label, records))
      pairs[place] = Pairing(in_order, in_order, own.note)
  return shared, pairs


def _estimates(groups: Sequence[str], shared: Sequence[Shared]) -> list[Row]:
  rows, first = [], shared[0]
  confidence = first.own.confidence
  for group in groups:
    effective = _effective(shared, group) if group != CLEAN and CLEAN in groups else []
    facets = first.own.table.facets_of(group)
    for each in shared:
      accuracy = each.own.accuracy(group)
      rows.append(row(each.label, '', ACCURACY, facets, accuracy, confidence))
      if each is not first:
        difference = (
          each.both[1].minus(each.both[0], group)
          if each.both
          else independent_difference(first.own.accuracy(group), accuracy)
        )
        noted = dataclasses.replace(difference, note=each.note)
        rows.append(row(each.label, first.label, ACCURACY, facets, noted, confidence))
    for each, estimate in zip(shared, effective, strict=False):
      if not np.isnan(estimate.value):
        rows.append(row(each.label, '', EFFECTIVE, facets, estimate, confidence))
  for each in shared[1:]:
    found = each.both[1].consistency(each.both[0], groups) if each.both else []
    for group, estimate in zip(groups, found, strict=False):
      note = '; '.join(filter(None, (estimate.note, each.note)))
      noted, facets = dataclasses.replace(estimate, note=note), first.own.table.facets_of(group)
      rows.append(row(each.label, '', CONSISTENCY, facets, noted, confidence))
  return rows


def _common_groups(entries: Sequence[Entry], shared: Sequence[Shared]) -> list[str]:
  """Returns the groups of views that are the same in all; an error where runs have other stored
  versions."""
  named = [answers.named_groups for each in shared for answers in (each.own, *(each.both or ()))]
  groups = [group for group, names in named[0].items() if all(o.get(group) == names for o in named)]
  if not groups:
    places = ', '.join(dict.fromkeys(str(entry.finished.folder) for entry in entries))
    raise InputError(
      f'{places} have no group of views in common: their images are stored in other versions. Run '
      'them on the same ones.'
    )
  return groups


def _foremost(groups: Sequence[str], table: ViewTable) -> list[Facts]:
  """Returns the facets of the clean view and of the group that all others are in, whatever its
  name, as far as there are such groups."""
  others = {*range(len(table.names))} - {table.clean}
  whole = [name for name in groups if others <= {*table.groups[name]}]
  names = [name for name in groups if name == CLEAN or name in whole[:1]]
  return [dict(table.facets_of(name)) for name in names]


def with_references(tasks: Mapping[str, Results], references: Sequence[str]) -> dict[str, Results]:
  """Adds to each other task the effective robustness given the accuracies in several reference
  tasks, by group of views and `reference`, without intervals.

  The accuracy in a reference task is that on clean images, or else over all of its views.

  Raises:
    InputError: a reference that is no task, or has neither of these accuracies, no other task,
      classifiers that a task lacks, or too few of them.
  """
  for name in references:
    choice('--reference', name, tasks)
  if set(tasks) == set(references):
    raise InputError('every task is a --reference, and none is left to judge classifiers on.')
  labels = tasks[references[0]].labels
  levels = {task: _accuracies(results) for task, results in tasks.items()}
  known = {name: _reference_level(name, levels[name]) for name in references}
  x = np.stack([_of_labels(name, labels, values) for name, (_, values, _) in known.items()], 1)
  named, added = ' and '.join(references), {}
  for task, results in tasks.items():
    rows = []
    for facets, values, count in levels[task] if task not in references else ():
      y = _of_labels(task, labels, values)
      n = min(count, *(fewest for *_, fewest in known.values()))
      found = effective_robustness(x, y, n)
      for label, value in zip(labels, found, strict=True):
        estimate = Estimate(float(value), np.nan, np.nan, n, n, '')
        by = {**facets, 'reference': named}
        rows.append(row(label, '', EFFECTIVE, by, estimate, results.settings['confidence']))
    whole = [results.table, part(rows)] if rows else [results.table]
    table = assemble([each.astype(object) for each in whole])
    added[task] = dataclasses.replace(results, table=table)
  return added


Level = tuple[dict[str, object], dict[str, float], int]


def _reference_level(task: str, levels: Sequence[Level]) -> Level:
  """Returns the accuracies of a task on clean images, else over all views, else its only ones."""
  for whole in ({'view': CLEAN}, {'view': ALL_VIEWS}, {}):
    for level in levels:
      if level[0] == whole:
        return level
  if len(levels) != 1:
    named = ', '.join(' '.join(map(str, facets.values())) for facets, *_ in levels)
    raise InputError(
      f'--reference={task}: it has no accuracy on clean images or over all views, but of {named}. '
      'Give a task of one set of images.'
    )
  return levels[0]


def _accuracies(results: Results) -> list[Level]:
  """Returns facets, accuracies by classifier, and the fewest images of each group of views."""
  own = results.table[(results.table.quantity == ACCURACY.name) & (results.table.versus == '')]
  names = [name for name in facets_of(own) if own[name].notna().any() and name != 'class']
  own = own[own['class'].isna()] if 'class' in own else own
  groups = own.groupby(names, dropna=False, sort=False) if names else [((), own)]
  return [
    (
      {k: v for k, v in zip(names, key, strict=True) if not pd.isna(v)},
      dict(zip(of.classifier, of.value, strict=True)),
      int(of.n.min()),
    )
    for key, of in groups
  ]


def _of_labels(task: str, labels: Sequence[str], values: Mapping[str, float]) -> np.ndarray:
  lacking = [label for label in labels if label not in values]
  if lacking:
    raise InputError(f'the task {task} has no accuracy of {", ".join(lacking)}.')
  return np.array([values[label] for label in labels])


def independent_difference(first: Estimate, second: Estimate) -> Estimate:
  """Returns second - first with its interval, from those of two independent proportions (Newcombe,
  Statistics in Medicine 17, 1998, method 10 with the intervals given)."""
  value = second.value - first.value
  low = value - float(np.hypot(second.value - second.low, first.high - first.value))
  high = value + float(np.hypot(second.high - second.value, first.value - first.low))
  return Estimate(value, low, high, second.n, second.clusters, NEWCOMBE)


def _effective(shared: Sequence[Shared], group: str) -> list[Estimate]:
  """Returns each classifier's effective robustness, none of too few classifiers; with a bootstrap
  interval over images, or what they are clustered in, where all share them."""
  if len(shared) < fewest_models(1):
    return []
  counts = [len(each.own.ids) for each in shared]
  n = min(counts)
  both = [each.both[1] for each in shared if each.both]
  if len(both) == len(shared) and all(len(answers.ids) == n for answers in both):
    groups = [both[0].group(CLEAN), both[0].group(group)]
    own = both[0].outcomes(**{str(k): answers.right for k, answers in enumerate(both)})
    each = [units(own, label, groups) for label in own.labels]

    def of_sample(weights: np.ndarray) -> np.ndarray:
      means = np.stack([model.means(weights) for model in each], -2)
      return effective_robustness(means[..., :1], means[..., 1], n)

    return bootstrap(of_sample, each[0], shared[0].own.confidence)
  x, y = (np.array([each.own.shares(k).mean() for each in shared]) for k in (CLEAN, group))
  values = effective_robustness(x[:, None], y, n)
  return [
    Estimate(float(value), np.nan, np.nan, count, count, '')
    for value, count in zip(values, counts, strict=True)
  ]


def _with_findings(
  compared: Results, entries: Sequence[Entry], pairings: Sequence[Pairing]
) -> Results:
  """Adds what the study finds of all classifiers on their shared images; an error says why it
  cannot."""
  first = entries[0].finished
  if len(entries) < 2:
    raise InputError('a single classifier')
  if not all(len(pairing.first) for pairing in pairings):
    raise InputError('not all classifiers were shown the same images')
  evaluations = [
    Evaluation(entry.label, _selected(entry, own.second))
    for entry, own in zip(entries, pairings, strict=True)
  ]
  findings = first.study.reduce(evaluations, first.image_shape)
  own = tuple(prefix for prefix in first.results.prefixes.values() if prefix)
  kept = {k: v for k, v in first.results.arrays.items() if not k.startswith(own or ('\0',))}
  table = pd.concat([own.astype(object) for own in (compared.table, *findings.estimates)])
  again = table.duplicated([*SUBJECT, *facets_of(table)])
  known = {quantity.name for quantity in compared.quantities}
  declared = (
    quantity for quantity in first.study.described_quantities if quantity.name not in known
  )
  return dataclasses.replace(
    compared,
    data={**first.results.data, 'num_examples': len(pairings[0].first)},
    tables=findings.tables,
    arrays={**kept, **findings.arrays},
    table=assemble([table[~again]]),
    quantities=(*declared, *compared.quantities),
  )


def _described(entry: Entry) -> Facts:
  own = next(of for of in entry.finished.results.classifiers if of['label'] == entry.own)
  return {**own, 'label': entry.label, 'workdir': str(entry.finished.folder)}
