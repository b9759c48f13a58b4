"""Makes faulty JSON documents and files, for tests of their readers."""

import copy
import functools
import operator
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
"""Functions that damage the bytes of a file, by the name of the damage."""
KINDS_OF_DAMAGE = 'cut short', 'a text'
"""One damage that leaves no JSON and one that leaves another value, for readers by `json_files`."""


def changed(document: Any) -> Iterator[Any]:
  """Yields the document with one value, in any place, replaced by one of `JUNK` or left out."""
  for *above, last in _places(document):
    for junk in JUNK:
      result = copy.deepcopy(document)
      functools.reduce(operator.getitem, above, result)[last] = junk
      yield result
    if isinstance(last, str):
      result = copy.deepcopy(document)
      del functools.reduce(operator.getitem, above, result)[last]
      yield result


def _places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
  """Yields the keys to each value in a document; of a list, to the first element alone."""
  if above:
    yield above
  if isinstance(value, dict):
    for key in value:
      yield from _places(value[key], (*above, key))
  if isinstance(value, list) and value:
    yield from _places(value[0], (*above, 0))
