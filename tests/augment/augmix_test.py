"""Tests that AugMix mixes chains of Pillow's operations, with the released code's magnitudes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from robustness.augment import augmix
from robustness.augment.augmix import AugMix
from tests.augment import pictures
from tests.augment.operations_test import pillow

KEYS = jax.random.split(jax.random.key(0), 2000)


@pytest.mark.slow
def test_the_first_image_is_clean_and_two_mixtures_differ():
  image = jnp.asarray(pictures.batch(pictures.seeded(16, 16))[0])
  images = pictures.augmented(AugMix(), KEYS[:1], image)[0]
  assert images.shape == (3, 16, 16, 3)
  np.testing.assert_array_equal(images[0], image)
  assert float(images.min()) >= 0 and float(images.max()) <= 1 + 1e-6
  assert not np.array_equal(images[1], images[2])


def chain_of(picture, names, values, settings):
  """Returns a picture after the operations of a chain by Pillow, float32 [H, W, C]."""
  for name, value in zip(np.asarray(names), np.asarray(values), strict=True):
    if name >= 0:
      word, bilinear = settings.names[int(name)], Image.Resampling.BILINEAR
      levels = 255 * pillow(word, picture, float(value), bilinear)
      picture = Image.fromarray(np.round(levels).astype(np.uint8))
  return pictures.batch([picture])[0]


@pytest.mark.slow
@pytest.mark.parametrize('number', [3, 5])
def test_a_mixture_is_the_sum_of_its_chains(number):
  """The weights, the share of the mixture and the operations are drawn from the same key."""
  settings = AugMix(mixtures=1, clean=False, all_operations=True, severity=9.0)
  picture = pictures.seeded(12, 12)[0]
  image = jnp.asarray(pictures.batch([picture])[0])
  made = pictures.augmented(settings, KEYS[number : number + 1], image)[0]
  key_weights, key_share, key_chains = jax.random.split(KEYS[number], 3)
  weights = np.asarray(jax.random.dirichlet(key_weights, jnp.ones(3), (1,)))[0]
  share = float(jax.random.beta(key_share, 1.0, 1.0, (1,))[0])
  drawn = settings.chains(key_chains, (1, 3), (12, 12))
  ends = [chain_of(picture, drawn.index[0, c], drawn.magnitude[0, c], settings) for c in range(3)]
  expected = (1 - share) * image + share * np.tensordot(weights, ends, 1)
  levels = 255 * np.abs(made - expected)
  assert (levels > 1).mean() < 0.01, 'operations may differ from Pillow by a level'


@pytest.mark.slow
def test_draws_have_the_published_shares():
  drawn = jax.vmap(lambda key: AugMix().chains(key, (3,), (32, 32)))(KEYS)
  index, value = np.asarray(drawn.index), np.asarray(drawn.magnitude)
  depth = (index >= 0).sum(-1).ravel()
  assert set(depth) == {1, 2, 3} and abs(depth.mean() - 2) < 0.05
  frequencies = np.bincount(index[index >= 0]) / (index >= 0).sum()
  assert frequencies == pytest.approx(np.full(9, 1 / 9), abs=0.01)
  by_name = {n: value[index == i] for i, n in enumerate(augmix.BASIC)}
  # The magnitudes are u · maximum / 10 for u uniform in [.1, 3], most of them rounded down.
  assert set(by_name['Posterize']) == {3, 4} and set(np.abs(by_name['Rotate'])) <= set(range(9))
  assert (by_name['Posterize'] == 4).mean() == pytest.approx(0.828, abs=0.03)
  assert (by_name['Rotate'] == 0).mean() == pytest.approx(0.08, abs=0.02)
  assert by_name['Solarize'].min() >= 180 and by_name['Solarize'].max() <= 254
  assert np.abs(by_name['ShearX']).min() >= 0.003 and np.abs(by_name['ShearX']).max() <= 0.09
  assert set(np.abs(by_name['TranslateY'])) == {0, 1, 2, 3}
  assert (by_name['TranslateY'] == 0).mean() == pytest.approx(0.289, abs=0.04)
  assert (by_name['ShearY'] < 0).mean() == pytest.approx(0.5, abs=0.06)


@pytest.mark.slow
def test_one_chain_of_one_operation_at_equal_shares_is_the_mean_with_the_image():
  """A large α of the beta distribution makes both shares one half."""
  settings = AugMix(width=1, depth=1, alpha=1e6, mixtures=1, clean=False, severity=5.0)
  picture = pictures.seeded(12, 12)[1]
  image = jnp.asarray(pictures.batch([picture])[0])
  result = pictures.augmented(settings, KEYS[5:6], image)[0]
  drawn = settings.chains(jax.random.split(KEYS[5], 3)[2], (1, 1), (12, 12))
  end = chain_of(picture, drawn.index[0, 0], drawn.magnitude[0, 0], settings)
  np.testing.assert_allclose(result, (image + end) / 2, atol=2.5e-3)
