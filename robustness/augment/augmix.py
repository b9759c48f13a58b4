"""AugMix: chains of operations, mixed with each other and with the image."""

import dataclasses

import jax
import jax.numpy as jnp

from robustness.augment import Augmentation, Example
from robustness.augment.operations import Drawn, Operations, resembled_transforms
from robustness.core.registry import setting
from robustness.core.sequential import map_entries

BASIC = (
  *('AutoContrast', 'Equalize', 'Posterize', 'Rotate', 'Solarize'),
  *('ShearX', 'ShearY', 'TranslateX', 'TranslateY'),
)
"""The operations of AugMix."""
FURTHER = ('Color', 'Contrast', 'Brightness', 'Sharpness')
"""Operations that resemble common corruptions; only `AugMix.all_operations` adds them."""
SIGNED = ('Rotate', 'ShearX', 'ShearY', 'TranslateX', 'TranslateY')
"""Operations with a random sign."""
MAX_DEPTH = 3
"""Number of operations in the longest chain if depths are drawn."""


@dataclasses.dataclass(frozen=True)
class AugMix(Augmentation):
  """Mixes an image x with the results of chains of random operations.

  A mixture is (1 − m)·x + m·Σ_i w_i·chain_i(x) with w ~ Dirichlet(α, …, α) and m ~ Beta(α, α). A
  chain has 1, 2 or 3 operations, drawn uniformly with replacement, each at an independent level
  u ~ U(.1, severity). Operations compute with 8-bit levels. Warps interpolate bilinearly and leave
  black where they move the image away. Mixtures are not rounded and remain in [0, 1]. Put
  random flips and crops before `augmix` in the policy, so that all images of a row share them.

  The result is [1 + mixtures, H, W, C] with the clean image first; [mixtures, H, W, C] without
  `clean`, or [H, W, C] for a single image.

  Attributes:
    severity: Highest level, in (.1, 10]; 10 is the full range. The released code has 3 for CIFAR-10
      and 1 for ImageNet.
    width: Number of chains in a mixture.
    depth: Number of operations in a chain; 0 draws 1, 2 or 3 for each chain.
    alpha: α of the Dirichlet and Beta distributions.
    mixtures: Number of mixtures, each with independent random numbers.
    clean: Whether the clean image is included, as the objective `jsd` needs.
    all_operations: Adds Color, Contrast, Brightness and Sharpness, which resemble common
      corruptions, to the nine operations.

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
    """The operations among which chains are drawn."""
    return BASIC + (FURTHER if self.all_operations else ())

  @property
  def resembles(self) -> tuple[str, ...]:
    """The transforms, such as corruptions, that the operations of chains are similar to."""
    return resembled_transforms(self.names)

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example with the clean image (if `clean`) and its mixtures, [V, H, W, C]."""
    image, shape_of_chains = example['image'], (self.mixtures, self.width)
    key_weights, key_share, key_chains = jax.random.split(key, 3)
    chains = self.chains(key_chains, shape_of_chains, image.shape[:2])
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), chains)  # [mixtures · width, ...]
    operations = Operations(self.names, 'bilinear')
    results = map_entries(lambda chain: operations.in_sequence(image, chain), flat)
    results = results.reshape(*shape_of_chains, *image.shape)  # the image after each chain
    images = mixture(key_weights, key_share, image, results, self.alpha)
    return {**example, 'image': stack_variants(image, images, self.clean)}

  def chains(self, key: jax.Array, count: tuple[int, ...], shape: tuple[int, ...]) -> Drawn:
    """Returns random chains of operations.

    Args:
      key: random key.
      count: leading axes of the result, such as (mixtures, width); () for one chain.
      shape: height and width of the images, on which the magnitudes of translations depend.

    Returns:
      The operations in order, arrays [*count, steps, ...]; `steps` is the largest possible length
      of a chain. Steps beyond the end of a chain are the identity.
    """
    names, steps = self.names, self.depth or MAX_DEPTH
    key_depth, key_name, key_level, key_sign = jax.random.split(key, 4)
    # a depth of 0 draws the number of operations of each chain
    depth = self.depth or jax.random.randint(key_depth, (*count, 1), 1, MAX_DEPTH + 1)
    # index in `names` of each step, [*count, steps]
    index = jax.random.randint(key_name, (*count, steps), 0, len(names))
    level = jax.random.uniform(key_level, index.shape, minval=0.1, maxval=self.severity)
    sign = jax.random.rademacher(key_sign, index.shape, jnp.float32)
    magnitude_of = magnitudes(level, *shape)  # {operation: its magnitude at every step's level}
    is_operation = [index == number for number in range(len(names))]
    magnitude = jnp.select(is_operation, [magnitude_of[name] for name in names])
    is_signed = jnp.isin(index, jnp.array([names.index(name) for name in SIGNED]))
    step = jnp.broadcast_to(jnp.arange(steps), index.shape)
    return Drawn(
      index=jnp.where(step < depth, index, -1),
      magnitude=jnp.where(is_signed, sign * magnitude, magnitude),
      centre=jnp.zeros((*index.shape, 2), jnp.int32),  # Cutout is none of the operations
    )


def mixture(
  key_weights: jax.Array, key_share: jax.Array, image: jax.Array, ends: jax.Array, alpha: float
) -> jax.Array:
  """Returns V mixtures of an image x with the images at the ends of its chains, [V, H, W, C].

  Each is (1 − m)·x + m·Σ_i w_i·end_i, with independent w ~ Dirichlet(α, …, α) and m ~ Beta(α, α).

  Args:
    key_weights: random key of w.
    key_share: random key of m.
    image: x, [H, W, C].
    ends: the images at the ends of the chains, [V, chains, H, W, C].
    alpha: α.
  """
  mixtures, width = ends.shape[:2]
  weights = jax.random.dirichlet(key_weights, jnp.full((width,), alpha), (mixtures,))
  share = jax.random.beta(key_share, alpha, alpha, (mixtures,))[:, None, None, None]
  return (1 - share) * image[None] + share * (weights[..., None, None, None] * ends).sum(1)


def stack_variants(image: jax.Array, variants: jax.Array, has_clean: bool) -> jax.Array:
  """Returns the variants [V, H, W, C] of an image, preceded by the image itself if `has_clean`.

  If the result would be one image, it is [H, W, C] instead of [1, H, W, C].
  """
  images = jnp.concatenate([image[None], variants]) if has_clean else variants
  return images if len(images) > 1 else images[0]


def magnitudes(level: jax.Array, height: int, width: int) -> dict[str, jax.Array]:
  """Returns {operation: its magnitude without sign, in its unit} at levels in (0, 10].

  The magnitudes have the shape of `level`; `height` and `width` are the image's size in pixels.
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
