"""Random horizontal flip."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from robustness.core.settings import require


@dataclasses.dataclass(frozen=True)
class Settings:
  """The section `config.classifier.augment.flip`.

  Attributes:
    probability: of mirroring an image.
  """

  probability: float = 0.5

  def __post_init__(self) -> None:
    require(
      0 <= self.probability <= 1,
      'config.classifier.augment.flip.probability',
      self.probability,
      'in [0, 1]',
    )


def augment(key: jax.Array, example: dict[str, Any], settings: Settings) -> dict[str, Any]:
  """Mirrors the image left and right with the given probability.

  Args:
    key: decides.
    example: with `image` [H, W, C].
    settings: see there.

  Returns:
    The example; its image is mirrored or as it was.
  """
  mirrored = jax.random.bernoulli(key, settings.probability)
  return {**example, 'image': jnp.where(mirrored, example['image'][:, ::-1], example['image'])}
