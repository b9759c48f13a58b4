"""Reads workdirs, the folders of runs: the studies, results and records of a finished one.

Of an unfinished workdir it says what is missing and how to finish it.
"""

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from robustness.core import json_files
from robustness.core.errors import InputError, nearest
from robustness.core.paths import expanded
from robustness.core.rows import refuse_unknown_classes
from robustness.core.settings import Section, check_name, require, without_inherited
from robustness.evaluation import recorded_study
from robustness.evaluation.outcomes import as_evaluations
from robustness.evaluation.recorded_study import RecordedStudy
from robustness.evaluation.records import HEADER, Records
from robustness.evaluation.rounds import FIRST, SequentialRecords
from robustness.evaluation.study import IMAGES, Evaluation, Scored, Study
from robustness.evaluation.views import ViewTable
from robustness.present import summary
from robustness.present.publish import Presentation
from robustness.results import JSON_NAME, SEED, SINGLE, Findings, Results, summary_name
from robustness.workdirs import workdir

_AGAIN = 'Give the command of the run again.'
_FINISH = 'Run its command again to resume it.'


@dataclasses.dataclass(frozen=True)
class FinishedStudy:
  """A study with its results and records, read from the workdir of a finished run.

  Attributes:
    folder: folder of the results.
    study: the study (evaluation protocol) with its settings.
    results: the results.
    evaluations: saved outputs (records) of each classifier, or of the images if the study measures
      images only.
  """

  folder: pathlib.Path
  study: Study
  results: Results
  evaluations: list[Evaluation]

  @property
  def image_shape(self) -> tuple[int, int, int]:
    """Height, width and channels of the images."""
    height, width, channels = self.results.data['image_shape']
    return height, width, channels


def read(directory: str | os.PathLike[str], study_file: str = '') -> dict[str, FinishedStudy]:
  """Reads all studies of a finished run from its workdir, as `{task: study}`.

  A battery (several studies in one run) has a task for each study; a run of one study has the
  single key `SINGLE`. Python files named in the workdir are not run. To read a study from a private
  file, pass `study_file`.

  Args:
    directory: the workdir. For a run with several seeds, the folder `seed<n>` of one seed.
    study_file: `FILE.py:NAME`, a Python file to run for a user-defined study; '' runs none.

  Raises:
    InputError: the folder is not a workdir, is not finished, holds several seeds, or holds results
      of predictions from elsewhere.
  """
  path = expanded(directory)
  sections = study_sections(_config_of_finished_run(path), path)
  # Only a battery may have left out tasks.
  tasks_without_results = left_out(path) if SINGLE not in sections else ()
  tasks = [task for task in sections if task not in tasks_without_results]
  return {task: _finished_study(path, task, sections[task], study_file) for task in tasks}


def _config_of_finished_run(path: pathlib.Path) -> dict[str, Any]:
  """Reads the config of a run that evaluated classifiers or images.

  Args:
    path: the workdir, or the folder of a seed in it.

  Raises:
    InputError: there is no config, the workdir holds several seeds, or results of predictions from
      elsewhere.
  """
  config_file = run_folder(path) / workdir.CONFIG
  if not config_file.exists():
    problem = f'{path} is no workdir'
    raise InputError(f'{problem}: it has no {workdir.CONFIG}. Give the workdir of a finished run.')
  config = without_inherited(json_files.read(config_file, advice=workdir.REWRITTEN))
  if 'predictions' in config or 'detections' in config:
    problem = f'{path} holds numbers of predictions that were made elsewhere, and no run of a study'
    raise InputError(f'{problem}: give the workdir of a run with classifiers.')
  seeds = sorted(folder.name for folder in path.glob(workdir.seed_folder('*')) if folder.is_dir())
  if config.get('seeds') and seeds:
    problem = f'{path} holds a run of each of several seeds'
    raise InputError(f'{problem}: give one of them, such as {path / seeds[0]}.')
  return config


def run_folder(path: pathlib.Path) -> pathlib.Path:
  """Returns the workdir of a run, given the workdir or the folder of one of its seeds in it.

  Every other path is returned unchanged.
  """
  has_config = [(folder / workdir.CONFIG).exists() for folder in (path, path.parent)]
  is_seed = path.name.startswith('seed') and has_config == [False, True]
  return path.parent if is_seed else path


