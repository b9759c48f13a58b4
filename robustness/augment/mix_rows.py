"""Mixup and CutMix: a row is mixed with another of the batch, and their targets with them."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from robustness.augment import Augmentation, Example
from robustness.core.registry import setting


@dataclasses.dataclass(frozen=True)
class Mixing(Augmentation):
  """Base class; the partner is the row at the mirrored place of the batch, in random order.

  Attributes:
    alpha: α of Beta(α, α), above 0; 1 makes the share uniform.
    probability: of mixing a row.
    within: a column such as 'environment', whose rows of one value alone are mixed with each other,
      at mirrored places among them; '' mixes any two rows.
  """

  needs_partner: ClassVar[bool] = True
  resembles = ()
  alpha: float = setting(1.0, 'above 0', lambda x: x > 0)
  probability: float = setting(1.0, 'in [0, 1]', lambda x: 0 <= x <= 1)
  within: str = ''

  def share(self, key: jax.Array, key_choice: jax.Array) -> jax.Array:
    """Returns λ ~ Beta(α, α); 1 for a row that is not mixed."""
    share = jax.random.beta(key, self.alpha, self.alpha)
    return jnp.where(jax.random.bernoulli(key_choice, self.probability), share, 1.0)


@dataclasses.dataclass(frozen=True)
class Mixup(Mixing):
  """Returns λ·x + (1 − λ)·x' and the same of the targets; `label` is left as it is.

  λ is drawn for each row, where the released code draws one for the whole batch; the mean is the
  same, and a row does not depend on the batch's size. The partner draws its own share.

  Reference:
    Zhang et al. (2018), mixup: Beyond Empirical Risk Minimization, equation 1.
  """

  name: ClassVar[str] = 'mixup'

  def __call__(self, key: jax.Array, example: Example) -> Example:
    share, partner = self.share(*jax.random.split(key)), example['partner']
    return {
      **example,
      **{name: share * example[name] + (1 - share) * partner[name] for name in ('image', 'target')},
    }


@dataclasses.dataclass(frozen=True)
class Cutmix(Mixing):
  """Pastes a box of the partner at the same place; the target's share is the area that is left.

  The box has sides ⌊H·√(1 − λ)⌋ and ⌊W·√(1 − λ)⌋, and its centre is uniform over the pixels, so
  that it may be cut by the border, as in the released code. The share of the own target is then
  1 − (area of the cut box) / (H·W); `label` is left as it is.

  Reference:
    Yun et al. (2019), CutMix: Regularization Strategy to Train Strong Classifiers, section 3.1.
  """

  name: ClassVar[str] = 'cutmix'

  def __call__(self, key: jax.Array, example: Example) -> Example:
    key_share, key_centre, key_choice = jax.random.split(key, 3)
    image, partner = example['image'], example['partner']
    height, width = image.shape[:2]
    share = self.share(key_share, key_choice)
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
