"""All answers about one pair or one anchor, and what they decide."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from robustness.core.errors import InputError, nearest
from robustness.video.review_answers import INDIVIDUAL, Answer


@dataclasses.dataclass
class Ballot:
  """The answers about one item, by annotator; a later one of the same round replaces an earlier.

  Attributes:
    individual: what each annotator said alone.
    joint: what each annotator said after seeing the others' answers.
  """

  individual: dict[str, Answer] = dataclasses.field(default_factory=dict)
  joint: dict[str, Answer] = dataclasses.field(default_factory=dict)

  def add(self, answer: Answer) -> None:
    """Takes an answer in."""
    answers = self.individual if answer.round == INDIVIDUAL else self.joint
    answers[answer.annotator] = answer

  @property
  def votes(self) -> list[Answer]:
    """The votes: of every annotator the joint answer, or else the individual one."""
    return list({**self.individual, **self.joint}.values())

  @property
  def contested(self) -> bool:
    """Whether it goes to the joint round.

    That is where an annotator alone did not find the labels correct and the pair plainly
    similar, or where the annotators would add different labels to an anchor.
    """
    answers = self.individual.values()
    different = len({frozenset(answer.added) for answer in answers}) > 1
    return different or not all(answer.accepts for answer in answers)

  @property
  def added(self) -> tuple[int, ...]:
    """The classes that a strict majority of the votes adds to the labels, ascending."""
    votes = self.votes
    counts = Counter(label for vote in votes for label in set(vote.added))
    return tuple(sorted(label for label, count in counts.items() if 2 * count > len(votes)))


Rule = Callable[[Sequence[Answer]], bool]


def strict_majority(votes: Sequence[Answer]) -> bool:
  """Keeps what more than half of the votes keep; half is not enough.

  Reference:
    Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, section 2.1.
  """
  return 2 * sum(vote.accepts for vote in votes) > len(votes)


def no_objection(votes: Sequence[Answer]) -> bool:
  """Keeps what somebody keeps and nobody marks otherwise: the rule of YTBB-Robust.

  There a pair is kept when it is marked similar and by nobody dissimilar, incorrect, unsure,
  or changed (deformation, background, occlusion, blur).
  """
  return bool(votes) and all(vote.accepts for vote in votes)


RULES: Mapping[str, Rule] = {'strict_majority': strict_majority, 'ytbb': no_objection}


def rule(name: str) -> Rule:
  """Returns the rule of that name.

  Raises:
    InputError: there is none.
  """
  if name not in RULES:
    raise InputError(f'--rule={name} is no rule: {nearest(name, RULES)}.')
  return RULES[name]
