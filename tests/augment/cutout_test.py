"""Cutout: a square of one colour, cut by the border, at a uniform place."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.augment import cutout
from robustness.core.errors import InputError
from robustness.environments import transforms

KEYS = jax.random.split(jax.random.key(0), 2000)


def covered(image: jax.Array, keys: jax.Array = KEYS, **settings) -> np.ndarray:
  """Returns the images of all keys, [K, H, W, C]."""
  chosen = cutout.Settings(**settings)
  each = jax.vmap(lambda key: cutout.augment(key, {'image': image}, chosen)['image'])
  return np.asarray(jax.jit(each)(keys))


@pytest.mark.parametrize('size', [3, 4, 16])
def test_every_square_around_a_pixel_occurs_and_nothing_else(size: int) -> None:
  """As the released code masks images: from c − s // 2 on, no pixel outside the image."""
  image = np.random.default_rng(0).random((9, 7, 3), np.float32)
  squares = set()
  for row in range(9):
    for column in range(7):
      expected = image.copy()
      first = max(0, row - size // 2), max(0, column - size // 2)
      last = row - size // 2 + size, column - size // 2 + size
      expected[first[0] : last[0], first[1] : last[1]] = 0
      squares.add(expected.tobytes())
  made = covered(jnp.asarray(image), size=size, fill=(0,))
  assert {one.tobytes() for one in made} == squares


def test_the_centre_is_uniform_and_the_side_16() -> None:
  """A pixel far from the border is covered with probability 16² / 64²; four standard errors."""
  share = (covered(jnp.ones((64, 64, 1))) != 1).mean(0)[..., 0]
  inner = share[16:48, 16:48]
  assert np.abs(inner - 1 / 16).max() < 4 * np.sqrt(1 / 16 * 15 / 16 / len(KEYS))
  assert np.abs(share[0, 0] - (8 / 64) ** 2) < 4 * np.sqrt(1 / 64 / len(KEYS))


@pytest.mark.parametrize(
  ('channels', 'settings', 'levels'),
  [(3, {}, (125, 123, 114)), (1, {}, (121,)), (3, {'fill': (7,)}, (7, 7, 7))],
)
def test_the_colour_is_cifar10s_mean_unless_another_is_given(channels, settings, levels) -> None:
  image = covered(jnp.ones((4, 4, channels)), KEYS[:1], size=9, **settings)[0]
  np.testing.assert_allclose(image * 255, np.broadcast_to(levels, image.shape), rtol=1e-6)


def test_it_is_like_cbars_checkerboard() -> None:
  assert {*cutout.RESEMBLES} <= {*transforms.NAMES}


@pytest.mark.parametrize('bad', [{'size': 0}, {'fill': (1, 2)}, {'fill': (256,)}])
def test_bad_settings_are_named(bad) -> None:
  with pytest.raises(InputError, match=rf'augment\.cutout\.{next(iter(bad))} is'):
    cutout.Settings(**bad)
