"""Patch Gaussian: white noise of a random strength inside a square."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from robustness.augment.gaussian import noisy
from robustness.augment.operations import square
from robustness.core.settings import require

WHERE = 'config.classifier.augment.patch_gaussian'
RESEMBLES = ('gaussian_noise', 'shot_noise', 'impulse_noise', 'speckle_noise')


@dataclasses.dataclass(frozen=True)
class Settings:
  """The section `config.classifier.augment.patch_gaussian`.

  Attributes:
    size: side W of the square in pixels: 25 for CIFAR-10, 250 for ImageNet.
    random_size: whether W is drawn, uniformly from 1 to `size`, as for ImageNet.
    sigma: the largest standard deviation, in units of the pixel range [0, 1].
  """

  size: int = 25
  random_size: bool = False
  sigma: float = 1.0

  def __post_init__(self) -> None:
    require(self.size >= 1, f'{WHERE}.size', self.size, 'a number of pixels, at least 1')
    require(
      0 <= self.sigma <= 1,
      f'{WHERE}.sigma',
      self.sigma,
      'a standard deviation in [0, 1] for pixels in [0, 1]',
    )


def augment(key: jax.Array, example: dict[str, Any], settings: Settings) -> dict[str, Any]:
  """Adds clip(x + σ̃·ε, 0, 1) inside a square and leaves the rest; σ̃ ~ U[0, σ] once an image.

  The square's centre is uniform over the pixels, so that it may be cut by the border. A square of
  twice the image's side covers all of it: `gaussian` then, with the same draws from the same key.
  Put it after flip and crop, which would move the noise.

  Args:
    key: decides σ̃, ε and the square.
    example: with `image` [H, W, C] in [0, 1].
    settings: see there.

  Returns:
    The example; pixels outside the square are as they were, bit for bit.

  Reference:
    Lopes et al. (2019), Improving Robustness Without Sacrificing Accuracy with Patch Gaussian
    Augmentation, section 3.
  """
  image = example['image']
  key_place, key_size = jax.random.split(jax.random.fold_in(key, 1))
  centre = jax.random.randint(key_place, (2,), 0, jnp.array(image.shape[:2]))
  size: int | jax.Array = settings.size
  if settings.random_size:
    size = jax.random.randint(key_size, (), 1, settings.size + 1)
  inside = square(image.shape[:2], centre, size)
  noise = noisy(key, image, settings.sigma)
  return {**example, 'image': jnp.where(inside[..., None], noise, image)}
