"""Votes and the rules by which they keep a pair."""

from __future__ import annotations

import pytest

from robustness.core.errors import InputError
from robustness.video import review_ballots as ballots
from robustness.video.review_ballots import Ballot
from robustness.video.review_candidates import Item
from tests.video.review_frames import answer, candidates

SETS = candidates()
PAIR, ANCHOR = Item('pair', 0), Item('anchor', 0)


def ballot(votes: str, stage: str = 'individual') -> Ballot:
  """A ballot of one letter a vote: y keeps, n is dissimilar, u is unsure, w is a wrong label."""
  on_pair = Ballot()
  said: dict[str, dict] = {
    'y': {},
    'n': {'keep': False},
    'u': {'similar': 'unsure'},
    'w': {'label': 'incorrect'},
  }
  for number, vote in enumerate(votes):
    on_pair.add(answer(SETS, PAIR, f'annotator {number}', stage, **said[vote]))
  return on_pair


@pytest.mark.parametrize(
  ('votes', 'majority', 'ytbb'),
  [
    ('y', True, True),
    ('n', False, False),
    ('yy', True, True),
    ('yn', False, False),
    ('yyn', True, False),
    ('ynn', False, False),
    ('yynn', False, False),
    ('yyyn', True, False),
    ('yyu', True, False),
    ('yuu', False, False),
    ('yyw', True, False),
    ('yw', False, False),
    ('yyyy', True, True),
    ('', False, False),
  ],
)
def test_rules(votes: str, majority: bool, ytbb: bool) -> None:
  assert ballots.rule('strict_majority')(ballot(votes).votes) is majority
  assert ballots.rule('ytbb')(ballot(votes).votes) is ytbb


def test_an_unknown_rule_is_refused() -> None:
  with pytest.raises(InputError, match="did you mean 'strict_majority'"):
    ballots.rule('majority')


@pytest.mark.parametrize(
  ('votes', 'contested'), [('yy', False), ('yn', True), ('yu', True), ('yw', True), ('', False)]
)
def test_everything_not_plainly_similar_is_contested(votes: str, contested: bool) -> None:
  assert ballot(votes).contested is contested


def test_a_joint_answer_takes_the_place_of_the_individual_one() -> None:
  on_pair = ballot('yn')
  on_pair.add(answer(SETS, PAIR, 'annotator 1', 'joint'))
  assert len(on_pair.votes) == 2 and all(vote.accepts for vote in on_pair.votes)
  assert on_pair.contested


def test_a_later_answer_replaces_an_earlier_one() -> None:
  on_pair = ballot('n')
  on_pair.add(answer(SETS, PAIR, 'annotator 0'))
  assert [vote.accepts for vote in on_pair.votes] == [True]


@pytest.mark.parametrize(
  ('additions', 'added'),
  [([(2,), (2,)], (2,)), ([(2,), ()], ()), ([(1, 2), (2,), (1, 2)], (1, 2)), ([()], ())],
)
def test_labels_are_added_by_strict_majority(additions: list, added: tuple) -> None:
  on_pair = Ballot()
  for number, classes in enumerate(additions):
    on_pair.add(answer(SETS, ANCHOR, f'annotator {number}', added=classes))
  assert on_pair.added == added
  assert on_pair.contested is (len(set(additions)) > 1)
