"""Random crop and flip."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from robustness.augment.crop_flip import random_crop, random_flip

IMAGE = jnp.arange(1.0, 31.0).reshape(5, 3, 2) / 30
KEYS = jax.random.split(jax.random.key(0), 400)


def test_a_flip_mirrors_columns_in_half_of_the_cases():
  images = np.asarray(jax.vmap(lambda key: random_flip(key, IMAGE))(KEYS))
  flipped = (images == np.asarray(IMAGE[:, ::-1])).all((1, 2, 3))
  kept = (images == np.asarray(IMAGE)).all((1, 2, 3))
  assert (flipped ^ kept).all()
  assert 160 < flipped.sum() < 240  # four standard deviations of Binomial(400, 1/2)


def test_a_crop_is_a_window_of_the_padded_image_and_every_window_occurs():
  padding = 2
  padded = np.pad(np.asarray(IMAGE), ((padding, padding), (padding, padding), (0, 0)))
  windows = {padded[i : i + 5, j : j + 3].tobytes(): (i, j) for i in range(5) for j in range(5)}
  images = np.asarray(jax.jit(jax.vmap(lambda key: random_crop(key, IMAGE, padding)))(KEYS))
  seen = [windows[image.tobytes()] for image in images]
  assert set(seen) == set(windows.values())
  assert abs(np.mean(seen) - padding) < 0.2  # uniform on 0..4: mean 2, error of the mean .05


def test_a_crop_without_padding_changes_nothing():
  np.testing.assert_array_equal(random_crop(KEYS[0], IMAGE, 0), IMAGE)
