"""Tests the study `all_but_one`, which joins networks that each leave one corruption out."""

import numpy as np
import pytest

from configs.all_but_one import CORRUPTIONS, get_config
from robustness.estimates.published import ALL_BUT_ONE
from robustness.studies.all_but_one import COMPOSED, PUBLISHED, AllButOne
from tests.cases import cases
from tests.end_to_end import runs
from tests.made_records import made
from tests.refusals import refused
from tests.studies.conftest import table_of
from tests.table_rows import estimate

STUDY = AllButOne(corruptions=('fog', 'contrast'), severities=(1, 3))
CELLS = [('fog', 1), ('fog', 3), ('contrast', 1), ('contrast', 3)]
ROWS = 50


def recipe(name, severity, corruptions=('official',), probability=1.0):
  """Returns the recipe of a network that leaves out a corruption at a severity."""
  corruption = {'name': 'corruption', 'left_out': [name], 'severities': [severity]}
  corruption |= {'corruptions': [*corruptions], 'probability': probability}
  return {'augment': [{'name': 'flip'}, corruption]}


def evaluations(folder, cells=CELLS):
  """Writes records of 50 images of the networks that leave out the cells.

  Network i has 10 + i errors in its cell and 3 i on clean images; other answers are wrong.
  """
  networks = []
  for cell, (name, severity) in enumerate(cells):
    wrong = np.full(1 + len(CELLS), ROWS)
    order = [(n, s) for n in STUDY.names for s in STUDY.severities]
    wrong[0], wrong[1 + order.index((name, severity))] = 3 * cell, 10 + cell
    rank = (np.arange(ROWS)[:, None] < wrong).astype(int)
    label = f'{name}_{severity}'
    networks.append(made(folder / label, {'rank': rank}, classifier=recipe(name, severity)))
  return networks


def test_each_corruption_is_answered_by_the_network_that_left_it_out(tmp_path):
  table = table_of(STUDY, evaluations(tmp_path), (32, 32, 3))
  for place, (name, severity) in enumerate(CELLS):
    cell = estimate(table, COMPOSED, 'error', corruption=name, severity=severity)
    assert cell.value == pytest.approx((10 + place) / ROWS) and cell.low < cell.value < cell.high
  mean = estimate(table, COMPOSED, 'error', corruption='contrast')
  assert mean.value == pytest.approx((12 + 13) / 2 / ROWS) and mean.n == ROWS
  clean = estimate(table, COMPOSED, 'clean_error')
  assert clean.value == pytest.approx(4.5 / ROWS), 'the mean of 0, 3, 6 and 9 errors'
  printed = estimate(table, PUBLISHED, 'error', corruption='contrast')
  assert printed.note == 'over five severities', 'the study has two'
  assert printed.value == pytest.approx(1 - 0.9015) and np.isnan(printed.low)
  assert estimate(table, PUBLISHED, 'clean_error').value == pytest.approx(1 - 0.9546)


def test_the_mean_over_severities_needs_every_severity(tmp_path):
  table = table_of(STUDY, evaluations(tmp_path, CELLS[:3]), (32, 32, 3))
  means = table[(table.classifier == COMPOSED) & table.severity.isna() & table.corruption.notna()]
  assert list(means.corruption) == ['fog']


@cases(
  'recipes, message',
  ({'one': {}}, r'one leaves out the corruptions \(\) at the severities \(\)'),
  ({'one': {'augment': recipe('fog', 1)['augment'] * 2}}, 'part corruption once'),
  ({'one': recipe('snow', 1)}, r"'snow',\) .* \(1,\), which is not shown"),
  ({'one': recipe('fog', 2)}, r"'fog',\) .* \(2,\), which is not shown"),
  ({'one': recipe('fog', 1), 'two': recipe('fog', 1)}, 'two leaves out .*, as one does'),
  ({'one': recipe('fog', 1, probability=0)}, 'one leaves out .*probability above 0'),
  (
    {'one': recipe('fog', 1), 'two': recipe('contrast', 1, ('fog', 'contrast'))},
    'two leaves out .*of others than the first',
  ),
)
def test_networks_outside_the_design_are_refused(recipes, message):
  refused(message, STUDY.networks, recipes)


def test_the_config_is_the_published_design_and_the_union_of_its_parts():
  complete = get_config('cifar10')
  assert set(CORRUPTIONS) | {'clean'} == set(ALL_BUT_ONE)
  assert len(complete.classifiers) == 65
  assert complete.study.protocol == 'as_released', 'as the other columns of table 3'
  for name in CORRUPTIONS:
    for label, classifier in get_config(name).classifiers.items():
      assert classifier.to_dict() == complete.classifiers[label].to_dict()
      assert classifier.augment.corruption.left_out == (name,) and label.startswith(name)


@pytest.mark.slow
def test_checkpoints_of_separate_runs_are_joined_in_one_workdir(tmp_path):
  changes = {'study.severities': (1,)}
  config = runs.shrunk('all_but_one', '', changes)
  for label in ('contrast_5', 'impulse_noise_5'):
    del config.classifiers[label]
  for classifier in config.classifiers.values():
    classifier.augment.corruption.corruptions = ('contrast', 'impulse_noise', 'brightness')
  results = runs.run(config, tmp_path / 'all', drawn=False)
  for label in ('contrast_1', 'impulse_noise_1'):
    part = config.copy_and_resolve_references()
    for removed in set(part.classifiers) - {label}:
      del part.classifiers[removed]
    runs.run(part, tmp_path / label, drawn=False)
    folder = tmp_path / 'joined' / 'checkpoints'
    folder.mkdir(parents=True, exist_ok=True)
    (tmp_path / label / 'checkpoints' / label).rename(folder / label)
  times = {p: p.stat().st_mtime_ns for p in folder.glob('*/checkpoints/*')}
  joined = runs.run(config, tmp_path / 'joined')
  runs.assert_pictures('all_but_one', tmp_path / 'joined')
  assert times and times == {p: p.stat().st_mtime_ns for p in folder.glob('*/checkpoints/*')}
  runs.assert_same_findings(tmp_path / 'all', tmp_path / 'joined')
  assert joined.labels == results.labels == [COMPOSED, PUBLISHED]
