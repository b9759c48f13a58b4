"""CutMix: a box of another image is pasted, targets are mixed by area."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from robustness.augment.mixing import Mixing

NEEDS_PARTNER = True


@dataclasses.dataclass(frozen=True)
class Settings(Mixing):
  """The section `config.classifier.augment.cutmix`, see `Mixing`."""

  where: ClassVar[str] = 'config.classifier.augment.cutmix'


def augment(key: jax.Array, example: dict[str, Any], settings: Settings) -> dict[str, Any]:
  """Pastes a box of the partner at the same place; the target's share is the area that is left.

  λ ~ Beta(α, α); the box has sides ⌊H·√(1 − λ)⌋ and ⌊W·√(1 − λ)⌋, and its centre is uniform over
  the pixels, so that it may be cut by the border, as in the released code. The share of the own
  target is then 1 − (area of the cut box) / (H·W).

  Args:
    key: decides λ and the box.
    example: with `image`, `target` and `partner`, see `robustness.augment.policy.partners`.
    settings: see there.

  Returns:
    The example with mixed `image` and `target`; `label` is left as it is.

  Reference:
    Yun et al. (2019), CutMix: Regularization Strategy to Train Strong Classifiers, section 3.1.
  """
  key_share, key_centre, key_choice = jax.random.split(key, 3)
  image, partner = example['image'], example['partner']
  height, width = image.shape[:2]
  share = jax.random.beta(key_share, settings.alpha, settings.alpha)
  share = jnp.where(jax.random.bernoulli(key_choice, settings.probability), share, 1.0)
  centre = jax.random.randint(key_centre, (2,), 0, jnp.array([height, width]))
  rows = _inside(height, centre[0], jnp.sqrt(1 - share))
  columns = _inside(width, centre[1], jnp.sqrt(1 - share))
  box = rows[:, None] & columns[None, :]
  kept = 1 - box.mean(dtype=jnp.float32)
  return {
    **example,
    'image': jnp.where(box[..., None], partner['image'], image),
    'target': kept * example['target'] + (1 - kept) * partner['target'],
  }


def _inside(size: int, centre: jax.Array, share: jax.Array) -> jax.Array:
  """Returns which of `size` pixels lie in [centre − ⌊s/2⌋, centre + ⌊s/2⌋), s = ⌊size·share⌋."""
  half = jnp.floor(size * share).astype(jnp.int32) // 2
  places = jnp.arange(size)
  return (places >= centre - half) & (places < centre + half)
