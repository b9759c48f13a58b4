"""Compares the classifiers of finished workdirs, image by image, with the first classifier.

Images are paired between runs, so that differences of accuracy in the same view are paired.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import pathlib
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from robustness import workdir
from robustness.core.errors import KEYS, InputError
from robustness.core.paths import label_and_path
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
from robustness.evaluation.records import RecordsReader, SelectedRows, SelectedViews
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
"""Name of the table with the reason why the study could not compute its estimates from all
records.
"""
PRINTED_FACETS = 'foremost'
"""Name of the setting that lists the facets of the accuracies that the command prints."""
MAX_NAMED = 10
"""Most views that a note names."""
SELECTION_KEYS = frozenset({'subset_seed', 'num_examples'})
"""Keys in the description of data that select images and do not change any."""
PREPARATION_KEYS = SELECTION_KEYS.union(
  ('prepared_for', 'crop_margin', 'image_shape', 'resize', 'crop', 'interpolation', 'resized_by')
)
"""Keys in the description of data that say how stored images are selected and prepared."""


@dataclasses.dataclass(frozen=True)
class Entry:
  """One classifier of one workdir, in one study.

  Attributes:
    label: its label in the comparison, which no other classifier has.
    recorded_label: its label in its workdir.
    finished: the study in its workdir.
    evaluation: its records, in which it is called `label`.
    confidence: the confidence of all intervals, taken from the first workdir.
  """

  label: str
  recorded_label: str
  finished: FinishedStudy
  evaluation: Evaluation
  confidence: float


def read_entries(
  workdirs: Mapping[str, pathlib.Path], study_file: str = '', typed: Collection[str] = ()
) -> dict[str, list[Entry]]:
  """Returns the classifiers of all workdirs, by the tasks that all workdirs have.

  The task of a single study is `SINGLE`. Tasks that measure images alone are left out; so are tasks
  that some of the workdirs lack, with a note on stderr.

  Args:
    workdirs: {name: path of a workdir}; a name was typed as LABEL=PATH or is that of the folder.
    study_file: the user's FILE.py:NAME for the study NAME; '' for none.
    typed: the names that were typed.

  Raises:
    InputError: there are fewer than two classifiers, the workdirs have different studies or show
      images differently, or they share no task of classifiers; see also `workdir.read`.
  """
  studies_by_workdir = {name: workdir.read(path, study_file) for name, path in workdirs.items()}
  all_studies = itertools.chain(*(tasks.values() for tasks in studies_by_workdir.values()))
  check_used(study_file, [finished.study for finished in all_studies])
  return entries_of(studies_by_workdir, typed)


def entries_of(
  studies_by_workdir: Mapping[str, Mapping[str, FinishedStudy]], typed: Collection[str] = ()
) -> dict[str, list[Entry]]:
  """Returns the classifiers of finished studies, {task: entries}, for the tasks of all workdirs.

  Args:
    studies_by_workdir: {name of the workdir: {task: finished study}}.
    typed: the names of workdirs that the user typed.

  Raises:
    InputError: there are fewer than two classifiers, the studies differ or show images differently,
      or no task of classifiers is in all workdirs.
  """
  tasks_of_classifiers = _tasks_of_classifiers(studies_by_workdir)
  recorded_labels = {
    name: {e.label for task in tasks_of_classifiers for e in studies[task].evaluations}
    for name, studies in studies_by_workdir.items()
  }
  labels = distinct_labels(recorded_labels, typed)  # by (name of the workdir, label in it)
  entries_by_task: dict[str, list[Entry]] = {}
  for task in tasks_of_classifiers:
    finished_studies = {name: studies[task] for name, studies in studies_by_workdir.items()}
    confidence = next(iter(finished_studies.values())).study.confidence  # of the first workdir
    entries_by_task[task] = []
    for name, finished in finished_studies.items():
      restricted, positions = _on_common_views(name, finished, [*finished_studies.values()])
      for e in finished.evaluations:
        label = labels[name, e.label]
        # The positions are None if all views are common.
        records = e.records if positions is None else SelectedViews(e.records, positions)
        evaluation = Evaluation(label, records)
        entries_by_task[task].append(Entry(label, e.label, restricted, evaluation, confidence))
  if max(map(len, entries_by_task.values())) < 2:
    raise InputError('a comparison needs at least two classifiers: give another workdir.')
  for task, entries in entries_by_task.items():
    for entry in entries:
      data = entry.evaluation.records.identity['data']
      refuse_unknown_classes(data, f'{entry.finished.folder}: a comparison')
    _check_same_views(task, entries)
  return entries_by_task


def common_tasks(study_names: Mapping[str, Mapping[str, str]]) -> list[str]:
  """Returns the tasks that all workdirs have, and prints a note on each other task.

  Args:
    study_names: {name of the workdir: {task: name of its study}}; the task of a single study is ''.

  Raises:
    InputError: there is no common task.
  """
  first, *later = study_names.values()
  tasks = [task for task in first if all(task in names for names in later)]
  if not tasks:
    tasks_by_workdir = '; '.join(
      f'{workdir_name}: {", ".join(task or f"the study {name}" for task, name in names.items())}'
      for workdir_name, names in study_names.items()
    )
    raise InputError(
      f'these workdirs have no study or task in common ({tasks_by_workdir}): give workdirs of the '
      'same study, or of batteries with the same tasks.'
    )
  for task in dict.fromkeys(itertools.chain(first, *later)):
    if task not in tasks:
      holders = [name for name, names in study_names.items() if task in names]
      print(f'note: task {task} is left out: only {", ".join(holders)} has it', file=sys.stderr)
  return tasks


def _tasks_of_classifiers(
  studies_by_workdir: Mapping[str, Mapping[str, FinishedStudy]],
) -> list[str]:
  """Returns the tasks that all workdirs have, without tasks that need no classifier.

  A note on stderr names each task that only some workdirs have.

  Args:
    studies_by_workdir: {name of the workdir: {task: finished study}}.

  Raises:
    InputError: there is no common task, or no common task needs a classifier.
  """
  study_names = {
    name: {task: finished.study.name for task, finished in studies.items()}
    for name, studies in studies_by_workdir.items()
  }
  first = next(iter(studies_by_workdir.values()))
  tasks = common_tasks(study_names)
  tasks_of_classifiers = [task for task in tasks if first[task].study.needs_classifier]
  if not tasks_of_classifiers:
    names = ', '.join(studies_by_workdir)
    raise InputError(f'{names} measure images alone: give workdirs of studies of classifiers.')
  return tasks_of_classifiers


def named_workdirs(workdirs: Sequence[str]) -> dict[str, pathlib.Path]:
  """Returns the paths of workdirs by name: the label in LABEL=PATH, else the name of the folder.

  Raises:
    InputError: two workdirs have the same name.
  """
  paths = {}
  for text in workdirs:
    label, path = label_and_path(text)
    name = label or path.resolve().name
    check_name('the comparison', name, is_key=False)
    paths[name] = path
  if len(paths) < len(workdirs):
    raise InputError(
      f'two of the workdirs {", ".join(workdirs)} have one name: write a label before each, as in '
      f'first={next(iter(paths.values()))}.'
    )
  return paths


def typed_labels(workdirs: Sequence[str]) -> set[str]:
  """Returns the labels that the user typed before workdirs, as LABEL=PATH."""
  return {label for label, _ in map(label_and_path, workdirs) if label}


def distinct_labels(
  labels_by_workdir: Mapping[str, set[str]], typed: Collection[str] = ()
) -> dict[tuple[str, str], str]:
  """Returns a label for each classifier that no other one has.

  The single classifier of a workdir gets the name that the user typed for the workdir. Any other
  classifier keeps its label if no other classifier has it. Otherwise it gets the name of the
  workdir, followed by its label if the workdir has several classifiers. If two labels would still
  be equal, all classifiers get the name of the workdir followed by the label.

  Args:
    labels_by_workdir: the labels of the classifiers of each workdir.
    typed: the names of workdirs that the user typed.

  Returns:
    The labels by (name of the workdir, label in it).
  """
  # The number of workdirs that have each label.
  counts = collections.Counter(itertools.chain(*labels_by_workdir.values()))
  distinct = {}
  for name, labels in labels_by_workdir.items():
    for label in labels:
      if len(labels) == 1 and (name in typed or counts[label] > 1):
        distinct[name, label] = name
      else:
        distinct[name, label] = label if counts[label] == 1 else f'{name} {label}'
  if len(set(distinct.values())) < len(distinct):
    return {(name, label): f'{name} {label}' for name, label in distinct}
  return distinct


def _on_common_views(
  name: str, finished: FinishedStudy, all_finished: Sequence[FinishedStudy]
) -> tuple[FinishedStudy, list[int] | None]:
  """Returns a finished study with only the views that all finished studies have, and the positions
  of these views in its records.

  The positions are None if the study has only such views. Otherwise a note on stderr names the
  views that are left out.

  Args:
    name: name of the workdir of `finished`.
    finished: a finished study.
    all_finished: the finished studies of all workdirs.
  """
  study = finished.study.with_common_views([other.study for other in all_finished])
  if study is finished.study:
    return finished, None
  tables = [s.view_table(finished.image_shape) for s in (finished.study, study)]
  all_views, common_views = (list(table.names) for table in tables)
  left_out = [view for view in all_views if view not in common_views]
  listed = ', '.join(left_out[:MAX_NAMED]) + (', …' if len(left_out) > MAX_NAMED else '')
  print(f'note: {name}: not all runs show the same {listed}: left out', file=sys.stderr)
  settings = {k: v for k, v in finished.results.settings.items() if k != 'files'}
  # Arrays are left out, because pictures among them show views that are left out.
  results = dataclasses.replace(
    finished.results, settings={**settings, **study.describe()}, arrays={}
  )
  common = dataclasses.replace(finished, study=study, results=results)
  return common, [all_views.index(view) for view in common_views]


def _check_same_views(task: str, entries: Sequence[Entry]) -> None:
  """Raises InputError if an entry has another study than the first entry, or shows images
  differently.

  `task` is the name of the entries' task, for the message.
  """
  prefix = '' if task == SINGLE else f'in the task {task}, '
  first = entries[0].finished
  expected_settings, expected_views = _settings_and_names_of_views(first)
  for finished in (entry.finished for entry in entries[1:]):
    if finished.study.name != first.study.name:
      raise InputError(
        f'{prefix}{first.folder} is of the study {first.study.name} and {finished.folder} of '
        f'{finished.study.name}: give workdirs of the same study.'
      )
    settings, views = _settings_and_names_of_views(finished)
    lines = differing_keys(expected_settings, settings)  # 'key: value → value'
    if lines or views != expected_views:
      lines = lines or [f'image_shape: {first.image_shape} → {finished.image_shape}']
      raise InputError(
        f'{prefix}{first.folder} and {finished.folder} show their images differently; keys of '
        f'{KEYS.study} that differ: {"; ".join(lines)}. Run one again with the same.'
      )


def _settings_and_names_of_views(finished: FinishedStudy) -> tuple[Facts, Sequence[str]]:
  """Returns the settings that decide how a study shows an image, and the names of its views."""
  settings = dict(finished.study.recording)
  for name in ('half_width', 'confidence'):  # these set the number of images and the intervals
    settings.pop(name, None)
  return settings, finished.study.view_table(finished.image_shape).names


@dataclasses.dataclass(frozen=True)
class Pairing:
  """The images that two runs share.

  Attributes:
    first, second: [n], indices of the shared images among each run's rows; empty if the images are
      not paired.
    note: why the images are not paired, or how the runs differ although they are.
  """

  first: np.ndarray
  second: np.ndarray
  note: str = ''


def pair(
  first: RecordsReader, second: RecordsReader, names: tuple[str, str], common: bool
) -> Pairing:
  """Pairs the rows of two runs that show the same images.

  Images are the same if their example ids and digests are equal. Digests differ if classifiers take
  images of different sizes; then the runs must describe the same stored images.

  Args:
    first: the records of one classifier of the first run.
    second: the records of one classifier of the second run.
    names: the names of the runs, for messages.
    common: whether the runs may share only a part of their images.

  Raises:
    InputError: the runs describe the same data but have different images under the same ids, or
      each has images that the other lacks and `common` is False.
  """
  first_ids, second_ids = first.column('example_id'), second.column('example_id')
  shared, in_first, in_second = np.intersect1d(first_ids, second_ids, return_indices=True)
  num_shared = len(shared)

  def is_equal(column: str) -> bool:
    """Returns whether a column of the records has the same values for the shared images."""
    return np.array_equal(first.column(column)[in_first], second.column(column)[in_second])

  lines = differing_keys(first.identity['data'], second.identity['data'])
  # The top-level keys: a line is 'key: value → value' or 'key.subkey: value → value'.
  differing = {re.split('[:.]', line)[0] for line in lines}
  has_equal_digests = is_equal(IMAGE_DIGEST)
  # Different digests are allowed if the data differ only in how they are selected and prepared.
  has_same_stored_images = has_equal_digests or differing <= PREPARATION_KEYS
  no_rows = np.zeros(0, int)
  if not num_shared or not has_same_stored_images:
    return Pairing(no_rows, no_rows, 'other images')
  if not has_equal_digests and differing <= SELECTION_KEYS:
    raise InputError(
      f'{names[0]} and {names[1]} say the same of their data and have {num_shared} example ids in '
      'common, but not the same images: the files were changed between the runs. Run one again.'
    )
  if num_shared < max(len(first_ids), len(second_ids)) and not common:
    raise InputError(
      f'{names[0]} and {names[1]} share {num_shared} of {len(first_ids)} and {len(second_ids)} '
      'images: run both on the same images, or give --common to compare them on those alone.'
    )
  # What is drawn for an image may depend on the other images of its run.
  if DRAWS in first.read(0, 0).arrays and not is_equal(DRAWS):
    note = f'other images, and {num_shared} of the same shown otherwise'
    return Pairing(no_rows, no_rows, note)
  notes = []
  if not has_equal_digests:
    notes.append('the same stored images, prepared otherwise')
  classes = first.identity.get('classes')
  if classes and classes == second.identity.get('classes') and not is_equal('label'):
    notes.append('some images have other labels')
  if first.identity.get('seed') != second.identity.get('seed'):
    notes.append('other seeds: what is drawn differs')
  order = np.argsort(in_first)  # the order of the first run's rows
  return Pairing(in_first[order], in_second[order], '; '.join(notes))


@dataclasses.dataclass(frozen=True)
class Answers:
  """The answers of one classifier on N images in V views: right or wrong.

  Attributes:
    right: bool [N, V].
    ids: example ids of the images, [N].
    table: the views and their groups, and which images count in each view.
    confidence: the confidence of intervals.
    design: the design of a sequential run; None if all rows are shown in all views.
  """

  right: np.ndarray
  ids: np.ndarray
  table: ViewTable
  confidence: float
  design: FixedWidth | None = None

  @classmethod
  def from_records(cls, entry: Entry, records: RecordsReader) -> Answers:
    """Returns the answers in an entry's records, or in records of some of its rows."""
    study = entry.finished.study
    # Records with one row per image, also for a stored set of corrupted versions of images.
    by_image, table = study.by_image(records, entry.finished.image_shape)
    is_right = by_image.table('rank') == 0  # no class has a higher score than the true one
    ids = by_image.column('example_id')
    return cls(is_right, ids, table, entry.confidence, study.sequential_design)

  def on(self, entry: Entry, rows: np.ndarray) -> Answers:
    """Returns only the answers on the rows with the indices `rows`, given by the classifier
    `entry`.
    """
    records = _selected(entry, rows)
    return self if records is entry.evaluation.records else Answers.from_records(entry, records)

  @property
  def named_groups(self) -> dict[str, list[str]]:
    """The names of the views in each group, for the groups in which any image counts."""
    return {
      group: [self.table.names[view] for view in members]
      for group, members in self.table.groups.items()
      if self.table.counted is None or self.table.counted[:, list(members)].any()
    }

  def group(self, name: str) -> Group:
    """Returns the views of a group.

    A view that the group lists twice, such as a frequency that stands for its mirror image too, has
    double weight.
    """
    views, counts = np.unique(list(self.table.groups[name]), return_counts=True)
    weights = counts / np.gcd.reduce(counts)  # all 1 if every view is listed equally often
    return Group(dict(self.table.facets_of(name)), views, weights)

  def outcomes(self, **right: np.ndarray) -> Outcomes:
    """Returns outcomes for {label: bool [N, V], whether each image is classified right}."""
    views = pd.DataFrame(index=range(len(self.table.names)))
    counted = self.table.counted
    masks = None if counted is None else dict.fromkeys(right, counted)
    return Outcomes(right, views, masks, self.table.units, design=self.design)

  def accuracy(self, group: str) -> Estimate:
    """Returns the accuracy in a group of views, with an interval over images or clusters of
    images.
    """
    outcomes = self.outcomes(right=self.right)
    return mean(ACCURACY, outcomes, 'right', self.group(group), self.confidence)

  def minus(self, first: Answers, group: str) -> Estimate:
    """Returns the accuracy in a group of views minus the accuracy of `first` on the same images."""
    pairs = self.outcomes(first=first.right, second=self.right).pair('first', 'second')
    gained, lost = (pairs.sums(name, self.group(group)) for name in ('gained', 'lost'))
    return share_difference(gained, lost, self.confidence, test=True)

  def consistency(self, other: Answers, groups: Sequence[str]) -> list[Estimate]:
    """Returns the error consistency κ with `other` in each group of views.

    κ is the agreement of right and wrong answers beyond chance. Intervals are over images, or
    clusters of images.

    Args:
      other: answers of another classifier on the same images.
      groups: names of groups of views.
    """
    right = {'other': other.right, 'this': self.right, 'agree': other.right == self.right}
    outcomes = self.outcomes(**right)
    members = [self.group(name) for name in groups]
    views = np.unique(np.concatenate([group.views for group in members]))
    # [K, 3 V] for K images (or clusters) and V views: the columns 'other' of all views, then
    # 'this', then 'agree'.
    one_view_groups = [Group({}, np.array([view]), np.ones(1)) for view in views]
    columns = [outcomes.columns(name, group) for name in right for group in one_view_groups]
    total = np.stack([column_total for column_total, _ in columns], 1)
    weight = np.stack([column_weight for _, column_weight in columns], 1)
    group_weights = np.zeros((len(members), len(views)))
    for index, group in enumerate(members):
      # `views` is sorted and has all views of the group, so that searchsorted finds their columns.
      group_weights[index, np.searchsorted(views, group.views)] = group.weight
    n = [outcomes.observations('agree', group.views) for group in members]
    # The largest number of images stands for all groups; the last line corrects it in each group.
    estimates = consistency.estimates(Units(total, weight, max(n)), group_weights, self.confidence)
    return [dataclasses.replace(kappa, n=count) for kappa, count in zip(estimates, n, strict=True)]


