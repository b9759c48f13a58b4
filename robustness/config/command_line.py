"""Reading the command line so that a mistake in it ends in one line that says how to fix it."""

from __future__ import annotations

import importlib.util
import inspect
import os
import pathlib
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_collections
from absl import flags

from robustness.core.errors import InputError, nearest

_OVERRIDE = re.compile(r'--?(?:no)?config\.([^=]+)')


def parse(arguments: Sequence[str]) -> list[str]:
  """Reads the flags into `flags.FLAGS`.

  Args:
    arguments: of the process, its own name first.

  Returns:
    The name alone, for `absl.app`.

  Raises:
    InputError: an unknown flag or config key (the nearest valid ones are named), a value of the
      wrong type, a config file that cannot be used (see `load_config`), or a word that is no flag.
  """
  try:
    check_overrides(arguments)
    rest = flags.FLAGS(list(arguments))
  except (flags.Error, OSError) as error:
    raise InputError(str(error).strip()) from error
  if len(rest) > 1:
    raise InputError(f'{rest[1]!r} is no flag: give values as --config.KEY=VALUE.')
  return rest


def check_overrides(arguments: Sequence[str]) -> None:
  """Refuses `--config.KEY=VALUE` for keys that the config does not have.

  Raises:
    InputError: names the key and the nearest valid ones; or see `load_config`.
  """
  chosen = [
    a
    for i, a in enumerate(arguments)
    if re.match(r'--?config=', a) or (i and re.fullmatch('--?config', arguments[i - 1]))
  ]
  if not chosen:
    return
  config = load_config(chosen[-1].lstrip('-').removeprefix('config='))
  for override in filter(None, map(_OVERRIDE.match, arguments)):
    _check_key(config, override[1])


def load_config(reference: str) -> ml_collections.ConfigDict:
  """Returns the config of a file.

  Args:
    reference: the file's path, and after a colon the variant that `get_config` is called with.

  Raises:
    InputError: no such file, one without `get_config`, one that has no variants or needs one, what
      the file raised (with the line), or something else than a ConfigDict.
  """
  file, colon, variant = reference.partition(':')
  if not pathlib.Path(file).is_file():
    raise InputError(f'config file {file} does not exist; see the files of configs/.')
  variants = [variant] if colon else []
  try:
    config = _get_config(file, variants)(*variants)
  except InputError:
    raise
  except ValueError as error:  # how a config refuses a variant
    raise InputError(f'{error} (config file {file}{_place(error, file)})') from error
  except Exception as error:  # the file is the user's and may raise anything
    raise InputError(
      f'config file {file}{_place(error, file)} raised {type(error).__name__}: {error}'
    ) from error
  if not isinstance(config, ml_collections.ConfigDict):
    raise InputError(
      f'config file {file}: get_config returned {config!r}; it must return an '
      'ml_collections.ConfigDict, such as that of robustness.config.experiment.default_config.'
    )
  return config


def _get_config(file: str, variants: Sequence[str]) -> Callable[..., Any]:
  """Runs a config file and returns its `get_config`, which can be called with the variants."""
  spec = importlib.util.spec_from_file_location('config_of_a_run', file)
  if spec is None or spec.loader is None:
    raise InputError(f'config file {file} is no Python file: its name must end in .py.')
  module = importlib.util.module_from_spec(spec)
  sys.modules[spec.name] = module  # where dataclasses look up the names in annotations
  spec.loader.exec_module(module)
  get_config = getattr(module, 'get_config', None)
  if not callable(get_config):
    raise InputError(
      f'config file {file} has no function get_config that returns the config; see '
      'configs/accuracy.py.'
    )
  try:
    inspect.signature(get_config).bind(*variants)
  except TypeError as error:
    fix = (
      f'it has no variants: give --config={file} alone.'
      if variants
      else f'it needs a variant: give --config={file}:VARIANT.'
    )
    raise InputError(f'config file {file}: get_config cannot be called ({error}); {fix}') from error
  return get_config


def _place(error: Exception, file: str) -> str:
  """Returns `, line N` for the last line of the file that an error came through, if any."""
  frames = traceback.extract_tb(error.__traceback__)
  path = os.path.abspath(file)
  lines = [frame.lineno for frame in frames if os.path.abspath(frame.filename) == path]
  return f', line {lines[-1]}' if lines else ''


def _check_key(config: Mapping[str, Any], key: str) -> None:
  section, where = config, 'config'
  for name in key.split('.'):
    if not isinstance(section, Mapping) and not hasattr(section, 'keys'):
      raise InputError(f'{where} is a single value; it has no key {name!r}.')
    if name not in section:
      raise InputError(f'unknown key {where}.{name}: {nearest(name, section.keys())}.')
    section, where = section[name], f'{where}.{name}'
