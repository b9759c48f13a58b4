"""Draws as one line are the draws in the image's shape."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.core import random_images

KEY = jax.random.key(3)


@pytest.mark.parametrize('shape', [(5, 7, 3), (4, 6, 1), (8, 9)])
def test_the_numbers_are_those_of_the_shape(shape: tuple[int, ...]) -> None:
  np.testing.assert_array_equal(
    random_images.bits(KEY, shape), jax.random.bits(KEY, shape, jnp.uint32)
  )
  np.testing.assert_array_equal(random_images.uniform(KEY, shape), jax.random.uniform(KEY, shape))
  np.testing.assert_allclose(
    random_images.normal(KEY, shape), jax.random.normal(KEY, shape), rtol=2e-6, atol=1e-6
  )
