"""Agreement and reasons from the answers of a review."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from robustness.estimates.table import select, to_csv
from robustness.video import review_decisions as decisions
from robustness.video import review_summary as summary
from robustness.video.review_ballots import strict_majority
from robustness.video.review_candidates import Item
from robustness.video.review_plan import Plan
from robustness.video.review_rounds import Rounds
from tests.table_rows import estimate
from tests.video.review_frames import answer, candidates

SETS = candidates(anchors=4, neighbors=5)


def rounds(objections: dict[str, set[int]]) -> Rounds:
  review = Rounds(SETS, Plan())
  for name, against in objections.items():
    for number in range(20):
      review.add(answer(SETS, Item('pair', number), name, keep=number not in against))
  return review


def table_of(review: Rounds) -> pd.DataFrame:
  return summary.table(review, decisions.decide(review, strict_majority))


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
  assert {quantity.name for quantity in summary.QUANTITIES} >= set(table.quantity)


def test_joint_answers_do_not_change_the_agreement() -> None:
  review = rounds({'ann': {3}, 'bob': set()})
  before = table_of(review)
  for name in ('ann', 'bob'):
    review.add(answer(SETS, Item('pair', 3), name, 'joint'))
  agreed = [table[table.question.notna()] for table in (before, table_of(review))]
  assert to_csv(agreed[0]) == to_csv(agreed[1])


def test_every_two_annotators_have_a_kappa() -> None:
  review = Rounds(SETS, Plan(annotators_per_pair=2))
  for number in range(20):
    for name in (('ann', 'bob', 'cid') * 2)[number % 3 :][:2]:
      review.add(answer(SETS, Item('pair', number), name, keep=number % 4 > 0))
  rows = select(table_of(review), 'cohen_kappa', question='keep', annotators=...)
  assert rows.annotators.tolist() == ['ann and bob', 'ann and cid', 'bob and cid']
  assert rows.value.tolist() == [1, 1, 1] and rows.n.sum() == 20


def test_reasons_are_counted_by_pair() -> None:
  review = rounds({'ann': {0, 1}, 'bob': {0}})
  review.add(answer(SETS, Item('pair', 2), 'ann', similar='unsure'))
  review.add(answer(SETS, Item('pair', 3), 'ann', label='incorrect'))
  review.add(
    answer(SETS, Item('pair', 1), 'bob', similar='dissimilar', feature=True, reasons=('blur',))
  )
  assert list(summary.reasons(review).rows) == [
    ('blur', 1),
    ('feature in only one', 1),
    ('label incorrect', 1),
    ('motion', 2),
    ('similarity unsure', 1),
  ]


def test_a_review_without_answers_has_tables_too() -> None:
  review = Rounds(SETS, Plan())
  assert summary.reasons(review).rows == []
  table = table_of(review)
  assert table.n.tolist() == [0] * len(table) and 'agreement' in set(table.quantity)
