"""`--dry_run` prints the work of a run, refuses what the run would refuse, and writes nothing."""

import errno
import logging
import os

import pytest

from robustness.cli import running
from robustness.config import experiment as experiments
from robustness.evaluation.records import Records
from tests.end_to_end import runs


def planned(config) -> list[tuple[str, str, str]]:
  """Returns label and task, size, and number of images of each piece of work."""
  return list(running.planned_work(experiments.from_config(config.to_dict())))


@pytest.fixture
def empty(tmp_path, monkeypatch):
  """An empty folder, which is the current one."""
  folder = tmp_path / 'empty'
  folder.mkdir()
  monkeypatch.chdir(folder)
  return folder


@pytest.mark.slow
def test_a_run_trains_and_records_as_planned(tmp_path, empty):
  changes = {'study.window': 3, 'study.layers': ('stages',)}
  changes['training.evaluate_every_epochs'] = 0.005
  config = runs.shrunk('fourier_heatmap', changes=changes)
  del config.classifiers['gaussian']
  assert planned(config) == [
    ('natural: training', '3 steps × 16 images', '48'),
    ('natural: evaluations in between', '2 × 24 rows', '48'),
    ('natural: fourier_heatmap', '24 rows × 6 views', '144'),
  ]
  assert not os.listdir(empty)
  runs.run(config, tmp_path / 'run', drawn=False)
  log = (tmp_path / 'run/log.jsonl').read_text()
  assert log.count('evaluation/accuracy') == 2
  layout = Records.open(tmp_path / 'run/records/natural').layout
  assert (layout.num_rows, layout.num_views) == (24, 6)


@pytest.mark.slow
def test_the_plan_of_a_battery_counts_the_images_of_its_tasks(tmp_path, empty):
  """Tasks with shared records count once, and an attack on a callable does not count."""
  fog = {'corruptions': ('fog',), 'severities': (5,)}
  tasks = ('clean', 'corruptions', 'calibration', 'attack')
  changes = {f'battery.{task}.study.{key}': fog[key] for task in tasks[1:3] for key in fog}
  config = runs.shrunk('battery', 'digits', {'battery.tasks': tasks, **changes})
  config.battery.attack.study.attack.pgd.steps = 1
  runs.wrap_second(config, tmp_path)
  assert [(label, images) for label, _, images in planned(config)] == [
    ('natural: clean', '24'),
    ('gaussian: clean', '24'),
    ('natural: corruptions', '48'),
    ('gaussian: corruptions', '48'),
    ('natural: attack', '48'),
  ]


def test_a_plan_has_a_line_for_each_piece_of_work(empty, caplog):
  config = runs.shrunk('corruption_spectrum', changes={'study.corruptions': ('brightness',)})
  with caplog.at_level(logging.INFO):
    running.show_plan(config.to_dict())
  (line,) = [text for text in caplog.messages if text.startswith('images: corruption_spectrum')]
  assert '24 rows × 6 views' in line and '144' in line
  assert caplog.messages[-1].endswith('nothing was written')
  assert not os.listdir(empty)


def test_a_plan_shows_which_cells_a_training_holds_out(empty, caplog):
  with caplog.at_level(logging.INFO):
    running.show_plan(runs.shrunk('systematic_corruptions').to_dict())
  start = caplog.messages.index('cells of the classes in training, of erm')
  head, _, first = caplog.messages[start + 1 : start + 4]
  assert head.split()[:4] == ['class', 'group', 'clean', 'gaussian_noise']
  assert first.startswith('C1: ') and first.split()[3:6] == ['seen', 'seen', 'held']


def test_a_plan_warns_of_missing_intervals_and_photographs():
  config = runs.shrunk('battery', 'digits', {'battery.tasks': ('clean', 'corruptions')}).to_dict()
  config['battery']['corruptions']['study']['corruptions'] = ('frost',)
  few, frost = running.shortcomings(experiments.from_config({**config, 'seeds': (0, 1)}))
  assert few == '2 seeds give no intervals over seeds; 3 are the fewest'
  assert 'config.battery.corruptions.study.photographs=imagecorruptions' in frost
  config['battery']['corruptions']['study']['corruptions'] = ('fog',)
  assert not [*running.shortcomings(experiments.from_config({**config, 'seeds': (0, 1, 2)}))]


NO_WEIGHTS = 'small_cnn has no weights: give --config.classifier.weights=FILE, or train'


def test_a_dry_run_refuses_a_network_without_weights(empty, capsys, monkeypatch):
  monkeypatch.setattr(running.process, 'set_devices', lambda processes: None)
  config = runs.shrunk('accuracy', 'own', changes={'classifier.name': 'small_cnn'})
  assert running.dry_run(config.to_dict()) == 2
  assert f'error: {NO_WEIGHTS}' in capsys.readouterr().err


def test_a_dry_run_refuses_files_without_access(capsys, monkeypatch):
  def no_access(config):
    raise PermissionError(errno.EACCES, 'Permission denied', 'pictures')

  monkeypatch.setattr(running.process, 'set_devices', lambda processes: None)
  monkeypatch.setattr(running, 'show_plan', no_access)
  assert running.dry_run({}) == 2
  assert 'error: pictures: permission denied.' in capsys.readouterr().err