def _selected(entry: Entry, rows: np.ndarray) -> RecordsReader:
  """Returns the records of an entry's rows with the indices `rows`, or of all rows unchanged."""
  records = entry.evaluation.records
  is_complete = np.array_equal(rows, np.arange(records.layout.num_rows))
  return records if is_complete else SelectedRows(records, rows)


@dataclasses.dataclass(frozen=True)
class Compared:
  """The answers of a classifier of a comparison, also paired with the first classifier's answers.

  Attributes:
    label: its label in the comparison.
    answers: its answers on all its images.
    pair: the first classifier's answers and this classifier's, on the images that both have
      answered; None if there are no such images.
    note: how the images of the two classifiers differ, and which value is then subtracted in a
      difference; '' if the images are the same.
  """

  label: str
  answers: Answers
  pair: tuple[Answers, Answers] | None
  note: str

  @classmethod
  def from_pairing(
    cls, first: Entry, first_answers: Answers, entry: Entry, pairing: Pairing, note: str
  ) -> Compared:
    """Returns the answers of `entry`, paired with the first classifier's.

    Args:
      first: the first classifier.
      first_answers: the first classifier's answers on all its images.
      entry: the classifier that is compared with it; may be the first itself.
      pairing: the images that both share.
      note: follows the note of the pairing; '' for none.

    Raises:
      InputError: a shared row is a version of different images in the two runs.
    """
    answers = first_answers
    if entry is not first:
      answers = Answers.from_records(entry, entry.evaluation.records)
    note = '; '.join(filter(None, (pairing.note, note)))
    if not len(pairing.first):
      return cls(entry.label, answers, None, note)
    pair = first_answers.on(first, pairing.first), answers.on(entry, pairing.second)
    if not np.array_equal(pair[0].ids, pair[1].ids):
      raise InputError(
        f'{first.label} and {entry.label} share stored images, but not which are versions of one '
        'image: run both on the same data set.'
      )
    return cls(entry.label, answers, pair, note)


