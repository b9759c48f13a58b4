"""Reads the classifiers of finished workdirs, by the tasks that all workdirs have."""

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
  """A classifier of a finished workdir, with its predictions in one study.

  Attributes:
    label: label of the classifier in the comparison, where it is unique.
    recorded_label: label of the classifier in its workdir.
    finished: the study, with its results in the workdir.
    evaluation: the classifier's predictions, under `label`.
    confidence: confidence of all intervals, from the first workdir.
  """

  label: str
  recorded_label: str
  finished: FinishedStudy
  evaluation: Evaluation
  confidence: float


def read_entries(
  workdirs: Mapping[str, pathlib.Path], study_file: str = '', typed: Collection[str] = ()
) -> dict[str, list[Entry]]:
  """Reads the classifiers of several workdirs for a comparison.

  A battery is a run of several studies. Its studies that some workdirs lack are left out, with a
  note on stderr. Studies of images without classifiers are left out too.

  Args:
    workdirs: {name: path of a workdir} from `named_workdirs`.
    study_file: `FILE.py:NAME`, a Python file to run for a user-defined study; '' runs none.
    typed: names that the user typed, as LABEL in LABEL=PATH, see `distinct_labels`.

  Returns:
    {name of the study in the battery: classifiers}. The name is '' for runs of a single study.

  Raises:
    InputError: there are fewer than two classifiers, the workdirs have different studies or
      perturbations, or they share no study of classifiers; see also `finished_workdir.read`.
  """
  studies_by_workdir = {name: read(path, study_file) for name, path in workdirs.items()}
  all_studies = itertools.chain(*(tasks.values() for tasks in studies_by_workdir.values()))
  refuse_unused_file(study_file, [finished.study for finished in all_studies])
  return entries_of(studies_by_workdir, typed)


def entries_of(
  studies_by_workdir: Mapping[str, Mapping[str, FinishedStudy]], typed: Collection[str] = ()
) -> dict[str, list[Entry]]:
  """Returns the classifiers of finished studies for a comparison.

  Args:
    studies_by_workdir: {name of the workdir: {name of the study in the battery: study}}.
    typed: names that the user typed, as LABEL in LABEL=PATH, see `distinct_labels`.

  Returns:
    {name of the study in the battery: classifiers}, for the studies that all workdirs have.

  Raises:
    InputError: there are fewer than two classifiers, the studies or their perturbations differ, or
      no study of classifiers is in all workdirs.
  """
  tasks = _tasks_of_classifiers(studies_by_workdir)
  labels_by_workdir = {}
  for name, studies in studies_by_workdir.items():
    evaluations = itertools.chain(*(studies[task].evaluations for task in tasks))
    labels_by_workdir[name] = {evaluation.label for evaluation in evaluations}
  unique_labels = distinct_labels(labels_by_workdir, typed)
  entries_by_task = {}
  for task in tasks:
    finished_studies = {name: studies[task] for name, studies in studies_by_workdir.items()}
    entries_by_task[task] = _entries_of_study(finished_studies, unique_labels)
  if all(len(entries) < 2 for entries in entries_by_task.values()):
    raise InputError('a comparison needs at least two classifiers: give another workdir.')
  for task, entries in entries_by_task.items():
    for entry in entries:
      data = entry.evaluation.records.identity['data']
      refuse_unknown_classes(data, f'{entry.label}: a comparison')
    _check_same_views(task, entries)
  return entries_by_task


def _entries_of_study(
  finished_studies: Mapping[str, FinishedStudy], unique_labels: Mapping[tuple[str, str], str]
) -> list[Entry]:
  """Lists the classifiers of one study in several workdirs, for a comparison.

  Perturbations that not all workdirs have are left out.

  Args:
    finished_studies: {name of the workdir: the study in it}.
    unique_labels: {(name of the workdir, label in it): label in the comparison}.
  """
  first, *later = finished_studies.values()
  entries = []
  for name, finished in finished_studies.items():
    restricted = _restrict_to_common_views(name, finished, [first, *later])
    for evaluation in restricted.evaluations:
      label = unique_labels[name, evaluation.label]
      relabelled = Evaluation(label, evaluation.records)
      entries.append(Entry(label, evaluation.label, restricted, relabelled, first.study.confidence))
  return entries


def common_tasks(study_names: Mapping[str, Mapping[str, str]]) -> list[str]:
  """Returns the names of the studies that all workdirs have.

  A note is printed for each other study.

  Args:
    study_names: {name of the workdir: {name in the battery: name of the study}}. The name in the
      battery is '' for a run of a single study.

  Raises:
    InputError: there is no common study.
  """
  first, *later = study_names.values()
  tasks = [task for task in first if all(task in names for names in later)]
  if not tasks:
    tasks_by_workdir = []  # such as 'resnet: the study corruption_error'
    for workdir_name, names in study_names.items():
      listed = ', '.join(task or f'the study {name}' for task, name in names.items())
      tasks_by_workdir.append(f'{workdir_name}: {listed}')
    raise InputError(
      f'these workdirs have no study or task in common ({"; ".join(tasks_by_workdir)}): give '
      'workdirs of the same study, or of batteries with the same tasks.'
    )
  for task in dict.fromkeys(itertools.chain(first, *later)):
    if task not in tasks:
      holders = [name for name, names in study_names.items() if task in names]
      print(f'note: task {task} is left out: only {", ".join(holders)} has it', file=sys.stderr)
  return tasks


