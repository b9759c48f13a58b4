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
  """Mixes an image with versions of itself that are randomly filtered, recoloured and deformed.

  A version results from a chain of 1, 2 or 3 random steps, such as a filter and a deformation
  (`filtered`, `recoloured`, `deformed`). Values are clipped to [0, 1] after every step. A mixture
  of the image x is (1 − m)·x + m·Σ_i w_i·chain_i(x), with three chains, w ~ Dirichlet(1, 1, 1) and
  m ~ U(0, 1). The released code draws strengths and deformations once per batch; here every step of
  every image has new ones.

  The result is [1 + mixtures, H, W, C] with the clean image first, as the objective `jsd` needs.
  Without `clean` it is [mixtures, H, W, C], or [H, W, C] for a single mixture.

  Attributes:
    filter_deviation: largest standard deviation of the entries of a filter. The standard deviation
      is drawn uniformly from 0 to this number.
    colour_variance: largest variance of the amplitudes of a colour curve. The variance is drawn
      uniformly from 0 to this number; .05 for ImageNet.
    colour_waves: largest frequency of a colour curve, which is a sum of sines of the frequencies 1,
      …, K. K is drawn uniformly from 1 to this number; 500 for ImageNet.
    colour_band: if above 0, a colour curve has only this number of successive frequencies. They
      start at a random one in 1..K and end at K at the latest. 20 for ImageNet; 0 uses all
      frequencies.
    modes: largest number of deformation modes per direction; 500 for ImageNet.
    mixtures: number of mixtures, each with independent random numbers.
    clean: whether the clean image is included.

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
    """Returns the example with its mixtures as images, [V, H, W, C].

    With `clean`, the clean image comes first.
    """
    image, shape_of_steps = example['image'], (self.mixtures, WIDTH, MAX_DEPTH)
    key_weights, key_share, key_depth, key_index, key_steps = jax.random.split(key, 5)
    # `index` is the operation of each step: 0, the identity, after the end of a chain
    operations = [lambda key, image: image, self.filter, self.recolour, self.deform]
    depth = jax.random.randint(key_depth, (self.mixtures, WIDTH, 1), 1, MAX_DEPTH + 1)
    index = jax.random.randint(key_index, shape_of_steps, 1, len(operations))
    index = jnp.where(jnp.arange(MAX_DEPTH)[None, None] < depth, index, 0)
    keys = jax.random.split(key_steps, shape_of_steps)

    def step(image: jax.Array, draw: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
      """Returns the image after one step of a chain, for `lax.scan`.

      `draw` is (index of the operation, random key).
      """
      step_index, step_key = draw
      return jax.lax.switch(step_index, operations, step_key, image), None

    # the draws of all chains, [mixtures · WIDTH, MAX_DEPTH]
    chains = index.reshape(-1, MAX_DEPTH), keys.reshape(-1, MAX_DEPTH)
    ends = map_entries(lambda *draws: jax.lax.scan(step, image, draws)[0], *chains)
    ends = ends.reshape(self.mixtures, WIDTH, *image.shape)  # the image after each chain
    mixtures = mixture(key_weights, key_share, image, ends, alpha=1.0)
    return {**example, 'image': stack_variants(image, mixtures, self.clean)}

  def filter(self, key: jax.Array, image: jax.Array) -> jax.Array:
    """Returns the image after a random 3 × 3 filter, [H, W, C].

    The entries of the filter are normal with mean 0. Their standard deviation is uniform in [0,
    `filter_deviation`).
    """
    key_deviation, key_values = jax.random.split(key)
    deviation = jax.random.uniform(key_deviation, maxval=self.filter_deviation)
    return filtered(image, deviation * jax.random.normal(key_values, (3, 3)))

  def recolour(self, key: jax.Array, image: jax.Array) -> jax.Array:
    """Changes the colours of an image by a random curve for each channel, [H, W, C].

    A curve is a sum of sine waves over the intensity, with random amplitudes at the frequencies
    `first` to `last`.

    Args:
      key: random key.
      image: float32 [H, W, C] in [0, 1].
    """
    key_last, key_first, key_variance, key_values = jax.random.split(key, 4)
    # the last and the first frequency of the curve
    last = jax.random.randint(key_last, (), 1, self.colour_waves + 1)
    first, max_waves = jnp.int32(1), self.colour_waves
    if self.colour_band:
      first = jax.random.randint(key_first, (), 1, last + 1)
      max_waves = min(self.colour_band, self.colour_waves)
    variance = jax.random.uniform(key_variance, maxval=self.colour_variance)
    amplitudes = jnp.sqrt(variance) * jax.random.normal(key_values, (max_waves, image.shape[-1]))
    # all waves are computed, because shapes are fixed; those above `last` get the amplitude 0
    is_present = first + jnp.arange(max_waves) <= last
    return recoloured(image, first, amplitudes * is_present[:, None])

  def deform(self, key: jax.Array, image: jax.Array) -> jax.Array:
    """Returns the image after a random smooth deformation, [H, W, C].

    Pixels are displaced by a sum of sine waves with i periods along one axis and j along the other
    (`deformed`). The sum has the waves with i² + j² up to about N². Amplitudes are normal with
    variance T / (i² + j²), where the temperature T sets the strength.

    N and T are drawn from Beta(½, ½), scaled to a range. N ranges from 2 to a random maximum,
    uniform in 3..`modes`. T ranges from 1 / (π S² ln N) to 4 / (π³ N² ln N), where S is the longer
    side of the image. At the lower bound a typical shift is half a pixel. The upper bound is the
    largest T at which the image does not fold over.
    """
    key_bound, key_cutoff, key_temperature, key_values = jax.random.split(key, 4)
    max_cutoff = jax.random.randint(key_bound, (), MIN_MODES + 1, self.modes + 1)
    cutoff = MIN_MODES + jnp.floor(arcsine(key_cutoff) * (max_cutoff + 1 - MIN_MODES))
    cutoff = jnp.minimum(cutoff, max_cutoff)  # N; `arcsine` can be 1, and the sum max_cutoff + 1
    logarithm = jnp.log(cutoff)
    lowest = 1 / (np.pi * max(image.shape[:2]) ** 2 * logarithm)  # of the temperature T
    highest = jnp.maximum(lowest, 4 / (np.pi**3 * cutoff**2 * logarithm))
    temperature = lowest + (highest - lowest) * arcsine(key_temperature)
    values = jax.random.normal(key_values, (2, self.modes, self.modes))
    index = jnp.arange(1, self.modes + 1)  # i, and j
    radius = jnp.hypot(index[:, None], index[None, :])  # √(i² + j²) of each mode
    deviations = jnp.where(radius < cutoff + 0.5, jnp.sqrt(temperature) / radius, 0)
    return deformed(image, deviations[None] * values)


def arcsine(key: jax.Array) -> jax.Array:
  """Draws a number in [0, 1] from Beta(½, ½), the arcsine distribution."""
  return jnp.sin(jnp.pi / 2 * jax.random.uniform(key)) ** 2


def filtered(image: jax.Array, values: jax.Array) -> jax.Array:
  """Applies a 3 × 3 filter to an image by correlation and clips the result to [0, 1].

  Pixel (y, x) of a channel becomes Σ_uv (values + δ)[u, v]·image[y + u − 1, x + v − 1], with u and
  v in 0..2. The image is 0 outside its border. δ is 1 at [2, 2] and 0 elsewhere, as in the released
  code. If all `values` are 0, the image therefore moves up and to the left by a pixel.

  Args:
    image: [H, W, C] in [0, 1].
    values: the filter, [3, 3].
  """
  framed = jnp.pad(image, ((1, 1), (1, 1), (0, 0)))  # by zeros; `correlate` mirrors beyond them
  return jnp.clip(correlate(framed, values.at[2, 2].add(1))[1:-1, 1:-1], 0, 1)


def recoloured(image: jax.Array, first: jax.Array, amplitudes: jax.Array) -> jax.Array:
  """Applies a colour curve to an image x: clip(x + Σ_k a_k sin((first + k)·πx), 0, 1).

  Args:
    image: x, [H, W, C] in [0, 1].
    first: lowest frequency, int32 scalar.
    amplitudes: a_k for k = 0..K − 1 and each channel, [K, C].
  """
  # With z = exp(iπx) the sum of sines is the imaginary part of z^first · Σ_k a_k z^k. Horner's rule
  # computes Σ_k a_k z^k from the last k to the first, without a sine for each of the K waves.
  sin, cos = jnp.sin(jnp.pi * image), jnp.cos(jnp.pi * image)

  def times_and_add(
    sums: tuple[jax.Array, jax.Array], amplitude: jax.Array
  ) -> tuple[tuple[jax.Array, jax.Array], None]:
    """Multiplies a complex sum by exp(iπx) and adds an amplitude, a step of Horner's rule.

    Args:
      sums: (real part, imaginary part) of the sum, each [H, W, C].
      amplitude: [C].

    Returns:
      (new sums, None), for `lax.scan`.
    """
    real, imaginary = sums
    real, imaginary = real * cos - imaginary * sin, real * sin + imaginary * cos
    return (real + amplitude[None, None], imaginary), None

  zeros = jnp.zeros_like(image), jnp.zeros_like(image)
  (real, imaginary), _ = jax.lax.scan(times_and_add, zeros, amplitudes, reverse=True, unroll=4)
  angle = jnp.pi * jnp.mod(first * image, 2)  # of z^first, in [0, 2π)
  return jnp.clip(image + real * jnp.sin(angle) + imaginary * jnp.cos(angle), 0, 1)


def deformed(image: jax.Array, amplitudes: jax.Array) -> jax.Array:
  """Returns an image deformed by smooth displacement fields u and v, [H, W, C].

  Pixel (y, x) of the result shows the image at (y − H·v(y, x), x − W·u(y, x)). Values between
  pixels are interpolated bilinearly, and the image repeats its edge pixels beyond the border. Each
  field is Σ_ij a_ij sin(iπx/(W − 1)) sin(jπy/(H − 1)) with i and j in 1..N.

  Args:
    image: [H, W, C].
    amplitudes: a_ij of u (horizontal) and of v (vertical), [2, N, N].
  """
  height, width = image.shape[:2]
  index = np.arange(1, amplitudes.shape[1] + 1)

  def sines(side: int) -> jax.Array:
    """Returns sin(iπp/(side − 1)) for every pixel p of a side and i in 1..N, [side, N]."""
    return jnp.asarray(np.sin(np.pi * np.linspace(0, 1, side)[:, None] * index), jnp.float32)

  sines_of_y, sines_of_x = sines(height), sines(width)
  u, v = jnp.einsum('fij,xi,yj->fyx', amplitudes, sines_of_x, sines_of_y, precision='highest')
  y, x = jnp.arange(height)[:, None] - height * v, jnp.arange(width)[None] - width * u
  return sample_bilinear(image, y, x)
