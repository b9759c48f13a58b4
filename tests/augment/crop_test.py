"""Random crop of the padded image."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.augment import crop

IMAGE = jnp.arange(1.0, 31.0).reshape(5, 3, 2) / 30
KEYS = jax.random.split(jax.random.key(0), 400)


@pytest.mark.parametrize(('border', 'mode'), [('black', 'constant'), ('reflect', 'reflect')])
def test_a_crop_is_a_window_of_the_padded_image_and_every_window_occurs(
  border: str, mode: str
) -> None:
  settings = crop.Settings(2, border)
  padded = np.pad(np.asarray(IMAGE), ((2, 2), (2, 2), (0, 0)), mode=mode)  # type: ignore[call-overload]
  windows = {padded[i : i + 5, j : j + 3].tobytes(): (i, j) for i in range(5) for j in range(5)}
  crops = jax.jit(jax.vmap(lambda key: crop.augment(key, {'image': IMAGE}, settings)['image']))(
    KEYS
  )
  seen = [windows[image.tobytes()] for image in np.asarray(crops)]
  assert set(seen) == set(windows.values())
  if border == 'black':  # all windows differ: offsets uniform on 0..4, error of the mean .05
    assert abs(np.mean(seen) - 2) < 0.2


@pytest.mark.parametrize(('channels', 'expected'), [(3, (125, 123, 114)), (1, (121,))])
def test_the_border_may_be_the_mean_colour(channels: int, expected: tuple[int, ...]) -> None:
  white = {'image': jnp.ones((5, 4, channels))}
  crops = jax.vmap(lambda key: crop.augment(key, white, crop.Settings(2, 'mean_colour')))(KEYS)
  black = jax.vmap(lambda key: crop.augment(key, white, crop.Settings(2)))(KEYS)
  border = np.asarray(black['image']) == 0
  filled = np.broadcast_to(np.array(expected, np.float32) / np.float32(255), border.shape)
  np.testing.assert_allclose(crops['image'], np.where(border, filled, 1), rtol=1e-6)
  assert border.any()
