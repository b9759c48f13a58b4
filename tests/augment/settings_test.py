"""Order, independence and bad settings of the augmentation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.augment import AugmentSettings, apply
from robustness.core import random_keys, settings
from robustness.core.errors import InputError

IMAGE = jax.random.uniform(jax.random.key(5), (8, 8, 3))
KEY = random_keys.for_example(random_keys.stream(0, 'training'), jnp.int32(7), jnp.int32(3))


def test_nothing_is_done_by_default():
  np.testing.assert_array_equal(apply(KEY, IMAGE, AugmentSettings()), IMAGE)


def test_one_part_does_not_change_the_draw_of_another():
  keys = jax.random.split(KEY, 50)
  both = jax.vmap(lambda k: apply(k, IMAGE, AugmentSettings(flip=True, crop_padding=2)))(keys)
  crop = jax.vmap(lambda k: apply(k, IMAGE, AugmentSettings(crop_padding=2)))(keys)
  flip = jax.vmap(lambda k: apply(k, IMAGE, AugmentSettings(flip=True)))(keys)
  flipped = (np.asarray(flip) != np.asarray(IMAGE)).any((1, 2, 3))
  np.testing.assert_array_equal((np.asarray(both) != np.asarray(crop)).any((1, 2, 3)), flipped)


def test_noise_comes_last_so_that_the_black_border_is_noisy_too():
  black = apply(KEY, jnp.zeros((6, 6, 1)), AugmentSettings(crop_padding=6, gaussian_sigma=0.5))
  assert (np.asarray(black) > 0).mean() > 0.3


@pytest.mark.parametrize(
  ('section', 'name'),
  [
    ({'crop_padding': -1}, 'crop_padding'),
    ({'gaussian_sigma': -0.1}, 'gaussian_sigma'),
    ({'gaussian_sigma': 25.5}, 'gaussian_sigma'),
    ({'gaussian_sigma': float('nan')}, 'gaussian_s'),
    ({'flipp': True}, 'flipp.*flip'),
  ],
)
def test_bad_settings_are_named(section, name):
  with pytest.raises(InputError, match=rf'config\.augment\.{name}'):
    settings.parse(AugmentSettings, section, 'config.augment')
