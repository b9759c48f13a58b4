"""A Flax NNX module gives what the same network in Linen gives, attacks and records too."""

from __future__ import annotations

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from flax import nnx

from robustness import parallel
from robustness.attacks.pgd import PGD
from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.evaluation.records import Records
from robustness.evaluation.runner import Evaluator
from robustness.models.classifier import Classifier, from_linen
from robustness.studies.fourier_heatmap import FourierHeatmap
from tests.networks import CLASSES, SHAPE, tiny_rows

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
COMMON = {'input_shape': SHAPE, 'class_names': CLASSES, 'mean': MEAN, 'std': STD, 'name': 'network'}
IMAGES = np.random.default_rng(0).random((4, *SHAPE), np.float32)


class NnxBlock(nnx.Module):
  def __init__(self, inputs: int, outputs: int, rngs: nnx.Rngs):
    self.conv = nnx.Conv(inputs, outputs, (3, 3), rngs=rngs)
    self.norm = nnx.BatchNorm(outputs, epsilon=1e-5, rngs=rngs)
    self.dropout = nnx.Dropout(0.5, rngs=rngs)

  def __call__(self, images: jax.Array) -> jax.Array:
    return self.dropout(nnx.relu(self.norm(self.conv(images))))


class NnxNetwork(nnx.Module):
  def __init__(self, rngs: nnx.Rngs):
    self.blocks = nnx.List([NnxBlock(3, 8, rngs), NnxBlock(8, 6, rngs)])
    self.head = nnx.Linear(6, len(CLASSES), rngs=rngs)

  def __call__(self, images: jax.Array) -> jax.Array:
    for block in self.blocks:
      images = block(images)
    return self.head(images.mean((1, 2)) * 8)


class LinenNetwork(nn.Module):
  @nn.compact
  def __call__(self, images: jax.Array, train: bool = False) -> jax.Array:
    for index, width in enumerate((8, 6)):
      images = nn.Conv(width, (3, 3), name=f'conv{index}')(images)
      images = nn.relu(nn.BatchNorm(not train, name=f'norm{index}')(images))
    return nn.Dense(len(CLASSES), name='head')(images.mean((1, 2)) * 8)


@pytest.fixture(scope='module')
def module() -> NnxNetwork:
  """A network in training mode, whose running averages have moved."""
  network = NnxNetwork(nnx.Rngs(0))
  network(jnp.asarray(IMAGES * 2))
  return network


@pytest.fixture(scope='module')
def ours(module: NnxNetwork) -> Classifier:
  return Classifier.from_nnx(module, stages=('blocks/0',), **COMMON)


@pytest.fixture(scope='module')
def linen(module: NnxNetwork) -> Classifier:
  """The same weights in Linen."""
  params: dict[str, dict[str, jax.Array]] = {}
  statistics: dict[str, dict[str, jax.Array]] = {}
  for index, block in enumerate(module.blocks):
    params[f'conv{index}'] = {'kernel': block.conv.kernel[...], 'bias': block.conv.bias[...]}
    params[f'norm{index}'] = {'scale': block.norm.scale[...], 'bias': block.norm.bias[...]}
    statistics[f'norm{index}'] = {'mean': block.norm.mean[...], 'var': block.norm.var[...]}
  params['head'] = {'kernel': module.head.kernel[...], 'bias': module.head.bias[...]}
  return from_linen(LinenNetwork(), {'params': params, 'batch_stats': statistics}, **COMMON)


def test_logits_are_those_of_the_network_in_linen(ours: Classifier, linen: Classifier) -> None:
  assert np.ptp(linen.predict(IMAGES)) > 0.1
  np.testing.assert_allclose(ours.predict(IMAGES), linen.predict(IMAGES), rtol=1e-5, atol=1e-6)


def test_the_module_stays_in_training_mode_and_its_averages_where_they_were(
  module: NnxNetwork,
) -> None:
  before = np.asarray(module.blocks[0].norm.mean[...])
  Classifier.from_nnx(module, **COMMON).predict(IMAGES)
  assert not module.blocks[0].norm.use_running_average
  assert not module.blocks[0].dropout.deterministic
  np.testing.assert_array_equal(module.blocks[0].norm.mean[...], before)


