"""Several copies of each image, which the augmentations after it vary independently."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from robustness.core.settings import require


@dataclasses.dataclass(frozen=True)
class Settings:
  """The section `config.classifier.augment.repeat`.

  Attributes:
    copies: images a row, at least 2; a step costs as many times more.
  """

  copies: int = 2

  def __post_init__(self) -> None:
    require(self.copies >= 2, 'config.classifier.augment.repeat.copies', self.copies, 'at least 2')


def augment(key: jax.Array, example: dict[str, Any], settings: Settings) -> dict[str, Any]:
  """Repeats the image; what stands after it in the policy draws anew for every copy.

  Args:
    key: not used.
    example: with `image` [H, W, C].
    settings: see there.

  Returns:
    The example with `image` [copies, H, W, C].

  Reference:
    Hoffer et al. (2020), Augment Your Batch: Improving Generalization Through Instance Repetition.
  """
  del key
  image = example['image']
  return {**example, 'image': jnp.broadcast_to(image, (settings.copies, *image.shape))}
