"""The standard augmentations: flip, crop, random resized crop, and several copies of an image."""

import dataclasses
import math
from typing import ClassVar

import jax
import jax.numpy as jnp

from robustness.augment import Augmentation, Example
from robustness.augment.operations import MEAN_COLOUR, colour
from robustness.core.errors import KEYS, InputError
from robustness.core.registry import setting, word
from robustness.core.sampler import EPOCH

BLACK, REFLECT, MEAN = BORDERS = ('black', 'reflect', 'mean_colour')
TRIES = 10


@dataclasses.dataclass(frozen=True)
class Flip(Augmentation):
  """Mirrors the image left and right.

  Attributes:
    probability: of mirroring an image.
  """

  name: ClassVar[str] = 'flip'
  resembles = ()
  probability: float = setting(0.5, 'in [0, 1]', lambda x: 0 <= x <= 1)

  def __call__(self, key: jax.Array, example: Example) -> Example:
    mirrored = jax.random.bernoulli(key, self.probability)
    return {**example, 'image': jnp.where(mirrored, example['image'][:, ::-1], example['image'])}


@dataclasses.dataclass(frozen=True)
class AlternatingFlip(Augmentation):
  """Mirrors the image or not at random in the first epoch, and from then on in turns.

  Two epochs then show every image both ways; rows without epochs raise InputError.

  Reference:
    Jordan (2024), 94% on CIFAR-10 in 3.29 Seconds on a Single GPU, section 3.6.
  """

  name: ClassVar[str] = 'alternating_flip'
  resembles = ()
  one_key_a_row = True

  def __call__(self, key: jax.Array, example: Example) -> Example:
    if EPOCH not in example:
      raise InputError(
        "the augmentation 'alternating_flip' needs rows in epochs: take 'flip' where "
        f'{KEYS.training.balanced} is set.'
      )
    mirrored = jax.random.bernoulli(key) ^ (example[EPOCH] % 2 == 1)
    return {**example, 'image': jnp.where(mirrored, example['image'][:, ::-1], example['image'])}


@dataclasses.dataclass(frozen=True)
class Crop(Augmentation):
  """Pads on all four sides, then cuts a window of the old size at a random place.

  Row and column offsets are independent and uniform on {0, ..., 2·padding}.

  Attributes:
    padding: pixels added on each side, at least 1.
    border: 'black' (0, before normalisation); 'reflect', which mirrors the image without repeating
      its edge; or 'mean_colour' of CIFAR-10, which normalisation turns into about 0.

  Reference:
    He et al. (2016), Deep Residual Learning, section 4.2 (padding 4 for 32 × 32 pixels).
  """

  name: ClassVar[str] = 'crop'
  resembles = ()
  padding: int = setting(4, 'a number of pixels, at least 1', lambda x: x >= 1)
  border: str = word(BLACK, BORDERS)

  def __call__(self, key: jax.Array, example: Example) -> Example:
    image, padding = example['image'], self.padding
    margins = ((padding, padding), (padding, padding), (0, 0))
    padded = jnp.pad(image, margins, mode='reflect' if self.border == REFLECT else 'constant')
    if self.border == MEAN:
      inside = jnp.pad(jnp.ones((*image.shape[:2], 1), bool), margins)
      padded = jnp.where(inside, padded, colour(MEAN_COLOUR, image.shape[-1]) / 255)
    top, left = jax.random.randint(key, (2,), 0, 2 * padding + 1)
    return {**example, 'image': jax.lax.dynamic_slice(padded, (top, left, 0), image.shape)}


@dataclasses.dataclass(frozen=True)
class RandomResizedCrop(Augmentation):
  """Cuts a box of random area and aspect ratio and resizes it to the image's size.

  Area uniform, ratio width/height log-uniform in [3/4, 4/3], sides rounded to pixels, place
  uniform; a box that does not fit is drawn again, ten times at most, and then the whole image is
  taken. The resize is linear and antialiased, as Pillow's bilinear filter.

  The crop is taken from the image as the rows hold it. Where `config.data.resize` and `crop` have
  cut it already, areas are shares of what they left.

  Attributes:
    smallest_area: least area of the crop, as a share of the image's, in (0, 1].

  Reference:
    Szegedy et al. (2015), Going Deeper with Convolutions, section 6; the order of draws follows
    torchvision's RandomResizedCrop.
  """

  name: ClassVar[str] = 'random_resized_crop'
  resembles = ()
  smallest_area: float = setting(0.08, 'in (0, 1]', lambda x: 0 < x <= 1)

  def __call__(self, key: jax.Array, example: Example) -> Example:
    image = example['image']
    height, width = image.shape[:2]
    top, left, rows, columns = self.box(key, height, width)
    scale = jnp.stack([height / rows, width / columns])
    shift = -jnp.stack([top, left]) * scale
    y, x = jnp.arange(height), jnp.arange(width)
    inside = ((y >= top) & (y < top + rows))[:, None] & ((x >= left) & (x < left + columns))[None]

    def resized(pixels: jax.Array) -> jax.Array:  # nothing outside the box is seen
      own = jnp.where(inside[..., None], pixels, 0)
      return jax.image.scale_and_translate(
        own, own.shape, (0, 1), scale, shift, 'linear', antialias=True
      )

    weight = resized(jnp.ones((height, width, 1), image.dtype))
    return {**example, 'image': resized(image) / weight}

  def box(
    self, key: jax.Array, height: int, width: int
  ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Returns top, left, rows and columns of the crop, float32 scalars of whole pixels."""
    key_area, key_ratio, key_top, key_left = jax.random.split(key, 4)
    area = jax.random.uniform(key_area, (TRIES,), minval=self.smallest_area)
    limit = math.log(4 / 3)
    ratio = jnp.exp(jax.random.uniform(key_ratio, (TRIES,), minval=-limit, maxval=limit))
    rows = jnp.round(jnp.sqrt(area * height * width / ratio))
    columns = jnp.round(jnp.sqrt(area * height * width * ratio))
    fits = (rows >= 1) & (rows <= height) & (columns >= 1) & (columns <= width)
    first = jnp.argmax(fits)
    rows = jnp.where(fits.any(), rows[first], height)
    columns = jnp.where(fits.any(), columns[first], width)
    top = jnp.floor(jax.random.uniform(key_top) * (height - rows + 1))
    left = jnp.floor(jax.random.uniform(key_left) * (width - columns + 1))
    return top, left, rows, columns


@dataclasses.dataclass(frozen=True)
class Repeat(Augmentation):
  """Repeats the image, [copies, H, W, C]; what follows in the policy draws for each copy apart.

  Attributes:
    copies: images a row, at least 2; a step costs as many times more.

  Reference:
    Hoffer et al. (2020), Augment Your Batch: Improving Generalization Through Instance Repetition.
  """

  name: ClassVar[str] = 'repeat'
  gives_more_images: ClassVar[bool] = True
  resembles = ()
  copies: int = setting(2, 'at least 2', lambda x: x >= 2)

  def __call__(self, key: jax.Array, example: Example) -> Example:
    image = example['image']
    return {**example, 'image': jnp.broadcast_to(image, (self.copies, *image.shape))}
