"""Reading the command line so that a mistake in it ends in one line that says how to fix it."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import pathlib
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import flags

from robustness.config import packaged
from robustness.config.battery import PARTS, SUMMARY
from robustness.config.config_dict import ConfigDict, nested
from robustness.config.defaults import UnknownVariantError, default_battery, default_config
from robustness.core import json_files
from robustness.core.errors import InputError, nearest
from robustness.core.registry import is_reference
from robustness.core.settings import check_name, check_sections, without_inherited
from robustness.evaluation.study import STUDIES, default_section

_CHANGE = re.compile(r'--?(no)?config\.([^=]+)(=(.*))?', re.DOTALL)
_STUDY_NAME = re.compile(r'(battery\.[^.]+\.)?study\.name')
_BOOLEANS = {'true': True, 't': True, '1': True, 'false': False, 'f': False, '0': False}
_EXPECTED = {
  bool: 'True or False',
  int: 'a whole number',
  float: 'a number',
  tuple: """a tuple, such as "('a','b')" or "(1,2)\"""",
  list: """a list, such as "['a','b']\"""",
}


def read(arguments: Sequence[str]) -> tuple[ConfigDict | None, list[str]]:
  """Reads the config and what the command line changes in it.

  Args:
    arguments: of the process, its own name first: among them `--config=FILE`, `--config.KEY=VALUE`
      (`--config.KEY`, `--noconfig.KEY` for what is True or False).

  Returns:
    The changed config, None where no file is given, and the arguments without the changes.

  Raises:
    InputError: a key that the config does not have (the nearest valid ones are named), a value of
      the wrong type, or a config file that cannot be used (see `load_config`).
  """
  rest, changes, file = [], [], None
  waiting = list(arguments)
  while waiting:
    argument = waiting.pop(0)
    change = _CHANGE.fullmatch(argument)
    if change:
      changes.append(change.groups())
      continue
    rest.append(argument)
    if argument in ('-config', '--config') and waiting:
      rest.append(waiting.pop(0))
      file = rest[-1]
    elif re.match('--?config=', argument):
      file = argument.partition('=')[2]
  if file is None:
    return None, rest
  config = load_config(file)
  changes.sort(key=lambda change: not _STUDY_NAME.fullmatch(change[1]))
  for no, key, _, text in changes:
    _change(config, key, text, bool(no))
  return config, rest


def parse_flags(arguments: Sequence[str]) -> list[str]:
  """Reads all other flags into `flags.FLAGS`.

  Returns:
    The process's name alone, for `absl.app`.

  Raises:
    InputError: an unknown flag or value, or a word that is no flag.
  """
  try:
    rest = flags.FLAGS(list(arguments))
  except flags.Error as error:
    raise InputError(str(error).strip()) from error
  if len(rest) > 1:
    raise InputError(f'{rest[1]!r} is no flag: give values as --config.KEY=VALUE.')
  return rest


def _change(config: ConfigDict, path: str, text: str | None, off: bool) -> None:
  """Sets the value of a key, `a.b.c`, to what a text says; None is a bare flag, True or False."""
  section, key = _section_of(config, path)
  kind = section.get_type(key)
  written = f'config.{path}' if text is None else f'config.{path}={text}'
  if issubclass(kind, ConfigDict):
    raise InputError(f'{written}: that is a section; its keys: {", ".join(section[key])}.')
  if text is None:
    if kind is not bool:
      raise InputError(f'{written} needs a value: --config.{path}=VALUE.')
    section[key] = not off
    return
  try:
    section[key] = value_of(text, kind)
  except (ValueError, TypeError, SyntaxError) as error:
    raise InputError(f'{written}: {error}; it must be {_EXPECTED.get(kind, kind)}.') from error
  if _STUDY_NAME.fullmatch(path) and is_reference(section[key]):  # its own settings follow
    values = nested(default_section(section[key]))
    for old in [name for name in section if name not in values]:
      del section[old]
    section.update(values)


def value_of(text: str, kind: type) -> Any:
  """Returns the value of a type that a text says; what has no type yet is read as Python or a word.

  Raises:
    ValueError, SyntaxError: the text says none.
  """
  if kind is str:
    return text
  if kind is bool:
    if text.lower() not in _BOOLEANS:
      raise ValueError(f'{text!r} is neither')
    return _BOOLEANS[text.lower()]
  if kind in (int, float):
    return kind(text)
  if kind in (tuple, list):
    try:
      value = ast.literal_eval(text)
    except (ValueError, SyntaxError) as error:
      raise ValueError('that is no list of numbers and quoted words') from error
    return kind(value) if isinstance(value, tuple | list) else kind([value])
  try:
    return ast.literal_eval(text)
  except (ValueError, SyntaxError):
    return text


