"""Mixup, CutMix, or one of both: a row and its target are mixed with another row of the batch."""

import dataclasses

import jax
import jax.numpy as jnp

from robustness.augment import Augmentation, Example
from robustness.core.registry import setting


@dataclasses.dataclass(frozen=True)
class Mixing(Augmentation):
  """Base class of augmentations that mix an example with another example of the batch.

  The batch of B examples is in random order. Example i is mixed with example B − 1 − i, its
  partner.

  Attributes:
    alpha: α of Beta(α, α), the distribution of the mixing weight; 1 is uniform.
    probability: probability of mixing an example.
    within: name of a column, such as 'environment'. Only examples with equal values in this column
      are mixed: the i-th of them with the i-th from the end. '' mixes any two.
  """

  needs_partner = True
  resembles = ()
  alpha: float = setting(1.0, 'above 0', lambda x: x > 0)
  probability: float = setting(1.0, 'in [0, 1]', lambda x: 0 <= x <= 1)
  within: str = ''

  def share(self, key: jax.Array, key_choice: jax.Array) -> jax.Array:
    """Draws the weight λ ~ Beta(α, α) of an example in its mixture; 1 if it is not mixed.

    Args:
      key: random key of λ.
      key_choice: random key of the choice whether to mix.
    """
    share = jax.random.beta(key, self.alpha, self.alpha)
    return jnp.where(jax.random.bernoulli(key_choice, self.probability), share, 1.0)


@dataclasses.dataclass(frozen=True)
class Mixup(Mixing):
  """Mixes images and targets of two examples with a random weight: λ·x + (1 − λ)·x'.

  λ ~ Beta(α, α) is drawn for each example. The released code draws one λ for the whole batch.
  `label` is unchanged.

  Reference:
    Zhang et al. (2018), mixup: Beyond Empirical Risk Minimization, equation 1.
  """

  name = 'mixup'

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example, with image and target mixed with `example['partner']`."""
    share, partner = self.share(*jax.random.split(key)), example['partner']  # weight of the row
    mixed = {n: share * example[n] + (1 - share) * partner[n] for n in ('image', 'target')}
    return {**example, **mixed}


@dataclasses.dataclass(frozen=True)
class Cutmix(Mixing):
  """Pastes a random box of another image at the same place and mixes the targets by area.

  The box has sides ⌊H·√(1 − λ)⌋ and ⌊W·√(1 − λ)⌋, with λ ~ Beta(α, α). Its centre is uniform over
  the pixels, so that the image border may cut the box, as in the released code. The target of the
  image outside the box has the weight 1 − (area of the cut box) / (H·W). `label` is unchanged.

  Reference:
    Yun et al. (2019), CutMix: Regularization Strategy to Train Strong Classifiers, section 3.1.
  """

  name = 'cutmix'

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example with a box of the image of `example['partner']`, and mixed targets."""
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
  """Applies Mixup or CutMix to each example at random.

  This is timm's `Mixup` with mode 'elem'. By default, timm instead draws one method and one λ for
  the whole batch. Label smoothing of `CrossEntropy` comes after mixing here and before mixing in
  timm, with the same result.

  Attributes:
    alpha: α of Mixup's Beta(α, α), above 0.
    cutmix_alpha: α of CutMix's Beta(α, α), above 0.
    cutmix_share: probability of CutMix, in [0, 1], for an example that is mixed.
  """

  name = 'mixup_or_cutmix'
  alpha: float = setting(0.8, 'above 0', lambda x: x > 0)
  cutmix_alpha: float = setting(1.0, 'above 0', lambda x: x > 0)
  cutmix_share: float = setting(0.5, 'in [0, 1]', lambda x: 0 <= x <= 1)

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example mixed with `example['partner']`, by Mixup or CutMix at random."""
    key_method, key = jax.random.split(key)
    is_cutmix = jax.random.bernoulli(key_method, self.cutmix_share)
    cutmix = Cutmix(alpha=self.cutmix_alpha, probability=self.probability)(key, example)
    mixup = Mixup(alpha=self.alpha, probability=self.probability)(key, example)
    names = 'image', 'target'
    return {**example, **{n: jnp.where(is_cutmix, cutmix[n], mixup[n]) for n in names}}


def _is_in_box(size: int, centre: jax.Array, share: jax.Array) -> jax.Array:
  """Returns which pixels of one image axis are inside a box, bool [size].

  The box has the pixels [c − ⌊s/2⌋, c + ⌊s/2⌋) with s = ⌊size·share⌋.

  Args:
    size: number of pixels of the axis.
    centre: c, int32 scalar.
    share: length of the box as a share of the axis.
  """
  half = jnp.floor(size * share).astype(jnp.int32) // 2
  pixel = jnp.arange(size)
  return (pixel >= centre - half) & (pixel < centre + half)
