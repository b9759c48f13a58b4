"""`robustness leaderboard` checks entries, ranks those on the same images and writes a page."""

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest

import robustness
from robustness.__main__ import main
from robustness.estimates.corruption_error import MCE
from robustness.estimates.table import select
from robustness.results import WHICH_NUMBERS, Results
from tests import finished_runs
from tests.cases import cases
from tests.commands import ROOT

pytestmark = pytest.mark.usefixtures('undrawn')
NUM_RIGHT, COUNT = {'poor': 10, 'fair': 32, 'good': 34}, 40


@pytest.fixture(scope='module')
def written(tmp_path_factory):
  """A folder of three workdirs on the same images, and `elsewhere` on others without records."""
  folder = tmp_path_factory.mktemp('board')
  for name, number in NUM_RIGHT.items():
    right = {name: [place < number for place in range(COUNT)]}
    finished_runs.write(folder / name, right, digests=range(COUNT))
    finished_runs.state_images(folder / name, COUNT, 'aaa')
  shutil.copytree(folder / 'good', folder / 'elsewhere')
  shutil.rmtree(folder / 'elsewhere/records')
  finished_runs.state_images(folder / 'elsewhere', COUNT, 'bbb')
  return folder


@pytest.fixture
def board(written, tmp_path):
  """A copy of the folder `written` that a test may change."""
  return shutil.copytree(written, tmp_path, dirs_exist_ok=True)


def change(folder, edit):
  """Applies `edit` to the JSON document results.json in a folder."""
  finished_runs.edit(folder / 'results.json', edit)


def test_entries_on_the_same_images_are_ranked_and_paired(
  board, tmp_path_factory, capsys, monkeypatch
):
  monkeypatch.undo()  # draws the figures
  out = tmp_path_factory.mktemp('site')
  assert main(['leaderboard', str(board), f'--out={out}']) == 0
  tasks = Results.read(out).by_task
  assert {name: len(board.labels) for name, board in tasks.items()} == {
    'accuracy': 1,
    'accuracy 2': 3,
  }
  results = tasks['accuracy 2']
  ranked = results.table[results.table['quantity'] == 'rank']
  ends = {row.classifier: (row.value, row.low, row.high) for row in ranked.itertuples()}
  assert ends == {'fair': (1, 1, 2), 'good': (1, 1, 2), 'poor': (3, 3, 3)}
  paired = results.table[results.table.versus != '']
  differences = dict(zip(paired.classifier, paired.value, strict=True))
  assert differences == pytest.approx({'good': 2 / COUNT, 'poor': -22 / COUNT})
  page = (out / 'report.html').read_text()
  assert page.count('Where every number comes from') == 2
  assert 'written to' in capsys.readouterr().out


def test_a_check_names_the_fault_of_each_entry(board, capsys):
  assert main(['leaderboard', str(board), '--check']) == 0
  assert capsys.readouterr().out == '4 entries are as they should be, 0 are not.\n'
  change(board / 'good', lambda document: document['tables'].pop(WHICH_NUMBERS))
  (board / 'fair/results.csv').write_text('classifier,value\n')
  change(board / 'elsewhere', lambda document: document['quantities'][0].update(words='another'))
  main(['leaderboard', str(board), '--check'])
  assert capsys.readouterr().out.endswith('2 are not.\n'), 'elsewhere is on another board'
  finished_runs.state_images(board / 'elsewhere', COUNT, 'aaa')
  assert main(['leaderboard', str(board), '--check']) == 1
  output = capsys.readouterr()
  assert output.out == '1 entries are as they should be, 3 are not.\n'
  fair, good, poor = output.err.splitlines()
  assert 'poor: it declares the quantity top1_accuracy otherwise than elsewhere' in poor
  assert fair.startswith('error: fair: ') and 'results.csv' in fair
  assert good.startswith('error: good: its results do not say which images it saw')


@cases(
  'edit, message',
  (lambda d: d['tables'][WHICH_NUMBERS].update(columns=['a', 'b'] * 2, rows=[[1] * 4]), 'not say'),
  (lambda d: d['quantities'][0].update(low='x'), r"quantities: .*low is 'x'; expected a number"),
  (lambda d: d['quantities'][0].update(words=5), 'words is 5; expected a text'),
  (lambda d: d.update(classifiers=[]), 'its results are of no classifier'),
)
def test_damage_is_named_and_intact_entries_are_counted(board, capsys, edit, message):
  change(board / 'elsewhere', edit)
  assert main(['leaderboard', str(board), '--check']) == 1
  output = capsys.readouterr()
  assert output.out == '3 entries are as they should be, 1 are not.\n'
  assert output.err.startswith('error: elsewhere: ') and re.search(message, output.err)


def test_the_entries_of_the_repository_are_as_they_should_be(tmp_path, capsys):
  assert main(['leaderboard', str(ROOT / 'leaderboard'), f'--out={tmp_path}']) == 0
  assert not capsys.readouterr().err
  results = Results.read(tmp_path)
  ranked = results.table[results.table['quantity'] == 'rank']
  levels = (f'{name} over the official corruptions' for name in ('top-1 error', MCE.words))
  assert {*ranked.ranked_by} == {*levels}, "no set of another paper's images"
  errors = select(results.table, 'error', versus=None, corruption_set='official')
  assert dict(zip(errors.classifier + errors.versus, errors.value.round(3), strict=True)) == {
    'resnet20': 0.309,
    'resnet56': 0.284,
    'resnet56resnet20': -0.025,
  }


