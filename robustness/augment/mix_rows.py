"""Mixup, CutMix, or one of both: a row and its target are mixed with another row of the batch."""

import dataclasses

import jax
import jax.numpy as jnp

from robustness.augment import Augmentation, Example
from robustness.core.registry import setting


@dataclasses.dataclass(frozen=True)
class Mixing(Augmentation):
  """Base class of augmentations that mix a row with its partner, another row of the batch.

  The partner of row i of a batch of B rows, which are in random order, is row B − 1 − i.

  Attributes:
    alpha: α of Beta(α, α), above 0; 1 makes the share uniform.
    probability: Probability of mixing a row.
    within: A column such as 'environment': only rows with equal values in it are mixed, the i-th of
      these rows with the i-th from the end. '' mixes any two rows.
  """

  needs_partner = True
  resembles = ()
  alpha: float = setting(1.0, 'above 0', lambda x: x > 0)
  probability: float = setting(1.0, 'in [0, 1]', lambda x: 0 <= x <= 1)
  within: str = ''

  def share(self, key: jax.Array, key_choice: jax.Array) -> jax.Array:
    """Draws the weight λ ~ Beta(α, α) of a row in the mixture; 1 for a row that is not mixed.

    `key` draws λ, and `key_choice` whether the row is mixed.
    """
    share = jax.random.beta(key, self.alpha, self.alpha)
    return jnp.where(jax.random.bernoulli(key_choice, self.probability), share, 1.0)


@dataclasses.dataclass(frozen=True)
class Mixup(Mixing):
  """Returns λ·x + (1 − λ)·x' for images and for targets of a row x and its partner x'.

  `label` is unchanged. λ ~ Beta(α, α) is drawn independently for each row. The released code draws
  one λ for the whole batch. The expected mixture is the same, and here the result for a row does
  not depend on the size of the batch.

  Reference:
    Zhang et al. (2018), mixup: Beyond Empirical Risk Minimization, equation 1.
  """

  name = 'mixup'

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example, its image and target mixed with the ones of `partner`, another row."""
    share, partner = self.share(*jax.random.split(key)), example['partner']  # weight of the row
    mixed = {n: share * example[n] + (1 - share) * partner[n] for n in ('image', 'target')}
    return {**example, **mixed}


@dataclasses.dataclass(frozen=True)
class Cutmix(Mixing):
  """Pastes a box of the partner at the same place and mixes the targets by area.

  The box has sides ⌊H·√(1 − λ)⌋ and ⌊W·√(1 − λ)⌋ and a centre uniform over the pixels; the border
  may cut it, as in the released code. The row's target has the weight 1 − (area of the cut box) /
  (H·W); `label` is unchanged.

  Reference:
    Yun et al. (2019), CutMix: Regularization Strategy to Train Strong Classifiers, section 3.1.
  """

  name = 'cutmix'

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example with a box of the image of `partner`, another row, and mixed targets."""
    key_share, key_centre, key_choice = jax.random.split(key, 3)
    image, partner = example['image'], example['partner']
    height, width = image.shape[:2]
    share = self.share(key_share, key_choice)  # λ
    centre = jax.random.randint(key_centre, (2,), 0, jnp.array([height, width]))
    rows = _is_in_box(height, centre[0], jnp.sqrt(1 - share))
    columns = _is_in_box(width, centre[1], jnp.sqrt(1 - share))
    box = rows[:, None] & columns[None, :]
    weight = 1 - box.mean(dtype=jnp.float32)  # the share of pixels outside of the box
    return {
      **example,
      'image': jnp.where(box[..., None], partner['image'], image),
      'target': weight * example['target'] + (1 - weight) * partner['target'],
    }


@dataclasses.dataclass(frozen=True)
class MixupOrCutmix(Mixing):
  """Applies Mixup or CutMix to each row, drawn independently for each row.

  This is timm's `Mixup` with mode 'elem'. By default timm draws one method and one λ for a batch;
  each row then has the same distribution as here, but the rows are not independent. timm smooths
  labels before it mixes them. Here `CrossEntropy` smooths them after it, with the same result, as
  smoothing is linear in the target.

  Attributes:
    alpha: α of Mixup's Beta(α, α), above 0.
    cutmix_alpha: α of CutMix's Beta(α, α), above 0.
    cutmix_share: Probability in [0, 1] of CutMix for a row that is mixed.
  """

  name = 'mixup_or_cutmix'
  alpha: float = setting(0.8, 'above 0', lambda x: x > 0)
  cutmix_alpha: float = setting(1.0, 'above 0', lambda x: x > 0)
  cutmix_share: float = setting(0.5, 'in [0, 1]', lambda x: 0 <= x <= 1)

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example mixed with `partner`, another row, by Mixup or CutMix at random."""
    key_method, key = jax.random.split(key)
    is_cutmix = jax.random.bernoulli(key_method, self.cutmix_share)
    cutmix = Cutmix(alpha=self.cutmix_alpha, probability=self.probability)(key, example)
    mixup = Mixup(alpha=self.alpha, probability=self.probability)(key, example)
    names = 'image', 'target'
    return {**example, **{n: jnp.where(is_cutmix, cutmix[n], mixup[n]) for n in names}}


def _is_in_box(size: int, centre: jax.Array, share: jax.Array) -> jax.Array:
  """Returns which of `size` pixels of an axis are in a box, bool [size].

  With c = centre and s = ⌊size·share⌋, these are the pixels in [c − ⌊s/2⌋, c + ⌊s/2⌋).
  """
  half = jnp.floor(size * share).astype(jnp.int32) // 2
  pixel = jnp.arange(size)
  return (pixel >= centre - half) & (pixel < centre + half)
