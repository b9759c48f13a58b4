"""Tests that state dicts are imported, variables saved and loaded, and bad weights refused."""

import dataclasses
import logging

import flax.linen as nn
import flax.traverse_util
import jax
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from safetensors.numpy import save_file

from robustness.models import catalog, weights
from robustness.models.architecture import Architecture
from robustness.models.layers import Network
from tests.cases import cases
from tests.networks import imported, normal_arrays, normal_variables, random_variables
from tests.refusals import refused

RESNET = catalog.get('resnet20')
DIGITS = catalog.get('small_cnn')


def test_every_tensor_of_a_state_dict_is_restored():
  state = normal_arrays(RESNET, 3) | {'bn1.num_batches_tracked': np.array(7)}
  variables = imported(RESNET, state)
  params = variables['params']
  kernel = params['stage2']['block0']['conv1']['kernel']  # [H, W, inputs, outputs]
  assert kernel[0, 2, 5, 11] == state['layer2.0.conv1.weight'][11, 5, 0, 2]
  np.testing.assert_array_equal(params['head']['dense']['kernel'], state['linear.weight'].T)
  stats = variables['batch_stats']['stem']['bn']
  np.testing.assert_array_equal(stats['var'], state['bn1.running_var'])


CONV, HEAD = 'conv1.weight', 'linear.weight'
ONES = np.ones((10, 64), np.float32)
"""A last layer of ResNet-20."""


@cases(
  'change, message',
  (
    {'layer1.0.conv1.weight': None, 'extra': np.zeros(3, np.float32), CONV: np.ones((16, 1, 3, 3))},
    r'1 missing: layer1.0.conv1.weight; 1 unexpected: extra; '
    r'1 of another shape: conv1.weight is \(16, 1, 3, 3\), not \(16, 3, 3, 3\)',
  ),
  *(({HEAD: ONES.astype(t)}, f'{HEAD} is {t}') for t in ('int8', 'uint8', 'int64', 'complex64')),
  *(({HEAD: x * ONES}, f'1 tensors hold NaN or infinity: {HEAD}') for x in (np.nan, np.inf)),
  ({HEAD: 1e300 * ONES.astype(np.float64)}, HEAD),
)
def test_arrays_that_do_not_fit_are_refused_by_name(change, message):
  state = {k: v for k, v in {**normal_arrays(RESNET), **change}.items() if v is not None}
  refused(message, imported, RESNET, state)


ALIKE = (
  *(('resnet20', 'resnet32'), ('vit_s16', 'vit_s32'), ('swin_tiny', 'swin_small')),
  *(('eva02_s14', 'eva02_b14'), ('resnet18', 'resnet34'), ('resnet18', 'bit_r50x1')),
  ('resnet18', 'vgg16_bn'),
)
"""Pairs of an architecture and another one that a user may have the weights of."""


@pytest.fixture
def small_catalog(monkeypatch):
  """Leaves the networks of `ALIKE` in the catalog: to compare each takes a second."""
  networks = {name: catalog.get(name) for pair in ALIKE for name in pair}
  monkeypatch.setattr(catalog, 'ARCHITECTURES', networks)


@pytest.mark.usefixtures('small_catalog')
@cases(
  'architecture, arrays, message',
  (RESNET, {'bn1.num_batches_tracked': np.array(1)}, '97 missing: '),
  (DIGITS, {'bias': np.zeros(10, np.float32)}, 'no PyTorch names are known for small_cnn'),
  (RESNET, {'fc.bias': np.zeros(10, np.float32)}, r'unexpected: fc.bias \(names of [^)]*\)$'),
)
def test_weights_of_unknown_networks_name_no_architecture(architecture, arrays, message):
  refused(message, imported, architecture, arrays)


def zeros(name):
  """Returns a state dict of zeros for an architecture with 10 classes."""
  architecture = catalog.get(name)
  shapes = architecture.schemes[-1].shapes(architecture.shapes(10))
  return {key: np.zeros(shape, np.float32) for key, shape in shapes.items()}


@pytest.mark.slow
@pytest.mark.usefixtures('small_catalog')
@cases('name, other', *ALIKE)
def test_the_architecture_that_fits_is_named(name, other):
  message = f"do not fit {name}: .*shapes are those of '{other}'"
  refused(message, imported, catalog.get(name), zeros(other))


@pytest.mark.slow
@pytest.mark.usefixtures('small_catalog')
def test_the_nearest_architecture_is_named_if_none_fits(monkeypatch):
  shapes, traced = Architecture.shapes, set()
  recording = lambda self, *a: traced.add(self.name) or shapes(self, *a)  # noqa: E731
  monkeypatch.setattr(Architecture, 'shapes', recording)
  state = {**zeros('resnet34'), 'extra.weight': np.zeros(3, np.float32)}
  message = "nearest architecture is 'resnet34', with 99% in common"
  refused(message, imported, catalog.get('resnet18'), state)
  text = refused('1 unexpected: extra.weight', imported, catalog.get('resnet34'), state)
  assert 'nearest' not in text, 'a network is not the nearest to itself'
  assert 'resnet34' in traced
  assert not {'resnet20', 'resnet32', 'vgg16_bn'} & traced, 'networks of other sizes take time'


@pytest.mark.parametrize('name', ['resnet20', 'vit_s32'])
def test_another_number_of_classes_is_refused(name):
  message = 'tell 10 classes apart, and 100 were asked for'
  refused(message, imported, catalog.get(name), zeros(name), 100)