def study_sections(config: Section, path: pathlib.Path) -> dict[str, Section]:
  """Returns the settings of each study in a config, `{task: section 'study'}`.

  A battery (several studies in one run) has a task for each study; a config of one study has the
  single key `SINGLE`.

  Args:
    config: the config.
    path: the workdir, for messages.

  Raises:
    InputError: a key has a wrong type, or a task's name is not valid as the name of a folder.
  """
  file = str(path / workdir.CONFIG)
  if 'battery' not in config:
    json_files.check(config, file, {'study?': dict}, workdir.REWRITTEN)
    return {SINGLE: config.get('study', {})}
  advice = 'A run of an earlier version: run its command again in another --workdir.'
  json_files.check(config, file, {'battery': {'tasks': [str]}}, advice)
  battery = config['battery']
  for name in battery['tasks']:
    check_name(f'{file}, battery.tasks', name)
  form: json_files.Form = {name: {'study': dict} for name in battery['tasks']}
  json_files.check(battery, f'{file}, battery', form)
  return {name: battery[name]['study'] for name in battery['tasks']}


def studies_and_presentation(
  path: pathlib.Path, results: Results, config: Section, study_file: str = ''
) -> tuple[dict[str, Study], Presentation]:
  """Returns the studies of a run, `{task: study}`, and what draws its figures and report.

  Tasks are the studies of a battery; a run of one study has the single key `SINGLE`.

  Args:
    path: the workdir.
    results: results of the workdir or of one seed. Tasks without results are left out.
    config: the config of the workdir.
    study_file: `FILE.py:NAME`, a Python file to run for a user-defined study; '' runs none.
  """
  studies_by_task = {}
  for task, section in study_sections(config, path).items():
    if task in results.by_task:
      saved = results.by_task[task]
      study = recorded_study.study_of_results(section, saved.study, saved.settings, study_file)
      studies_by_task[task] = study
  summary_of_tasks = summary_name(config.get('battery', {}).get('summary', ''))
  has_seeds = SEED in results.table.columns
  return studies_by_task, summary.present_run(summary_of_tasks, studies_by_task, has_seeds)


def seeds_of(config: Section, path: pathlib.Path) -> list[int]:
  """Returns the training seeds in a workdir's config; [] if each classifier is trained once.

  Raises:
    InputError: `seeds` are not integers.
  """
  json_files.check(config, f'{path / workdir.CONFIG}', {'seeds?': [int]}, workdir.REWRITTEN)
  return list(config.get('seeds', ()))


def read_task(directory: str | os.PathLike[str], name: str) -> FinishedStudy:
  """Reads one study of a finished run, with its results and records.

  Args:
    directory: the workdir, or the folder WORKDIR/tasks/NAME for the task NAME.
    name: task of a battery (a run of several studies). '' for a run of one study, or if `directory`
      names the task.

  Raises:
    InputError: the workdir has no such task, or several and `name` is ''; see also `read`.
  """
  folder = expanded(directory).resolve()
  if not name and folder.parent.name == workdir.TASKS:
    directory, name = folder.parents[1], folder.name
  tasks = read(directory)
  if name in tasks:
    return tasks[name]
  if SINGLE in tasks:
    raise InputError(f'{directory} holds a single study and no task {name!r}: give no task.')
  if not name:
    raise InputError(f'{directory} holds a battery: choose one of its tasks, {", ".join(tasks)}.')
  if name in left_out(expanded(directory)):
    raise InputError(
      f'{directory} has no numbers of the task {name!r}, which none of its classifiers could take '
      f'(see its table {workdir.LEFT_OUT!r}); it has those of {", ".join(tasks)}.'
    )
  raise InputError(f'{directory} has no task {name!r}; {nearest(name, tasks)}.')


def left_out(folder: pathlib.Path) -> set[str]:
  """Returns the tasks of a battery that have no results, because no classifier fitted them.

  A task is one study of a battery, a run of several studies.

  Args:
    folder: the workdir, or the folder of a seed. The result is empty if it has no results yet.
  """
  if not (folder / JSON_NAME).is_file():
    return set()
  table = Results.read(folder).tables.get(workdir.LEFT_OUT)
  # The first column names the task, and each row a classifier that it left out.
  tasks = {str(row[0]) for row in table.rows if row} if table else set()
  return {name for name in tasks if not (workdir.task_folder(folder, name) / JSON_NAME).is_file()}


