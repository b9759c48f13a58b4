"""pm-k against the released scorer's rule and by hand; every edge case has a test of its name."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.metrics import clopper_pearson, paired_difference
from robustness.metrics import neighbor_sets as metrics
from robustness.metrics.neighbor_sets import Outcomes
from robustness.neighbor_sets import metadata
from robustness.neighbor_sets.metadata import NeighborSets


def made(anchor: Any, pairs: list[tuple[int, int, Any]]) -> Outcomes:
  """Outcomes from (group, offset, right) triples."""
  group, offset = (np.array([pair[i] for pair in pairs], int) for i in (0, 1))
  right = np.array([pair[2] for pair in pairs], bool)
  return Outcomes(np.asarray(anchor, bool), right.T, group, offset)


def random_outcomes(seed: int, models: int = 3, anchors: int = 40) -> Outcomes:
  generator = np.random.default_rng(seed)
  pairs = [
    (g, o)
    for g in range(anchors)
    for o in range(-10, 11)
    if o and generator.random() < 0.6 and g % 7
  ]
  group, offset = np.array(pairs).T
  return Outcomes(
    generator.random((models, anchors)) < 0.7,
    generator.random((models, len(pairs))) < 0.9,
    group,
    offset,
  )


def released_rule(sets: NeighborSets, scores: np.ndarray) -> tuple[float, float]:
  """The released scorer, in its own words: a set counts its right members, anchor included."""
  labels = [{int(v) for v in row if v >= 0} for row in sets.labels]
  right_anchor = right_set = 0
  for anchor, members in zip(sets.anchors, sets.neighbors, strict=True):
    hits = sum(int(np.argmax(scores[m])) in labels[m] for m in members)
    hit = int(np.argmax(scores[anchor])) in labels[anchor]
    right_anchor += hit
    right_set += hits + hit == len(members) + 1
  return right_anchor / len(sets.anchors), right_set / len(sets.anchors)


@pytest.mark.parametrize('seed', range(5))
def test_equals_the_released_scorer_on_the_released_sets(
  shared_dir: pathlib.Path, seed: int
) -> None:
  sets = metadata.read(shared_dir / 'data/imagenet_vid_robust')
  generator = np.random.default_rng(seed)
  scores = generator.normal(size=(len(sets.frames), 30)).astype(np.float32)
  scores[np.arange(len(scores)), sets.labels[:, 0]] += 2 + seed
  scores[::97] = 0  # ties: the first class wins
  outcomes = metrics.outcomes(sets, scores.argmax(-1))
  counts = metrics.pm_k_counts(outcomes, 10)
  n = len(sets.anchors)
  assert (outcomes.anchor.sum() / n, counts[10] / n) == released_rule(sets, scores)
  assert counts[0] == outcomes.anchor.sum()


def test_pm_k_by_hand() -> None:
  outcomes = made([1, 1, 1, 0], [(0, -2, 1), (0, 1, 0), (1, 3, 0), (2, 1, 1), (3, 1, 1)])
  assert metrics.pm_k_counts(outcomes, 4).tolist() == [3, 2, 2, 1, 1]
  assert metrics.pm_k_counts(outcomes, 4, include_anchor=False).tolist() == [3, 3, 3, 2, 2]
  assert metrics.failure_distance(outcomes).tolist()[:2] == [1, 3]


def test_pm_0_is_the_accuracy_on_anchors() -> None:
  outcomes = random_outcomes(0)
  for include in (True, False):
    counts = metrics.pm_k_counts(outcomes, 3, include)
    np.testing.assert_array_equal(counts[:, 0], outcomes.anchor.sum(-1))


def test_pm_k_falls_with_k_and_excluding_the_anchor_never_lowers_it() -> None:
  outcomes = random_outcomes(1)
  included = metrics.pm_k_counts(outcomes, 10)
  assert (np.diff(included, axis=1) <= 0).all()
  assert (metrics.pm_k_counts(outcomes, 10, include_anchor=False) >= included).all()


def test_models_together_are_models_one_by_one() -> None:
  outcomes = random_outcomes(2)
  for model in range(3):
    single = Outcomes(
      outcomes.anchor[model], outcomes.neighbor[model], outcomes.group, outcomes.offset
    )
    np.testing.assert_array_equal(
      metrics.pm_k_counts(single, 10), metrics.pm_k_counts(outcomes, 10)[model]
    )
    np.testing.assert_array_equal(
      metrics.error_by_offset(single).wrong, metrics.error_by_offset(outcomes).wrong[model]
    )


def test_an_empty_set_is_judged_by_its_anchor() -> None:
  outcomes = made([1, 0, 1], [(2, 1, 0)])
  for include in (True, False):
    assert metrics.worst_right(outcomes, 5, include).tolist() == [True, False, False]
  alone = Outcomes(np.array([True, False]), np.zeros(0, bool), np.zeros(0, int), np.zeros(0, int))
  assert metrics.pm_k_counts(alone, 2).tolist() == [1, 1, 1]
  assert metrics.static_right(alone, np.full(2, -1)).tolist() == [True, False]


def test_gaps_count_by_distance_and_not_by_position() -> None:
  outcomes = made([1], [(0, 1, 1), (0, 9, 0)])  # offsets 2 to 8 were reviewed away
  assert metrics.pm_k_counts(outcomes, 10).tolist() == [1] * 9 + [0, 0]
  neighbors_only = metrics.worst_right(made([0], [(0, 9, 1)]), 8, include_anchor=False)
  assert not neighbors_only[0], 'no neighbor within 8 frames: the anchor decides'


def test_several_labels_any_of_them_is_right() -> None:
  labels = np.array([[1, -1], [1, 2], [1, 2], [0, -1]])
  assert metrics.is_right(np.array([1, 2, 0, -1]), labels).tolist() == [True, True, False, False]


def test_pairs_with_labels_of_their_own() -> None:
  sets = metadata.from_mappings({'v/1.jpg': ['v/2.jpg']}, {'v/1.jpg': [0, 1], 'v/2.jpg': [0]})
  predictions = np.array([1, 1])
  assert metrics.outcomes(sets, predictions).neighbor.tolist() == [False]
  assert metrics.outcomes(sets, predictions, 'anchor').neighbor.tolist() == [True]


def test_neighbors_without_labels_need_the_anchors() -> None:
  sets = metadata.from_mappings({'v/1.jpg': ['v/2.jpg']}, {'v/1.jpg': [0]})
  with pytest.raises(InputError, match='1 of 1 neighbors have no labels'):
    metrics.outcomes(sets, np.array([0, 0]))
  assert metrics.outcomes(sets, np.array([0, 0]), 'anchor').neighbor.tolist() == [True]


def test_the_drop_is_the_difference_with_a_paired_interval() -> None:
  outcomes = random_outcomes(3)
  single = Outcomes(outcomes.anchor[0], outcomes.neighbor[0], outcomes.group, outcomes.offset)
  for include in (True, False):
    number = metrics.drop(single, 10, include)
    worst = metrics.worst_right(single, 10, include)
    assert number.value == pytest.approx(single.anchor.mean() - worst.mean(), abs=1e-12)
    assert number.low < number.value < number.high and number.n == 40


def test_a_drop_with_the_anchor_in_the_set_cannot_be_negative() -> None:
  number = metrics.drop(made([1, 1, 0], [(0, 1, 1), (1, 1, 1), (2, 1, 0)]), 1)
  assert (number.value, number.low) == (0, 0)
  assert number.high == pytest.approx(clopper_pearson(0, 3)[1])
  alone = metrics.drop(made([1, 1, 0], [(0, 1, 1), (1, 1, 1), (2, 1, 1)]), 1, include_anchor=False)
  assert alone.value == pytest.approx(-1 / 3) and alone.low > -1


def test_drops_differ_by_pairs_of_sets() -> None:
  """A network may be lower on anchors and worst frames alike: its drop is no other."""
  anchor, worst = np.array([[1] * 8 + [0] * 2, [1] * 5 + [0] * 5]), np.zeros((2, 10), int)
  worst[0, :5] = worst[1, :2] = 1
  number = metrics.drop_difference(*(anchor - worst))
  assert number.value == 0 and number.low < 0 < number.high
  fewer = metrics.drop_difference([1] * 40, [0] * 40)
  assert fewer.value == -1 and fewer.high < 0
  assert (fewer.low, fewer.high) == pytest.approx(paired_difference(0, 40, 40)[1:])


def test_without_the_anchor_drops_differ_by_up_to_two() -> None:
  number = metrics.drop_difference([-1, 1, 0], [1, 1, 0], include_anchor=False)
  assert number.value == pytest.approx(2 / 3) and -2 <= number.low < number.value < number.high <= 2


def test_error_by_offset() -> None:
  outcomes = made([1, 0], [(0, -1, 0), (0, 2, 1), (1, -1, 1), (1, 2, 0)])
  errors = metrics.error_by_offset(outcomes)
  assert errors.offset.tolist() == [-1, 0, 2]
  assert errors.wrong.tolist() == [1, 1, 1] and errors.n.tolist() == [2, 2, 2]
  rate, low, high = errors.rate()
  assert (low < rate).all() and (rate < high).all()


def test_the_static_set_is_what_most_models_get_wrong() -> None:
  outcomes = made(
    [[1, 1, 1], [1, 1, 1], [1, 0, 1]],
    [
      (0, -2, (0, 0, 1)),
      (0, 1, (1, 0, 1)),
      (1, -3, (0, 1, 1)),
      (1, 3, (1, 0, 1)),
      (1, 1, (1, 1, 1)),
    ],
  )
  choice = metrics.static_choice(outcomes)
  assert choice.tolist() == [0, 2, -1], 'equals: the nearest, then the earlier'
  np.testing.assert_array_equal(
    metrics.static_right(outcomes, choice), [[0, 0, 1], [0, 1, 1], [1, 1, 1]]
  )
  with pytest.raises(InputError, match='several models'):
    metrics.static_choice(made([1], [(0, 1, 1)]))


def test_a_static_set_is_never_worse_than_each_models_own() -> None:
  outcomes = random_outcomes(4)
  static = metrics.static_right(outcomes, metrics.static_choice(outcomes))
  own = metrics.worst_right(outcomes, 10, include_anchor=False)
  assert (static >= own).all()


def test_conditional_accuracy_counts_exactly_k_frames() -> None:
  outcomes = made([1, 0, 1], [(0, -1, 1), (0, 1, 0), (0, 2, 1), (1, 1, 1), (2, -2, 0)])
  given = metrics.conditional_accuracy(outcomes, 3)
  assert given.n.tolist() == [[2, 1, 0], [0, 0, 0], [0, 1, 0]]
  assert given.right.tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 0]]
  assert given.n.sum(0).tolist() == [2, 2, 0] and given.right.sum(0).tolist() == [1, 1, 0]


def test_two_neighbors_of_an_anchor_are_one_cluster() -> None:
  """Both directions agree: the interval is that of the anchors, and not of twice as many pairs."""
  wrong = [a % 4 == 0 for a in range(40)]
  pairs = [(a, o, not wrong[a]) for a in range(40) for o in (-1, 1)]
  value, low, high = metrics.conditional_accuracy(made([1] * 40, pairs), 2).rate()
  assert value[0] == 0.75 and np.isnan(value[1])
  assert (low[0], high[0]) == pytest.approx(clopper_pearson(30, 40), abs=0.01)
  several = metrics.conditional_accuracy(random_outcomes(0), 3)
  single = random_outcomes(0)
  alone = Outcomes(single.anchor[1], single.neighbor[1], single.group, single.offset)
  np.testing.assert_array_equal(several.n[1], metrics.conditional_accuracy(alone, 3).n)


@pytest.mark.parametrize(
  'group, offset, message',
  [
    ([0], [1, 2], 'give one of each a pair'),
    ([1, 0], [1, 2], 'sort them by group'),
    ([0, 5], [1, 2], 'for 2 anchors'),
  ],
)
def test_bad_pairs(group: list[int], offset: list[int], message: str) -> None:
  with pytest.raises(InputError, match=message):
    Outcomes(np.ones(2, bool), np.ones(2, bool), np.array(group), np.array(offset))


def test_bad_k_and_wrong_number_of_predictions() -> None:
  with pytest.raises(InputError, match='k = -1'):
    metrics.worst_right(made([1], [(0, 1, 1)]), -1)
  sets = metadata.from_mappings({'v/1.jpg': []}, {'v/1.jpg': [0]})
  with pytest.raises(InputError, match='2 predictions for 1 frames'):
    metrics.outcomes(sets, np.array([0, 0]))