@pytest.mark.parametrize('dtype', [np.float16, ml_dtypes.bfloat16, np.float64])
def test_other_float_kinds_become_float32_and_are_logged(dtype, caplog, tmp_path):
  state = {name: value.astype(dtype) for name, value in normal_arrays(RESNET).items()}
  save_file(state, tmp_path / 'net.safetensors')
  with caplog.at_level(logging.WARNING):
    variables = weights.load(tmp_path / 'net.safetensors', RESNET)
  assert {leaf.dtype for leaf in jax.tree.leaves(variables)} == {np.dtype(np.float32)}
  assert np.dtype(dtype).name in caplog.text


def test_saved_variables_are_loaded_bit_for_bit(tmp_path):
  variables, path = normal_variables(DIGITS), tmp_path / 'digits.safetensors'
  transposed = variables['params']['head']['dense']
  transposed['kernel'] = np.asfortranarray(transposed['kernel'])
  facts = {'architecture': 'small_cnn', 'class_names': ['0', 'zwölf'], 'steps': 12}
  weights.save_variables(path, variables, facts)
  loaded, metadata = weights.load_variables(path)
  assert metadata == facts
  expected = flax.traverse_util.flatten_dict(variables)
  for variables_read in (loaded, weights.load(path, DIGITS, num_classes=10)):
    flat = flax.traverse_util.flatten_dict(variables_read)
    assert flat.keys() == expected.keys()
    for name, value in flat.items():
      np.testing.assert_array_equal(value, expected[name], err_msg=str(name))
  refused('.safetensors', weights.save_variables, tmp_path / 'digits.npz', variables, {})


@pytest.mark.parametrize('name', ['resnet20', 'airbench94_half'])
def test_the_last_layer_determines_the_number_of_classes(tmp_path, name):
  path = tmp_path / 'given.safetensors'
  weights.save_variables(path, random_variables(name, num_classes=7), {})
  loaded = weights.load(path, catalog.get(name))
  assert loaded['params']['head']['dense']['kernel'].shape[-1] == 7
  message = 'tell 7 classes apart, and 10 were asked for'
  refused(message, weights.load, path, catalog.get(name), num_classes=10)


def test_a_last_layer_with_another_name_needs_the_number_of_classes(tmp_path):
  class WithoutHead(Network):
    @nn.compact
    def __call__(self, x, train=False):
      return nn.Dense(self.num_classes, name='fc')(x.mean((1, 2)))

  architecture = dataclasses.replace(DIGITS, network=WithoutHead(), schemes=())
  path, layer = tmp_path / 'w.safetensors', {'kernel': ONES[:1, :3], 'bias': ONES[0, :3]}
  weights.save_variables(path, {'params': {'fc': layer}}, {})
  assert weights.load(path, architecture, 3)['params']['fc']['bias'].shape == (3,)
  refused("not known.*is not head/dense.*LinearHead, name='head'", weights.load, path, architecture)


def test_altered_weights_are_refused(tmp_path):
  path, values = tmp_path / 'w.safetensors', {'params': {'a': np.arange(500, dtype=np.float32)}}
  weights.save_variables(path, values, {'class_names': ['x', 'y']})
  content = path.read_bytes()
  for place in (content.index(b'"x'), len(content) - 3):  # in the metadata and in the values
    altered = content[: place + 1] + bytes([content[place + 1] ^ 1]) + content[place + 2 :]
    path.write_bytes(altered)
    refused(r'w\.safetensors (was altered|is truncated)', weights.load_variables, path)
  arrays = {'params/a': values['params']['a']}
  path.write_bytes(safetensors.numpy.save(arrays, {'format': weights.FORMAT, 'metadata': '{}'}))
  refused(r'w\.safetensors was altered', weights.load_variables, path)


@cases(
  'architecture, options, message',
  (RESNET, {}, 'digits.safetensors.*do not fit resnet20.*missing'),
  (DIGITS, {'input_shape': (48, 48, 1)}, 'params/head/dense/kernel is'),
  (DIGITS, {}, 'digits.safetensors.*NaN.*params/stage1/bn/scale'),
)
def test_unsuitable_saved_variables_are_refused(tmp_path, architecture, options, message):
  path, variables = tmp_path / 'digits.safetensors', normal_variables(DIGITS)
  variables['params']['stage1']['bn']['scale'][0] = np.nan
  weights.save_variables(path, variables, {})
  refused(message, weights.load, path, architecture, **options)


def test_saved_variables_of_another_network_of_equal_shapes_are_refused(tmp_path):
  path, theirs = tmp_path / 'w.safetensors', 'efficientnetv2_s_torchvision'
  weights.save_variables(path, {'params': {}}, {'architecture': theirs})
  message = f"of '{theirs}', not of 'efficientnetv2_s'.*classifier.name={theirs}"
  refused(message, weights.load, path, catalog.get('efficientnetv2_s'))


def test_the_digest_depends_on_values_names_and_shapes():
  a, b = np.zeros((2, 3), np.float32), np.ones(2, np.float32)
  trees = ({'a': a, 'b': b}, {'a': a + 1e-6, 'b': b}, {'a': a, 'c': b}, {'a': a.T, 'b': b})
  assert len(set(map(weights.digest, trees))) == 4
  assert weights.digest({'b': b, 'a': a}) == weights.digest(trees[0])
