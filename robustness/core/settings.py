"""Conversion of config sections to frozen dataclasses, which define keys, types and defaults."""

import dataclasses
import functools
import math
import typing
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any, TypeVar

from robustness.core.errors import InputError, SettingError, for_caller, key_name, nearest
from robustness.core.typing import Facts, PlainValue

T = TypeVar('T')
Section = Facts
"""Keys of a config with their values."""
field_types = functools.cache(typing.get_type_hints)
"""Returns {field: type} of a dataclass. Types that are written as text are evaluated only once."""


def parse(cls: type[T], section: Section, path: str) -> T:
  """Returns a dataclass with the values of a config section.

  Args:
    cls: class with fields of the types bool, int, float, str, tuple[str, ...] or tuple[int, ...],
      dataclasses of these types, or mappings, which are not converted.
    section: values by key; a value may be a dataclass already. Missing keys keep their defaults.
    path: name of the section in messages, for example 'config.study'.

  Raises:
    InputError: a key is unknown, required and missing, or of another type, or a number is not
      finite or too large.
  """
  _check_section(section, path)
  types = field_types(cls)  # type: ignore[arg-type]  # mypy takes type[T] for unhashable
  fields = {f.name: f for f in dataclasses.fields(cls) if f.init}  # type: ignore[arg-type]
  refuse_unknown(section, fields, path)
  for name, field in fields.items():
    defaults = field.default, field.default_factory  # a value, or a function that makes one
    is_required = all(default is dataclasses.MISSING for default in defaults)
    if name not in section and is_required:
      raise InputError(f'{key_name(f"{path}.{name}")} is not given.')
  values = {name: _convert(types[name], x, f'{path}.{name}') for name, x in section.items()}
  parsed = cls(**values)
  for name, value in values.items():
    key = f'{path}.{name}'
    may_be_large = fields[name].metadata.get('large', False)
    elements = value if isinstance(value, tuple) else (value,)
    for number in elements:
      if isinstance(number, float):
        require(math.isfinite(number), key, value, 'finite')
      elif isinstance(number, int):
        require(may_be_large or abs(number) < 2**31, key, value, 'below 2**31')
  return parsed


def refuse_unknown(section: Section, valid: Iterable[str], path: str) -> None:
  """Raises InputError with the nearest valid keys if a config section has an unknown key.

  Args:
    section: the section of the config.
    valid: the valid keys.
    path: name of the section for the message, such as 'config.study'.
  """
  for key in section:
    if key not in valid:
      raise InputError(f'unknown key {key_name(f"{path}.{key}")}: {nearest(str(key), valid)}.')


def refuse_moved(moved_keys: Mapping[str, str], section: Section, path: str) -> None:
  """Raises SettingError for a renamed key and names the new key.

  For example, {'epsilon': 'pgd.epsilon, in [0, 1]'} turns a section {'epsilon': 0.1} into an error
  that ends with 'It is now config.study.pgd.epsilon, in [0, 1].' For a caller in Python, the error
  ends with "It is now pgd={'epsilon': 0.1}, in [0, 1].".

  Args:
    moved_keys: {old key: new key}. A note may follow the new key after a comma.
    section: the section of the config.
    path: name of the section for the message, such as 'config.study'.
  """
  for key, value in section.items():
    if key in moved_keys:
      new_key, comma, note = moved_keys[key].partition(',')
      argument, *names = new_key.split('.')
      nested_value = value  # becomes {name: {name: ... value}}
      for name in reversed(names):
        nested_value = {name: nested_value}
      python = f'{argument}={nested_value!r}'
      fix = f'It is now {for_caller(key_name(f"{path}.{new_key}"), python)}{comma}{note}.'
      raise SettingError(f'{path}.{key}', value, fix=fix, problem='a key of an earlier version')


def merge_changes(section: Section, changes: Section) -> dict[str, PlainValue]:
  """Returns a copy of a nested dictionary, updated recursively with `changes`.

  For example, {'a': {'b': 1, 'c': 2}} with the changes {'a': {'c': 3}} becomes {'a': {'b': 1, 'c':
  3}}.
  """
  values = dict(section)
  for key, value in changes.items():
    old = values.get(key)
    are_sections = isinstance(old, Mapping) and isinstance(value, Mapping)
    values[key] = merge_changes(old or {}, value) if are_sections else value
  return values


