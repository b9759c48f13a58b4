"""The standard augmentations: flip, crop, random resized crop, and repeated images."""

import dataclasses
import math

import jax
import jax.numpy as jnp

from robustness.augment import Augmentation, Example
from robustness.augment.operations import MEAN_COLOUR, fill_levels
from robustness.core.errors import KEYS, InputError
from robustness.core.registry import setting, word
from robustness.core.sampler import EPOCH

BLACK, REFLECT, MEAN = BORDERS = ('black', 'reflect', 'mean_colour')
"""Ways to pad an image for `Crop`."""
TRIES = 10
"""Number of boxes that `RandomResizedCrop` draws for an image."""


@dataclasses.dataclass(frozen=True)
class Flip(Augmentation):
  """Mirrors the image horizontally.

  Attributes:
    probability: probability of mirroring an image.
  """

  name = 'flip'
  resembles = ()
  probability: float = setting(0.5, 'in [0, 1]', lambda x: 0 <= x <= 1)

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example with its image mirrored, with the probability `probability`."""
    is_mirrored = jax.random.bernoulli(key, self.probability)
    return {**example, 'image': jnp.where(is_mirrored, example['image'][:, ::-1], example['image'])}


@dataclasses.dataclass(frozen=True)
class AlternatingFlip(Augmentation):
  """Mirrors each image in every second epoch.

  Some images are mirrored in even and others in odd epochs, at random. Two successive epochs
  therefore show every image both ways. Trainings without epochs, as with
  `config.training.balanced`, raise InputError.

  Reference:
    Jordan (2024), 94% on CIFAR-10 in 3.29 Seconds on a Single GPU, section 3.6.
  """

  name = 'alternating_flip'
  resembles = ()
  one_key_a_row = True

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example with its image mirrored, in every second epoch."""
    if EPOCH not in example:
      raise InputError(
        "the augmentation 'alternating_flip' needs rows in epochs: take 'flip' where there are "
        f'none, as with {KEYS.training.balanced} and in apply_policy.'
      )
    # A row has the same key, and so the same random bit, in every epoch; odd epochs invert the bit.
    is_mirrored = jax.random.bernoulli(key) ^ (example[EPOCH] % 2 == 1)
    return {**example, 'image': jnp.where(is_mirrored, example['image'][:, ::-1], example['image'])}


