"""Reader of JSON that reports any error in one line, which names the file and the place."""

import json
import os
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from robustness.core.bounded_files import read_bounded
from robustness.core.errors import InputError
from robustness.core.limits import MAX_BYTES_OF_TEXT, MAX_JSON_DEPTH
from robustness.core.typing import PlainValue

Form = object
"""The form of a value: a type, or a tuple of alternative forms with at most one object or list;
`{key: form}` for an object with these keys (`'key?'` is optional) and possibly others;
`{str: form}` for an object with any keys; `[form]` for a list."""

_NAMES = {dict: 'an object', list: 'a list', str: 'a text', bool: 'true or false'}
"""Names of types in messages."""
_NAMES |= {int: 'a whole number', float: 'a number', type(None): 'null'}


def read(
  path: str | os.PathLike[str],
  form: Form = dict,
  advice: str = '',
  max_bytes: int = MAX_BYTES_OF_TEXT,
) -> PlainValue:
  """Returns the parsed value of a JSON file.

  Args:
    path: path of the file.
    form: expected types of the value and its members, such as {'size': [int]} for an object with a
      list of integers (see `Form`).
    advice: sentence on how to fix a bad file, appended to each error message.
    max_bytes: largest size of the file.

  Raises:
    InputError: the file is missing, too large or not JSON, or its value has other types.
  """
  try:
    content = read_bounded(path, max_bytes)
  except (FileNotFoundError, IsADirectoryError) as error:
    raise InputError(f'{path} is no file. {advice}'.strip()) from error
  except InputError as error:
    raise InputError(f'{error} {advice}'.strip()) from error
  except (OSError, ValueError) as error:  # ValueError: files cannot have this name
    reason = error.strerror if isinstance(error, OSError) else error
    raise InputError(f'{path} cannot be read ({reason}). {advice}'.strip()) from error
  return parse(content, str(path), form, advice)


def parse(content: bytes, title: str, form: Form = dict, advice: str = '') -> PlainValue:
  """Returns the parsed value of JSON in UTF-8.

  Args:
    content: the JSON in UTF-8, with or without a byte-order mark.
    title: name of the JSON in error messages, such as the path of its file.
    form: expected types of the value and its members, such as {'size': [int]} for an object with a
      list of integers (see `Form`).
    advice: sentence on how to fix bad JSON, appended to each error message.

  Raises:
    InputError: the content is not valid JSON, an object has the same key twice, lists and objects
      are nested deeper than `MAX_JSON_DEPTH`, a string is not valid Unicode, or the value has other
      types.
  """
  try:
    value = json.loads(content.decode('utf-8-sig'), object_pairs_hook=_without_repeated_keys)
    _check_depth(value)
    if b'\\ud' in content or b'\\uD' in content:  # half of a surrogate pair cannot be encoded
      json.dumps(value, ensure_ascii=False).encode()
  # errors of JSON and of the encoding are ValueErrors
  except (RecursionError, ValueError) as error:
    reason = 'it is nested too deeply' if isinstance(error, RecursionError) else error
    raise InputError(f'{title} is truncated or no JSON ({reason}). {advice}'.strip()) from error
  check(value, title, form, advice)
  return value


def check(value: object, title: str, form: Form, advice: str = '') -> None:
  """Raises InputError unless a value of JSON and its members have the expected types.

  Args:
    value: the parsed value.
    title: name of the value in the error message, such as the path of its file.
    form: expected types, such as {'size': [int]} for an object with a list of integers (see
      `Form`).
    advice: sentence on how to fix a bad value, appended to the error message.
  """
  misfit = _first_mismatch(value, form, '')
  if misfit:
    place, expected, actual = misfit
    subject = f'{title}: {place} is' if place else f'{title} holds'
    raise InputError(f'{subject} {actual}; expected {expected}. {advice}'.strip())


