"""The four noises: Gaussian, shot (Poisson), impulse and speckle.

In formulas, x is the image, with values in [0, 1].
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from robustness.core import random_images
from robustness.corruptions.corruption import Strength, published
from robustness.corruptions.filters import any_of_batch
from robustness.corruptions.names import NOISE

LEVELS = 255
"""Largest 8-bit level."""
TAIL = 2.0**-34  # probability omitted from a table on each side, below the 2⁻³² of a draw


@published(NOISE)
def gaussian_noise(key: jax.Array, image: jax.Array, strength: Strength) -> jax.Array:
  """Adds noise of standard deviation σ = `sigma`: clip(x + σε, 0, 1) for the image x.

  ε ~ N(0, 1) is independent for each pixel and channel.
  """
  noise = random_images.normal(key, image.shape)
  return jnp.clip(image + strength['sigma'] * noise, 0, 1)


@published(NOISE)
def speckle_noise(key: jax.Array, image: jax.Array, strength: Strength) -> jax.Array:
  """Adds noise in proportion to the image x: clip(x + σxε, 0, 1) with σ = `sigma`.

  ε ~ N(0, 1) is independent for each pixel and channel.
  """
  noise = random_images.normal(key, image.shape)
  return jnp.clip(image + strength['sigma'] * image * noise, 0, 1)


@published(NOISE)
def impulse_noise(key: jax.Array, image: jax.Array, strength: Strength) -> jax.Array:
  """Replaces each value of a pixel and channel by 0 or by 1 with probability `rate` / 2 each.

  A random 32-bit number per value decides: the lowest `rate` / 2 of all numbers make it 0, the next
  `rate` / 2 make it 1.
  """
  bits = random_images.bits(key, image.shape)
  # half of the rate as a fraction of 2³²
  limits = np.round(np.asarray(strength.constants['rate']) * 2.0**31).astype(np.uint32)
  half = jnp.asarray(limits)[strength.index]
  return jnp.where(bits < half, 0, jnp.where(bits < 2 * half, 1, image)).astype(image.dtype)


@published(NOISE, options={'draws': ('alias', 'inverse')})
def shot_noise(
  key: jax.Array, image: jax.Array, strength: Strength, draws: str = 'alias'
) -> jax.Array:
  """Replaces values by photon counts: clip(Poisson(λx) / λ, 0, 1) per pixel and channel.

  λ is the constant `photons`, the expected count of white. Counts are drawn in two steps. The level
  k = ⌊255x⌋ has Poisson(λk / 255) counts, drawn from a table of the 256 rates. The remainder has
  Poisson(λ(x − k / 255)) counts, drawn by inversion and added. 8-bit images (every x within 2⁻¹² of
  a level) need only the first step, which takes half the time.

  Args:
    key: random key.
    image: float32 [H, W, C] in [0, 1].
    strength: has the constant `photons`.
    draws: method for the table. 'inverse' inverts the cumulative distribution: for the same key,
      the count grows with the rate, and the noise of two severities is correlated. 'alias' is
      faster.
  """
  photons = strength['photons']
  table_key, remainder_key = jax.random.split(key)
  level, remainder = _split_levels(image)
  bits = random_images.bits(table_key, image.shape)
  from_table = poisson_from_table if draws == 'alias' else poisson_by_inversion
  count = from_table(bits, level, strength).astype(image.dtype)

  def with_remainder(count: jax.Array) -> jax.Array:
    """Adds Poisson counts of the rates λ · remainder / 255 to `count`."""
    uniform = random_images.uniform(remainder_key, image.shape)
    max_rate = strength.maximum('photons') / LEVELS
    return count + small_poisson(uniform, remainder * (photons / LEVELS), max_rate)

  count = jax.lax.cond(any_of_batch(remainder > 0), with_remainder, lambda count: count, count)
  return jnp.clip(count / photons, 0, 1)


def _split_levels(image: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Returns (level, remainder) with 255 x = level + remainder for the values x of an image.

  The level is int32 in 0..255 and the remainder in [0, 1). Values within 2⁻¹² of a level have the
  remainder 0.
  """
  scaled = jnp.clip(image, 0, 1) * LEVELS
  nearest = jnp.round(scaled)
  is_level = jnp.abs(scaled - nearest) <= 2.0**-12
  level = jnp.where(is_level, nearest, jnp.floor(scaled))
  return level.astype(jnp.int32), jnp.where(is_level, 0, scaled - level)


