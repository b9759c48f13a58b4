"""Random flip."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from robustness.augment import flip

IMAGE = jnp.arange(1.0, 31.0).reshape(5, 3, 2) / 30
KEYS = jax.random.split(jax.random.key(0), 400)


def images(probability: float) -> np.ndarray:
  settings = flip.Settings(probability)
  return np.asarray(
    jax.vmap(lambda key: flip.augment(key, {'image': IMAGE}, settings)['image'])(KEYS)
  )


def test_a_flip_mirrors_columns_in_half_of_the_cases() -> None:
  flipped = (images(0.5) == np.asarray(IMAGE[:, ::-1])).all((1, 2, 3))
  kept = (images(0.5) == np.asarray(IMAGE)).all((1, 2, 3))
  assert (flipped ^ kept).all()
  assert 160 < flipped.sum() < 240  # four standard deviations of Binomial(400, 1/2)


def test_probabilities_of_zero_and_one() -> None:
  assert (images(0.0) == np.asarray(IMAGE)).all()
  assert (images(1.0) == np.asarray(IMAGE[:, ::-1])).all()
