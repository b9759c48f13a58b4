"""A user's mistake ends with one line about it and status 2, and no finished work is lost."""

import errno
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from robustness import launch
from robustness.building.builder import ClassifierBuilder
from tests import refusals
from tests.cases import cases
from tests.end_to_end import runs
from tests.table_rows import estimate

HEAT_MAP = runs.DEFAULT
PROTOCOL = 'config.battery.c_bar.study.protocol'
COMMANDS = (
  (HEAT_MAP, '--config.study.norrm=4', "unknown key config.study.norrm: did you mean 'norm'?"),
  (HEAT_MAP, 'config.seed=4', "'config.seed=4' is no flag"),
  (HEAT_MAP, '--compilation_cache=/dev/null/x', 'kept in /dev/null/x (Not a directory)'),
  (HEAT_MAP, '--workdri=/tmp', "Unknown command line flag 'workdri'"),
  (
    *('battery.py', f'--{PROTOCOL}=as_released'),
    f"{PROTOCOL} is 'as_released', but the images are 28 × 28",
  ),
  ('accuracy.py', '--config.data.source=npz', "config.data.npz.path is '', which is no file"),
  ('accuracy.py', '--config.data.known_classes=False', 'counts what is right, and images'),
  ('train.py:cifar100', '', "no variant 'cifar100'; did you mean 'cifar10' or 'cifar10_fast'?"),
)


@pytest.fixture(scope='module')
def answers(tmp_path_factory):
  """The exit status and output of each of `COMMANDS`, which share their imports."""
  commands = [
    runs.arguments(tmp_path_factory.mktemp('command'), config, None, (flag,) * bool(flag), False)
    for config, flag, _ in COMMANDS
  ]
  return runs.forked(commands)


@pytest.mark.parametrize('number', range(len(COMMANDS)), ids=['{} {}'.format(*c) for c in COMMANDS])
def test_a_wrong_command_is_answered_in_one_line(answers, number):
  status, output = answers[number]
  errors = [line for line in output.splitlines() if line.startswith('error: ')]
  assert status == 2 and len(errors) == 1, output
  assert COMMANDS[number][2] in errors[0] and 'Traceback' not in output, output


@pytest.mark.slow
@pytest.mark.parametrize('module', ['robustness.launch', 'configs_of_the_user'])
def test_ctrl_c_before_the_run_begins_is_one_line(tmp_path, module):
  """While the command imports, and while it reads the config."""
  (tmp_path / 'mine.py').write_text('import configs_of_the_user')
  program = f"""
import runpy, sys

class Interrupting:
  def find_spec(self, name, path=None, target=None):
    if name == {module!r}:
      raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
sys.argv = ['main.py', '--config={tmp_path / 'mine.py'}', '--workdir={tmp_path / 'run'}']
runpy.run_path('main.py', run_name='__main__')
"""
  command = [sys.executable, '-c', program]
  ended = subprocess.run(command, cwd=runs.ROOT, capture_output=True, text=True, check=False)
  assert ended.returncode == 130
  assert 'Traceback' not in ended.stderr
  assert ended.stderr.strip().splitlines()[-1].endswith('Run the same command to begin it.')


@pytest.fixture(scope='module')
def good(tmp_path_factory):
  """The config of a valid run: a small CNN with weights, on an archive of 30 grey images."""
  path = tmp_path_factory.mktemp('inputs')
  weights = runs.save_weights(path / 'small.safetensors', 'small_cnn', num_classes=3)
  images = np.random.default_rng(0).integers(0, 256, (30, 28, 28), np.uint8)
  labels = np.arange(30) % 3
  np.savez(path / 'good.npz', images=images, labels=labels, class_names=['ant', 'bee', 'cat'])
  changes = {
    'classifier': {'name': 'small_cnn', 'weights': weights},
    'data': {'source': 'npz', 'npz.path': str(path / 'good.npz'), 'num_images': 0},
    'batch_size': 8,
  }
  return runs.shrunk('accuracy', 'own', changes)


