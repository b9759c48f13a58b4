"""Random resized crop, the common augmentation of ImageNet."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

from robustness.core.settings import require

TRIES = 10


@dataclasses.dataclass(frozen=True)
class Settings:
  """The section `config.classifier.augment.random_resized_crop`.

  Attributes:
    smallest_area: least area of the crop, as a share of the image's, in (0, 1].
    largest_area: largest area, in [smallest_area, 1].
    aspect: largest ratio of the sides, at least 1; the smallest is its inverse.
  """

  smallest_area: float = 0.08
  largest_area: float = 1.0
  aspect: float = 4 / 3

  def __post_init__(self) -> None:
    where = 'config.classifier.augment.random_resized_crop'
    require(0 < self.smallest_area <= 1, f'{where}.smallest_area', self.smallest_area, 'in (0, 1]')
    require(
      self.smallest_area <= self.largest_area <= 1,
      f'{where}.largest_area',
      self.largest_area,
      f'in [smallest_area, 1] = [{self.smallest_area:g}, 1]',
    )
    require(self.aspect >= 1, f'{where}.aspect', self.aspect, 'at least 1')


def augment(key: jax.Array, example: dict[str, Any], settings: Settings) -> dict[str, Any]:
  """Cuts a box of random area and aspect ratio and resizes it to the image's size.

  Area uniform, ratio width/height log-uniform, sides rounded to pixels, place uniform; a box that
  does not fit is drawn again, ten times at most, and then the whole image is taken (whose ratio is
  1 where images are square). The resize is linear and antialiased, as Pillow's bilinear filter.

  The crop is taken from the image as the rows hold it. Where `config.data.resize` and `crop` have
  cut it already, areas are shares of what they left.

  Args:
    key: decides area, ratio and place.
    example: with `image` [H, W, C] in [0, 1].
    settings: see there.

  Returns:
    The example with the resized crop [H, W, C].

  Reference:
    Szegedy et al. (2015), Going Deeper with Convolutions, section 6; the order of draws follows
    torchvision's RandomResizedCrop.
  """
  image = example['image']
  height, width, channels = image.shape
  top, left, rows, columns = box(key, height, width, settings)
  scale = jnp.stack([height / rows, width / columns])
  shift = -jnp.stack([top, left]) * scale
  resized = jax.image.scale_and_translate(
    _masked(image, top, left, rows, columns),
    (height, width, channels),
    (0, 1),
    scale,
    shift,
    'linear',
    antialias=True,
  )
  weight = jax.image.scale_and_translate(
    _masked(jnp.ones((height, width, 1), image.dtype), top, left, rows, columns),
    (height, width, 1),
    (0, 1),
    scale,
    shift,
    'linear',
    antialias=True,
  )
  return {**example, 'image': resized / weight}


def box(
  key: jax.Array, height: int, width: int, settings: Settings
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
  """Returns top, left, rows and columns of the crop, float32 scalars of whole pixels."""
  key_area, key_ratio, key_top, key_left = jax.random.split(key, 4)
  area = jax.random.uniform(
    key_area, (TRIES,), minval=settings.smallest_area, maxval=settings.largest_area
  )
  limit = math.log(settings.aspect)
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


def _masked(
  image: jax.Array, top: jax.Array, left: jax.Array, rows: jax.Array, columns: jax.Array
) -> jax.Array:
  """Returns the image with 0 outside the box, so that the resize sees nothing of it."""
  y, x = jnp.arange(image.shape[0]), jnp.arange(image.shape[1])
  inside = ((y >= top) & (y < top + rows))[:, None] & ((x >= left) & (x < left + columns))[None]
  return jnp.where(inside[..., None], image, 0)
