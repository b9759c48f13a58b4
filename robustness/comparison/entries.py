"""Reads the classifiers of finished workdirs, by the tasks that all workdirs have."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import pathlib
import sys
from collections.abc import Collection, Mapping, Sequence

from robustness.core.errors import InputError
from robustness.core.paths import label_and_path
from robustness.core.rows import refuse_unknown_classes
from robustness.core.settings import check_name, differing_keys
from robustness.core.typing import Facts
from robustness.evaluation.recorded_study import refuse_unused_file
from robustness.evaluation.records import SelectedViews
from robustness.evaluation.study import Evaluation
from robustness.results import SINGLE
from robustness.workdirs.finished_workdir import FinishedStudy, read

MAX_NAMED = 10
"""Most views that a note names."""


@dataclasses.dataclass(frozen=True)
class Entry:
  """One classifier of one workdir, in one study.

  Attributes:
    label: label of the classifier in the comparison, which no other classifier has.
    recorded_label: label of the classifier in its workdir.
    finished: the study, with its results in the workdir.
    evaluation: records of the classifier, under `label`.
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
  """Returns the classifiers of all workdirs, {task: entries}, for the tasks that all workdirs have.

  The task of a single study is `SINGLE`. Tasks that measure images alone are left out; so are tasks
  that some of the workdirs lack, with a note on stderr.

  Args:
    workdirs: {name: path of a workdir} from `named_workdirs`.
    study_file: `FILE.py:NAME`, a Python file to run for a user-defined study; '' runs none.
    typed: the names that the user typed, see `distinct_labels`.

  Raises:
    InputError: there are fewer than two classifiers, the workdirs have different studies or show
      images differently, or they share no task of classifiers; see also `finished_workdir.read`.
  """
  studies_by_workdir = {name: read(path, study_file) for name, path in workdirs.items()}
  all_studies = itertools.chain(*(tasks.values() for tasks in studies_by_workdir.values()))
  refuse_unused_file(study_file, [finished.study for finished in all_studies])
  return entries_of(studies_by_workdir, typed)


def entries_of(
  studies_by_workdir: Mapping[str, Mapping[str, FinishedStudy]], typed: Collection[str] = ()
) -> dict[str, list[Entry]]:
  """Returns the classifiers of finished studies, {task: entries}, for the tasks of all workdirs.

  Args:
    studies_by_workdir: {name of the workdir: {task: finished study}}.
    typed: the names of workdirs that the user typed, see `distinct_labels`.

  Raises:
    InputError: there are fewer than two classifiers, the studies differ or show images differently,
      or no task is in all workdirs, apart from tasks that measure images alone.
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
      restricted = _restrict_to_common_views(name, finished, [*finished_studies.values()])
      for recorded in restricted.evaluations:
        label = labels[name, recorded.label]
        evaluation = Evaluation(label, recorded.records)
        entry = Entry(label, recorded.label, restricted, evaluation, confidence)
        entries_by_task[task].append(entry)
  if max(map(len, entries_by_task.values())) < 2:
    raise InputError('a comparison needs at least two classifiers: give another workdir.')
  for task, entries in entries_by_task.items():
    for entry in entries:
      data = entry.evaluation.records.identity['data']
      refuse_unknown_classes(data, f'{entry.label}: a comparison')
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
  """Returns the tasks that all workdirs have, without tasks that measure images alone.

  A note on stderr names each task that only some workdirs have.

  Args:
    studies_by_workdir: {name of the workdir: {task: finished study}}.

  Raises:
    InputError: there is no common task, or all common tasks measure images alone.
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


def network_of(classifier: Facts) -> str:
  """Returns a text that is equal for two classifiers of the same network, measured the same way.

  It is the description of the classifier without its label, with its normalisation, input filter
  and adaptation. It is '' if the description has no digest of weights or of a file.
  """
  facts = {key: value for key, value in classifier.items() if key != 'label'}
  description = json.dumps(facts, sort_keys=True)
  return description if 'sha256' in description else ''  # the key of a digest


