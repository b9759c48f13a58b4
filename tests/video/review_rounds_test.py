"""Tests how votes decide on pairs, and in what order annotators see pairs and anchors."""

import time
from typing import Any

import pytest

from robustness.video.answers import ReviewPlan
from robustness.video.candidates import Item
from robustness.video.decisions import RULES
from robustness.video.review_rounds import (
  RESERVATION_SECONDS,
  Ballot,
  OutdatedAnswerError,
  ReviewRounds,
)
from tests.cases import cases
from tests.refusals import refused
from tests.video.review_frames import answer, candidates

SETS = candidates()
PAIR, ANCHOR = Item('pair', 0), Item('anchor', 0)


VOTES = {'y': {}, 'n': {'keep': False}, 'u': {'similar': 'unsure'}, 'w': {'label': 'incorrect'}}


def ballot(votes: str) -> Ballot:
  """Returns votes on a pair: y keeps it, n says dissimilar, u unsure, w that the label is wrong."""
  on_pair = Ballot()
  for number, vote in enumerate(votes):
    on_pair.add(answer(SETS, PAIR, f'annotator {number}', **VOTES[vote]))
  return on_pair


def test_a_strict_majority_accepts_and_ytbb_requires_unanimity():
  for votes in ('y', 'yy', 'yyyy', 'yyn', 'yyyn', 'yyu', 'yyw'):
    assert RULES['strict_majority'](ballot(votes).votes)
    assert RULES['ytbb'](ballot(votes).votes) is (set(votes) == {'y'})
  for votes in ('', 'n', 'yn', 'yw', 'ynn', 'yynn', 'yuu'):  # Half of the votes are no majority.
    assert not any(rule(ballot(votes).votes) for rule in RULES.values())


def test_objections_contest_a_pair_and_later_answers_replace_earlier_ones():
  for votes, contested in (('yy', False), ('yn', True), ('yu', True), ('yw', True), ('', False)):
    assert ballot(votes).is_contested is contested
  on_pair = ballot('yn')
  on_pair.add(answer(SETS, PAIR, 'annotator 1', 'joint'))
  assert len(on_pair.votes) == 2 and all(vote.accepts for vote in on_pair.votes)
  assert on_pair.is_contested
  on_pair = ballot('n')
  on_pair.add(answer(SETS, PAIR, 'annotator 0'))
  assert [vote.accepts for vote in on_pair.votes] == [True]


@cases(
  'additions, added',
  ([(2,), (2,)], (2,)),
  ([(2,), ()], ()),
  ([(1, 2), (2,), (1, 2)], (1, 2)),
  ([()], ()),
)
def test_labels_are_added_by_strict_majority(additions, added):
  on_anchor = Ballot()
  for number, classes in enumerate(additions):
    on_anchor.add(answer(SETS, ANCHOR, f'annotator {number}', added=classes))
  assert on_anchor.added == added
  assert on_anchor.is_contested is (len(set(additions)) > 1)


ALL_PAIRS = [f'pair:{number}' for number in range(6)]


def started(**plan: Any) -> ReviewRounds:
  """Returns a review of `SETS` without answers."""
  return ReviewRounds(SETS, ReviewPlan(**plan))


@pytest.fixture
def rounds():
  """A review of two anchors with three pairs each; two annotators see every pair."""
  return started()


def work(rounds: ReviewRounds, annotator: str, *objections: str, **added: object) -> list[str]:
  """Answers everything that an annotator is shown; returns it as 'pair:0' or 'joint pair:0'.

  The answers keep all but `objections`; answers about anchors add the labels `added`.
  """
  seen = []
  while (choice := rounds.next(annotator)) is not None:
    item, stage = choice
    seen.append(f'{"joint " if stage == "joint" else ""}{item}')
    extra = added if item.kind == 'anchor' else {}
    rounds.add(answer(SETS, item, annotator, stage, seen[-1] not in objections, **extra))
  return seen


def settled(rounds: ReviewRounds) -> list[str]:
  """Returns the names of the anchors and pairs that need no more answers."""
  return [str(item) for item in SETS.items.values() if rounds.is_settled(item)]


def test_every_pair_is_shown_once_to_the_planned_number_of_annotators(rounds):
  assert work(rounds, 'ann') == work(rounds, 'bob') == ALL_PAIRS
  assert rounds.next('ann') is None
  assert settled(rounds) == ['anchor:0', 'anchor:1', *ALL_PAIRS]
  rounds = started(annotators_per_pair=1)
  assert work(rounds, 'ann') == ALL_PAIRS and work(rounds, 'bob') == []


def test_a_shown_pair_is_reserved_for_its_annotator_for_some_time(monkeypatch):
  start, rounds = time.monotonic(), started(annotators_per_pair=1)
  assert rounds.next('ann') == rounds.next('ann') == (PAIR, 'individual')
  assert rounds.next('bob') == (Item('pair', 1), 'individual')
  monkeypatch.setattr(time, 'monotonic', lambda: start + 2 * RESERVATION_SECONDS)
  assert rounds.next('cid') == (PAIR, 'individual')


def test_contested_pairs_are_shown_jointly_after_all_individual_answers(rounds):
  assert work(rounds, 'ann', 'pair:1') == ALL_PAIRS
  assert work(rounds, 'bob', 'pair:4') == [*ALL_PAIRS, 'joint pair:1', 'joint pair:4']
  assert not {'pair:1', 'pair:4'} & set(settled(rounds))
  assert work(rounds, 'ann') == ['joint pair:1', 'joint pair:4']
  assert work(rounds, 'cid') == []
  assert settled(rounds)[2:] == ALL_PAIRS
  rounds = started(annotators_per_pair=1, joint_votes=3)  # more votes in the joint round
  assert work(rounds, 'ann', 'pair:2') == [*ALL_PAIRS, 'joint pair:2']
  for annotator in ('bob', 'cid'):
    assert 'pair:2' not in settled(rounds)
    assert work(rounds, annotator) == ['joint pair:2']
  assert 'pair:2' in settled(rounds)


