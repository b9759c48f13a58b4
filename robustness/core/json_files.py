"""JSON: whatever is wrong with a file ends in one line that names the file and the place."""

import json
import os
import reprlib
from collections.abc import Mapping, Sequence

from robustness.core.bounded_files import read_bounded
from robustness.core.errors import InputError
from robustness.core.limits import MAX_BYTES_OF_TEXT, MAX_JSON_DEPTH
from robustness.core.typing import PlainValue

Form = object
"""What a value must be: a type or a tuple of forms, at most one of which is an object or a list;
`{key: form}` for an object that has these keys (and may have others; `'key?'` may be missing);
`{str: form}` for an object of any keys; `[form]` for a list."""

_NAMES = {dict: 'an object', list: 'a list', str: 'a text', bool: 'true or false'}
_NAMES |= {int: 'a whole number', float: 'a number', type(None): 'null'}


def read(
  path: str | os.PathLike[str],
  form: Form = dict,
  advice: str = '',
  max_bytes: int = MAX_BYTES_OF_TEXT,
) -> PlainValue:
  """Returns the value in a file; `advice`, what to do about a bad one, ends each message."""
  try:
    content = read_bounded(path, max_bytes)
  except (FileNotFoundError, IsADirectoryError) as error:
    raise InputError(f'{path} is no file. {advice}'.strip()) from error
  except InputError as error:
    raise InputError(f'{error} {advice}'.strip()) from error
  except (OSError, ValueError) as error:  # ValueError: no name that a file can have
    why = error.strerror if isinstance(error, OSError) else error
    raise InputError(f'{path} cannot be read ({why}). {advice}'.strip()) from error
  return parse(content, str(path), form, advice)


def parse(content: bytes, where: str, form: Form = dict, advice: str = '') -> PlainValue:
  """Returns the value that a text in JSON says; messages call it `where`.

  Refused are what is no JSON in UTF-8, with or without a byte-order mark, is nested deeper than
  `MAX_JSON_DEPTH`, has a key twice or half of a character, and values of another form, with their
  place.
  """
  try:
    value = json.loads(content.decode('utf-8-sig'), object_pairs_hook=_once)
    _check_depth(value)
    if b'\\ud' in content or b'\\uD' in content:  # of two halves; one alone cannot be written
      json.dumps(value, ensure_ascii=False).encode()
  except (RecursionError, ValueError) as error:  # JSON's and the encoding's are of the latter kind
    why = 'it is nested too deeply' if isinstance(error, RecursionError) else error
    raise InputError(f'{where} is truncated or no JSON ({why}). {advice}'.strip()) from error
  check(value, where, form, advice)
  return value


def check(value: object, where: str, form: Form, advice: str = '') -> None:
  """Raises InputError unless a value is of a form."""
  misfit = _misfit(value, form, '')
  if misfit:
    place, expected, found = misfit
    what = f'{where}: {place} is' if place else f'{where} holds'
    raise InputError(f'{what} {found}; expected {expected}. {advice}'.strip())


def _check_depth(value: object) -> None:
  """Raises RecursionError for a value that nests more than `MAX_JSON_DEPTH` objects and lists."""
  level = [value] if isinstance(value, dict | list) else []
  for _ in range(MAX_JSON_DEPTH):
    level = [
      inner
      for outer in level
      for inner in (outer.values() if isinstance(outer, dict) else outer)
      if isinstance(inner, dict | list)
    ]
  if level:
    raise RecursionError


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
  entries = dict(pairs)
  if len(entries) < len(pairs):
    keys = [key for key, _ in pairs]
    twice = next(key for key in keys if keys.count(key) > 1)
    raise ValueError(f'it holds the key {twice!r} {keys.count(twice)} times')
  return entries


def _misfit(value: object, form: Form, place: str) -> tuple[str, str, str] | None:
  """Returns the first place that is not of its form, what is expected there and what was found."""
  if isinstance(form, dict):
    if not isinstance(value, Mapping):
      return place, _NAMES[dict], _shown(value)
    dot, every = f'{place}.' if place else '', form.get(str)
    for name, own in (form if every is None else dict.fromkeys(value, every)).items():
      key = name if every is not None else name.removesuffix('?')
      if key in value:
        misfit = _misfit(value[key], own, f'{dot}{key}')
        if misfit:
          return misfit
      elif key == name:
        kinds = own if isinstance(own, tuple) else (own,)
        return f'{dot}{key}', ' or '.join(map(_named, kinds)), 'missing'
    return None
  if isinstance(form, list):
    if not isinstance(value, Sequence) or isinstance(value, str):
      return place, _NAMES[list], _shown(value)
    found = (_misfit(item, form[0], f'{place}[{index}]') for index, item in enumerate(value))
    return next(filter(None, found), None)
  kinds = form if isinstance(form, tuple) else (form,)
  for kind in kinds:
    if isinstance(kind, dict | list) and isinstance(value, dict | list):
      return _misfit(value, kind, place)
  types = {kind for kind in kinds if not isinstance(kind, dict | list)}
  accepted = {*types, int} if float in types else types
  if type(value) in accepted or (dict in types and isinstance(value, Mapping)):
    return None
  return place, ' or '.join(map(_named, kinds)), _shown(value)


def _named(form: object) -> str:
  return _NAMES[type(form) if isinstance(form, dict | list) else form]  # type: ignore[index]


def _shown(value: object) -> str:
  return _NAMES[type(value)] if isinstance(value, dict | list) else reprlib.repr(value)
