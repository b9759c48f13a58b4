"""Results are read as they were written, have reproducible bytes, and damaged files are refused."""

import dataclasses
import json
import math

import numpy as np
import pytest

from robustness.results import Results, Table, read
from tests.cases import cases
from tests.refusals import refused


def example() -> Results:
  """Returns results with values and arrays of many types."""
  return Results(
    study='fourier_heatmap',
    classifiers=[{'label': 'plain', 'name': 'small_cnn', 'parameters': np.int64(1234)}],
    data={'source': 'digits', 'num_examples': 1000},
    settings={'norm': np.float32(4.0), 'layers': ('a', 'b'), 'clip': np.bool_(False)},
    tables={'bands': Table(['band', 'error'], [['low', 0.1], ['high', None]])},
    arrays={
      'plain/error': np.arange(6, dtype=np.float32).reshape(2, 3),
      'frequency_y': np.array([-1, 0, 1], np.int32),
      'scalar': np.float64(2.5),
      'significant': np.array([[True, False]]),
      'layers': np.array(['a', 'bb']),
      'transposed': np.arange(6.0).reshape(2, 3).T,
    },
  )


def test_results_are_read_as_they_were_written(tmp_path):
  results = example()
  results.write(tmp_path)
  read = Results.read(tmp_path)
  assert (read.study, read.data) == (results.study, results.data)
  assert read.classifiers[0]['parameters'] == 1234
  assert read.settings == {'norm': 4.0, 'layers': ['a', 'b'], 'clip': False}
  assert read.tables['bands'] == results.tables['bands']
  assert set(read.arrays) == set(results.arrays)
  for name, values in results.arrays.items():
    np.testing.assert_array_equal(read.arrays[name], values)
    assert read.arrays[name].dtype == np.asarray(values).dtype
    assert read.arrays[name].shape == np.shape(values)
  Results('accuracy', [], {}, {}).write(tmp_path)
  assert Results.read(tmp_path).arrays == {}


def test_json_is_strict_and_has_the_agreed_keys(tmp_path):
  example().write(tmp_path)

  def refuse(constant):
    raise AssertionError(f'{constant} is not JSON')

  document = json.loads((tmp_path / 'results.json').read_text(), parse_constant=refuse)
  described = ['study', 'classifiers', 'data', 'settings', 'environment']
  tables = ['tables', 'arrays', 'facets', 'facet_words', 'quantities']
  assert list(document) == [*described, *tables]
  assert document['arrays'] == 'results.npz'


def test_the_same_results_are_the_same_bytes(tmp_path):
  results = example()
  backwards = dataclasses.replace(results, arrays=dict(reversed(results.arrays.items())))
  results.write(tmp_path / 'a')
  backwards.write(tmp_path / 'b')
  for name in ('results.json', 'results.csv', 'results.npz'):
    assert (tmp_path / 'a' / name).read_bytes() == (tmp_path / 'b' / name).read_bytes()


def test_prefixes_name_classifiers_only_where_there_are_several():
  single = example()
  pair = dataclasses.replace(single, classifiers=[{'label': 'plain'}, {'label': 'gaussian'}])
  assert single.prefixes == {'plain': ''}
  assert pair.prefixes == {'plain': 'plain/', 'gaussian': 'gaussian/'}


@cases(
  'changes, message',
  ({'settings': {'norm': {'v': math.inf}}}, r'results\.settings\.norm\.v is inf'),
  ({'data': {'rows': [1, object()]}}, r'results\.data\.rows\[1\] is a object'),
  ({'arrays': {'bad': np.array([None])}}, "array 'bad' has dtype object"),
)
def test_values_that_files_cannot_hold_are_refused_by_name(tmp_path, changes, message):
  refused(message, dataclasses.replace(example(), **changes).write, tmp_path)
  assert not (tmp_path / 'results.json').exists()
  refused('row 1 of a table has 1 cells for 2 columns', Table, ['a', 'b'], [[1, 2], [3]])


@pytest.mark.parametrize('name', ['results.json', 'results.npz'])
@pytest.mark.parametrize('share', [0, 0.3, 0.9])
def test_truncated_files_are_refused(tmp_path, name, share):
  example().write(tmp_path)
  content = (tmp_path / name).read_bytes()
  (tmp_path / name).write_bytes(content[: int(share * len(content))])
  refused(rf'{name} is truncated or (no|is no) .*Run the same command', Results.read, tmp_path)


def test_results_are_found_in_the_home_folder(tmp_path, monkeypatch):
  example().write(tmp_path / 'run')
  monkeypatch.setenv('HOME', str(tmp_path))
  assert read('~/run').study == example().study


def test_missing_files_and_keys_are_refused(tmp_path):
  refused(r'no results\.json in', Results.read, tmp_path)
  example().write(tmp_path)
  (tmp_path / 'results.npz').unlink()
  refused(r'results\.npz .*No such file.* Run the same command', Results.read, tmp_path)
  document = json.loads((tmp_path / 'results.json').read_text())
  del document['facets']
  (tmp_path / 'results.json').write_text(json.dumps(document))
  refused(r'facets is missing.* Run the same command', Results.read, tmp_path)


@pytest.mark.parametrize('text', ['{"study": "x"}', '[1, 2]', '"text"', '{"tables": {"a": 3}}'])
def test_json_of_something_else_is_refused(tmp_path, text):
  (tmp_path / 'results.json').write_text(text)
  refused(r'results\.json.*; expected .*Run the same command', Results.read, tmp_path)