def compare(entries: Sequence[Entry], common: bool, baseline: str) -> Results:
  """Compares the classifiers of a study with the first of them.

  Args:
    entries: the classifiers, at least one.
    common: whether runs that share only a part of their images are compared on the images that all
      of them share. A run that shares none with the first is measured on all its images.
    baseline: label of the classifier that is to be subtracted in all tasks of a battery. If the
      first of `entries` is another classifier, because this task cannot measure the baseline, that
      one is subtracted, and notes name it.

  Returns:
    The accuracy of each classifier by group of views, and its difference from the first's. The
    study's estimates on the shared images of all classifiers are added, as if one run had measured
    them; if they cannot be computed, the table `WHY_NOT` has the reason.
  """
  first = entries[0]
  pairings = [
    pair(first.evaluation.records, e.evaluation.records, (first.label, e.label), common)
    for e in entries
  ]
  if common:
    entries, pairings = _on_shared_images(entries, pairings)
    first = entries[0]
  note = '' if first.label == baseline else f'minus {first.label}: {baseline} is not in this task'
  first_answers = Answers.from_records(first, first.evaluation.records)
  compared = [
    Compared.from_pairing(first, first_answers, entry, pairing, note)
    for entry, pairing in zip(entries, pairings, strict=True)
  ]
  groups = _common_groups(entries, compared)
  printed = _printed_facets(groups, first_answers.table)
  results = Results(
    first.finished.study.name,
    classifiers=[_described(entry) for entry in entries],
    data=first.finished.results.data,
    settings={**first.finished.results.settings, PRINTED_FACETS: printed},
    table=assemble([part(_estimates(groups, compared))]),
    quantities=(ACCURACY, EFFECTIVE, CONSISTENCY),
  )
  try:
    return _with_findings(results, entries, pairings)
  except InputError as error:
    return dataclasses.replace(results, tables={WHY_NOT: Table(('why',), [[str(error)]])})


