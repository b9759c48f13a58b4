"""ρ: the cases of its table, class balance, intervals and their coverage."""

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.metrics.systematic import (
  DEGENERATE,
  UNDEFINED,
  Cells,
  rho,
  rho_case,
  stratified_share,
  transfer,
)


@pytest.mark.parametrize(
  ('accuracies', 'value', 'case'),
  [
    ((0.6, 0.3, 0.0), 0.5, ''),
    ((0.6, 0.3, 0.2), 0.25, ''),
    ((0.6, 0.1, 0.2), 0.0, ''),
    ((0.3, 0.5, 0.2), 1.0, ''),
    ((0.1, 0.5, 0.2), 1.0, DEGENERATE),
    ((0.2, 0.1, 0.2), np.nan, UNDEFINED),
    ((0.0, 0.0, 0.0), np.nan, UNDEFINED),
  ],
)
def test_cases_of_rho(accuracies, value, case):
  np.testing.assert_allclose(rho(*accuracies), value, atol=1e-12)
  assert rho_case(*accuracies) == case


def test_the_printed_formula_is_negative_below_the_baseline():
  np.testing.assert_allclose(rho(0.1, 0.5, 0.2, formula='printed'), -3.0)
  np.testing.assert_allclose(rho(0.6, 0.3, 0.2, formula='printed'), 0.25)
  assert rho(0.2, 0.5, 0.2, formula='printed') == 1
  assert np.isnan(rho(0.2, 0.1, 0.2, formula='printed'))


def test_baselines_by_cell_take_out_the_difficulty_of_classes():
  assert rho(0.9, 0.5, 0.5, baseline_unseen=0.1) == pytest.approx(1)
  assert rho(0.9, 0.5, 0.3) == pytest.approx(1 / 3)


def test_rho_takes_arrays_and_refuses_other_formulas():
  np.testing.assert_allclose(rho([0.6, 0.6], [0.3, 0.6]), [0.5, 1.0])
  with pytest.raises(InputError, match='clipped'):
    rho(0.5, 0.5, formula='clip')


def _cells(share, label, group, **settings):
  share = np.asarray(share, float)
  environments = share.shape[1]
  own, trials = tuple(range(environments)), (1,) * environments
  return Cells(share, np.asarray(label), np.asarray(group), own, trials, **settings)


def test_classes_are_balanced_or_images_counted():
  share = [[1, 1], [1, 1], [1, 1], [1, 0]]
  label, group = [0, 0, 0, 1], [1, 1, 1, 1]
  assert _cells(share, label, group).seen(1).value == pytest.approx(0.5)
  assert _cells(share, label, group, balance='image').seen(1).value == pytest.approx(0.75)


def test_images_that_are_not_shown_do_not_count():
  share = [[1, np.nan], [np.nan, 0], [np.nan, 1], [0, np.nan]]
  cells = _cells(share, [0, 0, 1, 1], [1, 1, 0, 0])
  assert cells.accuracy(0).value == pytest.approx(0.5)
  assert (cells.seen(1).value, cells.unseen(1).value) == (0, 1)
  assert cells.seen(1).n == cells.unseen(1).n == 1


def test_accuracies_by_class_group():
  cells = _cells([[1, 1], [1, 0], [0, 0]], [0, 1, 2], [1, 2, 0])
  grid = cells.by_group(2)
  assert grid.shape == (3, 2, 3)
  np.testing.assert_array_equal(grid[..., 0], [[0, 0], [1, 1], [1, 0]])


