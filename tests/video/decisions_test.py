"""Tests the outcome of a review: its sets, labels, counts and agreement of annotators."""

import json

import numpy as np
import pandas as pd
import pytest

from robustness.estimates.table import select, to_csv
from robustness.video import decisions, metadata
from robustness.video.answers import ReviewPlan
from robustness.video.candidates import Candidates, Item
from robustness.video.decisions import no_objection
from robustness.video.review_rounds import ReviewRounds, strict_majority
from tests.refusals import refused
from tests.table_rows import estimate
from tests.video.review_frames import CLASS_NAMES, answer, candidates, path

SETS = candidates()
PAIRS = [Item('pair', number) for number in range(6)]


def reviewed(
  objections: dict[int, int] | None = None,
  bad: int = 0,
  added: tuple[int, ...] = (),
  sets: Candidates = SETS,
) -> ReviewRounds:
  """Returns a finished review by three annotators.

  Args:
    objections: The number of annotators that call a pair dissimilar in both rounds, by pair.
    bad: The number of annotators that call the label of anchor 1 wrong.
    added: Classes that everybody adds to anchor 0.
    sets: What is reviewed.
  """
  rounds = ReviewRounds(sets, ReviewPlan(annotators_per_pair=3, densify=bool(bad or added)))
  against = {Item('pair', number): count for number, count in (objections or {}).items()}
  against[Item('anchor', 1)] = bad
  for stage in ('individual', 'joint'):
    for item in sets.items.values():
      is_shown = item.kind == 'pair' or rounds.plan.densify
      if not is_shown or (stage == 'joint' and not against.get(item)):
        continue
      extra = {'added': added} if item == Item('anchor', 0) else {}
      for number in range(3):
        keep = number >= against.get(item, 0)
        rounds.add(answer(sets, item, f'annotator {number}', stage, keep, **extra))
  return rounds


def decided(rounds: ReviewRounds, rule: decisions.Rule = strict_majority) -> decisions.Decisions:
  return decisions.decide(rounds, rule)


def table_of(rounds: ReviewRounds) -> pd.DataFrame:
  return decisions.table(rounds, decided(rounds))


def sets_of(rounds: ReviewRounds) -> metadata.NeighborSets:
  return decisions.reviewed_sets(rounds.candidates, decided(rounds))


def test_a_pair_stays_with_a_strict_majority():
  rounds = reviewed({1: 1, 4: 2, 5: 3})
  outcome = decided(rounds)
  assert outcome.pair_accepted.tolist() == [True, True, True, True, False, False]
  assert outcome.pair_reviewed.all() and outcome.anchor_accepted.all() and not outcome.unsettled
  strict = decided(rounds, no_objection)
  assert strict.pair_accepted.tolist() == [True, False, True, True, False, False]


def test_pairs_of_a_bad_anchor_are_rejected():
  outcome = decided(reviewed(bad=2))
  assert outcome.anchor_accepted.tolist() == [True, False]
  assert outcome.pair_accepted.tolist() == [True] * 3 + [False] * 3
  assert outcome.anchor_reviewed.all() and outcome.pair_reviewed.all() and not outcome.unsettled
  once = reviewed(bad=1)
  assert decided(once).anchor_accepted.all()
  assert decided(once, no_objection).anchor_accepted.tolist() == [True, False]


def test_unsettled_items_are_named_and_not_accepted():
  """Two annotators have answered pair 0, one has answered pair 1."""
  answers = [answer(SETS, *about) for about in ((PAIRS[0],), (PAIRS[0], 'bob'), (PAIRS[1],))]
  outcome = decided(ReviewRounds(SETS, ReviewPlan(), answers))
  assert outcome.unsettled == tuple(PAIRS[1:])
  assert outcome.pair_accepted.tolist() == [True, *[False] * 5]
  assert outcome.anchor_reviewed.tolist() == outcome.anchor_accepted.tolist() == [True, False]
  message = f'5 anchors and pairs, first about {path(0, 10)} with {path(0, 11)}'
  refused(message, outcome.require_settled, SETS)
  decided(reviewed()).require_settled(SETS)
  densified = ReviewRounds(SETS, ReviewPlan(densify=True), [answer(SETS, Item('anchor', 0))])
  assert not decided(densified).pair_reviewed.any(), 'nobody has seen a pair yet'


def test_an_anchor_without_neighbors_is_reviewed_alone():
  single = Candidates(metadata.from_mappings({path(0, 10): []}, {path(0, 10): [0]}), CLASS_NAMES)
  anchor, rounds = Item('anchor', 0), ReviewRounds(single, ReviewPlan(annotators_per_pair=1))
  assert rounds.next('ann') == (anchor, 'individual') and decided(rounds).unsettled == (anchor,)
  rounds.add(answer(single, anchor))
  assert decided(rounds).anchor_accepted.all() and rounds.next('ann') is None


def test_sets_are_written_in_the_released_format(tmp_path):
  metadata.write(sets_of(reviewed({0: 3, 4: 3})), tmp_path)
  files = (tmp_path / f'metadata/{name}.json' for name in ('pmsets', 'labels'))
  sets, labels = (json.loads(file.read_text()) for file in files)
  assert sets == {path(0, 10): [path(0, 11), path(0, 12)], path(1, 10): [path(1, 9), path(1, 12)]}
  frames_of = {0: (10, 11, 12), 1: (9, 10, 12)}
  assert labels == {path(v, frame): [v] for v, frames in frames_of.items() for frame in frames}
  alone = sets_of(reviewed({0: 3, 1: 3, 2: 3}))
  assert [len(members) for members in alone.neighbors] == [0, 3], 'the anchor stays'
  refused('no anchor was accepted', sets_of, ReviewRounds(SETS, ReviewPlan()))


