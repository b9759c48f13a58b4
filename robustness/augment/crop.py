"""Random crop of the padded image, the common augmentation of small images."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from robustness.core.settings import choice, require

BORDERS = {'black': 'constant', 'reflect': 'reflect'}


@dataclasses.dataclass(frozen=True)
class Settings:
  """The section `config.classifier.augment.crop`.

  Attributes:
    padding: pixels added on each side, at least 1.
    border: 'black' (0, before normalisation) or 'reflect', which mirrors the image without
      repeating its edge.
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
  padded = jnp.pad(image, margins, mode=BORDERS[settings.border])
  top, left = jax.random.randint(key, (2,), 0, 2 * padding + 1)
  return {**example, 'image': jax.lax.dynamic_slice(padded, (top, left, 0), image.shape)}
