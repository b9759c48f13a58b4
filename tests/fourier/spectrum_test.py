"""Tests half spectra against the complete ones of NumPy: magnitudes, energies and rings."""

import jax
import numpy as np
import pytest

from robustness.fourier import spectrum
from robustness.fourier.filters import high_pass
from tests.refusals import bad_setting, refused

SHAPES = [(8, 8), (7, 10), (9, 5), (6, 7)]


def image(shape: tuple[int, int], channels: int = 3) -> np.ndarray:
  """Returns a random image in [0, 1], [*shape, channels]."""
  return np.random.default_rng(0).random((*shape, channels), np.float32)


def centred_magnitude(picture: np.ndarray) -> np.ndarray:
  """Returns the centred magnitude of every channel by NumPy, [H, W, C]."""
  return np.fft.fftshift(np.abs(np.fft.fft2(picture, axes=(0, 1), norm='ortho')), axes=(0, 1))


@pytest.mark.parametrize('shape', SHAPES)
def test_the_magnitude_equals_that_of_numpy(shape):
  picture = image(shape)
  half = np.asarray(spectrum.half_magnitude(picture))
  assert half.shape == (shape[0], shape[1] // 2 + 1, 3)
  for channel in range(3):
    full = spectrum.full_map(half[..., channel], shape[1])
    np.testing.assert_allclose(full, centred_magnitude(picture)[..., channel], atol=1e-5)


@pytest.mark.parametrize('shape', SHAPES)
def test_energies_and_rings_equal_those_of_the_complete_spectrum(shape):
  picture = image(shape)
  keep = high_pass(*shape)
  measured = jax.jit(lambda x: spectrum.measures(keep)(spectrum.half_magnitude(x)))(picture)
  energy = (centred_magnitude(picture) ** 2).sum(-1)
  np.testing.assert_allclose(measured['energy'], (picture**2).sum(), rtol=1e-5, err_msg='Parseval')
  np.testing.assert_allclose(measured['high_energy'], energy[keep].sum(), rtol=1e-5)
  fy, fx = (np.arange(n) - n // 2 for n in shape)
  rings = np.floor(np.hypot(fy[:, None], fx) + 0.5)
  mean = [centred_magnitude(picture).mean(-1)[rings == ring].mean() for ring in np.unique(rings)]
  np.testing.assert_array_equal(spectrum.measures(keep).radii, np.unique(rings))
  np.testing.assert_allclose(measured['rings'], mean, rtol=1e-5)


def test_the_magnitude_of_grey_is_that_of_the_weighted_sum():
  picture = image((6, 6))
  grey = picture @ np.float32(spectrum.GREY)
  measured = np.asarray(spectrum.half_magnitude(picture, 'grey'))[..., 0]
  expected = centred_magnitude(grey[..., None])[..., 0]
  np.testing.assert_allclose(spectrum.full_map(measured, 6), expected, atol=1e-6)
  assert spectrum.half_magnitude(image((6, 6), 1), 'grey').shape == (6, 4, 1)
  misspelt = bad_setting('channels', 'gray', words="did you mean 'grey'")
  refused(misspelt, spectrum.half_magnitude, picture, 'gray')


def test_the_magnitude_of_white_noise_does_not_depend_on_the_size():
  for side in (16, 64):
    noise = np.random.default_rng(1).normal(0, 0.1, (side, side, 40)).astype(np.float32)
    # The magnitude of a complex normal of the standard deviation 0.1 has the mean 0.1 · √π / 2.
    expected = 0.1 * np.sqrt(np.pi) / 2
    assert np.asarray(spectrum.half_magnitude(noise)).mean() == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize('side', [64, 65, 128, 224, 299, 512])
def test_width_and_number_of_rings_are_as_documented(side):
  measured = spectrum.measures(np.ones((side, side), bool))
  np.testing.assert_array_equal(np.diff(measured.radii), -(-side // 64))
  assert (measured.radii <= side / 2).sum() <= 33 and len(measured.radii) <= 46
  np.testing.assert_allclose(measured.rings.sum((1, 2)), 1, rtol=1e-5)