def _on_shared_images(
  entries: Sequence[Entry], pairings: Sequence[Pairing]
) -> tuple[list[Entry], list[Pairing]]:
  """Returns entries and pairings restricted to the images that all entries share with the first.

  Entries that share no image with the first do not restrict the images, and are returned unchanged.

  Args:
    entries: the classifiers of one task, the baseline first.
    pairings: for each entry, the images that it shares with the first.

  Raises:
    InputError: no image is shared by all of the entries that share any with the first.
  """
  # {label: indices among the first entry's rows of the images that it shares with this entry}
  shared_rows = {e.label: p.first for e, p in zip(entries, pairings, strict=True) if len(p.first)}
  rows_of_first = functools.reduce(np.intersect1d, shared_rows.values())
  if not len(rows_of_first):
    raise InputError(f'no image is in all of {", ".join(shared_rows)}: compare them two by two.')
  all_rows = np.arange(len(rows_of_first))  # restricted records have only shared images, in order
  reduced_entries, reduced_pairings = list(entries), list(pairings)
  for index, (entry, pairing) in enumerate(zip(entries, pairings, strict=True)):
    if len(pairing.first):
      records = _selected(entry, pairing.second[np.isin(pairing.first, rows_of_first)])
      evaluation = Evaluation(entry.label, records)
      reduced_entries[index] = dataclasses.replace(entry, evaluation=evaluation)
      reduced_pairings[index] = Pairing(all_rows, all_rows, pairing.note)
  return reduced_entries, reduced_pairings


