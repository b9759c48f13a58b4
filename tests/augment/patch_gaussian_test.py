"""Patch Gaussian: where its noise lies, and that a patch of all pixels is Gaussian augmentation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from robustness.augment import gaussian, patch_gaussian
from robustness.augment.patch_gaussian import Settings

KEYS = jax.random.split(jax.random.key(0), 1000)
GREY = jnp.full((32, 32, 3), 0.5)


def noisy(**settings) -> np.ndarray:
  chosen = Settings(**settings)
  apply = jax.vmap(lambda key: patch_gaussian.augment(key, {'image': GREY}, chosen)['image'])
  return np.asarray(jax.jit(apply)(KEYS))


def test_noise_fills_a_square_around_a_pixel_cut_at_the_border() -> None:
  changed = (noisy() != 0.5).any(-1)
  assert abs(changed.mean() - 0.396) < 0.02  # the mean area of 25 × 25 in 32 × 32, cut
  for image in changed[:50]:
    rows, columns = image.any(1), image.any(0)
    assert image.mean() > 0.95 * rows.mean() * columns.mean()
    for axis in (rows, columns):
      assert 13 <= axis.sum() <= 25 and (np.diff(np.flatnonzero(axis)) == 1).all()


def test_a_random_size_is_uniform_up_to_the_largest() -> None:
  rows = (noisy(size=8, random_size=True) != 0.5).any((2, 3)).sum(1)
  assert rows.max() == 8 and abs((rows == 8).mean() - 1 / 8) < 0.06


def test_a_patch_over_all_pixels_is_gaussian_augmentation() -> None:
  for key in KEYS[:3]:
    whole = patch_gaussian.augment(key, {'image': GREY}, Settings(size=64, sigma=0.3))['image']
    expected = gaussian.augment(key, {'image': GREY}, gaussian.Settings(0.3))['image']
    np.testing.assert_array_equal(whole, expected)


def test_no_strength_is_the_identity() -> None:
  np.testing.assert_array_equal(noisy(sigma=0.0), np.broadcast_to(GREY, (1000, 32, 32, 3)))
