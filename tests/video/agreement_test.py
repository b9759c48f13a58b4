"""Tests the agreement of annotators against published examples and scikit-learn."""

import numpy as np
import pytest

from robustness.video.agreement import cohen_kappa, fleiss_kappa, percent_agreement

FLEISS = np.array(  # A textbook's counts: 14 raters put each of 10 subjects in one of 5 categories.
  [[0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1]]
  + [[7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7]]
)
FLEISS_RATINGS = np.array([np.repeat(np.arange(5), row) for row in FLEISS])


def two_raters(table: list[list[int]]) -> np.ndarray:
  """Ratings [2, N] that `table`, [2, 2], counts by the two categories."""
  return np.repeat(np.array(list(np.ndindex(2, 2))), np.ravel(table), axis=0).T


FIRST, SECOND = two_raters([[20, 5], [10, 15]])


def noisy(seed: int, items: int = 60, annotators: int = 3) -> np.ndarray:
  """Returns ratings [items, annotators] in three classes, 7 in 10 true and the others random."""
  generator = np.random.default_rng(seed)
  truth = generator.integers(0, 3, (items, 1))
  other = generator.integers(0, 3, (items, annotators))
  return np.where(generator.random((items, annotators)) < 0.7, truth, other)


def test_published_examples_have_their_published_values():
  kappa = cohen_kappa(FIRST, SECOND)
  assert kappa.value == pytest.approx(0.4)
  assert kappa.low < 0.4 < kappa.high and kappa.n == 50
  kappa = fleiss_kappa(FLEISS_RATINGS)
  assert kappa.value == pytest.approx(0.20993, abs=1e-5) and kappa.n == 10
  # Two raters agree on 35 of 50 items; the interval is Clopper and Pearson's.
  agreement = percent_agreement(np.stack([FIRST, SECOND], 1))
  numbers = agreement.value, agreement.low, agreement.high
  assert numbers == pytest.approx((0.7, 0.554, 0.821), abs=1e-3)


@pytest.mark.parametrize('seed', range(4))
def test_cohen_kappa_against_scikit_learn(seed):
  metrics = pytest.importorskip('sklearn.metrics', reason='needs scikit-learn')
  first, second, _ = noisy(seed).T
  expected = metrics.cohen_kappa_score(first, second)
  assert cohen_kappa(first, second).value == pytest.approx(expected)


def test_the_bootstrap_interval_is_near_the_asymptotic_one():
  kappa = cohen_kappa(*two_raters([[40, 9], [11, 40]]))
  half = 1.96 * np.sqrt(0.8 * 0.2 / 100) / 0.5  # Cohen's (1960) formula with p_e = .5
  assert kappa.value == pytest.approx(0.6, abs=0.01)
  assert [kappa.low, kappa.high] == pytest.approx([0.6 - half, 0.6 + half], abs=0.03)


def test_raters_who_did_not_rate_are_left_out():
  padded = np.append(FIRST, [0, -1]), np.append(SECOND, [-1, 1])
  # Texts are compared because the p-value is NaN, which does not equal itself.
  assert str(cohen_kappa(*padded)) == str(cohen_kappa(FIRST, SECOND))
  single = np.pad(FLEISS_RATINGS, ((0, 1), (0, 2)), constant_values=-1)
  single[-1, 0] = 3
  assert str(fleiss_kappa(single)) == str(fleiss_kappa(FLEISS_RATINGS))
  assert percent_agreement(single).n == 10


def test_order_of_items_and_raters_and_names_of_categories_do_not_matter():
  ratings, generator = noisy(0), np.random.default_rng(1)
  shuffled = generator.permuted(ratings, axis=1)[generator.permutation(len(ratings))]
  renamed = np.array([2, 0, 1])[ratings]
  for measure in (fleiss_kappa, percent_agreement):
    for other in (shuffled, renamed):
      assert measure(other).value == pytest.approx(measure(ratings).value)


def test_chance_gives_zero_and_agreement_one():
  generator = np.random.default_rng(0)
  chance = generator.integers(0, 3, (4000, 3))
  assert abs(fleiss_kappa(chance).value) < 0.03
  assert percent_agreement(chance).value == pytest.approx(1 / 3, abs=0.02)
  equal = np.repeat(generator.integers(0, 3, (40, 1)), 2, axis=1)
  for kappa in (fleiss_kappa(equal), cohen_kappa(*equal.T)):
    assert kappa.value == pytest.approx(1) and np.isnan([kappa.low, kappa.high]).all()
    assert kappa.note == 'no interval: all resamples are equal'
  agreement = percent_agreement(equal)
  assert agreement.value == agreement.high == 1 and 0.85 < agreement.low < 1


def test_pairs_of_one_anchor_count_as_one_cluster():
  ratings = np.repeat(noisy(2, items=20, annotators=2), 10, axis=0)
  for measure in (fleiss_kappa, percent_agreement):
    alone, grouped = measure(ratings), measure(ratings, np.repeat(np.arange(20), 10))
    assert alone.value == pytest.approx(grouped.value)
    assert grouped.high - grouped.low > 2 * (alone.high - alone.low)


def test_nothing_to_compare_and_kappas_of_one_category_are_nan():
  for ratings in ([[-1, -1]] * 3, [[0, -1], [-1, 1]], []):
    table = np.array(ratings, int).reshape(-1, 2)
    for number in (fleiss_kappa(table), percent_agreement(table), cohen_kappa(*table.T)):
      assert np.isnan([number.value, number.low, number.high]).all() and number.n == 0
  assert np.isnan(fleiss_kappa(np.zeros((9, 3), int)).value)
  assert np.isnan(cohen_kappa(*np.zeros((2, 9), int)).value)
