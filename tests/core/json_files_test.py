"""Tests that errors about a JSON file are one line that names the file and the place."""

import re

import pytest

from robustness.core import json_files
from tests.cases import cases
from tests.refusals import refused

DAMAGED = {
  'truncated': b'{"a": 1',
  'empty': b'',
  'not UTF-8': b'\xff\xfe{}',
  'nested too deeply': b'[' * 200_000,
  'nested 100 times': b'[' * 100 + b']' * 100,
  'a key twice': b'{"a": 1, "a": 2}',
  'a number of too many digits': b'{"a": ' + b'9' * 5000 + b'}',
  'half of a character': b'{"a": "\\ud800"}',
  'a null byte': b'\0',
}
NOT_OBJECTS = [b'[]', b'null', b'5', b'"x"', b'true', b'[[{}]]']
FORM = {'numbers': {str: {'value': (float, type(None)), 'n': int}}, 'names': [str]}
GOOD = {'numbers': {'accuracy': {'value': 0.5, 'n': 3}}, 'names': ['a'], 'more': 1}


@pytest.mark.parametrize('content', [*DAMAGED.values(), *NOT_OBJECTS])
def test_errors_about_content_are_one_line(tmp_path, content):
  file, damaged = tmp_path / 'config.json', content in DAMAGED.values()
  file.write_bytes(content)
  problem = r' is truncated or no JSON \(.*\)' if damaged else ' holds .*; expected an object'
  message = rf'config\.json{problem}\. Write it anew\.'
  error = refused(message, json_files.read, file, advice='Write it anew.')
  assert '\n' not in error and len(error) < 400


def test_a_missing_file_and_a_folder_are_named(tmp_path):
  missing = tmp_path / 'no.json'
  refused(r'no\.json is no file\. Give one\.', json_files.read, missing, advice='Give one.')
  refused('is no file', json_files.read, tmp_path)


def test_valid_values_and_unknown_keys_are_accepted():
  json_files.check(GOOD, 'results', FORM)
  json_files.check({**GOOD, 'numbers': {}, 'names': ()}, 'results', FORM)
  json_files.check(1, 'x', float)


@cases(
  'changes, expected',
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
  ({'names': 'x' * 10_000}, 'xxx'),
)
def test_the_place_of_an_invalid_value_is_named(changes, expected):
  error = refused(re.escape(expected), json_files.check, {**GOOD, **changes}, 'results', FORM)
  assert len(error) < 100
