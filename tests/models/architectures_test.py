"""Tests the sizes, layers, dtypes, facts and names of arrays of every architecture."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from flax import traverse_util

from robustness.classifiers import ClassifierSettings, resolve_section
from robustness.classifiers.trained_here import TrainedHere
from robustness.models import catalog, hub, naming
from robustness.models.architecture import Architecture
from robustness.models.bit_resnet import standardise
from robustness.models.small_images import CifarResNet, shortcut
from robustness.models.vgg import part_means
from tests.cases import cases, marked
from tests.models import networks_page
from tests.models.peer_networks import PEERS
from tests.networks import WITHOUT_STATISTICS, imported, normal_arrays, random_variables
from tests.refusals import refused

QUICK = {
  *('small_cnn', 'resnet20', 'wide_resnet_28_10', 'airbench94', 'resnet18_gn', 'resnet50'),
  *('bit_r50x1', 'squeezenet1_1', 'efficientnet_lite0', 'convnextv2_tiny', 'swin_tiny'),
  *('vit_s16', 'dinov2_s14_registers', 'dinov3_s16', 'eva02_s14', 'clip_rn50', 'clip_vit_b32'),
}
"""Small networks of every family; the other networks take seconds to trace and are slow."""
NAMES = marked(sorted(catalog.ARCHITECTURES), QUICK)
CAPTURE = {'capture_intermediates': True, 'mutable': ['intermediates']}
PUBLISHED = {'resnet20': 269_722, 'resnet56': 853_018}
PUBLISHED |= {'airbench94': 1_971_640 - 288}  # of 1.97 million, 288 whitening values are fixed
PUBLISHED |= {'wide_resnet_28_10': 36_479_194, 'wide_resnet_16_4': 2_748_890}
PUBLISHED |= {
  name: architecture.parameters
  for name, architecture in catalog.ARCHITECTURES.items()
  if architecture.parameters
}
"""Numbers of parameters in papers and in the tables of timm and torchvision."""


@functools.cache
def network(name):
  """Returns the variables, outputs of stages and logits of a network in bfloat16, for two images.

  All are shapes and dtypes. They come from a single trace, which takes a second if it is deep.
  """
  architecture = catalog.get(name)
  module = architecture.build(architecture.network.num_classes, jnp.bfloat16)
  image = jax.ShapeDtypeStruct((2, *architecture.input_shape), jnp.float32)
  init = functools.partial(module.init_with_output, mutable=True, capture_intermediates=True)
  logits, variables = jax.eval_shape(init, jax.random.key(0), image)
  outputs = variables.pop('intermediates')
  return variables, [outputs[stage]['__call__'][0] for stage in architecture.stages], logits


def shapes_of(name):
  """Returns the shape of each variable by its path."""
  flat = traverse_util.flatten_dict(network(name)[0])
  return {path: leaf.shape for path, leaf in flat.items()}


def parameters(shapes):
  return sum(math.prod(shape) for path, shape in shapes.items() if path[0] == 'params')


@pytest.mark.parametrize('name', marked(sorted(PUBLISHED), QUICK))
def test_parameter_counts_are_the_published_ones(name):
  architecture, shapes = catalog.get(name), shapes_of(name)
  side = next((w.input_size for w in architecture.weights), architecture.input_shape[0])
  has_positions = any('position' in part for path in shapes for part in path)
  if side != architecture.input_shape[0] and has_positions:  # their number depends on the side
    shapes = architecture.shapes(architecture.network.num_classes, (side, side, 3))
  assert parameters(shapes) == PUBLISHED[name]


@pytest.mark.slow
def test_the_page_of_networks_has_the_table_of_the_catalog():
  fix = 'run python -m tests.models.networks_page'
  table = networks_page.table(lambda architecture: parameters(shapes_of(architecture.name)))
  assert table in networks_page.PAGE.read_text(encoding='utf-8'), fix


@pytest.mark.parametrize('name', NAMES)
def test_stages_are_layers_and_logits_and_variables_are_float32(name):
  architecture, (variables, outputs, logits) = catalog.get(name), network(name)
  assert logits.shape == (2, architecture.network.num_classes) and logits.dtype == jnp.float32
  assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(variables))
  assert ('batch_stats' in variables) == any('var' in str(path) for path in shapes_of(name))
  is_listed = bool(WITHOUT_STATISTICS.fullmatch(name))
  if is_listed or name in PEERS:  # the list serves the comparisons with peers
    assert ('batch_stats' in variables) != is_listed
  assert all(output.dtype == jnp.bfloat16 for output in outputs)
  if outputs[0].ndim == 4:  # feature maps; transformers keep their number of tokens
    sides = [output.shape[1] for output in outputs]
    assert sides == sorted(sides, reverse=True)
    assert sides[-1] * 4 <= architecture.input_shape[0] + 3


@pytest.mark.parametrize('name', NAMES)
def test_facts_are_complete_and_every_scheme_stores_every_value_once(name):
  architecture = catalog.get(name)
  copy = dataclasses.replace(architecture)
  assert architecture.name == name and hash(architecture) == hash(copy)
  channels = architecture.input_shape[2]
  assert len(architecture.mean) == len(architecture.std) == channels
  assert min(architecture.std) > 0 and architecture.source and architecture.licence
  assert bool(architecture.schemes) == (architecture.licence != 'no published weights')
  shapes = shapes_of(name)
  for scheme in architecture.schemes:
    complete = {p: s for p, s in shapes.items() if scheme.locate(p).layout != naming.WITHOUT_FIRST}
    stored = scheme.shapes(complete).values()
    assert sum(map(math.prod, stored)) == sum(map(math.prod, complete.values())), scheme.name
    assert len(scheme.locate(naming.HEAD_BIAS).names) == 1


def small(name='small_cnn', **build):
  """Returns a network of the catalog with 10 classes, random variables, and 4 images."""
  architecture = catalog.get(name)
  x = jax.random.normal(jax.random.key(1), (4, *architecture.input_shape))
  return architecture.build(10, **build), random_variables(name), x


@pytest.mark.usefixtures('shallow_resnet')
def test_stage_outputs_are_rectified_and_images_are_independent():
  module, variables, x = small('resnet20')
  apply = jax.jit(functools.partial(module.apply, **CAPTURE))
  together, state = apply(variables, x)
  for stage in ('stem', 'stage1', 'stage2', 'stage3'):
    assert float(state['intermediates'][stage]['__call__'][0].min()) == 0
  np.testing.assert_allclose(together[:1], apply(variables, x[:1])[0], rtol=1e-5, atol=1e-6)


def test_a_shortcut_pads_channels_with_zeros_on_both_sides():
  x = jnp.arange(2 * 5 * 4 * 16, dtype=jnp.float32).reshape(2, 5, 4, 16) + 1
  y = shortcut(x, 32, 2)
  assert y.shape == (2, 3, 2, 32)
  np.testing.assert_array_equal(y[..., 8:24], x[:, ::2, ::2])
  assert not np.any(y[..., :8]) and not np.any(y[..., 24:])


def test_statistics_are_averaged_over_the_pmap_axis():
  network, variables, _ = small()
  mapped, _, _ = small(axis_name='batch')
  x = jax.random.normal(jax.random.key(2), (8, 28, 28, 1))
  train = {'train': True, 'mutable': ['batch_stats']}
  logits, state = jax.jit(lambda x: network.apply(variables, x, **train))(x)
  step = jax.vmap(lambda part: mapped.apply(variables, part, **train), axis_name='batch')
  logits_of_parts, states = jax.jit(step)(x.reshape(2, 4, 28, 28, 1))
  np.testing.assert_allclose(logits_of_parts.reshape(8, 10), logits, rtol=1e-4, atol=1e-4)
  for synced, expected in zip(jax.tree.leaves(states), jax.tree.leaves(state), strict=True):
    np.testing.assert_allclose(synced[0], expected, rtol=1e-4, atol=1e-5)


def resnet_of(depth):
  module = CifarResNet(10, depth)
  return jax.eval_shape(module.init, jax.random.key(0), jnp.zeros((1, 8, 8, 3)))


@cases(
  'make, message',
  *((functools.partial(resnet_of, depth), r'6n \+ 2.*20, 32') for depth in (2, 18, 21, 52)),
  (lambda: catalog.get('wide_resnet_17_4').shapes(10), 'depth 17 is no Wide ResNet.*6n [+] 4'),
  (lambda: catalog.get('wide_resnet_28_1').shapes(10), 'width 1 is no Wide ResNet'),
  (lambda: catalog.get('resnet21'), "'resnet21'.*did you mean .*'resnet20'.*are valid"),
  (lambda: catalog.get('resnet20').build(0), 'resnet20 with 0 classes'),
  (
    lambda: Architecture('mine', nn.Dense(3), (), '', '').build(3),
    'architecture mine is a Dense.*subclass of .*Network',
  ),
)
def test_impossible_networks_are_refused(make, message):
  refused(message, make)


def test_standardised_kernels_have_mean_0_and_variance_1():
  kernel = 3 + 0.01 * jax.random.normal(jax.random.key(4), (3, 3, 8, 5))
  standard = np.asarray(standardise(kernel), np.float64).reshape(-1, 5)
  np.testing.assert_allclose(standard.mean(0), 0, atol=1e-4)
  np.testing.assert_allclose(standard.var(0), 1, atol=1e-3)


def test_part_means_are_over_overlapping_parts():
  x = np.random.default_rng(0).normal(size=(2, 10, 3, 4)).astype(np.float32)
  means = np.asarray(part_means(jnp.asarray(x), 7))
  np.testing.assert_allclose(means[:, 2, 1], x[:, 2:5, 0:1].mean((1, 2)), rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(means[:, 6, 6], x[:, 8:10, 2:3].mean((1, 2)), rtol=1e-5, atol=1e-6)


def numbered(*shape):
  """Returns 0, 1, 2, … in a shape, so that every value tells its place."""
  return np.arange(math.prod(shape), dtype=np.float32).reshape(shape)


@cases(
  'layout, shape, to_file',
  (naming.AS_IS, (3, 4), lambda a: a),
  (naming.OUTPUT_FIRST, (3, 4), lambda a: a.T),
  (naming.OUTPUT_FIRST, (2, 5, 3, 4), lambda a: a.transpose(3, 2, 0, 1)),
  (naming.OUTPUT_FIRST_POINTWISE, (3, 4), lambda a: a.T[:, :, None, None]),
  (naming.POINTWISE, (3, 4), lambda a: a[None, None]),
  (naming.FLAT_IMAGE, (2, 5, 3, 4), lambda a: a.transpose(3, 2, 0, 1).reshape(4, 30)),
)
def test_layouts_restore_stored_arrays(layout, shape, to_file):
  array = numbered(*shape)
  stored = to_file(array)
  assert layout.stored(shape) == stored.shape
  np.testing.assert_array_equal(layout.restored(stored, shape), array)


def test_a_scheme_names_layers_and_arrays_and_joins_parts():
  qkv = naming.Stored(('q', 'k', 'v'), naming.OUTPUT_FIRST)
  scheme = naming.Scheme('mine', {r'block(\d)/conv': r'c\1', 'position': 'pos', 'qkv/kernel': qkv})
  assert scheme.locate(('params', 'block3', 'conv', 'bias')) == naming.Stored(('c3.bias',))
  conv = naming.Stored(('c3.weight',), naming.OUTPUT_FIRST)
  assert scheme.locate(('params', 'block3', 'conv', 'kernel')) == conv
  assert scheme.locate(('params', 'position')).names == ('pos',)
  stored, array = scheme.locate(('params', 'qkv', 'kernel')), numbered(2, 6)
  parts = {name: array[:, 2 * i : 2 * i + 2].T for i, name in enumerate('qkv')}
  assert stored.shapes((2, 6)) == dict.fromkeys('qkv', (2, 2))
  np.testing.assert_array_equal(stored.restore(parts, (2, 6)), array)
  message = 'the names of mine have none for params/norm/scale'
  refused(message, scheme.locate, ('params', 'norm', 'scale'))
  arrays = {'bn1.num_batches_tracked': numbered(1), 'bn1.weight': numbered(2)}
  assert set(scheme.needed(arrays)) == {'bn1.weight'}


USERS_FILE = """
from robustness.models.architecture import Architecture, timm
from robustness.models.naming import Scheme
from robustness.models.small_images import SmallCNN