def _finished_study(
  path: pathlib.Path, task: str, section: Section, study_file: str
) -> FinishedStudy:
  """Reads one study with its results and records from a workdir.

  Args:
    path: the workdir, or its folder of a seed.
    task: task of a battery (a run of several studies), or `SINGLE`.
    section: the section `study` of the config.
    study_file: `FILE.py:NAME`, a Python file to run for a user-defined study; '' runs none.

  Raises:
    InputError: results or shards are missing.
  """
  folder = workdir.task_folder(path, task)
  if not (folder / JSON_NAME).is_file():
    raise InputError(f'{path} is not finished: {folder} has no {JSON_NAME}. {_FINISH}')
  results = Results.read(folder)
  study = recorded_study.study_of_results(section, results.study, results.settings, study_file)
  # the tasks of a battery have their records in folders inside `RECORDS`
  all_records = path / workdir.RECORDS
  records_folder = all_records if task == SINGLE else _records_folder(path, study, results)
  design = study.sequential_design
  labels = results.classifier_labels if study.needs_classifier else [IMAGES]
  open_records = partial(SequentialRecords.open, design=design) if design else Records.open
  evaluations = as_evaluations({label: open_records(records_folder / label) for label in labels})
  if any(evaluation.records.missing() for evaluation in evaluations):
    raise InputError(f'{path} is not finished: {records_folder} lacks shards. {_FINISH}')
  if isinstance(study, RecordedStudy):  # a user's study; only the records have its views
    records = evaluations[0].records
    study = study.of_records(records.identity, records.layout.num_views)
  return FinishedStudy(folder, study, results, evaluations)


def _records_folder(path: pathlib.Path, study: Study, results: Results) -> pathlib.Path:
  """Finds the folder `records/STUDY-DIGEST` with the saved outputs of one task of a battery.

  The folder must have been recorded by the same study (`Study.recording`) on the same data. Data
  are compared by the keys that both descriptions have. If several folders match, the folder with
  the fewest unmatched keys is returned.

  Args:
    path: the workdir, or its folder of a seed.
    study: the study of the task.
    results: the results of the task.

  Raises:
    InputError: no folder matches.
  """
  settings = json.loads(json.dumps(study.recording))  # lists for tuples, as in a header
  matches: list[tuple[int, pathlib.Path]] = []  # (number of unshared keys, folder)
  # records/STUDY-DIGEST/CLASSIFIER/header, or one folder deeper in a sequential design
  pattern = f'*/*/{FIRST}/{HEADER}' if study.sequential_design else f'*/*/{HEADER}'
  all_records = path / workdir.RECORDS
  for header in sorted(all_records.glob(pattern)):
    identity = Records.open(header.parent).identity
    json_files.check(identity, f'{header}, identity', {'data': dict, 'study': dict})
    recorded_settings = recorded_study.with_current_keys(type(study), identity['study'])
    is_same_study = recorded_settings == settings
    # A study from a user's file, which is not run here, is a `RecordedStudy`. It has the settings
    # that the results state, which may be more than the records state.
    if isinstance(study, RecordedStudy) and not is_same_study:
      is_same_study = study.is_recorded_as(recorded_settings)
    data, recorded_data = results.data, identity['data']
    shared_keys = data.keys() & recorded_data.keys()
    is_same_data = all(data[key] == recorded_data[key] for key in shared_keys)
    if is_same_study and is_same_data:
      num_unshared = len(data.keys() ^ recorded_data.keys())
      study_folder = all_records / header.relative_to(all_records).parts[0]
      matches.append((num_unshared, study_folder))
  if not matches:
    raise InputError(f'{path} has no records of the task with the study {study.name}. {_FINISH}')
  _, folder = min(matches)  # on equal numbers, the first folder by name
  return folder


def find(directory: str | os.PathLike[str]) -> tuple[pathlib.Path, dict[str, Any], dict[str, Any]]:
  """Reads the config and environment of a run, which may be unfinished, from its workdir.

  Returns:
    The absolute path of the workdir, its config, and its environment (versions, devices, command).

  Raises:
    InputError: the folder is not a workdir; the message names workdirs directly inside it.
  """
  path = expanded(directory).absolute()
  if not path.is_dir():
    raise InputError(f'{path} is no folder; give the workdir of a run.')
  config_file, environment_file = path / workdir.CONFIG, path / workdir.ENVIRONMENT
  if config_file.is_file() and environment_file.is_file():
    config = without_inherited(json_files.read(config_file, advice=workdir.REWRITTEN))
    return path, config, json_files.read(environment_file, {'command': str}, _AGAIN)
  inside = sorted(file.parent.name for file in path.glob(f'*/{workdir.CONFIG}'))
  hint = f'; workdirs inside it: {", ".join(inside)}' if inside else ''
  problem = f'{path} is no workdir: it has no {workdir.CONFIG} and {workdir.ENVIRONMENT}'
  raise InputError(f'{problem}, which every run writes{hint}.')


