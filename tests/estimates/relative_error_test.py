"""Tests the error of a group relative to the error on all images, with images in clusters."""

import numpy as np
import pytest

from benchmarks import interval_coverage
from robustness.estimates.jackknife import (
  TOO_FEW,
  degrees_of_freedom,
  effective_units,
  jackknife_deviations,
)
from robustness.estimates.of_means import Units
from robustness.estimates.relative_error import relative_errors
from tests.cases import cases


def units(site, group, *wrong):
  """Returns for each classifier the numbers of mistakes and images by site: of a group, of all."""
  columns = [[group, np.ones(len(site))], *([x & group, x] for x in wrong)]
  weight, *totals = (
    np.stack([np.bincount(site, column) for column in pair], 1).astype(float) for pair in columns
  )
  return [Units(total, weight, len(site)) for total in totals]


def sites(seed=0, count=60, images=800, num_outside=20):
  """Returns the site of each image, whether it is in the group, and mistakes [2, images]."""
  generator = np.random.default_rng(seed)
  site = np.append(np.arange(count), generator.integers(0, count, images - count))
  group = np.arange(images) < images - num_outside
  generator.shuffle(group)
  return site, group, generator.random((2, images)) < generator.beta(2, 8, count)[site]


def test_a_group_of_nearly_all_images_has_the_width_of_a_bootstrap_of_sites():
  """An interval that adds half a mean site of images was ten times as wide above the ratio."""
  site, group, (wrong, _) = sites()
  by_site = units(site, group, wrong)
  (estimate,) = relative_errors(by_site)
  counts = np.random.default_rng(1).multinomial(60, np.full(60, 1 / 60), 2000)
  inside, everywhere = by_site[0].means(counts).T
  low, high = np.quantile(inside / everywhere, (0.025, 0.975))
  assert estimate.value == pytest.approx(wrong[group].mean() / wrong.mean())
  assert estimate.low <= estimate.value <= estimate.high < 1.04
  ratio = (estimate.high - estimate.low) / (high - low)
  assert 0.8 < ratio < 2.5, 'intervals of percentiles are too narrow'
  assert (estimate.n, estimate.clusters, estimate.note) == (800, 60, '')


def test_a_group_of_few_clusters_has_a_value_without_an_interval():
  site = np.repeat(np.arange(8), 10)
  wrong = np.random.default_rng(0).random(80) < 0.4
  for group in (site < 2, site >= 2):
    (estimate,) = relative_errors(units(site, group, wrong))
    assert estimate.value == pytest.approx(wrong[group].mean() / wrong.mean())
    assert np.isnan([estimate.low, estimate.high]).all()
    assert estimate.note == f'{TOO_FEW}, effectively 2.0'
  (estimate,) = relative_errors(units(site, site < 3, wrong))
  assert np.isnan(estimate.low) and estimate.note == f'{TOO_FEW}, effectively 3.0'
  (estimate,) = relative_errors(units(site, site < 4, wrong))
  assert estimate.low < estimate.value < estimate.high
  image = np.arange(80)
  (estimate,) = relative_errors(units(image, image < 2, wrong))
  assert estimate.low < estimate.high, 'a group of two images in no clusters has an interval'


def test_one_image_has_an_interval_that_says_little():
  is_wrong = np.ones(1, bool)
  with np.errstate(all='raise'):
    (estimate,) = relative_errors(units(np.zeros(1, int), is_wrong, is_wrong))
  assert estimate.low < estimate.value == 1 < estimate.high


def test_differences_are_paired_and_narrow_for_equal_classifiers():
  site, group, (wrong, wrong_second) = sites(num_outside=400)
  (equal,) = relative_errors(units(site, group, wrong, wrong))
  assert equal.low < equal.value == 0 < equal.high < 0.03
  (different,) = relative_errors(units(site, group, wrong, wrong_second))
  first, second = (
    relative_errors(units(site, group, answers))[0] for answers in (wrong, wrong_second)
  )
  assert different.value == pytest.approx(second.value - first.value)
  assert different.high - different.low > 4 * (equal.high - equal.low)
  (undefined,) = relative_errors(units(site, group, wrong & False))
  assert np.isnan([undefined.value, undefined.low]).all() and undefined.note.startswith('undefined')


def test_the_jackknife_of_a_mean_has_the_variance_of_the_mean():
  values = np.random.default_rng(0).normal(size=40)
  deviation = jackknife_deviations((values.sum() - values) / 39)
  assert (deviation**2).sum() == pytest.approx(values.var(ddof=1) / 40)


def test_degrees_of_freedom_and_effective_units_depend_on_how_even_sites_are():
  assert degrees_of_freedom(np.ones(12)) == pytest.approx(12)
  assert degrees_of_freedom(np.array([0, 0, 5.0])) == pytest.approx(1)
  assert np.isnan(degrees_of_freedom(np.zeros(3)))
  np.testing.assert_allclose(effective_units(np.array([1.0, 1, 2])), 16 / 6)


@pytest.mark.slow
@cases(
  'sites, correlation, share',
  (15, 0.3, 0.25),
  (60, 0.05, 0.25),
  (60, 0.3, 0.97),
  (60, 0.05, 0.75),
  (7, 0.05, None),
  (7, 0.3, None),
  (60, 0.3, None),
)
def test_intervals_over_sites_cover(sites, correlation, share):
  """Coverage is 0.93 to 0.98 with misses of at most 0.04 on one side, up to two standard errors."""
  coverage = interval_coverage.site_coverage(sites, correlation, share, 2000)
  error = 2 * np.sqrt(0.04 * 0.96 / (2000 * (1 - coverage.undefined)))
  assert 0.93 <= coverage.held <= 0.98 + error and coverage.one_side <= 0.04 + error
