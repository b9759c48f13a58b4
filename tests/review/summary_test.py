"""Agreement and reasons from the answers of a review."""

from __future__ import annotations

import numpy as np

from robustness.review import summary
from robustness.review.candidates import Item
from robustness.review.plan import Plan
from robustness.review.printing import text
from robustness.review.rounds import Rounds
from tests.review.frames import answer, candidates

SETS = candidates(anchors=4, neighbors=5)


def rounds(objections: dict[str, set[int]]) -> Rounds:
  review = Rounds(SETS, Plan())
  for name, against in objections.items():
    for number in range(20):
      review.add(answer(SETS, Item('pair', number), name, keep=number not in against))
  return review


def test_agreement_of_two_annotators() -> None:
  table = summary.agreement(rounds({'ann': {0, 1, 5}, 'bob': {0, 1, 7}}))
  values = {(row[0], row[1]): row[2:] for row in table.rows}
  for question in ('similar', 'keep'):
    assert values[question, 'agreement'][0] == 0.9
    chance = (3 * 3 + 17 * 17) / 400
    cohen = values[question, "Cohen's kappa, ann and bob"]
    np.testing.assert_allclose(cohen[0], (0.9 - chance) / (1 - chance))
    assert cohen[1] <= cohen[0] <= cohen[2] and cohen[3] == 20
  assert values['label', 'agreement'][0] == 1
  assert np.isnan(values['label', "Fleiss' kappa"][0])


def test_joint_answers_do_not_change_the_agreement() -> None:
  review = rounds({'ann': {3}, 'bob': set()})
  before = summary.agreement(review)
  for name in ('ann', 'bob'):
    review.add(answer(SETS, Item('pair', 3), name, 'joint'))
  np.testing.assert_equal(summary.agreement(review).rows, before.rows)


def test_every_two_annotators_have_a_kappa() -> None:
  review = Rounds(SETS, Plan(annotators_per_pair=2))
  for number in range(20):
    for name in (('ann', 'bob', 'cid') * 2)[number % 3 :][:2]:
      review.add(answer(SETS, Item('pair', number), name, keep=number % 4 > 0))
  rows = [row for row in summary.agreement(review).rows if row[0] == 'keep' and 'Cohen' in row[1]]
  assert [row[1].split(', ')[1] for row in rows] == ['ann and bob', 'ann and cid', 'bob and cid']
  assert [row[2] for row in rows] == [1, 1, 1] and sum(row[5] for row in rows) == 20


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
  assert 'agreement' in text(summary.agreement(review))
