"""The depthwise convolution as a sum of shifts is XLA's grouped convolution."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.models.layers import DepthwiseConv


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
  return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def grouped(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
  return jax.lax.conv_general_dilated(
    x,
    kernel,
    (stride, stride),
    'SAME',
    dimension_numbers=('NHWC', 'HWIO', 'NHWC'),
    feature_group_count=x.shape[-1],
  )


def shifted(x: jax.Array, kernel: jax.Array, stride: int, dtype=jnp.float32) -> jax.Array:
  layer = DepthwiseConv(kernel.shape[0], stride, dtype)
  return layer.apply({'params': {'kernel': kernel}}, x)


@pytest.mark.parametrize(
  ('size', 'side', 'stride'),
  [
    ((8, 8), 3, 1),
    ((8, 8), 3, 2),
    ((7, 10), 5, 1),
    ((7, 10), 5, 2),
    ((7, 10), 1, 2),
    ((2, 1), 5, 2),
    ((2, 1), 3, 3),
  ],
)
def test_values_and_gradients_are_those_of_the_grouped_convolution(size, side, stride) -> None:
  x, kernel = drawn(2, *size, 6), drawn(side, side, 1, 6, seed=1)

  def both(function):
    def total(x, kernel):
      values = function(x, kernel, stride)
      return jnp.square(values).sum(), values

    gradients, values = jax.jit(jax.grad(total, (0, 1), has_aux=True))(x, kernel)
    return (values, *gradients)

  ours_both, expected = both(shifted), both(grouped)
  assert ours_both[0].shape == (2, -(-size[0] // stride), -(-size[1] // stride), 6)
  for ours, theirs in zip(ours_both, expected, strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_a_bfloat16_result_is_the_float32_sum_rounded_once() -> None:
  x, kernel = jnp.asarray(drawn(1, 6, 6, 4), jnp.bfloat16), drawn(5, 5, 1, 4, seed=1)
  exact = shifted(x.astype(jnp.float32), kernel, 1)
  ours_both = shifted(x, kernel, 1, jnp.bfloat16)
  assert ours_both.dtype == jnp.bfloat16
  np.testing.assert_array_equal(ours_both, exact.astype(jnp.bfloat16))


def test_the_kernel_is_drawn_with_the_variance_of_its_own_inputs() -> None:
  variables = DepthwiseConv(5).init(jax.random.key(0), jnp.zeros((1, 9, 9, 400)))
  assert float(jnp.var(variables['params']['kernel'])) == pytest.approx(2 / 25, rel=0.05)