@functools.lru_cache
def poisson_table(photons: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
  """Returns Walker's alias tables for drawing Poisson counts of rate λ k / 255.

  Table number 256 s + k is for severity s = 0, ..., S − 1 and the 8-bit level k. A table has K
  columns, where K is a power of two, and column j stands for the count start + j. To draw a count,
  the upper log2(K) bits of a random 32-bit number select a column. If the remaining bits are below
  the column's limit, its count is taken, otherwise the count of another column, its alias.
  Probabilities are whole multiples of 2⁻³².

  Args:
    photons: λ, the expected count of white, for each of S severities.

  Returns:
    A tuple (start, packed). `start`, int32 [S·256], is the count of column 0 of each table.
    `packed`, uint32 [S·256, K], is limit · K + alias of each column, where alias is the index of
    the other column.
  """
  start, edges = cumulative_table(photons)
  return start, _alias_tables(np.diff(edges, axis=1, prepend=0))


@functools.lru_cache
def cumulative_table(photons: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
  """Returns cumulative Poisson probabilities for `poisson_table`.

  Args:
    photons: λ, the expected count of white, for each of S severities.

  Returns:
    A tuple (start, edges) for every severity and level of a pixel. `start`, int32 [S·256], is the
    first count that the table has; lower ones are too improbable. Entry k of `edges`, int64
    [S·256, K], is 2³² times the probability of a count of at most start + k.
  """
  # λ k / 255 for each severity and level, [S·256, 1]
  rate = (np.asarray(photons)[:, None] * np.arange(LEVELS + 1) / LEVELS).reshape(-1, 1)
  # smallest and largest count of each table; SciPy has NaN or −1 for the rate 0
  start = np.nan_to_num(scipy.stats.poisson.ppf(TAIL, rate)).clip(0)
  end = np.nan_to_num(scipy.stats.poisson.isf(TAIL, rate))
  # K, the power of two that has room for all counts and for one more above them
  width = 1 << int(np.ceil(np.log2((end - start).max() + 2)))
  cumulative = scipy.stats.poisson.cdf(start + np.arange(width), rate)
  edges = np.round(cumulative * 2.0**32).astype(np.int64)
  edges[:, -1] = 2**32  # the last count takes the omitted probability
  return start[:, 0].astype(np.int32), edges


def _alias_tables(mass: np.ndarray) -> np.ndarray:
  """Builds Walker's alias tables, uint32 [N, K], from integer masses [N, K] with row sums 2³².

  K is a power of two. All K columns of a table have the capacity 2³² / K. The column with the least
  mass (`poor`) is filled up with mass of the column with the greatest mass (`rich`), which becomes
  its alias. This is repeated until every column is full. An entry of the result is
  limit · K + alias, where numbers from the limit on stand for the alias.
  """
  rows, width = np.arange(len(mass)), mass.shape[1]
  capacity = 2**32 // width
  # two copies of the masses, to search the least and the greatest; completed columns get a value
  # that is neither
  for_minimum, for_maximum = mass.copy(), mass.copy()
  limit = np.full(mass.shape, capacity - 1)
  alias = np.tile(np.arange(width), (len(mass), 1))
  for _ in range(width):
    poor, rich = for_minimum.argmin(1), for_maximum.argmax(1)
    least_mass = for_minimum[rows, poor]
    is_short = least_mass < capacity
    limit[rows, poor] = np.where(is_short, least_mass, capacity - 1)
    alias[rows, poor] = np.where(is_short, rich, poor)
    # the rich column loses what the poor one lacks, and may be short itself now
    for_minimum[rows, rich] -= np.where(is_short, capacity - least_mass, 0)
    for_maximum[rows, rich] = for_minimum[rows, rich]
    # the poor column is complete
    for_minimum[rows, poor], for_maximum[rows, poor] = capacity + 1, -1
  return (limit * width + alias).astype(np.uint32)


def poisson_from_table(bits: jax.Array, level: jax.Array, strength: Strength) -> jax.Array:
  """Returns Poisson counts of rate λ·level / 255, int32, by Walker's alias method.

  Args:
    bits: uniform uint32.
    level: int32 in 0..255, in the shape of `bits`.
    strength: has λ, the constant `photons`.
  """
  start, packed = poisson_table(strength.constants['photons'])
  width = packed.shape[1]
  row = strength.index * (LEVELS + 1) + level  # number of the table of each value
  # Walker's alias method: the upper bits choose a column of the table, and the lower bits decide
  # between the column and its alias.
  num_upper = width.bit_length() - 1  # log2(width)
  column = (bits >> (32 - num_upper)).astype(jnp.int32)
  entry = jnp.asarray(packed.reshape(-1))[row * width + column]  # limit · width + alias
  lower_bits = bits & (2 ** (32 - num_upper) - 1)
  alias = (entry & (width - 1)).astype(jnp.int32)
  lowest_count = jnp.asarray(start)[row]
  limit = entry // width
  return lowest_count + jnp.where(lower_bits < limit, column, alias)


def poisson_by_inversion(bits: jax.Array, level: jax.Array, strength: Strength) -> jax.Array:
  """Returns Poisson counts of rate λ·level / 255, int32, by inversion of the distribution.

  For the same bits, counts rise with the rate.

  Args:
    bits: uniform uint32.
    level: int32 in 0..255, in the shape of `bits`.
    strength: has λ, the constant `photons`.
  """
  start, edges = cumulative_table(strength.constants['photons'])
  width = edges.shape[1]
  # Column k of a table stands for the count start + k: the largest value of `bits` for which the
  # count is at most start + k, or 0 where no value has such a small count.
  largest_bits = jnp.asarray((edges - 1).clip(0, 2**32 - 1).astype(np.uint32).reshape(-1))
  row = strength.index * (LEVELS + 1) + level  # number of the table of each value
  column = jnp.zeros_like(row)
  # Binary search for the first column that the bits do not exceed: a step is taken if the bits
  # exceed the last column that it skips. Steps are width / 2, width / 4, ..., 1.
  for step in (width >> k for k in range(1, width.bit_length())):
    last_skipped = row * width + column + step - 1
    column += jnp.where(bits > largest_bits[last_skipped], step, 0)
  return jnp.asarray(start)[row] + column


def small_poisson(uniform: jax.Array, rate: jax.Array, max_rate: float) -> jax.Array:
  """Returns Poisson counts of small rates, float32, by inversion of the distribution.

  Args:
    uniform: uniform numbers in [0, 1).
    rate: rates, in the shape of `uniform`.
    max_rate: static upper bound of the rates. It fixes the number of terms; the omitted tail is
      below 2⁻³⁴.
  """
  terms = int(scipy.stats.poisson.isf(TAIL, max_rate)) + 1
  probability = cumulative = jnp.exp(-rate)
  count = jnp.zeros_like(rate)
  for k in range(1, terms + 1):  # `cumulative` is the probability of a count below k
    count = count + (uniform >= cumulative)
    probability = probability * rate / k
    cumulative = cumulative + probability
  return count
