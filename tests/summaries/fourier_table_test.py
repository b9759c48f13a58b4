"""The summary `fourier_table`: the paper's own accuracies give its tables; no baseline, no mCE."""

from __future__ import annotations

import copy
import dataclasses
import math

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.evaluation.study import Evaluation
from robustness.metrics.published_fourier import TABLE_3, TABLE_4
from robustness.metrics.seeds import over_seeds
from robustness.results import Results
from robustness.studies import accuracy, corruption_error
from robustness.summaries import fourier_table, join
from robustness.summaries.fourier_table import Settings
from robustness.summaries.joined import Joined
from robustness.summaries.joined import over_seeds as joined_over_seeds
from tests.studies.corruption_error_published_test import ROWS, made_records

LABELS = ('natural', 'gaussian', 'high_pass')
STUDY = corruption_error.Study(corruptions=('fourier_cifar',), severities=(3,))


@pytest.fixture(scope='module')
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
  """Results of records in which every accuracy is that of table 3."""
  folder = tmp_path_factory.mktemp('records')
  evaluations: list[Evaluation] = [
    made_records(folder, STUDY, label, TABLE_3.clean[label], TABLE_3.corrupted[label])
    for label in LABELS
  ]
  findings = STUDY.reduce(evaluations, (32, 32, 3))
  return Results(
    STUDY.name,
    [{'label': label} for label in LABELS],
    {'num_examples': ROWS},
    STUDY.described,
    findings.numbers,
    findings.tables,
    findings.arrays,
  )


def test_measured_columns_equal_the_published_ones_if_the_accuracies_do(results: Results) -> None:
  table = fourier_table.summarise(Settings(), {'errors': results}).tables['table 3']
  assert table.columns[1:3] == ('natural', 'natural, published')
  rows = {str(row[0]): np.array(row[1:], float) for row in table.rows}
  assert list(rows)[0] == 'clean images' and list(rows)[-2:] == ['average', 'mCE']
  assert len(rows) == 1 + 15 + 2
  for name, row in rows.items():
    tolerance = 3e-4 if name == 'mCE' else 6e-5
    np.testing.assert_allclose(row[0::2], row[1::2], atol=tolerance, err_msg=name)
  assert rows['mCE'][3] == 0.9831 and rows['mCE'][5] == 1.4449


def test_table_2_is_in_whole_percent_as_printed(results: Results) -> None:
  table = fourier_table.summarise(Settings(), {'errors': results}).tables['table 2']
  gaussian = dict(zip(table.columns, table.rows[2], strict=True))
  printed = {'acc': 83, 'mCE': 98, 'shot_noise': 92, 'glass_blur': 80, 'fog': 72, 'contrast': 57}
  assert {name: gaussian[name] for name in printed} == printed
  assert table.rows[2][1:] == table.rows[3][1:], 'measured above published'
  assert [row[0] for row in table.rows[::2]] == ['natural', 'gaussian'], 'no high pass in table 2'


def test_all_published_signs_are_found_in_the_published_accuracies(results: Results) -> None:
  table = fourier_table.summarise(Settings(), {'errors': results}).tables['agreement']
  rows = {str(row[0]): row[1:] for row in table.rows}
  assert set(rows) == {'gaussian', 'high_pass'}
  assert rows['gaussian'][1] == rows['high_pass'][1] == 'none', 'none is opposite'
  assert len(str(rows['high_pass'][0]).split(', ')) == 15
  changes = fourier_table.changes(Settings(), results)['gaussian']
  for name, (published, measured) in changes.items():
    assert measured.value == pytest.approx(published, abs=1e-6), name
    assert measured.low <= measured.value <= measured.high
  figures = fourier_table.draw(Settings(), {'errors': results})
  assert list(figures) == ['agreement'] and len(figures['agreement'][0].axes) == 2


