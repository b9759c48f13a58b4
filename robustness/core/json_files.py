"""Reader of JSON that reports any error in one line, which names the file and the place."""

import json
import os
import reprlib
from collections.abc import Iterator, Mapping, Sequence
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
    if isinstance(value, dict | list):
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
  for place, expected, actual in _mismatches(value, form, ''):  # only the first is reported
    subject = f'{title}: {place} is' if place else f'{title} holds'
    raise InputError(f'{subject} {actual}; expected {expected}. {advice}'.strip())


def _check_depth(container: dict[str, Any] | list[Any], depth: int = 1) -> None:
  """Raises RecursionError if lists and objects are nested deeper than `MAX_JSON_DEPTH`.

  Args:
    container: the object or list.
    depth: how many objects and lists contain its members.
  """
  if depth > MAX_JSON_DEPTH:
    raise RecursionError
  for member in container.values() if isinstance(container, dict) else container:
    if isinstance(member, dict | list):
      _check_depth(member, depth + 1)


def _without_repeated_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
  """Returns the entries of a JSON object as a dict; raises ValueError for a repeated key."""
  entries = dict(pairs)
  if len(entries) < len(pairs):
    keys = [key for key, _ in pairs]
    repeated = next(key for key in keys if keys.count(key) > 1)
    raise ValueError(f'it holds the key {repeated!r} {keys.count(repeated)} times')
  return entries


def _mismatches(value: object, form: Form, path: str) -> Iterator[tuple[str, str, str]]:
  """Yields the members of a JSON value that do not have the expected type.

  For example, {'size': [1, 'a']} with the form {'size': [int]} yields ('size[1]', 'a whole number',
  "'a'").

  Args:
    value: the parsed value.
    form: expected types, such as {'size': [int]} for an object with a list of integers (see
      `Form`).
    path: path of keys from the root of the file to `value`, such as 'data.size[0]'; '' for the
      root.

  Yields:
    The path of a member, its expected type in words, and its actual value in words.
  """
  alternatives = form if isinstance(form, tuple) else (form,)
  types = [kind for kind in alternatives if not isinstance(kind, dict | list)]
  if float in types:
    types.append(int)  # 1 is a number as 1.0 is
  container = next((kind for kind in alternatives if kind not in types), None)  # at most one
  if isinstance(container, dict) and isinstance(value, Mapping):
    yield from _mismatches_in_object(value, container, path)
  elif isinstance(container, list) and isinstance(value, Sequence) and not isinstance(value, str):
    (entry_form,) = container  # all entries have the same form
    for index, entry in enumerate(value):
      yield from _mismatches(entry, entry_form, f'{path}[{index}]')
  elif type(value) not in types and not (dict in types and isinstance(value, Mapping)):
    yield path, _form_in_words(form), _value_in_words(value)


def _mismatches_in_object(
  value: Mapping[str, object], form: dict[Any, Form], path: str
) -> Iterator[tuple[str, str, str]]:
  """Yields the members of a JSON object that do not have the expected type.

  Args:
    value: the parsed value.
    form: {key: expected type}, such as {'size': [int]}. A key that ends in '?' may be missing.
      {str: expected type} allows any keys.
    path: path of keys from the root of the file to `value`; '' for the root.

  Yields:
    (path, expected type, actual value), as `_mismatches` does.
  """
  prefix = f'{path}.' if path else ''
  if str in form:  # {str: form}: the members have any keys, and all have this form
    for key, member in value.items():
      yield from _mismatches(member, form[str], f'{prefix}{key}')
    return
  for name, member_form in form.items():
    key = name.removesuffix('?')
    is_required = key == name
    if key in value:
      yield from _mismatches(value[key], member_form, f'{prefix}{key}')
    elif is_required:
      yield f'{prefix}{key}', _form_in_words(member_form), 'missing'


def _form_in_words(form: Form) -> str:
  """Returns the expected type in words, for instance 'a number or null'."""
  alternatives = form if isinstance(form, tuple) else (form,)
  types = [type(kind) if isinstance(kind, dict | list) else kind for kind in alternatives]
  return ' or '.join(_NAMES[kind] for kind in types)


def _value_in_words(value: object) -> str:
  """Returns 'an object' or 'a list' for a container, and a shortened `repr` for other values."""
  return _NAMES[type(value)] if isinstance(value, dict | list) else reprlib.repr(value)
