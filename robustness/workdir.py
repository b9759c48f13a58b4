"""Starts, resumes and reads workdirs, the folders of runs.

* config.json, environment.json: the config of the run, and the machine and versions it ran on
* records/CLASSIFIER/: the records of a classifier; in a battery records/STUDY-DIGEST/CLASSIFIER/
* checkpoints/CLASSIFIER/: the checkpoints of a training
* results.json, results.csv, results.npz, figures/, report.html: the results
* tasks/TASK/: the results of a task of a battery
* seed<n>/: in a run with several seeds, the records, checkpoints, results and tasks of each seed
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import jax

from robustness import __version__
from robustness.core import disk, json_files
from robustness.core.atomic_files import lock, write_atomically
from robustness.core.errors import WORKDIR, InputError, nearest
from robustness.core.paths import expanded
from robustness.core.rows import refuse_unknown_classes
from robustness.core.settings import Section, check_name, differing_keys, require, without_inherited
from robustness.core.typing import Facts
from robustness.evaluation import recorded_study
from robustness.evaluation import study as studies
from robustness.evaluation.recorded_study import RecordedStudy
from robustness.evaluation.records import HEADER, Records
from robustness.evaluation.rounds import FIRST, SequentialRecords
from robustness.evaluation.study import IMAGES, Evaluation, Scored, Study, of_recorded
from robustness.evaluation.views import ViewTable
from robustness.present import summary
from robustness.present.publish import Presentation
from robustness.results import JSON_NAME, SEED, SINGLE, Findings, Results, summary_name

CONFIG, ENVIRONMENT, LOCK = 'config.json', 'environment.json', '.lock'
"""Names of files in a workdir."""
RECORDS, TASKS = 'records', 'tasks'
"""Names of folders in a workdir."""
LEFT_OUT = 'left out'
"""Name of a battery's table of the classifiers that a task could not measure, with the reason."""
SHARD_FILES = f'{RECORDS}/**/*.npz'
CHECKPOINT_FILES = 'checkpoints/*/checkpoints/*'
RESULT_FILES = (JSON_NAME, SHARD_FILES)
"""Files that fix the config of a workdir: once they exist, a run with another config is refused.

Checkpoints fix only `TRAINING_KEYS` and the recipes of the classifiers that they belong to.
"""
TRAINING_KEYS = frozenset({'data', 'precision', 'seed', 'seeds', 'training'})
"""Keys of a config that every training depends on."""
KEYS_WITHOUT_EFFECT = ('parallel', 'battery.tasks', 'battery.summary')
"""Keys of a config that change no number; a run may be resumed with other values."""
PACKAGES = (
  *('jax', 'jaxlib', 'flax', 'optax', 'orbax-checkpoint', 'numpy', 'scipy', 'tensorflow-cpu'),
  *('tensorflow', 'tensorflow-datasets', 'ml_collections', 'tensorboard', 'clu'),
  *('matplotlib', 'mlxtend'),
)
"""Packages with versions that may change numbers."""
_AGAIN = 'Give the command of the run again.'
_REWRITTEN = 'Delete it: the command of the run writes it again.'
_FINISH = 'Run its command again to resume it.'


def seed_folder(seed: int | str) -> str:
  """Returns the name of the folder in a workdir for the run of one of several seeds."""
  return f'seed{seed}'


def task_folder(folder: pathlib.Path, task: str) -> pathlib.Path:
  """Returns the folder of a task's results in a workdir or the folder of a seed.

  For the task `SINGLE` it is `folder` itself.
  """
  return folder if task == SINGLE else folder / TASKS / task


def prepare(directory: str | os.PathLike[str], config: Section) -> pathlib.Path:
  """Creates a workdir or resumes one with the same config, writes the config, and returns the path.

  The path is absolute.

  Args:
    directory: the workdir.
    config: the config of the run, nested plain values.

  Raises:
    InputError: the workdir belongs to another config, or cannot be created or written to.
  """
  path = continued(directory, config)
  write_config(path, config)
  return path