def test_other_labels_have_no_published_column_and_table_1_needs_fog_noise(
  results: Results,
) -> None:
  described = [{'label': label} for label in ('natural', 'fog_noise', 'mine')]
  renamed = {'gaussian/': 'fog_noise/', 'high_pass/': 'mine/', 'natural/': 'natural/'}

  def renaming(entries: dict) -> dict:
    return {
      next((new + k.removeprefix(old) for old, new in renamed.items() if k.startswith(old)), k): v
      for k, v in entries.items()
    }

  other = Results(
    STUDY.name,
    described,
    results.data,
    results.settings,
    renaming(results.numbers),
    {},
    renaming(results.arrays),
  )
  tables = fourier_table.summarise(Settings(), {'errors': other}).tables
  assert all(math.isnan(row[-1]) for row in tables['table 3'].rows)
  fog = {str(row[0]): row[1:] for row in tables['table 1'].rows}
  assert fog['fog_noise, published'][1:] == [0.8120] and math.isnan(fog['fog_noise, published'][0])
  assert fog['natural'] == pytest.approx([0.9626, 0.8997])
  assert fog['natural, published'] == [0.9626, 0.9395]
  assert 'table 1' not in fourier_table.summarise(Settings(), {'errors': results}).tables


def test_table_4_has_its_own_accuracies() -> None:
  assert Settings(data='imagenet').published is TABLE_4
  with pytest.raises(InputError, match=r"fourier_table\.data is 'imagnet'; did you mean"):
    Settings(data='imagnet')


@pytest.mark.parametrize(
  ('labels', 'baseline', 'message'),
  [
    (('gaussian', 'low_pass'), 'first', "'natural', by whose errors mCE divides, .* gaussian, low"),
    (('gaussian', 'natural'), 'first', "errors divides by 'gaussian': put it first"),
    (('natural', 'gaussian'), 'alexnet', "errors divides by 'alexnet'"),
  ],
)
def test_a_missing_baseline_is_refused_before_anything_is_trained(
  labels: tuple[str, ...], baseline: str, message: str
) -> None:
  study = corruption_error.Study(baseline=baseline)
  with pytest.raises(InputError, match=message):
    fourier_table.check(Settings(), labels, {'plain': accuracy.Study(), 'errors': study})


def test_without_the_errors_there_are_no_tables_and_nothing_is_refused(results: Results) -> None:
  fourier_table.check(Settings(), ('any',), {'plain': accuracy.Study()})
  plain = Results('accuracy', {'label': 'any'}, {'num_examples': 3}, {})
  assert not fourier_table.summarise(Settings(), {'plain': plain}).tables
  assert not fourier_table.draw(Settings(), {'plain': plain})
  joined = join(None, {'plain': plain, 'errors': results}, {})
  assert 'errors/natural/clean_error' in joined.numbers and joined.study == 'battery'
  assert [row[0] for row in joined.tables['parts'].rows] == ['plain', 'errors']


def test_the_sentences_have_the_published_values_beside_intervals(results: Results) -> None:
  averages, agreement = fourier_table.sentences(Settings(), {'errors': results})
  lines = averages.replace('\N{NO-BREAK SPACE}', ' ').splitlines()
  assert lines[0] == 'Mean accuracy under the corruptions of table 3: '
  natural = TABLE_3.average['natural']
  assert lines[1].startswith(f'natural {100 * natural:.1f} % (')
  assert lines[1].endswith(f'), published {100 * natural:.1f} %;')
  assert 'gaussian 15 of the 15 whose interval excludes zero' in agreement
  assert 'for all 15 together), published ' in agreement


def test_numbers_alone_are_told_as_far_as_they_go(results: Results) -> None:
  parts = {'errors': results}
  joined = join(None, parts, {})
  whole = Joined(None, {'errors': STUDY}, parts).sentences(joined)
  from_numbers = Joined(None, {'errors': STUDY}).sentences(joined)
  assert from_numbers and set(from_numbers) <= set(whole)
  assert all(sentence.startswith('errors: ') for sentence in whole)
  assert fourier_table.sentences(Settings(), {}) == []


def test_means_over_seeds_are_told_with_their_spread(results: Results) -> None:
  other = copy.deepcopy(results)
  for name, error in other.numbers.items():
    shift = 0.2 if name == 'natural/clean_error' else 0.01
    other.numbers[name] = dataclasses.replace(error, value=error.value + shift)
  seeds = over_seeds({0: results, 1: other})
  told = joined_over_seeds(None, {'': STUDY}).sentences(seeds)
  assert 'averaged over severities and the images' in told[0], 'n is the number of seeds'
  assert told[-1].startswith(
    'Over 2 seeds, the share that another seed changes most is natural: error on clean images: '
  )
