"""Random crop of the padded image, the common augmentation of small images."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from robustness.augment.operations import MEAN_COLOUR, colour
from robustness.core.settings import choice, require

BLACK, REFLECT, MEAN = BORDERS = ('black', 'reflect', 'mean_colour')


@dataclasses.dataclass(frozen=True)
class Settings:
  """The section `config.classifier.augment.crop`.

  Attributes:
    padding: pixels added on each side, at least 1.
    border: 'black' (0, before normalisation); 'reflect', which mirrors the image without repeating
      its edge; or 'mean_colour' of CIFAR-10, which normalisation turns into about 0.
  """

  padding: int = 4
  border: str = 'black'

  def __post_init__(self) -> None:
    where = 'config.classifier.augment.crop'
    require(self.padding >= 1, f'{where}.padding', self.padding, 'a number of pixels, at least 1')
    choice(f'{where}.border', self.border, BORDERS)


def augment(key: jax.Array, example: dict[str, Any], settings: Settings) -> dict[str, Any]:
  """Pads on all four sides, then cuts a window of the old size at a random place.

  Row and column offsets are independent and uniform on {0, ..., 2·padding}.

  Args:
    key: decides the offsets.
    example: with `image` [H, W, C] in [0, 1].
    settings: see there.

  Returns:
    The example with the cropped image [H, W, C].

  Reference:
    He et al. (2016), Deep Residual Learning, section 4.2 (padding 4 for 32 × 32 pixels).
  """
  image, padding = example['image'], settings.padding
  margins = ((padding, padding), (padding, padding), (0, 0))
  padded = jnp.pad(image, margins, mode='reflect' if settings.border == REFLECT else 'constant')
  if settings.border == MEAN:
    inside = jnp.pad(jnp.ones((*image.shape[:2], 1), bool), margins)
    padded = jnp.where(inside, padded, colour(MEAN_COLOUR, image.shape[-1]) / 255)
  top, left = jax.random.randint(key, (2,), 0, 2 * padding + 1)
  return {**example, 'image': jax.lax.dynamic_slice(padded, (top, left, 0), image.shape)}