def reject_anchor(rounds: ReviewRounds, annotator: str = 'ann') -> None:
  """Answers that the label of the first anchor is wrong."""
  rounds.add(answer(SETS, ANCHOR, annotator, keep=False))


def test_pairs_of_a_bad_anchor_wait_for_the_joint_verdict_and_are_dropped(rounds):
  assert rounds.next('ann') == (PAIR, 'individual')
  reject_anchor(rounds)
  assert rounds.progress('ann')['individual_of'] == 6
  for name in ('ann', 'bob'):
    seen = work(rounds, name, 'joint anchor:0')
    assert seen == [*ALL_PAIRS[3:], 'joint anchor:0']
  assert settled(rounds) == ['anchor:0', 'anchor:1', *ALL_PAIRS]
  assert rounds.next('ann') is None


def test_pairs_of_an_anchor_return_if_the_joint_verdict_is_good(rounds):
  reject_anchor(rounds)
  assert work(rounds, 'ann') == [*ALL_PAIRS[3:], 'joint anchor:0']
  assert work(rounds, 'bob') == [*ALL_PAIRS[3:], 'joint anchor:0', *ALL_PAIRS[:3]]
  assert work(rounds, 'ann') == ALL_PAIRS[:3]
  assert settled(rounds) == ['anchor:0', 'anchor:1', *ALL_PAIRS]


def test_anchors_are_shown_first_to_densify_labels():
  rounds = started(densify=True)
  order = ['anchor:0', *ALL_PAIRS[:3], 'anchor:1', *ALL_PAIRS[3:]]
  assert work(rounds, 'ann', added=(2,)) == order
  assert work(rounds, 'bob', added=(1, 2)) == [*order, 'joint anchor:0', 'joint anchor:1']
  assert rounds.ballot(ANCHOR).added == (2,)


def test_progress_counts_answers_of_both_rounds(rounds):
  work(rounds, 'ann', 'pair:0')
  totals = {'individual_of': 12, 'joint_of': 2}
  assert rounds.progress('ann') == {'own': 6, 'individual': 6, 'joint': 0, **totals}
  work(rounds, 'bob')
  work(rounds, 'ann')
  assert rounds.progress('bob') == {'own': 7, 'individual': 12, 'joint': 2, **totals}


def test_going_back_and_changing_an_answer(rounds):
  assert rounds.previous('ann', None) is None
  work(rounds, 'ann')
  assert rounds.previous('ann', None) == (Item('pair', 5), 'individual')
  assert rounds.previous('ann', Item('pair', 5)) == (Item('pair', 4), 'individual')
  rounds.add(answer(SETS, Item('pair', 4), 'ann', keep=False))
  assert rounds.progress('ann')['own'] == 6 and rounds.progress('ann')['joint_of'] == 2
  rounds.add(answer(SETS, Item('pair', 4), 'ann'))
  assert rounds.progress('ann')['joint_of'] == 0


def test_going_back_stays_in_the_round_and_joint_votes_close_individual_answers(rounds):
  work(rounds, 'ann', 'pair:1', 'pair:4')
  for number in range(6):
    rounds.add(answer(SETS, Item('pair', number), 'bob'))
  first, second = Item('pair', 1), Item('pair', 4)
  assert rounds.next('bob') == (first, 'joint')
  assert rounds.previous('bob', first, 'joint') is None, 'not an individual answer'
  rounds.add(answer(SETS, first, 'bob', 'joint'))
  assert rounds.next('bob') == (second, 'joint')
  assert rounds.previous('bob', second, 'joint') == (first, 'joint')
  assert rounds.previous('bob', first, 'joint') is None
  assert rounds.previous('bob', None) == (first, 'joint')
  assert rounds.previous('bob', Item('pair', 2)) == (PAIR, 'individual')
  with pytest.raises(OutdatedAnswerError, match='joint round: the individual answer stands'):
    rounds.submit(answer(SETS, first, 'bob'), lambda accepted: None)
  assert rounds.ballot(first).individual['bob'].similar == 'similar'


def test_dropped_pairs_do_not_keep_the_joint_round_open(rounds):
  for name in ('ann', 'bob'):
    rounds.add(answer(SETS, PAIR, name, keep=False))
  reject_anchor(rounds)
  for name in ('ann', 'bob', 'ann'):
    work(rounds, name, 'joint anchor:0')
  assert rounds.next('ann') is None and rounds.next('bob') is None
  progress = rounds.progress('ann')
  assert progress['joint'] == progress['joint_of'] == 2, 'the votes on the anchor'
  assert progress['individual'] == progress['individual_of']


def test_earlier_answers_in_their_order_give_the_same_state(rounds):
  log, add = [], rounds.add
  rounds.add = lambda new: add(new, log.append)  # type: ignore[method-assign]
  reject_anchor(rounds)
  work(rounds, 'ann', 'pair:4')
  again = ReviewRounds(SETS, ReviewPlan(), log)
  assert again.ballots == rounds.ballots
  for name in ('ann', 'bob'):
    assert again.next(name) == rounds.next(name)
  assert again.progress('ann') == rounds.progress('ann')


def test_answers_out_of_turn_are_refused(rounds):
  refused('pair:0 is not in the joint round', rounds.add, answer(SETS, PAIR, stage='joint'))
  refused('is not under review', rounds.add, answer(candidates(anchors=3), Item('pair', 8)))