def load_config(reference: str) -> ConfigDict:
  """Returns the config of a file.

  Args:
    reference: the file's path, or the name of a packaged config, and after a colon the variant that
      `get_config` is called with; or a JSON file, such as `config.json` of a workdir.

  Raises:
    InputError: no such file, JSON that cannot be used (see `from_json`), a file without
      `get_config`, one that has no variants or needs one, what the file raised (with the line), or
      something else than a ConfigDict.
  """
  name, colon, variant = reference.partition(':')
  file = str(packaged.find(name))
  if file.endswith('.json'):
    return from_json(pathlib.Path(file))
  arguments = [variant] if colon else []
  try:
    config = _get_config(file, arguments)(*arguments)
  except InputError:
    raise
  except ValueError as error:  # how a config refuses a variant
    raise InputError(f'{error} (config file {file}{_place(error, file)})') from error
  except Exception as error:  # the file is the user's and may raise anything
    raise InputError(
      f'config file {file}{_place(error, file)} raised {type(error).__name__}: {error}'
    ) from error
  if not isinstance(config, ConfigDict):
    raise InputError(
      f'config file {file}: get_config returned {config!r}; it must return an '
      'ConfigDict, such as that of robustness.config.defaults.default_config.'
    )
  return config


def variants(file: str) -> tuple[str, ...]:
  """Returns the variants of a config file, the default first; () for a config without them.

  Raises:
    InputError: see `load_config`.
  """
  get_config = _get_config(file, [])
  default = [parameter.default for parameter in inspect.signature(get_config).parameters.values()]
  if not default:
    return ()
  try:
    get_config('')
  except UnknownVariantError as error:
    return (*default, *(name for name in error.known if name not in default))
  return tuple(default)


def _get_config(file: str, arguments: Sequence[str]) -> Callable[..., Any]:
  """Runs a config file and returns its `get_config`, which can be called with the arguments."""
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
    inspect.signature(get_config).bind(*arguments)
  except TypeError as error:
    fix = (
      f'it has no variants: give --config={file} alone.'
      if arguments
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


def from_json(path: pathlib.Path) -> ConfigDict:
  """Returns the config of a JSON file: its values, and defaults for the keys it leaves out.

  Raises:
    InputError: no JSON object, no study that exists, an unknown key or a value of the wrong type.
  """
  values = json_files.read(path, advice='Give a config such as config.json of a workdir.')
  check_sections(without_inherited(values), ('battery', 'classifiers'), 'config')
  if 'predictions' in values:
    _study_name(values, 'config', path)
    return nested(values)
  config = _defaults(values, path)
  _fill(config, values, 'config')
  return config


def _defaults(values: Mapping[str, Any], path: pathlib.Path) -> ConfigDict:
  """Returns the config with the studies and labels of a JSON object, all else at its default."""
  labels = tuple(values.get('classifiers') or ())
  for label in labels:
    check_name('config.classifiers', label)
  battery = values.get('battery')
  if battery is None:
    return default_config(_study_name(values, 'config', path), labels)
  for name in battery:
    check_name('config.battery', name)
  studies = {
    name: _study_name(part, f'config.battery.{name}', path)
    for name, part in battery.items()
    if name not in (PARTS, SUMMARY)
  }
  check_sections(battery, (SUMMARY,), 'config.battery')
  return default_battery(studies, labels, battery.get(SUMMARY, {}).get('name', ''))


def _study_name(section: Any, where: str, path: pathlib.Path) -> str:
  """Returns the study that the section `study` of a section names."""
  study = section.get('study') if isinstance(section, dict) else None
  if not isinstance(study, dict) or not isinstance(study.get('name'), str):
    raise InputError(
      f'config file {path} has no {where}.study.name; expected a JSON object such as config.json '
      'of a workdir.'
    )
  STUDIES.find(study['name'], f'{where}.study.name')
  return study['name']


def _fill(config: ConfigDict, values: Mapping[str, Any], where: str) -> None:
  """Sets keys of a section to values read from JSON, which has lists for tuples."""
  for key, value in values.items():
    if key not in config:
      raise InputError(f'unknown key {where}.{key}: {nearest(key, config.keys())}.')
    if isinstance(config[key], ConfigDict) and isinstance(value, Mapping):
      _fill(config[key], value, f'{where}.{key}')
      continue
    try:
      config[key] = tuple(value) if isinstance(value, list) else value
    except TypeError as error:
      raise InputError(f'{where}.{key} is {value!r}: {error}.') from error


def _section_of(config: ConfigDict, path: str) -> tuple[ConfigDict, str]:
  """Returns the section that a key `a.b.c` stands in, and its last word.

  Raises:
    InputError: there is no such key; the nearest ones are named.
  """
  section, where = config, 'config'
  *sections, key = path.split('.')
  for name in [*sections, key]:
    if not isinstance(section, ConfigDict):
      raise InputError(f'{where} is a single value; it has no key {name!r}.')
    if name not in section:
      raise InputError(f'unknown key {where}.{name}: {nearest(name, section.keys())}.')
    parent, section, where = section, section[name], f'{where}.{name}'
  return parent, key