def _check_depth(value: object) -> None:
  """Raises RecursionError if lists and objects are nested deeper than `MAX_JSON_DEPTH`."""
  level = [value] if isinstance(value, dict | list) else []
  for _ in range(MAX_JSON_DEPTH):
    next_level = []
    for container in level:
      members = container.values() if isinstance(container, dict) else container
      next_level += [member for member in members if isinstance(member, dict | list)]
    level = next_level
  if level:
    raise RecursionError


def _without_repeated_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
  """Returns the entries of a JSON object as a dict; raises ValueError for a repeated key."""
  entries = dict(pairs)
  if len(entries) < len(pairs):
    keys = [key for key, _ in pairs]
    repeated = next(key for key in keys if keys.count(key) > 1)
    raise ValueError(f'it holds the key {repeated!r} {keys.count(repeated)} times')
  return entries


def _first_mismatch(value: object, form: Form, path: str) -> tuple[str, str, str] | None:
  """Returns the first member of a JSON value that does not have the expected type, or None.

  For example, {'size': [1, 'a']} with the form {'size': [int]} returns ('size[1]', 'a whole
  number', "'a'").

  Args:
    value: the parsed value.
    form: expected types, such as {'size': [int]} for an object with a list of integers (see
      `Form`).
    path: path of keys from the root of the file to `value`, such as 'data.size[0]'; '' for the
      root.

  Returns:
    The path of the first mismatch, the expected type in words, and the actual value in words. None
    if all types are as expected.
  """
  if isinstance(form, dict):
    return _first_mismatch_of_object(value, form, path)
  if isinstance(form, list):
    if not isinstance(value, Sequence) or isinstance(value, str):
      return path, _NAMES[list], _value_in_words(value)
    (entry_form,) = form  # all entries have the same form
    misfits = (_first_mismatch(entry, entry_form, f'{path}[{i}]') for i, entry in enumerate(value))
    return next(filter(None, misfits), None)
  # the form is a type or a tuple of alternatives with at most one object or list
  alternatives = form if isinstance(form, tuple) else (form,)
  for alternative in alternatives:
    if isinstance(alternative, dict | list) and isinstance(value, dict | list):
      return _first_mismatch(value, alternative, path)
  types = {kind for kind in alternatives if not isinstance(kind, dict | list)}
  if float in types:
    types.add(int)  # 1 is a number as 1.0 is
  if type(value) in types or (dict in types and isinstance(value, Mapping)):
    return None
  return path, _form_in_words(form), _value_in_words(value)


def _first_mismatch_of_object(
  value: object, form: dict[Any, Form], path: str
) -> tuple[str, str, str] | None:
  """Returns the first member of a JSON object that does not have the expected type, or None.

  Args:
    value: the parsed value.
    form: {key: expected type}, such as {'size': [int]}. A key that ends in '?' may be missing.
      {str: expected type} allows any keys.
    path: path of keys from the root of the file to `value`; '' for the root.

  Returns:
    (path, expected type, actual value), as from `_first_mismatch`.
  """
  if not isinstance(value, Mapping):
    return path, _NAMES[dict], _value_in_words(value)
  prefix = f'{path}.' if path else ''
  if str in form:  # {str: form}: the members have any keys, and all have this form
    members = value.items()
    misfits = (_first_mismatch(member, form[str], f'{prefix}{key}') for key, member in members)
    return next(filter(None, misfits), None)
  for name, member_form in form.items():
    key = name.removesuffix('?')
    is_required = key == name
    if key not in value and is_required:
      return f'{prefix}{key}', _form_in_words(member_form), 'missing'
    if key in value and (misfit := _first_mismatch(value[key], member_form, f'{prefix}{key}')):
      return misfit
  return None


def _form_in_words(form: Form) -> str:
  """Returns the expected type in words, for instance 'a number or null'."""
  alternatives = form if isinstance(form, tuple) else (form,)
  types = [type(kind) if isinstance(kind, dict | list) else kind for kind in alternatives]
  return ' or '.join(_NAMES[kind] for kind in types)


def _value_in_words(value: object) -> str:
  """Returns 'an object' or 'a list' for a container, and a shortened `repr` for other values."""
  return _NAMES[type(value)] if isinstance(value, dict | list) else reprlib.repr(value)
