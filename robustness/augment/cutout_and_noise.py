"""Cutout, Gaussian noise, and Patch Gaussian: noise inside a square."""

import dataclasses

import jax
import jax.numpy as jnp

from robustness.augment import Augmentation, Example
from robustness.augment.operations import MEAN_COLOUR, check_colour, fill_levels, square_mask
from robustness.core import random_images
from robustness.core.registry import setting
from robustness.corruptions.names import NOISE

PIXELS, DEVIATION = 'a number of pixels, at least 1', 'a standard deviation for pixels in [0, 1]'
"""Phrases for the valid values of settings."""


@dataclasses.dataclass(frozen=True)
class Cutout(Augmentation):
  """Covers a square of the image, at a random place, with one colour.

  The square has the rows and columns from c − ⌊s/2⌋ to c − ⌊s/2⌋ + s − 1. The centre c is uniform
  over the pixels, so that the image border may cut the square. Put `cutout` last in the policy:
  later augmentations would move or distort the square.

  Attributes:
    size: side s of the square in pixels; 16 for CIFAR-10.
    fill: colour of the square in 0..255, either one grey value or (red, green, blue). () is the
      mean colour of CIFAR-10, which normalisation maps to about 0.

  Reference:
    DeVries and Taylor (2017), Improved Regularization of Convolutional Neural Networks with Cutout,
    section 3.2.
  """

  name = 'cutout'
  resembles = ('checkerboard_cutout',)
  size: int = setting(16, PIXELS, lambda x: x >= 1)
  fill: tuple[int, ...] = ()

  def __post_init__(self) -> None:
    """Raises InputError if `fill` is no colour."""
    super().__post_init__()
    check_colour(self.fill, self.key('fill'))

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example with a random square of its image covered."""
    image = example['image']
    centre = jax.random.randint(key, (2,), 0, jnp.array(image.shape[:2]))
    is_covered = square_mask(image.shape[:2], centre, self.size)[..., None]
    fill = fill_levels(self.fill or MEAN_COLOUR, image.shape[-1])
    return {**example, 'image': jnp.where(is_covered, fill.astype(image.dtype) / 255, image)}


@dataclasses.dataclass(frozen=True)
class Gaussian(Augmentation):
  """Adds Gaussian noise of a random strength to the image.

  The result for an image x is clip(x + σ̃·ε, 0, 1) with σ̃ ~ U[0, σ] and ε ~ N(0, I). The strength
  σ̃ is drawn for every image and step; the paper leaves open whether a batch shares it.

  Attributes:
    sigma: largest standard deviation σ, in units of the pixel range [0, 1].

  Reference:
    Yin et al. (2019), A Fourier Perspective on Model Robustness, section 2: σ = .1 for CIFAR-10 and
    .4 for ImageNet.
  """

  name = 'gaussian'
  resembles = (NOISE,)
  sigma: float = setting(0.1, f'in (0, 1], {DEVIATION} (.1 for CIFAR-10)', lambda x: 0 < x <= 1)

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example with noise added to its image."""
    return {**example, 'image': noisy(key, example['image'], self.sigma)}


@dataclasses.dataclass(frozen=True)
class PatchGaussian(Augmentation):
  """Adds Gaussian noise of a random strength inside a random square of the image.

  A pixel x in the square becomes clip(x + σ̃·ε, 0, 1), with ε ~ N(0, 1) and one strength σ̃ ~ U[0,
  σ] per image. The centre of the square is uniform over the pixels, so that the image border may
  cut the square. Put `patch_gaussian` after flip and crop, which would move the square.

  Attributes:
    size: side W of the square in pixels: 25 for CIFAR-10, 250 for ImageNet. A side of twice the
      image's covers the entire image.
    random_size: whether W is drawn uniformly from 1 to `size`, as for ImageNet.
    sigma: largest standard deviation σ, in units of the pixel range [0, 1].

  Reference:
    Lopes et al. (2019), Improving Robustness Without Sacrificing Accuracy with Patch Gaussian
    Augmentation, section 3.
  """

  name = 'patch_gaussian'
  resembles = (NOISE,)
  size: int = setting(25, PIXELS, lambda x: x >= 1)
  random_size: bool = False
  sigma: float = setting(1.0, f'in [0, 1], {DEVIATION}', lambda x: 0 <= x <= 1)

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example with noise in a random square of its image."""
    image = example['image']
    # `key` itself draws the noise, so that it is the noise of `gaussian` with the same key
    key_place, key_size = jax.random.split(jax.random.fold_in(key, 1))
    centre = jax.random.randint(key_place, (2,), 0, jnp.array(image.shape[:2]))
    size = jax.random.randint(key_size, (), 1, self.size + 1) if self.random_size else self.size
    is_inside = square_mask(image.shape[:2], centre, size)[..., None]
    return {**example, 'image': jnp.where(is_inside, noisy(key, image, self.sigma), image)}


def noisy(key: jax.Array, image: jax.Array, sigma: float) -> jax.Array:
  """Returns an image [H, W, C] with Gaussian noise, clipped to [0, 1].

  Args:
    key: random key.
    image: [H, W, C] in [0, 1].
    sigma: largest standard deviation. The standard deviation of the noise is uniform in [0, sigma].
  """
  key_strength, key_noise = jax.random.split(key)
  strength = jax.random.uniform(key_strength, maxval=sigma, dtype=image.dtype)
  noise = random_images.normal(key_noise, image.shape).astype(image.dtype)
  return jnp.clip(image + strength * noise, 0, 1)
