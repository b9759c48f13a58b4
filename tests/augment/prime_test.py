"""Tests PRIME's transforms against NumPy and SciPy, and the distributions of its draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import ndimage

from robustness.augment import prime
from robustness.augment.prime import Prime
from tests.cases import cases
from tests.refusals import refused

IMAGE = np.random.default_rng(0).random((20, 28, 3), np.float32)
KEYS = jax.random.split(jax.random.key(1), 1000)


def test_a_filter_is_a_correlation_with_its_delta_one_pixel_off_the_centre():
  values = np.random.default_rng(1).normal(size=(3, 3))
  kernel = values.copy()
  kernel[2, 2] += 1
  expected = ndimage.correlate(IMAGE.astype(float), kernel[..., None], mode='constant')
  made = prime.filtered(jnp.asarray(IMAGE), jnp.asarray(values, jnp.float32))
  np.testing.assert_allclose(made, expected.clip(0, 1), atol=1e-5)
  moved = prime.filtered(jnp.asarray(IMAGE), jnp.zeros((3, 3)))
  np.testing.assert_array_equal(moved[:-1, :-1], IMAGE[1:, 1:])


@cases('first, waves', (1, 100), (1, 1), (480, 20))
def test_a_curve_is_a_sum_of_sines(first, waves):
  amplitudes = 0.1 * np.random.default_rng(2).normal(size=(waves, 3))
  angle = np.pi * IMAGE.astype(float)[..., None] * (first + np.arange(waves))
  expected = IMAGE + (amplitudes.T * np.sin(angle)).sum(-1)
  made = prime.recoloured(
    jnp.asarray(IMAGE), jnp.int32(first), jnp.asarray(amplitudes, jnp.float32)
  )
  np.testing.assert_allclose(made, expected.clip(0, 1), atol=3e-4 if first > 1 else 3e-5)


def test_a_deformation_samples_where_its_fields_point():
  amplitudes = 0.01 * np.random.default_rng(3).normal(size=(2, 6, 6))
  height, width = IMAGE.shape[:2]
  index = np.arange(1, 7)
  down, right = (np.sin(np.pi * np.linspace(0, 1, n)[:, None] * index) for n in (height, width))
  u, v = (np.einsum('ij,xi,yj->yx', field, right, down) for field in amplitudes)
  y, x = np.mgrid[:height, :width]
  places = [y - height * v, x - width * u]
  channels = np.moveaxis(IMAGE, -1, 0)
  expected = [ndimage.map_coordinates(c, places, order=1, mode='nearest') for c in channels]
  made = prime.deformed(jnp.asarray(IMAGE), jnp.asarray(amplitudes, jnp.float32))
  np.testing.assert_allclose(made, np.stack(expected, -1), atol=1e-4)
  assert np.abs(made - IMAGE).max() > 0.1


def results(draw, image, keys=KEYS):
  """Returns an image after a random transform with each key, [keys, ...]."""
  return np.asarray(jax.jit(jax.vmap(lambda key: draw(key, jnp.asarray(image))))(keys))


def test_strengths_have_the_published_distributions():
  """The mean square of a filter's values is σ² / 3, and of a curve's amplitudes T / 2.

  Negative values of the filter are clipped, which leaves half of it. In a band of one of two waves
  a quarter of the curves have the second wave, which leaves the grey image.
  """
  point = np.zeros((3, 3, 1), np.float32)
  point[1, 1] = 0.5
  values = results(Prime(filter_deviation=0.3).filter, point)[:, 1, 1, 0] / 0.5
  np.testing.assert_allclose(np.square(values).mean(), 0.3**2 / 3 / 2, rtol=0.3)
  grey = np.full((1, 1, 1), 0.5, np.float32)
  change = results(Prime(colour_waves=1).recolour, grey) - 0.5
  np.testing.assert_allclose(np.square(change).mean(), 0.01 / 2, rtol=0.2)
  change = results(Prime(colour_waves=2, colour_band=1).recolour, grey) - 0.5
  assert 0.2 < (np.abs(change) < 1e-6).mean() < 0.3


@pytest.mark.slow
@cases('modes, lowest, highest', (3, 0.5, 5.2), (100, 0.4, 4.0))
def test_deformations_move_pixels_by_one_half_to_a_few_pixels(modes, lowest, highest):
  """The most is n / (πc) of n pixels with c modes; the values of a ramp show how far rows moved."""
  ramp = np.broadcast_to(np.arange(32, dtype=np.float32)[:, None] / 31, (32, 32, 1))
  moved = 31 * (results(Prime(modes=modes).deform, ramp, KEYS[:300]) - ramp)[:, 15, 15]
  assert lowest < np.sqrt(np.square(moved).mean()) < highest


@pytest.mark.slow
def test_mixtures_follow_the_clean_image_and_stay_between_black_and_white():
  images = results(lambda key, x: Prime(modes=20)(key, {'image': x})['image'], IMAGE, KEYS[:5])
  assert images.shape == (5, 3, 20, 28, 3)
  np.testing.assert_array_equal(images[:, 0], np.broadcast_to(IMAGE, images[:, 0].shape))
  assert images.min() >= 0 and images.max() <= 1 + 1e-6
  assert len(np.unique(images[:, 1:].reshape(10, -1), axis=0)) == 10
  alone = Prime(clean=False, mixtures=1)
  shape = jax.eval_shape(lambda: alone(KEYS[0], {'image': jnp.asarray(IMAGE)})['image']).shape
  assert shape == IMAGE.shape


@cases('setting, value', ('modes', 2), ('colour_band', -1), ('colour_waves', 0), ('mixtures', 0))
def test_values_out_of_range_are_named(setting, value):
  refused(rf'augment\.prime\.{setting} is {value}; it must be', Prime, **{setting: value})
