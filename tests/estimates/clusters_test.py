"""Tests shares and differences of trials in clusters, such as scenes of one object."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from robustness.estimates.comparison import mcnemar, paired_difference, sign_flip
from robustness.estimates.intervals import clopper_pearson, korn_graubard
from robustness.estimates.means import means, share_difference, share_in_clusters
from robustness.estimates.of_means import function_of_means
from robustness.estimates.outcomes import Outcomes, Sums
from robustness.estimates.quantity import ACCURACY
from robustness.scenes.designs import divided_by_largest
from tests.cases import cases
from tests.estimates.means_test import CHANGE
from tests.refusals import refused

NORMALISED = dataclasses.replace(ACCURACY, function=lambda means, _: divided_by_largest(means))

ONE_VIEW = pd.DataFrame(index=range(1))
SIX_VIEWS = pd.DataFrame({'level': range(6), 'group': [0, 1, 2, 0, 1, 2]})


def scenes(pairs: int = 40) -> Outcomes:
  """Returns answers of two classifiers to pairs of scenes of an object, of which 80 % count."""
  rates, right = np.linspace(0.2, 0.9, 6), {}
  for seed, label in enumerate(('first', 'second')):
    right[label] = np.random.default_rng(seed).random((pairs, 6)) < rates
  is_shown = np.random.default_rng(9).random((pairs, 6)) < 0.8
  return Outcomes(right, SIX_VIEWS, dict.fromkeys(right, is_shown), np.arange(pairs) // 2)


def copied(right: dict[str, np.ndarray], copies: int = 1) -> Outcomes:
  """Returns answers [N, 1] repeated, with the copies of an answer as its cluster."""
  count = len(next(iter(right.values())))
  repeated = {label: np.repeat(values, copies, 0) for label, values in right.items()}
  views = pd.DataFrame({'level': [0]})
  return Outcomes(repeated, views, clusters=np.repeat(np.arange(count), copies))


def test_shares_of_a_group_pool_the_scenes_that_count():
  outcomes = scenes()
  is_shown, right = outcomes.counted['first'], outcomes.values['first']
  table = means(ACCURACY, outcomes, ('group',), paired=False).iloc[:3]
  for group, row in enumerate(table.itertuples()):
    part = SIX_VIEWS.group == group
    right_scenes, counted = (right & is_shown)[:, part], is_shown[:, part]
    assert (row.n, row.clusters) == (counted.sum(), 20)
    assert row.value == pytest.approx(right_scenes.sum() / counted.sum())
    sums, weight = (columns.reshape(20, -1).sum(1) for columns in (right_scenes, counted))
    spread = ((sums - row.value * weight) ** 2).sum() * 20 / 19
    std = np.sqrt(20 * spread) / weight.sum()
    low, high = korn_graubard(row.value, std, 20, weight.sum() / 20)
    assert (row.low, row.high) == pytest.approx((low, high))


def test_equal_scenes_of_an_object_count_as_one_scene_and_as_one_difference():
  answers = {'one': np.random.default_rng(3).random((30, 1)) < 0.5}
  row = means(ACCURACY, copied(answers, copies=4)).iloc[0]
  assert (row.n, row.clusters) == (120, 30)
  expected = clopper_pearson(answers['one'].sum(), 30)
  assert (row.low, row.high) == pytest.approx(expected, abs=0.01)
  generator = np.random.default_rng(4)
  first, second = generator.random((2, 25, 1)) < [[[0.4]], [[0.7]]]
  right = {'first': first, 'second': second}
  single, copies = (means(ACCURACY, copied(right, n), test=True).iloc[2] for n in (1, 4))
  lost, gained = (first & ~second).sum(), (second & ~first).sum()
  assert single.p == pytest.approx(mcnemar(lost, gained))
  assert (single.low, single.high) == pytest.approx(paired_difference(gained, lost, 25)[1:])
  assert (copies.value, copies.p) == pytest.approx((single.value, single.p))
  assert (copies.low, copies.high) == pytest.approx((single.low, single.high), abs=0.01)


@cases('sizes, truth', ([200, *[5] * 19], 0.7), ([200, 100, 50, *[5] * 27], 0.9))
def test_intervals_of_clusters_of_unequal_size_cover(sizes, truth):
  weight, chance = np.array(sizes, float), np.random.default_rng(0).random((300, len(sizes)))
  n, covered = int(weight.sum()), np.zeros(2)
  for drawn in chance:
    right, gained, lost = (
      Sums(right * weight, weight, n, n) for right in (drawn < truth, drawn < 0.2, drawn > 0.9)
    )
    for place, true, row in (
      (0, truth, share_in_clusters(right)),
      (1, 0.1, share_difference(gained, lost)),
    ):
      covered[place] += row.low <= true <= row.high
  assert (covered / 300 > 0.92).all()


def test_intervals_of_pairs_of_scenes_cover_and_p_values_are_valid():
  generator, truth = np.random.default_rng(0), 0.4
  views = pd.DataFrame({'level': range(300)})
  chance = np.repeat(generator.beta(2, 3, (2, 60, 300)), 2, axis=1)
  first, second = generator.random(chance.shape) < chance
  objects = np.repeat(np.arange(60), 2)
  outcomes = Outcomes({'first': first, 'second': second}, views, clusters=objects)
  table = means(ACCURACY, outcomes, ('level',), test=True)
  accuracies, pairs = table[table.versus == ''], table[table.versus != '']
  assert 0.92 <= np.mean((accuracies.low <= truth) & (truth <= accuracies.high)) <= 1
  assert 0.92 <= np.mean((pairs.low <= 0) & (pairs.high >= 0)) <= 0.99
  assert np.mean(pairs.p <= 0.05) <= 0.07


def test_the_interval_of_a_mean_over_uneven_clusters_has_their_effective_number():
  values, sizes = np.random.default_rng(0).normal(size=(70, 1)), [40, 10, 10, 10]
  clusters = np.repeat(np.arange(4), sizes)
  (row,) = means(CHANGE, Outcomes({'a': values}, ONE_VIEW, clusters=clusters)).itertuples()
  sums = np.bincount(clusters, values[:, 0] - row.value)
  error = np.sqrt((sums**2).sum() * 4 / 3) / 70
  effective = 70**2 / np.square(sizes).sum()
  assert row.high - row.value == pytest.approx(stats.t.ppf(0.975, effective - 1) * error)


def test_differences_are_paired_and_their_signs_flipped_by_object():
  outcomes = scenes()
  is_shown = outcomes.counted['first']
  pairs = means(ACCURACY, outcomes, ('group',), test=True).iloc[6:]
  for group, row in enumerate(pairs.itertuples()):
    part = SIX_VIEWS.group == group
    changed = outcomes.values['second'][:, part].astype(int) - outcomes.values['first'][:, part]
    changed = changed * is_shown[:, part]
    assert row.value == pytest.approx(changed.sum() / is_shown[:, part].sum())
    assert row.p == pytest.approx(sign_flip(changed.reshape(20, -1).sum(1)))
    assert row.low <= row.value <= row.high


def test_levels_without_a_scene_have_no_value_and_different_scenes_are_refused():
  outcomes = scenes()
  values, is_shown, clusters = outcomes.values, outcomes.counted, outcomes.clusters
  hidden = dict.fromkeys(values, is_shown['first'] & (np.arange(6) != 2))
  table = means(ACCURACY, Outcomes(values, SIX_VIEWS, hidden, clusters), ('level',), test=True)
  empty = table[table.level == 2]
  assert empty[['value', 'low', 'high', 'p']].isna().all(axis=None) and (empty.n == 0).all()
  different_scenes = {**is_shown, 'second': ~is_shown['second']}
  refused(
    'different rows', means, ACCURACY, Outcomes(values, SIX_VIEWS, different_scenes, clusters)
  )


def test_a_normalised_difference_divides_each_classifier_by_its_maximum():
  outcomes = scenes(pairs=120)

  def table(right: dict[str, np.ndarray]) -> pd.DataFrame:
    shown_outcomes = Outcomes(right, SIX_VIEWS, outcomes.counted, outcomes.clusters)
    differences = function_of_means(NORMALISED, shown_outcomes, ('level',), by_group=True)
    return differences[differences.versus != '']

  differences = table(outcomes.values)
  rates = means(ACCURACY, outcomes, ('level',), paired=False).value.to_numpy().reshape(2, 6)
  np.testing.assert_allclose(
    differences.value, divided_by_largest(rates[1]) - divided_by_largest(rates[0])
  )
  assert ((differences.low <= differences.value) & (differences.value <= differences.high)).all()
  assert (differences.low < differences.high).any()
  first = outcomes.values['first']
  equal = table({'first': first, 'second': first})
  assert (equal.value == 0).all()
  assert equal[['low', 'high']].isna().all(axis=None), 'resamples without a difference say nothing'
  assert table({'first': first, 'second': np.zeros_like(first)}).value.isna().all(), 'no maximum'