def write_config(path: pathlib.Path, config: Section) -> None:
  """Writes a run's config into its workdir, which exists."""
  with _writable(path):
    write_json(path / CONFIG, config)


def continued(directory: str | os.PathLike[str], config: Section) -> pathlib.Path:
  """Creates a workdir, or checks that an existing one has the same config, and returns its path.

  The path is absolute. No file is written.

  Args:
    directory: the workdir.
    config: the config of the run, nested plain values.

  Raises:
    InputError: the workdir belongs to another config (the message names the keys that differ) or
      cannot be created.
  """
  path = _created_folder(directory)
  # Through JSON, because the config in the file has lists in place of tuples.
  _refuse_other_config(path / CONFIG, json.loads(json.dumps(config)))
  return path


@contextlib.contextmanager
def locked(directory: str | os.PathLike[str]) -> Iterator[None]:
  """A context in which no other run can work in a workdir, which is created if it does not exist.

  The first process of a run holds the lock for all its processes.

  Raises:
    InputError: another run holds the lock, or the workdir cannot be created or written to.
  """
  path = _created_folder(directory)
  if jax.process_index():
    yield
    return
  with _writable(path):
    file = open(path / LOCK, 'a+', encoding='utf-8')  # noqa: SIM115 (closed below)
  with file:
    if not lock(file.fileno()):
      file.seek(0)
      holder = file.read(200).strip()
      raise InputError(
        f'another run works in the workdir {path}{f" ({holder})" if holder else ""}: let it end, '
        f'or give another {WORKDIR:--}.'
      )
    file.truncate(0)
    file.write(f'process {os.getpid()} on {platform.node()}\n')
    file.flush()
    yield


def _created_folder(directory: str | os.PathLike[str]) -> pathlib.Path:
  """Creates a folder unless it exists, and returns its absolute path.

  Raises:
    InputError: `directory` is '' or cannot be created.
  """
  if not os.fspath(directory):
    # `:--` writes the name as it is called here: the flag --workdir, or an argument in Python.
    raise InputError(f"{WORKDIR:--} is ''; give the folder for everything that the run leaves.")
  path = expanded(directory).absolute()
  try:
    path.mkdir(parents=True, exist_ok=True)
  except OSError as error:
    raise InputError(f'workdir {path} cannot be made ({error.strerror}).') from error
  return path


@contextlib.contextmanager
def _writable(path: pathlib.Path) -> Iterator[None]:
  """A context in which an error of writing to a workdir becomes an InputError."""
  try:
    yield
  except OSError as error:
    if error.errno not in disk.NOT_WRITABLE:
      raise
    raise InputError(
      f'workdir {path} cannot be written to ({error.strerror}); give another {WORKDIR:--}.'
    ) from error


def refuse_results(out: pathlib.Path) -> None:
  """Raises InputError if an --out is a workdir or inside one, because results would be
  overwritten.
  """
  path = out.resolve()
  workdirs = [f for f in path.parents if (f / CONFIG).is_file() and (f / ENVIRONMENT).is_file()]
  if (path / CONFIG).exists():  # without an environment it may be a run that was just begun
    workdirs = [path]
  if workdirs:
    raise InputError(f'--out is {out}, and {workdirs[0]} is a workdir: give a folder of its own.')