def _estimates(groups: Sequence[str], classifiers: Sequence[Compared]) -> list[Row]:
  """Returns the estimates of a comparison as rows of the table of results, by group of views.

  These are the accuracy of each classifier, its difference from the first classifier's, the
  effective robustness relative to clean accuracy, and the error consistency with the first
  classifier. Effective robustness needs clean images and enough classifiers for a line; error
  consistency needs images that a classifier shares with the first.

  Args:
    groups: names of the groups of views, such as 'fog'.
    classifiers: the answers of all classifiers, the baseline first.
  """
  rows, first = [], classifiers[0]
  confidence = first.answers.confidence
  has_line = CLEAN in groups and len(classifiers) >= fewest_models(1)
  facets_by_group = {group: first.answers.table.facets_of(group) for group in groups}
  for group, facets in facets_by_group.items():
    for compared in classifiers:
      accuracy = compared.answers.accuracy(group)
      rows.append(row(compared.label, '', ACCURACY, facets, accuracy, confidence))
      if compared is first:
        continue
      if compared.pair:
        answers_of_first, answers = compared.pair
        difference = answers.minus(answers_of_first, group)
      else:
        difference = independent_difference(first.answers.accuracy(group), accuracy)
      difference = dataclasses.replace(difference, note=compared.note)
      rows.append(row(compared.label, first.label, ACCURACY, facets, difference, confidence))
    if has_line and group != CLEAN:
      robustness = _effective_robustness(classifiers, group)
      for compared, estimate in zip(classifiers, robustness, strict=True):
        if not np.isnan(estimate.value):
          rows.append(row(compared.label, '', EFFECTIVE, facets, estimate, confidence))
  for compared in classifiers[1:]:
    if compared.pair:
      answers_of_first, answers = compared.pair
      kappas = answers.consistency(answers_of_first, groups)
      for facets, kappa in zip(facets_by_group.values(), kappas, strict=True):
        note = '; '.join(filter(None, (kappa.note, compared.note)))
        kappa = dataclasses.replace(kappa, note=note)
        rows.append(row(compared.label, '', CONSISTENCY, facets, kappa, confidence))
  return rows


