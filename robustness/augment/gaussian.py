"""Gaussian data augmentation with a random strength."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from robustness.core import random_images


def gaussian_noise(key: jax.Array, image: jax.Array, sigma: float) -> jax.Array:
  """Adds white noise of a random strength: clip(x + σ̃·ε, 0, 1), σ̃ ~ U[0, σ], ε ~ N(0, I).

  σ̃ is drawn once for every image and step. The paper's sentence can also be read as one draw for
  the whole batch; one for each image has the same mean and does not depend on the batch's layout.

  Args:
    key: decides σ̃ and ε.
    image: [H, W, C] in [0, 1].
    sigma: the largest standard deviation σ, in units of the pixel range [0, 1].

  Returns:
    The noisy image [H, W, C] in [0, 1].

  Reference:
    Yin et al. (2019), A Fourier Perspective on Model Robustness, section 2: σ = .1 for CIFAR-10
    and .4 for ImageNet.
  """
  key_strength, key_noise = jax.random.split(key)
  strength = jax.random.uniform(key_strength, maxval=sigma, dtype=image.dtype)
  noise = random_images.normal(key_noise, image.shape).astype(image.dtype)
  return jnp.clip(image + strength * noise, 0, 1)
