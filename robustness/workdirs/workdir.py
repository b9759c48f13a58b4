"""Starts, resumes, locks and describes workdirs, the folders of runs, while a run writes them.

* config.json, environment.json: the config of the run, and the machine and versions it ran on
* records/CLASSIFIER/: the records of a classifier; in a battery records/STUDY-DIGEST/CLASSIFIER/
* checkpoints/CLASSIFIER/: the checkpoints of a training
* results.json, results.csv, results.npz, figures/, report.html: the results
* tasks/TASK/: the results of a task of a battery
* seed<n>/: in a run with several seeds, the records, checkpoints, results and tasks of each seed
"""

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
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import jax

from robustness import __version__
from robustness.core import disk, json_files
from robustness.core.atomic_files import lock, write_atomically
from robustness.core.errors import WORKDIR, InputError, for_caller
from robustness.core.paths import expanded
from robustness.core.settings import Section, differing_keys
from robustness.core.typing import Facts
from robustness.evaluation import study as studies
from robustness.evaluation.recorded_study import without_facts
from robustness.results import JSON_NAME, SINGLE

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
REWRITTEN = 'Delete it: the command of the run writes it again.'
"""Advice in errors about a damaged file."""


def seed_folder(seed: int | str) -> str:
  """Returns the folder name of a training seed, such as 'seed3'; '*' returns a glob pattern."""
  return f'seed{seed}'


def task_folder(folder: pathlib.Path, task: str) -> pathlib.Path:
  """Returns the folder that holds the results of one task (a study of a battery).

  Args:
    folder: the workdir, or the folder of a seed.
    task: name of the task; `SINGLE` returns `folder`.
  """
  return folder if task == SINGLE else folder / TASKS / task


def write_config(path: pathlib.Path, config: Section) -> None:
  """Writes the config of a run to its workdir, which must exist."""
  with _writable(path):
    write_json(path / CONFIG, config)


def open_or_create(directory: str | os.PathLike[str], config: Section) -> pathlib.Path:
  """Creates a workdir, or checks that an existing one belongs to the same config.

  Args:
    directory: the workdir.
    config: the config of the run, nested plain values.

  Returns:
    The absolute path of the workdir.

  Raises:
    InputError: the workdir cannot be created or belongs to another config; the message names the
      keys that differ.
  """
  path = _created_folder(directory)
  # Through JSON, because the config in the file has lists in place of tuples.
  _refuse_other_config(path / CONFIG, json.loads(json.dumps(config)))
  return path


@contextlib.contextmanager
def locked(directory: str | os.PathLike[str]) -> Iterator[None]:
  """A context manager that creates a workdir if needed and locks it against other runs.

  Only the first JAX process of a run takes the lock.

  Raises:
    InputError: another run holds the lock, or the workdir cannot be created or written to.
  """
  path = _created_folder(directory)
  with contextlib.nullcontext() if jax.process_index() else held(path):
    yield


@contextlib.contextmanager
def held(path: pathlib.Path) -> Iterator[None]:
  """A context manager that locks an existing workdir against other processes.

  Unlike `locked`, it does not start JAX, which would occupy the accelerator.

  Raises:
    InputError: another process holds the lock, or the workdir cannot be written to.
  """
  with _writable(path):
    file = open(path / LOCK, 'a+', encoding='utf-8')  # noqa: SIM115 (closed below)
  with file:
    if not lock(file.fileno()):
      file.seek(0)
      holder = file.read(200).strip()
      problem = f'another run works in the workdir {path}{f" ({holder})" if holder else ""}'
      raise InputError(f'{problem}: let it end, or give another workdir.')
    file.truncate(0)
    file.write(f'process {os.getpid()} on {platform.node()}\n')
    file.flush()
    yield


def _created_folder(directory: str | os.PathLike[str]) -> pathlib.Path:
  """Creates a folder if it does not exist, and returns its absolute path.

  Raises:
    InputError: `directory` is '' or cannot be created.
  """
  if directory == '':
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
  """A context manager that turns errors of writing to the workdir `path` into InputErrors."""
  try:
    yield
  except OSError as error:
    if error.errno not in disk.NOT_WRITABLE:
      raise
    problem = f'workdir {path} cannot be written to ({error.strerror})'
    raise InputError(f'{problem}: give another workdir, or change its permissions.') from error