def _refuse_other_config(path: pathlib.Path, config: Section) -> None:
  """Raises InputError if a workdir holds results or checkpoints of another config.

  If there are results, all keys that decide records must be equal and the classifiers the same; a
  battery may have more or fewer tasks. If there are only checkpoints, the keys of trainings that
  both configs have must be equal.

  Args:
    path: `config.json` in the workdir, which may not exist.
    config: the config of this run.
  """
  has_results = _has_files(path.parent, RESULT_FILES)
  has_checkpoints = _has_files(path.parent, [CHECKPOINT_FILES])
  if not path.exists() or not (has_results or has_checkpoints):
    return
  form: json_files.Form = {'battery?': dict, 'classifiers?': dict}
  recorded = json_files.read(path, form, _REWRITTEN)
  old = _keys_of_records(recorded)
  new = _keys_of_records(_with_equal_studies_of(recorded, config))
  compared_keys = old.keys() | new.keys()
  if not has_results:  # only the keys of trainings; a checkpoint itself checks its other settings
    compared_keys = {k for k in compared_keys if k in TRAINING_KEYS or 'classifier' in k}
  # Classifiers and tasks that only one of the two configs has.
  unmatched = {k for k in old.keys() ^ new.keys() if k.startswith(('classifier', 'battery.'))}
  compared_keys -= unmatched
  # What differs, as 'key: old value → new value'.
  lines = differing_keys(
    {k: v for k, v in old.items() if k in compared_keys},
    {k: v for k, v in new.items() if k in compared_keys},
  )
  if has_results:
    classifiers = sorted(key for key in unmatched if key.startswith('classifier'))
    lines += [f'{key}: {"left out" if key in old else "a new classifier"}' for key in classifiers]
  if not lines:
    return
  separator = '\n  config.' if f'{WORKDIR:--}' == '--workdir' else '\n  '
  hint = ''
  if has_checkpoints:
    option = f'--config.classifiers.LABEL.weights={path.parent}/checkpoints/LABEL'
    hint = f' Networks trained in it can be used elsewhere: {option}'
  raise InputError(
    f'workdir {path.parent} holds a run of another config. Keys that differ (there → now):'
    f'{separator}{separator.join(lines)}\n'
    f'Use another {WORKDIR:--}, or the values it was begun with.{hint}'
  )


def _has_files(directory: pathlib.Path, patterns: Sequence[str]) -> bool:
  """Returns whether a workdir, or the folder of a seed in it, has a file that matches a glob
  pattern.
  """
  for folder in (directory, *directory.glob(seed_folder('*'))):
    for pattern in patterns:
      # Orbax has '-tmp' in the name of a checkpoint that is incomplete.
      if any('-tmp' not in file.name for file in folder.glob(pattern)):
        return True
  return False


def finished_files(directory: pathlib.Path) -> frozenset[tuple[str, int]]:
  """Returns {(path, time of modification in ns)} of the shards and checkpoints of a workdir."""
  patterns = f'**/{SHARD_FILES}', f'**/{CHECKPOINT_FILES}'
  files = (file for pattern in patterns for file in directory.glob(pattern))
  return frozenset((str(file), file.stat().st_mtime_ns) for file in files)


def _with_equal_studies_of(before: Section, config: Section) -> dict[str, Any]:
  """Returns `config` with each section `study` replaced by that of `before` if both record the
  same.

  A setting of how estimates are computed from records may change without new records. After the
  replacement the sections `study` differ only if their records do.

  Args:
    before: the config of an earlier run, or a section of it.
    config: the new config, or its section of the same name.
  """
  merged = dict(config)
  for name, section in config.items():
    earlier = before.get(name)
    if not isinstance(section, Mapping) or not isinstance(earlier, Mapping):
      continue
    if name != 'study':
      merged[name] = _with_equal_studies_of(earlier, section)
    elif section.get('name') == earlier.get('name') and _recording(section) == _recording(earlier):
      merged[name] = earlier
  return merged


def _recording(study: Section) -> Facts:
  """Returns the values of a config's section `study` that decide what is recorded.

  A section that is not valid is returned unchanged.
  """
  try:
    return studies.from_config(study).recording
  except InputError:
    return study


