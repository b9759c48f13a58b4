"""Reading the command line so that a mistake in it ends in one line that says how to mend it."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags
from ml_collections import config_flags

from robustness.core.errors import InputError, nearest

_OVERRIDE = re.compile(r'--?(?:no)?config\.([^=]+)')
_RAISED = re.compile(r'^(?:[\w.]*InputError|ValueError): (.*)', re.MULTILINE | re.DOTALL)


def parse(arguments: Sequence[str]) -> list[str]:
  """Reads the flags into `flags.FLAGS`.

  Args:
    arguments: of the process, its own name first.

  Returns:
    The name alone, for `absl.app`.

  Raises:
    InputError: an unknown flag or config key (the nearest valid ones are named), a value of the
      wrong type, a config file that is missing or has no such variant, or a word that is no flag.
  """
  try:
    check_overrides(arguments)
    rest = flags.FLAGS(list(arguments))
  except (flags.Error, OSError) as error:
    raise InputError(_reason(str(error))) from error
  if len(rest) > 1:
    raise InputError(f'{rest[1]!r} is no flag: give values as --config.KEY=VALUE.')
  return rest


def check_overrides(arguments: Sequence[str]) -> None:
  """Refuses `--config.KEY=VALUE` for keys that the config does not have.

  Raises:
    InputError: names the key and the nearest valid ones.
  """
  chosen = [
    a
    for i, a in enumerate(arguments)
    if re.match(r'--?config(=|$)', a) or (i and re.fullmatch('--?config', arguments[i - 1]))
  ]
  overrides = [found for found in map(_OVERRIDE.match, arguments) if found]
  if not chosen:
    return
  known = flags.FlagValues()
  file = pathlib.Path(chosen[-1].lstrip('-').removeprefix('config=').split(':')[0])
  if not file.is_file():
    raise InputError(f'config file {file} does not exist; see the files of configs/.')
  alone = [arguments[0], *chosen]
  config_flags.DEFINE_config_file('config', flag_values=known, sys_argv=alone)
  known(alone)
  config = known.config
  config.keys()  # raises what the file could not be read for
  for override in overrides:
    _check_key(config, override[1])


def _check_key(config: Mapping[str, Any], key: str) -> None:
  section, where = config, 'config'
  for name in key.split('.'):
    if not isinstance(section, Mapping) and not hasattr(section, 'keys'):
      raise InputError(f'{where} is a single value; it has no key {name!r}.')
    if name not in section:
      raise InputError(f'unknown key {where}.{name}: {nearest(name, section.keys())}.')
    section, where = section[name], f'{where}.{name}'


def _reason(text: str) -> str:
  """Returns what a config file said when it refused, without the traceback put around it."""
  raised = _RAISED.search(text)
  return (raised[1] if raised and 'Traceback' in text else text).strip()
