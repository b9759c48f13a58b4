"""Compares the classifiers of finished workdirs: which images each gets right in the same views,
and how its accuracy differs from the first classifier's."""

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
"""Name of the table with the reason why the study did not reduce all records together."""
FOREMOST = 'foremost'
"""Name of the setting that lists the facets of the accuracies that the command prints."""
PREPARATION = (
  *('subset_seed', 'prepared_for', 'crop_margin', 'num_examples', 'image_shape', 'resize', 'crop'),
  *('interpolation', 'resized_by'),
)
"""Keys of a description of data that say how stored images are prepared and which are chosen."""
COUNTS = ('subset_seed', 'num_examples')
"""The keys in `PREPARATION` that choose images and change none."""


@dataclasses.dataclass(frozen=True)
class Entry:
  """One classifier of one workdir, in one study.

  Attributes:
    label: its label in the comparison, which no other classifier has.
    recorded_label: its label in its workdir.
    finished: the study in its workdir.
    evaluation: its records, under `label`.
    confidence: the confidence of all intervals, as in the first workdir.
  """

  label: str
  recorded_label: str
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
    study_file: the user's FILE.py:NAME for the study NAME; '' for none.
    typed: the names that the user typed, see `typed_labels`.

  Raises:
    InputError: there are fewer than two classifiers, the workdirs have different studies or show
      images differently, or they share no task of classifiers; see also `workdir.read`.
  """
  studies_by_workdir = {name: workdir.read(path, study_file) for name, path in workdirs.items()}
  tasks_by_workdir = list(studies_by_workdir.values())
  check_used(study_file, [task.study for tasks in tasks_by_workdir for task in tasks.values()])
  first = tasks_by_workdir[0]
  common = [name for name in first if all(name in tasks for tasks in tasks_by_workdir)]
  if not common:
    listed = '; '.join(
      f'{name}: {", ".join(task or f"the study {s.study.name}" for task, s in studies.items())}'
      for name, studies in studies_by_workdir.items()
    )
    raise InputError(f'these workdirs have no study or task in common ({listed}).')
  for task in dict.fromkeys(itertools.chain(*tasks_by_workdir)):
    holders = [name for name, studies in studies_by_workdir.items() if task in studies]
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
      for name, studies in studies_by_workdir.items()
    },
    typed,
  )
  entries = {
    task: [
      Entry(label, e.label, tasks[task], Evaluation(label, e.records), confidence)
      for name, tasks in studies_by_workdir.items()
      for e in tasks[task].evaluations
      for label in [labels[name, e.label]]
    ]
    for task in common
    for confidence in [first[task].study.confidence]
  }
  if all(len(entries_of_task) < 2 for entries_of_task in entries.values()):
    raise InputError('a comparison needs at least two classifiers: give another workdir.')
  for task, entries_of_task in entries.items():
    for entry in entries_of_task:
      data = entry.evaluation.records.identity['data']
      refuse_unknown_classes(data, f'{entry.finished.folder}: a comparison')
    _check_same_views(task, entries_of_task)
  return entries


def named_workdirs(workdirs: Sequence[str]) -> dict[str, pathlib.Path]:
  """Returns the paths of workdirs by name: LABEL of LABEL=PATH, and the folder's name of a PATH.

  Raises:
    InputError: two workdirs have the same name.
  """
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
  label, equals, path = text.partition('=')
  if equals and '/' not in label and label.strip() and not os.path.exists(text):
    return label.strip(), expanded(path)
  return '', expanded(text)


def distinct_labels(
  labels_by_workdir: Mapping[str, set[str]], typed: Collection[str] = ()
) -> dict[tuple[str, str], str]:
  """Returns a label for each classifier that no other one has.

  A workdir with a single classifier passes it the name that the user typed for the workdir. Any
  other classifier keeps its label if no other classifier has it. Otherwise its label becomes the
  name of the workdir if the workdir has a single classifier, else that name and the label. If two
  labels would still be equal, all classifiers have the name of the workdir and the label.

  Args:
    labels_by_workdir: the labels of the classifiers of each workdir.
    typed: the names of workdirs that the user typed.

  Returns:
    The labels by name of the workdir and label in it.
  """
  count = collections.Counter(itertools.chain(*labels_by_workdir.values()))

  def short_label(name: str, label: str, is_only: bool) -> str:
    if is_only and (name in typed or count[label] > 1):
      return name
    return label if count[label] == 1 else f'{name} {label}'

  distinct = {
    (name, label): short_label(name, label, len(labels) == 1)
    for name, labels in labels_by_workdir.items()
    for label in labels
  }
  has_repeated = len(set(distinct.values())) < len(distinct)
  return {key: ' '.join(key) for key in distinct} if has_repeated else distinct


def _check_same_views(task: str, entries: Sequence[Entry]) -> None:
  """Raises InputError where entries of a task have another study than the first or show images
  differently."""
  first, prefix = entries[0].finished, '' if task == SINGLE else f'in the task {task}, '
  for other in (entry.finished for entry in entries[1:]):
    if other.study.name != first.study.name:
      raise InputError(
        f'{prefix}{first.folder} is of the study {first.study.name} and {other.folder} of '
        f'{other.study.name}: give workdirs of the same study.'
      )
    # These two keys set the number of images and the intervals, not how an image is shown.
    recordings = [
      {k: v for k, v in s.study.recording.items() if k not in ('half_width', 'confidence')}
      for s in (first, other)
    ]
    lines = differing_keys(recordings[0], recordings[1])
    names = [s.study.view_table(s.image_shape).names for s in (first, other)]
    if lines or names[0] != names[1]:
      lines = lines or [f'image_shape: {first.image_shape} → {other.image_shape}']
      raise InputError(
        f'{prefix}{first.folder} and {other.folder} show their images differently; keys of '
        f'{KEYS.study} that differ: {"; ".join(lines)}. Run one again with the same.'
      )


@dataclasses.dataclass(frozen=True)
class Pairing:
  """The images that two runs share.

  Attributes:
    first, second: [n] indices of the shared images among each run's rows; empty if not paired.
    note: why the images are not paired, or how the runs differ although they are.
  """

  first: np.ndarray
  second: np.ndarray
  note: str = ''


def pair(
  first: RecordsReader, second: RecordsReader, names: tuple[str, str], common: bool
) -> Pairing:
  """Finds the images that two runs share.

  Images are the same if their example ids and their digests are. Digests differ where classifiers
  take images of different sizes; then the runs must describe the same stored images.

  Raises:
    InputError: the runs describe the same data but have different images under the same ids, or
      each has images that the other lacks and `common` is False.
  """
  ids = [records.column('example_id') for records in (first, second)]
  shared, *places = np.intersect1d(ids[0], ids[1], return_indices=True)
  lines = differing_keys(first.identity['data'], second.identity['data'])
  differing = {re.split('[:.]', line)[0] for line in lines}
  empty = np.zeros(0, int)
  records_and_places = list(zip((first, second), places, strict=True))
  digests = [records.column(IMAGE_DIGEST)[at] for records, at in records_and_places]
  equal = np.array_equal(digests[0], digests[1])
  if not len(shared) or not (equal or differing <= set(PREPARATION)):
    return Pairing(empty, empty, 'other images')
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
  if DRAWS in first.read(0, 0).arrays:  # what is drawn may depend on the run's other images
    draws = [records.column(DRAWS)[at] for records, at in records_and_places]
    if not np.array_equal(draws[0], draws[1]):
      return Pairing(empty, empty, f'other images, and {len(shared)} of the same shown otherwise')
  notes = []
  if not equal:
    notes.append('the same stored images, prepared otherwise')
  classes = first.identity.get('classes')
  if classes and classes == second.identity.get('classes'):
    labels = [records.column('label')[at] for records, at in records_and_places]
    if not np.array_equal(labels[0], labels[1]):
      notes.append('some images have other labels')
  if first.identity.get('seed') != second.identity.get('seed'):
    notes.append('other seeds: what is drawn differs')
  order = np.argsort(places[0])  # in the order of the first run
  return Pairing(places[0][order], places[1][order], '; '.join(notes))


@dataclasses.dataclass(frozen=True)
class Answers:
  """Whether one classifier is right on N images in V views.

  Attributes:
    right: bool [N, V].
    ids: example ids of the images, [N].
    table: the views, and which images count in each.
    confidence: the confidence of intervals.
    design: the design of a sequential run.
  """

  right: np.ndarray
  ids: np.ndarray
  table: ViewTable
  confidence: float
  design: FixedWidth | None = None

  @classmethod
  def from_records(cls, entry: Entry, records: RecordsReader) -> Answers:
    """Returns the answers in an entry's records, or in a selection of their rows."""
    joined, table = entry.finished.study.by_image(records, entry.finished.image_shape)
    right, ids = joined.table('rank') == 0, joined.column('example_id')
    return cls(right, ids, table, entry.confidence, entry.finished.study.sequential_design)

  def on(self, entry: Entry, rows: np.ndarray) -> Answers:
    """Returns the answers in the rows with indices `rows` of the entry's records."""
    records = _selected(entry, rows)
    return self if records is entry.evaluation.records else Answers.from_records(entry, records)

  @property
  def named_groups(self) -> dict[str, list[str]]:
    """Names of the views by group, for the groups in which any image counts."""
    return {
      group: [self.table.names[view] for view in members]
      for group, members in self.table.groups.items()
      if self.table.counted is None or self.table.counted[:, list(members)].any()
    }

  def group(self, name: str) -> Group:
    """Returns the views of a group; a view that the group lists twice, such as a mirrored
    frequency, has double weight."""
    views, times = np.unique(list(self.table.groups[name]), return_counts=True)
    return Group(dict(self.table.facets_of(name)), views, times / np.gcd.reduce(times))

  def outcomes(self, **right: np.ndarray) -> Outcomes:
    """Returns named arrays bool [N, V] as outcomes on these images."""
    views, counted = pd.DataFrame(index=range(len(self.table.names))), self.table.counted
    masks = None if counted is None else dict.fromkeys(right, counted)
    return Outcomes(right, views, masks, self.table.units, design=self.design)

  def accuracy(self, group: str) -> Estimate:
    """Returns the accuracy in a group of views, over images or the units of their clusters."""
    outcomes = self.outcomes(right=self.right)
    return mean(ACCURACY, outcomes, 'right', self.group(group), self.confidence)

  def minus(self, first: Answers, group: str) -> Estimate:
    """Returns the accuracy minus the first's on the same images."""
    pairs = self.outcomes(first=first.right, second=self.right).pair('first', 'second')
    gained, lost = (pairs.sums(name, self.group(group)) for name in ('gained', 'lost'))
    return share_difference(gained, lost, self.confidence, test=True)

  def consistency(self, first: Answers, groups: Sequence[str]) -> list[Estimate]:
    """Returns the error consistency with the first on the same images in each group of views, over
    images or the units of their clusters."""
    right = {'first': first.right, 'second': self.right, 'same': first.right == self.right}
    outcomes, members = self.outcomes(**right), [self.group(name) for name in groups]
    views = np.unique(np.concatenate([group.views for group in members]))
    single = [Group({}, np.array([view]), np.ones(1)) for view in views]
    columns = [outcomes.columns(name, view) for name in right for view in single]
    total, weight = (np.stack(parts, 1) for parts in zip(*columns, strict=True))
    weights = np.zeros((len(members), len(views)))
    for weights_in_group, group in zip(weights, members, strict=True):
      weights_in_group[np.searchsorted(views, group.views)] = group.weight
    n = [outcomes.observations('same', group.views) for group in members]
    estimates = consistency.estimates(Units(total, weight, max(n)), weights, self.confidence)
    return [dataclasses.replace(estimate, n=k) for estimate, k in zip(estimates, n, strict=True)]

  def shares(self, group: str) -> np.ndarray:
    """Returns the share of the group's views in which each image is right, [N]."""
    return self.right[:, list(self.table.groups[group])].mean(1)


