"""What a user can do wrong: one clear line, exit status 2, nothing lost."""

import errno
import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

from configs import video_pm_k
from robustness import run
from robustness.classifiers import ClassifierBuilder
from tests import refusals
from tests.cases import cases
from tests.end_to_end import runs
from tests.table_rows import estimate

HEAT_MAP, ERROR, ROBUST = runs.DEFAULT, 'corruption_error.py', 'corruption_error.py:robustbench'
PROTOCOL = 'config.battery.c_bar.study.protocol'
COMMANDS = (
  (HEAT_MAP, '--config.study.norrm=4', "unknown key config.study.norrm: did you mean 'norm'?"),
  (HEAT_MAP, '--config.study.clip=maybe', 'config.study.clip=maybe'),
  (HEAT_MAP, 'config.seed=4', "'config.seed=4' is no flag"),
  (HEAT_MAP, '--compilation_cache=/dev/null/x', 'kept in /dev/null/x (Not a directory)'),
  (HEAT_MAP, '--workdri=/tmp', "Unknown command line flag 'workdri'"),
  (HEAT_MAP, '--config.study.name=fourier_heatmp', "did you mean 'fourier_heatmap'"),
  (ERROR, '--config.study.severities=(0,)', 'severities is (0,); it must be distinct numbers of'),
  (ERROR, "--config.study.severities=('three',)", "severities must be an int; got 'three'"),
  (ERROR, '--config.study.between=(nan,)', "study.between must be a float; got '(nan,)'"),
  (ERROR, '--config.study.protocol=as_released', 'and released sets have sides of 32, 64, 224 pix'),
  (
    *('battery.py', f'--{PROTOCOL}=as_released'),
    f"{PROTOCOL} is 'as_released', but the images are 28 × 28",
  ),
  (ROBUST, '--config.data.path=nowhere', "config.data.path is 'nowhere', which is not a folder"),
  ('nowhere.py', '', 'config file configs/nowhere.py does not exist'),
  ('train.py:cifar100', '', "no variant 'cifar100'; did you mean 'cifar10' or 'cifar10_fast'?"),
)


@pytest.fixture(scope='module')
def answers(tmp_path_factory):
  """Exit status and output of each command, by processes that share their imports."""
  commands = [
    runs.arguments(tmp_path_factory.mktemp('command'), config, None, (flag,) * bool(flag), False)
    for config, flag, _ in COMMANDS
  ]
  return runs.forked(commands)


@pytest.mark.parametrize('number', range(len(COMMANDS)), ids=['{} {}'.format(*c) for c in COMMANDS])
def test_command(answers, number):
  status, output = answers[number]
  errors = [line for line in output.splitlines() if line.startswith('error: ')]
  assert status == 2 and len(errors) == 1, output
  assert COMMANDS[number][2] in errors[0] and 'Traceback' not in output, output


@pytest.mark.parametrize('module', ['robustness.run', 'configs_of_the_user'])
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
  assert ended.stderr.strip().splitlines()[-1].endswith('the same command begins it.')


@pytest.fixture(scope='module')
def inputs(tmp_path_factory):
  """Weights of a small CNN, a good archive of grey images and a folder."""
  path = tmp_path_factory.mktemp('inputs')
  runs.save_weights(path / 'small.safetensors', 'small_cnn', num_classes=3)
  images = np.random.default_rng(0).integers(0, 256, (30, 28, 28), np.uint8)
  labels = np.arange(30) % 3
  np.savez(path / 'good.npz', images=images, labels=labels, class_names=['ant', 'bee', 'cat'])
  for index, image in enumerate(images[:6]):
    runs.save_image(path / f'folder/class{index % 3}/{index}.png', image)
  return path


def shrunk(inputs: pathlib.Path, name: str = 'accuracy', variant: str = '', **changes: Any) -> Any:
  """A good run on the archive, with changes ('data__path' is data.path)."""
  good = {
    'classifier': {'name': 'small_cnn', 'weights': str(inputs / 'small.safetensors')},
    'data': {'source': 'npz', 'path': str(inputs / 'good.npz'), 'num_images': 0},
    'batch_size': 8,
  }
  own = {key.replace('__', '.'): value for key, value in changes.items()}
  variant = variant or ('own' if name == 'accuracy' else '')
  return runs.shrunk(name, variant, {**good, **own})


@pytest.fixture
def message_of(tmp_path, capsys, monkeypatch):
  """Returns the one message of a refused config, run in `tmp_path / 'run'`."""
  return lambda config: runs.refused(config, tmp_path / 'run', capsys, monkeypatch)


