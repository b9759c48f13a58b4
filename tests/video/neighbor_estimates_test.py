"""Tests pm-k against the released scorer's rule and by hand."""

from typing import Any

import numpy as np
import pytest

from robustness import video
from robustness.video import metadata
from robustness.video import neighbor_estimates as metrics
from robustness.video.metadata import NeighborSets
from robustness.video.neighbor_estimates import SetOutcomes, right_within
from tests.cases import cases
from tests.refusals import refused

SETS = {'a/1.jpg': ['a/2.jpg', 'a/3.jpg'], 'b/5.jpg': ['b/6.jpg'], 'c/9.jpg': ['c/8.jpg']}
FRAMES = ('a/1.jpg', 'a/2.jpg', 'a/3.jpg', 'b/5.jpg', 'b/6.jpg', 'c/9.jpg', 'c/8.jpg')
FACTS = {frame: {'frame_type': kind} for frame, kind in zip(FRAMES, 'ipbpipp', strict=True)}
for frame, fps in (('a/1.jpg', 29.97), ('b/5.jpg', 24.999999999999996), ('c/9.jpg', 29.0)):
  FACTS[frame]['fps'] = fps


def made(anchor: Any, pairs: list[tuple[int, int, Any]]) -> SetOutcomes:
  """Returns outcomes from which anchors are right and (set, offset, right) of each neighbor."""
  group, offset = (np.array([pair[i] for pair in pairs], int) for i in (0, 1))
  right = np.array([pair[2] for pair in pairs], bool)
  return SetOutcomes(np.asarray(anchor, bool), right.T, group, offset)


def random_outcomes(seed: int, models: int = 3, anchors: int = 40) -> SetOutcomes:
  """Returns outcomes of which every seventh set has no neighbors and others have about 12 of 20."""
  generator = np.random.default_rng(seed)
  near = [o for o in range(-10, 11) if o]
  pairs = [(g, o) for g in range(anchors) for o in near if generator.random() < 0.6 and g % 7]
  group, offset = np.array(pairs).T
  anchor = generator.random((models, anchors)) < 0.7
  return SetOutcomes(anchor, generator.random((models, len(pairs))) < 0.9, group, offset)


def released_rule(sets: NeighborSets, scores: np.ndarray) -> tuple[float, float]:
  """Returns accuracy on anchors and of sets by the released rule: all members must be right."""
  labels = [{int(v) for v in row if v >= 0} for row in sets.labels]
  right_anchor = right_set = 0
  for anchor, members in zip(sets.anchors, sets.neighbors, strict=True):
    hits = sum(int(np.argmax(scores[m])) in labels[m] for m in members)
    hit = int(np.argmax(scores[anchor])) in labels[anchor]
    right_anchor += hit
    right_set += hits + hit == len(members) + 1
  return right_anchor / len(sets.anchors), right_set / len(sets.anchors)


def test_equal_accuracy_at_each_offset_does_not_determine_pm_k():
  """The two data sets of the paper's figure 9: one of three videos is wrong at every offset."""
  wrong = {'in one video': (0, 0, 0, 0), 'spread': (0, 1, 2, 0)}
  expected = {'in one video': 2 / 3, 'spread': 0}
  for name, videos in wrong.items():
    wrong_video = dict(zip((-2, -1, 1, 2), videos, strict=True))
    pairs = [(video, o, video != wrong_video[o]) for video in range(3) for o in wrong_video]
    outcomes = made([True] * 3, pairs)
    for offset in wrong_video:
      assert outcomes.is_neighbor_right[outcomes.offset == offset].mean() == pytest.approx(2 / 3)
    assert right_within(outcomes, 2)[:, 2].mean() == pytest.approx(expected[name])


@pytest.mark.parametrize('seed', [0, 3])
def test_equals_the_released_scorer_on_the_released_sets(shared_dir, seed):
  sets = metadata.read(shared_dir / 'data/imagenet_vid_robust')
  generator = np.random.default_rng(seed)
  scores = generator.normal(size=(len(sets.frames), 30)).astype(np.float32)
  scores[np.arange(len(scores)), sets.labels[:, 0]] += 2 + seed
  scores[::97] = 0  # In a tie the first class is predicted.
  outcomes = metrics.outcomes(sets, scores.argmax(-1))
  counts = metrics.right_within(outcomes, 10).sum(0)
  n = len(sets.anchors)
  assert (outcomes.is_anchor_right.sum() / n, counts[10] / n) == released_rule(sets, scores)
  assert counts[0] == outcomes.is_anchor_right.sum()