def _selected(entry: Entry, rows: np.ndarray) -> RecordsReader:
  """Returns the rows of an entry's records with indices `rows`; the records if that is all rows."""
  records = entry.evaluation.records
  is_complete = np.array_equal(rows, np.arange(records.layout.num_rows))
  return records if is_complete else SelectedRows(records, rows)


@dataclasses.dataclass(frozen=True)
class Shared:
  """The answers of a classifier, and the pair of answers that compares it with the first.

  Attributes:
    label: its label in the comparison.
    answers: its answers on all its images.
    pair: the first classifier's answers and its answers, on the images that they share; None if
      they share none.
    note: the note of the `Pairing`.
  """

  label: str
  answers: Answers
  pair: tuple[Answers, Answers] | None
  note: str

  @classmethod
  def from_pairing(
    cls, first: Entry, base: Answers, entry: Entry, pairing: Pairing, lacking: str
  ) -> Shared:
    """Reads the answers of `entry` and pairs them with `base`, the first classifier's answers."""
    answers = base
    if entry is not first:
      answers = Answers.from_records(entry, entry.evaluation.records)
    note = '; '.join(filter(None, (pairing.note, lacking)))
    if not len(pairing.first):
      return cls(entry.label, answers, None, note)
    pair = base.on(first, pairing.first), answers.on(entry, pairing.second)
    if not np.array_equal(pair[0].ids, pair[1].ids):
      raise InputError(
        f'{first.label} and {entry.label} share stored images, but not which are versions of one '
        'image: run both on the same data set.'
      )
    return cls(entry.label, answers, pair, note)


