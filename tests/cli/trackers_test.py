"""`robustness export` sends the log and results of each classifier to trackers, once."""

import json
import sys

import pytest

from robustness.__main__ import main
from robustness.cli import trackers
from tests.refusals import refused

SECOND = {'results/second/error': 0.25, 'results/second minus first/error': -0.25}
LINES = [
  {'step': 10, 'time': 1.0, 'classifier': 'first', 'train/loss': 2.0, 'train/accuracy': 0.1},
  {'step': 10, 'time': 1.5, 'classifier': 'first', 'evaluation/accuracy': 0.2},
  {'step': 20, 'time': 2.0, 'classifier': 'first', 'train/loss': None},
  {'step': 20, 'time': 3.0, 'classifier': 'first', 'train/loss': 1.0},
  {'step': 5, 'time': 4.0, 'classifier': 'second', 'train/loss': 3.0},
  {'step': 0, 'time': 5.0, 'results/first/error/severity=1': 0.5, **SECOND},
]


@pytest.fixture
def workdir(tmp_path):
  """A workdir with `LINES` in its log."""
  (tmp_path / 'log.jsonl').write_text(''.join(f'{json.dumps(line)}\n' for line in LINES))
  (tmp_path / 'config.json').write_text(json.dumps({'seed': 3, 'study': {'name': 'accuracy'}}))
  (tmp_path / 'environment.json').write_text(json.dumps({'command': 'main.py'}))
  (tmp_path / 'results.json').write_text('{}')
  return tmp_path


def test_a_log_is_read_by_classifier_and_step(workdir):
  first, second = trackers.logged(workdir)
  values = {'train/loss': 2.0, 'train/accuracy': 0.1, 'evaluation/accuracy': 0.2}
  assert first.steps == [(10, 1.5, values), (20, 3.0, {'train/loss': 1.0})]
  assert first.results == {'results/first/error/severity=1': 0.5}
  assert second.results == SECOND and first.identity != second.identity
  assert first == next(trackers.logged(workdir))


def test_names_have_the_characters_that_mlflow_takes():
  name = "results/net/accuracy/class=crane (bird), carpenter's kit"
  assert trackers._allowed(name) == 'results/net/accuracy/class crane  bird   carpenter s kit'


def test_a_log_that_is_missing_or_damaged_is_refused(workdir):
  file = workdir / 'log.jsonl'
  file.write_text(file.read_text() + '{"step": 3\n')
  refused('log.jsonl: line 7 is damaged: .{"step": 3', list, trackers.logged(workdir))
  file.unlink()
  refused('has no log.jsonl: nothing was trained', list, trackers.logged(workdir))


def test_seeds_are_sent_before_their_results_are_joined(workdir, monkeypatch, capsys):
  (workdir / 'seed0').mkdir()
  (workdir / 'log.jsonl').rename(workdir / 'seed0/log.jsonl')
  monkeypatch.setitem(trackers.TRACKERS, 'wandb', lambda sent, *arguments: 'sent')
  assert main(['export', str(workdir), '--to=wandb']) == 0
  assert [line.partition(':')[2] for line in capsys.readouterr().out.splitlines()] == [' sent'] * 2


@pytest.mark.parametrize('name', trackers.TRACKERS)
def test_a_tracker_that_is_not_installed_is_named(workdir, monkeypatch, capsys, name):
  monkeypatch.setitem(sys.modules, name, None)
  assert main(['export', str(workdir), f'--to={name}']) == 2
  assert f'--to={name} needs {name}: pip install {name}' in capsys.readouterr().err


def test_mlflow_has_every_step_once_if_a_log_is_sent_twice(workdir, tmp_path, monkeypatch, capsys):
  mlflow = pytest.importorskip('mlflow', reason='mlflow is not installed')
  monkeypatch.setenv('MLFLOW_ALLOW_FILE_STORE', 'true')
  monkeypatch.setenv('MLFLOW_TRACKING_URI', f'file://{tmp_path}/mlruns')
  mlflow.set_tracking_uri(f'file://{tmp_path}/mlruns')
  for _ in range(2):
    assert main(['export', str(workdir), '--to=mlflow', '--project=mine']) == 0
  client = mlflow.MlflowClient()
  experiment = client.get_experiment_by_name('mine')
  runs = client.search_runs([experiment.experiment_id])
  assert len(runs) == 2
  [first] = [run for run in runs if run.data.tags['mlflow.runName'].endswith('first')]
  history = client.get_metric_history(first.info.run_id, 'train/loss')
  assert [(metric.step, metric.value) for metric in history] == [(10, 2.0), (20, 1.0)]
  assert first.data.metrics['results/first/error/severity 1'] == 0.5
  assert first.data.params['study.name'] == 'accuracy'


def test_wandb_writes_offline_runs_without_a_network(workdir, monkeypatch, capsys):
  pytest.importorskip('wandb', reason='wandb is not installed')
  monkeypatch.setenv('WANDB_MODE', 'offline')
  assert main(['export', str(workdir), '--to=wandb']) == 0
  assert len([*workdir.glob('wandb/offline-run-*')]) == 2
