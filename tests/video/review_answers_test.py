"""Answers: what is a valid one, and its line in the log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from robustness.core.errors import InputError
from robustness.video.review_answers import Answer, check_name

PAIR: dict[str, Any] = {
  'annotator': 'ann',
  'round': 'individual',
  'anchor': 'v/1.jpg',
  'neighbor': 'v/2.jpg',
  'label': 'correct',
  'similar': 'similar',
}
ANCHOR: dict[str, Any] = {
  'annotator': 'ann',
  'round': 'joint',
  'anchor': 'v/1.jpg',
  'neighbor': None,
  'label': 'incorrect',
}


@pytest.mark.parametrize(
  'said',
  [
    PAIR,
    ANCHOR,
    {**PAIR, 'similar': 'dissimilar', 'reasons': ['motion', 'blur'], 'time': 1.5},
    {**PAIR, 'similar': 'dissimilar', 'feature': True},
    {**ANCHOR, 'added': [3, 5], 'shown': [0]},
  ],
)
def test_a_line_is_read_back(said: dict[str, Any]) -> None:
  answer = Answer.from_json(said)
  assert Answer.from_json(json.loads(json.dumps(answer.to_json()))) == answer


@pytest.mark.parametrize(
  ('change', 'accepts'),
  [
    ({}, True),
    ({'label': 'unsure'}, False),
    ({'label': 'incorrect'}, False),
    ({'similar': 'unsure'}, False),
    ({'similar': 'dissimilar', 'reasons': ['other']}, False),
  ],
)
def test_only_a_correct_and_similar_pair_is_accepted(change: dict, accepts: bool) -> None:
  assert Answer.from_json({**PAIR, **change}).accepts is accepts


@pytest.mark.parametrize(
  ('said', 'message'),
  [
    ({**PAIR, 'similar': 'similiar'}, "did you mean 'similar'"),
    ({**PAIR, 'similar': None}, 'similar = None is not an answer'),
    ({**PAIR, 'label': 'yes'}, "label = 'yes' is not an answer"),
    ({**PAIR, 'round': 'third'}, "round = 'third'"),
    ({**PAIR, 'similar': 'dissimilar'}, 'needs a reason'),
    ({**PAIR, 'similar': 'dissimilar', 'reasons': ['zoom']}, "reason = 'zoom'"),
    ({**PAIR, 'reasons': ['motion']}, "'similar' has a reason"),
    ({**PAIR, 'feature': True}, 'visible in only one frame'),
    ({**PAIR, 'similar': 'unsure', 'feature': True}, "mark it 'dissimilar'"),
    ({**PAIR, 'added': [1]}, 'leave the neighbor out'),
    ({**ANCHOR, 'similar': 'similar'}, 'name the neighbor'),
    ({**ANCHOR, 'added': [True]}, 'list of class ids'),
    ({**ANCHOR, 'added': 3}, 'list of class ids'),
    ({**PAIR, 'feature': 1}, 'true or false'),
    ({**PAIR, 'reasons': 'motion'}, 'list of words'),
    ({**PAIR, 'anchor': 3}, 'anchor = 3'),
    ({**PAIR, 'reason': []}, "did you mean 'reasons'"),
    ({'annotator': 'ann', 'round': 'joint'}, 'lacks anchor, label, neighbor'),
  ],
)
def test_contradictions_and_unknown_words_are_refused(said: dict, message: str) -> None:
  with pytest.raises(InputError, match=message):
    Answer.from_json(said)


@pytest.mark.parametrize(
  ('given', 'name'), [('ann', 'ann'), (' Ann B. ', 'Ann B.'), ('Zoe\u0308', 'Zo\u00eb'), ('7', '7')]
)
def test_names(given: str, name: str) -> None:
  assert check_name(given) == name


@pytest.mark.parametrize('given', ['', ' ', '<b>', 'a/b', '../x', 'a\nb', 'x' * 41, None, '.hid'])
def test_names_with_other_characters_are_refused(given: Any) -> None:
  with pytest.raises(InputError, match='is not a name'):
    check_name(given)