def refuse_results(out: pathlib.Path) -> None:
  """Raises InputError if the folder given as --out is a workdir or inside one.

  Writing there would overwrite the results of the workdir.
  """
  path = out.resolve()
  workdirs = [f for f in path.parents if (f / CONFIG).is_file() and (f / ENVIRONMENT).is_file()]
  if (path / CONFIG).exists():  # without an environment it may be a run that was just begun
    workdirs = [path]
  if workdirs:
    raise InputError(f'--out is {out}, and {workdirs[0]} is a workdir: give a folder of its own.')


def _refuse_other_config(path: pathlib.Path, config: Section) -> None:
  """Raises InputError if a workdir holds results or checkpoints of another config.

  `_refused_differences` decides which keys may differ.

  Args:
    path: `config.json` in the workdir, which may not exist.
    config: the config of this run.
  """
  has_results = _has_files(path.parent, RESULT_FILES)
  has_checkpoints = _has_files(path.parent, [CHECKPOINT_FILES])
  if not path.exists() or not (has_results or has_checkpoints):
    return
  form: json_files.Form = {'battery?': dict, 'classifiers?': dict}
  recorded = json_files.read(path, form, REWRITTEN)
  old = _keys_of_records(recorded)
  new = _keys_of_records(_with_studies_of_equal_records(recorded, config))
  lines = _refused_differences(old, new, has_results)
  if not lines:
    return
  separator = for_caller('\n  config.', python='\n  ')
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
  """Returns whether a workdir, or one of its seed folders, has files that match glob patterns.

  Incomplete checkpoints do not count.

  Args:
    directory: the workdir.
    patterns: glob patterns; a match of any pattern suffices.
  """
  for folder in (directory, *directory.glob(seed_folder('*'))):
    for pattern in patterns:
      # Orbax has '-tmp' in the name of a checkpoint that is incomplete.
      if any('-tmp' not in file.name for file in folder.glob(pattern)):
        return True
  return False


def _refused_differences(old: Facts, new: Facts, has_results: bool) -> list[str]:
  """Returns the differences between two configs that must not share a workdir.

  If the workdir holds results, the classifiers and the values of all keys must be equal; only tasks
  (the studies of a run) may be added or removed. If it holds only checkpoints, keys that affect
  training must be equal where both configs have them.

  Args:
    old: keys of the config in the workdir, from `_keys_of_records`.
    new: keys of the config of this run, from `_keys_of_records`.
    has_results: whether the workdir holds results; otherwise it holds only checkpoints.

  Returns:
    A line 'key: old value → new value' for each difference.
  """
  # Classifiers and tasks of only one of the two configs, such as 'classifiers.base', 'battery.fog'.
  unshared = old.keys() ^ new.keys()
  in_one_config = {key for key in unshared if key.startswith(('classifier', 'battery.'))}
  compared_keys = (old.keys() | new.keys()) - in_one_config
  if not has_results:  # a checkpoint itself checks the other settings of its training
    classifier_keys = {key for key in compared_keys if key.startswith('classifier')}
    compared_keys = classifier_keys | (compared_keys & TRAINING_KEYS)
  lines = []
  for key in sorted(compared_keys):
    lines += differing_keys(old.get(key), new.get(key), key)
  if has_results:
    classifiers = sorted(key for key in in_one_config if key.startswith('classifier'))
    lines += [f'{key}: {"left out" if key in old else "a new classifier"}' for key in classifiers]
  return lines


def finished_files(directory: pathlib.Path) -> frozenset[tuple[str, int]]:
  """Returns the shards and checkpoints in a workdir, as (path, modification time in ns)."""
  patterns = f'**/{SHARD_FILES}', f'**/{CHECKPOINT_FILES}'
  files = (file for pattern in patterns for file in directory.glob(pattern))
  return frozenset((str(file), file.stat().st_mtime_ns) for file in files)