def test_weights_are_those_at_the_time_of_wrapping() -> None:
  network = NnxNetwork(nnx.Rngs(0))
  classifier = Classifier.from_nnx(network, **COMMON)
  before = classifier.predict(IMAGES)
  network.head.bias[...] = network.head.bias[...] + 1
  np.testing.assert_array_equal(classifier.predict(IMAGES), before)
  np.testing.assert_allclose(
    Classifier.from_nnx(network, **COMMON).predict(IMAGES), before + 1, rtol=1e-5
  )


def test_layers_are_the_paths_of_modules(ours: Classifier, linen: Classifier) -> None:
  assert {'blocks/0', 'blocks/0/conv', 'blocks/1/norm', 'head'} < set(ours.layers)
  assert ours.select_layers(('stages',)) == ('blocks/0', 'logits')
  names = ('blocks/1/norm', 'logits')
  _, outputs = jax.jit(lambda x: ours.forward(ours.variables, x, names))(IMAGES)
  _, expected = linen.forward(linen.variables, IMAGES, ('norm1', 'logits'))
  assert set(outputs) == set(names)
  for mine, theirs in zip(names, ('norm1', 'logits'), strict=True):
    np.testing.assert_allclose(outputs[mine], expected[theirs], rtol=1e-5, atol=1e-5)
  with pytest.raises(InputError, match='blocks/0'):
    ours.select_layers(('blocks/O',))


def test_an_attack_has_the_gradient_of_the_network_in_linen(
  ours: Classifier, linen: Classifier
) -> None:
  labels = jnp.asarray([0, 1, 2, 3])
  keys = jax.random.split(jax.random.key(0), 4)
  attack = PGD(norm='l2', epsilon=0.5, steps=3, step_size=0.2)
  attacked = [
    np.asarray(
      jax.jit(lambda x, c=c: attack(keys, lambda y: c.forward(c.variables, y, ())[0], x, labels))(
        IMAGES
      )
    )
    for c in (ours, linen)
  ]
  assert np.abs(attacked[0] - IMAGES).max() > 0.01
  np.testing.assert_allclose(attacked[0], attacked[1], atol=1e-5)


@pytest.mark.parametrize('kind', ['jit', 'pmap'])
def test_records_are_those_of_the_network_in_linen(
  ours: Classifier, linen: Classifier, kind: str, tmp_path: pathlib.Path
) -> None:
  study, rows, columns = FourierHeatmap(norm=1.0, window=3), tiny_rows(13), []
  for classifier in (ours, linen):
    layer = ('blocks/0/conv',) if classifier is ours else ('conv0',)
    evaluator = Evaluator(
      classifier,
      study.views(SHAPE),
      random_keys.stream(0, study.name),
      parallel.create(kind),
      layers=layer,
    )
    records = Records(tmp_path / str(len(columns)), evaluator.layout(13, 8, 3), {})
    evaluator.evaluate(rows, records)
    names = ('prediction', 'probability', f'layer_change/{layer[0]}')
    columns.append([records.column(name) for name in names])
  for mine, theirs in zip(*columns, strict=True):
    np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


class Doubled(nnx.Module):
  def __call__(self, images: jax.Array, train: bool) -> jax.Array:
    return images * 2


@pytest.mark.parametrize(
  ('network', 'message'),
  [
    (LinenNetwork(), 'LinenNetwork, not a flax.nnx.Module.*from_linen'),
    (Doubled(), r'cannot be called with images \(2, 6, 5, 3\) alone.*train'),
    (nnx.Linear(3, 2, rngs=nnx.Rngs(0)), r'gives \(2, 6, 5, 2\).*must give \(2, 4\)'),
    (nnx.Linear(4, 2, rngs=nnx.Rngs(0)), 'cannot be called with images'),
  ],
)
def test_what_is_no_classifier_is_refused_at_once(network, message: str) -> None:
  with pytest.raises(InputError, match=message):
    Classifier.from_nnx(network, **COMMON)