def without_inherited(section: Section) -> dict[str, PlainValue]:
  """Returns a config section without keys that have the value None, at any depth.

  In the section of a classifier or task, None means that the value of the whole run applies.
  """
  values = {key: value for key, value in section.items() if value is not None}
  return {k: without_inherited(v) if isinstance(v, Mapping) else v for k, v in values.items()}


def settings_in_use(cls: type, section: Section) -> dict[str, PlainValue]:
  """Returns a config section without unused settings that have their default value.

  A setting is unused if it is off (0, '', (), False) or if another setting switches it off. For
  example, `momentum` is unused if the optimizer is 'adamw' (see `only_with` in
  `robustness.core.registry.setting`).

  Args:
    cls: dataclass that defines the settings of the section.
    section: the section.
  """
  fields = {field.name: field for field in dataclasses.fields(cls)}

  def is_needed(key: str, value: PlainValue) -> bool:
    """Returns whether a setting is to be listed: it is used, or differs from its default.

    `fields` are the fields of the settings' dataclass, and `section` has the values of all
    settings, which decide by `has_effect` whether this one is used.

    Args:
      key: name of the setting.
      value: its value.
    """
    immutable = tuple(value) if isinstance(value, list) else value
    if key not in fields or immutable != fields[key].default:
      return True
    return bool(value) and has_effect(fields[key], section)  # 0, '', () and False are off

  return {key: value for key, value in section.items() if is_needed(key, value)}


def has_effect(field: dataclasses.Field[Any], section: Section) -> bool:
  """Returns whether a setting has an effect, or another setting of its section switches it off.

  Args:
    field: the field of the setting, see `only_with` in `robustness.core.registry.setting`.
    section: values by key.
  """
  only_with = field.metadata.get('only_with')
  if not only_with:
    return True
  # ('optimizer', 'adamw', 'lamb') needs one of two values, ('label_space',) any that is not empty
  other_key, *needed_values = only_with
  other_value = section.get(other_key)
  if isinstance(other_value, tuple) and needed_values:
    return not set(other_value).isdisjoint(needed_values)
  return other_value in needed_values if needed_values else bool(other_value)


def _convert(kind: type, value: object, key: str) -> object:
  """Returns the value of a config key as the type of its field.

  Lists become tuples, and NumPy's numbers become Python's; an int is a valid float.

  Args:
    kind: the type of the field, such as int, tuple[str, ...] or a dataclass.
    value: the value in the config.
    key: full name of the key, for messages.

  Raises:
    SettingError: the value has another type.
  """
  if dataclasses.is_dataclass(value):
    return value  # parsed already
  if dataclasses.is_dataclass(kind):
    return parse(kind, value, key)  # type: ignore[arg-type]
  if typing.get_origin(kind) is Mapping:
    _check_section(value, key)
    return value
  if typing.get_origin(kind) is tuple:
    element = typing.get_args(kind)[0]  # str of tuple[str, ...]
    if isinstance(value, str) or not isinstance(value, (tuple, list)):
      raise SettingError(key, value, f'a tuple of {element.__name__}, written (X,) for one')
    numbers = [entry for entry in value if type(entry) is int]
    if element is str and numbers:
      fix = f'Write the number in quotes: "(\'{numbers[0]}\',)".'
      raise SettingError(key, value, 'a tuple of words', fix)
    return tuple(_convert(element, entry, key) for entry in value)
  if isinstance(value, int) and abs(value) >= 2**63:
    raise SettingError(key, value, 'a number that 64 bits hold')
  is_bool = isinstance(value, bool)  # in Python a bool is an int
  number_type = {int: Integral, float: Real}.get(kind)  # also NumPy's numbers
  if number_type and isinstance(value, number_type) and not is_bool:
    return kind(value)
  if not isinstance(value, kind) or (is_bool and kind is not bool):
    raise SettingError(key, value, type_name(kind))
  return value