def test_pm_k_by_hand():
  outcomes = made([1, 1, 1, 0], [(0, -2, 1), (0, 1, 0), (1, 3, 0), (2, 1, 1), (3, 1, 1)])
  assert right_within(outcomes, 4).sum(0).tolist() == [3, 2, 2, 1, 1]
  assert right_within(outcomes, 4, include_anchor=False).sum(0).tolist() == [3, 3, 3, 2, 2]


def test_pm_k_starts_at_the_accuracy_on_anchors_and_falls_and_is_higher_without_anchors():
  outcomes = random_outcomes(1)
  included = right_within(outcomes, 10)
  for include in (True, False):
    np.testing.assert_array_equal(
      right_within(outcomes, 3, include)[..., 0], outcomes.is_anchor_right
    )
  assert (included[..., 1:] <= included[..., :-1]).all()
  assert (right_within(outcomes, 10, include_anchor=False) >= included).all()
  for model in range(3):  # All models at once have the outcomes of each model by itself.
    arrays = outcomes.is_anchor_right[model], outcomes.is_neighbor_right[model]
    single = SetOutcomes(*arrays, outcomes.group, outcomes.offset)
    np.testing.assert_array_equal(right_within(single, 10), included[model])


def test_a_set_without_near_neighbors_is_judged_by_its_anchor():
  outcomes = made([1, 0, 1], [(2, 1, 0)])
  for include in (True, False):
    assert right_within(outcomes, 5, include)[:, 5].tolist() == [True, False, False]
  empty = np.zeros(0, int)
  alone = SetOutcomes(np.array([True, False]), empty.astype(bool), empty, empty)
  assert right_within(alone, 2).sum(0).tolist() == [1, 1, 1]
  stacked = SetOutcomes.stacked({'net': alone})
  assert metrics.static_right(stacked, metrics.static_pairs(stacked)).tolist() == [[True, False]]


def test_a_gap_in_a_set_counts_by_distance_and_not_by_position():
  outcomes = made([1], [(0, 1, 1), (0, 9, 0)])  # The review removed offsets 2 to 8.
  assert right_within(outcomes, 10)[0].tolist() == [1] * 9 + [0, 0]
  neighbors_only = right_within(made([0], [(0, 9, 1)]), 8, include_anchor=False)
  assert not neighbors_only[0, 8], 'no neighbor within 8 frames: the anchor decides'


def test_any_label_counts_as_right_and_pairs_may_have_other_labels():
  labels = np.array([[1, -1], [1, 2], [1, 2], [0, -1]])
  assert metrics.is_right(np.array([1, 2, 0, -1]), labels).tolist() == [True, True, False, False]
  sets = metadata.from_mappings({'v/1.jpg': ['v/2.jpg']}, {'v/1.jpg': [0, 1], 'v/2.jpg': [0]})
  predictions = np.array([1, 1])
  assert metrics.outcomes(sets, predictions).is_neighbor_right.tolist() == [False]
  assert metrics.outcomes(sets, predictions, 'anchor').is_neighbor_right.tolist() == [True]
  sets = metadata.from_mappings({'v/1.jpg': ['v/2.jpg']}, {'v/1.jpg': [0]})
  neighbor_right = metrics.outcomes(sets, np.array([0, 0])).is_neighbor_right.tolist()
  assert neighbor_right == [True], 'a neighbor without labels has those of its anchor'


def test_the_static_set_has_the_pair_that_most_models_get_wrong():
  """Equal pairs are ordered by distance, then time; a set without neighbors has its anchor."""
  anchors = [[1, 1, 1], [1, 1, 1], [1, 0, 1]]
  first = [(0, -2, (0, 0, 1)), (0, 1, (1, 0, 1))]
  second = [(1, -3, (0, 1, 1)), (1, 3, (1, 0, 1)), (1, 1, (1, 1, 1))]
  sets = made(anchors, [*first, *second])
  right = metrics.static_right(sets, metrics.static_pairs(sets))
  assert right.tolist() == [[False, False, True], [False, True, True], [True] * 3]
  outcomes = random_outcomes(4)
  worst = right_within(outcomes, 10, include_anchor=False)[..., 10]
  is_right = metrics.static_right(outcomes, metrics.static_pairs(outcomes))
  assert (is_right >= worst).all(), 'a static pair is never worse than the worst of each model'


def test_outcomes_by_offset_have_a_row_for_each_anchor_and_a_column_for_each_offset():
  outcomes = made([1, 0], [(0, -1, 0), (0, 2, 1), (1, 2, 1)])
  table = outcomes.by_offset(outcomes.is_neighbor_right, outcomes.is_anchor_right)
  assert table.tolist() == [[False, True, True], [False, False, True]]


