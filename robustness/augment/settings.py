"""Which augmentations a training uses, and their one order: flip, crop, noise."""

from __future__ import annotations

import dataclasses

import jax

from robustness.augment import crop_flip, gaussian
from robustness.core.settings import require


@dataclasses.dataclass(frozen=True)
class AugmentSettings:
  """The section `config.augment`.

  Attributes:
    flip: mirror left and right with probability 1/2.
    crop_padding: pixels of black border before a random crop back to the old size; 0 is no crop.
    gaussian_sigma: largest standard deviation of Gaussian noise, in [0, 1] units; 0 is no noise.
  """

  flip: bool = False
  crop_padding: int = 0
  gaussian_sigma: float = 0.0

  def __post_init__(self) -> None:
    require(
      self.crop_padding >= 0,
      'config.augment.crop_padding',
      self.crop_padding,
      'a number of pixels, 0 (no crop) or more',
    )
    require(
      0 <= self.gaussian_sigma <= 1,
      'config.augment.gaussian_sigma',
      self.gaussian_sigma,
      'a standard deviation in [0, 1] for pixels in [0, 1] (.1 for CIFAR-10)',
    )


def apply(key: jax.Array, image: jax.Array, settings: AugmentSettings) -> jax.Array:
  """Augments one image; each part has its own key, so that one part never changes another's draw.

  Args:
    key: from `random_keys.for_example(stream, example_id, step)`.
    image: float32 [H, W, C] in [0, 1].
    settings: what to do.

  Returns:
    The augmented image [H, W, C] in [0, 1].
  """
  key_flip, key_crop, key_noise = jax.random.split(key, 3)
  if settings.flip:
    image = crop_flip.random_flip(key_flip, image)
  if settings.crop_padding:
    image = crop_flip.random_crop(key_crop, image, settings.crop_padding)
  if settings.gaussian_sigma:
    image = gaussian.gaussian_noise(key_noise, image, settings.gaussian_sigma)
  return image
