"""The shared image operations against numpy and scipy, at every border and at odd sizes."""

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
  return np.stack([function(plane) for plane in np.moveaxis(image.astype(np.float64), -1, 0)], -1)


@pytest.mark.parametrize('border', BORDERS)
@pytest.mark.parametrize('size', [2, 3, 8])
def test_borders_are_numpys_at_any_distance(border, size):
  line = np.pad(np.arange(size), 20, mode=NUMPY[border])
  index = filters.border_index(jnp.arange(-20, size + 20), size, border)
  np.testing.assert_array_equal(index, line)
  assert not np.asarray(filters.border_index(jnp.arange(-3, 4), 1, border)).any(), 'its own border'


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


@pytest.mark.parametrize('shape', SHAPES)
@pytest.mark.parametrize('side', [1, 5, 9, 21])
def test_correlate_is_scipys(shape, side):
  image, kernel = natural(*shape), np.random.default_rng(0).normal(size=(side, side))
  ours = filters.correlate(image, jnp.asarray(kernel, jnp.float32))
  theirs = by_plane(lambda x: scipy.ndimage.correlate(x, kernel, mode='mirror'), image)
  np.testing.assert_allclose(ours, theirs, atol=2e-5 * side)


@pytest.mark.slow
@pytest.mark.parametrize('size', [33, 96, 224])
def test_zoom_of_the_centre_is_scipys(size):
  line = np.random.default_rng(2).uniform(size=size)
  zooms = np.array([1.0, 1.01, 1.11, 1.2500000000000002, 1.75, 2.0, 3.0, 4.5])
  places = filters.zoom_coordinates(size, zooms)
  image = jnp.asarray(np.tile(line[:, None, None], (1, size, 1)), jnp.float32)
  for zoom, place in zip(zooms, places, strict=True):
    piece = int(np.ceil(size / zoom))
    start = (size - piece) // 2
    stretched = scipy.ndimage.zoom(line[start : start + piece], zoom, order=1)
    trim = (len(stretched) - size) // 2
    ours = filters.interpolate(image, jnp.asarray(place), jnp.asarray(place))
    np.testing.assert_allclose(ours[:, 0, 0], stretched[trim : trim + size], atol=2e-5)


@pytest.mark.parametrize('angle', [-135.0, -60.0, 0.0, 130.0])
def test_motion_blur_draws_its_taps(angle):
  point = np.zeros((41, 41, 1), np.float32)
  point[20, 20] = 1
  blurred = np.asarray(filters.motion_blur(point, 6, 3.0, angle, 8))[..., 0]
  tap = np.arange(13)
  weights = np.exp(-(tap**2) / 18)
  expected = np.zeros((41, 41))
  y, x = (
    20 - np.ceil(tap * f(np.float32(np.deg2rad(angle))) - 0.5).astype(int) for f in (np.sin, np.cos)
  )
  np.add.at(expected, (y, x), weights / weights.sum())
  np.testing.assert_allclose(blurred, expected, atol=1e-6)
