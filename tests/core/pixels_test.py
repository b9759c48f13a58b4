"""Tests that 8-bit pixels become the same floats in [0, 1] by every function, compiled or not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.core.pixels import HIGH, LOW, scaled, with_scaled_image
from robustness.core.rows import as_float32

LEVELS = np.arange(256, dtype=np.uint8)
NEAREST = (np.arange(256) / 255.0).astype(np.float32)


@pytest.mark.parametrize('convert', [scaled, jax.jit(scaled), jax.vmap(scaled), as_float32])
def test_every_level_is_the_nearest_float_to_a_255th(convert):
  np.testing.assert_array_equal(convert(LEVELS), NEAREST)


def test_the_result_is_the_same_with_a_fused_multiply_add_but_not_by_division():
  """Products are exact in float64, so that one rounding remains, as in a fused operation."""
  levels = LEVELS.astype(np.float64)
  for first, second in ((HIGH, LOW), (LOW, HIGH)):
    product = (levels * second).astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal((levels * first + product).astype(np.float32), NEAREST)
  divided = jax.jit(lambda x: x.astype(jnp.float32) / 255)(LEVELS)
  assert (np.asarray(divided) != NEAREST).any(), 'if compiled division is exact, use it'


def test_floats_and_other_columns_stay():
  rows = {'image': NEAREST, 'label': LEVELS}
  converted = with_scaled_image(rows)
  assert converted['image'] is NEAREST and converted['label'] is LEVELS
  assert 'image' not in with_scaled_image({'label': LEVELS})