def refuse_unfinished(path: pathlib.Path, folders: Sequence[pathlib.Path], command: str) -> None:
  """Raises InputError if results of a run are missing.

  The message names the missing results, the progress of training and evaluation, and the command
  that resumes the run.

  Args:
    path: the workdir.
    folders: all folders that must have results: the workdir, and folders of tasks (the studies of a
      run) and seeds.
    command: the command that resumes the run.
  """
  files = [folder / JSON_NAME for folder in dict.fromkeys(folders)]
  missing = [str(file.relative_to(path)) for file in files if not file.is_file()]
  if not missing:
    return
  lines = [*training_lines(path), *record_lines(path)]
  progress = '\n  '.join(lines) or 'nothing was trained or recorded to its end'
  problem = f'the run in {path} is not finished: it has no {", ".join(missing)}'
  raise InputError(f'{problem}.\n  {progress}\nThe same command resumes it:\n  {command}')


def training_lines(path: pathlib.Path) -> Iterator[str]:
  """Yields a line on the progress of each training in a workdir.

  For instance 'checkpoints/base: trained' or 'checkpoints/aug: step 100 of 500 is saved'.
  """
  from robustness.training.checkpoint import FACTS_NAME, newest_step  # imports Orbax

  for facts in sorted(path.glob(f'**/checkpoints/*/{FACTS_NAME}')):
    form = {'training': {'total_steps': int}}
    total = json_files.read(facts, form, workdir.REWRITTEN)['training']['total_steps']
    step = newest_step(facts.parent) or 0
    name = facts.parent.relative_to(path)
    yield f'{name}: trained' if step >= total else f'{name}: step {step} of {total} is saved'


def record_lines(path: pathlib.Path) -> Iterator[str]:
  """Yields a line on the completeness of each classifier's records in a workdir.

  For instance 'records/base: complete' or 'records/aug: 3 of 12 shards are missing'.
  """
  for header in sorted(path.glob(f'**/{workdir.RECORDS}/**/{HEADER}')):
    records = Records.open(header.parent)
    total = records.layout.num_blocks * records.layout.num_chunks
    missing = sum(map(len, records.missing().values()))
    name = header.parent.relative_to(path)
    yield f'{name}: {missing} of {total} shards are missing' if missing else f'{name}: complete'


@dataclasses.dataclass(frozen=True)
class WorkdirPredictions:
  """Settings for computing scores, such as calibration, from the records of a finished run.

  These are the top-level keys of the config, such as `config.predictions`.

  Attributes:
    predictions: the workdir of the finished run.
    task: one study of the workdir, if it holds several (a battery); '' for a single study.
    seed: the seed of bootstrap resampling.
  """

  predictions: str = ''
  task: str = ''
  seed: int = 0

  def __post_init__(self) -> None:
    """Raises InputError if `predictions` is empty or `seed` is out of range."""
    valid = 'the workdir of a finished run'
    require(bool(self.predictions), 'config.predictions', self.predictions, valid)
    require(0 <= self.seed < 2**32, 'config.seed', self.seed, 'in [0, 2**32)')

  def scored(
    self, reduce: Callable[[Sequence[Evaluation], ViewTable, int], Findings], described: Section
  ) -> Scored:
    """Computes estimates from the records of a finished run.

    Args:
      reduce: called with the records of each classifier (a row per image), the table of views
        (perturbations of each image) and the seed; returns the estimates.
      described: settings of `reduce` as plain values, to be stored with the results.

    Raises:
      InputError: the workdir's study measures images only, or its classes are unknown.
    """
    task = read_task(self.predictions, self.task)
    if not task.study.needs_classifier:
      raise InputError(
        f'config.predictions is {self.predictions}, whose study {task.study.name} measures images '
        'alone: give the workdir of a study of classifiers.'
      )
    evaluations = []
    for evaluation in task.evaluations:
      refuse_unknown_classes(evaluation.records.identity['data'], 'what reads config.predictions')
      records, views = task.study.by_image(evaluation.records, task.image_shape)
      evaluations.append(dataclasses.replace(evaluation, records=records))
    settings = {**described, **dataclasses.asdict(self), 'of': task.study.describe()}
    # all classifiers have the same `views`; here they come from the last one
    return Scored(task.evaluations, reduce(evaluations, views, self.seed), settings)
