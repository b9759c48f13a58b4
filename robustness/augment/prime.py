"""PRIME: random filters, colour curves and deformations, mixed like AugMix's operations."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from robustness.augment import Augmentation, Example
from robustness.augment.augmix import MAX_DEPTH, mixture, stack_variants
from robustness.core.registry import setting
from robustness.core.sequential import map_entries
from robustness.corruptions.filters import correlate, sample_bilinear
from robustness.corruptions.names import BLUR, HAZE

WIDTH = 3
"""Number of chains in a mixture."""
MIN_MODES = 2
"""Smallest number of deformation modes per direction."""


@dataclasses.dataclass(frozen=True)
class Prime(Augmentation):
  """Mixes an image x with the results of three chains of random filters, colours and deformations.

  A mixture is (1 − m)·x + m·Σ_i w_i·chain_i(x) with w ~ Dirichlet(1, 1, 1) and m ~ U(0, 1). A
  chain has 1, 2 or 3 steps, drawn uniformly. A step is a filter, a colour curve or a deformation
  (`filtered`, `recoloured`, `deformed`), after which values are in [0, 1]. The released code draws
  strengths and deformation fields once per batch, this one for each step of an image; the
  distribution of an image is the same.

  The result is [1 + mixtures, H, W, C] with the clean image first, as the objective `jsd` needs;
  [mixtures, H, W, C] without `clean`, or [H, W, C] for a single image.

  Attributes:
    filter_deviation: The standard deviation of the values of a filter is drawn uniformly between 0
      and this number.
    colour_variance: The variance of the amplitudes of a colour curve is drawn uniformly between 0
      and this number; .05 for ImageNet.
    colour_waves: The highest frequency K of a colour curve, which is a sum of waves of frequencies
      1, …, K, is drawn uniformly from 1 to this number; 500 for ImageNet.
    colour_band: If above 0, a colour curve has only this number of successive frequencies, from a
      random first one in 1..K, and fewer where they would exceed K; 20 for ImageNet. 0 uses all.
    modes: Upper bound of the number of deformation modes per direction; 500 for ImageNet.
    mixtures: Number of mixtures, each with independent random numbers.
    clean: Whether the clean image is included.

  Reference:
    Modas et al. (2022), PRIME: A Few Primitives Can Boost Robustness to Common Corruptions, section
    3; the defaults follow the released code for CIFAR-10.
  """

  resembles = (BLUR, HAZE, 'brightness', 'elastic_transform', 'saturate')
  sequential = True
  gives_more_images = True
  filter_deviation: float = setting(4.0, 'at least 0', lambda x: x >= 0)
  colour_variance: float = setting(0.01, 'at least 0', lambda x: x >= 0)
  colour_waves: int = setting(100, 'at least 1', lambda x: x >= 1)
  colour_band: int = setting(0, 'at least 1, or 0 for all', lambda x: x >= 0)
  modes: int = setting(100, 'above 2', lambda x: x > MIN_MODES)
  mixtures: int = setting(2, 'at least 1', lambda x: x >= 1)
  clean: bool = True

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example with the clean image (if `clean`) and its mixtures, [V, H, W, C]."""
    image, count = example['image'], (self.mixtures, WIDTH)  # the chains of each mixture
    key_weights, key_share, key_depth, key_kind, key_steps = jax.random.split(key, 5)
    # the operations of which a step has one: the identity, for steps beyond the end of a chain, or
    # one of three, by the index `kind`
    operations = [lambda key, image: image, self.filter, self.recolour, self.deform]
    depth = jax.random.randint(key_depth, (*count, 1), 1, MAX_DEPTH + 1)
    kind = jax.random.randint(key_kind, (*count, MAX_DEPTH), 1, len(operations))
    kind = jnp.where(jnp.arange(MAX_DEPTH)[None, None] < depth, kind, 0)
    keys = jax.random.split(key_steps, (*count, MAX_DEPTH))

    def step(image: jax.Array, draw: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
      """Returns the image after a step of a chain for `lax.scan`; `draw` is (kind, key)."""
      step_kind, step_key = draw
      return jax.lax.switch(step_kind, operations, step_key, image), None

    # kinds and keys of the steps of each chain, [mixtures · WIDTH, MAX_DEPTH]
    flat = kind.reshape(-1, MAX_DEPTH), keys.reshape(-1, MAX_DEPTH)
    ends = map_entries(lambda *chain: jax.lax.scan(step, image, chain)[0], *flat)
    ends = ends.reshape(*count, *image.shape)
    images = mixture(key_weights, key_share, image, ends, alpha=1.0)
    return {**example, 'image': stack_variants(image, images, self.clean)}

  def filter(self, key: jax.Array, image: jax.Array) -> jax.Array:
    """Returns the image [H, W, C] after a random 3 × 3 filter.

    Its entries are normal, of mean 0 and one deviation that is uniform in [0, `filter_deviation`).
    """
    key_deviation, key_values = jax.random.split(key)
    deviation = jax.random.uniform(key_deviation, maxval=self.filter_deviation)
    return filtered(image, deviation * jax.random.normal(key_values, (3, 3)))

  def recolour(self, key: jax.Array, image: jax.Array) -> jax.Array:
    """Returns the image after a random colour curve for each channel."""
    key_last, key_first, key_variance, key_values = jax.random.split(key, 4)
    # the last and the first frequency of the curve
    last = jax.random.randint(key_last, (), 1, self.colour_waves + 1)
    first = jax.random.randint(key_first, (), 1, last + 1) if self.colour_band else jnp.int32(1)
    # The largest number of waves. All are computed, because shapes are fixed, and the waves above
    # `last` get the amplitude 0.
    band = self.colour_band or self.colour_waves  # 0 stands for all frequencies
    count = min(band, self.colour_waves)
    variance = jax.random.uniform(key_variance, maxval=self.colour_variance)
    values = jax.random.normal(key_values, (count, image.shape[-1]))
    is_in_band = first + jnp.arange(count) <= last
    return recoloured(image, first, jnp.sqrt(variance) * values * is_in_band[:, None])

  def deform(self, key: jax.Array, image: jax.Array) -> jax.Array:
    """Returns the image after a random deformation.

    Pixels are displaced by a sum of sine modes (i, j) with i² + j² up to about N², see `deformed`.
    Their amplitudes are normal with variance T / (i² + j²), where the temperature T sets the
    strength. The number N of modes per direction and T are drawn from Beta(½, ½), scaled to the
    range between two bounds. N is between 2 and a random maximum, uniform in 3..`modes`. T is
    between 1 / (π S² ln N), at which a typical shift is half a pixel of an image with the longer
    side S, and 4 / (π³ N² ln N), the largest T at which the image does not fold over.
    """
    key_bound, key_modes, key_temperature, key_values = jax.random.split(key, 4)
    max_modes = jax.random.randint(key_bound, (), MIN_MODES + 1, self.modes + 1)
    modes = MIN_MODES + jnp.floor(arcsine(key_modes) * (max_modes + 1 - MIN_MODES))
    modes = jnp.minimum(modes, max_modes)  # N; without the minimum, max + 1 where `arcsine` is 1
    logarithm = jnp.log(modes)
    lowest = 1 / (np.pi * max(image.shape[:2]) ** 2 * logarithm)  # of the temperature T
    highest = jnp.maximum(lowest, 4 / (np.pi**3 * modes**2 * logarithm))
    temperature = lowest + (highest - lowest) * arcsine(key_temperature)
    values = jax.random.normal(key_values, (2, self.modes, self.modes))
    index = jnp.arange(1, self.modes + 1)
    radius = jnp.hypot(index[:, None], index[None, :])  # √(i² + j²) of each mode
    weights = jnp.where(radius < modes + 0.5, jnp.sqrt(temperature) / radius, 0)
    return deformed(image, weights[None] * values)


def arcsine(key: jax.Array) -> jax.Array:
  """Draws a number in [0, 1] from Beta(½, ½), the arcsine distribution."""
  return jnp.sin(jnp.pi / 2 * jax.random.uniform(key)) ** 2


def filtered(image: jax.Array, values: jax.Array) -> jax.Array:
  """Returns an image correlated with a 3 × 3 filter and clipped to [0, 1].

  Pixel (y, x) of a channel becomes Σ_uv (values + δ)[u, v]·image[y + u − 1, x + v − 1], with
  indices u and v in 0..2, and with 0 outside the image. δ is 1 at [2, 2] and else 0, as in the
  released code, so that `values` of 0 move the image by a pixel up and to the left.
  """
  framed = jnp.pad(image, ((1, 1), (1, 1), (0, 0)))  # by zeros; `correlate` mirrors beyond them
  return jnp.clip(correlate(framed, values.at[2, 2].add(1))[1:-1, 1:-1], 0, 1)


def recoloured(image: jax.Array, first: jax.Array, amplitudes: jax.Array) -> jax.Array:
  """Returns an image x with a colour curve: clip(x + Σ_k a_k sin((first + k)·πx), 0, 1).

  Args:
    image: x, [H, W, C].
    first: lowest frequency, int32 scalar.
    amplitudes: a_k for k = 0..K − 1 and each channel, [K, C].
  """
  # With z = exp(iπx) the sum of sines is the imaginary part of z^first · Σ_k a_k z^k. Horner's rule
  # computes Σ_k a_k z^k from the last k to the first, without a sine for each of the K waves.
  sin, cos = jnp.sin(jnp.pi * image), jnp.cos(jnp.pi * image)

  def times_and_add(
    sums: tuple[jax.Array, jax.Array], amplitude: jax.Array
  ) -> tuple[tuple[jax.Array, jax.Array], None]:
    """Returns (real part, imaginary part) of the sum times z = exp(iπx) plus an amplitude [C]."""
    real, imaginary = sums
    real, imaginary = real * cos - imaginary * sin, real * sin + imaginary * cos
    return (real + amplitude[None, None], imaginary), None

  zeros = jnp.zeros_like(image), jnp.zeros_like(image)
  (real, imaginary), _ = jax.lax.scan(times_and_add, zeros, amplitudes, reverse=True, unroll=4)
  angle = jnp.pi * jnp.mod(first * image, 2)  # of z^first, in [0, 2π)
  return jnp.clip(image + real * jnp.sin(angle) + imaginary * jnp.cos(angle), 0, 1)


def deformed(image: jax.Array, amplitudes: jax.Array) -> jax.Array:
  """Returns an image [H, W, C] deformed by smooth random fields u and v.

  Pixel (y, x) shows the image at (y − H·v(y, x), x − W·u(y, x)), sampled bilinearly with replicated
  edges. Each field is Σ_ij a_ij sin(iπx/(W − 1)) sin(jπy/(H − 1)) with i and j in 1..N.
  `amplitudes` [2, N, N] are a_ij of u (horizontal) and then of v (vertical).
  """
  height, width = image.shape[:2]
  index = np.arange(1, amplitudes.shape[1] + 1)
  # `down` are the sines of y, [H, N], and `right` the sines of x, [W, N]
  down, right = (
    jnp.asarray(np.sin(np.pi * np.linspace(0, 1, side)[:, None] * index), jnp.float32)
    for side in (height, width)
  )
  u, v = jnp.einsum('fij,xi,yj->fyx', amplitudes, right, down, precision='highest')
  y, x = jnp.arange(height)[:, None] - height * v, jnp.arange(width)[None] - width * u
  return sample_bilinear(image, y, x)