def type_name(kind: type) -> str:
  """Returns the type of a setting as a phrase for `SettingError.valid`."""
  return {int: 'an int', bool: 'True or False'}.get(kind, f'a {kind.__name__}')


def check_sections(section: Section, names: Iterable[str], path: str) -> None:
  """Raises InputError if one of the keys `names` is present and its value is no section.

  `path` is the name of the section in messages, such as 'config.study'.
  """
  for name in names:
    _check_section(section.get(name, {}), f'{path}.{name}')


def _check_section(section: object, path: str) -> None:
  """Raises SettingError unless `section`, the value of the key `path`, is a mapping."""
  if not isinstance(section, Mapping):
    raise SettingError(path, section, 'a section of keys')


MAX_NAME_BYTES = 100
"""Most bytes of a name. It becomes a part of names of files, which may have 255 bytes."""


def check_name(
  key: str, name: object, is_key: bool = True, max_bytes: int = MAX_NAME_BYTES
) -> None:
  """Raises InputError unless a name can be the name of a folder.

  Args:
    key: config key with the name, for the message.
    name: the name. Values of other types than str are refused.
    is_key: whether the name is also used as a key in the config, where dots are not allowed.
    max_bytes: largest length in UTF-8.
  """
  text = name if isinstance(name, str) else ''
  is_printable = text != '' and text.isprintable() and text.strip() == text
  has_dot = '.' in text if is_key else text.startswith('.')
  has_slash = bool(set(text) & set('/\\'))
  if not is_printable or has_dot or has_slash or len(text.encode()) > max_bytes:
    printed = repr(name) if len(repr(name)) <= MAX_NAME_BYTES else f'{name!r:.40}...'
    dots = 'no dot' if is_key else 'no dot at its beginning'
    raise InputError(
      f'{key_name(key)} names {printed}; a folder is named so, and it must have 1 to '
      f'{max_bytes} bytes, no slash, {dots}, no space at its ends and no character that cannot be '
      'printed.'
    )


def require(condition: bool, key: str, value: object, valid: str) -> None:
  """Raises SettingError for the value of a key unless `condition` holds.

  `valid` is a phrase for the valid values, such as 'at least 0'.
  """
  if not condition:
    raise SettingError(key, value, valid)


def choice(key: str, value: object, valid: Iterable[str]) -> None:
  """Raises SettingError for the value of a key unless it is one of the valid words."""
  words = tuple(valid)
  if value not in words:
    raise SettingError(key, value, words)


def differing_keys(
  old: object, new: object, prefix: str = '', tolerances: Mapping[str, float] | None = None
) -> list[str]:
  """Returns the differences of two nested mappings as lines 'key: old → new'.

  An example is ['data.num_images: 100 → 200'].

  Args:
    old: the first mapping, or a value in it.
    new: the second mapping, or a value in it.
    prefix: path of both values in the mappings, such as 'data'; '' for the whole mappings.
    tolerances: {key without its path: tolerance}, such as {'mean': 1e-6}. Lists of numbers under
      such a key count as equal if no difference exceeds the tolerance times the largest magnitude.
  """
  if isinstance(old, Mapping) and isinstance(new, Mapping):
    path = f'{prefix}.' if prefix else ''
    lines = []
    for key in sorted({*old, *new}):
      lines += differing_keys(old.get(key), new.get(key), f'{path}{key}', tolerances)
    return lines
  tolerance = (tolerances or {}).get(prefix.rpartition('.')[2])  # by the key without its path
  if old == new or (tolerance is not None and _is_close(old, new, tolerance)):
    return []
  return [f'{prefix}: {old!r} → {new!r}']


def _is_close(old: object, new: object, tolerance: float) -> bool:
  """Returns whether two values are lists of numbers that differ little at every position.

  Differences are at most `tolerance` times the largest magnitude in both lists.
  """
  if not (isinstance(old, list) and isinstance(new, list) and len(old) == len(new)):
    return False
  if not all(isinstance(value, int | float) for value in (*old, *new)):
    return False
  largest = max(map(abs, (*old, *new)), default=0.0)
  return all(abs(a - b) <= tolerance * largest for a, b in zip(old, new, strict=True))