def _with_studies_of_equal_records(before: Section, config: Section) -> dict[str, Any]:
  """Replaces study sections of a config by earlier ones that produce the same records.

  Used before two configs are compared. Study sections may differ in how estimates are computed from
  records, and such differences must not count.

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
      merged[name] = _with_studies_of_equal_records(earlier, section)
    elif _recording_settings(section) == _recording_settings(earlier):
      merged[name] = earlier
  return merged


def _recording_settings(study: Section) -> Facts:
  """Returns the study's name and the settings that affect its records, without settings of
  estimates.

  An invalid section is returned unchanged.

  Args:
    study: the section `study` of a config.
  """
  try:
    return {'name': study.get('name'), **studies.from_config(without_facts(study)).recording}
  except InputError:
    return study


def _keys_of_records(config: Section) -> dict[str, Any]:
  """Returns the keys of a config that affect records (saved outputs of classifiers).

  Each classifier and each study of a battery (a run of several studies) is one key, such as
  `classifiers.base` and `battery.fog`, with its section as the value.
  """
  from robustness.config.recorded import recorded  # imports networks, which studies do not need

  values = recorded(config)  # without settings that this run does not use
  for name in ('classifiers', 'battery'):
    for key, section in values.pop(name, {}).items():
      values[f'{name}.{key}'] = section
  return {key: value for key, value in values.items() if key not in KEYS_WITHOUT_EFFECT}


def code_version() -> dict[str, str]:
  """Returns the version and the git commit of this code."""
  return {'robustness': __version__, 'git_commit': _git_commit()}


def environment(command: str) -> dict[str, Any]:
  """Returns the contents of environment.json: versions, devices, git commit and command.

  Args:
    command: the command that was run.
  """
  return {
    'command': command,
    'started': datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds'),
    **code_version(),
    'python': platform.python_version(),
    'system': platform.platform(),
    'backend': jax.default_backend(),
    'processes': jax.process_count(),
    'devices': [f'{d.platform} {d.device_kind}' for d in jax.devices()],
    'versions': versions(),
  }


@dataclasses.dataclass(frozen=True)
class RunLog:
  """The config and environment (versions, devices, command) that a run writes to its workdir.

  If this run only computes new results from records of an earlier, finished run, environment.json
  keeps the environment of the earlier run.

  Attributes:
    path: the workdir.
    config: the config of the run, nested plain values.
    environment: environment of this run.
    finished_environment: environment of an earlier, finished run; {} if there is none.
    files_before: shards and checkpoints of the earlier run, see `finished_files`.
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
    """Creates a workdir, or resumes a run in it, without writing a file yet.

    Args:
      directory: the workdir.
      config: the config of the run, nested plain values.
      seed: seed of the run, for environment.json.
      command: the command as it was typed, for environment.json.

    Raises:
      InputError: the workdir belongs to another config or cannot be created.
    """
    path = open_or_create(directory, config)
    current = {'seed': seed, **environment(command)}
    finished_environment: dict[str, Any] = {}
    file = path / ENVIRONMENT
    if file.is_file():
      current['resumed'] = True  # `seconds` then lack the time before
      if (path / JSON_NAME).is_file():  # the earlier run was finished
        with contextlib.suppress(InputError):  # a damaged file is replaced
          finished_environment = json_files.read(file)
    files_before = finished_files(path) if finished_environment else frozenset()
    return cls(path, config, current, finished_environment, files_before)

  def write_config_and_environment(self) -> None:
    """Writes config.json and environment.json, which is kept if an earlier run was finished.

    Call it after all checks of the run have passed, because it replaces files that describe the
    results in the workdir.
    """
    self.environment['versions'] = versions()  # a user's file may have imported PyTorch since
    file = self.path / CONFIG
    config_before = file.read_bytes() if file.is_file() else b''
    write_config(self.path, self.config)
    if self.finished_environment and config_before != file.read_bytes():
      # The command of the earlier run does not belong to the config that is now in the workdir.
      self.finished_environment['command'] = self.environment['command']
    if jax.process_index() == 0 and not self.finished_environment:
      write_json(self.path / ENVIRONMENT, self.environment)

  def current_environment(self) -> dict[str, Any]:
    """Returns the environment (versions, devices, command) that produced the workdir's records.

    If this run has written a shard or checkpoint, or no earlier run was finished, this is its own
    environment, with the elapsed time as `seconds`. Otherwise it is the environment of the earlier
    run. If versions have changed since, `reduced_by` holds the versions of this run.
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
  """Writes plain values to a file as indented JSON, atomically."""
  write_atomically(path, (json.dumps(values, indent=2) + '\n').encode())


def versions() -> dict[str, str]:
  """Returns the versions of installed packages that may affect results, `{package: version}`.

  PyTorch is included only if it has been imported.
  """
  installed = {}
  for package in (*PACKAGES, *({'torch'} & sys.modules.keys())):
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
      installed[package] = importlib.metadata.version(package)
  return installed


def _git_commit() -> str:
  """Returns the git commit of this code, or why it is unknown."""
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
