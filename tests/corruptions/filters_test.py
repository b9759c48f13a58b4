"""Tests the shared image operations against NumPy and SciPy, at every border and at odd sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.ndimage

from robustness.corruptions import filters
from tests.corruptions.pictures import natural

NUMPY = {'nearest': 'edge', 'reflect': 'symmetric', 'mirror': 'reflect'}
SCIPY = {'nearest': 'nearest', 'reflect': 'reflect', 'mirror': 'mirror'}
BORDERS = tuple(NUMPY)
SHAPES = [(16, 16), (21, 5)]


def by_plane(function, image: np.ndarray) -> np.ndarray:
  """Returns an image [H, W, C] with a function applied to each channel in float64."""
  return np.stack([function(plane) for plane in np.moveaxis(image.astype(np.float64), -1, 0)], -1)


@pytest.mark.parametrize('border', BORDERS)
@pytest.mark.parametrize('size', [2, 3, 8])
def test_borders_are_numpys_at_any_distance(border, size):
  line = np.pad(np.arange(size), 20, mode=NUMPY[border])
  index = filters.border_index(jnp.arange(-20, size + 20), size, border)
  np.testing.assert_array_equal(index, line)
  single = np.asarray(filters.border_index(jnp.arange(-3, 4), 1, border))
  assert not single.any(), 'the only pixel of a line continues on both sides'


@pytest.mark.parametrize('border', BORDERS)
@pytest.mark.parametrize('shape', SHAPES)
def test_gaussian_filter_is_scipys(border, shape):
  image = natural(*shape)
  smooth = jax.jit(lambda x, s: filters.gaussian_filter(x, s, 9.0, border))
  for sigma in (0, 0.05, 0.7, 2.44, 9):
    theirs = by_plane(
      lambda x, s=sigma: scipy.ndimage.gaussian_filter(x, s, mode=SCIPY[border], truncate=4), image
    )
    np.testing.assert_allclose(smooth(image, sigma), theirs, atol=2e-6)


@pytest.mark.parametrize('angle', [-135.0, -60.0, 0.0, 130.0])
def test_motion_blur_spreads_a_point_over_its_taps(angle):
  point = np.zeros((41, 41, 1), np.float32)
  point[20, 20] = 1
  blurred = np.asarray(filters.motion_blur(point, 6, 3.0, angle, 8))[..., 0]
  tap = np.arange(13)
  weights = np.exp(-(tap**2) / 18)
  expected = np.zeros((41, 41))
  turn = np.float32(np.deg2rad(angle))
  y, x = (20 - np.ceil(tap * f(turn) - 0.5).astype(int) for f in (np.sin, np.cos))
  np.add.at(expected, (y, x), weights / weights.sum())
  np.testing.assert_allclose(blurred, expected, atol=1e-6)