@pytest.mark.slow
def test_an_added_run_is_ranked_as_its_workdir_and_is_smaller(board, tmp_path_factory, capsys):
  small, sites = tmp_path_factory.mktemp('small'), tmp_path_factory.mktemp('sites')
  names = ('poor', 'fair', 'good')
  config = board / 'poor/config.json'
  data = {'source': 'tfds', 'name': 'cifar10'}  # keys of an earlier version
  config.write_text(json.dumps({**json.loads(config.read_text()), 'data': data}))
  added = [f'--add={board / name}' for name in names]
  assert main(['leaderboard', str(small), *added, f'--out={sites / "small"}']) == 0
  assert capsys.readouterr().out.count('rank of the true class for every answer') == len(names)
  assert main(['leaderboard', str(board), f'--out={sites / "whole"}']) == 0
  all_estimates = Results.read(sites / 'whole').by_task['accuracy 2'].table
  pd.testing.assert_frame_equal(Results.read(sites / 'small').table, all_estimates)
  assert not Results.read(small / 'good').arrays
  assert main(['leaderboard', str(small), f'--add={board / "good"}']) == 2
  assert f'as in --add=NAME={board / "good"}' in capsys.readouterr().err
  assert main(['leaderboard', str(small), f'--add=again={board / "good"}']) == 0


def test_a_page_is_not_written_over_an_entry_or_a_run(board, tmp_path, monkeypatch, capsys):
  inside = board / '../elsewhere/..' / board.name / 'site'
  for out, message in ((board / 'good', 'is a workdir'), (inside, 'folder of the entries')):
    assert main(['leaderboard', str(board), f'--out={out}']) == 2
    assert message in capsys.readouterr().err
  (tmp_path / 'config.json').write_text('{}')
  (tmp_path / 'environment.json').write_text('{}')
  assert main(['leaderboard', str(board), f'--out={tmp_path / "tasks" / "clean"}']) == 2
  monkeypatch.setenv('HOME', str(tmp_path))
  assert main(['leaderboard', str(board), '--out=~']) == 2
  assert f'--out is {tmp_path}, and {tmp_path} is a workdir' in capsys.readouterr().err


def test_studies_that_need_more_than_ranks_are_added_without_them(tmp_path, capsys):
  right = {'one': np.arange(60).reshape(12, 5) % 3 > 0}
  study = finished_runs.write_versions(tmp_path / 'run', right, stored=False, name='calibration')
  finished_runs.state_images(study, COUNT, 'aaa')
  assert main(['leaderboard', str(tmp_path / 'board'), f'--add={study}']) == 0
  assert 'run: the results alone: ranks are not enough (records have no ' in capsys.readouterr().out
  assert not (tmp_path / 'board/run/records').exists()


def test_an_entry_that_lacks_shards_is_refused(board, capsys):
  next((board / 'good/records').rglob('*.npz')).unlink()
  assert main(['leaderboard', str(board), '--check']) == 1
  error = capsys.readouterr().err
  assert 'good: ' in error and 'lacks shards' in error


def test_ratios_to_the_first_classifier_of_a_run_have_no_rank(tmp_path, capsys):
  for name in ('one', 'two'):
    results = {name: np.arange(60).reshape(12, 5) % 3 > 0}
    finished_runs.write_versions(tmp_path / 'board' / name, results, stored=False)
    finished_runs.state_images(tmp_path / 'board' / name, COUNT, 'aaa')
  assert main(['leaderboard', str(tmp_path / 'board'), f'--out={tmp_path / "site"}']) == 0
  assert {*Results.read(tmp_path / 'site').table['quantity']} == {'rank', 'error', 'accuracy'}


def test_results_that_rank_nothing_are_no_entry_and_keep_none_from_the_page(board, capsys):
  shutil.copytree(board / 'elsewhere', board / 'nothing')

  def unranked(document):
    for quantity in document['quantities']:
      quantity['headline'] = False

  change(board / 'nothing', unranked)
  assert main(['leaderboard', str(board), f'--out={board.parent / "site"}']) == 1
  assert 'nothing: no headline of the study accuracy ranks' in capsys.readouterr().err
  assert len(Results.read(board.parent / 'site').by_task) == 2


def test_folders_without_entries_are_refused(tmp_path, capsys):
  assert main(['leaderboard', str(tmp_path), '--check']) == 2
  assert 'holds no entry' in capsys.readouterr().err
  assert main(['leaderboard', str(tmp_path / 'none'), '--check']) == 2
  assert 'is no folder' in capsys.readouterr().err


@pytest.mark.slow
def test_a_study_with_a_quantity_that_is_called_accuracy_is_ranked(tmp_path):
  generator = np.random.default_rng(0)
  images = generator.random((8, 4, 4, 1), np.float32)
  first, second = generator.normal(size=(2, 16, 2)).astype(np.float32)
  models = {'a': lambda x: x.reshape(-1, 16) @ first, 'b': lambda x: x.reshape(-1, 16) @ second}
  robustness.measure('class_balance', models, images, np.arange(8) % 2, workdir=tmp_path / 'run')
  assert main(['leaderboard', str(tmp_path / 'board'), f'--add={tmp_path / "run"}']) == 0
