"""The shared image operations against numpy and scipy, at every border and at odd sizes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.ndimage

from robustness.core.errors import InputError
from robustness.corruptions import filters
from tests.corruptions.pictures import natural

NUMPY = {'nearest': 'edge', 'reflect': 'symmetric', 'mirror': 'reflect'}
SCIPY = {'nearest': 'nearest', 'reflect': 'reflect', 'mirror': 'mirror'}
SHAPES = [(16, 16), (21, 5)]


def by_plane(function, image: np.ndarray) -> np.ndarray:
  return np.stack([function(plane) for plane in np.moveaxis(image.astype(np.float64), -1, 0)], -1)


@pytest.mark.parametrize('border', filters.BORDERS)
@pytest.mark.parametrize('size', [2, 3, 8])
def test_borders_are_numpys_at_any_distance(border: str, size: int) -> None:
  line = np.pad(np.arange(size), 20, mode=NUMPY[border])
  index = filters.border_index(jnp.arange(-20, size + 20), size, border)
  np.testing.assert_array_equal(index, line)


@pytest.mark.parametrize('border', filters.BORDERS)
def test_a_single_pixel_is_its_own_border(border: str) -> None:
  assert not np.asarray(filters.border_index(jnp.arange(-3, 4), 1, border)).any()


def test_an_unknown_border_is_refused() -> None:
  with pytest.raises(InputError, match="border is 'miror'; did you mean 'mirror'"):
    filters.border_index(jnp.arange(3), 3, 'miror')


@pytest.mark.parametrize('border', filters.BORDERS)
@pytest.mark.parametrize('shape', SHAPES)
def test_gaussian_filter_is_scipys(border: str, shape: tuple[int, int]) -> None:
  image = natural(*shape)
  smooth = jax.jit(lambda x, s, t=4.0: filters.gaussian_filter(x, s, 9.0, t, border))
  for sigma in (0, 0.05, 0.7, 2.44, 9):
    theirs = by_plane(
      lambda x, s=sigma: scipy.ndimage.gaussian_filter(x, s, mode=SCIPY[border], truncate=4), image
    )
    np.testing.assert_allclose(smooth(image, sigma), theirs, atol=2e-6)


def test_gaussian_filter_truncates_where_told() -> None:
  image = natural(40, 40, 1)
  ours = filters.gaussian_filter(image, 2.44, 5.0, truncate=3.0, border='reflect')
  theirs = by_plane(lambda x: scipy.ndimage.gaussian_filter(x, 2.44, truncate=3), image)
  np.testing.assert_allclose(ours, theirs, atol=2e-6)


@pytest.mark.parametrize('border', filters.BORDERS)
@pytest.mark.parametrize('shape', SHAPES)
@pytest.mark.parametrize('side', [1, 5, 9, 21])
def test_correlate_is_scipys(border: str, shape: tuple[int, int], side: int) -> None:
  image, kernel = natural(*shape), np.random.default_rng(0).normal(size=(side, side))
  ours = filters.correlate(image, jnp.asarray(kernel, jnp.float32), border)
  theirs = by_plane(lambda x: scipy.ndimage.correlate(x, kernel, mode=SCIPY[border]), image)
  np.testing.assert_allclose(ours, theirs, atol=2e-5 * side)


@pytest.mark.parametrize('border', filters.BORDERS)
def test_sample_bilinear_is_scipys(border: str) -> None:
  image = natural(11, 14)
  random = np.random.default_rng(1)
  y, x = random.uniform(0, 10, (6, 7)), random.uniform(0, 13, (6, 7))
  if border != 'nearest':
    y, x = y * 3 - 10, x * 3 - 13
  ours = filters.sample_bilinear(
    image, jnp.asarray(y, jnp.float32), jnp.asarray(x, jnp.float32), border
  )
  theirs = by_plane(
    lambda p: scipy.ndimage.map_coordinates(p, [y, x], order=1, mode=SCIPY[border]), image
  )
  np.testing.assert_allclose(ours, theirs, atol=2e-5)


@pytest.mark.parametrize('size', [33, 96, 224])
def test_zoom_of_the_centre_is_scipys(size: int) -> None:
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
def test_motion_blur_draws_its_taps(angle: float) -> None:
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


@pytest.mark.parametrize('least', [1, 7, 11, 97, 244, 282, 299])
def test_fast_sizes_have_small_factors(least: int) -> None:
  size = filters._fast_size(least)
  assert least <= size <= 1.15 * least + 2
  assert size % 2 == 0
  assert (2**10 * 3**6 * 5**4) % size == 0