def _tasks_of_classifiers(
  studies_by_workdir: Mapping[str, Mapping[str, FinishedStudy]],
) -> list[str]:
  """Returns the names of the studies of classifiers that all workdirs have.

  A note is printed for each study that only some workdirs have. Studies of images without
  classifiers are left out.

  Args:
    studies_by_workdir: {name of the workdir: {name in the battery: study}}.

  Raises:
    InputError: there is no common study of classifiers.
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
  """Returns the paths of workdirs by name.

  The name is LABEL for LABEL=PATH, else the name of the folder.

  Args:
    workdirs: workdirs, PATH or LABEL=PATH.

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
  """Returns text that is equal for two classifiers if they are the same network.

  The text is the description without the label, but with normalisation, input filter and
  adaptation. '' if the description has no digest of weights or of a file.

  Args:
    classifier: description of a classifier in results.
  """
  facts = {key: value for key, value in classifier.items() if key != 'label'}
  description = json.dumps(facts, sort_keys=True)
  return description if 'sha256' in description else ''  # the key of a digest


def typed_labels(workdirs: Sequence[str]) -> set[str]:
  """Returns the labels that the user typed, as LABEL in LABEL=PATH."""
  return {label for label, _ in map(label_and_path, workdirs) if label}


def distinct_labels(
  labels_by_workdir: Mapping[str, set[str]], typed: Collection[str] = ()
) -> dict[tuple[str, str], str]:
  """Returns a unique label for each classifier of several workdirs.

  A classifier keeps its label if no other workdir has this label. Otherwise the label becomes
  'WORKDIR LABEL', or 'WORKDIR' if it is the only classifier of the workdir. The only classifier of
  a workdir is also called 'WORKDIR' if the user typed this name. If two labels are still equal, all
  become 'WORKDIR LABEL', or 'WORKDIR / LABEL' if names with spaces make two of these equal.

  Args:
    labels_by_workdir: {name of the workdir: labels of its classifiers}.
    typed: names of workdirs that the user typed.

  Returns:
    {(name of the workdir, label): unique label}.
  """
  # The number of workdirs that have each label.
  counts = collections.Counter(itertools.chain(*labels_by_workdir.values()))
  distinct = {}
  for name, labels in labels_by_workdir.items():
    for label in labels:
      is_shared = counts[label] > 1
      if len(labels) == 1 and (is_shared or name in typed):
        distinct[name, label] = name
      else:
        distinct[name, label] = f'{name} {label}' if is_shared else label
  for separator in (' ', ' / '):
    if len(set(distinct.values())) < len(distinct):
      distinct = {(name, label): f'{name}{separator}{label}' for name, label in distinct}
  return distinct


def _restrict_to_common_views(
  name: str, finished: FinishedStudy, all_finished: Sequence[FinishedStudy]
) -> FinishedStudy:
  """Restricts a finished study to the perturbations that all runs have.

  A note on stderr names the perturbations that are left out.

  Args:
    name: name of the workdir.
    finished: the study in this workdir.
    all_finished: the study in all workdirs.
  """
  study = finished.study.with_common_views([other.study for other in all_finished])
  if study is finished.study:
    return finished
  all_views = list(finished.study.view_table(finished.image_shape).names)
  common_views = list(study.view_table(finished.image_shape).names)
  left_out = [view for view in all_views if view not in common_views]
  listed = ', '.join(left_out[:MAX_NAMED]) + (', …' if len(left_out) > MAX_NAMED else '')
  print(f'note: {name}: not all runs show the same {listed}: left out', file=sys.stderr)
  # `files` names the files of all views; `describe` names files of the common views, if any.
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
  """Raises InputError unless all classifiers have the same study, settings and perturbations.

  Args:
    task: name of the study in the battery (a run of several studies), for the message.
    entries: the classifiers.
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
      # under equal settings, perturbations differ only if images have another size
      lines = lines or [f'image_shape: {first.image_shape} → {finished.image_shape}']
      raise InputError(
        f'{prefix}{label} and {entry.label} were shown their images differently; settings of the '
        f'study that differ: {"; ".join(lines)}. Run one again with the same.'
      )


def _settings_and_names_of_views(finished: FinishedStudy) -> tuple[Facts, Sequence[str]]:
  """Returns the settings that change a study's perturbations, and the perturbations' names."""
  other_settings = ('half_width', 'confidence')  # change the number of images and the intervals
  settings = {k: v for k, v in finished.study.recording.items() if k not in other_settings}
  return settings, finished.study.view_table(finished.image_shape).names
