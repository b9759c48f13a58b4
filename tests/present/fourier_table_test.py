"""The summary `fourier_table` makes the paper's tables from the paper's accuracies."""

import dataclasses

import numpy as np
import pytest

from robustness.combined import join_tasks
from robustness.estimates.published import TABLE_3, TABLE_4
from robustness.estimates.table import assemble, select
from robustness.evaluation.study import Evaluation
from robustness.present import fourier_table
from robustness.results import Results
from robustness.studies import corruption_error
from tests.made_records import made
from tests.table_rows import estimate

LABELS = ('natural', 'gaussian', 'high_pass')
STUDY = corruption_error.CorruptionError(corruptions=('fourier_cifar',), severities=(3,))
ROWS = 10_000  # an accuracy of four decimals is a whole number of them


def made_records(path, label: str) -> Evaluation:
  """Returns records of 10,000 images that have the accuracies which the paper prints."""
  corrupted = (TABLE_3.corrupted[label][name] for name in STUDY.names)
  wrong = np.arange(ROWS)[:, None] >= np.round(np.array([TABLE_3.clean[label], *corrupted]) * ROWS)
  return made(path / label, {'rank': 9 * wrong}, label=label)


@pytest.fixture(scope='module')
def results(tmp_path_factory):
  folder = tmp_path_factory.mktemp('records')
  evaluations = [made_records(folder, label) for label in LABELS]
  data, described = ({'num_examples': ROWS}, [{'label': label} for label in LABELS])
  table = assemble(STUDY.reduce(evaluations, (32, 32, 3)).estimates)
  results = Results(STUDY.name, described, data, STUDY.describe(), table=table)
  results.quantities = STUDY.quantities
  return results


@pytest.mark.slow
def test_measured_rows_equal_the_published_ones_which_the_table_of_a_battery_has(results):
  printed = fourier_table.published(results)
  facets = ['corruption', 'corruption_set']
  keys = ['classifier', 'versus', 'quantity', *facets]
  measured = results.table[results.table.severity.isna()]
  merged = printed.merge(measured, on=keys, suffixes=('', '_measured'))
  levels = merged[merged.versus == '']
  assert len(levels) == len(LABELS) * (1 + 15 + 2), 'clean, corruptions, average and mCE'
  tolerance = np.where(levels['quantity'] == 'mCE', 3e-4, 6e-5)
  assert (np.abs(levels.value - levels.value_measured) <= tolerance).all()
  of_set = {'corruption_set': 'fourier_cifar', 'source': 'published'}
  assert estimate(printed, 'gaussian', 'mCE', **of_set).value == 0.9831
  assert estimate(printed, 'high_pass', 'mCE', **of_set).value == 1.4449
  swapped = [results.classifiers[k] for k in (1, 0, 2)]
  other = fourier_table.published(dataclasses.replace(results, classifiers=swapped))
  fog = estimate(other, 'natural', 'error', 'gaussian', corruption='fog', source='published')
  assert fog.value == pytest.approx(0.7194 - 0.8997) and 'mCE' not in set(other['quantity'])
  assert (printed.low.isna() & (printed['source'] == 'published') & (printed.n == 10_000)).all()
  tasks = {'errors': results}
  table = join_tasks(tasks, {}, 'fourier_table', fourier_table.summarise(tasks)).table
  places = {'task': 'errors'}, {'source': 'published'}
  fog = 'gaussian', 'error', 'natural'
  pair = [estimate(table, *fog, corruption='fog', **place).value for place in places]
  assert pair == pytest.approx([0.8997 - 0.7194] * 2, abs=1e-6)
  assert table[table['source'].notna()].task.isna().all()


@pytest.mark.slow
def test_the_table_pairs_measured_with_published_values_and_no_sign_is_opposite(results):
  tables = fourier_table.summarise({'errors': results}).tables
  table = tables['table 3']
  assert list(table.columns[1:3]) == ['natural', 'natural, published']
  rows = {str(row[0]): row[1:] for row in table.rows}
  assert len(rows) == 1 + 15 + 2
  assert rows['top-1 error on clean images (%)'][1::2] == ['3.74', '6.31', '6.22']
  measured, published = rows['top-1 error under fog (%)'][2:4]
  assert measured.startswith('28.1 (') and published == '28.06'
  rows = {str(row[0]): row[1:] for row in tables['agreement'].rows}
  assert set(rows) == {'gaussian', 'high_pass'}
  assert rows['gaussian'][1] == rows['high_pass'][1] == 'none', 'none is opposite'
  assert len(str(rows['high_pass'][0]).split(', ')) == 15
  changes = fourier_table.changes(results)
  assert len(changes) == 30
  np.testing.assert_allclose(changes.value, changes.published, atol=1e-6)
  figures = fourier_table.draw({'errors': results})
  assert list(figures) == ['agreement'] and len(figures['agreement'][0].axes) == 2


def test_other_labels_have_no_published_values_and_table_1_needs_fog_noise(results):
  names = {'natural': 'natural', 'gaussian': 'fog_noise', 'high_pass': 'mine'}
  relabelled = results.table.replace({'classifier': names})
  labels = [{'label': label} for label in names.values()]
  other = dataclasses.replace(results, classifiers=labels, table=relabelled)
  findings = fourier_table.summarise({'errors': other})
  assert all(row[-1] == '' for row in findings.tables['table 3'].rows)
  (fog,) = findings.tables['table 1'].rows
  assert fog[0] == 'top-1 error under fog at severity 3 (%)'
  assert fog[2] == '6.05' and fog[3].startswith('28.1 (') and fog[4] == '18.80'
  (printed,) = findings.estimates
  of_fog = select(printed, 'error', corruption='fog', severity=..., source='published')
  assert of_fog[of_fog.classifier == 'fog_noise'].value.iloc[-1] == pytest.approx(1 - 0.4626)
  assert 'table 1' not in fourier_table.summarise({'errors': results}).tables


def test_the_measured_set_chooses_the_table_and_another_baseline_has_no_published_mce(results):
  of_set = results.table.replace({'corruption_set': {'fourier_cifar': 'fourier_imagenet'}})
  large = dataclasses.replace(results, table=of_set)
  assert fourier_table.published_table(large) == (TABLE_4, 'fourier_imagenet')
  assert fourier_table.published_table(results) == (TABLE_3, 'fourier_cifar')
  settings = {**results.settings, 'baseline': 'cifar10_standard'}
  printed = fourier_table.published(dataclasses.replace(results, settings=settings))
  assert 'mCE' not in set(printed['quantity']), 'measured mCE divides by other errors'


def test_results_without_corruption_errors_have_no_summary(results):
  plain = Results('accuracy', [{'label': 'any'}], {'num_examples': 3}, {})
  findings = fourier_table.summarise({'plain': plain})
  assert not findings.tables and not findings.estimates
  assert not fourier_table.draw({'plain': plain})
  battery = join_tasks({'plain': plain, 'errors': results}, {})
  assert battery.study == 'battery' and set(battery.table.task) == {'errors'}
  assert [row[0] for row in battery.tables['tasks'].rows] == ['plain', 'errors']
