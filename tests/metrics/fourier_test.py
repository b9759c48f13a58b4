"""Summaries of heat maps: bands, rings, and intervals that respect the images."""

from __future__ import annotations

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.metrics import (
  bands,
  clopper_pearson,
  clustered_proportion,
  mean_share,
  radial_curve,
  radial_mean,
  radius,
  ring_masks,
)
from robustness.metrics.fourier import band_cells


def centred(n: int) -> np.ndarray:
  return np.arange(n) - n // 2


def test_radius_is_zero_in_the_centre_and_largest_in_the_corner():
  distance = radius(centred(28), centred(5))
  assert distance[14, 2] == 0
  assert distance.max() == distance[0, 0] == pytest.approx(np.hypot(14, 2))


@pytest.mark.parametrize('size', [(28, 28), (31, 17), (32, 32)])
def test_bands_split_the_map_once(size):
  masks = bands(centred(size[0]), centred(size[1]), size)
  assert list(masks) == ['low', 'mid', 'high']
  np.testing.assert_array_equal(sum(m.astype(int) for m in masks.values()), np.ones(size, int))


def test_bands_of_28_pixels_lie_where_the_documentation_says():
  masks = bands(centred(28), centred(28), (28, 28))
  along = {name: centred(28)[mask[14]] for name, mask in masks.items()}
  assert np.abs(along['low']).max() == 3
  assert set(np.abs(along['mid'])) == {4, 5, 6}
  assert np.abs(along['high']).min() == 7


def test_bands_of_a_window_use_the_size_of_the_image():
  masks = bands(centred(63), centred(63), (224, 224))
  assert not masks['high'].any() and masks['low'][31, 31]


def test_cells_of_bands_that_a_window_shows():
  """The window of figure 4: a fifth of the middle band and nothing of the high one."""
  cells = band_cells(centred(63), centred(63), (224, 224))
  assert cells['mid'] == (1520, 7392) and cells['high'][0] == 0
  assert cells['all'] == (63 * 63, 224 * 224)
  assert sum(cells[name][1] for name in ('low', 'mid', 'high')) == 224 * 224


def test_radial_mean_averages_rings():
  fy = fx = centred(5)
  radii, mean, cells = radial_mean(np.rint(radius(fy, fx)), fy, fx)
  assert radii.tolist() == [0, 1, 2, 3]
  np.testing.assert_allclose(mean, radii)
  assert cells.tolist() == [1, 8, 12, 4] and cells.sum() == 25


def test_radial_mean_refuses_another_shape():
  with pytest.raises(InputError, match='frequencies span'):
    radial_mean(np.zeros((3, 3)), centred(3), centred(4))


def test_ring_masks_are_the_rings_of_the_mean():
  values = np.random.default_rng(0).random((6, 7))
  radii, masks = ring_masks(centred(6), centred(7))
  expected_radii, mean, cells = radial_mean(values, centred(6), centred(7))
  np.testing.assert_array_equal(radii, expected_radii)
  np.testing.assert_allclose([values[m].mean() for m in masks], mean)
  assert [m.sum() for m in masks] == cells.tolist()


def test_radial_curve_equals_the_ring_mean_of_the_error_map():
  rng = np.random.default_rng(1)
  fy = fx = centred(7)
  wrong = rng.random((40, 49)) < 0.3
  curve = radial_curve(wrong, radius(fy, fx).ravel(), np.ones(49))
  radii, mean, _ = radial_mean(wrong.mean(0).reshape(7, 7), fy, fx)
  np.testing.assert_array_equal(curve.radii, radii)
  np.testing.assert_allclose(curve.mean, mean)
  assert np.all((curve.low < curve.mean) & (curve.mean < curve.high))


def test_a_weight_counts_a_frequency_and_its_mirror():
  rng = np.random.default_rng(2)
  wrong = rng.random((30, 3)) < 0.4
  weighted = clustered_proportion(wrong, np.array([1, 2, 2]))
  repeated = clustered_proportion(wrong[:, [0, 1, 1, 2, 2]], np.ones(5))
  assert weighted.value == pytest.approx(repeated.value)
  assert weighted.n == 30


def test_clustered_proportion_does_not_take_views_of_an_image_for_images():
  image_is_hard = np.random.default_rng(3).random((100, 1)) < 0.3
  wrong = np.repeat(image_is_hard, 50, axis=1)
  number = clustered_proportion(wrong, np.ones(50))
  expected = clopper_pearson(image_is_hard.sum(), 100)
  np.testing.assert_allclose((number.low, number.high), expected, atol=0.002)


def test_clustered_proportion_covers():
  rng = np.random.default_rng(4)
  covered = 0
  for _ in range(400):
    difficulty = rng.beta(0.6, 2.4, size=(60, 1))  # mean .2
    number = clustered_proportion(rng.random((60, 8)) < difficulty, np.ones(8))
    covered += number.low <= 0.2 <= number.high
  assert covered / 400 >= 0.93


def test_nothing_to_average_is_nan():
  assert np.isnan(clustered_proportion(np.zeros((4, 0), bool), np.zeros(0)).value)
  assert np.isnan(clustered_proportion(np.zeros((0, 4), bool), np.ones(4)).value)
  assert np.isnan(mean_share([], 3).value)


def test_all_wrong_is_one_with_images_as_the_unit():
  number = clustered_proportion(np.ones((10, 3), bool), np.array([0.1, 0.2, 0.7]))
  assert number.value == pytest.approx(1.0)
  np.testing.assert_allclose((number.low, number.high), clopper_pearson(10, 10))
