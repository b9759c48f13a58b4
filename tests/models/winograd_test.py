"""Winograd's filtering is the convolution, and its gradient the convolution's."""

import jax
import numpy as np
import pytest
from jax import lax

from robustness.models import winograd

SIZES = [(4, 4), (5, 8), (7, 3), (1, 2)]
HIGHEST = lax.Precision.HIGHEST


def correlated(x, kernel):
  """Returns the sums of the definition, in float64: [B, H, W, O] of [B, H, W, I]."""
  height, width = x.shape[1:3]
  padded = np.pad(np.asarray(x, np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
  return sum(
    padded[:, u : u + height, v : v + width] @ np.asarray(kernel[u, v], np.float64)
    for u in range(3)
    for v in range(3)
  )


def drawn(*shape, seed):
  return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(('height', 'width'), SIZES)
def test_it_is_the_convolution_of_any_sides(height, width):
  x, kernel = drawn(3, height, width, 5, seed=0), drawn(3, 3, 5, 4, seed=1)
  y = jax.jit(winograd.convolved, static_argnums=2)(x, winograd.transformed(kernel), HIGHEST)
  np.testing.assert_allclose(y, correlated(x, kernel), atol=1e-4)


@pytest.mark.parametrize(('height', 'width'), SIZES)
def test_the_gradient_by_the_kernel_is_the_sum_of_the_definition(height, width):
  x, change = drawn(2, 3, height, width, 5, seed=0), drawn(2, 3, height, width, 4, seed=1)
  products = jax.jit(winograd.tile_products, static_argnums=2)(x, change, HIGHEST)
  assert products.shape == (36, 2, 5, 4)
  padded = np.pad(np.asarray(x, np.float64), ((0, 0), (0, 0), (1, 1), (1, 1), (0, 0)))
  expected = [
    [
      np.einsum('sbhwi,sbhwo->io', padded[:, :, u : u + height, v : v + width], change)
      for v in range(3)
    ]
    for u in range(3)
  ]
  np.testing.assert_allclose(
    winograd.kernel_gradient(products.sum(1)), np.array(expected), atol=2e-4
  )
