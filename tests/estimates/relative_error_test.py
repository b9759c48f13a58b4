"""The error of a group relative to that on all images, of images that come in clusters."""

import numpy as np
import pytest

from benchmarks import interval_coverage
from robustness.estimates.jackknife import TOO_FEW, drawn_shares, effective_units
from robustness.estimates.of_means import Units
from robustness.estimates.relative_error import relative_errors
from tests.cases import cases


def units(site, group, *wrong):
  """The wrong and all images of a group, and of all images, by site; for each classifier."""
  columns = [[group, np.ones(len(site))], *([x & group, x] for x in wrong)]
  weight, *totals = (
    np.stack([np.bincount(site, column) for column in pair], 1).astype(float) for pair in columns
  )
  return [Units(total, weight, len(site)) for total in totals]


def sites(seed=0, count=60, images=800, rest=20):
  generator = np.random.default_rng(seed)
  site = np.append(np.arange(count), generator.integers(0, count, images - count))
  group = np.arange(images) < images - rest
  generator.shuffle(group)
  return site, group, generator.random((2, images)) < generator.beta(2, 8, count)[site]


def test_a_group_of_nearly_all_images_has_the_width_of_a_bootstrap_of_its_sites():
  """Half a mean site of pseudo-images made the interval ten times as wide above the ratio."""
  site, group, (wrong, _) = sites()
  of = units(site, group, wrong)
  (found,) = relative_errors(of)
  counts = np.random.default_rng(1).multinomial(60, np.full(60, 1 / 60), 2000)
  inside, everywhere = of[0].means(counts).T
  low, high = np.quantile(inside / everywhere, (0.025, 0.975))
  assert found.value == pytest.approx(wrong[group].mean() / wrong.mean())
  assert found.low <= found.value <= found.high < 1.04
  assert 0.8 * (high - low) < found.high - found.low < 2 * (high - low)
  assert (found.n, found.clusters, found.note) == (800, 60, '')


def test_a_group_of_few_clusters_has_a_value_without_an_interval():
  site = np.repeat(np.arange(8), 10)
  wrong = np.random.default_rng(0).random(80) < 0.4
  for group in (site < 2, site >= 2):
    (found,) = relative_errors(units(site, group, wrong))
    assert found.value == pytest.approx(wrong[group].mean() / wrong.mean())
    assert np.isnan([found.low, found.high]).all() and found.note == f'{TOO_FEW}, effectively 2.0'
  (found,) = relative_errors(units(site, site < 3, wrong))
  assert found.low < found.value < found.high
  alone = np.arange(80)
  (found,) = relative_errors(units(alone, alone < 2, wrong))
  assert found.low < found.high, 'images that are their own units are no clusters'


def test_differences_are_paired_and_of_equal_classifiers_narrow_but_no_point():
  site, group, (wrong, other) = sites(rest=400)
  (same,) = relative_errors(units(site, group, wrong, wrong))
  assert same.low < same.value == 0 < same.high < 0.03
  (apart,) = relative_errors(units(site, group, wrong, other))
  alone = [relative_errors(units(site, group, each))[0] for each in (wrong, other)]
  assert apart.value == pytest.approx(alone[1].value - alone[0].value)
  assert apart.high - apart.low > 4 * (same.high - same.low)
  (none,) = relative_errors(units(site, group, wrong & False))
  assert np.isnan([none.value, none.low]).all() and none.note.startswith('undefined')


def test_draws_of_independent_images_are_jeffreys_posterior_and_of_alike_ones_wider():
  right = np.repeat([1.0, 0.0], [30, 70])[:, None]
  drawn = drawn_shares(right, np.ones((100, 1)), 100, samples=20_000)[:, 0]
  np.testing.assert_allclose(np.quantile(drawn, [0.025, 0.975]), [0.217, 0.394], atol=0.006)
  alike = right[::10] * 10
  wide = drawn_shares(alike, np.full((10, 1), 10.0), 10, samples=20_000)[:, 0]
  assert wide.std() > 3 * drawn.std()
  np.testing.assert_allclose(effective_units(np.array([1.0, 1, 2])), 16 / 6)


@pytest.mark.slow
@cases(
  'sites, correlation, share',
  (15, 0.3, 0.25),
  (60, 0.05, 0.25),
  (60, 0.3, 0.97),
  (7, 0.3, None),
  (15, 0.05, None),
  (60, 0.3, None),
)
def test_intervals_over_sites_hold_as_often_as_they_say(sites, correlation, share):
  """Of 500 samples, the standard error of a coverage of .95 is .01."""
  held, _, _ = interval_coverage.site_coverage(sites, correlation, share, 500)
  assert held >= 0.92


@pytest.mark.slow
@cases(
  'inside, images, error', (10, 200, 0.2), (10, 1000, 0.05), (200, 1000, 0.2), (970, 1000, 0.2)
)
def test_intervals_of_independent_images_hold_as_often_as_they_say(inside, images, error):
  generator, held, group = np.random.default_rng(0), 0, np.arange(images) < inside
  for _ in range(500):
    wrong = generator.random(images) < error
    (found,) = relative_errors(units(np.arange(images), group, wrong))
    held += found.low <= 1 <= found.high
  assert held >= 465
