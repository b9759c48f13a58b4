"""Tests that layers written for speed have the outputs of Linen's and XLA's."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.models.layers import DepthwiseConv, GroupNorm
from tests.cases import cases


def drawn(*shape, seed=0):
  """Returns standard normal float32 values."""
  return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def grouped(x, kernel, stride):
  """Returns XLA's depthwise convolution."""
  options = {'dimension_numbers': ('NHWC', 'HWIO', 'NHWC'), 'feature_group_count': x.shape[-1]}
  return jax.lax.conv_general_dilated(x, kernel, (stride, stride), 'SAME', **options)


def shifted(x, kernel, stride, dtype=jnp.float32):
  """Returns the depthwise convolution of our layer, a sum of shifted images."""
  layer = DepthwiseConv(kernel.shape[0], stride, dtype)
  return layer.apply({'params': {'kernel': kernel}}, x)


@pytest.mark.slow
@cases(
  'size, side, stride, channels',
  ((8, 8), 3, 1, 6),
  ((8, 8), 3, 2, 6),
  ((7, 10), 5, 1, 6),
  ((7, 10), 5, 2, 6),
  ((7, 10), 1, 2, 6),
  ((2, 1), 5, 2, 6),
  ((2, 1), 3, 3, 6),
  ((7, 5), 3, 2, 128),
)
def test_values_and_gradients_match_the_grouped_convolution(size, side, stride, channels):
  x, kernel = drawn(2, *size, channels), drawn(side, side, 1, channels, seed=1)

  def values_and_gradients(function):
    def total(x, kernel):
      values = function(x, kernel, stride)
      return jnp.square(values).sum(), values

    gradients, values = jax.jit(jax.grad(total, (0, 1), has_aux=True))(x, kernel)
    return (values, *gradients)

  actual, expected = values_and_gradients(shifted), values_and_gradients(grouped)
  assert actual[0].shape == (2, -(-size[0] // stride), -(-size[1] // stride), channels)
  for value, reference in zip(actual, expected, strict=True):
    np.testing.assert_allclose(value, reference, rtol=1e-4, atol=1e-4)


def test_separated_pixels_on_a_cpu_change_nothing_under_vmap():
  x, kernel = drawn(3, 2, 6, 6, 128), drawn(5, 5, 1, 128, seed=1)
  ours = jax.jit(jax.vmap(lambda image: shifted(image, kernel, 1)))(x)
  expected = grouped(x.reshape(6, 6, 6, 128), kernel, 1)
  np.testing.assert_allclose(ours.reshape(expected.shape), expected, rtol=1e-4, atol=1e-4)


def test_a_bfloat16_result_is_the_float32_sum_rounded_once():
  x, kernel = jnp.asarray(drawn(1, 6, 6, 4), jnp.bfloat16), drawn(5, 5, 1, 4, seed=1)
  exact = shifted(x.astype(jnp.float32), kernel, 1)
  rounded = shifted(x, kernel, 1, jnp.bfloat16)
  assert rounded.dtype == jnp.bfloat16
  np.testing.assert_array_equal(rounded, exact.astype(jnp.bfloat16))


def test_initial_kernels_have_variance_two_over_their_number_of_inputs():
  variables = DepthwiseConv(5).init(jax.random.key(0), jnp.zeros((1, 9, 9, 400)))
  assert float(jnp.var(variables['params']['kernel'])) == pytest.approx(2 / 25, rel=0.05)


@pytest.mark.parametrize('dtype', [jnp.float32, jnp.bfloat16])
def test_group_norm_and_its_gradients_match_linen(dtype):
  x = jnp.asarray(3 + drawn(2, 9, 7, 12), dtype)
  params = {'scale': drawn(12, seed=1), 'bias': drawn(12, seed=2)}
  linen_norm = nn.GroupNorm(4, epsilon=1e-5, dtype=dtype, use_fast_variance=False)

  def values_and_gradients(layer):
    def total(params, x):
      values = layer.apply({'params': params}, x)
      weighted = values * jnp.cos(jnp.arange(12.0))[None, None, None]
      return weighted.astype(jnp.float32).sum(), values

    (params_gradient, gradient), values = jax.jit(jax.grad(total, (0, 1), has_aux=True))(params, x)
    return {**params_gradient, 'x': gradient, 'values': values}

  ours, expected = values_and_gradients(GroupNorm(4, dtype=dtype)), values_and_gradients(linen_norm)
  assert ours['values'].dtype == dtype
  tolerance = {'rtol': 1e-4, 'atol': 2e-4} if dtype == jnp.float32 else {'rtol': 0.02, 'atol': 0.05}
  for name, value in expected.items():
    actual, value = (np.asarray(v, np.float32) for v in (ours[name], value))
    np.testing.assert_allclose(actual, value, **tolerance, err_msg=name)


def test_the_variance_of_group_norm_survives_a_large_mean():
  x = 1000 + drawn(2, 9, 7, 12)  # E[x²] − E[x]² in float32 would be off by 0.06 and more
  params = {'scale': np.ones(12, np.float32), 'bias': np.zeros(12, np.float32)}
  grouped = x.astype(np.float64).reshape(2, 63, 4, 3)
  centred = grouped - grouped.mean((1, 3), keepdims=True)
  exact = (centred / np.sqrt((centred**2).mean((1, 3), keepdims=True) + 1e-5)).reshape(x.shape)
  np.testing.assert_allclose(GroupNorm(4).apply({'params': params}, x), exact, atol=1e-3)