def _common_groups(entries: Sequence[Entry], classifiers: Sequence[Compared]) -> list[str]:
  """Returns the groups that consist of the same views for all classifiers and all pairs of answers.

  Args:
    entries: the classifiers of one task, for the message.
    classifiers: their answers, in the same order.

  Raises:
    InputError: there is no such group, because the runs have different stored versions of images.
  """
  # {group: names of its views} of each classifier, and of both members of each pair
  first, *later = (
    answers.named_groups
    for compared in classifiers
    for answers in (compared.answers, *(compared.pair or ()))
  )
  groups = [name for name, views in first.items() if all(g.get(name) == views for g in later)]
  if not groups:
    folders = ', '.join(dict.fromkeys(str(entry.finished.folder) for entry in entries))
    raise InputError(
      f'{folders} have no group of views in common: their images are stored in other versions. Run '
      'them on the same ones.'
    )
  return groups


def _printed_facets(groups: Sequence[str], table: ViewTable) -> list[Facts]:
  """Returns the facets of the accuracies that the command prints.

  These are the accuracy on clean images, and the accuracy in the first group that has all views but
  the clean one, if `groups` has these groups.

  Args:
    groups: names of groups of views.
    table: the views, and the views and facets of each group.
  """
  other_views = set(range(len(table.names))) - {table.clean}
  comprehensive = next((name for name in groups if other_views <= set(table.groups[name])), None)
  names = [name for name in groups if name in (CLEAN, comprehensive)]
  return [dict(table.facets_of(name)) for name in names]


