"""What can be wrong with a document of JSON, for tests of those who read one."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

JUNK: tuple[Any, ...] = ([], None, 5, 'x', {}, [[]], True)
DAMAGE = {
  'cut short': lambda text: text[: len(text) // 2],
  'empty': lambda text: b'',
  'not UTF-8': lambda text: b'\xff' + text,
  'nested too deeply': lambda text: b'[' * 100_000,
  'a list': lambda text: b'[]',
  'null': lambda text: b'null',
  'a number': lambda text: b'5',
  'a text': lambda text: b'"x"',
}
"""By name, what a whole file becomes."""


def changed(document: Any) -> Iterator[tuple[str, Any]]:
  """Yields where, and a document in which one value was replaced by one of `JUNK` or left out."""
  for place in _places(document):
    for junk in JUNK:
      yield f'{".".join(map(str, place))} = {json.dumps(junk)}', _with(document, place, junk)
    if isinstance(place[-1], str):
      yield f'no {".".join(map(str, place))}', _without(document, place)


def _places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
  if above:
    yield above
  if isinstance(value, dict):
    for key in value:
      yield from _places(value[key], (*above, key))
  if isinstance(value, list) and value:
    yield from _places(value[0], (*above, 0))


def _holder(document: Any, place: tuple[Any, ...]) -> Any:
  for key in place[:-1]:
    document = document[key]
  return document


def _with(document: Any, place: tuple[Any, ...], junk: Any) -> Any:
  result = copy.deepcopy(document)
  _holder(result, place)[place[-1]] = junk
  return result


def _without(document: Any, place: tuple[Any, ...]) -> Any:
  result = copy.deepcopy(document)
  del _holder(result, place)[place[-1]]
  return result
