"""Who is shown what next: the individual round, and the joint round of what it left open."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from robustness.core.errors import InputError
from robustness.video.answers import INDIVIDUAL, JOINT, Answer, ReviewPlan
from robustness.video.candidates import ANCHOR, PAIR, Candidates, Item

UNCHECKED = 'unchecked'
HELD_SECONDS = 600.0  # for so long a pair is kept for the annotator to whom it was shown


class OutdatedAnswerError(InputError):
  """An answer to what has changed since it was shown."""


def strict_majority(votes: Sequence[Answer]) -> bool:
  """Keeps what more than half of the votes keep; half is not enough.

  Reference:
    Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, section 2.1.
  """
  return 2 * sum(vote.accepts for vote in votes) > len(votes)


@dataclasses.dataclass
class Ballot:
  """The answers about one item, by annotator, alone and after seeing the others'.

  A later one of the same round replaces an earlier.
  """

  individual: dict[str, Answer] = dataclasses.field(default_factory=dict)
  joint: dict[str, Answer] = dataclasses.field(default_factory=dict)

  def of(self, stage: str) -> dict[str, Answer]:
    """Returns the answers of a round."""
    return self.individual if stage == INDIVIDUAL else self.joint

  def add(self, answer: Answer) -> None:
    """Takes an answer in."""
    self.of(answer.round)[answer.annotator] = answer

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


class ReviewRounds:
  """The state of a review: every ballot, and what is next for whom.

  Everything but `next`, `previous`, `give` and `add` (which hold its lock) only reads.
  """

  def __init__(self, candidates: Candidates, plan: ReviewPlan, answers: Iterable[Answer] = ()):
    """Takes in earlier answers, in the order they were given."""
    self.candidates, self.plan = candidates, plan
    self.ballots: dict[Item, Ballot] = {}
    self._lock = threading.RLock()
    self._order: list[Item] = []  # of the individual round
    for anchor, pairs in enumerate(candidates.pairs_of):
      self._order += [Item(ANCHOR, anchor)] if plan.densify or not pairs else []
      self._order += [Item(PAIR, number) for number in pairs]
    self._individual = set(self._order)
    self._begin: dict[str, int] = {}  # by annotator, the first place that may still be theirs
    self._held: dict[Item, dict[str, float]] = {}
    self._contested: set[Item] = set()
    self._given: dict[str, dict[tuple[Item, str], None]] = {}  # by annotator, in their order
    self._done = 0
    for answer in answers:
      self.add(answer)

  def ballot(self, item: Item) -> Ballot:
    """Returns the answers about an item."""
    return self.ballots.get(item) or Ballot()

  def add(self, answer: Answer, write: Callable[[Answer], None] = lambda answer: None) -> None:
    """Takes in an answer, once `write` has returned."""
    item = self.candidates.items.get((answer.anchor, answer.neighbor))
    if item is None:
      raise InputError(
        f'anchor {answer.anchor} with neighbor {answer.neighbor} is not under review.'
      )
    with self._lock:
      if answer.round == JOINT and not self.ready_for_joint(item):
        raise InputError(
          f'{item} is not in the joint round: nobody objected to it, or not '
          'everybody has answered alone.'
        )
      write(answer)
      ballot = self.ballots.setdefault(item, Ballot())
      before = self._awaited(item)
      ballot.add(answer)
      self._done += before - self._awaited(item)
      self._held.get(item, {}).pop(answer.annotator, None)
      given = self._given.setdefault(answer.annotator, {})
      given.pop((item, answer.round), None)
      given[item, answer.round] = None
      (self._contested.add if ballot.contested else self._contested.discard)(item)

  def give(
    self, answer: Answer, write: Callable[[Answer], None], replaces: object = UNCHECKED
  ) -> None:
    """Takes in an answer that is given now, unless it was overtaken by another.

    `replaces` is the time of this annotator's answer of the same round that the page showed, None
    for none, or `UNCHECKED`.

    Raises:
      OutdatedAnswerError: another window has answered, or the annotator has voted jointly.
    """
    item, name = self.candidates.items.get((answer.anchor, answer.neighbor)), answer.annotator
    with self._lock:
      if item and answer.round == INDIVIDUAL and name in self.ballot(item).joint:
        raise OutdatedAnswerError(
          f'{name} has voted on {item} in the joint round: the individual answer stands.'
        )
      if item and replaces not in (UNCHECKED, self.given_at(item, answer.round, name)):
        raise OutdatedAnswerError(
          f'{name} has answered {item} in another window since it was shown here: that answer '
          'stands. Go back to change it.'
        )
      self.add(answer, write)

  def given_at(self, item: Item, stage: str, annotator: str) -> float | None:
    """Returns when an annotator answered about an item in a round, or None."""
    answer = self.ballot(item).of(stage).get(annotator)
    return answer.time if answer else None

  def next(self, annotator: str) -> tuple[Item, str] | None:
    """Returns what an annotator judges next and in which round; None when nothing is left.

    First their share of the individual round, then the joint round, anchors before pairs. The
    pairs of an anchor that somebody called bad wait for the joint verdict on it.
    """
    with self._lock:
      begin = self._begin.get(annotator, 0)
      while begin < len(self._order) and self._over(self._order[begin], annotator):
        begin += 1
      self._begin[annotator] = begin
      for place in range(begin, len(self._order)):
        if self._is_free(self._order[place], annotator):
          held = self._held.setdefault(self._order[place], {})
          held[annotator] = time.monotonic() + HELD_SECONDS
          return self._order[place], INDIVIDUAL
      for item in sorted(self._contested):
        joint = self.ballot(item).joint
        lacks = annotator not in joint and len(joint) < self.plan.needed
        if lacks and self.ready_for_joint(item) and not self._is_blocked(item):
          return item, JOINT
      return None

  def previous(
    self, annotator: str, before: Item | None, stage: str = INDIVIDUAL
  ) -> tuple[Item, str] | None:
    """Returns what an annotator answered before an item, and in which round.

    An individual answer is not shown again once the annotator has voted jointly on its item, nor to
    who is in the joint round and has seen what others said. `before` None returns the last answer;
    `stage` is the round in which `before` is shown, and in which the earlier answer was given.
    """
    with self._lock:
      given = [
        (item, own)
        for item, own in self._given.get(annotator, {})
        if own == JOINT or annotator not in self.ballot(item).joint
      ]
      if before is not None:
        given = [entry for entry in given if entry[1] == stage]
        if (before, stage) in given:
          given = given[: given.index((before, stage))]
      return given[-1] if given else None

  def ready_for_joint(self, item: Item) -> bool:
    """Whether an item is contested and everybody has answered alone."""
    return item in self._contested and not self._awaited(item)

  def is_settled(self, item: Item) -> bool:
    """Whether no more answers are awaited about an item (for a pair, about its anchor too)."""
    if item.kind == PAIR and not self.is_settled(self.candidates.anchor_of(item)):
      return False
    if self._is_gone(item):
      return True
    joint = len(self.ballot(item).joint)
    return not self._awaited(item) and (item not in self._contested or joint >= self.plan.needed)

  def progress(self, annotator: str) -> dict[str, int]:
    """Returns how far the review is, in answers: this annotator's, and of the two rounds."""
    with self._lock:
      # nobody waits for answers about pairs of an anchor that was called bad
      excused = sum(
        self._awaited(Item(PAIR, number))
        for anchor in self._contested
        if anchor.kind == ANCHOR and self._blocks(anchor)
        for number in self.candidates.pairs_of[anchor.number]
      )
      votes = [
        min(len(self.ballot(item).joint), self.plan.needed)
        for item in self._contested
        if not self._is_gone(item)
      ]
      return {
        'own': len(self._given.get(annotator, {})),
        'individual': self._done,
        'individual_of': len(self._order) * self.plan.annotators_per_pair - excused,
        'joint': sum(votes),
        'joint_of': len(votes) * self.plan.needed,
      }

  def annotators(self) -> list[str]:
    """Returns everybody who has answered, in the order of their first answers."""
    return list(self._given)

  def _over(self, item: Item, annotator: str) -> bool:
    """Whether an annotator has no individual answer about an item to give."""
    individual = self.ballot(item).individual
    return annotator in individual or len(individual) >= self.plan.annotators_per_pair

  def _is_free(self, item: Item, annotator: str) -> bool:
    """Whether an annotator may be shown an item that is not held for enough others."""
    if self._over(item, annotator) or self._is_blocked(item):
      return False
    now, individual = time.monotonic(), self.ballot(item).individual
    held = sum(
      until > now
      for name, until in self._held.get(item, {}).items()
      if name != annotator and name not in individual
    )
    return len(individual) + held < self.plan.annotators_per_pair

  def _is_blocked(self, item: Item) -> bool:
    """Whether a pair waits for the verdict on its anchor, or has gone with it."""
    return item.kind == PAIR and self._blocks(self.candidates.anchor_of(item))

  def _blocks(self, anchor: Item) -> bool:
    votes = self.ballot(anchor).individual.values()
    if anchor not in self._contested or all(vote.accepts for vote in votes):
      return False
    return not (self.is_settled(anchor) and strict_majority(self.ballot(anchor).votes))

  def _is_gone(self, item: Item) -> bool:
    """Whether a pair has gone with its anchor, which was found bad."""
    anchor = self.candidates.anchor_of(item)
    is_contested_pair = item.kind == PAIR and anchor in self._contested
    if not is_contested_pair or not self.is_settled(anchor):
      return False
    return not strict_majority(self.ballot(anchor).votes)

  def _awaited(self, item: Item) -> int:
    """How many individual answers about an item are still to come."""
    if item not in self._individual:  # an anchor that is not shown alone
      return 0
    return max(self.plan.annotators_per_pair - len(self.ballot(item).individual), 0)