def typed_labels(workdirs: Sequence[str]) -> set[str]:
  """Returns the labels that the user typed before workdirs, as LABEL=PATH."""
  return {label for label, _ in map(label_and_path, workdirs) if label}


def distinct_labels(
  labels_by_workdir: Mapping[str, set[str]], typed: Collection[str] = ()
) -> dict[tuple[str, str], str]:
  """Returns a label for each classifier that no other one has.

  The only classifier of a workdir gets the name that the user typed for the workdir, if any. Any
  other classifier keeps its label if no other classifier has it. Otherwise it gets the name of the
  workdir, followed by its label if the workdir has several classifiers. If two labels would still
  be equal, all classifiers get the name of the workdir followed by the label.

  Args:
    labels_by_workdir: {name of the workdir: labels of its classifiers}.
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


def _restrict_to_common_views(
  name: str, finished: FinishedStudy, all_finished: Sequence[FinishedStudy]
) -> FinishedStudy:
  """Returns a finished study with only the views that all finished studies have.

  A note on stderr names the views that are left out.

  Args:
    name: name of the workdir of `finished`.
    finished: a finished study.
    all_finished: the finished studies of all workdirs.
  """
  study = finished.study.with_common_views([other.study for other in all_finished])
  if study is finished.study:
    return finished
  tables = [s.view_table(finished.image_shape) for s in (finished.study, study)]
  all_views, common_views = (list(table.names) for table in tables)
  left_out = [view for view in all_views if view not in common_views]
  listed = ', '.join(left_out[:MAX_NAMED]) + (', …' if len(left_out) > MAX_NAMED else '')
  print(f'note: {name}: not all runs show the same {listed}: left out', file=sys.stderr)
  # `describe` states the files of the common views anew, if there are any.
  unchanged = {k: v for k, v in finished.results.settings.items() if k != 'files'}
  settings = {**unchanged, **study.describe()}
  # Arrays are left out, because pictures among them show views that are left out.
  results = dataclasses.replace(finished.results, settings=settings, arrays={})
  positions = [all_views.index(view) for view in common_views]
  evaluations = [
    Evaluation(e.label, SelectedViews(e.records, positions)) for e in finished.evaluations
  ]
  return dataclasses.replace(finished, study=study, results=results, evaluations=evaluations)


def _check_same_views(task: str, entries: Sequence[Entry]) -> None:
  """Raises InputError unless all entries have the same study and views, with equal settings.

  Args:
    task: name of the entries' task, for the message.
    entries: the classifiers of the task.
  """
  prefix = '' if task == SINGLE else f'in the task {task}, '
  label, first = entries[0].label, entries[0].finished
  expected_settings, expected_views = _settings_and_names_of_views(first)
  for entry in entries[1:]:
    finished = entry.finished
    if finished.study.name != first.study.name:
      raise InputError(
        f'{prefix}{label} has results of {first.study.name} and {entry.label} of '
        f'{finished.study.name}: compare results of the same study.'
      )
    settings, views = _settings_and_names_of_views(finished)
    lines = differing_keys(expected_settings, settings)  # 'key: value → value'
    if lines or views != expected_views:
      lines = lines or [f'image_shape: {first.image_shape} → {finished.image_shape}']
      raise InputError(
        f'{prefix}{label} and {entry.label} were shown their images differently; settings of the '
        f'study that differ: {"; ".join(lines)}. Run one again with the same.'
      )


def _settings_and_names_of_views(finished: FinishedStudy) -> tuple[Facts, Sequence[str]]:
  """Returns the settings that decide how a study shows an image, and the names of its views."""
  other_settings = ('half_width', 'confidence')  # of the number of images, and of intervals
  settings = {k: v for k, v in finished.study.recording.items() if k not in other_settings}
  return settings, finished.study.view_table(finished.image_shape).names