def sets_and_outcomes(facts: Any = FACTS) -> tuple[NeighborSets, SetOutcomes]:
  """Returns `SETS` with facts of frames, and their outcomes if class 0 is always predicted."""
  sets = metadata.from_mappings(SETS, dict.fromkeys(FACTS, [0]), (), facts)
  return sets, metrics.outcomes(sets, np.zeros(len(FACTS), int))


def test_subsets_by_frame_type_and_by_rounded_frame_rate():
  sets, outcomes = sets_and_outcomes()
  subsets = metrics.without_frame_types(outcomes, sets)
  counts = {kind: (single.num_anchors, len(single.group)) for kind, single in subsets.items()}
  assert counts == {'i': (2, 1), 'p': (1, 1), 'b': (3, 3)}
  assert subsets['i'].group.tolist() == [1]
  rates = metrics.by_fps(outcomes, sets)
  assert {rate: single.num_anchors for rate, single in rates.items()} == {25: 1, 29: 2}
  sets, outcomes = sets_and_outcomes(None)
  assert metrics.without_frame_types(outcomes, sets) == metrics.by_fps(outcomes, sets) == {}


def test_positions_of_anchors_before_and_after_the_review():
  before, _ = sets_and_outcomes()
  after = metadata.from_mappings(dict(list(SETS.items())[1:]), dict.fromkeys(FACTS, [0]))
  assert metrics.anchor_positions(before, after).tolist() == [1, 2]
  refused("1 of 3 reviewed anchors .* first 'a/1.jpg'", metrics.anchor_positions, after, before)


def test_pm_k_of_arrays_is_the_one_of_neighbor_sets_and_resamples_whole_clusters():
  outcomes = random_outcomes(0, models=1).of_model(0)
  correct = np.concatenate([outcomes.is_anchor_right, outcomes.is_neighbor_right])
  sets = np.concatenate([np.arange(outcomes.num_anchors), outcomes.group])
  offset = np.concatenate([np.zeros(outcomes.num_anchors, int), outcomes.offset])
  order = np.random.default_rng(1).permutation(len(sets))
  arrays = correct[order], sets[order], offset[order]
  for k in (0, 3, 10):
    expected = right_within(outcomes, k)[:, -1].mean()
    assert video.pm_k(*arrays, k).value == pytest.approx(expected)
  alone = video.pm_k(*arrays, 10)
  refused('predictions == labels', video.pm_k, [3, 0, 2], [1, 1, 1], [0, 1, 2], 2)
  together = video.pm_k(*arrays, 10, clusters=sets[order] // 4)
  assert (alone.clusters, together.clusters) == (40, 10) and alone.value == together.value
  assert together.low < together.value < together.high
  refused('2 frames of offset 0', video.pm_k, [True, True], [1, 1], [0, 0], 1)
  refused('0 frames of offset 0', video.pm_k, [True], [1], [3], 1)
  refused('one value per frame', video.pm_k, [True], [1, 2], [0, 0], 1)


ARGUMENTS = {
  'correct': [1, 1, 0, 1, 1, 1],
  'anchor_id': [0, 0, 0, 1, 1, 1],
  'offset': [-2, 0, 1] * 2,
}
"""Two sets of three frames, of which the first has a wrong neighbor at distance 1."""


def test_distances_are_right_for_offsets_of_8_bits_and_any_k():
  offsets = np.array([-1, 0, -128, -1, 0, 1], np.int8)
  estimates = [
    metrics.pm_k(**{**ARGUMENTS, 'offset': offsets}, k=k).value for k in (127, 128, 2**40)
  ]
  assert estimates == [1, 0.5, 0.5]


@cases(
  'changes, message',
  ({'k': -1}, '^k is -1; it must be an integer'),
  ({'k': None}, '^k is None; it must be an integer'),
  ({'offset': [np.nan, 0, 1, -1, 0, 1]}, 'offset has values that are no whole numbers'),
  ({'offset': ['-1', '0', '1'] * 2}, 'offset has values that are no whole numbers'),
  ({'clusters': ['a', 'b']}, r'clusters has the shape \(2,\)'),
  ({'clusters': ['a'] * 7}, r'clusters has the shape \(7,\)'),
  ({'clusters': range(6)}, 'several videos for the set'),
  ({'anchor_id': [None] * 3 + ['a'] * 3}, 'cannot be sorted'),
)
def test_unusable_arguments_of_pm_k_are_refused(changes, message):
  refused(message, metrics.pm_k, **{**ARGUMENTS, 'k': 1, **changes})
