"""Gaussian data augmentation with a random strength."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from robustness.core import random_images
from robustness.core.settings import require

RESEMBLES = ('gaussian_noise', 'shot_noise', 'impulse_noise', 'speckle_noise')


@dataclasses.dataclass(frozen=True)
class Settings:
  """The section `config.classifier.augment.gaussian`.

  Attributes:
    sigma: the largest standard deviation σ, in units of the pixel range [0, 1].
  """

  sigma: float = 0.1

  def __post_init__(self) -> None:
    require(
      0 < self.sigma <= 1,
      'config.classifier.augment.gaussian.sigma',
      self.sigma,
      'a standard deviation in (0, 1] for pixels in [0, 1] (.1 for CIFAR-10)',
    )


def augment(key: jax.Array, example: dict[str, Any], settings: Settings) -> dict[str, Any]:
  """Adds white noise of a random strength: clip(x + σ̃·ε, 0, 1), σ̃ ~ U[0, σ], ε ~ N(0, I).

  σ̃ is drawn once for every image and step. The paper's sentence can also be read as one draw for
  the whole batch; one for each image has the same mean and does not depend on the batch's layout.

  Args:
    key: decides σ̃ and ε.
    example: with `image` [H, W, C] in [0, 1].
    settings: see there.

  Returns:
    The example with the noisy image [H, W, C] in [0, 1].

  Reference:
    Yin et al. (2019), A Fourier Perspective on Model Robustness, section 2: σ = .1 for CIFAR-10
    and .4 for ImageNet.
  """
  return {**example, 'image': noisy(key, example['image'], settings.sigma)}


def noisy(key: jax.Array, image: jax.Array, sigma: float) -> jax.Array:
  """Returns clip(x + σ̃·ε, 0, 1), float32 [H, W, C], σ̃ ~ U[0, sigma] and ε ~ N(0, I)."""
  key_strength, key_noise = jax.random.split(key)
  strength = jax.random.uniform(key_strength, maxval=sigma, dtype=image.dtype)
  noise = random_images.normal(key_noise, image.shape).astype(image.dtype)
  return jnp.clip(image + strength * noise, 0, 1)
