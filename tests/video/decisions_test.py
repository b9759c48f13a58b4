"""What a review leaves: sets, labels and counts."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pandas as pd
import pytest

from robustness.core.errors import InputError
from robustness.estimates.table import select, to_csv
from robustness.video import decisions, metadata
from robustness.video.answers import ReviewPlan
from robustness.video.candidates import Candidates, Item
from robustness.video.decisions import no_objection
from robustness.video.review_rounds import ReviewRounds, strict_majority
from tests.table_rows import estimate
from tests.video.review_frames import CLASS_NAMES, answer, candidates, path

SETS = candidates()
PAIRS = [Item('pair', number) for number in range(6)]


def reviewed(
  objections: dict[int, int] | None = None,
  annotators: int = 3,
  bad: int = 0,
  added: tuple[int, ...] = (),
  of: Candidates = SETS,
) -> ReviewRounds:
  """A finished review.

  Args:
    objections: by pair, how many annotators find it moved, alone and jointly.
    annotators: how many answer about each pair.
    bad: how many call anchor 1 bad.
    added: classes that everybody adds to anchor 0.
  """
  rounds = ReviewRounds(of, ReviewPlan(annotators_per_pair=annotators, densify=bool(bad or added)))
  against = {Item('pair', number): count for number, count in (objections or {}).items()}
  against[Item('anchor', 1)] = bad
  for stage in ('individual', 'joint'):
    for item in of.items.values():
      asked = item.kind == 'pair' or rounds.plan.densify
      if not asked or (stage == 'joint' and not against.get(item)):
        continue
      extra = {'added': added} if item == Item('anchor', 0) else {}
      for number in range(annotators):
        keep = number >= against.get(item, 0)
        rounds.add(answer(of, item, f'annotator {number}', stage, keep, **extra))
  return rounds


def decided(rounds: ReviewRounds, rule: decisions.Rule = strict_majority) -> decisions.Decisions:
  return decisions.decide(rounds, rule)


def test_a_pair_stays_with_a_strict_majority() -> None:
  rounds = reviewed({1: 1, 4: 2, 5: 3})
  outcome = decided(rounds)
  assert outcome.pair_accepted.tolist() == [True, True, True, True, False, False]
  assert outcome.pair_reviewed.all() and outcome.anchor_accepted.all() and not outcome.unsettled
  strict = decided(rounds, no_objection)
  assert strict.pair_accepted.tolist() == [True, False, True, True, False, False]


def test_half_is_no_strict_majority() -> None:
  outcome = decided(reviewed({0: 2}, annotators=4))
  assert outcome.pair_accepted.tolist() == [False, *[True] * 5]


def test_a_bad_anchor_takes_its_pairs_along() -> None:
  outcome = decided(reviewed(bad=2))
  assert outcome.anchor_accepted.tolist() == [True, False]
  assert outcome.pair_accepted.tolist() == [True] * 3 + [False] * 3
  assert outcome.anchor_reviewed.all() and outcome.pair_reviewed.all() and not outcome.unsettled
  once = reviewed(bad=1)
  assert decided(once).anchor_accepted.all()
  assert decided(once, no_objection).anchor_accepted.tolist() == [True, False]


def test_what_is_unsettled_is_named_and_not_kept() -> None:
  rounds = ReviewRounds(
    SETS,
    ReviewPlan(),
    [answer(SETS, PAIRS[0], name) for name in ('ann', 'bob')] + [answer(SETS, PAIRS[1])],
  )
  outcome = decided(rounds)
  assert outcome.unsettled == tuple(PAIRS[1:])
  assert outcome.pair_accepted.tolist() == [True, *[False] * 5]
  assert outcome.anchor_reviewed.tolist() == outcome.anchor_accepted.tolist() == [True, False]
  with pytest.raises(
    InputError, match=f'5 anchors and pairs, first about {path(0, 10)} with {path(0, 11)}'
  ):
    outcome.require_settled(SETS)
  decided(reviewed()).require_settled(SETS)


def test_sets_are_written_in_the_released_format(tmp_path: pathlib.Path) -> None:
  metadata.write(decisions.reviewed_sets(SETS, decided(reviewed({0: 3, 4: 3}))), tmp_path)
  sets, labels = (
    json.loads((tmp_path / f'metadata/{name}.json').read_text()) for name in ('pmsets', 'labels')
  )
  assert sets == {path(0, 10): [path(0, 11), path(0, 12)], path(1, 10): [path(1, 9), path(1, 12)]}
  kept = {0: (10, 11, 12), 1: (9, 10, 12)}
  assert labels == {path(v, frame): [v] for v, frames in kept.items() for frame in frames}


def test_an_accepted_anchor_stays_without_neighbors() -> None:
  outcome = decided(reviewed({0: 3, 1: 3, 2: 3}))
  sets = decisions.reviewed_sets(SETS, outcome)
  assert [len(members) for members in sets.neighbors] == [0, 3]


def test_added_labels_go_to_the_anchor_and_its_labelled_neighbors() -> None:
  rounds = reviewed(added=(2,))
  outcome = decided(rounds)
  sets = decisions.reviewed_sets(SETS, outcome)
  assert sets.labels.tolist() == [[0, 2]] * 4 + [[1, -1]] * 4
  table = decisions.table(rounds, outcome)
  updated = estimate(table, 'review', 'labels_updated')
  assert (updated.value, updated.n) == (0.5, 2)
  assert estimate(table, 'review', 'labels_added_per_anchor').value == 0.5


def test_neighbors_that_take_their_anchors_labels_still_do() -> None:
  ytbb = metadata.from_mappings(
    {'id_0/frame-3.jpg': ['id_0/frame-4.jpg'], 'id_1/frame-3.jpg': ['id_1/frame-2.jpg']},
    {'id_0/frame-3.jpg': [0], 'id_1/frame-3.jpg': [1]},
  )
  of = Candidates(ytbb, CLASS_NAMES)
  sets = decisions.reviewed_sets(of, decided(reviewed(added=(2,), of=of)))
  assert sets.labels.tolist() == [[0, 2], [-1, -1], [-1, -1], [1, -1]]
  assert sets.pair_labels('anchor').tolist() == [[0, 2], [1, -1]]


def test_frame_facts_stay_with_their_frames() -> None:
  facts = {path(1, 12): {'frame_type': 'b', 'fps': 25.0}}
  members = {path(1, 10): [path(1, 9), path(1, 11), path(1, 12)]}
  labels = {path(1, frame): [1] for frame in (9, 10, 11, 12)}
  of = Candidates(metadata.from_mappings(members, labels, (), facts), CLASS_NAMES)
  sets = decisions.reviewed_sets(of, decided(reviewed({1: 3}, of=of)))
  assert sets.frame_types is not None and sets.fps is not None
  place = sets.frames.index(path(1, 12))
  assert sets.frame_types[place] == 'b' and np.flatnonzero(sets.fps == 25).tolist() == [place]


def test_nothing_left_is_refused() -> None:
  with pytest.raises(InputError, match='no anchor was accepted'):
    decisions.reviewed_sets(SETS, decided(ReviewRounds(SETS, ReviewPlan())))


def test_table_one_counts_the_pairs_of_bad_anchors_as_reviewed() -> None:
  rounds = reviewed({0: 2}, bad=3)
  counts = decisions.counts(rounds, decided(rounds))
  assert [row[1:] for row in counts.rows] == [(1, 2), (0, 1), (2, 6)]


def test_labels_not_densified_are_not_counted() -> None:
  rounds = reviewed()
  outcome = decided(rounds)
  assert [row[1:] for row in decisions.counts(rounds, outcome).rows] == [(2, 2), (6, 6)]
  assert not {'labels_updated', 'labels_added_per_anchor'} & set(
    decisions.table(rounds, outcome).quantity
  )


LARGE = candidates(anchors=4, neighbors=5)


def rounds(objections: dict[str, set[int]]) -> ReviewRounds:
  review = ReviewRounds(LARGE, ReviewPlan())
  for name, against in objections.items():
    for number in range(20):
      review.add(answer(LARGE, Item('pair', number), name, keep=number not in against))
  return review


def table_of(review: ReviewRounds) -> pd.DataFrame:
  return decisions.table(review, decided(review))


def test_agreement_of_two_annotators() -> None:
  table = table_of(rounds({'ann': {0, 1, 5}, 'bob': {0, 1, 7}}))
  for question in ('similar', 'keep'):
    assert estimate(table, 'review', 'agreement', question=question).value == 0.9
    chance = (3 * 3 + 17 * 17) / 400
    cohen = estimate(table, 'review', 'cohen_kappa', question=question, annotators='ann and bob')
    assert cohen.value == pytest.approx((0.9 - chance) / (1 - chance))
    assert (cohen.n, cohen.clusters) == (20, 4)
    assert np.isnan(cohen.low) and 'too many' in cohen.note, 'four anchors'
  assert estimate(table, 'review', 'agreement', question='label').value == 1
  assert np.isnan(estimate(table, 'review', 'fleiss_kappa', question='label').value)
  assert {quantity.name for quantity in decisions.QUANTITIES} >= set(table.quantity)


def test_joint_answers_do_not_change_the_agreement() -> None:
  review = rounds({'ann': {3}, 'bob': set()})
  before = table_of(review)
  for name in ('ann', 'bob'):
    review.add(answer(LARGE, Item('pair', 3), name, 'joint'))
  agreed = [table[table.question.notna()] for table in (before, table_of(review))]
  assert to_csv(agreed[0]) == to_csv(agreed[1])


def test_every_two_annotators_have_a_kappa() -> None:
  review = ReviewRounds(LARGE, ReviewPlan(annotators_per_pair=2))
  for number in range(20):
    for name in (('ann', 'bob', 'cid') * 2)[number % 3 :][:2]:
      review.add(answer(LARGE, Item('pair', number), name, keep=number % 4 > 0))
  rows = select(table_of(review), 'cohen_kappa', question='keep', annotators=...)
  assert rows.annotators.tolist() == ['ann and bob', 'ann and cid', 'bob and cid']
  assert rows.value.tolist() == [1, 1, 1] and rows.n.sum() == 20


def test_reasons_are_counted_by_pair() -> None:
  review = rounds({'ann': {0, 1}, 'bob': {0}})
  moved = {'similar': 'dissimilar', 'feature': True, 'reasons': ('blur',)}
  for number, name, said in (
    (2, 'ann', {'similar': 'unsure'}),
    (3, 'ann', {'label': 'incorrect'}),
    (1, 'bob', moved),
  ):
    review.add(answer(LARGE, Item('pair', number), name, **said))
  names = ['blur', 'feature in only one', 'label incorrect', 'motion', 'similarity unsure']
  expected = zip(names, [1, 1, 1, 2, 1], strict=True)
  assert list(decisions.reasons(review).rows) == list(expected)


def test_a_review_without_answers_has_tables_too() -> None:
  review = ReviewRounds(LARGE, ReviewPlan())
  assert decisions.reasons(review).rows == []
  table = table_of(review)
  assert table.n.tolist() == [0] * len(table) and 'agreement' in set(table.quantity)
