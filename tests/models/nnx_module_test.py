"""Tests that a Flax NNX module has the outputs of the same network in Linen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from flax import nnx

from robustness.models.classifier import Classifier, from_linen
from tests.cases import cases
from tests.networks import CLASSES, SHAPE
from tests.refusals import refused

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
COMMON = {'input_shape': SHAPE, 'class_names': CLASSES, 'mean': MEAN, 'std': STD, 'name': 'network'}
IMAGES = np.random.default_rng(0).random((4, *SHAPE), np.float32)


class NnxBlock(nnx.Module):
  def __init__(self, inputs, outputs, rngs):
    self.conv = nnx.Conv(inputs, outputs, (3, 3), rngs=rngs)
    self.norm = nnx.BatchNorm(outputs, epsilon=1e-5, rngs=rngs)
    self.dropout = nnx.Dropout(0.5, rngs=rngs)

  def __call__(self, images):
    return self.dropout(nnx.relu(self.norm(self.conv(images))))


class NnxNetwork(nnx.Module):
  def __init__(self, rngs):
    self.blocks = nnx.List([NnxBlock(3, 8, rngs), NnxBlock(8, 6, rngs)])
    self.head = nnx.Linear(6, len(CLASSES), rngs=rngs)

  def __call__(self, images):
    for block in self.blocks:
      images = block(images)
    return self.head(images.mean((1, 2)) * 8)


class LinenNetwork(nn.Module):
  @nn.compact
  def __call__(self, images, train=False):
    for index, width in enumerate((8, 6)):
      images = nn.Conv(width, (3, 3), name=f'conv{index}')(images)
      images = nn.relu(nn.BatchNorm(not train, name=f'norm{index}')(images))
    return nn.Dense(len(CLASSES), name='head')(images.mean((1, 2)) * 8)


@pytest.fixture(scope='module')
def module():
  """Returns a network in training mode, after a pass that changed its running averages."""
  network = NnxNetwork(nnx.Rngs(0))
  network(jnp.asarray(IMAGES * 2))
  return network


@pytest.fixture(scope='module')
def ours(module):
  return Classifier.from_nnx(module, stages=('blocks/0',), **COMMON)


@pytest.fixture(scope='module')
def linen(module):
  """Returns the classifier of the same weights in Linen."""
  params: dict[str, dict[str, jax.Array]] = {}
  statistics: dict[str, dict[str, jax.Array]] = {}
  for index, block in enumerate(module.blocks):
    params[f'conv{index}'] = {'kernel': block.conv.kernel[...], 'bias': block.conv.bias[...]}
    params[f'norm{index}'] = {'scale': block.norm.scale[...], 'bias': block.norm.bias[...]}
    statistics[f'norm{index}'] = {'mean': block.norm.mean[...], 'var': block.norm.var[...]}
  params['head'] = {'kernel': module.head.kernel[...], 'bias': module.head.bias[...]}
  return from_linen(LinenNetwork(), {'params': params, 'batch_stats': statistics}, **COMMON)


def test_weights_are_copied_and_the_module_is_unchanged():
  network = NnxNetwork(nnx.Rngs(0))
  average = np.asarray(network.blocks[0].norm.mean[...])
  classifier = Classifier.from_nnx(network, **COMMON)
  before = classifier.predict(IMAGES)
  assert not network.blocks[0].norm.use_running_average
  assert not network.blocks[0].dropout.deterministic
  np.testing.assert_array_equal(network.blocks[0].norm.mean[...], average)
  network.head.bias[...] = network.head.bias[...] + 1
  np.testing.assert_array_equal(classifier.predict(IMAGES), before)
  again = Classifier.from_nnx(network, **COMMON).predict(IMAGES)
  np.testing.assert_allclose(again, before + 1, rtol=1e-5)


def test_logits_and_layers_match_the_network_in_linen(ours, linen):
  assert {'blocks/0', 'blocks/0/conv', 'blocks/1/norm', 'head'} < set(ours.layers)
  assert ours.select_layers(('stages',)) == ('blocks/0', 'logits')
  names = ('blocks/1/norm', 'logits')
  _, outputs = jax.jit(lambda x: ours.forward(ours.variables, x, names))(IMAGES)
  _, expected = linen.forward(linen.variables, IMAGES, ('norm1', 'logits'))
  assert set(outputs) == set(names)
  assert np.ptp(expected['logits']) > 0.1
  for mine, theirs in zip(names, ('norm1', 'logits'), strict=True):
    np.testing.assert_allclose(outputs[mine], expected[theirs], rtol=1e-5, atol=1e-5)
  np.testing.assert_allclose(ours.predict(IMAGES), linen.predict(IMAGES), rtol=1e-5, atol=1e-6)
  refused('blocks/0', ours.select_layers, ('blocks/O',))


class IntegerLogits(nnx.Module):
  def __call__(self, images):
    return jnp.zeros((len(images), 4), jnp.int32)


class NeedsTrain(nnx.Module):
  def __call__(self, images, train):
    return images * 2


@cases(
  'network, message',
  (LinenNetwork(), 'LinenNetwork, not a flax.nnx.Module.*from_linen'),
  (NeedsTrain(), r'cannot be called with images \(2, 6, 5, 3\) alone.*train'),
  (nnx.Linear(3, 2, rngs=nnx.Rngs(0)), r'gives \(2, 6, 5, 2\).*must give \(2, 4\)'),
  (nnx.Linear(4, 2, rngs=nnx.Rngs(0)), 'cannot be called with images'),
  (IntegerLogits(), 'gives int32; logits are floats'),
)
def test_bad_modules_are_refused_at_once(network, message):
  refused(message, Classifier.from_nnx, network, **COMMON)
