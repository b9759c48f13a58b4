"""The folder a run leaves: what it was told, what it ran on, what it found."""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import jax

from robustness import __version__
from robustness.core import disk, json_files, locks
from robustness.core.atomic_files import write_atomically
from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.core.registry import part_name
from robustness.core.settings import differing_keys, renamed

CONFIG, ENVIRONMENT = 'config.json', 'environment.json'
LOCK, LINE = '.lock', 200
ENVIRONMENT_FORM: json_files.Form = {'command': str}
WORK = ('results.json', 'records/**/*.npz', 'checkpoints/*/checkpoints/*')
"""What makes a workdir belong to its config; without it, a corrected config may take its place."""

SAME_NUMBERS = ('parallel', 'parallel_labels')
"""Keys of a config that change no number: a run may go on with other values. Configs of earlier
versions have the second."""

CHOOSES = {'augment': 'policy', 'attack': 'name', 'objective': 'name', 'input_filter': 'name'}
"""Sections of a recipe that hold a section for each part there is, and the key that chooses."""

PACKAGES = (
  'jax',
  'jaxlib',
  'flax',
  'optax',
  'orbax-checkpoint',
  'numpy',
  'scipy',
  'tensorflow-cpu',
  'tensorflow',
  'tensorflow-datasets',
  'ml_collections',
  'tensorboard',
  'clu',
  'matplotlib',
  'mlxtend',
)


def prepare(
  directory: str | os.PathLike[str], config: Mapping[str, Any], flag: str = '--workdir'
) -> pathlib.Path:
  """Makes a workdir, or continues one of the same config.

  Args:
    directory: the workdir; may exist.
    config: plain nested values, written to config.json.
    flag: what names the workdir on the command line, for messages.

  Returns:
    The workdir's absolute path.

  Raises:
    InputError: the workdir belongs to another config (the keys that differ are named) or cannot be
      written.
  """
  path = _made(directory, flag)
  plain = json.loads(json.dumps(config))
  _refuse_other_config(path / CONFIG, plain, flag)
  with _writable(path, flag):
    write_json(path / CONFIG, plain)
  return path


@contextlib.contextmanager
def locked(directory: str | os.PathLike[str], flag: str = '--workdir') -> Iterator[None]:
  """A context in which no other run works in a workdir, which is made if it is not there.

  Several processes that share one run are one: the first holds the lock for all.

  Args:
    directory: the workdir.
    flag: see `prepare`.

  Raises:
    InputError: another run has it, whose process is named; or it cannot be made or written to.
  """
  path = _made(directory, flag)
  if jax.process_index():
    yield
    return
  with _writable(path, flag):
    file = open(path / LOCK, 'a+', encoding='utf-8')  # noqa: SIM115 (closed below)
  with file:
    if not locks.take(file.fileno()):
      file.seek(0)
      who = file.read(LINE).strip()
      raise InputError(
        f'another run works in the workdir {path}{f" ({who})" if who else ""}: let it end, or give '
        f'another {flag}.'
      )
    file.truncate(0)
    file.write(f'process {os.getpid()} on {platform.node()}\n')
    file.flush()
    yield


def _made(directory: str | os.PathLike[str], flag: str) -> pathlib.Path:
  """Returns the absolute path of a workdir that is there."""
  if not os.fspath(directory):
    raise InputError(f"{flag} is ''; give the folder that the run is to leave everything in.")
  path = expanded(directory).absolute()
  try:
    path.mkdir(parents=True, exist_ok=True)
  except OSError as error:
    raise InputError(f'workdir {path} cannot be made ({error.strerror}).') from error
  return path


@contextlib.contextmanager
def _writable(path: pathlib.Path, flag: str) -> Iterator[None]:
  """A context in which a file of a workdir is made; says so where none can be."""
  try:
    yield
  except OSError as error:
    if error.errno not in disk.NOT_WRITABLE:
      raise
    raise InputError(
      f'workdir {path} cannot be written to ({error.strerror}); give another {flag}.'
    ) from error


def _refuse_other_config(path: pathlib.Path, config: Mapping[str, Any], flag: str) -> None:
  if not path.exists() or not _holds_work(path.parent):
    return
  before = json_files.read(path, {'battery?': dict}, 'Use another workdir.')
  lines = differing_keys(_of_numbers(renamed(before)), _of_numbers(config))
  key = '\n  config.' if flag == '--workdir' else '\n  '
  if lines:
    raise InputError(
      f'workdir {path.parent} holds a run of another config. Keys that differ '
      f'(there → now):{key}'
      + key.join(lines)
      + f'\nUse another {flag}, or the values it was begun with.'
    )


def _holds_work(path: pathlib.Path) -> bool:
  """Whether anything was computed: results, a shard of records, or a whole checkpoint."""
  return any(
    '-tmp' not in found.name  # as Orbax calls a checkpoint that is not whole yet
    for folder in (path, *path.glob(seed_folder('*')))
    for pattern in WORK
    for found in folder.glob(pattern)
  )


def _of_numbers(config: Mapping[str, Any]) -> dict[str, Any]:
  """Returns the keys of a config that decide its numbers."""
  kept = {key: value for key, value in config.items() if key not in SAME_NUMBERS}
  if 'battery' in kept:  # parts are measured apart: which of them run changes none
    kept['battery'] = {key: value for key, value in kept['battery'].items() if key != 'parts'}
  return _chosen(kept)


def _chosen(section: Mapping[str, Any]) -> dict[str, Any]:
  """Returns nested values without the settings of parts that a recipe does not choose.

  They change no number, and a later version has parts that an earlier one had not.
  """
  kept = {}
  for name, value in section.items():
    if isinstance(value, Mapping):
      key = CHOOSES.get(name)
      chosen = value.get(key, [*value])
      used = (key, *map(part_name, [chosen] if isinstance(chosen, str) else chosen))
      value = _chosen({own: value[own] for own in value if own in used})
    kept[name] = value
  return kept


def seed_folder(seed: int | str) -> str:
  """Returns the folder of a workdir that holds the run of one of several seeds."""
  return f'seed{seed}'


def environment(seed: int, command: str) -> dict[str, Any]:
  """Returns versions, devices, seed, git commit and the command that was run."""
  return {
    'command': command,
    'started': datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds'),
    'seed': seed,
    'robustness': __version__,
    'git_commit': _git_commit(),
    'python': platform.python_version(),
    'system': platform.platform(),
    'backend': jax.default_backend(),
    'processes': jax.process_count(),
    'devices': [f'{d.platform} {d.device_kind}' for d in jax.devices()],
    'versions': versions(),
  }


def write_json(path: pathlib.Path, values: Mapping[str, Any]) -> None:
  """Writes plain values as indented JSON, atomically."""
  write_atomically(path, (json.dumps(values, indent=2) + '\n').encode())


def versions() -> dict[str, str]:
  """Returns the versions of the packages that decide numbers, those that are installed."""
  installed = {}
  for package in PACKAGES:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
      installed[package] = importlib.metadata.version(package)
  return installed


def _git_commit() -> str:
  """Returns the commit this code was checked out at, or why there is none."""
  folder = pathlib.Path(__file__).parent
  try:
    answer = subprocess.run(
      ['git', 'rev-parse', 'HEAD'], cwd=folder, capture_output=True, text=True, check=False
    )
  except OSError:
    return 'unknown: git is not installed'
  return answer.stdout.strip() or 'unknown: not a git checkout'
