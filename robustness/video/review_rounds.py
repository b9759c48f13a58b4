"""Who is shown what next: the individual round, and the joint round of what it left open."""

from __future__ import annotations

import bisect
import threading
import time
from collections.abc import Callable, Iterable

from robustness.core.errors import InputError
from robustness.video.review_answers import INDIVIDUAL, JOINT, Answer
from robustness.video.review_ballots import Ballot, strict_majority
from robustness.video.review_candidates import ANCHOR, PAIR, Candidates, Item
from robustness.video.review_plan import Plan

UNCHECKED = 'unchecked'
HELD_SECONDS = 600.0  # for so long a pair is kept for the annotator to whom it was shown


class OutdatedAnswerError(InputError):
  """An answer to what has been answered since it was shown."""


class Rounds:
  """The state of a review: every ballot, and what is next for whom.

  Everything but `next`, `previous`, `give` and `add` (which hold its lock) only reads.
  """

  def __init__(
    self,
    candidates: Candidates,
    plan: Plan,
    answers: Iterable[Answer] = (),
    clock: Callable[[], float] = time.monotonic,
  ):
    """Takes in earlier answers, in the order they were given."""
    self.candidates, self.plan = candidates, plan
    self.ballots: dict[Item, Ballot] = {}
    self._clock = clock
    self._lock = threading.RLock()
    self._order = _order(candidates, plan)
    self._individual = set(self._order)
    self._begin: dict[str, int] = {}  # by annotator, the first place that may still be theirs
    self._held: dict[Item, dict[str, float]] = {}
    self._contested: set[Item] = set()
    self._anchors: set[Item] = set()  # the anchors among them
    self._open: list[Item] = []  # those that lack joint votes, sorted
    self._given: dict[str, dict[tuple[Item, str], None]] = {}  # by annotator, in their order
    self._done = 0
    for answer in answers:
      self.add(answer)

  def ballot(self, item: Item) -> Ballot:
    """Returns the answers about an item."""
    return self.ballots.get(item) or Ballot()

  def add(self, answer: Answer, write: Callable[[Answer], None] = lambda answer: None) -> None:
    """Takes in an answer, once `write` has returned.

    Raises:
      InputError: nothing under review has these frames, or a joint answer comes too early.
    """
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
      self._take(item, answer)

  def give(
    self, answer: Answer, write: Callable[[Answer], None], replaces: float | str | None = UNCHECKED
  ) -> None:
    """Takes in an answer that is given now, unless it was overtaken by another.

    Args:
      answer: what is said.
      write: see `add`.
      replaces: the time of this annotator's answer of the same round that the page showed, None for
        none, or `UNCHECKED`.

    Raises:
      OutdatedAnswerError: there is another answer by now, from another window, or an individual
        answer comes after the annotator's joint vote.
      InputError: see `add`.
    """
    item = self.candidates.items.get((answer.anchor, answer.neighbor))
    with self._lock:
      if item is not None:
        self._check_current(item, answer, replaces)
      self.add(answer, write)

  def _check_current(self, item: Item, answer: Answer, replaces: float | str | None) -> None:
    name = answer.annotator
    if answer.round == INDIVIDUAL and name in self.ballot(item).joint:
      raise OutdatedAnswerError(
        f'{name} has voted on {item} in the joint round: the individual answer stands.'
      )
    if replaces not in (UNCHECKED, self.given_at(item, answer.round, name)):
      raise OutdatedAnswerError(
        f'{name} has answered {item} in another window since it was shown here: that answer '
        'stands. Go back to change it.'
      )

  def given_at(self, item: Item, stage: str, annotator: str) -> float | None:
    """Returns when an annotator answered about an item in a round, or None."""
    ballot = self.ballot(item)
    answer = (ballot.joint if stage == JOINT else ballot.individual).get(annotator)
    return answer.time if answer else None

  def _take(self, item: Item, answer: Answer) -> None:
    ballot = self.ballots.setdefault(item, Ballot())
    before = self._awaited(item)
    ballot.add(answer)
    self._done += before - self._awaited(item)
    self._held.get(item, {}).pop(answer.annotator, None)
    given = self._given.setdefault(answer.annotator, {})
    given.pop((item, answer.round), None)
    given[item, answer.round] = None
    self._sort_in(item, ballot)

  def _sort_in(self, item: Item, ballot: Ballot) -> None:
    change = set.add if ballot.contested else set.discard
    change(self._contested, item)
    if item.kind == ANCHOR:
      change(self._anchors, item)
    place = bisect.bisect_left(self._open, item)
    there = self._open[place : place + 1] == [item]
    lacking = ballot.contested and len(ballot.joint) < self.plan.needed
    if lacking and not there:
      self._open.insert(place, item)
    elif there and not lacking:
      del self._open[place]

  def next(self, annotator: str) -> tuple[Item, str] | None:
    """Returns what an annotator judges next and in which round; None when nothing is left.

    First their share of the individual round, then the joint round, anchors before pairs. The
    pairs of an anchor that somebody called bad wait for the joint verdict on it.
    """
    with self._lock:
      item = self._next_individual(annotator)
      if item is not None:
        self._held.setdefault(item, {})[annotator] = self._clock() + HELD_SECONDS
        return item, INDIVIDUAL
      item = next((joint for joint in self._open if self._awaits(joint, annotator)), None)
      return (item, JOINT) if item else None

  def previous(
    self, annotator: str, before: Item | None, stage: str = INDIVIDUAL
  ) -> tuple[Item, str] | None:
    """Returns what an annotator answered before an item, and in which round.

    An individual answer is not shown again once the annotator has voted jointly on its item, nor
    to who is in the joint round and has seen what others said.

    Args:
      annotator: whose answers.
      before: the item that is shown, None for none: then the last answer is returned.
      stage: the round in which it is shown, and in which the earlier answer was given.
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
    if item.kind == PAIR and not self.is_settled(self._anchor(item)):
      return False
    if self._is_gone(item):
      return True
    joint = len(self.ballot(item).joint)
    return not self._awaited(item) and (item not in self._contested or joint >= self.plan.needed)

  def progress(self, annotator: str) -> dict[str, int]:
    """Returns how far the review is, in answers: this annotator's, and of the two rounds."""
    with self._lock:
      excused = sum(self._excused(anchor) for anchor in self._anchors)
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

  def _next_individual(self, annotator: str) -> Item | None:
    begin = self._begin.get(annotator, 0)
    while begin < len(self._order) and self._over(self._order[begin], annotator):
      begin += 1
    self._begin[annotator] = begin
    places = range(begin, len(self._order))
    return next(
      (self._order[place] for place in places if self._is_open(self._order[place], annotator)), None
    )

  def _over(self, item: Item, annotator: str) -> bool:
    individual = self.ballot(item).individual
    return annotator in individual or len(individual) >= self.plan.annotators_per_pair

  def _is_open(self, item: Item, annotator: str) -> bool:
    if self._over(item, annotator) or self._is_blocked(item):
      return False
    now, individual = self._clock(), self.ballot(item).individual
    held = sum(
      until > now
      for name, until in self._held.get(item, {}).items()
      if name != annotator and name not in individual
    )
    return len(individual) + held < self.plan.annotators_per_pair

  def _anchor(self, item: Item) -> Item:
    if item.kind == ANCHOR:
      return item
    return Item(ANCHOR, self.candidates.pairs[item.number].anchor)

  def _is_blocked(self, item: Item) -> bool:
    """Whether a pair waits for the verdict on its anchor, or has gone with it."""
    return item.kind == PAIR and self._blocks(self._anchor(item))

  def _blocks(self, anchor: Item) -> bool:
    votes = self.ballot(anchor).individual.values()
    if anchor not in self._contested or all(vote.accepts for vote in votes):
      return False
    return not (self.is_settled(anchor) and self._is_good(anchor))

  def _is_good(self, anchor: Item) -> bool:
    return strict_majority(self.ballot(anchor).votes)

  def _awaits(self, item: Item, annotator: str) -> bool:
    return (
      annotator not in self.ballot(item).joint
      and self.ready_for_joint(item)
      and not self._is_blocked(item)
    )

  def _is_gone(self, item: Item) -> bool:
    """Whether a pair has gone with its anchor, which was found bad."""
    anchor = self._anchor(item)
    return (
      item.kind == PAIR
      and anchor in self._contested
      and self.is_settled(anchor)
      and not self._is_good(anchor)
    )

  def _excused(self, anchor: Item) -> int:
    """How many answers nobody waits for, as the anchor is called bad."""
    if not self._blocks(anchor):
      return 0
    return sum(
      self._awaited(Item(PAIR, number)) for number in self.candidates.pairs_of[anchor.number]
    )

  def _awaited(self, item: Item) -> int:
    """How many individual answers about an item are still to come."""
    if item not in self._individual:  # an anchor that is not shown alone
      return 0
    return max(self.plan.annotators_per_pair - len(self.ballot(item).individual), 0)


def _order(candidates: Candidates, plan: Plan) -> list[Item]:
  items: list[Item] = []
  for anchor, pairs in enumerate(candidates.pairs_of):
    items += [Item(ANCHOR, anchor)] if plan.densify else []
    items += [Item(PAIR, number) for number in pairs]
  return items
