"""PRIME: random filters, colour curves and deformations, mixed as AugMix mixes its operations."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from robustness.augment import Augmentation, Example
from robustness.augment.augmix import DEEPEST, after, mixture
from robustness.core.registry import setting
from robustness.core.sequential import map_entries
from robustness.corruptions.filters import correlate, sample_bilinear
from robustness.corruptions.names import BLUR, HAZE

WIDTH = 3
LEAST_MODES = 2


@dataclasses.dataclass(frozen=True)
class Prime(Augmentation):
  """Gives (1 − m)·x + m·Σ_i w_i·chain_i(x), w ~ Dirichlet(1, 1, 1), m ~ U(0, 1), several times.

  A chain has 1, 2 or 3 steps, drawn uniformly, each of them a filter, a colour curve or a
  deformation, see `filtered`, `recoloured` and `deformed`; after each, values lie in [0, 1]. The
  released code draws the strengths of steps and the deformation's fields once for a batch, and this
  for each step of an image: the distribution over images is the same.

  The image is [1 + mixtures, H, W, C], the first as it was, as the objective `jsd` has it;
  [mixtures, H, W, C] without `clean`, and [H, W, C] where that is one.

  Attributes:
    filter_deviation: a filter's values have the standard deviation s ~ U(0, this).
    colour_variance: the amplitudes of a curve have the variance T ~ U(0, this); .05 for ImageNet.
    colour_waves: a curve has the waves 1, …, K, with K uniform up to this; 500 for ImageNet.
    colour_band: how many of them a curve has, from a random one on; 0 takes all, ImageNet 20.
    modes: of the deformation in each direction, at most; 500 for ImageNet.
    mixtures: how many are made of an image, each with its own draws.
    clean: whether the image itself comes before them.

  Reference:
    Modas et al. (2022), PRIME: A Few Primitives Can Boost Robustness to Common Corruptions, section
    3; the defaults are those of the released code for CIFAR-10.
  """

  resembles = (BLUR, HAZE, 'brightness', 'elastic_transform', 'saturate')
  sequential: ClassVar[bool] = True
  gives_more_images: ClassVar[bool] = True
  filter_deviation: float = setting(4.0, 'at least 0', lambda x: x >= 0)
  colour_variance: float = setting(0.01, 'at least 0', lambda x: x >= 0)
  colour_waves: int = setting(100, 'at least 1', lambda x: x >= 1)
  colour_band: int = setting(0, 'at least 1, or 0 for all', lambda x: x >= 0)
  modes: int = setting(100, 'above 2', lambda x: x > LEAST_MODES)
  mixtures: int = setting(2, 'at least 1', lambda x: x >= 1)
  clean: bool = True

  def __call__(self, key: jax.Array, example: Example) -> Example:
    image, count = example['image'], (self.mixtures, WIDTH)
    key_weights, key_share, key_depth, key_kind, key_steps = jax.random.split(key, 5)
    depth = jax.random.randint(key_depth, (*count, 1), 1, DEEPEST + 1)
    kind = jax.random.randint(key_kind, (*count, DEEPEST), 1, 4)
    kind = jnp.where(jnp.arange(DEEPEST)[None, None] < depth, kind, 0)
    keys = jax.random.split(key_steps, (*count, DEEPEST))

    def step(image: jax.Array, drawn: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
      branches = [lambda key, image: image, self.filter, self.recolour, self.deform]
      return jax.lax.switch(drawn[0], branches, drawn[1], image), None

    flat = kind.reshape(-1, DEEPEST), keys.reshape(-1, DEEPEST)
    ends = map_entries(lambda *chain: jax.lax.scan(step, image, chain)[0], *flat)
    ends = ends.reshape(*count, *image.shape)
    images = mixture(key_weights, key_share, image, ends, alpha=1.0)
    return {**example, 'image': after(image, images, self.clean)}

  def filter(self, key: jax.Array, image: jax.Array) -> jax.Array:
    """Returns the image after a random filter."""
    key_deviation, key_values = jax.random.split(key)
    deviation = jax.random.uniform(key_deviation, maxval=self.filter_deviation)
    return filtered(image, deviation * jax.random.normal(key_values, (3, 3)))

  def recolour(self, key: jax.Array, image: jax.Array) -> jax.Array:
    """Returns the image after a random curve of each channel."""
    key_last, key_first, key_variance, key_values = jax.random.split(key, 4)
    last = jax.random.randint(key_last, (), 1, self.colour_waves + 1)
    first = jax.random.randint(key_first, (), 1, last + 1) if self.colour_band else jnp.int32(1)
    count = min(self.colour_band or self.colour_waves, self.colour_waves)
    variance = jax.random.uniform(key_variance, maxval=self.colour_variance)
    values = jax.random.normal(key_values, (count, image.shape[-1]))
    used = first + jnp.arange(count) <= last
    return recoloured(image, first, jnp.sqrt(variance) * values * used[:, None])

  def deform(self, key: jax.Array, image: jax.Array) -> jax.Array:
    """Returns the image after a random deformation.

    Its modes and its temperature T lie between bounds by Beta(½, ½), T between that of a typical
    shift of half a pixel and the highest without overhangs, if that is higher.
    """
    key_most, key_modes, key_temperature, key_values = jax.random.split(key, 4)
    most = jax.random.randint(key_most, (), LEAST_MODES + 1, self.modes + 1)
    modes = LEAST_MODES + jnp.floor(arcsine(key_modes) * (most + 1 - LEAST_MODES))
    modes = jnp.minimum(modes, most)
    logarithm = jnp.log(modes)
    low = 1 / (np.pi * max(image.shape[:2]) ** 2 * logarithm)
    high = jnp.maximum(low, 4 / (np.pi**3 * modes**2 * logarithm))
    temperature = low + (high - low) * arcsine(key_temperature)
    values = jax.random.normal(key_values, (2, self.modes, self.modes))
    index = jnp.arange(1, self.modes + 1)
    radius = jnp.hypot(index[:, None], index[None, :])
    weights = jnp.where(radius < modes + 0.5, jnp.sqrt(temperature) / radius, 0)
    return deformed(image, weights[None] * values)


def arcsine(key: jax.Array) -> jax.Array:
  """Draws from Beta(½, ½)."""
  return jnp.sin(jnp.pi / 2 * jax.random.uniform(key)) ** 2


def filtered(image: jax.Array, values: jax.Array) -> jax.Array:
  """Returns clip(Σ_uv (values + δ)[u, v]·x[y + u − 1, x + v − 1], 0, 1), black outside, of all
  channels alike.

  δ is 1 at [2, 2], as in the released code, so that values of 0 move the image by a pixel up and to
  the left.
  """
  framed = jnp.pad(image, ((1, 1), (1, 1), (0, 0)))
  return jnp.clip(correlate(framed, values.at[2, 2].add(1))[1:-1, 1:-1], 0, 1)


def recoloured(image: jax.Array, first: jax.Array, amplitudes: jax.Array) -> jax.Array:
  """Returns clip(x + Σ_k a_k sin((first + k)·πx), 0, 1) with amplitudes [K, C], k from 0 on."""
  sin, cos = jnp.sin(jnp.pi * image), jnp.cos(jnp.pi * image)

  def times_and_add(
    sums: tuple[jax.Array, jax.Array], amplitude: jax.Array
  ) -> tuple[tuple[jax.Array, jax.Array], None]:
    real, imaginary = sums
    return (
      real * cos - imaginary * sin + amplitude[None, None],
      real * sin + imaginary * cos,
    ), None

  nothing = jnp.zeros_like(image), jnp.zeros_like(image)
  (real, imaginary), _ = jax.lax.scan(times_and_add, nothing, amplitudes, reverse=True, unroll=4)
  turn = jnp.pi * jnp.mod(first * image, 2)
  return jnp.clip(image + real * jnp.sin(turn) + imaginary * jnp.cos(turn), 0, 1)


def deformed(image: jax.Array, amplitudes: jax.Array) -> jax.Array:
  """Returns x(y − H·v(y, x), x − W·u(y, x)), bilinear, edges replicated, with the fields
  Σ_ij a_ij sin(iπx/(W − 1)) sin(jπy/(H − 1)) of the amplitudes [2, I, J] of u and v."""
  height, width = image.shape[:2]
  index = np.arange(1, amplitudes.shape[1] + 1)
  down, right = (
    jnp.asarray(np.sin(np.pi * np.linspace(0, 1, side)[:, None] * index), jnp.float32)
    for side in (height, width)
  )
  u, v = jnp.einsum('fij,xi,yj->fyx', amplitudes, right, down, precision='highest')
  y, x = jnp.arange(height)[:, None] - height * v, jnp.arange(width)[None] - width * u
  return sample_bilinear(image, y, x)
