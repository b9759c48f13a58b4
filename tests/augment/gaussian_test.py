"""Gaussian data augmentation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.augment.gaussian import Settings, augment


def gaussian_noise(key, image, sigma):
  return augment(key, {'image': image}, Settings(sigma))['image']


KEYS = jax.random.split(jax.random.key(1), 500)


def test_the_strength_of_each_image_is_uniform_up_to_sigma():
  grey = jnp.full((40, 40, 1), 0.5)
  noisy = np.asarray(jax.vmap(lambda key: gaussian_noise(key, grey, 0.1))(KEYS))
  strength = np.sort((noisy - 0.5).std((1, 2, 3)))
  uniform = (np.arange(500) + 0.5) / 500 * 0.1
  assert np.abs(strength - uniform).max() < 0.1 * 0.075  # Kolmogorov distance at 1 in 100: .073
  assert np.abs((noisy - 0.5).mean()) < 1e-3


def test_values_stay_in_the_unit_interval_and_reach_its_ends():
  noisy = jax.vmap(lambda key: gaussian_noise(key, jnp.full((8, 8, 3), 0.9), 1.0))(KEYS)
  assert float(noisy.min()) == 0.0
  assert float(noisy.max()) == 1.0


def test_noise_is_white_over_pixels_and_channels():
  grey = jnp.full((16, 16, 3), 0.5)
  noise = np.asarray(jax.vmap(lambda key: gaussian_noise(key, grey, 0.1))(KEYS)) - 0.5
  for other in (np.roll(noise, 1, 1), np.roll(noise, 1, 2), np.roll(noise, 1, 3)):
    assert np.corrcoef(noise.ravel(), other.ravel())[0, 1] == pytest.approx(0, abs=0.01)
