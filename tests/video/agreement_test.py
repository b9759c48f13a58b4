"""Agreement of annotators against published examples and an independent library; Table 1."""

from __future__ import annotations

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.video import agreement as review

FLEISS = np.array(
  [  # ratings of 10 subjects by 14 raters in 5 categories, a textbook's example
    [0, 0, 0, 0, 14],
    [0, 2, 6, 4, 2],
    [0, 0, 3, 5, 6],
    [0, 3, 9, 2, 0],
    [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0],
    [2, 5, 3, 2, 2],
    [6, 5, 2, 1, 0],
    [0, 2, 2, 3, 7],
  ]
)


def raters(counts: np.ndarray) -> np.ndarray:
  return np.array([np.repeat(np.arange(counts.shape[1]), row) for row in counts])


def two_raters(table: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
  cells = [
    (i, j) for i, row in enumerate(table) for j, count in enumerate(row) for _ in range(count)
  ]
  first, second = np.array(cells).T
  return first, second


def noisy(seed: int, items: int = 60, annotators: int = 3, categories: int = 3) -> np.ndarray:
  generator = np.random.default_rng(seed)
  truth = generator.integers(0, categories, (items, 1))
  other = generator.integers(0, categories, (items, annotators))
  return np.where(generator.random((items, annotators)) < 0.7, truth, other)


def test_cohen_kappa_of_a_table() -> None:
  first, second = two_raters([[20, 5], [10, 15]])
  kappa = review.cohen_kappa(first, second)
  assert kappa.value == pytest.approx(0.4)
  assert kappa.low < 0.4 < kappa.high and kappa.n == 50


def test_fleiss_kappa_of_a_table() -> None:
  kappa = review.fleiss_kappa(raters(FLEISS))
  assert kappa.value == pytest.approx(0.20993, abs=1e-5) and kappa.n == 10


@pytest.mark.parametrize('seed', range(4))
def test_cohen_kappa_against_scikit_learn(seed: int) -> None:
  metrics = pytest.importorskip('sklearn.metrics', reason='needs scikit-learn')
  ratings = noisy(seed)
  expected = metrics.cohen_kappa_score(ratings[:, 0], ratings[:, 1])
  assert review.cohen_kappa(ratings[:, 0], ratings[:, 1]).value == pytest.approx(expected)


def test_the_bootstrap_interval_is_near_the_asymptotic_one() -> None:
  first, second = two_raters([[40, 9], [11, 40]])
  kappa = review.cohen_kappa(first, second)
  half = 1.96 * np.sqrt(0.8 * 0.2 / 100) / 0.5  # Cohen's (1960) formula with p_e = .5
  assert kappa.value == pytest.approx(0.6, abs=0.01)
  assert [kappa.low, kappa.high] == pytest.approx([0.6 - half, 0.6 + half], abs=0.03)


def test_raters_who_did_not_rate_are_left_out() -> None:
  first, second = two_raters([[20, 5], [10, 15]])
  more = np.append(first, [0, -1]), np.append(second, [-1, 1])
  assert review.cohen_kappa(*more) == review.cohen_kappa(first, second)
  padded = np.pad(raters(FLEISS), ((0, 0), (0, 2)), constant_values=-1)
  single = np.vstack([padded, np.full((1, 16), -1)])
  single[-1, 0] = 3
  assert review.fleiss_kappa(single) == review.fleiss_kappa(raters(FLEISS))
  assert review.percent_agreement(single).n == 10


def test_order_of_items_and_raters_and_names_of_categories_do_not_matter() -> None:
  ratings = noisy(0)
  generator = np.random.default_rng(1)
  shuffled = generator.permuted(ratings, axis=1)[generator.permutation(len(ratings))]
  renamed = np.array([2, 0, 1])[ratings]
  for measure in (review.fleiss_kappa, review.percent_agreement):
    assert measure(shuffled).value == pytest.approx(measure(ratings).value)
    assert measure(renamed).value == pytest.approx(measure(ratings).value)


def test_chance_gives_zero_and_agreement_one() -> None:
  generator = np.random.default_rng(0)
  chance = generator.integers(0, 3, (4000, 3))
  assert abs(review.fleiss_kappa(chance).value) < 0.03
  assert review.percent_agreement(chance).value == pytest.approx(1 / 3, abs=0.02)
  same = np.repeat(generator.integers(0, 3, (40, 1)), 2, axis=1)
  for kappa in (review.fleiss_kappa(same), review.cohen_kappa(*same.T)):
    assert (kappa.value, kappa.low, kappa.high) == pytest.approx((1, 1, 1))
  everywhere = review.percent_agreement(same)
  assert everywhere.value == everywhere.high == 1 and 0.85 < everywhere.low < 1


def test_percent_agreement_of_two_raters_is_a_proportion() -> None:
  first, second = two_raters([[20, 5], [10, 15]])
  agreement = review.percent_agreement(np.stack([first, second], 1))
  assert (agreement.value, agreement.low, agreement.high) == pytest.approx(
    (0.7, 0.554, 0.821), abs=1e-3
  )


def test_pairs_of_one_anchor_count_as_one_cluster() -> None:
  ratings = np.repeat(noisy(2, items=20, annotators=2), 10, axis=0)
  groups = np.repeat(np.arange(20), 10)
  for measure in (review.fleiss_kappa, review.percent_agreement):
    alone, grouped = measure(ratings), measure(ratings, groups)
    assert alone.value == pytest.approx(grouped.value)
    assert grouped.high - grouped.low > 2 * (alone.high - alone.low)


@pytest.mark.parametrize('ratings', [[[-1, -1]] * 3, [[0, -1], [-1, 1]], []])
def test_nothing_to_compare_is_nan(ratings: list) -> None:
  table = np.array(ratings, int).reshape(-1, 2)
  for number in (
    review.fleiss_kappa(table),
    review.percent_agreement(table),
    review.cohen_kappa(*table.T),
  ):
    assert np.isnan([number.value, number.low, number.high]).all() and number.n == 0


def test_one_category_leaves_kappa_undefined() -> None:
  assert np.isnan(review.fleiss_kappa(np.zeros((9, 3), int)).value)
  assert np.isnan(review.cohen_kappa(np.zeros(9, int), np.zeros(9, int)).value)


def test_bad_ratings_are_refused() -> None:
  with pytest.raises(InputError, match='whole numbers'):
    review.fleiss_kappa([[0.5, 1.0]])
  with pytest.raises(InputError, match='whole numbers'):
    review.percent_agreement([[-2, 1]])
  with pytest.raises(InputError, match='give .items, raters.'):
    review.fleiss_kappa([0, 1])
  with pytest.raises(InputError, match='one an item'):
    review.fleiss_kappa([[0, 1]], groups=[0, 1])
  with pytest.raises(InputError, match='confidence = 2'):
    review.cohen_kappa([0, 1], [0, 1], confidence=2)