names = {r'stage(.)/(conv|bn)': r'\\2\\1', 'head/dense': 'fc'}
thin = Architecture(
  'thin', SmallCNN(10), input_shape=(8, 8, 3), stages=('stage1',), source='here', licence='any',
  schemes=(Scheme('mine', names),), weights=(timm('thin', 'thin.mine'),),
)
"""


def test_an_architecture_in_a_users_file_works_like_others(tmp_path):
  (tmp_path / 'mine.py').write_text(USERS_FILE)
  name = f'{tmp_path}/mine.py:thin'
  architecture = catalog.get(name)
  arrays = normal_arrays(architecture)
  assert {'conv1.weight', 'bn3.running_var', 'fc.bias'} < set(arrays)
  variables = imported(architecture, arrays)
  assert architecture.build(10).apply(variables, jnp.ones((2, 8, 8, 3))).shape == (2, 10)
  entry = hub.resolve('timm:thin.mine', architecture)
  assert entry and entry.file == 'model.safetensors' and hub.resolve('', architecture) is None
  facts = catalog.file_facts(name)
  assert facts['file'] == 'mine.py' and len(facts['file_sha256']) == 64
  assert isinstance(resolve_section(ClassifierSettings(name=name, train=True)), TrainedHere)
  refused("unknown architecture '.*mine.py:SmallCNN'", catalog.get, f'{tmp_path}/mine.py:SmallCNN')
