"""From images in [0, 1] to what a network takes: front end, then normalisation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from robustness.core.parts import Part


@dataclasses.dataclass(frozen=True)
class Inputs:
  """What stands between images and a network, the same in training and in evaluation.

  Attributes:
    mean: subtracted from images, one value a channel or one for all, in [0, 1] units.
    std: divides after that.
    front_end: a part of `robustness.front_ends`, applied before; None is none.
  """

  mean: Sequence[float] = (0.0,)
  std: Sequence[float] = (1.0,)
  front_end: Part | None = None

  def __call__(self, images: jax.Array) -> jax.Array:
    """Returns the network's input, [B, H, W, C], of images [B, H, W, C] in [0, 1]."""
    if self.front_end:
      images = self.front_end.module.front_end(images, self.front_end.settings)
    shift, scale = (jnp.asarray(x, jnp.float32).reshape(1, 1, 1, -1) for x in (self.mean, self.std))
    return (images - shift) / scale
