"""Accuracy by level: reference values, and what pairs and objects do to it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.estimates.comparison import (
  benjamini_hochberg,
  mcnemar,
  paired_difference,
  sign_flip,
)
from robustness.estimates.intervals import clopper_pearson
from robustness.metrics import si_score
from robustness.metrics.si_score import Scenes


def scenes(pairs: int = 40, levels: int = 6, seed: int = 0, per_object: int = 2) -> Scenes:
  generator = np.random.default_rng(seed)
  return Scenes(
    generator.random((pairs, levels)) < np.linspace(0.2, 0.9, levels),
    np.random.default_rng(9).random((pairs, levels)) < 0.8,
    np.arange(pairs) // per_object,
  )


def test_accuracy_counts_only_what_is_shown() -> None:
  right = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0]], bool)
  shown = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0]], bool)
  result = si_score.rates(Scenes(right, shown, np.arange(3)))
  np.testing.assert_array_equal(result.value, [0.5, 0.5, np.nan])
  np.testing.assert_array_equal(result.n, [2, 2, 0])
  assert np.isnan(result.low[2]) and np.isnan(result.high[2])
  overall = si_score.overall(Scenes(right, shown, np.arange(3)))
  assert (overall.value, overall.n) == (0.5, 4)


def test_levels_are_pooled_by_group() -> None:
  table = scenes()
  groups = np.array([0, 1, 2, 0, 1, 2])
  result = si_score.rates(table, groups)
  for group in range(3):
    part = groups == group
    counted = table.shown[:, part]
    assert result.n[group] == counted.sum()
    assert result.value[group] == pytest.approx(
      (table.right[:, part] & counted).sum() / counted.sum()
    )


def test_one_scene_an_object_gives_the_exact_interval() -> None:
  table = scenes(per_object=1)
  result = si_score.rates(table)
  low, high = clopper_pearson((table.right & table.shown).sum(0), table.shown.sum(0))
  np.testing.assert_allclose(result.low, low, atol=0.01)
  np.testing.assert_allclose(result.high, high, atol=0.01)


def test_scenes_that_agree_within_an_object_count_as_one() -> None:
  answers = np.random.default_rng(3).random(30) < 0.5
  alike = Scenes(np.repeat(answers, 4)[:, None], np.ones((120, 1), bool), np.repeat(range(30), 4))
  result = si_score.rates(alike)
  low, high = clopper_pearson(answers.sum(), 30)
  assert result.n[0] == 120
  assert (result.low[0], result.high[0]) == pytest.approx((low, high), abs=0.01)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
  generator, truth = np.random.default_rng(0), 0.4
  chance = np.repeat(generator.beta(2, 3, (60, 1, 300)), 2, axis=0).reshape(120, 300)
  right = generator.random(chance.shape) < chance
  result = si_score.rates(Scenes(right, np.ones_like(right), np.repeat(range(60), 2)))
  assert 0.92 <= np.mean((result.low <= truth) & (truth <= result.high)) <= 1


def test_balanced_scenes_are_the_same_mix_in_every_group() -> None:
  shown = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [1, 0, 0, 0]], bool)
  np.testing.assert_array_equal(si_score.balanced(shown).sum(0), [1, 1, 1, 1])
  hidden = np.append(shown, np.zeros((3, 1), bool), 1)
  np.testing.assert_array_equal(si_score.balanced(hidden).sum(0), [1, 1, 1, 1, 0])
  kept = si_score.balanced(shown, [0, 1, 0, 1], [0, 0, 1, 1])
  np.testing.assert_array_equal(kept, [[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]])
  no_size = np.array([[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 0, 0]], bool)
  kept = si_score.balanced(no_size, [0, 1, 0, 1], [0, 0, 1, 1])
  np.testing.assert_array_equal(kept, [[1, 1, 0, 0]] * 3, 'the second size is not at every angle')
  kept = si_score.balanced(shown[:, :3], [0, 1, 0], [0, 0, 1])
  np.testing.assert_array_equal(kept, [[1, 1, 0], [1, 1, 0], [0, 0, 0]])


def test_levels_of_few_pairs_need_not_be_balanced() -> None:
  shown = np.array([[1, 1, 0], [1, 1, 0], [1, 0, 1]], bool)
  assert not si_score.balanced(shown).any()
  np.testing.assert_array_equal(
    si_score.balanced(shown, share=0.5), [[1, 1, 0], [1, 1, 0], [0, 0, 0]]
  )
  np.testing.assert_array_equal(si_score.balanced(shown, share=1), [[1, 0, 0]] * 3)


def test_the_gap_is_that_of_the_mix_of_objects() -> None:
  right = np.zeros((40, 10), bool)
  right[:20] = True  # objects that leave at large sizes are always wrong
  shown = np.ones((40, 10), bool)
  shown[20:, 5:] = False
  table = Scenes(right, shown, np.arange(40) // 2)
  number = si_score.gap(table, si_score.balanced(shown))
  assert number.value == pytest.approx((0.5 * 5 + 1 * 5) / 10 - 1)
  assert number.low < number.value < number.high < 0
  assert number.n == 20
  assert si_score.gap(table, shown).value == 0


def test_normalised_and_wrapped() -> None:
  np.testing.assert_allclose(si_score.normalised([0.2, np.nan, 0.8]), [0.25, np.nan, 1])
  assert np.isnan(si_score.normalised([0.0, 0.0])).all()
  np.testing.assert_allclose(
    si_score.wrapped([1, 161, 180, 181, 341, -180]), [1, 161, 180, -179, -19, 180]
  )


def test_differences_are_paired() -> None:
  first, second = scenes(seed=0), scenes(seed=1)
  second = Scenes(second.right | first.right, second.shown & (np.arange(6) != 2), second.objects)
  first = Scenes(first.right, second.shown, first.objects)
  result = si_score.compare(first, second, rate=0.1)
  only_second = (second.right & ~first.right & first.shown).sum(0)
  seen = np.arange(6) != 2
  np.testing.assert_allclose(result.value[seen], (only_second / first.shown.sum(0).clip(1))[seen])
  table = dataclasses.replace(second, right=second.right & ~first.right)
  np.testing.assert_allclose(result.p_value[seen], sign_flip(table.sums()[0])[seen])
  assert np.isnan(result.p_value[2]) and np.isnan(result.value[2]) and not result.significant[2]
  np.testing.assert_array_equal(
    result.significant[seen], benjamini_hochberg(result.p_value[seen], 0.1).significant
  )
  assert result.significant.any()
  assert (result.low[seen] <= result.value[seen]).all()


def test_scenes_of_one_object_are_one_difference() -> None:
  generator = np.random.default_rng(4)
  first, second = generator.random((2, 25, 1)) < [[[0.4]], [[0.7]]]
  alone = [Scenes(right, np.ones((25, 1), bool), np.arange(25)) for right in (first, second)]
  of_alone = si_score.compare(*alone)
  b, c = ((x & ~y).sum() for x, y in ((first, second), (second, first)))
  assert of_alone.p_value[0] == pytest.approx(mcnemar(b, c))
  assert (of_alone.low[0], of_alone.high[0]) == pytest.approx(paired_difference(c, b, 25)[1:])
  copies = [
    Scenes(np.repeat(right, 4, 0), np.ones((100, 1), bool), np.repeat(range(25), 4))
    for right in (first, second)
  ]
  result = si_score.compare(*copies)
  assert result.value == of_alone.value and result.p_value[0] == pytest.approx(of_alone.p_value[0])
  assert result.low[0] == pytest.approx(of_alone.low[0], abs=0.01)
  assert result.high[0] == pytest.approx(of_alone.high[0], abs=0.01)


def test_differences_are_pooled_by_group() -> None:
  first, second = (scenes(seed=seed) for seed in (0, 1))
  result = si_score.compare(first, second, [0, 1, 1, 0, 1, 1])
  part = np.array([0, 3])
  shown = first.shown[:, part]
  changed = (second.right[:, part].astype(int) - first.right[:, part]) * shown
  assert result.value[0] == pytest.approx(changed.sum() / shown.sum())
  by_object = changed.reshape(20, 2, 2).sum((1, 2))
  assert result.p_value[0] == pytest.approx(sign_flip(by_object))


def test_the_interval_of_a_difference_holds_the_truth_as_often_as_it_says() -> None:
  generator = np.random.default_rng(5)
  chance = np.repeat(generator.beta(2, 3, (2, 60, 1, 300)), 2, axis=1).reshape(2, 120, 300)
  right = generator.random(chance.shape) < chance
  first, second = (Scenes(x, np.ones_like(x), np.repeat(range(60), 2)) for x in right)
  result = si_score.compare(first, second)
  assert 0.92 <= np.mean((result.low <= 0) & (result.high >= 0)) <= 0.99
  assert np.mean(result.p_value <= 0.05) <= 0.07


def test_a_normalised_difference_takes_each_maximum_anew() -> None:
  first, second = (scenes(pairs=120, seed=seed) for seed in (0, 1))
  rates = [si_score.rates(own).value for own in (first, second)]
  value, low, high = si_score.compare_normalised(first, second)
  np.testing.assert_allclose(value, si_score.normalised(rates[1]) - si_score.normalised(rates[0]))
  assert ((low <= value) & (value <= high)).all() and (low < high).any()
  same = si_score.compare_normalised(first, first)
  np.testing.assert_array_equal(same, np.zeros((3, 6)))
  hidden = [
    dataclasses.replace(own, shown=own.shown & (np.arange(6) != 2)) for own in (first, second)
  ]
  assert np.isnan(np.array(si_score.compare_normalised(*hidden))[:, 2]).all()
  wrong = dataclasses.replace(first, right=np.zeros_like(first.right))
  assert np.isnan(np.array(si_score.compare_normalised(first, wrong))).all(), 'no maximum'


def test_other_scenes_are_not_compared() -> None:
  own, other = scenes(), scenes()
  with pytest.raises(InputError, match='different scenes'):
    si_score.compare(own, Scenes(other.right, ~other.shown, other.objects))
  with pytest.raises(InputError, match=r'must be \[P, L\]'):
    Scenes(own.right, own.shown[:, :2], own.objects)
