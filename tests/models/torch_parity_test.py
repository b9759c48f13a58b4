"""Imported weights give PyTorch's logits, and one training step PyTorch's running statistics."""

from __future__ import annotations

import dataclasses
from types import MappingProxyType

import flax.traverse_util
import jax
import numpy as np
import pytest

from robustness.models import catalog, weights

torch = pytest.importorskip('torch', reason='parity needs torch')
from tests.models import torch_networks  # noqa: E402

RESNET = catalog.get('resnet20')
# Wide ResNet-28-10 takes minutes on a CPU; 16-2 has the same blocks. Registered for the test only.
WIDE = dataclasses.replace(
  catalog.get('wide_resnet_28_10'),
  name='wide_resnet_16_2',
  options=MappingProxyType({'depth': 16, 'width': 2}),
)


@pytest.fixture(params=['resnet20', 'wide_resnet_16_2'])
def pair(request, monkeypatch):
  """Returns an architecture and the same network in PyTorch with random weights."""
  table = {**catalog.ARCHITECTURES, WIDE.name: WIDE}
  monkeypatch.setattr(catalog, 'ARCHITECTURES', MappingProxyType(table))
  make = {
    'resnet20': lambda: torch_networks.CifarResNet(20),
    'wide_resnet_16_2': lambda: torch_networks.WideResNet(16, 2),
  }
  network = make[request.param]()
  torch_networks.randomise(network, seed=3)
  return catalog.get(request.param), network


def imported(architecture, network):
  state = {name: tensor.numpy().copy() for name, tensor in network.state_dict().items()}
  return weights.import_variables(architecture, state)


def images(*shape):
  return np.random.default_rng(5).normal(size=shape).astype(np.float32)


def close(ours, theirs, tolerance=1e-4):
  ours, theirs = np.asarray(ours), np.asarray(theirs)
  assert np.abs(ours - theirs).max() <= tolerance * np.abs(theirs).max()


@pytest.mark.parametrize('size', [(32, 32), (29, 36)])
def test_eval_logits_equal_torch(pair, size):
  architecture, network = pair
  x = images(4, *size, 3)
  with torch.inference_mode():
    theirs = network.eval()(torch.from_numpy(x.transpose(0, 3, 1, 2).copy())).numpy()
  ours = jax.jit(architecture.build(10).apply)(imported(architecture, network), x)
  close(ours, theirs)


def test_training_forward_moves_statistics_as_torch(pair):
  architecture, network = pair
  variables, x = imported(architecture, network), images(8, 32, 32, 3)
  network.train()
  with torch.no_grad():
    theirs = network(torch.from_numpy(x.transpose(0, 3, 1, 2).copy())).numpy()
  module = architecture.build(10)
  step = jax.jit(lambda v, x: module.apply(v, x, train=True, mutable=['batch_stats']))
  ours, updated = step(variables, x)
  close(ours, theirs)
  before = flax.traverse_util.flatten_dict(variables['batch_stats'])
  after = flax.traverse_util.flatten_dict(imported(architecture, network)['batch_stats'])
  values = {32: 8 * 32 * 32, 16: 8 * 16 * 16, 8: 8 * 8 * 8}
  for path, mine in flax.traverse_util.flatten_dict(updated['batch_stats']).items():
    if path[-1] == 'mean':
      close(mine, after[path])
      continue
    n = values[_side(path)]
    biased = 0.9 * before[path] + (after[path] - 0.9 * before[path]) * (n - 1) / n
    close(mine, biased)


def _side(path):
  """Returns the side of the image that a norm of the ResNet or Wide ResNet sees."""
  if path[0] == 'final':
    return 8
  if path[0] == 'stem':
    return 32
  stage, block, layer = path[:3]
  number = int(stage[-1])
  before_stride = block == 'block0' and layer == 'norm1' and number > 1
  return 32 >> (number - 1 - before_stride)
