"""What a user can do wrong: one clear line, exit status 2, nothing lost."""

from __future__ import annotations

import errno
import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from safetensors.numpy import load_file, save_file

from robustness import run, workdir
from robustness.classifiers import ClassifierBuilder
from robustness.core.errors import InputError
from tests.end_to_end import runs
from tests.table_rows import estimate

SIDE = 28


@pytest.fixture(scope='module')
def inputs(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
  """Weights of a small CNN and of a ResNet-20, a good archive of grey images and a folder."""
  path = tmp_path_factory.mktemp('inputs')
  runs.save_weights(path / 'small.safetensors', 'small_cnn', num_classes=3)
  runs.save_weights(path / 'resnet20.safetensors', 'resnet20', num_classes=3)
  generator = np.random.default_rng(0)
  images = generator.integers(0, 256, (30, SIDE, SIDE), np.uint8)
  archive(path / 'good.npz', images)
  for index, image in enumerate(images[:6]):
    folder = path / 'folder' / f'class{index % 3}'
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(folder / f'{index}.png')
  return path


def test_a_second_run_in_a_workdir_is_one_line(
  tmp_path: pathlib.Path, refused: Callable[..., str]
) -> None:
  with workdir.locked(tmp_path / 'run'):
    said = refused()
  assert said.startswith(f'another run works in the workdir {tmp_path / "run"} (process ')
  assert [file.name for file in (tmp_path / 'run').iterdir()] == ['.lock']


def test_a_name_of_a_folder_that_is_no_utf8_is_one_line(
  tmp_path: pathlib.Path, inputs: pathlib.Path, refused: Callable[..., str]
) -> None:
  shutil.copytree(inputs / 'folder', tmp_path / 'data')
  os.rename(tmp_path / 'data' / 'class1', os.fsencode(tmp_path / 'data') + b'/caf\xe9')
  said = refused(data__source='folder', data__path=str(tmp_path / 'data'), data__num_images=0)
  assert 'is no text in UTF-8: rename it' in said and '\\udce9' in said


def archive(path: pathlib.Path, images: np.ndarray, labels: np.ndarray | None = None) -> str:
  labels = np.arange(len(images)) % 3 if labels is None else labels
  np.savez(path, images=images, labels=labels, class_names=np.array(['ant', 'bee', 'cat']))
  return str(path)


def values(inputs: pathlib.Path, **changes: Any) -> dict[str, Any]:
  """A good accuracy run on the archive, as flat keys, with changes ('data__path' is data.path)."""
  good = {
    'classifier.name': 'small_cnn',
    'classifier.weights': str(inputs / 'small.safetensors'),
    'data.source': 'npz',
    'data.path': str(inputs / 'good.npz'),
    'data.num_images': 0,
    'batch_size': 8,
  }
  return {**good, **{key.replace('__', '.'): value for key, value in changes.items()}}


@pytest.fixture
def refused(
  tmp_path: pathlib.Path,
  inputs: pathlib.Path,
  capsys: pytest.CaptureFixture[str],
  monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., str]:
  """Returns the one message of a refused run in `tmp_path / 'run'`."""

  def one(name: str = 'accuracy', variant: str = '', **changes: Any) -> str:
    config = runs.shrunk(name, variant, values(inputs, **changes))
    return runs.refused(config, tmp_path / 'run', capsys, monkeypatch)

  return one


def test_good_input_then_works_in_the_same_workdir(
  refused, inputs: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  refused(data__path='no.npz')
  results = runs.run(runs.shrunk('accuracy', changes=values(inputs)), tmp_path / 'run')
  assert estimate(results.table, *results.labels, 'top1_accuracy').n == 30


ATTACKED = """
import numpy as np
import pandas as pd
from robustness.models.classifier import Classifier
classes = tuple(map(str, range(10)))
network = Classifier.from_callable(lambda x: x[:, 0, :10, 0] * 9, (28, 28, 1), classes)
"""


@pytest.mark.parametrize(
  ('name', 'changes', 'message'),
  [
    (
      'systematic_rotation',
      {'study': {'baseline': 'uprigth'}},
      "config.study.baseline is 'uprigth'; did you mean 'upright'",
    ),
    (
      'corruption_error',
      {'study': {'source': 'stored', 'constants': 0}},
      'the rows have no corruption, severity, base_id',
    ),
    (
      'fourier_heatmap',
      {'study': {'name': 'video_pm_k'}},
      "the rows have no column 'group_id': they are no frames of neighbor sets",
    ),
    (
      'attack_error',
      {'classifiers': {'adversarial': {'name': 'own.py:network'}}},
      'adversarial is a callable, which has no gradient',
    ),
    (
      'fourier_heatmap',
      {'classifiers': {'gaussian': {'train': True, 'objective': {'name': 'irm'}}}},
      "'irm' needs the column 'environment'",
    ),
  ],
)
def test_all_that_is_refused_is_refused_before_the_first_training(
  tmp_path: pathlib.Path,
  monkeypatch: pytest.MonkeyPatch,
  name: str,
  changes: dict[str, dict[str, Any]],
  message: str,
) -> None:
  def train(*unused: Any) -> None:
    raise AssertionError('a training began')

  monkeypatch.setattr(ClassifierBuilder, 'train', train)
  monkeypatch.chdir(tmp_path)
  pathlib.Path('own.py').write_text(ATTACKED)
  good, bad = (runs.shrunk(name).to_dict() for _ in range(2))
  for section, changed in changes.items():
    bad[section] = changed if 'name' in changed else {**bad[section], **changed}
  with pytest.raises(InputError, match=message):
    run.run(bad, tmp_path / 'run')
  with pytest.raises(AssertionError, match='a training began'):  # the corrected config is taken
    run.run(good, tmp_path / 'run')


@pytest.mark.parametrize(
  ('section', 'key', 'value', 'message'),
  [
    ('study', 'norm', '4', r"config\.study\.norm must be a float; got '4' \(str\)"),
    ('study', 'norrm', 4.0, r"unknown key config\.study\.norrm: did you mean 'norm'\?"),
    ('study', 'layers', 'stage1', r'config\.study\.layers must be a tuple of str'),
    ('data', 'num_images', 2.5, r'config\.data\.num_images must be an int; got 2\.5'),
    ('training', 'nesterov', 1, r'config\.training\.nesterov must be True or False; got 1'),
  ],
)
def test_config_as_a_dict(
  tmp_path: pathlib.Path, section: str, key: str, value: Any, message: str
) -> None:
  config = runs.shrunk('fourier_heatmap').to_dict()
  config[section][key] = value
  with pytest.raises(InputError, match=message):
    run.run(config, tmp_path)
  assert not list(tmp_path.iterdir()), 'nothing is written before the config is read'


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'study__name': 'acuracy'}, "config.study.name names 'acuracy'; did you mean 'accuracy' or"),
    ({'classifier__name': 'resnet21'}, "unknown architecture 'resnet21': did you mean 'resnet"),
    ({'data__source': 'np'}, "config.data.source names 'np'; did you mean 'npz'"),
    ({'data__source': 'tfds', 'data__name': 'cifar11'}, "'cifar11', which TFDS does not know"),
    ({'data__path': 'no.npz'}, "config.data.path is 'no.npz', which is no file"),
    ({'data__num_images': 31}, 'config.data.num_images is 31; it must be at most 30'),
    ({'classifier__weights': 'no.th'}, 'weights file no.th does not exist'),
    (
      {'classifier__weights': '', 'classifier__train': False},
      'small_cnn has no weights: give --config.classifier.weights=FILE, or train',
    ),
    ({'seed': -1}, 'config.seed is -1; it must be in [0, 2**32)'),
    ({'parallel': 'jitt'}, "config.parallel is 'jitt'; did you mean 'jit'?"),
  ],
)
def test_names_and_files(refused, changes: dict[str, Any], message: str) -> None:
  assert message in refused(**changes)


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'study__norm': 0.0}, 'config.study.norm is 0.0; it must be a finite number above 0'),
    ({'study__norm': -4.0}, 'config.study.norm is -4.0'),
    ({'study__norm': float('nan')}, 'config.study.norm is nan'),
    ({'study__window': 29}, 'window is 29; it must lie in 1..28 for images of 28 × 28 pixels'),
    ({'study__phase': 'sine'}, "config.study.phase is 'sine'; did you mean 'cosine'?"),
    ({'study__layers': ('stage4',)}, "small_cnn has no layer 'stage4'; did you mean 'stage"),
    ({'study__confidence': 95.0}, 'config.study.confidence is 95.0; it must be in (0, 1)'),
  ],
)
def test_heat_map_settings(refused, changes: dict[str, Any], message: str) -> None:
  assert message in refused('fourier_heatmap', 'cifar10', **changes)


