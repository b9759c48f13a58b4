"""Tests that the noises have their distributions: moments, rates, histograms and flat spectra."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from robustness.corruptions import noise
from robustness.corruptions.catalog import TABLES
from robustness.corruptions.corruption import Strength

SIDES, ENDS = (32, 224), (1, 5)
"""Sizes of images and severities: a table of constants each, which one program takes."""
LEVEL = 1e-4
"""Significance of each test of a distribution. Keys are fixed, so that a pass stays a pass."""


@functools.cache
def compiled(name: str, side: int, size: int):
  """Returns a compiled function of a key, the value of a flat image, and a severity."""
  function, constants = getattr(noise, name), TABLES[side][name]

  def flat(key: jax.Array, value: jax.Array, severity: jax.Array) -> jax.Array:
    return function(key, jnp.full((size, size, 3), value), severity, constants)

  return jax.jit(flat)


def noisy_flat(name: str, value: float, severity: int, side: int, size: int = 160) -> np.ndarray:
  """Returns the noise on a flat image with the constants of a side, float64 [size, size, 3]."""
  noisy = compiled(name, side, size)(jax.random.key(severity), np.float32(value), severity)
  return np.asarray(noisy, np.float64)


@pytest.mark.parametrize('side', SIDES)
@pytest.mark.parametrize('severity', ENDS)
def test_gaussian_noise_is_normal(side, severity):
  sigma = TABLES[side]['gaussian_noise']['sigma'][severity - 1]
  delta = noisy_flat('gaussian_noise', 0.5, severity, side) - 0.5
  inside = np.abs(delta) < 0.499  # The values at the ends are clipped ones.
  share = scipy.stats.norm.cdf(0.499 / sigma) * 2 - 1
  assert abs(inside.mean() - share) < 5 * np.sqrt(share * (1 - share) / delta.size) + 1e-9
  bounded = scipy.stats.truncnorm(-0.499 / sigma, 0.499 / sigma, scale=sigma)
  assert scipy.stats.kstest(delta[inside], bounded.cdf).pvalue > LEVEL


@pytest.mark.parametrize('side', [32, 64])
@pytest.mark.parametrize('severity', ENDS)
def test_speckle_noise_scales_with_the_value(side, severity):
  sigma = TABLES[side]['speckle_noise']['sigma'][severity - 1]
  for value in (0, 0.1, 0.5):
    delta = noisy_flat('speckle_noise', value, severity, side) - value
    assert abs(delta.std() - sigma * value) <= 0.02 * sigma * value
    assert abs(delta.mean()) <= 5 * sigma * value / np.sqrt(delta.size)


@pytest.mark.parametrize('side', SIDES)
@pytest.mark.parametrize('severity', ENDS)
def test_impulse_noise_replaces_elements_at_the_rate(side, severity):
  rate = TABLES[side]['impulse_noise']['rate'][severity - 1]
  out = noisy_flat('impulse_noise', 0.25, severity, side)
  hit = out != 0.25
  assert set(np.unique(out)) == {0, 0.25, 1}
  assert scipy.stats.binomtest(int(hit.sum()), hit.size, rate).pvalue > LEVEL
  assert scipy.stats.binomtest(int((out == 1).sum()), int(hit.sum()), 0.5).pvalue > LEVEL
  together = int(hit.all(-1).sum())  # All three channels are hit at rate³ if independent.
  assert scipy.stats.binomtest(together, hit[..., 0].size, rate**3).pvalue > LEVEL


def counts_of(value: float, severity: int, side: int) -> np.ndarray:
  """Returns the photon counts of a flat image, at most the photons of white, [160, 160, 3]."""
  photons = TABLES[side]['shot_noise']['photons'][severity - 1]
  return np.round(noisy_flat('shot_noise', value, severity, side) * photons)


def assert_poisson(counts: np.ndarray, rate: float, limit: float) -> None:
  """Compares the histogram of counts, clipped at `limit`, with Poisson's by χ².

  Counts that are expected fewer than 10 times are one cell.
  """
  cells = np.arange(int(limit) + 1)
  expected = scipy.stats.poisson.pmf(cells, rate)
  expected[-1] = scipy.stats.poisson.sf(limit - 1, rate)
  observed = np.bincount(counts.astype(int).ravel(), minlength=len(cells))
  keep = expected * counts.size >= 10
  observed = np.append(observed[keep], observed[~keep].sum())
  expected = np.append(expected[keep], expected[~keep].sum()) * counts.size
  if expected[-1] < 1:
    assert observed[-1] <= 8
    observed, expected = observed[:-1], expected[:-1]
  expected *= observed.sum() / expected.sum()
  assert scipy.stats.chisquare(observed, expected).pvalue > LEVEL


@pytest.mark.parametrize('side', SIDES)
@pytest.mark.parametrize('value', [1 / 255, 37 / 255, 128 / 255, 0.9, 0.31234, 0.0007])
def test_shot_noise_is_poisson(side, value):
  for severity in (1, 3, 5):
    photons = TABLES[side]['shot_noise']['photons'][severity - 1]
    counts = counts_of(value, severity, side)
    assert_poisson(counts, value * photons, photons)
    possible = np.arange(10 * int(photons))
    clipped = np.minimum(possible, photons)
    mean = clipped @ scipy.stats.poisson.pmf(possible, value * photons)
    assert abs(counts.mean() - mean) < 5 * np.sqrt(value * photons / counts.size)
    assert not counts_of(0, severity, side).any(), 'black stays black'


@pytest.mark.parametrize('side', SIDES)
def test_alias_tables_hold_poissons_probabilities(side):
  photons = TABLES[side]['shot_noise']['photons']
  start, packed = noise.poisson_table(photons)
  width = packed.shape[1]
  room = 2**32 // width
  for row in (0, 1, 100, 255, 3 * 256 + 17, 5 * 256 - 1):
    limit, alias = packed[row] // width, packed[row] % width
    mass = np.zeros(width)
    np.add.at(mass, np.arange(width), np.where(alias == np.arange(width), room, limit))
    np.add.at(mass, alias, np.where(alias == np.arange(width), 0, room - limit.astype(np.int64)))
    assert mass.sum() == 2**32
    rate = photons[row // 256] * (row % 256) / 255
    expected = scipy.stats.poisson.pmf(start[row] + np.arange(width), rate)
    np.testing.assert_allclose(mass / 2**32, expected, atol=1e-9)


@pytest.mark.parametrize('side', [32, 224])
def test_counts_by_inversion_are_poissons_quantiles(side):
  bits = np.random.default_rng(0).integers(0, 2**32, 5000, dtype=np.uint32)
  constants = TABLES[side]['shot_noise']
  for severity, level in ((1, 0), (1, 255), (3, 37), (5, 1), (5, 200)):
    strength = Strength(constants, severity)
    ours = noise.poisson_by_inversion(jnp.asarray(bits), jnp.full(5000, level, jnp.int32), strength)
    rate = constants['photons'][severity - 1] * level / 255
    theirs = scipy.stats.poisson.ppf((bits + 0.5) / 2**32, rate)
    np.testing.assert_array_equal(ours, theirs)


def test_small_poisson_counts_are_poissons_quantiles():
  uniform = np.linspace(0, 1, 4001, endpoint=False, dtype=np.float32) + np.float32(1e-5)
  for rate in (0.0, 0.01, 0.2, 1.9):
    ours = noise.small_poisson(uniform, jnp.full(uniform.shape, rate), 1.97)
    theirs = scipy.stats.poisson.ppf(uniform, rate)
    assert (np.asarray(ours) == theirs).mean() > 0.999


@pytest.mark.parametrize('name', ['gaussian_noise', 'shot_noise', 'impulse_noise', 'speckle_noise'])
def test_noise_has_a_flat_spectrum(name):
  constants = TABLES[32][name]
  image = jnp.full((32, 32, 3), 0.5)
  keys = jax.random.split(jax.random.key(7), 64)
  noisy = jax.lax.map(lambda k: getattr(noise, name)(k, image, 2, constants), keys)
  delta = np.asarray(noisy) - 0.5
  power = np.abs(np.fft.fft2(delta - delta.mean((1, 2), keepdims=True), axes=(1, 2))) ** 2
  power = power.mean((0, 3))
  high = np.abs(np.fft.fftfreq(32, 1 / 32)) >= 3
  share = power[np.ix_(high, high)].sum() / power.sum()
  white = (27 / 32) ** 2  # 27 of 32 frequencies on each axis are 3 or more
  assert abs(share - white) < 0.01


def test_shot_noise_of_an_image_between_levels_does_not_change_the_batch_and_near_levels_count():
  """The first image has levels, the second values between them, the third levels by rounding."""
  levels = jnp.round(jax.random.uniform(jax.random.key(1), (8, 8, 3)) * 255) / 255
  images = jnp.stack([levels, jnp.clip(levels + 0.001, 0, 1), levels * (1 + 2**-22)])
  keys = jax.random.split(jax.random.key(2), 2)[np.array([0, 1, 0])]

  def noisy(key: jax.Array, image: jax.Array) -> jax.Array:
    return noise.shot_noise(key, image, 2, TABLES[32]['shot_noise'])

  together = jax.jit(jax.vmap(noisy))(keys, images)
  alone = jnp.stack([jax.jit(noisy)(k, x) for k, x in zip(keys, images, strict=True)])
  np.testing.assert_allclose(together, alone, atol=1e-6)
  np.testing.assert_array_equal(alone[0], alone[2])