def _simulated(rng, seen, unseen, base, per_class=30, classes=6):
  label = np.repeat(np.arange(classes), per_class)
  group = (label < classes // 2).astype(int)
  chance = np.where(group == 1, seen, unseen)
  share = (rng.random((len(label), 2)) < np.stack([np.ones_like(chance), chance], 1)).astype(float)
  baseline = (rng.random((len(label), 2)) < base).astype(float)
  return _cells(share, label, group), _cells(baseline, label, group)


def test_the_interval_of_rho_covers_the_true_value():
  rng, covered, runs = np.random.default_rng(0), 0, 300
  for run in range(runs):
    cells, baseline = _simulated(rng, 0.8, 0.5, 0.2)
    number = transfer(cells, [1], baseline, samples=400, seed=run).rho([0])
    covered += number.low <= 0.5 <= number.high
  assert 0.92 <= covered / runs <= 0.98  # .95 within 3 standard errors of the simulation


def test_what_unseen_classes_gain_is_paired_and_of_these_classes_alone():
  """The baseline is right on all seen classes, and as often as the classifier on the unseen."""
  cells, _ = _simulated(np.random.default_rng(1), 0.9, 0.6, 0.3)
  easy = np.where((cells.group == 1)[:, None], 1.0, cells.share)
  gain = transfer(cells, [1], _cells(easy, cells.label, cells.group), by_cell=True).unseen_gain([0])
  assert gain.value == 0 and gain.low <= 0 <= gain.high
  lost = np.where((cells.group == 1)[:, None], cells.share, 1.0)
  gain = transfer(cells, [1], _cells(lost, cells.label, cells.group), by_cell=True).unseen_gain([0])
  assert gain.value == pytest.approx(cells.unseen(1).value - 1) and gain.high < 0


def test_the_bootstrap_resamples_images_with_their_baseline():
  cells, baseline = _simulated(np.random.default_rng(1), 0.9, 0.6, 0.3)
  number = transfer(cells, [1], baseline).rho([0])
  s, u, b = cells.seen(1).value, cells.unseen(1).value, baseline.accuracy(1).value
  assert number.value == pytest.approx(rho(s, u, b))
  assert number.low < number.value < number.high <= 1
  assert number.n == 180
  by_cell = transfer(cells, [1], baseline, by_cell=True).rho([0])
  assert by_cell.value == pytest.approx(
    rho(s, u, baseline.seen(1).value, baseline_unseen=baseline.unseen(1).value)
  )


def test_an_undefined_rho_has_no_interval_and_says_why():
  cells = _cells([[1, 0], [1, 0]], [0, 1], [1, 0])
  number = transfer(cells, [1]).rho([0])
  assert np.isnan([number.value, number.low, number.high]).all()
  assert number.note.startswith(UNDEFINED)


def test_means_over_environments_leave_out_what_is_undefined():
  share = [[1, 1, 0], [1, 1, 0], [1, 0, 0], [1, 1, 0]]
  accuracies = transfer(_cells(share, [0, 0, 1, 1], [1, 1, 2, 2]), [1, 2])
  assert accuracies.rho([0, 1]).value == accuracies.rho([0]).value == pytest.approx(0.5)
  assert 'undefined in 1 of 2 environments' in accuracies.rho([0, 1]).note
  assert accuracies.mean(0).value == pytest.approx(0.5)
  assert accuracies.mean(1).value == pytest.approx(0.25)


def test_accuracies_by_class():
  cells = _cells([[1, 1], [1, 0], [0, np.nan]], [0, 0, 2], [1, 1, 0])
  np.testing.assert_array_equal(cells.by_class(3), [[1, 0.5], [np.nan, np.nan], [0, np.nan]])


def test_a_stratified_share_of_equal_strata_is_the_mean_over_images():
  rng = np.random.default_rng(2)
  share = (rng.random(400) < 0.3).astype(float)
  balanced = stratified_share(share, np.repeat(np.arange(4), 100), 1, 0.95)
  plain = stratified_share(share, np.zeros(400, int), 1, 0.95)
  assert balanced.value == pytest.approx(plain.value) == pytest.approx(share.mean())
  assert balanced.high - balanced.low == pytest.approx(plain.high - plain.low, rel=0.03)


@pytest.mark.parametrize('rate', [0.5, 0.95])
def test_the_interval_of_a_stratified_share_covers_with_unequal_classes(rate):
  rng, covered, runs = np.random.default_rng(3), 0, 1000
  stratum = np.repeat(np.arange(4), [10, 20, 40, 80])
  for _ in range(runs):
    share = (rng.random(150) < rate).astype(float)
    number = stratified_share(share, stratum, 1, 0.95)
    covered += number.low <= rate <= number.high
  assert covered / runs >= 0.935
