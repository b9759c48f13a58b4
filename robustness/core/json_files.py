"""JSON, read so that whatever is wrong with it ends in one line that names the file and the place.

A file may be cut short, written by hand or made by another program: what a reader relies on, its
`Form`, is checked before anything is looked up in the document.
"""

from __future__ import annotations

import json
import os
import pathlib
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from robustness.core.errors import InputError

Form = Any
"""What a value must be: a type or a tuple of types; `{key: form}` for an object that has these keys
(and may have others; `'key?'` may be missing); `{str: form}` for an object of any keys; `[form]`
for a list."""

_NAMES = {dict: 'an object', list: 'a list', str: 'a text', bool: 'true or false'}
_NAMES |= {int: 'a whole number', float: 'a number', type(None): 'null'}


def read(
  path: str | os.PathLike[str], form: Form = dict, advice: str = '', encoding: str = 'utf-8'
) -> Any:
  """Returns the value in a file.

  Args:
    path: the file.
    form: see `Form`.
    advice: what to do about a file that cannot be used, a sentence for the end of the message.
    encoding: of the text.

  Raises:
    InputError: there is no such file, it cannot be read, or see `parse`.
  """
  try:
    content = pathlib.Path(path).read_bytes()
  except (FileNotFoundError, IsADirectoryError) as error:
    raise InputError(f'{path} is no file. {advice}'.strip()) from error
  except (OSError, ValueError) as error:  # ValueError: no name that a file can have
    why = error.strerror if isinstance(error, OSError) else error
    raise InputError(f'{path} cannot be read ({why}). {advice}'.strip()) from error
  return parse(content, str(path), form, advice, encoding)


def parse(
  content: bytes, where: str, form: Form = dict, advice: str = '', encoding: str = 'utf-8'
) -> Any:
  """Returns the value that a text in JSON says.

  Args:
    content: the text, encoded.
    where: what messages call it, such as the path of its file.
    form: see `Form`.
    advice: see `read`.
    encoding: of the text.

  Raises:
    InputError: neither JSON nor in this encoding, nested deeper than Python can follow, an object
      that has a key twice, half of a character, or a value of another form, whose place is named.
  """
  damaged = f'{where} is truncated or no JSON'
  try:
    value = json.loads(content.decode(encoding), object_pairs_hook=_once)
    if b'\\ud' in content or b'\\uD' in content:  # of two halves; one alone cannot be written
      json.dumps(value, ensure_ascii=False).encode()
  except RecursionError as error:
    raise InputError(f'{damaged} (it is nested too deeply). {advice}'.strip()) from error
  except ValueError as error:  # JSON's and the encoding's are of this kind
    raise InputError(f'{damaged} ({error}). {advice}'.strip()) from error
  check(value, where, form, advice)
  return value


def check(value: Any, where: str, form: Form, advice: str = '') -> None:
  """Raises InputError unless a value is of a form; see `parse`."""
  misfit = _misfit(value, form, '')
  if misfit:
    place, expected, found = misfit
    what = f'{where}: {place} is' if place else f'{where} holds'
    raise InputError(f'{what} {found}; expected {expected}. {advice}'.strip())


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  """Returns an object whose keys all differ."""
  entries = dict(pairs)
  if len(entries) < len(pairs):
    keys = [key for key, _ in pairs]
    twice = next(key for key in keys if keys.count(key) > 1)
    raise ValueError(f'it holds the key {twice!r} {keys.count(twice)} times')
  return entries


def _misfit(value: Any, form: Form, place: str) -> tuple[str, str, str] | None:
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
        types = (type(kind) if isinstance(kind, dict | list) else kind for kind in kinds)
        return f'{dot}{key}', ' or '.join(_NAMES[kind] for kind in types), 'missing'
    return None
  if isinstance(form, list):
    if not isinstance(value, Sequence) or isinstance(value, str):
      return place, _NAMES[list], _shown(value)
    found = (_misfit(item, form[0], f'{place}[{index}]') for index, item in enumerate(value))
    return next(filter(None, found), None)
  kinds = form if isinstance(form, tuple) else (form,)
  accepted = {*kinds, int} if float in kinds else set(kinds)
  if type(value) in accepted or (dict in kinds and isinstance(value, Mapping)):
    return None
  return place, ' or '.join(_NAMES[kind] for kind in kinds), _shown(value)


def _shown(value: Any) -> str:
  return _NAMES[type(value)] if isinstance(value, dict | list) else reprlib.repr(value)
