"""Cutout: a square of one colour covers a part of the image."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from robustness.augment.operations import MEAN_COLOUR, check_colour, colour, square
from robustness.core.settings import require

WHERE = 'config.classifier.augment.cutout'
RESEMBLES = ('checkerboard_cutout',)


@dataclasses.dataclass(frozen=True)
class Settings:
  """The section `config.classifier.augment.cutout`.

  Attributes:
    size: side of the square in pixels; 16 for CIFAR-10.
    fill: levels 0..255 of the square, one or red, green and blue; () is CIFAR-10's mean colour,
      which normalisation turns into about 0.
  """

  size: int = 16
  fill: tuple[int, ...] = ()

  def __post_init__(self) -> None:
    require(self.size >= 1, f'{WHERE}.size', self.size, 'a number of pixels, at least 1')
    check_colour(self.fill, f'{WHERE}.fill')


def augment(key: jax.Array, example: dict[str, Any], settings: Settings) -> dict[str, Any]:
  """Covers the pixels [c − ⌊s/2⌋, c − ⌊s/2⌋ + s) of both axes, c uniform over the pixels.

  The border cuts the square. Put it last: what follows would move or distort the square.

  Args:
    key: decides the centre c.
    example: with `image` [H, W, C] in [0, 1], C 1 or 3.
    settings: the side s, and the colour.

  Returns:
    The example; pixels outside the square are as they were, bit for bit.

  Reference:
    DeVries and Taylor (2017), Improved Regularization of Convolutional Neural Networks with Cutout,
    section 3.2.
  """
  image = example['image']
  centre = jax.random.randint(key, (2,), 0, jnp.array(image.shape[:2]))
  covered = square(image.shape[:2], centre, settings.size)[..., None]
  fill = colour(settings.fill or MEAN_COLOUR, image.shape[-1])
  return {**example, 'image': jnp.where(covered, fill.astype(image.dtype) / 255, image)}
