"""Turns a section of a config into a frozen dataclass; unknown or wrongly typed keys are errors.

A settings dataclass is the single list of a section's keys, types and defaults.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from robustness.core.errors import InputError, nearest

T = TypeVar('T')
Section = Mapping[str, Any]
"""Nested plain values, as a config and JSON have them."""


def parse(cls: type[T], section: Section, where: str) -> T:
  """Builds `cls` from a config section.

  Args:
    cls: a dataclass whose fields are bool, int, float, str, tuple[str, ...] or tuple[int, ...], or
      dataclasses of these.
    section: the values given, which may be parsed already; a field left out keeps its default.
    where: the section's name in messages, for example 'config.study'.

  Returns:
    An instance of `cls`.

  Raises:
    InputError: an unknown key (the nearest valid ones are named), a missing one, or a wrong type.
  """
  if not isinstance(section, Mapping):
    raise InputError(f'{where} must be a section of keys; got {section!r}.')
  types = typing.get_type_hints(cls)
  fields = {f.name: f for f in dataclasses.fields(cls) if f.init}  # type: ignore[arg-type]
  refuse_unknown(section, fields, where)
  for name, f in fields.items():
    if name not in section and f.default is f.default_factory is dataclasses.MISSING:
      raise InputError(f'{where}.{name} is not given.')
  return cls(
    **{key: _convert(types[key], value, f'{where}.{key}') for key, value in section.items()}
  )


def refuse_unknown(section: Section, valid: Iterable[str], where: str) -> None:
  """Raises InputError for the first key of a section that is not valid, with the nearest ones."""
  for key in section:
    if key not in valid:
      raise InputError(f'unknown key {where}.{key}: {nearest(str(key), valid)}.')


def without_inherited(section: Section) -> dict[str, Any]:
  """Returns nested values without those that are None, which stand for what a section inherits."""
  return {
    key: without_inherited(value) if isinstance(value, Mapping) else value
    for key, value in section.items()
    if value is not None
  }


def renamed(config: Mapping[str, Any]) -> dict[str, Any]:
  """Returns a config whose classifiers have the present names of keys: `input_filter` was called
  `front_end`."""

  def recipe(section: Any) -> Any:
    if not isinstance(section, Mapping):
      return section
    return {'input_filter' if k == 'front_end' else k: value for k, value in section.items()}

  after, several = dict(config), config.get('classifiers')
  if 'classifier' in config:
    after['classifier'] = recipe(config['classifier'])
  if isinstance(several, Mapping):
    after['classifiers'] = {label: recipe(section) for label, section in several.items()}
  return after


def _required(field: dataclasses.Field[Any]) -> bool:
  return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _convert(kind: Any, value: Any, where: str) -> Any:
  if dataclasses.is_dataclass(value):
    return value  # parsed already
  if dataclasses.is_dataclass(kind):
    return parse(kind, value, where)  # type: ignore[arg-type]
  if typing.get_origin(kind) is tuple:
    element = typing.get_args(kind)[0]
    if isinstance(value, str) or not isinstance(value, (tuple, list)):
      raise InputError(f'{where} must be a tuple of {element.__name__}; got {value!r}.')
    return tuple(_convert(element, v, where) for v in value)
  if kind is float and isinstance(value, int) and not isinstance(value, bool):
    return float(value)
  if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
    expected = {int: 'an int', bool: 'True or False'}.get(kind, f'a {kind.__name__}')
    raise InputError(f'{where} must be {expected}; got {value!r} ({type(value).__name__}).')
  return value


def check_sections(section: Section, names: Iterable[str], where: str) -> None:
  """Raises InputError unless those of these keys that are given are sections of keys."""
  for name in names:
    if not isinstance(section.get(name, {}), Mapping):
      raise InputError(f'{where}.{name} must be a section of keys; got {section[name]!r:.60}.')


NAME_BYTES = 100
"""How long a name may be; names of files are made of it, which may have 255 bytes."""


def check_name(where: str, name: Any, is_key: bool = True) -> None:
  """Raises InputError unless a name that a user gives can be that of a folder.

  Args:
    where: what it names, for example 'config.classifiers'.
    name: such as a classifier's label.
    is_key: whether it is a key of the config too, of which dots separate the parts.
  """
  valid = isinstance(name, str) and name.isprintable() and name.strip() == name != ''
  valid = valid and not set(name) & set('/\\') and len(name.encode()) <= NAME_BYTES
  if not valid or name.startswith('.') or (is_key and '.' in name):
    shown = repr(name) if len(repr(name)) <= NAME_BYTES else f'{name!r:.40}...'
    dots = 'no dot' if is_key else 'no dot at its beginning'
    raise InputError(
      f'{where} names {shown}; a folder is named so, and it must have 1 to {NAME_BYTES} bytes, no '
      f'slash, {dots}, no space at its ends and nothing that cannot be printed.'
    )


def require(condition: bool, where: str, value: Any, valid: str) -> None:
  """Raises InputError naming the key, the bad value and the valid ones unless `condition` holds."""
  if not condition:
    raise InputError(f'{where} is {value!r}; it must be {valid}.')


def require_fractions(settings: Any, where: str, *names: str) -> None:
  """Raises InputError unless each of these settings lies between 0 and 1, neither included."""
  for name in names:
    value = getattr(settings, name)
    require(0 < value < 1, f'{where}.{name}', value, 'in (0, 1)')


def choice(where: str, value: str, valid: Iterable[str]) -> None:
  """Raises InputError naming the nearest valid words unless `value` is one of them."""
  words = tuple(valid)
  if value not in words:
    raise InputError(f'{where} is {value!r}; {nearest(value, words)}.')


def differing_keys(
  old: Any, new: Any, prefix: str = '', tolerances: Mapping[str, float] | None = None
) -> list[str]:
  """Lists where two nested mappings differ, as `key: old → new`.

  Args:
    old, new: plain values.
    prefix: of the keys.
    tolerances: by the last word of a key, the share of the largest number by which numbers in a
      list may differ.
  """
  tolerances = tolerances or {}
  if isinstance(old, Mapping) and isinstance(new, Mapping):
    keys = sorted(set(old) | set(new))
    dot = f'{prefix}.' if prefix else ''
    return [
      line
      for key in keys
      for line in differing_keys(old.get(key), new.get(key), f'{dot}{key}', tolerances)
    ]
  tolerance = tolerances.get(prefix.rpartition('.')[2])
  if old == new or (tolerance is not None and _close(old, new, tolerance)):
    return []
  return [f'{prefix}: {old!r} → {new!r}']


def _close(old: Any, new: Any, tolerance: float) -> bool:
  """Whether two lists of numbers differ by at most a share of the largest."""
  if not (isinstance(old, list) and isinstance(new, list) and len(old) == len(new)):
    return False
  if not all(isinstance(value, int | float) for value in (*old, *new)):
    return False
  largest = max(map(abs, (*old, *new)), default=0.0)
  return all(abs(a - b) <= tolerance * largest for a, b in zip(old, new, strict=True))
