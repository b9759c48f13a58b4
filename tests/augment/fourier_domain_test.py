"""Tests waves and recombined spectra against NumPy in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from robustness.augment.fourier_domain import (
  AmplitudesOfOne,
  AmplitudesOfPairs,
  FourierBasis,
  recombined,
  with_waves,
)
from robustness.augment.policy import Policy
from tests.cases import cases
from tests.refusals import refused

IMAGES = np.random.default_rng(0).random((2, 16, 16, 3), np.float32)
KEYS = jax.random.split(jax.random.key(3), 400)


@cases('height, width', (32, 32), (224, 224), (20, 28))
def test_waves_are_the_papers(height, width):
  generator = np.random.default_rng(1)
  frequency = generator.integers(1, height + 1, (2, 3))
  direction, strength = -np.pi * generator.random((2, 3)), 0.5 * generator.random((2, 3))
  image = 0.3 + 0.4 * generator.random((height, width, 3)).astype(np.float32)
  y, x = (np.linspace(-n / 2, n / 2, n) for n in (height, width))
  expected = np.zeros((2, height, width, 3))
  for v, c in np.ndindex(2, 3):
    along = y[:, None] * np.cos(direction[v, c]) + x[None, :] * np.sin(direction[v, c])
    wave = np.sin(2 * np.pi * frequency[v, c] / max(height, width) * along - np.pi / 4)
    scale = np.sqrt(height * width) / 32  # N / 32 where both sides are N
    expected[v, ..., c] = image[..., c] + strength[v, c] * scale * wave / np.linalg.norm(wave)
  made = with_waves(*(jnp.asarray(a, jnp.float32) for a in (image, frequency, direction, strength)))
  np.testing.assert_allclose(made, np.clip(expected, 0, 1), atol=5e-5)
  np.testing.assert_allclose((np.asarray(made) - image).std((1, 2)), strength / 32, rtol=0.15)


@pytest.mark.slow
def test_afa_gives_the_clean_image_and_one_with_exponentially_strong_waves():
  def waved(key):
    return FourierBasis(smallest=1.0, mean=2.0)(key, {'image': jnp.full((16, 16, 3), 0.5)})

  made = np.asarray(jax.jit(jax.vmap(waved))(KEYS)['image'])
  assert made.shape == (400, 2, 16, 16, 3) and (made[:, 0] == 0.5).all()
  strength = 32 * np.sqrt(((made[:, 1] - 0.5) ** 2).mean((1, 2))).ravel()
  unclipped = strength[strength < 8]  # Stronger waves are clipped.
  assert stats.kstest(unclipped, stats.truncexpon(3.5, 1, 2).cdf).pvalue > 0.01
  alone = FourierBasis(clean=False)(KEYS[0], {'image': jnp.asarray(IMAGES[0])})['image']
  assert alone.shape == IMAGES[0].shape and alone.min() >= 0 and alone.max() <= 1


def test_a_recombined_image_has_the_amplitudes_of_one_and_the_phases_of_the_other():
  first, second = IMAGES.astype(np.float64)
  turned = np.exp(1j * np.angle(np.fft.fftn(second)))
  expected = np.fft.ifftn(np.abs(np.fft.fftn(first)) * turned).real
  np.testing.assert_allclose(recombined(*IMAGES), expected, atol=1e-5)
  np.testing.assert_allclose(recombined(IMAGES[0], IMAGES[0]), IMAGES[0], atol=1e-5)


@cases('probability', 0.0, 0.4, 1.0)
def test_apr_p_takes_the_amplitudes_of_a_partner(probability):
  def mixed(key):
    example = {'image': jnp.asarray(IMAGES[0]), 'partner': {'image': jnp.asarray(IMAGES[1])}}
    return AmplitudesOfPairs(probability=probability)(key, example)['image']

  made = np.asarray(jax.jit(jax.vmap(mixed))(KEYS))
  np.testing.assert_array_equal(made[:, 0], np.broadcast_to(IMAGES[0], made[:, 0].shape))
  is_mixed = (made[:, 1] != IMAGES[0]).any((1, 2, 3))
  assert abs(is_mixed.mean() - probability) <= 0.1
  expected = recombined(IMAGES[1], IMAGES[0])
  for image in made[is_mixed, 1]:
    np.testing.assert_allclose(image, expected, atol=1e-5)


@pytest.mark.slow
def test_apr_s_gives_levels_that_wrap_as_released_or_are_clipped():
  def varied(apr):
    def augment(key):
      return apr(key, {'image': jnp.asarray(IMAGES[0])})['image']

    return 255 * np.asarray(jax.jit(lambda keys: jax.lax.map(augment, keys))(KEYS[:60]))

  wrapped, clipped = (varied(AmplitudesOfOne(overflow=overflow)) for overflow in ('wrap', 'clip'))
  for levels in (wrapped, clipped):
    np.testing.assert_allclose(levels, np.rint(levels), atol=1e-3)
    assert levels.min() >= 0 and levels.max() <= 255.001
  outside = np.abs(wrapped - clipped) > 0.5
  assert 0 < outside.mean() < 0.2 and set(np.unique(np.rint(clipped[outside]))) == {0, 255}
  changed = (np.abs(clipped - np.rint(255 * IMAGES[0])) > 0.5).any((1, 2, 3))
  assert changed.mean() > 0.8
  assert set(AmplitudesOfOne().resembles) == {'haze', 'rotation'}


@pytest.mark.slow
def test_a_policy_may_have_all_three():
  policy = Policy.of(apr_s={}, apr_p={'clean': False}, afa={'waves': 2})
  ids = jnp.arange(2)
  batch = {'image': jnp.asarray(IMAGES), 'example_id': ids, 'label': ids, 'target': jnp.eye(2)}
  made = jax.jit(lambda batch: policy(batch, 0, jnp.int32(0)))(batch)
  assert made['image'].shape == (2, 3, 16, 16, 3) and 'partner' not in made


def test_bad_settings_are_named():
  refused('augment.afa.mean is 0.0; it must be above 0', FourierBasis, mean=0.0)
  refused(
    "augment.apr_s.overflow is 'wrapped'; did you mean 'wrap'", AmplitudesOfOne, overflow='wrapped'
  )
  refused('augment.apr_p.probability is 1.5; it must be in', AmplitudesOfPairs, probability=1.5)
  with pytest.raises(TypeError):
    FourierBasis(phase=1)
