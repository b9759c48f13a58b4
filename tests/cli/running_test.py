"""`--dry_run` forecasts what a run then does, refuses what it would refuse, and writes nothing."""

import logging
import os

import pytest

from robustness.cli import running
from robustness.cli.running import Forecast, timed
from robustness.config import experiment as experiments
from tests.end_to_end import runs


@pytest.fixture
def empty(tmp_path, monkeypatch):
  folder = tmp_path / 'empty'
  folder.mkdir()
  monkeypatch.chdir(folder)
  return folder


@pytest.mark.slow
def test_a_run_has_the_images_and_records_of_its_forecast(tmp_path, empty):
  changes = {'study.window': 3, 'study.layers': ('stages',)}
  changes['training.evaluate_every_epochs'] = 0.005
  config = runs.shrunk('fourier_heatmap', changes=changes)
  del config.classifiers['gaussian']
  pieces = {p.label: p for p in running.forecasts(experiments.from_config(config.to_dict()))}
  assert not os.listdir(empty)
  work = {label: (piece.amount, piece.images) for label, piece in pieces.items()}
  assert work == {
    'natural: training': ('3 steps × 16 images', 48),
    'natural: evaluations in between': ('2 × 24 rows', 48),
    'natural: fourier_heatmap': ('24 rows × 6 views', 144),
  }
  assert all(piece.seconds > 0 and (piece.memory_bytes or 0) > 1000 for piece in pieces.values())
  runs.run(config, tmp_path / 'run', drawn=False)
  log = (tmp_path / 'run/log.jsonl').read_text()
  assert log.count('evaluation/accuracy') == 2
  shards = sum(f.stat().st_size for f in (tmp_path / 'run').glob('records/*/*.npz'))
  seals = 1.2  # each of these tiny shards has a seal of its own, as large as its values
  assert pieces['natural: fourier_heatmap'].record_bytes <= shards * seals


@pytest.mark.slow
def test_a_battery_counts_what_its_parts_record(tmp_path, empty):
  """A recording that tasks share once; not the attack of a callable, which has no gradient."""
  fog = {'corruptions': ('fog',), 'severities': (5,)}
  tasks = ('clean', 'corruptions', 'calibration', 'attack')
  changes = {f'battery.{task}.study.{key}': fog[key] for task in tasks[1:3] for key in fog}
  config = runs.shrunk('battery', 'digits', {'battery.tasks': tasks, **changes})
  config.battery.attack.study.steps = 1
  runs.wrap_second(config, tmp_path)
  pieces = list(running.forecasts(experiments.from_config(config.to_dict())))
  assert [(piece.label, piece.images) for piece in pieces] == [
    ('natural: clean', 24),
    ('gaussian: clean', 24),
    ('natural: corruptions', 48),
    ('gaussian: corruptions', 48),
    ('natural: attack', 48),
  ]


def test_it_prints_a_line_for_each_piece(empty, caplog):
  config = runs.shrunk('corruption_spectrum', changes={'study.corruptions': ('brightness',)})
  with caplog.at_level(logging.INFO):
    running.show_forecast(config.to_dict())
  (line,) = [text for text in caplog.messages if text.startswith('images: corruption_spectrum')]
  assert '24 rows × 6 views' in line and '144' in line
  assert caplog.messages[-1].startswith('in all ')
  assert caplog.messages[-1].endswith('nothing was written')
  assert not os.listdir(empty)


NO_WEIGHTS = 'small_cnn has no weights: give --config.classifier.weights=FILE, or train'


def test_what_a_run_refuses_is_refused(empty, capsys, monkeypatch):
  monkeypatch.setattr(running.run, 'set_devices', lambda processes: None)
  config = runs.shrunk('accuracy', 'own', changes={'classifier.name': 'small_cnn'})
  assert running.dry_run(config.to_dict()) == 2
  assert f'error: {NO_WEIGHTS}' in capsys.readouterr().err


def test_the_first_time_is_set_apart():
  waits = iter((0.3, *[0.01] * 30))
  import time

  compiling, later = timed(lambda: time.sleep(next(waits)))
  assert 0.01 <= later < 0.1 and 0.2 < compiling < 0.35
  compiling, later = timed(lambda: time.sleep(0.05), 0)
  assert compiling == 0 and later >= 0.05


def test_sums_and_units():
  piece = Forecast('x: training', '', 1000, 200.0, 2.5, 0, None)
  assert piece.seconds == 7.5
  assert [running.size(n) for n in (12, 2048, 3.5 * 2**20)] == ['12 B', '2.0 KiB', '3.5 MiB']
  assert [running.duration(s) for s in (3.4, 250, 7200)] == ['3 s', '4 min', '2.0 h']