def with_references(tasks: Mapping[str, Results], references: Sequence[str]) -> dict[str, Results]:
  """Returns the results of all tasks, with effective robustness added to all but the references.

  Effective robustness is a classifier's accuracy minus the accuracy that a line through the other
  classifiers, or a plane for several references, predicts from the accuracies in the reference
  tasks. There is one estimate for each group of views, with the facet `reference` and without an
  interval. A reference task is represented by its accuracy on clean images, or without clean images
  by its mean accuracy over all views.

  Args:
    tasks: the comparison of each task, by name.
    references: names of tasks.

  Raises:
    InputError: a reference is no task or has neither of the two accuracies, all tasks are
      references, a task lacks a classifier, or there are too few classifiers.
  """
  for name in references:
    choice('--reference', name, tasks)
  if set(tasks) == set(references):
    raise InputError('every task is a --reference, and none is left to judge classifiers on.')
  labels = tasks[references[0]].labels
  accuracies = {task: _accuracies_by_group(task, results) for task, results in tasks.items()}
  reference_accuracies = [_reference_accuracies(name, accuracies[name]) for name in references]
  # [classifiers, references]
  predictors = np.stack([reference.in_order(labels) for reference in reference_accuracies], 1)
  tasks_with_references = {}
  for task, results in tasks.items():
    rows = []
    for group in accuracies[task] if task not in references else ():
      n = min(group.num_images, *(reference.num_images for reference in reference_accuracies))
      facets = {**group.facets, 'reference': ' and '.join(references)}
      values = effective_robustness(predictors, group.in_order(labels), n)
      for label, value in zip(labels, values, strict=True):
        estimate = Estimate.without_interval(float(value), n)
        rows.append(row(label, '', EFFECTIVE, facets, estimate, results.settings['confidence']))
    parts = [results.table, part(rows)] if rows else [results.table]
    # `object` joins columns whose types differ between the two parts.
    table = assemble([estimates.astype(object) for estimates in parts])
    tasks_with_references[task] = dataclasses.replace(results, table=table)
  return tasks_with_references


class GroupAccuracies(NamedTuple):
  """The accuracies of all classifiers in one group of views of a task.

  Attributes:
    task: name of the task.
    facets: {facet: value} of the group.
    values: accuracies by label.
    num_images: smallest number of images that an accuracy is measured on.
  """

  task: str
  facets: dict[str, object]
  values: dict[str, float]
  num_images: int

  def in_order(self, labels: Sequence[str]) -> np.ndarray:
    """Returns the accuracies in the order of `labels`; raises InputError if one is missing."""
    lacking = [label for label in labels if label not in self.values]
    if lacking:
      raise InputError(f'the task {self.task} has no accuracy of {", ".join(lacking)}.')
    return np.array([self.values[label] for label in labels])


def _accuracies_by_group(task: str, results: Results) -> list[GroupAccuracies]:
  """Returns the accuracies of a task in each group of views, without accuracies of single classes.

  A group of views is a combination of facet values, such as {'corruption': 'fog'}.
  """
  table = results.table[(results.table.quantity == ACCURACY.name) & (results.table.versus == '')]
  names = [name for name in facets_of(table) if table[name].notna().any() and name != 'class']
  table = table[table['class'].isna()] if 'class' in table else table
  accuracies = []
  groups = table.groupby(names, dropna=False, sort=False) if names else [((), table)]
  for facet_values, rows in groups:
    facets = {k: v for k, v in zip(names, facet_values, strict=True) if not pd.isna(v)}
    values = dict(zip(rows.classifier, rows.value, strict=True))
    accuracies.append(GroupAccuracies(task, facets, values, int(rows.n.min())))
  return accuracies


