"""Sizes, layers, dtypes and the catalog."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.models import (
  bit_resnet,
  catalog,
  cifar_resnet,
  resnet,
  squeezenet,
  vgg,
  wide_resnet,
)
from tests.networks import random_variables

NAMES = sorted(catalog.ARCHITECTURES)


@functools.cache
def network(name, num_classes):
  """A network in bfloat16, and its variables' shapes: tracing a deep one takes a second."""
  architecture = catalog.get(name)
  module = architecture.build(num_classes, jnp.bfloat16)
  image = jax.ShapeDtypeStruct((1, *architecture.input_shape), jnp.float32)
  return module, jax.eval_shape(module.init, jax.random.key(0), image)


def parameters(name, num_classes=10):
  params = network(name, num_classes)[1]['params']
  return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(params))


@pytest.mark.parametrize(
  ('name', 'count'),
  [('resnet20', 269_722), ('resnet56', 853_018), ('wide_resnet_28_10', 36_479_194)],
)
def test_parameter_counts_are_the_published_ones(name, count):
  assert parameters(name) == count


@pytest.mark.parametrize(
  ('name', 'count'),
  [
    ('resnet18', 11_689_512),
    ('resnet34', 21_797_672),
    ('resnet50', 25_557_032),
    ('resnet50_gn', 25_557_032),
    ('resnet101', 44_549_160),
    ('resnet152', 60_192_808),
    ('bit_r50x1', 25_549_352),
    ('bit_r101x1', 44_541_480),
    ('bit_r50x3', 217_319_080),
    ('bit_r101x3', 387_934_888),
    ('squeezenet1_0', 1_248_424),
    ('squeezenet1_1', 1_235_496),
    ('vgg16', 138_357_544),
    ('vgg19', 143_667_240),
    ('vgg16_bn', 138_365_992),
    ('vgg19_bn', 143_678_248),
  ],
)
def test_parameter_counts_on_imagenet_are_the_published_ones(name, count):
  assert parameters(name, 1000) == count


@pytest.mark.parametrize('name', NAMES)
def test_stages_are_captured_layers_and_logits_are_float32(name):
  architecture = catalog.get(name)
  image = jax.ShapeDtypeStruct((2, *architecture.input_shape), jnp.float32)
  module, variables = network(name, 1000)
  logits, state = jax.eval_shape(
    lambda v, x: module.apply(v, x, capture_intermediates=True, mutable=['intermediates']),
    variables,
    image,
  )
  assert logits.shape == (2, 1000)
  assert logits.dtype == jnp.float32
  assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(variables))
  outputs = [state['intermediates'][stage]['__call__'][0] for stage in architecture.stages]
  assert all(output.dtype == jnp.bfloat16 for output in outputs)
  if outputs[0].ndim == 4:  # images; transformers keep their number of tokens
    sides = [output.shape[1] for output in outputs]
    assert sides == sorted(sides, reverse=True)
    assert sides[-1] * 4 <= architecture.input_shape[0] + 3


def small(name='small_cnn', **build):
  architecture = catalog.get(name)
  x = jax.random.normal(jax.random.key(1), (4, *architecture.input_shape))
  return architecture.build(10, **build), random_variables(name), x


@pytest.mark.usefixtures('shallow_resnet')
def test_stage_outputs_of_the_resnet_are_rectified():
  module, variables, x = small('resnet20')
  capture = {'capture_intermediates': True, 'mutable': ['intermediates']}
  _, state = jax.jit(lambda v, x: module.apply(v, x, **capture))(variables, x)
  for stage in ('stem', 'stage1', 'stage2', 'stage3'):
    assert float(state['intermediates'][stage]['__call__'][0].min()) == 0


def test_logits_do_not_depend_on_the_other_images_of_a_batch():
  module, variables, x = small()
  whole = jax.jit(module.apply)(variables, x)
  alone = jax.jit(module.apply)(variables, x[:1])
  np.testing.assert_allclose(whole[:1], alone, rtol=1e-5, atol=1e-6)


def test_shortcut_pads_both_sides_with_zeros():
  x = jnp.arange(2 * 5 * 4 * 16, dtype=jnp.float32).reshape(2, 5, 4, 16) + 1
  y = cifar_resnet.shortcut(x, 32, 2)
  assert y.shape == (2, 3, 2, 32)
  np.testing.assert_array_equal(y[..., 8:24], x[:, ::2, ::2])
  assert not np.any(y[..., :8]) and not np.any(y[..., 24:])