def _keys_of_records(config: Section) -> dict[str, Any]:
  """Returns the keys of a config that decide its records, {key: value}.

  Each classifier of `classifiers` and each task of a battery is one key, such as `battery.fog`.
  """
  from robustness.config.recorded import recorded  # imports networks, which studies do not need

  values = recorded(config)  # without settings that this run does not use
  for section in ('classifiers', 'battery'):
    members = values.pop(section, {})
    values |= {f'{section}.{name}': member for name, member in members.items()}
  return {k: v for k, v in values.items() if k not in KEYS_WITHOUT_EFFECT}


def code() -> dict[str, str]:
  """Returns the version and the git commit of this code."""
  return {'robustness': __version__, 'git_commit': _git_commit()}


def environment(command: str, seed: int | None = None) -> dict[str, Any]:
  """Returns the contents of environment.json: versions, devices, git commit, command and seed.

  `command` is the command that was run; None as `seed` leaves the seed out.
  """
  return {
    'command': command,
    'started': datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds'),
    **({} if seed is None else {'seed': seed}),
    **code(),
    'python': platform.python_version(),
    'system': platform.platform(),
    'backend': jax.default_backend(),
    'processes': jax.process_count(),
    'devices': [f'{d.platform} {d.device_kind}' for d in jax.devices()],
    'versions': versions(),
  }


@dataclasses.dataclass(frozen=True)
class RunLog:
  """The contents of `config.json` and `environment.json` of a workdir.

  Attributes:
    path: the workdir.
    config: the config of the run, nested plain values.
    environment: environment of this run: versions, devices, command and so on.
    finished_environment: environment of an earlier, finished run in the workdir; {} if there is
      none. It stays in environment.json unless this run makes a shard or checkpoint.
    files_before: shards and checkpoints of that run, see `finished_files`.
  """

  path: pathlib.Path
  config: Section
  environment: dict[str, Any]
  finished_environment: dict[str, Any]
  files_before: frozenset[tuple[str, int]]

  @classmethod
  def begin(
    cls, directory: str | os.PathLike[str], config: Section, seed: int, command: str
  ) -> Self:
    """Creates a workdir, or resumes one with a run of the same config; writes no file yet.

    Args:
      directory: the workdir.
      config: the config of the run, nested plain values.
      seed: seed of the run, for environment.json.
      command: the command as it was typed, for environment.json.

    Raises:
      InputError: the workdir belongs to another config or cannot be created.
    """
    path = continued(directory, config)
    current = environment(command, seed)
    finished: dict[str, Any] = {}
    file = path / ENVIRONMENT
    if file.is_file():
      current['resumed'] = True  # so that `seconds` are only those since the run was resumed
      if (path / JSON_NAME).is_file():  # the earlier run was finished
        with contextlib.suppress(InputError):  # a damaged file is replaced
          finished = json_files.read(file)
    return cls(path, config, current, finished, finished_files(path) if finished else frozenset())

  def write_config_and_environment(self) -> None:
    """Writes config.json and environment.json, after all checks of the run have passed.

    Until then the workdir keeps the files that describe its results. The environment of an earlier,
    finished run stays: this run may only read its records.
    """
    self.environment['versions'] = versions()  # a user's file may have imported PyTorch since
    file = self.path / CONFIG
    config_before = file.read_bytes() if file.is_file() else b''
    write_config(self.path, self.config)
    if self.finished_environment and config_before != file.read_bytes():
      # The command in the environment is the one that makes the config that is now in the workdir.
      self.finished_environment['command'] = self.environment['command']
    if jax.process_index() == 0 and not self.finished_environment:
      write_json(self.path / ENVIRONMENT, self.environment)

  def current_environment(self) -> dict[str, Any]:
    """Returns the environment in which the results were computed, with the seconds until now.

    This is the environment of an earlier, finished run if this run has made no shard or checkpoint
    since. It then has the key `reduced_by` with the versions of this run, if they differ, because
    this run has computed results from the earlier records.
    """
    has_new_files = finished_files(self.path) != self.files_before
    if has_new_files or not self.finished_environment:
      started = datetime.datetime.fromisoformat(self.environment['started'])
      seconds = (datetime.datetime.now(datetime.UTC) - started).total_seconds()
      return {**self.environment, 'seconds': round(seconds)}
    version_keys = ('robustness', 'git_commit', 'python', 'versions')
    versions_now = {k: self.environment[k] for k in version_keys}
    if all(self.finished_environment.get(k) == v for k, v in versions_now.items()):
      return dict(self.finished_environment)
    return {**self.finished_environment, 'reduced_by': versions_now}