def compare(entries: Sequence[Entry], common: bool, baseline: str) -> Results:
  """Compares the classifiers of a study with the first of them.

  Args:
    entries: at least one.
    common: whether runs that share a part of their images are compared on the images that all of
      them share; a run that shares none with the first is measured on all its images.
    baseline: label of the first classifier of all tasks. A task may lack it, such as an attack a
      callable; its notes then name the classifier that differences are from.

  Returns:
    The accuracy of each classifier by group of views, and its difference from the first's. The
    study's estimates on the shared images of all classifiers, as if one run had measured them,
    are added; if that is impossible, the table `WHY_NOT` has the reason.
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
  base = Answers.from_records(first, first.evaluation.records)
  shared = [
    Shared.from_pairing(first, base, e, pairing, '' if first.label == baseline else lacking)
    for e, pairing in zip(entries, pairings, strict=True)
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
  """Reduces entries and pairings to the images that all entries share with the first.

  Entries that share no image with the first do not count and stay as they are.
  """
  paired = {e.label: p.first for e, p in zip(entries, pairings, strict=True) if len(p.first)}
  places = functools.reduce(np.intersect1d, paired.values())
  if not len(places):
    raise InputError(f'no image is in all of {", ".join(paired)}: compare them two by two.')
  in_order, shared, pairs = np.arange(len(places)), list(entries), list(pairings)
  for index, (entry, pairing) in enumerate(zip(entries, pairings, strict=True)):
    if len(pairing.first):
      records = _selected(entry, pairing.second[np.isin(pairing.first, places)])
      shared[index] = dataclasses.replace(entry, evaluation=Evaluation(entry.label, records))
      pairs[index] = Pairing(in_order, in_order, pairing.note)
  return shared, pairs


def _estimates(groups: Sequence[str], shared: Sequence[Shared]) -> list[Row]:
  """Returns the rows of accuracy, effective robustness and error consistency, by group of views."""
  rows, first = [], shared[0]
  confidence = first.answers.confidence
  for group in groups:
    effective = _effective(shared, group) if group != CLEAN and CLEAN in groups else []
    facets = first.answers.table.facets_of(group)
    for compared in shared:
      accuracy = compared.answers.accuracy(group)
      rows.append(row(compared.label, '', ACCURACY, facets, accuracy, confidence))
      if compared is not first:
        difference = (
          compared.pair[1].minus(compared.pair[0], group)
          if compared.pair
          else independent_difference(first.answers.accuracy(group), accuracy)
        )
        noted = dataclasses.replace(difference, note=compared.note)
        rows.append(row(compared.label, first.label, ACCURACY, facets, noted, confidence))
    for compared, estimate in zip(shared, effective, strict=False):
      if not np.isnan(estimate.value):
        rows.append(row(compared.label, '', EFFECTIVE, facets, estimate, confidence))
  for compared in shared[1:]:
    kappas = compared.pair[1].consistency(compared.pair[0], groups) if compared.pair else []
    for group, estimate in zip(groups, kappas, strict=False):
      note = '; '.join(filter(None, (estimate.note, compared.note)))
      noted, facets = dataclasses.replace(estimate, note=note), first.answers.table.facets_of(group)
      rows.append(row(compared.label, '', CONSISTENCY, facets, noted, confidence))
  return rows


def _common_groups(entries: Sequence[Entry], shared: Sequence[Shared]) -> list[str]:
  """Returns the groups that consist of the same views in all entries.

  Raises:
    InputError: there is none, as the runs have different stored versions of images.
  """
  named = [answers.named_groups for s in shared for answers in (s.answers, *(s.pair or ()))]
  groups = [group for group, names in named[0].items() if all(o.get(group) == names for o in named)]
  if not groups:
    places = ', '.join(dict.fromkeys(str(entry.finished.folder) for entry in entries))
    raise InputError(
      f'{places} have no group of views in common: their images are stored in other versions. Run '
      'them on the same ones.'
    )
  return groups


def _foremost(groups: Sequence[str], table: ViewTable) -> list[Facts]:
  """Returns the facets of the clean view and of the first group that has all other views, if they
  are among `groups`."""
  changed = {*range(len(table.names))} - {table.clean}
  comprehensive = [name for name in groups if changed <= {*table.groups[name]}]
  names = [name for name in groups if name == CLEAN or name in comprehensive[:1]]
  return [dict(table.facets_of(name)) for name in names]


def with_references(tasks: Mapping[str, Results], references: Sequence[str]) -> dict[str, Results]:
  """Adds the effective robustness relative to reference tasks to all other tasks, by group of views
  and `reference`, without intervals.

  The accuracy in a reference task is measured on clean images, or else over all of its views.

  Raises:
    InputError: a reference is no task or has neither of these accuracies, no other task is left,
      a task lacks a classifier, or there are too few classifiers.
  """
  for name in references:
    choice('--reference', name, tasks)
  if set(tasks) == set(references):
    raise InputError('every task is a --reference, and none is left to judge classifiers on.')
  labels = tasks[references[0]].labels
  levels = {task: _accuracies(results) for task, results in tasks.items()}
  bases = {name: _reference_level(name, levels[name]) for name in references}
  x = np.stack([_in_order(name, labels, values) for name, (_, values, _) in bases.items()], 1)
  named, added = ' and '.join(references), {}
  for task, results in tasks.items():
    rows = []
    for facets, values, count in levels[task] if task not in references else ():
      y = _in_order(task, labels, values)
      n = min(count, *(fewest for *_, fewest in bases.values()))
      for label, value in zip(labels, effective_robustness(x, y, n), strict=True):
        estimate = Estimate(float(value), np.nan, np.nan, n, n, '')
        by = {**facets, 'reference': named}
        rows.append(row(label, '', EFFECTIVE, by, estimate, results.settings['confidence']))
    parts = [results.table, part(rows)] if rows else [results.table]
    table = assemble([estimates.astype(object) for estimates in parts])
    added[task] = dataclasses.replace(results, table=table)
  return added


Level = tuple[dict[str, object], dict[str, float], int]
"""Facets of a group of views, accuracies in it by classifier, and the fewest images of any."""


def _reference_level(task: str, levels: Sequence[Level]) -> Level:
  """Returns the accuracies of a task on clean images, else over all views, else its only ones."""
  for facets in ({'view': CLEAN}, {'view': ALL_VIEWS}, {}):
    for level in levels:
      if level[0] == facets:
        return level
  if len(levels) != 1:
    named = ', '.join(' '.join(map(str, facets.values())) for facets, *_ in levels)
    raise InputError(
      f'--reference={task}: it has no accuracy on clean images or over all views, but of {named}. '
      'Give a task of one set of images.'
    )
  return levels[0]


def _accuracies(results: Results) -> list[Level]:
  """Returns the level of each group of views."""
  table = results.table[(results.table.quantity == ACCURACY.name) & (results.table.versus == '')]
  names = [name for name in facets_of(table) if table[name].notna().any() and name != 'class']
  table = table[table['class'].isna()] if 'class' in table else table
  groups = table.groupby(names, dropna=False, sort=False) if names else [((), table)]
  return [
    (
      {k: v for k, v in zip(names, key, strict=True) if not pd.isna(v)},
      dict(zip(rows.classifier, rows.value, strict=True)),
      int(rows.n.min()),
    )
    for key, rows in groups
  ]


def _in_order(task: str, labels: Sequence[str], values: Mapping[str, float]) -> np.ndarray:
  """Returns the accuracies in the order of `labels`; a missing one is an InputError."""
  lacking = [label for label in labels if label not in values]
  if lacking:
    raise InputError(f'the task {task} has no accuracy of {", ".join(lacking)}.')
  return np.array([values[label] for label in labels])


def independent_difference(first: Estimate, second: Estimate) -> Estimate:
  """Returns second - first of two independent proportions, with an interval computed from their
  intervals (Newcombe, Statistics in Medicine 17, 1998, method 10)."""
  value = second.value - first.value
  low = value - float(np.hypot(second.value - second.low, first.high - first.value))
  high = value + float(np.hypot(second.high - second.value, first.value - first.low))
  return Estimate(value, low, high, second.n, second.clusters, NEWCOMBE)


def _effective(shared: Sequence[Shared], group: str) -> list[Estimate]:
  """Returns each classifier's effective robustness; [] for too few classifiers.

  The interval is from a bootstrap over images, or the units of their clusters, if all classifiers
  share their images; otherwise there is none.
  """
  if len(shared) < fewest_models(1):
    return []
  counts = [len(compared.answers.ids) for compared in shared]
  n = min(counts)
  paired = [compared.pair[1] for compared in shared if compared.pair]
  if len(paired) == len(shared) and all(len(answers.ids) == n for answers in paired):
    groups = [paired[0].group(CLEAN), paired[0].group(group)]
    outcomes = paired[0].outcomes(**{str(k): answers.right for k, answers in enumerate(paired)})
    units_by_classifier = [units(outcomes, label, groups) for label in outcomes.labels]

    def robustness_of_resample(weights: np.ndarray) -> np.ndarray:
      means = np.stack([u.means(weights) for u in units_by_classifier], -2)
      return effective_robustness(means[..., :1], means[..., 1], n)

    return bootstrap(robustness_of_resample, units_by_classifier[0], shared[0].answers.confidence)
  x, y = (np.array([s.answers.shares(k).mean() for s in shared]) for k in (CLEAN, group))
  values = effective_robustness(x[:, None], y, n)
  return [
    Estimate(float(value), np.nan, np.nan, count, count, '')
    for value, count in zip(values, counts, strict=True)
  ]


def _with_findings(
  compared: Results, entries: Sequence[Entry], pairings: Sequence[Pairing]
) -> Results:
  """Adds the study's estimates on the shared images of all classifiers.

  Raises:
    InputError: the study cannot reduce the records together.
  """
  first = entries[0].finished
  if len(entries) < 2:
    raise InputError('a single classifier')
  if not all(len(pairing.first) for pairing in pairings):
    raise InputError('not all classifiers were shown the same images')
  evaluations = [
    Evaluation(entry.label, _selected(entry, pairing.second))
    for entry, pairing in zip(entries, pairings, strict=True)
  ]
  findings = first.study.reduce(evaluations, first.image_shape)
  prefixes = tuple(prefix for prefix in first.results.prefixes.values() if prefix)
  arrays = {k: v for k, v in first.results.arrays.items() if not k.startswith(prefixes or '\0')}
  parts = (compared.table, *findings.estimates)
  table = pd.concat([estimates.astype(object) for estimates in parts])
  is_repeated = table.duplicated([*SUBJECT, *facets_of(table)])
  names = {quantity.name for quantity in compared.quantities}
  declared = (q for q in first.study.described_quantities if q.name not in names)
  return dataclasses.replace(
    compared,
    data={**first.results.data, 'num_examples': len(pairings[0].first)},
    tables=findings.tables,
    arrays={**arrays, **findings.arrays},
    table=assemble([table[~is_repeated]]),
    quantities=(*declared, *compared.quantities),
  )


def _described(entry: Entry) -> Facts:
  """Returns the facts of an entry's classifier, with its label in the comparison and workdir."""
  facts = next(c for c in entry.finished.results.classifiers if c['label'] == entry.recorded_label)
  return {**facts, 'label': entry.label, 'workdir': str(entry.finished.folder)}
