"""Tests ρ: its cases, the balance of classes, and its intervals and their coverage."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from robustness.estimates.intervals import clopper_pearson, korn_graubard
from robustness.estimates.means import Estimate
from robustness.estimates.systematic import (
  DEGENERATE,
  SEEN,
  UNDEFINED,
  UNSEEN,
  EnvironmentShares,
  rho,
  rho_case,
)
from tests.cases import cases
from tests.refusals import bad_setting, refused


def test_rho_of_seen_unseen_and_baseline_accuracies():
  for accuracies, value, case in (
    ((0.6, 0.3, 0.0), 0.5, ''),
    ((0.6, 0.3, 0.2), 0.25, ''),
    ((0.6, 0.1, 0.2), 0.0, ''),
    ((0.3, 0.5, 0.2), 1.0, ''),
    ((0.1, 0.5, 0.2), 1.0, DEGENERATE),
    ((0.2, 0.1, 0.2), np.nan, UNDEFINED),
    ((0.0, 0.0, 0.0), np.nan, UNDEFINED),
    ((0.1 + 0.2, 0.1 + 0.2, 0.3), np.nan, UNDEFINED),  # equal up to rounding
    ((0.1 + 0.2, 0.3, 0.3), np.nan, UNDEFINED),
    ((np.nan, 0.5), np.nan, UNDEFINED),
    ((0.5, np.nan), np.nan, UNDEFINED),
  ):
    np.testing.assert_allclose(rho(*accuracies), value, atol=1e-12)
    assert rho_case(*accuracies) == case


def test_an_undefined_rho_has_a_note_in_place_of_an_interval_and_is_left_out_of_means():
  number = _cells([[1, 0], [1, 0]], [0, 1], [1, 0]).rho([1])
  assert np.isnan([number.value, number.low, number.high]).all()
  assert number.note.startswith(UNDEFINED)
  cells = _cells([[1, 1], [1, 0.5]], [1, 2], [0, 0])  # no image of seen classes
  number = cells.rho([1])
  assert np.isnan([number.value, number.low, number.high]).all() and number.note == UNDEFINED
  assert np.isnan(cells.accuracy([1], SEEN).low)
  share = [[1, 1, 0], [1, 1, 0], [1, 0, 0], [1, 1, 0]]
  cells = _cells(share, [0, 0, 1, 1], [1, 1, 2, 2])
  assert cells.rho([1, 2]).value == cells.rho([1]).value == pytest.approx(0.5)
  note = cells.rho([1, 2]).note
  assert note.startswith('undefined in 1 of 2 environments; mean over 1 of them')
  assert cells.accuracy([1, 2], SEEN).value == pytest.approx(0.5)
  assert cells.accuracy([1, 2], UNSEEN).value == pytest.approx(0.25)
  apart = [[1, 1, np.nan], [1, 1, np.nan], [1, 0, np.nan], [1, np.nan, 0], [1, np.nan, 0]]
  cells = _cells(apart, [0, 1, 1, 0, 1], [1, 2, 2, 1, 2])  # each image in one environment
  number = cells.rho([1, 2])
  assert number.value == cells.rho([1]).value and number.n == number.clusters == 3
  assert cells.rho([2]).n == 2


def test_rho_by_the_printed_formula_of_arrays_and_with_baselines_by_cell():
  """The printed ρ may be negative; baselines by cell remove how hard classes are."""
  printed = rho([0.1, 0.6, 0.2, 0.2], [0.5, 0.3, 0.5, 0.1], 0.2, formula='printed')
  np.testing.assert_allclose(printed, [-3, 0.25, 1, np.nan])
  np.testing.assert_allclose(rho([0.6, 0.6], [0.3, 0.6]), [0.5, 1.0])
  assert rho(0.9, 0.5, 0.5, baseline_unseen=0.1) == pytest.approx(1)
  assert rho(0.9, 0.5, 0.3) == pytest.approx(1 / 3)
  refused(bad_setting('formula', 'clip'), rho, 0.5, 0.5, formula='clip')
  refused('divide percentages by 100', rho, 80.0, 60.0, 40.0)


def test_a_degenerate_rho_is_left_out_of_means_or_1_as_in_the_paper():
  """No image of seen classes is right in environment 2, where ρ is 1 by definition."""
  share = [[1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 1], [1, 1, 0, 0]]
  cells = _cells(share, [0, 0, 1, 1], [1, 1, 2, 2])
  cells = dataclasses.replace(cells, trained=(0, 1, 2, 2))
  by_environment = [cells.rho([e]) for e in (1, 2, 3)]
  assert [number.value for number in by_environment] == [0.5, 1, 0]
  assert by_environment[1].note == DEGENERATE
  mean = cells.rho([1, 2, 3])
  assert mean.value == pytest.approx(0.25) and mean.low <= 0.25 <= mean.high
  assert mean.note.startswith('degenerate in 1 of 3 environments; mean over 2 of them')
  paper = cells.rho([1, 2, 3], degenerate='one')
  assert paper.value == pytest.approx(0.5) and 'mean over' not in paper.note
  mostly_degenerate = cells.rho([1, 2, 2])
  assert mostly_degenerate.value == 0.5
  assert mostly_degenerate.note.startswith('says little: degenerate in 2 of 3 environments')
  undefined = cells.rho([2, 2])
  assert np.isnan([undefined.value, undefined.low, undefined.high]).all()
  assert 'degenerate in 2 of 2' in undefined.note
  assert cells.rho([2, 2], degenerate='one').value == 1
  refused('degenerate', cells.rho, [1], degenerate='two')


def _cells(share, label, group, **settings):
  """Returns shares [images, environments], where environment i is trained on class group i."""
  share = np.asarray(share, float)
  environments = share.shape[1]
  trained, trials = tuple(range(environments)), (1,) * environments
  return EnvironmentShares(share, np.asarray(label), np.asarray(group), trained, trials, **settings)


def test_classes_or_images_weigh_the_same_and_images_not_shown_are_left_out():
  unbalanced = [[1, 1], [1, 1], [1, 1], [1, 0]], [0, 0, 0, 1], [1, 1, 1, 1]
  assert _cells(*unbalanced).accuracy([1], SEEN).value == pytest.approx(0.5)
  assert _cells(*unbalanced, balance='image').accuracy([1], SEEN).value == pytest.approx(0.75)
  share = [[1, np.nan], [np.nan, 0], [np.nan, 1], [0, np.nan]]
  cells = _cells(share, [0, 0, 1, 1], [1, 1, 0, 0])
  assert cells.accuracy([0]).value == pytest.approx(0.5)
  seen, unseen = (cells.accuracy([1], part) for part in (SEEN, UNSEEN))
  assert (seen.value, unseen.value) == (0, 1) and seen.n == unseen.n == 1
  by_group = [
    [cells.select(cells.group == g).accuracy([e]).value for e in (0, 1)] for g in range(2)
  ]
  np.testing.assert_array_equal(by_group, [[0, 1], [1, 0]])
  empty = cells.select(cells.label == 2).accuracy([0])
  assert empty.n == 0 and np.isnan([empty.value, empty.low, empty.high]).all()


def _simulated(rng, seen, unseen, base, per_class=30, classes=6):
  """Returns random answers of a classifier and of a baseline with these chances to be right."""
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
    number = cells.rho([1], baseline, samples=400, seed=run)
    covered += number.low <= 0.5 <= number.high
  assert 0.92 <= covered / runs <= 0.98  # 0.95 and about 3 standard errors of 300 runs


def test_the_gain_on_unseen_classes_is_paired_and_ignores_seen_classes():
  """The first baseline is right on seen classes and equal on unseen ones, the second reversed."""
  cells, _ = _simulated(np.random.default_rng(1), 0.9, 0.6, 0.3)
  easy = np.where((cells.group == 1)[:, None], 1.0, cells.share)
  gain = cells.gain(_cells(easy, cells.label, cells.group), [1])
  assert gain.value == 0 and gain.low <= 0 <= gain.high
  baseline = np.where((cells.group == 1)[:, None], cells.share, 1.0)
  gain = cells.gain(_cells(baseline, cells.label, cells.group), [1])
  assert gain.value == pytest.approx(cells.accuracy([1], UNSEEN).value - 1) and gain.high < 0


def _with_few_images(rng, per_class, seen, unseen, views=5):
  """Returns answers to ten classes in four groups of two; views of an image are correlated."""
  label = np.repeat(np.arange(10), per_class)
  group = np.where(label < 8, label // 2 + 1, 0)
  image, view = rng.normal(size=(len(label), 1, 1)), rng.normal(size=(len(label), 4, views))
  right = np.sqrt(0.3) * image + np.sqrt(0.3) * rng.normal(size=(len(label), 4, 1))
  right = right + np.sqrt(0.4) * view
  is_seen = group[:, None] == np.arange(1, 5)
  share = (right < stats.norm.ppf(np.where(is_seen, seen, unseen))[..., None]).mean(2)
  share = np.concatenate([np.ones((len(label), 1)), share], 1)
  return EnvironmentShares(share, label, group, (0, 1, 2, 3, 4), (1, *[views] * 4))


@pytest.mark.slow
@cases('per_class, seen, unseen', (1, 0.9, 0.6), (2, 0.9, 0.6), (2, 0.98, 0.9), (5, 0.9, 0.6))
def test_intervals_cover_with_few_images_a_class(per_class, seen, unseen):
  """A bootstrap within classes covered in 0, 0.8 and 0.9 of runs with 1, 2 and 5 images a class."""
  rng, runs = np.random.default_rng(per_class), 120
  true = {'one': unseen / seen, 'mean': unseen / seen, 'seen': seen, 'unseen': unseen}
  covered = dict.fromkeys(true, 0)
  for run in range(runs):
    cells = _with_few_images(rng, per_class, seen, unseen)
    numbers = {
      'one': cells.rho([1], samples=200, seed=run),
      'mean': cells.rho(range(1, 5), samples=200, seed=run),
      'seen': cells.accuracy(range(1, 5), SEEN),
      'unseen': cells.accuracy(range(1, 5), UNSEEN),
    }
    for name, number in numbers.items():
      covered[name] += number.low <= true[name] <= number.high
  assert min(covered.values()) / runs >= 0.9, covered  # 0.95 minus 2.5 standard errors of 120 runs


@cases('seen, unseen', (1, 1), (1, 0))
def test_the_interval_has_a_width_where_all_images_are_alike(seen, unseen):
  label = np.arange(8) % 4
  share = np.where(label < 2, seen, unseen)[:, None] * np.ones((1, 2))
  number = _cells(share, label, (label < 2).astype(int)).rho([1])
  assert number.value == unseen
  assert number.high - number.low > 0.3
  assert 0 <= number.low <= number.value <= number.high <= 1


def test_the_baseline_is_of_all_classes_unless_it_is_by_cell():
  share, baseline_share = np.ones((4, 2)), np.array([[1, 1], [1, 1], [1, 0], [1, 0]])
  label, group = [0, 0, 1, 1], [1, 1, 0, 0]
  baseline = _cells(baseline_share, label, group)
  assert baseline.accuracy([1]).value == pytest.approx(0.5)
  equal_accuracies = _cells(share, label, group).rho([1], baseline, by_cell=True)
  assert equal_accuracies.note == DEGENERATE, 's − b of seen classes is 0'
  cells, baseline = _simulated(np.random.default_rng(1), 0.9, 0.6, 0.3)
  number = cells.rho([1], baseline)
  s, u = (cells.accuracy([1], part).value for part in (SEEN, UNSEEN))
  b = baseline.accuracy([1]).value
  assert number.value == pytest.approx(rho(s, u, b))
  assert number.low < number.value < number.high <= 1
  assert number.n == 180
  by_cell = cells.rho([1], baseline, by_cell=True)
  b_seen, b_unseen = (baseline.accuracy([1], part).value for part in (SEEN, UNSEEN))
  assert by_cell.value == pytest.approx(rho(s, u, b_seen, baseline_unseen=b_unseen))


def stratified_share(share: np.ndarray, stratum: np.ndarray, trials: int) -> Estimate:
  """Returns the mean over strata of the shares [images] that are right of some trials."""
  cells = EnvironmentShares(
    np.asarray(share, float)[:, None], stratum, np.zeros(len(share)), [0], [trials]
  )
  return cells.accuracy([0])


def test_a_stratified_share_of_equal_strata_is_the_mean_over_images():
  rng = np.random.default_rng(2)
  share = (rng.random(400) < 0.3).astype(float)
  balanced = stratified_share(share, np.repeat(np.arange(4), 100), 1)
  unstratified = stratified_share(share, np.zeros(400, int), 1)
  assert balanced.value == pytest.approx(unstratified.value) == pytest.approx(share.mean())
  assert balanced.high - balanced.low == pytest.approx(
    unstratified.high - unstratified.low, rel=0.03
  )


@cases(
  'images, views, rate, runs, least',
  *(([10, 20, 40, 80], 1, rate, 1000, 0.935) for rate in (0.5, 0.95)),
  *(([1] * 10, 5, rate, 300, 0.95) for rate in (0.6, 0.9)),
)
def test_intervals_cover_with_unequal_classes_and_of_one_image_each(
  images, views, rate, runs, least
):
  """Intervals of one image a class that counted all views as independent held in .61 to .82."""
  rng, covered, stratum = np.random.default_rng(3), 0, np.repeat(np.arange(len(images)), images)
  for _ in range(runs):
    number = stratified_share(rng.random(len(stratum)) < rate, stratum, views)
    covered += number.low <= rate <= number.high
  assert covered / runs >= least


def test_shares_of_strata_without_spread_of_one_stratum_and_of_no_image():
  """Without spread images are the trials; one stratum has the interval of Korn and Graubard."""
  number = stratified_share(np.repeat([0.0, 1.0], 6), np.repeat([0, 1], 6), 5)
  assert (number.low, number.high) == pytest.approx(clopper_pearson(6, 12))
  share = np.random.default_rng(5).binomial(5, 0.7, 300) / 5
  unstratified = stratified_share(share, np.zeros(300, int), 5)
  expected = share.mean(), *korn_graubard(share.mean(), share.std(ddof=1), 300, 5)
  assert (unstratified.value, unstratified.low, unstratified.high) == pytest.approx(
    expected, abs=1e-3
  )
  assert np.isnan(stratified_share(np.zeros(0), np.zeros(0, int), 5).value)