def test_statistics_are_averaged_over_the_pmap_axis():
  network, variables, _ = small()
  many, _, _ = small(axis_name='batch')
  x = jax.random.normal(jax.random.key(2), (8, 28, 28, 1))
  train = {'train': True, 'mutable': ['batch_stats']}
  logits, state = jax.jit(lambda x: network.apply(variables, x, **train))(x)
  step = jax.vmap(lambda part: many.apply(variables, part, **train), axis_name='batch')
  parts, states = jax.jit(step)(x.reshape(2, 4, 28, 28, 1))
  np.testing.assert_allclose(parts.reshape(8, 10), logits, rtol=1e-4, atol=1e-4)
  for synced, whole in zip(jax.tree.leaves(states), jax.tree.leaves(state), strict=True):
    np.testing.assert_allclose(synced[0], whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('depth', [2, 18, 21, 52])
def test_depth_must_be_6n_plus_2(depth):
  with pytest.raises(InputError, match=r'6n \+ 2.*20, 32'):
    cifar_resnet.build(10, jnp.float32, None, depth)


@pytest.mark.parametrize(('depth', 'width', 'message'), [(27, 10, '6n [+] 4'), (28, 1, 'width 1')])
def test_depth_must_be_6n_plus_4_and_width_above_1(depth, width, message):
  with pytest.raises(InputError, match=message):
    wide_resnet.build(10, jnp.float32, None, depth, width)


@pytest.mark.parametrize(
  ('build', 'message'),
  [
    (lambda: resnet.build(10, jnp.float32, None, 20, 'batch'), '20; valid: 18, 34, 50'),
    (lambda: resnet.build(10, jnp.float32, None, 50, 'layer'), "'layer'.*'batch', 'group'"),
    (lambda: bit_resnet.build(10, jnp.float32, None, 152, 1), '152; valid: 50, 101'),
    (lambda: bit_resnet.build(10, jnp.float32, None, 50, 0), 'width 0'),
    (lambda: squeezenet.build(10, jnp.float32, None, '2.0'), "'2.0'.*'1.0'"),
    (lambda: vgg.build(10, jnp.float32, None, 11, 'none'), '11; valid: 16, 19'),
    (lambda: vgg.build(10, jnp.float32, None, 16, 'group'), "'group'.*valid: .*'batch'"),
  ],
)
def test_options_that_no_network_has_are_named(build, message):
  with pytest.raises(InputError, match=message):
    build()


def test_wide_resnets_of_any_size_are_known_by_name():
  architecture = catalog.get('wide_resnet_16_4')
  assert architecture.name == 'wide_resnet_16_4'
  assert dict(architecture.options) == {'depth': 16, 'width': 4}
  assert parameters('wide_resnet_16_4') == 2_748_890
  with pytest.raises(InputError, match='depth 17 is no Wide ResNet'):
    catalog.get('wide_resnet_17_4').build(10)


def test_group_norm_keeps_no_statistics():
  module = catalog.get('resnet18_gn').build(10)
  images = jax.ShapeDtypeStruct((2, 32, 32, 3), jnp.float32)
  variables = jax.eval_shape(module.init, jax.random.key(0), images)
  assert set(variables) == {'params'}


def test_standardised_kernels_have_mean_0_and_variance_1():
  kernel = 3 + 0.01 * jax.random.normal(jax.random.key(4), (3, 3, 8, 5))
  standard = np.asarray(bit_resnet.standardise(kernel), np.float64).reshape(-1, 5)
  np.testing.assert_allclose(standard.mean(0), 0, atol=1e-4)
  np.testing.assert_allclose(standard.var(0), 1, atol=1e-3)


def test_part_means_are_those_of_overlapping_parts():
  x = np.random.default_rng(0).normal(size=(2, 10, 3, 4)).astype(np.float32)
  means = np.asarray(vgg.part_means(jnp.asarray(x), 7))
  np.testing.assert_allclose(means[:, 2, 1], x[:, 2:5, 0:1].mean((1, 2)), rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(means[:, 6, 6], x[:, 8:10, 2:3].mean((1, 2)), rtol=1e-5, atol=1e-6)


def test_unknown_name_lists_valid_ones_and_the_nearest():
  with pytest.raises(InputError, match="'resnet21'.*did you mean .*'resnet20'.*'small_cnn'"):
    catalog.get('resnet21')


def test_no_classes_are_refused():
  with pytest.raises(InputError, match='resnet20 with 0 classes'):
    catalog.get('resnet20').build(0)


@pytest.mark.parametrize('name', NAMES)
def test_catalog_entries_are_complete(name):
  architecture = catalog.get(name)
  assert architecture.name == name
  channels = architecture.input_shape[2]
  assert len(architecture.mean) == len(architecture.std) == channels
  assert all(s > 0 for s in architecture.std)
  assert bool(architecture.schemes) == architecture.importable
  assert architecture.source and architecture.licence
  assert hash(architecture) == hash(catalog.get(name))
