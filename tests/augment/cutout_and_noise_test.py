"""Tests Cutout's squares, Gaussian noise, and Patch Gaussian, which has both as limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.augment.cutout_and_noise import Cutout, Gaussian, PatchGaussian
from robustness.environments import transforms
from tests.augment.pictures import augmented
from tests.cases import cases
from tests.refusals import refused

KEYS = jax.random.split(jax.random.key(0), 2000)
GREY = np.full((32, 32, 3), 0.5, np.float32)


@pytest.mark.parametrize('size', [3, 4, 16])
def test_every_square_around_a_pixel_occurs_and_nothing_else(size):
  """A square of size s around c begins at c − s // 2 and is cut, as in the released code."""
  image = np.random.default_rng(0).random((9, 7, 3), np.float32)
  squares = set()
  for row, column in np.ndindex(9, 7):
    expected, (y0, x0) = image.copy(), (row - size // 2, column - size // 2)
    expected[max(0, y0) : y0 + size, max(0, x0) : x0 + size] = 0
    squares.add(expected.tobytes())
  assert {covered.tobytes() for covered in augmented(Cutout(size, (0,)), KEYS, image)} == squares


def test_the_centre_is_uniform_and_the_side_16():
  """Pixels far from the border are covered with probability 16² / 64², to four standard errors."""
  share = (augmented(Cutout(), KEYS, jnp.ones((64, 64, 1))) != 1).mean(0)[..., 0]
  inner = share[16:48, 16:48]
  assert np.abs(inner - 1 / 16).max() < 4 * np.sqrt(1 / 16 * 15 / 16 / len(KEYS))
  assert np.abs(share[0, 0] - (8 / 64) ** 2) < 4 * np.sqrt(1 / 64 / len(KEYS))


@cases('channels, fill, levels', (3, (), (125, 123, 114)), (1, (), (121,)), (3, (7,), (7, 7, 7)))
def test_the_square_has_cifar10s_mean_colour_or_the_fill(channels, fill, levels):
  image = augmented(Cutout(9, fill), KEYS[:1], jnp.ones((4, 4, channels)))[0]
  np.testing.assert_allclose(image * 255, np.broadcast_to(levels, image.shape), rtol=1e-6)
  assert {*Cutout().resembles} <= {*transforms.NAMES}


@pytest.mark.parametrize('bad', [{'size': 0}, {'fill': (1, 2)}, {'fill': (256,)}])
def test_bad_settings_are_named(bad):
  refused(rf'augment\.cutout\.{next(iter(bad))} is', Cutout, **bad)


def test_the_strength_of_each_image_is_uniform_up_to_sigma():
  keys = jax.random.split(jax.random.key(1), 500)
  noise = augmented(Gaussian(0.1), keys, jnp.full((40, 40, 1), 0.5)) - 0.5
  uniform = (np.arange(500) + 0.5) / 500 * 0.1
  strength = np.sort(noise.std((1, 2, 3)))
  # A Kolmogorov distance above .073 has a probability of 1 % with 500 draws.
  assert np.abs(strength - uniform).max() < 0.1 * 0.075
  assert np.abs(noise.mean()) < 1e-3


def test_noise_is_white_over_pixels_and_channels_and_is_clipped():
  noise = augmented(Gaussian(0.1), KEYS[:500], jnp.full((16, 16, 3), 0.5)) - 0.5
  for axis in (1, 2, 3):
    shifted = np.roll(noise, 1, axis)
    assert np.corrcoef(noise.ravel(), shifted.ravel())[0, 1] == pytest.approx(0, abs=0.01)
  noisy = augmented(Gaussian(1.0), KEYS[:500], jnp.full((8, 8, 3), 0.9))
  assert noisy.min() == 0.0 and noisy.max() == 1.0


@pytest.mark.slow
def test_noise_fills_a_square_around_a_pixel_cut_at_the_border():
  changed = (augmented(PatchGaussian(), KEYS[:1000], GREY) != 0.5).any(-1)
  assert abs(changed.mean() - 0.396) < 0.02, 'the mean share of 25 × 25 pixels cut at 32 × 32'
  for image in changed[:50]:
    rows, columns = image.any(1), image.any(0)
    assert image.mean() > 0.95 * rows.mean() * columns.mean()
    for axis in (rows, columns):
      assert 13 <= axis.sum() <= 25 and (np.diff(np.flatnonzero(axis)) == 1).all()
  noisy = augmented(PatchGaussian(8, random_size=True), KEYS[:1000], GREY)
  rows = (noisy != 0.5).any((2, 3)).sum(1)  # A random size is uniform in 1..8.
  assert rows.max() == 8 and abs((rows == 8).mean() - 1 / 8) < 0.06


def test_a_patch_over_all_pixels_is_gaussian_noise_and_without_strength_the_identity():
  patched = augmented(PatchGaussian(64, sigma=0.3), KEYS[:3], GREY)
  np.testing.assert_array_equal(patched, augmented(Gaussian(0.3), KEYS[:3], GREY))
  unchanged = augmented(PatchGaussian(sigma=0.0), KEYS[:100], GREY)
  np.testing.assert_array_equal(unchanged, np.broadcast_to(GREY, unchanged.shape))
