"""Changes of value and saturation against conversions to hue, saturation, value and back."""

from __future__ import annotations

import colorsys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib import colors

from robustness.corruptions import pixels
from tests.corruptions.pictures import natural

SPECIAL = np.array(
  [
    [[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.5], [1, 0, 0]],
    [[0, 1, 0], [0, 0, 1], [1, 1, 0], [0.2, 0.7, 0.7]],
  ],
  np.float32,
)
PICTURES = {'natural': natural(20, 17), 'special': SPECIAL}


@pytest.mark.parametrize('picture', PICTURES.values(), ids=PICTURES)
@pytest.mark.parametrize('shift', [0.05, 0.3, 0.5])
def test_value_is_shifted(picture: np.ndarray, shift: float) -> None:
  hsv = colors.rgb_to_hsv(picture.astype(np.float64))
  hsv[..., 2] = np.clip(hsv[..., 2] + shift, 0, 1)
  ours = jax.jit(pixels.shift_value)(picture, shift)
  np.testing.assert_allclose(ours, colors.hsv_to_rgb(hsv), atol=1e-6)


@pytest.mark.parametrize('picture', PICTURES.values(), ids=PICTURES)
@pytest.mark.parametrize(('factor', 'shift'), [(0.1, 0), (2, 0), (5, 0.1), (20, 0.2), (30, 0.2)])
def test_saturation_is_scaled(picture: np.ndarray, factor: float, shift: float) -> None:
  hsv = colors.rgb_to_hsv(picture.astype(np.float64))
  hsv[..., 1] = np.clip(hsv[..., 1] * factor + shift, 0, 1)
  ours = jax.jit(pixels.scale_saturation)(picture, factor, shift)
  np.testing.assert_allclose(ours, colors.hsv_to_rgb(hsv), atol=2e-5)


def test_a_grey_pixel_turns_reddish_as_hue_zero_does() -> None:
  ours = pixels.scale_saturation(jnp.full((1, 1, 3), 0.5), jnp.float32(20), jnp.float32(0.2))
  assert colorsys.rgb_to_hsv(0.5, 0.5, 0.5)[0] == 0
  np.testing.assert_allclose(ours[0, 0], colorsys.hsv_to_rgb(0, 0.2, 0.5), atol=1e-6)


def test_grey_images() -> None:
  picture = natural(6, 5, 1)
  np.testing.assert_array_equal(pixels.grey(picture), picture)
  np.testing.assert_array_equal(pixels.scale_saturation(picture, 3.0, 0.1), picture)
  np.testing.assert_allclose(
    pixels.shift_value(picture, 0.2), np.clip(picture + 0.2, 0, 1), atol=1e-6
  )


def test_grey_value_and_colours_of_fewer_channels() -> None:
  picture = natural(6, 5)
  np.testing.assert_allclose(
    pixels.grey(picture)[..., 0], picture @ [0.299, 0.587, 0.114], atol=1e-6
  )
  water = jnp.array([[[0.2, 0.4, 0.6]]])
  assert pixels.like_channels(water, jnp.zeros((2, 2, 3))) is water
  np.testing.assert_allclose(
    pixels.like_channels(water, jnp.zeros((2, 2, 1))), [[[0.363]]], atol=1e-6
  )
