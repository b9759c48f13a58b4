"""Whatever is wrong with a file of JSON is one line that names the file and the place."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from robustness.core import json_files
from robustness.core.errors import InputError

DEEP = b'[' * 200_000
DAMAGED = {
  'truncated': b'{"a": 1',
  'empty': b'',
  'not UTF-8': b'\xff\xfe{}',
  'nested too deeply': DEEP,
  'a key twice': b'{"a": 1, "a": 2}',
  'a number of too many digits': b'{"a": ' + b'9' * 5000 + b'}',
  'half of a character': b'{"a": "\\ud800"}',
  'a null byte': b'\0',
}
FORM = {'numbers': {str: {'value': (float, type(None)), 'n': int}}, 'names': [str]}
GOOD: dict[str, Any] = {'numbers': {'accuracy': {'value': 0.5, 'n': 3}}, 'names': ['a'], 'more': 1}


@pytest.mark.parametrize('content', DAMAGED.values(), ids=DAMAGED)
def test_damage_is_one_line(tmp_path: pathlib.Path, content: bytes) -> None:
  file = tmp_path / 'config.json'
  file.write_bytes(content)
  with pytest.raises(
    InputError, match=r'config\.json is truncated or no JSON \(.*\)\. Write it anew\.'
  ) as told:
    json_files.read(file, advice='Write it anew.')
  assert '\n' not in str(told.value) and len(str(told.value)) < 400


@pytest.mark.parametrize('value', ['[]', 'null', '5', '"x"', 'true', '[[{}]]'])
def test_another_value_than_an_object_is_refused(tmp_path: pathlib.Path, value: str) -> None:
  file = tmp_path / 'a.json'
  file.write_text(value)
  with pytest.raises(InputError, match=r'a\.json holds .*; expected an object\.'):
    json_files.read(file)


def test_a_missing_file_and_a_folder_are_named(tmp_path: pathlib.Path) -> None:
  with pytest.raises(InputError, match=r'no\.json is no file\. Give one\.'):
    json_files.read(tmp_path / 'no.json', advice='Give one.')
  with pytest.raises(InputError, match='is no file'):
    json_files.read(tmp_path)


def test_a_value_of_its_form_passes_and_further_keys_do() -> None:
  json_files.check(GOOD, 'results', FORM)
  json_files.check({**GOOD, 'numbers': {}, 'names': ()}, 'results', FORM)
  json_files.check(1, 'x', float)


@pytest.mark.parametrize(
  ('changes', 'told'),
  [
    ({'numbers': []}, 'results: numbers is a list; expected an object.'),
    ({'numbers': {'accuracy': 5}}, 'results: numbers.accuracy is 5; expected an object.'),
    ({'numbers': {'accuracy': {'n': 1}}}, 'numbers.accuracy.value is missing; expected a number'),
    (
      {'numbers': {'accuracy': {'value': 'x', 'n': 1}}},
      "results: numbers.accuracy.value is 'x'; expected a number or null.",
    ),
    (
      {'numbers': {'accuracy': {'value': None, 'n': True}}},
      'results: numbers.accuracy.n is True; expected a whole number.',
    ),
    ({'names': ['a', None]}, 'results: names[1] is None; expected a text.'),
    ({'names': 'ab'}, "results: names is 'ab'; expected a list."),
  ],
)
def test_the_place_of_another_form_is_named(changes: dict[str, Any], told: str) -> None:
  with pytest.raises(InputError) as raised:
    json_files.check({**GOOD, **changes}, 'results', FORM)
  assert told in str(raised.value)


def test_a_long_value_is_shown_in_short() -> None:
  with pytest.raises(InputError) as raised:
    json_files.check('x' * 10_000, 'results', dict)
  assert len(str(raised.value)) < 100