def test_unknown_layer_is_told_before_training(tmp_path: pathlib.Path) -> None:
  config = runs.shrunk('fourier_heatmap', 'digits', {'study.layers': ('stage4',)})
  with pytest.raises(InputError, match="natural has no layer 'stage4'"):
    runs.run(config, tmp_path)
  assert not (tmp_path / 'checkpoints').exists()


def test_truncated_weights(refused, inputs: pathlib.Path, tmp_path: pathlib.Path) -> None:
  content = (inputs / 'small.safetensors').read_bytes()
  for name in ('cut.safetensors', 'cut.th'):
    (tmp_path / name).write_bytes(content[: len(content) // 2])
    message = refused(classifier__weights=str(tmp_path / name))
    assert str(tmp_path / name) in message
    assert 'truncated' in message


def test_weights_of_another_network_name_the_keys(refused, inputs: pathlib.Path) -> None:
  message = refused(classifier__weights=str(inputs / 'resnet20.safetensors'))
  assert 'do not fit small_cnn' in message
  assert 'missing: ' in message
  assert 'unexpected: ' in message


def test_weights_with_nan_name_the_tensor(
  refused, inputs: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  from safetensors import safe_open

  with safe_open(str(inputs / 'small.safetensors'), framework='numpy') as opened:
    header = {key: text for key, text in opened.metadata().items() if key != 'sha256'}
  tensors = load_file(inputs / 'small.safetensors')
  name = next(key for key in tensors if key.endswith('kernel'))
  tensors[name].flat[0] = np.nan
  save_file(tensors, tmp_path / 'nan.safetensors', header)
  assert 'hold NaN or infinity' in refused(classifier__weights=str(tmp_path / 'nan.safetensors'))


def test_weights_of_another_number_of_classes(refused, tmp_path: pathlib.Path) -> None:
  file = runs.save_weights(tmp_path / 'five.safetensors', 'small_cnn', num_classes=5)
  message = refused(classifier__weights=file)
  assert '5 classes' in message
  assert '3 ' in message


def test_labels_outside_the_classes(refused, tmp_path: pathlib.Path) -> None:
  images = np.zeros((4, SIDE, SIDE), np.uint8)
  for label in (3, -1):
    path = archive(tmp_path / 'labels.npz', images, np.array([0, 1, label, 2]))
    message = refused(data__path=path)
    assert 'example 2' in message
    assert str(label) in message


def test_images_of_another_size(refused, inputs: pathlib.Path, tmp_path: pathlib.Path) -> None:
  path = archive(tmp_path / 'large.npz', np.zeros((4, 20, 20, 3), np.uint8))
  message = refused(
    data__path=path,
    classifier__name='resnet20',
    classifier__weights=str(inputs / 'resnet20.safetensors'),
  )
  assert 'takes images of 32 × 32 × 3' in message
  assert 'have 20 × 20 × 3' in message
  assert '--config.data.resize' in message


def test_empty_split_or_folder(refused, tmp_path: pathlib.Path) -> None:
  path = archive(tmp_path / 'empty.npz', np.zeros((0, SIDE, SIDE), np.uint8))
  assert 'holds no images' in refused(data__path=path)
  (tmp_path / 'empty/ant').mkdir(parents=True)
  message = refused(data__source='folder', data__path=str(tmp_path / 'empty'))
  assert 'none of its 1 class folders holds an image' in message


@pytest.mark.parametrize('share', [0.1, 0.6])
def test_unreadable_image_is_named(
  refused, inputs: pathlib.Path, tmp_path: pathlib.Path, share: float
) -> None:
  """Cut within the header it is found at once, cut further on only when its block is read."""
  content = (inputs / 'folder/class0/0.png').read_bytes()
  for name in ('ant', 'bee', 'cat'):
    (tmp_path / 'photos' / name).mkdir(parents=True)
    (tmp_path / 'photos' / name / 'good.png').write_bytes(content)
  bad = tmp_path / 'photos/bee/bad.png'
  bad.write_bytes(content[: int(share * len(content))])
  message = refused(data__source='folder', data__path=str(tmp_path / 'photos'))
  assert str(bad) in message


def test_full_disk_keeps_the_shards_and_the_rerun_succeeds(
  tmp_path: pathlib.Path, inputs: pathlib.Path, refused, monkeypatch: pytest.MonkeyPatch
) -> None:
  written = 0

  def write(path: pathlib.Path, content: bytes) -> None:
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
  results = runs.run(runs.shrunk('accuracy', changes=values(inputs)), tmp_path / 'run')
  assert times.items() <= runs.shard_times(tmp_path / 'run').items()
  assert estimate(results.table, *results.labels, 'top1_accuracy').n == 30


def test_full_disk_while_publishing(
  tmp_path: pathlib.Path, refused, monkeypatch: pytest.MonkeyPatch
) -> None:
  def full(*unused: Any) -> None:
    raise OSError(errno.ENOSPC, 'No space left on device', 'results.npz')

  with monkeypatch.context() as patched:
    patched.setattr('robustness.results.write_atomically', full)
    message = refused()
  assert 'no space left on disk (results.npz)' in message
  assert len(runs.shard_times(tmp_path / 'run')) == 4


def test_a_shard_over_the_place_of_another_is_refused_until_it_is_deleted(
  refused, inputs: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  config = runs.shrunk('accuracy', changes=values(inputs))
  before = runs.run(config, tmp_path / 'run').table
  first, second, *_ = sorted((tmp_path / 'run/records').glob('*/*.npz'))
  second.write_bytes(first.read_bytes())
  (tmp_path / 'run/results.json').unlink()
  message = refused()
  assert str(second) in message and 'a copy of the shard of row block 0' in message
  second.unlink()
  pd.testing.assert_frame_equal(runs.run(config, tmp_path / 'run').table, before)