def _reference_accuracies(task: str, groups: Sequence[GroupAccuracies]) -> GroupAccuracies:
  """Returns the accuracies that represent a reference task.

  These are the accuracies on clean images; in a task without clean images, the accuracies over all
  views; in a task without either, the accuracies in its only group of views.

  Args:
    task: name of the task, for messages.
    groups: the accuracies of the task in all groups of views.

  Raises:
    InputError: the task has no accuracies on clean images or over all views, and several groups.
  """
  for facets in ({'view': CLEAN}, {'view': ALL_VIEWS}, {}):
    for group in groups:
      if group.facets == facets:
        return group
  if len(groups) != 1:
    names = ', '.join(' '.join(map(str, group.facets.values())) for group in groups)
    raise InputError(
      f'--reference={task}: it has no accuracy on clean images or over all views, but of {names}. '
      'Give a task of one set of images.'
    )
  return groups[0]


def independent_difference(first: Estimate, second: Estimate) -> Estimate:
  """Returns second − first for two independent proportions, with an interval.

  Its lower half-width is √(l² + u²), where l is the lower half-width of `second` and u the upper
  one of `first`. The upper half-width is computed from the upper half-width of `second` and the
  lower one of `first` (Newcombe, Statistics in Medicine 17, 1998, method 10).
  """
  value = second.value - first.value
  low = value - float(np.hypot(second.value - second.low, first.high - first.value))
  high = value + float(np.hypot(second.high - second.value, first.value - first.low))
  return Estimate(value, low, high, second.n, second.clusters, NEWCOMBE)


def _effective_robustness(classifiers: Sequence[Compared], group: str) -> list[Estimate]:
  """Returns each classifier's effective robustness in a group of views, relative to clean accuracy.

  The interval is from a bootstrap over images, or clusters of images, if all classifiers share
  their images; otherwise there is none.

  Args:
    classifiers: the answers of all classifiers, the baseline first.
    group: name of the group of views.
  """
  all_answers = [compared.answers for compared in classifiers]
  n = min(len(answers.ids) for answers in all_answers)
  paired = [compared.pair[1] for compared in classifiers if compared.pair]
  share_images = len(paired) == len(classifiers) and all(len(a.ids) == n for a in paired)
  if not share_images:
    accuracies = [[a.accuracy(name).value for name in (CLEAN, group)] for a in all_answers]
    clean, shifted = np.array(accuracies).T  # [M] each, for M classifiers
    values = effective_robustness(clean[:, None], shifted, n)
    pairs = zip(values, all_answers, strict=True)
    return [Estimate.without_interval(float(value), len(a.ids)) for value, a in pairs]
  both_groups = [paired[0].group(CLEAN), paired[0].group(group)]
  outcomes = paired[0].outcomes(**{str(k): answers.right for k, answers in enumerate(paired)})
  units_by_classifier = [units(outcomes, label, both_groups) for label in outcomes.labels]

  def robustness_of_resample(weights: np.ndarray) -> np.ndarray:
    """Returns the effective robustness [B, M] of M classifiers at weights [B, K] of the units."""
    means = np.stack([u.means(weights) for u in units_by_classifier], -2)  # [B, M, 2 groups]
    return effective_robustness(means[..., :1], means[..., 1], n)

  return bootstrap(robustness_of_resample, units_by_classifier[0], paired[0].confidence)


def _with_findings(
  results: Results, entries: Sequence[Entry], pairings: Sequence[Pairing]
) -> Results:
  """Returns a comparison to which the study's estimates on shared images are added.

  Shared images are those that all classifiers were shown. Estimates that the comparison has already
  are not repeated.

  Args:
    results: the comparison.
    entries: its classifiers, the baseline first.
    pairings: for each entry, the images that it shares with the first.

  Raises:
    InputError: the study cannot compute estimates from these records together. The message is only
      the reason, such as 'a single classifier', for the table of reasons.
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
  # Arrays of single classifiers of the first run have names with the prefix of the classifier.
  prefixes = tuple(prefix for prefix in first.results.prefixes.values() if prefix)
  arrays_of_study = {k: v for k, v in first.results.arrays.items() if not k.startswith(prefixes)}
  table = pd.concat([rows.astype(object) for rows in (results.table, *findings.estimates)])
  is_repeated = table.duplicated([*SUBJECT, *facets_of(table)])
  names = {quantity.name for quantity in results.quantities}
  quantities_of_study = [q for q in first.study.described_quantities if q.name not in names]
  return dataclasses.replace(
    results,
    data={**first.results.data, 'num_examples': len(pairings[0].first)},
    tables=findings.tables,
    arrays={**arrays_of_study, **findings.arrays},
    table=assemble([table[~is_repeated]]),
    quantities=(*quantities_of_study, *results.quantities),
  )


def _described(entry: Entry) -> Facts:
  """Returns the description of an entry's classifier, with its label in the comparison and its
  workdir.
  """
  facts = next(c for c in entry.finished.results.classifiers if c['label'] == entry.recorded_label)
  return {**facts, 'label': entry.label, 'workdir': str(entry.finished.folder)}
