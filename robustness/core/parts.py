"""Parts of a training that a config names: each is a module with a dataclass `Settings`.

A part's name is its module's. Its section of the config has the fields of `Settings`, so that a
module and nothing else says what a part is called and what it takes.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from robustness.core import settings
from robustness.core.errors import InputError, nearest


@dataclasses.dataclass(frozen=True)
class Part:
  """A module chosen by name, with its settings.

  Attributes:
    name: of the module, without its package.
    settings: an instance of its `Settings`.
    module: holds the function that the package's `__init__` describes.
  """

  name: str
  settings: Any
  module: ModuleType = dataclasses.field(repr=False, compare=False)

  def describe(self) -> dict[str, Any]:
    """Returns name and settings as plain values, for checkpoints and results."""
    return {'name': self.name, **dataclasses.asdict(self.settings)}


@functools.cache
def modules(package: str) -> dict[str, ModuleType]:
  """Returns the parts of a package by name: its modules that have `Settings`."""
  parent = importlib.import_module(package)
  every = {
    entry.name: importlib.import_module(f'{package}.{entry.name}')
    for entry in pkgutil.iter_modules(parent.__path__)
  }
  return {name: module for name, module in sorted(every.items()) if hasattr(module, 'Settings')}


def default_sections(package: str) -> dict[str, dict[str, Any]]:
  """Returns {name: its settings by default}, the sections of a config."""
  return {name: dataclasses.asdict(module.Settings()) for name, module in modules(package).items()}


def select(package: str, name: str, sections: Mapping[str, Any], where: str, key: str) -> Part:
  """Returns the named part with the settings of its section.

  Args:
    package: for example 'robustness.augment'.
    name: of the part.
    sections: {part: {key: value}}; a part that is left out has its defaults.
    where: what the sections are called in messages, for example 'config.classifier.augment'.
    key: of the config key that gave the name, for example 'policy'.

  Raises:
    InputError: no such part (the nearest ones are named), or see `settings.parse`.
  """
  known = modules(package)
  if not isinstance(name, str) or name not in known:
    raise InputError(f'{where}.{key} names {name!r}; {nearest(str(name), known)}.')
  own = settings.parse(known[name].Settings, sections.get(name, {}), f'{where}.{name}')
  return Part(name, own, known[name])


def refuse_unknown(package: str, section: Mapping[str, Any], where: str, key: str) -> None:
  """Raises InputError for a key of a section that is neither `key` nor a part.

  Sections of parts that are not selected are checked too, so that a misspelt key never passes.
  """
  known = modules(package)
  for name, values in section.items():
    if name == key:
      continue
    if name not in known:
      raise InputError(f'unknown key {where}.{name}: {nearest(str(name), [key, *known])}.')
    settings.parse(known[name].Settings, values, f'{where}.{name}')


def optional(package: str, section: Mapping[str, Any], where: str) -> Part | None:
  """Returns the part that `section['name']` selects; None where it is ''.

  Raises:
    InputError: see `select` and `refuse_unknown`.
  """
  refuse_unknown(package, section, where, 'name')
  name = section.get('name', '')
  return select(package, name, section, where, 'name') if name else None