@dataclasses.dataclass(frozen=True)
class Crop(Augmentation):
  """Pads the image on all sides and cuts a window of the original size at a random place.

  Row and column offsets are independent and uniform on {0, ..., 2·padding}.

  Attributes:
    padding: pixels added on each side, at least 1.
    border: colour of the padding. 'black' is 0 before normalisation. 'reflect' mirrors the image
      without repeating its edge. 'mean_colour' is the mean colour of CIFAR-10, which normalisation
      maps to about 0.

  Reference:
    He et al. (2016), Deep Residual Learning, section 4.2 (padding 4 for 32 × 32 pixels).
  """

  name = 'crop'
  resembles = ()
  padding: int = setting(4, 'a number of pixels, at least 1', lambda x: x >= 1)
  border: str = word(BLACK, BORDERS)

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example with a random window of its padded image, [H, W, C]."""
    image, padding = example['image'], self.padding
    margins = ((padding, padding), (padding, padding), (0, 0))
    padded = jnp.pad(image, margins, mode='reflect' if self.border == REFLECT else 'constant')
    if self.border == MEAN:
      is_inside = jnp.pad(jnp.ones((*image.shape[:2], 1), bool), margins)
      mean_colour = fill_levels(MEAN_COLOUR, image.shape[-1]) / 255  # from levels to [0, 1]
      padded = jnp.where(is_inside, padded, mean_colour)
    # the first row and column of the window
    y0, x0 = jax.random.randint(key, (2,), 0, 2 * padding + 1)
    return {**example, 'image': jax.lax.dynamic_slice(padded, (y0, x0, 0), image.shape)}


@dataclasses.dataclass(frozen=True)
class RandomResizedCrop(Augmentation):
  """Cuts a box of random area and aspect ratio and resizes it to the image's size.

  The area is uniform, and the ratio width/height is log-uniform in [3/4, 4/3]. The first of ten
  random boxes that fits into the image is cut at a uniform place. If none fits, the box is the
  entire image. Sides are rounded to pixels. The resize is linear and antialiased, like Pillow's
  bilinear filter. Images have already been resized and cropped by `config.data.resize` and
  `config.data.crop`.

  Attributes:
    smallest_area: smallest area of the box, as a share of the image's area, in (0, 1].

  Reference:
    Szegedy et al. (2015), Going Deeper with Convolutions, section 6; the order of random numbers
    follows torchvision's RandomResizedCrop.
  """

  name = 'random_resized_crop'
  resembles = ()
  smallest_area: float = setting(0.08, 'in (0, 1]', lambda x: 0 < x <= 1)

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example with a random box of its image, resized to the size of the image."""
    image = example['image']
    height, width = image.shape[:2]
    y0, x0, rows, columns = self.box(key, height, width)
    # scale and shift along both axes that move the box, from its corner (y0, x0), onto the image
    scale = jnp.stack([height / rows, width / columns])
    shift = -jnp.stack([y0, x0]) * scale
    y, x = jnp.arange(height), jnp.arange(width)
    is_inside = ((y >= y0) & (y < y0 + rows))[:, None] & ((x >= x0) & (x < x0 + columns))[None]

    def resized(pixels: jax.Array) -> jax.Array:
      """Resizes the random box of pixels [H, W, ...] to the whole size, [H, W, ...].

      The mask `is_inside` marks the box, and `scale` and `shift` move it onto the image. Pixels
      outside the box count as 0.
      """
      box = jnp.where(is_inside[..., None], pixels, 0)
      return jax.image.scale_and_translate(
        box, box.shape, (0, 1), scale, shift, 'linear', antialias=True
      )

    # Near the border of the box the filter also takes zeros from outside it. The division by the
    # weight of the pixels inside leaves the mean of these pixels alone.
    weight = resized(jnp.ones((height, width, 1), image.dtype))
    return {**example, 'image': resized(image) / weight}

  def box(
    self, key: jax.Array, height: int, width: int
  ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Draws a random box in an image.

    Args:
      key: random key.
      height: height of the image in pixels.
      width: width of the image in pixels.

    Returns:
      (first row, first column, number of rows, number of columns), whole numbers as float32
      scalars.
    """
    key_area, key_ratio, key_top, key_left = jax.random.split(key, 4)
    area = jax.random.uniform(key_area, (TRIES,), minval=self.smallest_area)
    limit = math.log(4 / 3)  # log(width/height) is uniform between −limit and limit
    ratio = jnp.exp(jax.random.uniform(key_ratio, (TRIES,), minval=-limit, maxval=limit))
    rows = jnp.round(jnp.sqrt(area * height * width / ratio))
    columns = jnp.round(jnp.sqrt(area * height * width * ratio))
    can_fit = (rows >= 1) & (rows <= height) & (columns >= 1) & (columns <= width)
    first = jnp.argmax(can_fit)  # the first box that fits; the entire image if none does
    rows = jnp.where(can_fit.any(), rows[first], height)
    columns = jnp.where(can_fit.any(), columns[first], width)
    y0 = jnp.floor(jax.random.uniform(key_top) * (height - rows + 1))
    x0 = jnp.floor(jax.random.uniform(key_left) * (width - columns + 1))
    return y0, x0, rows, columns


@dataclasses.dataclass(frozen=True)
class Repeat(Augmentation):
  """Repeats the image, so that later augmentations change each copy independently.

  The result is [copies, H, W, C].

  Attributes:
    copies: number of copies, at least 2. The cost of a step is multiplied by this number.

  Reference:
    Hoffer et al. (2020), Augment Your Batch: Improving Generalization Through Instance Repetition.
  """

  name = 'repeat'
  gives_more_images = True
  resembles = ()
  copies: int = setting(2, 'at least 2', lambda x: x >= 2)

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example with copies of its image, [copies, H, W, C]."""
    image = example['image']
    return {**example, 'image': jnp.broadcast_to(image, (self.copies, *image.shape))}