def test_added_labels_go_to_the_anchor_and_its_labelled_neighbors():
  rounds = reviewed(added=(2,))
  assert sets_of(rounds).labels.tolist() == [[0, 2]] * 4 + [[1, -1]] * 4
  table = table_of(rounds)
  updated = estimate(table, 'review', 'labels_updated')
  assert (updated.value, updated.n) == (0.5, 2)
  assert estimate(table, 'review', 'labels_added_per_anchor').value == 0.5


def test_unlabelled_neighbors_gain_the_labels_of_their_anchor():
  ytbb = metadata.from_mappings(
    {'id_0/frame-3.jpg': ['id_0/frame-4.jpg'], 'id_1/frame-3.jpg': ['id_1/frame-2.jpg']},
    {'id_0/frame-3.jpg': [0], 'id_1/frame-3.jpg': [1]},
  )
  sets = sets_of(reviewed(added=(2,), sets=Candidates(ytbb, CLASS_NAMES)))
  assert sets.labels.tolist() == [[0, 2], [0, 2], [1, -1], [1, -1]]


def test_frame_facts_stay_with_their_frames():
  facts = {path(1, 12): {'frame_type': 'b', 'fps': 25.0}}
  members = {path(1, 10): [path(1, 9), path(1, 11), path(1, 12)]}
  labels = {path(1, frame): [1] for frame in (9, 10, 11, 12)}
  with_facts = Candidates(metadata.from_mappings(members, labels, (), facts), CLASS_NAMES)
  sets = sets_of(reviewed({1: 3}, sets=with_facts))
  place = sets.frames.index(path(1, 12))
  assert sets.frame_types[place] == 'b' and np.flatnonzero(sets.fps == 25).tolist() == [place]


def test_table_one_counts_the_pairs_of_bad_anchors_as_reviewed_and_labels_only_if_densified():
  """The rows count accepted anchors, anchors with added labels if densified, and accepted pairs."""
  bad, plain = reviewed({0: 2}, bad=3), reviewed()
  for rounds, expected in ((bad, [(1, 2), (0, 1), (2, 6)]), (plain, [(2, 2), (6, 6)])):
    assert [row[1:] for row in decisions.counts(rounds, decided(rounds)).rows] == expected
  label_quantities = {'labels_updated', 'labels_added_per_anchor'}
  assert not label_quantities & set(table_of(plain).quantity)


LARGE = candidates(anchors=4, neighbors=5)


def individual_round(objections: dict[str, set[int]]) -> ReviewRounds:
  """Returns a review of 20 pairs; each annotator objects to the pairs of these numbers."""
  review = ReviewRounds(LARGE, ReviewPlan())
  for name, against in objections.items():
    for number in range(20):
      review.add(answer(LARGE, Item('pair', number), name, keep=number not in against))
  return review


def test_agreement_of_two_annotators():
  table = table_of(individual_round({'ann': {0, 1, 5}, 'bob': {0, 1, 7}}))
  for question in ('similar', 'keep'):
    assert estimate(table, 'review', 'agreement', question=question).value == 0.9
    chance = (3 * 3 + 17 * 17) / 20**2  # Both object to 3 of 20 pairs.
    cohen = estimate(table, 'review', 'cohen_kappa', question=question, annotators='ann and bob')
    assert cohen.value == pytest.approx((0.9 - chance) / (1 - chance))
    assert (cohen.n, cohen.clusters) == (20, 4)
    assert np.isnan(cohen.low) and 'too many' in cohen.note, 'four anchors'
  assert estimate(table, 'review', 'agreement', question='label').value == 1
  assert np.isnan(estimate(table, 'review', 'fleiss_kappa', question='label').value)
  assert {quantity.name for quantity in decisions.QUANTITIES} >= set(table.quantity)


def test_joint_answers_do_not_change_the_agreement():
  review = individual_round({'ann': {3}, 'bob': set()})
  before = table_of(review)
  for name in ('ann', 'bob'):
    review.add(answer(LARGE, Item('pair', 3), name, 'joint'))
  agreements = [table[table.question.notna()] for table in (before, table_of(review))]
  assert to_csv(agreements[0]) == to_csv(agreements[1])


def test_every_two_annotators_have_a_kappa():
  review = ReviewRounds(LARGE, ReviewPlan(annotators_per_pair=2))
  for number in range(20):
    for name in (('ann', 'bob', 'cid') * 2)[number % 3 :][:2]:
      review.add(answer(LARGE, Item('pair', number), name, keep=number % 4 > 0))
  rows = select(table_of(review), 'cohen_kappa', question='keep', annotators=...)
  assert rows.annotators.tolist() == ['ann and bob', 'ann and cid', 'bob and cid']
  assert rows.value.tolist() == [1, 1, 1] and rows.n.sum() == 20


def test_reasons_are_counted_by_pair():
  review = individual_round({'ann': {0, 1}, 'bob': {0}})
  moved = {'similar': 'dissimilar', 'feature': True, 'reasons': ('blur',)}
  review.add(answer(LARGE, Item('pair', 2), 'ann', similar='unsure'))
  review.add(answer(LARGE, Item('pair', 3), 'ann', label='incorrect'))
  review.add(answer(LARGE, Item('pair', 1), 'bob', **moved))
  names = ['blur', 'feature in only one', 'label incorrect', 'motion', 'similarity unsure']
  assert list(decisions.reasons(review).rows) == list(zip(names, [1, 1, 1, 2, 1], strict=True))


def test_a_review_without_answers_has_tables():
  review = ReviewRounds(LARGE, ReviewPlan())
  assert decisions.reasons(review).rows == []
  table = table_of(review)
  assert table.n.tolist() == [0] * len(table) and 'agreement' in set(table.quantity)