@pytest.fixture
def refused(good, tmp_path, capsys, monkeypatch):
  """Returns a function that runs `good` with changes of `data` and returns the error message."""

  def run_changed(**data):
    changed = good.copy_and_resolve_references()
    changed.data.update(data)
    return runs.refused(changed, tmp_path / 'run', capsys, monkeypatch)

  return run_changed


MISSPELT = {'study': {'baseline': 'uprigth'}}
STORED = {'study': {'source': 'stored'}}
VIDEO_STUDY = {'study': {'name': 'video_pm_k'}}
CALLABLE = {'classifiers': {'adversarial': {'name': 'own.py:network'}}}
NO_COLUMN = {'classifiers': {'gaussian': {'train': True, 'objective': {'name': 'irm'}}}}


@pytest.mark.slow
@cases(
  'name, changes, message',
  ('systematic_rotation', MISSPELT, "baseline is 'uprigth'; did you mean 'upright'"),
  ('corruption_error', STORED, 'the rows have no corruption, severity, base_id'),
  ('fourier_heatmap', VIDEO_STUDY, "no column 'group_id': they are no fram"),
  ('fourier_heatmap', {'study': {'layers': ('stage4',)}}, "natural has no layer 'stage4'; did you"),
  ('fourier_heatmap', {'study': {'half_width': 0.14}}, 'at least 48 images. There are 24'),
  ('attack_error', CALLABLE, 'adversarial is a callable, which has no gradient'),
  ('fourier_heatmap', NO_COLUMN, "'irm' needs the column 'environment'"),
)
def test_a_config_that_cannot_run_is_refused_before_the_first_training(
  tmp_path, monkeypatch, name, changes, message
):
  def train(*unused):
    raise AssertionError('a training began')

  monkeypatch.setattr(ClassifierBuilder, 'train', train)
  monkeypatch.chdir(tmp_path)
  source = 'scores = lambda x: x[:, 0, :10, 0] * 9'
  runs.write_network(pathlib.Path('own.py'), source, (28, 28, 1), runs.DIGITS)
  good, bad = (runs.shrunk(name).to_dict() for _ in range(2))
  for section, changed in changes.items():
    bad[section] = changed if 'name' in changed else {**bad[section], **changed}
  refusals.refused(message, launch.run, bad, tmp_path / 'run')
  with pytest.raises(AssertionError, match='a training began'):  # the corrected config is accepted
    launch.run(good, tmp_path / 'run')


def test_nothing_is_written_before_the_config_is_read(tmp_path):
  config = runs.shrunk('fourier_heatmap').to_dict()
  config['training']['nesterov'] = 1
  expected = refusals.bad_setting('config.training.nesterov', 1, 'True or False')
  refusals.refused(expected, launch.run, config, tmp_path / 'run')
  assert not list(tmp_path.iterdir())


def test_full_disk_keeps_the_shards_and_the_rerun_succeeds(tmp_path, good, refused, monkeypatch):
  refused(npz={'path': 'no.npz'})  # valid input then works in the same workdir
  num_shards = 0

  def write(path, content):
    nonlocal num_shards
    if path.suffix == '.npz':
      num_shards += 1
      if num_shards > 2:
        raise OSError(errno.ENOSPC, 'No space left on device', str(path))
    path.write_bytes(content)

  with monkeypatch.context() as patched:
    patched.setattr('robustness.evaluation.records.write_atomically', write)
    message = refused()
  assert 'no space left on disk' in message and 'run the same command again' in message
  times = runs.shard_times(tmp_path / 'run')
  assert len(times) == 2
  results = runs.run(good, tmp_path / 'run', drawn=False)
  assert times.items() <= runs.shard_times(tmp_path / 'run').items()
  assert estimate(results.table, *results.labels, 'top1_accuracy').n == 30


def test_full_disk_while_publishing(tmp_path, refused, monkeypatch):
  def full(*unused):
    raise OSError(errno.ENOSPC, 'No space left on device', 'results.npz')

  with monkeypatch.context() as patched:
    patched.setattr('robustness.results.write_atomically', full)
    assert 'no space left on disk (results.npz)' in refused()
  assert len(runs.shard_times(tmp_path / 'run')) == 4
