"""Results: the round trip through disk, reproducible bytes, and files that are no results."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.results import Results, Table


def example() -> Results:
  return Results(
    study='fourier_heatmap',
    classifier={'label': 'plain', 'name': 'small_cnn', 'parameters': np.int64(1234)},
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


def test_round_trip(tmp_path):
  results = example()
  results.write(tmp_path)
  read = Results.read(tmp_path)
  assert (read.study, read.data) == (results.study, results.data)
  assert read.classifier['parameters'] == 1234
  assert read.settings == {'norm': 4.0, 'layers': ['a', 'b'], 'clip': False}
  assert read.tables['bands'] == results.tables['bands']
  assert set(read.arrays) == set(results.arrays)
  for name, values in results.arrays.items():
    np.testing.assert_array_equal(read.arrays[name], values)
    assert read.arrays[name].dtype == np.asarray(values).dtype
    assert read.arrays[name].shape == np.shape(values)


def test_json_is_strict_and_has_the_agreed_keys(tmp_path):
  example().write(tmp_path)

  def refuse(constant):
    raise AssertionError(f'{constant} is not JSON')

  document = json.loads((tmp_path / 'results.json').read_text(), parse_constant=refuse)
  assert list(document) == [
    'study',
    'classifier',
    'data',
    'settings',
    'environment',
    'tables',
    'arrays',
    'facets',
    'quantities',
  ]
  assert document['arrays'] == 'results.npz'


def test_the_same_results_are_the_same_bytes(tmp_path):
  results = example()
  backwards = dataclasses.replace(results, arrays=dict(reversed(results.arrays.items())))
  results.write(tmp_path / 'a')
  backwards.write(tmp_path / 'b')
  for name in ('results.json', 'results.csv', 'results.npz'):
    assert (tmp_path / 'a' / name).read_bytes() == (tmp_path / 'b' / name).read_bytes()


def test_results_of_an_earlier_version_are_made_anew(tmp_path):
  """They have no table; the same command reduces the records again."""
  example().write(tmp_path)
  document = json.loads((tmp_path / 'results.json').read_text())
  del document['facets']
  (tmp_path / 'results.json').write_text(json.dumps(document))
  with pytest.raises(InputError, match=r'earlier version, .* no table .* Run the same command'):
    Results.read(tmp_path)


def test_results_without_arrays(tmp_path):
  Results('accuracy', {}, {}, {}).write(tmp_path)
  assert Results.read(tmp_path).arrays == {}


def test_prefixes_name_classifiers_only_where_there_are_several():
  single = example()
  several = dataclasses.replace(single, classifier=[{'label': 'plain'}, {'label': 'gaussian'}])
  assert single.prefixes == {'plain': ''}
  assert several.prefixes == {'plain': 'plain/', 'gaussian': 'gaussian/'}


def test_infinity_is_refused_by_name(tmp_path):
  results = dataclasses.replace(example(), settings={'norm': {'v': math.inf}})
  with pytest.raises(InputError, match=r'results\.settings\.norm\.v is inf'):
    results.write(tmp_path)
  assert not (tmp_path / 'results.json').exists()


def test_values_without_a_json_form_are_refused_by_name(tmp_path):
  results = dataclasses.replace(example(), data={'rows': [1, object()]})
  with pytest.raises(InputError, match=r'results\.data\.rows\[1\] is a object'):
    results.write(tmp_path)


def test_object_arrays_are_refused_by_name(tmp_path):
  results = dataclasses.replace(example(), arrays={'bad': np.array([None])})
  with pytest.raises(InputError, match="array 'bad' has dtype object"):
    results.write(tmp_path)


def test_table_rows_fit_their_columns():
  with pytest.raises(InputError, match='row 1 of a table has 1 cells for 2 columns'):
    Table(['a', 'b'], [[1, 2], [3]])


def test_missing_results(tmp_path):
  with pytest.raises(InputError, match=r'no results\.json in'):
    Results.read(tmp_path)


@pytest.mark.parametrize('name', ['results.json', 'results.npz'])
@pytest.mark.parametrize('kept', [0, 0.3, 0.9])
def test_truncated_files(tmp_path, name, kept):
  example().write(tmp_path)
  path = tmp_path / name
  content = path.read_bytes()
  path.write_bytes(content[: int(kept * len(content))])
  with pytest.raises(
    InputError, match=rf'{name} is truncated or (no|is no) .*Run the same command'
  ):
    Results.read(tmp_path)


def test_missing_arrays(tmp_path):
  example().write(tmp_path)
  (tmp_path / 'results.npz').unlink()
  with pytest.raises(InputError, match=r'results\.npz, which results\.json needs'):
    Results.read(tmp_path)


@pytest.mark.parametrize('text', ['{"study": "x"}', '[1, 2]', '"text"', '{"tables": {"a": 3}}'])
def test_json_that_is_no_results(tmp_path, text):
  (tmp_path / 'results.json').write_text(text)
  with pytest.raises(InputError, match=r'results\.json.*; expected .*Run the same command'):
    Results.read(tmp_path)