def write_json(path: pathlib.Path, values: Section) -> None:
  """Writes plain values as indented JSON, atomically."""
  write_atomically(path, (json.dumps(values, indent=2) + '\n').encode())


def versions() -> dict[str, str]:
  """Returns {package: version} of the installed packages that may change computed numbers.

  PyTorch is included only if it has been imported.
  """
  installed = {}
  for package in (*PACKAGES, *({'torch'} & sys.modules.keys())):
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
      installed[package] = importlib.metadata.version(package)
  return installed


def _git_commit() -> str:
  """Returns the commit of the git checkout that holds this file, or why it is unknown."""
  file = pathlib.Path(__file__)

  def output_of_git(*words: str) -> str:
    """Returns the output of a git command in the folder of this file."""
    return subprocess.run(
      ['git', *words], cwd=file.parent, capture_output=True, text=True, check=False
    ).stdout.strip()

  try:
    # The package may be installed in a folder that another repository ignores.
    is_tracked = bool(output_of_git('ls-files', file.name))
    commit = output_of_git('rev-parse', 'HEAD') if is_tracked else ''
  except OSError:
    return 'unknown: git is not installed'
  return commit or 'unknown: not a git checkout'


@dataclasses.dataclass(frozen=True)
class FinishedStudy:
  """A study of a finished workdir.

  Attributes:
    folder: the folder of its results.
    study: the study with its settings.
    results: its results.
    evaluations: the records of each classifier, or of the images for a study of images alone.
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
  """Returns the studies of a workdir, or of its folder `seed<n>`, by task of the battery.

  The task of a single study is `SINGLE`. No Python file that the workdir names is run.

  Args:
    directory: the workdir.
    study_file: the user's FILE.py:NAME for the study NAME; '' for none.

  Raises:
    InputError: the folder is no workdir, is not finished, holds runs of more than one seed, or
      holds results of predictions that were read from a file.
  """
  path = expanded(directory)
  file = path / CONFIG
  if path.name.startswith('seed') and not file.exists():  # the config is in the workdir
    file = path.parent / CONFIG
  if not file.exists():
    raise InputError(
      f'{path} is no workdir: it has no {CONFIG}. Give the workdir of a finished run.'
    )
  config = without_inherited(json_files.read(file, advice=_REWRITTEN))
  if 'predictions' in config:
    raise InputError(
      f'{path} holds numbers of predictions that were made elsewhere, and no run of a study: give '
      'the workdir of a run with classifiers.'
    )
  seeds = sorted(folder.name for folder in path.glob(seed_folder('*')) if folder.is_dir())
  if config.get('seeds') and seeds:
    raise InputError(
      f'{path} holds a run of each of several seeds: give one of them, such as {path / seeds[0]}.'
    )
  sections = study_sections(config, path)
  tasks_without_results = left_out(path) if SINGLE not in sections else ()
  return {
    task: _finished_study(path, task, section, study_file)
    for task, section in sections.items()
    if task not in tasks_without_results
  }


def study_sections(config: Section, path: pathlib.Path) -> dict[str, Section]:
  """Returns {task: section `study`} of a workdir's config; a single study has the task `SINGLE`.

  Args:
    config: the config.
    path: the workdir, for messages.

  Raises:
    InputError: the name of a task cannot name a folder.
  """
  file = str(path / CONFIG)
  if 'battery' not in config:
    json_files.check(config, file, {'study?': dict}, _REWRITTEN)
    return {SINGLE: config.get('study', {})}
  advice = 'A run of an earlier version: run its command again in another --workdir.'
  json_files.check(config, file, {'battery': {'tasks': [str]}}, advice)
  battery = config['battery']
  for name in battery['tasks']:
    check_name(f'{file}, battery.tasks', name)
  json_files.check(
    battery, f'{file}, battery', {name: {'study': dict} for name in battery['tasks']}
  )
  return {name: battery[name]['study'] for name in battery['tasks']}


def presented(
  path: pathlib.Path, results: Results, config: Section, study_file: str = ''
) -> tuple[dict[str, Study], Presentation]:
  """Returns {task: study} of results, and the presentation that draws and reports them.

  Args:
    path: the workdir.
    results: results of the workdir, or of one of its seeds, which may lack tasks.
    config: the config of the workdir.
    study_file: the user's FILE.py:NAME for the study NAME; '' for none.
  """
  sections, tasks = study_sections(config, path), results.by_task
  studies_by_task = {
    task: recorded_study.of_results(section, tasks[task].study, tasks[task].settings, study_file)
    for task, section in sections.items()
    if task in tasks
  }
  summary_of_tasks = summary_name(config.get('battery', {}).get('summary', ''))
  has_seeds = SEED in results.table.columns
  return studies_by_task, summary.of_run(summary_of_tasks, studies_by_task, has_seeds)


def seeds_of(config: Section, path: pathlib.Path) -> list[int]:
  """Returns the seeds of a workdir's config; [] if each classifier is trained once.

  Raises:
    InputError: `seeds` are not whole numbers.
  """
  json_files.check(config, f'{path / CONFIG}', {'seeds?': [int]}, _REWRITTEN)
  return list(config.get('seeds', ()))


def read_task(directory: str | os.PathLike[str], name: str) -> FinishedStudy:
  """Returns the study of one task of a workdir.

  Args:
    directory: the workdir, or its folder WORKDIR/tasks/NAME, which stands for the task NAME.
    name: name of the task; '' for the task of the folder, or for a workdir with a single study.

  Raises:
    InputError: the workdir has no such task, or several and `name` is ''; see also `read`.
  """
  folder = expanded(directory).resolve()
  if not name and folder.parent.name == TASKS:
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
      f'(see its table {LEFT_OUT!r}); it has those of {", ".join(tasks)}.'
    )
  raise InputError(f'{directory} has no task {name!r}; {nearest(name, tasks)}.')


def left_out(folder: pathlib.Path) -> set[str]:
  """Returns the tasks of a finished battery or seed that could measure none of its classifiers."""
  if not (folder / JSON_NAME).is_file():
    return set()
  table = Results.read(folder).tables.get(LEFT_OUT)
  # The first column names the task, and each row a classifier that it left out.
  tasks = {str(row[0]) for row in table.rows if row} if table else set()
  return {name for name in tasks if not (task_folder(folder, name) / JSON_NAME).is_file()}


def _finished_study(
  path: pathlib.Path, task: str, section: Section, study_file: str
) -> FinishedStudy:
  """Returns the study of a task with its results and records.

  Args:
    path: the workdir, or its folder of a seed.
    task: name of the task.
    section: the section `study` of the task's config.
    study_file: the user's FILE.py:NAME for the study NAME; '' for none.

  Raises:
    InputError: results or shards are missing.
  """
  folder = task_folder(path, task)
  if not (folder / JSON_NAME).is_file():
    raise InputError(f'{path} is not finished: {folder} has no {JSON_NAME}. {_FINISH}')
  results = Results.read(folder)
  study = recorded_study.of_results(section, results.study, results.settings, study_file)
  records_folder = path / RECORDS if task == SINGLE else _records_folder(path, study, results)
  design = study.sequential_design
  labels = results.classifier_labels if study.needs_classifier else [IMAGES]
  folders = [records_folder / label for label in labels]
  evaluations = of_recorded(
    {f.name: SequentialRecords.open(f, design) if design else Records.open(f) for f in folders}
  )
  if any(evaluation.records.missing() for evaluation in evaluations):
    raise InputError(f'{path} is not finished: {records_folder} lacks shards. {_FINISH}')
  if isinstance(study, RecordedStudy):  # a user's study, whose views only the records tell
    records = evaluations[0].records
    study = study.of_records(records.identity, records.layout.num_views)
  return FinishedStudy(folder, study, results, evaluations)


def _records_folder(path: pathlib.Path, study: Study, results: Results) -> pathlib.Path:
  """Returns the folder `records/STUDY-DIGEST` that has the records of a task of a battery.

  The records must be of the same study, and describe their data with the same values as the task's
  results. Either description of the data may have keys that the other lacks. If several folders
  match, the one with the fewest keys that only one description has is returned.

  Args:
    path: the workdir, or its folder of a seed.
    study: the study of the task.
    results: the results of the task.

  Raises:
    InputError: no folder matches.
  """
  expected_study = json.loads(json.dumps(study.recording))  # lists for tuples, as in a header
  folder_by_num_unshared: dict[int, pathlib.Path] = {}
  # records/STUDY-DIGEST/CLASSIFIER/header, or one folder deeper in a sequential design
  pattern = f'*/*/{FIRST}/{HEADER}' if study.sequential_design else f'*/*/{HEADER}'
  for header in sorted((path / RECORDS).glob(pattern)):
    identity = Records.open(header.parent).identity
    json_files.check(identity, f'{header}, identity', {'data': dict, 'study': dict})
    recorded = recorded_study.with_keys_of_today(type(study), identity['study'])
    is_same_study = recorded == expected_study or (
      isinstance(study, RecordedStudy) and study.is_recorded_as(recorded)
    )
    described, recorded_data = results.data, identity['data']
    shared_keys = described.keys() & recorded_data.keys()
    if is_same_study and all(described[key] == recorded_data[key] for key in shared_keys):
      study_folder = header.relative_to(path / RECORDS).parts[0]
      num_unshared = len(described.keys() ^ recorded_data.keys())
      folder_by_num_unshared.setdefault(num_unshared, path / RECORDS / study_folder)
  if not folder_by_num_unshared:
    raise InputError(f'{path} has no records of the task with the study {study.name}. {_FINISH}')
  return folder_by_num_unshared[min(folder_by_num_unshared)]


def find(directory: str) -> tuple[pathlib.Path, dict[str, Any], dict[str, Any]]:
  """Returns the absolute path of a workdir, finished or not, its config and its environment.

  Raises:
    InputError: the folder is no workdir; the message names the workdirs directly inside it.
  """
  path = expanded(directory).absolute()
  if not path.is_dir():
    raise InputError(f'{path} is no folder; give the workdir of a run.')
  if (path / CONFIG).is_file() and (path / ENVIRONMENT).is_file():
    config = without_inherited(json_files.read(path / CONFIG, advice=_REWRITTEN))
    return path, config, json_files.read(path / ENVIRONMENT, {'command': str}, _AGAIN)
  inside = sorted(file.parent.name for file in path.glob(f'*/{CONFIG}'))
  hint = f'; workdirs inside it: {", ".join(inside)}' if inside else ''
  raise InputError(
    f'{path} is no workdir: it has no {CONFIG} and {ENVIRONMENT}, which every run writes{hint}.'
  )


def refuse_unfinished(path: pathlib.Path, folders: Sequence[pathlib.Path], command: str) -> None:
  """Raises InputError if one of `folders` of a run has no results.

  The message names the missing results, the progress of trainings and records, and the command that
  finishes the run.

  Args:
    path: the workdir.
    folders: the folders that must have results: the workdir, or also those of tasks and seeds.
    command: the command that resumes the run.
  """
  files = [folder / JSON_NAME for folder in dict.fromkeys(folders)]
  missing = [str(file.relative_to(path)) for file in files if not file.is_file()]
  if not missing:
    return
  lines = [*trainings(path), *shards(path)] or ['nothing was trained or recorded to its end']
  progress = '\n  '.join(lines)
  raise InputError(
    f'the run in {path} is not finished: it has no {", ".join(missing)}.\n  {progress}\n'
    f'The same command resumes it:\n  {command}'
  )


def trainings(path: pathlib.Path) -> Iterator[str]:
  """Yields a line for every training that was begun in a workdir.

  Two lines are 'checkpoints/base: trained' and 'checkpoints/aug: step 100 of 500 is saved'.
  """
  from robustness.training.checkpoint import FACTS_NAME, newest_step  # imports Orbax

  for facts in sorted(path.glob(f'**/checkpoints/*/{FACTS_NAME}')):
    form = {'training': {'total_steps': int}}
    total = json_files.read(facts, form, _REWRITTEN)['training']['total_steps']
    step = newest_step(facts.parent) or 0
    name = facts.parent.relative_to(path)
    yield f'{name}: trained' if step >= total else f'{name}: step {step} of {total} is saved'


def shards(path: pathlib.Path) -> Iterator[str]:
  """Yields a line for each set of records that was begun in a workdir.

  Two lines are 'records/base: complete' and 'records/aug: 3 of 12 shards are missing'.
  """
  for header in sorted(path.glob(f'**/{RECORDS}/**/{HEADER}')):
    records = Records.open(header.parent)
    total = records.layout.num_blocks * records.layout.num_chunks
    missing = sum(map(len, records.missing().values()))
    name = header.parent.relative_to(path)
    yield f'{name}: {missing} of {total} shards are missing' if missing else f'{name}: complete'


@dataclasses.dataclass(frozen=True)
class WorkdirPredictions:
  """The top level of a config that scores the records of a finished workdir.

  Attributes:
    predictions: the workdir.
    task: a task of its battery; '' for a single study.
    seed: the seed of resampling.
  """

  predictions: str = ''
  task: str = ''
  seed: int = 0

  def __post_init__(self) -> None:
    """Raises InputError if there is no workdir or the seed is out of range."""
    valid = 'the workdir of a finished run'
    require(bool(self.predictions), 'config.predictions', self.predictions, valid)
    require(0 <= self.seed < 2**32, 'config.seed', self.seed, 'in [0, 2**32)')

  def scored(
    self, reduce: Callable[[Sequence[Evaluation], ViewTable, int], Findings], described: Section
  ) -> Scored:
    """Returns the records of the workdir's classifiers, with the findings computed by `reduce`.

    Args:
      reduce: returns the estimates; its arguments are the records of each classifier with a row per
        image, the table of their views, and the seed.
      described: the settings of `reduce` as plain values.

    Raises:
      InputError: the workdir's study measures images alone, or its classes are unknown.
    """
    task = read_task(self.predictions, self.task)
    if not task.study.needs_classifier:
      raise InputError(
        f'config.predictions is {self.predictions}, whose study {task.study.name} measures images '
        'alone: give the workdir of a study of classifiers.'
      )
    for evaluation in task.evaluations:
      refuse_unknown_classes(evaluation.records.identity['data'], 'what reads config.predictions')
    by_image = [task.study.by_image(e.records, task.image_shape) for e in task.evaluations]
    evaluations = [
      dataclasses.replace(evaluation, records=records)
      for evaluation, (records, _) in zip(task.evaluations, by_image, strict=True)
    ]
    _, views = by_image[0]  # all classifiers have the same views
    settings = {**described, **dataclasses.asdict(self), 'of': task.study.describe()}
    return Scored(task.evaluations, reduce(evaluations, views, self.seed), settings)
