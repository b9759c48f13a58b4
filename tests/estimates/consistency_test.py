"""Tests error consistency: its definition, and how often its interval covers."""

import numpy as np
import pytest

from robustness.estimates import consistency
from robustness.estimates.jackknife import TOO_FEW
from tests.cases import cases


def shares(first, second, kappa):
  """Returns the shares of images on which both, only the first, only the second and none are right,
  for two accuracies and a consistency."""
  chance = first * second + (1 - first) * (1 - second)
  right = (chance + kappa * (1 - chance) + first + second - 1) / 2
  return np.array([right, first - right, second - right, 1 - first - second + right])


def cells_of(right):
  """Returns the cells [4, N, 1] of answers bool [N, 2] of two classifiers in one view."""
  first, second = right.T
  cells = [first & second, first & ~second, ~first & second, ~first & ~second]
  return np.stack(cells)[..., None].astype(float)


def by_view(cells, n):
  """Returns the estimate of each view, for cells [4, K, V] of n images."""
  num_views = cells.shape[2]
  return consistency.estimates(cells, np.eye(num_views), [n] * num_views)


def test_kappa_of_a_published_example():
  """Two readers accept 20 of 50 proposals, reject 15 and differ on 5 and 10: Cohen's κ is 0.4."""
  right = np.repeat([[1, 1], [1, 0], [0, 1], [0, 0]], [20, 5, 10, 15], axis=0).astype(bool)
  (estimate,) = by_view(cells_of(right), 50)
  assert estimate.value == pytest.approx(0.4) and estimate.low < 0.2 and 0.55 < estimate.high < 0.7
  assert (estimate.n, estimate.clusters, estimate.method) == (50, 50, 'jackknife')


def test_kappa_of_equal_of_opposite_and_of_perfect_classifiers():
  half = np.arange(40)[:, None] % 2 == [0, 0]
  for right, value in ((half, 1), (half ^ [False, True], -1), (half | True, np.nan)):
    (estimate,) = by_view(cells_of(right), 40)
    assert estimate.value == pytest.approx(value, nan_ok=True)
    assert bool(estimate.note) == np.isnan(value) and not estimate.low > estimate.high


def test_kappa_is_0_if_one_is_always_right_and_the_other_never():
  (estimate,) = by_view(cells_of(np.ones((40, 2), bool) & [True, False]), 40)
  assert estimate.value == 0 and -0.1 < estimate.low < 0 < estimate.high < 0.1


def test_an_image_in_several_views_is_one_cluster_and_views_have_separate_estimates():
  right = np.random.default_rng(0).random((60, 2)) < 0.7
  first, second = cells_of(right), cells_of(right[::-1] & [True, False])
  (single,) = by_view(first, 60)
  (tripled,) = by_view(3 * first, 180)
  assert (tripled.low, tripled.high) == pytest.approx((single.low, single.high), abs=5e-3)
  assert tripled.clusters == 60
  estimates = by_view(np.concatenate([first, second], 2), 60)
  assert estimates[0].value == pytest.approx(single.value) and estimates[1].value != single.value
  absent = np.zeros((4, 30, 1))
  (padded,) = by_view(np.concatenate([first, absent], 1), 60)
  assert (padded.low, padded.high) == pytest.approx((single.low, single.high), abs=0.03)
  assert (padded.value, padded.clusters) == (pytest.approx(single.value), 60)


def test_the_mean_over_views_is_not_raised_by_views_that_are_hard_for_both():
  """Errors are independent in each view; pooled over views of unequal difficulty they are not."""
  random = np.random.default_rng(0)
  views = [cells_of(random.random((4000, 2)) < accuracy) for accuracy in (0.95, 0.6, 0.2)]
  cells = np.concatenate(views, 2)
  (pooled,) = by_view(sum(views), 12_000)
  (mean,) = consistency.estimates(cells, np.ones((1, 3)), [12_000])
  assert pooled.low > 0.3 and mean.low < 0 < mean.high and abs(mean.value) < 0.03
  by_views = by_view(cells, 12_000)
  (weighted,) = consistency.estimates(cells, np.array([[2, 0, 1]]), [12_000])
  assert weighted.value == pytest.approx((2 * by_views[0].value + by_views[2].value) / 3)


def test_a_view_in_which_all_are_right_is_left_out_with_a_note():
  right = np.random.default_rng(0).random((60, 2)) < 0.7
  cells = np.concatenate([cells_of(right), cells_of(right | True)], 2)
  (estimate,) = consistency.estimates(cells, np.ones((1, 2)), [120])
  assert estimate.value == pytest.approx(by_view(cells_of(right), 60)[0].value)
  assert estimate.note == 'undefined in 1 view: all alike'


def in_sites(right, sizes):
  """Returns the cells of answers bool [N, 2] with sites of these sizes as clusters."""
  return np.add.reduceat(cells_of(right), np.cumsum([0, *sizes[:-1]]), 1)


def test_intervals_over_sites_of_independent_images_are_hardly_wider_and_few_sites_have_none():
  right = np.random.default_rng(0).choice(4, 420, p=shares(0.8, 0.7, 0.4))
  right = np.array([[1, 1], [1, 0], [0, 1], [0, 0]], bool)[right]
  (by_image,) = by_view(cells_of(right), 420)
  (equal_sites,) = by_view(in_sites(right, [60] * 7), 420)
  assert equal_sites.value == pytest.approx(by_image.value)
  assert (equal_sites.n, equal_sites.clusters) == (420, 7)
  width = by_image.high - by_image.low
  assert 0.9 * width < equal_sites.high - equal_sites.low < 2 * width < 0.5
  (uneven,) = by_view(in_sites(right, [300, 60, 30, 20, 10]), 420)
  assert uneven.value == pytest.approx(by_image.value)
  assert np.isnan([uneven.low, uneven.high]).all()
  assert uneven.note == f'{TOO_FEW}, effectively 1.9'


@pytest.mark.slow
@cases('first, second, kappa', (0.8, 0.7, 0.4), (0.9, 0.9, 0.0), (0.95, 0.93, 0.8))
@pytest.mark.parametrize('n', [50, 200])
def test_the_interval_covers(first, second, kappa, n):
  """The bound of 0.93 is three standard errors of 1000 samples below a coverage of 0.95."""
  generator, covered = np.random.default_rng(0), 0
  cells = np.array([[1, 1], [1, 0], [0, 1], [0, 0]], bool)
  for _ in range(1000):
    drawn = generator.choice(4, n, p=shares(first, second, kappa))
    (estimate,) = by_view(cells_of(cells[drawn]), n)
    covered += np.isnan(estimate.value) or estimate.low <= kappa <= estimate.high
  assert covered >= 930
