"""AugMix: chains of operations, mixed with each other and with the image."""

import dataclasses

import jax
import jax.numpy as jnp

from robustness.augment import Augmentation, Example
from robustness.augment.operations import WARPS, Drawn, Operations, resembled_transforms
from robustness.core.registry import setting
from robustness.core.sequential import map_entries

BASIC = (
  *('AutoContrast', 'Equalize', 'Posterize', 'Rotate', 'Solarize'),
  *('ShearX', 'ShearY', 'TranslateX', 'TranslateY'),
)
"""The operations of AugMix."""
FURTHER = ('Color', 'Contrast', 'Brightness', 'Sharpness')
"""Operations that resemble common corruptions; only `AugMix.all_operations` adds them."""
MAX_DEPTH = 3
"""Number of operations in the longest chain if depths are drawn."""


@dataclasses.dataclass(frozen=True)
class AugMix(Augmentation):
  """Mixes an image with randomly distorted versions of itself.

  A version results from a chain of 1 to 3 random operations, such as a rotation and a
  posterisation. A mixture of the image x is (1 − m)·x + m·Σ_i w_i·chain_i(x), with w ~ Dirichlet(α,
  …, α) and m ~ Beta(α, α). Operations of a chain are drawn uniformly with replacement. Each has an
  independent strength, uniform from .1 to `severity`. Operations compute with 8-bit values,
  mixtures are not rounded. Rotations, shears and translations interpolate bilinearly and leave
  uncovered pixels black.

  The result is [1 + mixtures, H, W, C] with the clean image first. Without `clean` it is [mixtures,
  H, W, C], or [H, W, C] for a single mixture. Put random flips and crops before `augmix` in the
  policy, so that all versions of an image share them.

  Attributes:
    severity: highest strength of an operation, in (.1, 10]; 10 is the full range. The released code
      has 3 for CIFAR-10 and 1 for ImageNet.
    width: number of chains in a mixture.
    depth: number of operations in a chain; 0 draws 1, 2 or 3 for each chain.
    alpha: α of the Dirichlet and Beta distributions.
    mixtures: number of mixtures, each with independent random numbers.
    clean: whether the clean image is included, as the objective `jsd` needs.
    all_operations: whether Color, Contrast, Brightness and Sharpness are added to the nine
      operations. They resemble common corruptions.

  Reference:
    Hendrycks et al. (2020), AugMix: A Simple Data Processing Method to Improve Robustness and
    Uncertainty, section 3; constants follow the released code.
  """

  sequential = True
  gives_more_images = True
  severity: float = setting(3.0, 'in (0.1, 10]', lambda x: 0.1 < x <= 10)
  width: int = setting(3, 'at least 1', lambda x: x >= 1)
  depth: int = setting(0, 'at least 1, or 0 to draw 1, 2 or 3', lambda x: x >= 0)
  alpha: float = setting(1.0, 'above 0', lambda x: x > 0)
  mixtures: int = setting(2, 'at least 1', lambda x: x >= 1)
  clean: bool = True
  all_operations: bool = False

  @property
  def names(self) -> tuple[str, ...]:
    """Names of the operations that chains are drawn from, such as 'Rotate'."""
    return BASIC + (FURTHER if self.all_operations else ())

  @property
  def resembles(self) -> tuple[str, ...]:
    """Names of the image transforms, such as 'contrast', that the operations look like."""
    return resembled_transforms(self.names)

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example with its mixtures as images, [V, H, W, C].

    With `clean`, the clean image comes first.
    """
    image, num_chains = example['image'], self.mixtures * self.width
    key_weights, key_share, key_chains = jax.random.split(key, 3)
    chains = self.chains(key_chains, (self.mixtures, self.width), image.shape[:2])
    chains = jax.tree.map(lambda x: x.reshape(num_chains, *x.shape[2:]), chains)  # in one axis
    operations = Operations(self.names, 'bilinear')
    ends = map_entries(lambda chain: operations.in_sequence(image, chain), chains)
    ends = ends.reshape(self.mixtures, self.width, *image.shape)  # the image after each chain
    mixtures = mixture(key_weights, key_share, image, ends, self.alpha)
    return {**example, 'image': stack_variants(image, mixtures, self.clean)}

  def chains(self, key: jax.Array, shape: tuple[int, ...], image_size: tuple[int, ...]) -> Drawn:
    """Draws random chains of operations.

    Args:
      key: random key.
      shape: shape of the array of chains, such as (mixtures, width); () for one chain.
      image_size: height and width of the images in pixels. Translations depend on them.

    Returns:
      The operations in order, arrays [*shape, steps, ...], where `steps` is the largest length of a
      chain. A shorter chain is filled up with the identity.
    """
    names, max_steps = self.names, self.depth or MAX_DEPTH
    key_depth, key_name, key_level, key_sign = jax.random.split(key, 4)
    # the number of operations of each chain; random if the setting `depth` is 0
    depth = self.depth or jax.random.randint(key_depth, (*shape, 1), 1, MAX_DEPTH + 1)
    # index in `names` of each step, [*shape, steps]
    index = jax.random.randint(key_name, (*shape, max_steps), 0, len(names))
    level = jax.random.uniform(key_level, index.shape, minval=0.1, maxval=self.severity)
    sign = jax.random.rademacher(key_sign, index.shape, jnp.float32)
    # the magnitudes of all operations at the level of every step, which then selects its own
    magnitude_of = magnitudes(level, *image_size)  # {name: [*shape, steps]}
    is_operation = [index == number for number in range(len(names))]
    magnitude = jnp.select(is_operation, [magnitude_of[name] for name in names])
    indices_of_warps = jnp.array([names.index(name) for name in WARPS])
    is_signed = jnp.isin(index, indices_of_warps)  # for example, a rotation has a direction
    step_number = jnp.broadcast_to(jnp.arange(max_steps), index.shape)
    return Drawn(
      index=jnp.where(step_number < depth, index, -1),  # −1 is the identity
      magnitude=jnp.where(is_signed, sign * magnitude, magnitude),
      centre=jnp.zeros((*index.shape, 2), jnp.int32),  # Cutout is none of the operations
    )


def mixture(
  key_weights: jax.Array, key_share: jax.Array, image: jax.Array, ends: jax.Array, alpha: float
) -> jax.Array:
  """Returns V mixtures of an image x with its distorted versions, [V, H, W, C].

  A mixture is (1 − m)·x + m·Σ_i w_i·end_i, with independent w ~ Dirichlet(α, …, α) and m ~ Beta(α,
  α).

  Args:
    key_weights: random key of w.
    key_share: random key of m.
    image: x, [H, W, C].
    ends: the distorted versions, [V, chains, H, W, C].
    alpha: α.
  """
  mixtures, width = ends.shape[:2]
  weights = jax.random.dirichlet(key_weights, jnp.full((width,), alpha), (mixtures,))
  share = jax.random.beta(key_share, alpha, alpha, (mixtures,))[:, None, None, None]
  return (1 - share) * image[None] + share * (weights[..., None, None, None] * ends).sum(1)


def stack_variants(image: jax.Array, variants: jax.Array, has_clean: bool) -> jax.Array:
  """Stacks the versions of an image, after the clean image if `has_clean`.

  Args:
    image: the clean image [H, W, C].
    variants: the versions [V, H, W, C].
    has_clean: whether the result has the clean image.

  Returns:
    [V, H, W, C] or [1 + V, H, W, C]; [H, W, C] if there is only one image.
  """
  images = jnp.concatenate([image[None], variants]) if has_clean else variants
  return images if len(images) > 1 else images[0]


def magnitudes(level: jax.Array, height: int, width: int) -> dict[str, jax.Array]:
  """Returns the size of each operation's effect at strengths from 0 to 10, as {operation: sizes}.

  For instance, 'Rotate' has degrees, and 'TranslateX' pixels. Sizes are positive; `AugMix` draws
  signs.

  Args:
    level: strengths in (0, 10]. The arrays of the result have this shape.
    height: height of the image in pixels.
    width: width of the image in pixels.
  """
  share = level / 10
  return {
    'AutoContrast': share,
    'Equalize': share,
    'Posterize': 4 - jnp.floor(4 * share),
    'Rotate': jnp.floor(30 * share),
    'Solarize': 256 - jnp.floor(256 * share),
    'ShearX': 0.3 * share,
    'ShearY': 0.3 * share,
    'TranslateX': jnp.floor(width / 3 * share),
    'TranslateY': jnp.floor(height / 3 * share),
    **dict.fromkeys(FURTHER, 0.1 + 1.8 * share),
  }