@pytest.fixture
def refused(inputs, message_of):
  """Returns the one message of the good run with changes."""
  return lambda *name, **changes: message_of(shrunk(inputs, *name, **changes))


MISSPELT = {'study': {'baseline': 'uprigth'}}
STORED = {'study': {'source': 'stored', 'constants': 0}}
OF_VIDEO = {'study': {'name': 'video_pm_k'}}
OWN = {'classifiers': {'adversarial': {'name': 'own.py:network'}}}
NO_COLUMN = {'classifiers': {'gaussian': {'train': True, 'objective': {'name': 'irm'}}}}


@cases(
  'name, changes, message',
  ('systematic_rotation', MISSPELT, "baseline is 'uprigth'; did you mean 'upright'"),
  ('corruption_error', STORED, 'the rows have no corruption, severity, base_id'),
  ('fourier_heatmap', OF_VIDEO, "no column 'group_id': they are no fram"),
  ('fourier_heatmap', {'study': {'layers': ('stage4',)}}, "natural has no layer 'stage4'"),
  ('fourier_heatmap', {'study': {'half_width': 0.14}}, 'at least 48 of them; there are 24'),
  ('attack_error', OWN, 'adversarial is a callable, which has no gradient'),
  ('fourier_heatmap', NO_COLUMN, "'irm' needs the column 'environment'"),
)
def test_all_that_is_refused_is_refused_before_the_first_training(
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
  refusals.refused(message, run.run, bad, tmp_path / 'run')
  with pytest.raises(AssertionError, match='a training began'):  # the corrected config is taken
    run.run(good, tmp_path / 'run')


def test_nothing_is_written_before_the_config_is_read(tmp_path):
  config = runs.shrunk('fourier_heatmap').to_dict()
  config['training']['nesterov'] = 1
  message = r'training\.nesterov must be True or False; got 1'
  refusals.refused(message, run.run, config, tmp_path / 'run')
  assert not list(tmp_path.iterdir())


MAP = ('fourier_heatmap', 'cifar10')
WITHOUT = {'classifier__weights': '', 'classifier__train': False}
GIVE = 'small_cnn has no weights: give --config.classifier.weights=FILE, or train'


@cases(
  'name, changes, message',
  ((), {'classifier__name': 'resnet21'}, "unknown architecture 'resnet21': did you mean 'resnet"),
  ((), {'data__source': 'np'}, "config.data.source names 'np'; did you mean 'npz'"),
  ((), {'data__path': 'no.npz'}, "config.data.path is 'no.npz', which is no file"),
  ((), {'classifier__weights': 'no.th'}, 'weights file no.th does not exist'),
  ((), WITHOUT, GIVE),
  (MAP, {'study__norm': 0.0}, 'config.study.norm is 0.0; it must be a finite number above 0'),
  (MAP, {'study__norm': float('nan')}, 'config.study.norm is nan'),
  (MAP, {'study__window': 29}, 'window is 29; it must lie in 1..28 for images of 28 × 28 pixels'),
  (MAP, {'study__layers': ('stage4',)}, "small_cnn has no layer 'stage4'; did you mean 'stage"),
  (MAP, {'study__confidence': 95.0}, 'config.study.confidence is 95.0; it must be in (0, 1)'),
)
def test_settings(refused, name, changes, message):
  assert message in refused(*name, **changes)


@pytest.mark.parametrize('suffix', ['safetensors', 'th'])
def test_truncated_weights(refused, inputs, tmp_path, suffix):
  file, content = tmp_path / f'cut.{suffix}', (inputs / 'small.safetensors').read_bytes()
  file.write_bytes(content[: len(content) // 2])
  message = refused(classifier__weights=str(file))
  assert str(file) in message and 'truncated' in message


def test_folders(refused, inputs, tmp_path):
  """An image cut in its header is found at once, one cut further on when its block is read."""
  folder = {'data__source': 'folder', 'data__path': str(tmp_path / 'data'), 'data__num_images': 0}
  shutil.copytree(inputs / 'folder', tmp_path / 'data')
  bad = tmp_path / 'data/class1/bad.png'
  content = (inputs / 'folder/class0/0.png').read_bytes()
  for share in (0.1, 0.6):
    bad.write_bytes(content[: int(share * len(content))])
    assert str(bad) in refused(**folder)
  os.rename(bad.parent, os.fsencode(tmp_path / 'data') + b'/caf\xe9')
  said = refused(**folder)
  assert 'is no text in UTF-8: rename it' in said and '\\udce9' in said


def test_full_disk_keeps_the_shards_and_the_rerun_succeeds(tmp_path, inputs, refused, monkeypatch):
  refused(data__path='no.npz')  # and good input then works in the same workdir
  written = 0

  def write(path, content):
    nonlocal written
    if path.suffix == '.npz':
      written += 1
      if written > 2:
        raise OSError(errno.ENOSPC, 'No space left on device', str(path))
    path.write_bytes(content)

  with monkeypatch.context() as patched:
    patched.setattr('robustness.evaluation.records.write_atomically', write)
    message = refused()
  assert 'no space left to write' in message and 'run the same command again' in message
  times = runs.shard_times(tmp_path / 'run')
  assert len(times) == 2
  results = runs.run(shrunk(inputs), tmp_path / 'run', drawn=False)
  assert times.items() <= runs.shard_times(tmp_path / 'run').items()
  assert estimate(results.table, *results.labels, 'top1_accuracy').n == 30


def test_full_disk_while_publishing(tmp_path, refused, monkeypatch):
  def full(*unused):
    raise OSError(errno.ENOSPC, 'No space left on device', 'results.npz')

  with monkeypatch.context() as patched:
    patched.setattr('robustness.results.write_atomically', full)
    assert 'no space left on disk (results.npz)' in refused()
  assert len(runs.shard_times(tmp_path / 'run')) == 4


def test_a_shard_over_the_place_of_another_is_refused_until_it_is_deleted(
  refused, inputs, tmp_path
):
  before = runs.run(shrunk(inputs), tmp_path / 'run', drawn=False).table
  first, second, *_ = sorted((tmp_path / 'run/records').glob('*/*.npz'))
  second.write_bytes(first.read_bytes())
  (tmp_path / 'run/results.json').unlink()
  message = refused()
  assert str(second) in message and 'a copy of the shard of row block 0' in message
  second.unlink()
  again = runs.run(shrunk(inputs), tmp_path / 'run', drawn=False)
  pd.testing.assert_frame_equal(again.table, before)


SETS = {f'clip{c}/5.png': [f'clip{c}/{n}.png' for n in (3, 4, 6)] for c in range(3)}
FRAMES = sorted({frame for anchor, members in SETS.items() for frame in (anchor, *members)})
LABELS = {frame: [int(frame[4])] for frame in FRAMES}
SCORES = {frame: [0.1, 0.2, 0.3] for frame in FRAMES}


def write_sets(folder: pathlib.Path, **given: Any) -> None:
  """Writes metadata and predictions, good ones unless others are given."""
  folder.mkdir(parents=True, exist_ok=True)
  names = {'0': 'ant', '1': 'bee', '2': 'cat'}
  good = {'pmsets': SETS, 'labels': LABELS, 'model': SCORES, 'class_index': names}
  for name, content in {**good, **given}.items():
    (folder / f'{name}.json').write_text(json.dumps(content))


def predictions_config(folder: pathlib.Path, **given: Any) -> Any:
  write_sets(folder, **given)
  config = video_pm_k.get_config('predictions')
  config.predictions, config.metadata = str(folder / 'model.json'), str(folder)
  return config


def frames_config(folder: pathlib.Path, **given: Any) -> Any:
  """A run of a small network on frames that are there, one red picture each."""
  write_sets(folder, **given)
  for frame in FRAMES:
    red = np.full((32, 32, 3), (20 * int(frame[6]), 0, 0), np.uint8)
    runs.save_image(folder / 'frames' / frame, red)
  weights = runs.save_weights(folder / 'r.safetensors', 'resnet20', num_classes=3)
  changes = {
    'data': {'metadata': str(folder), 'path': str(folder / 'frames'), 'num_images': 0},
    'classifier': {'name': 'resnet20', 'weights': weights, 'label_space': ''},
  }
  return runs.shrunk('video_pm_k', 'frames', changes)


@pytest.mark.parametrize('frame', ['clip1/5.png', 'clip1/4.png'], ids=['anchor', 'neighbor'])
@cases(
  'config_of, key', (predictions_config, 'config.label_space'), (frames_config, 'config.data.name')
)
def test_labels_outside_of_the_vocabulary(tmp_path, message_of, config_of, key, frame):
  scores = {f: [0.5] * 29 + [2] for f in FRAMES}
  config = config_of(tmp_path, labels={**LABELS, frame: [30]}, model=scores)
  (tmp_path / 'class_index.json').unlink()
  message = message_of(config)
  assert f'frame {frame!r} has label 30, and imagenet_vid has 30 classes (0..29)' in message
  assert key in message
