"""The two rounds of a review: each annotator alone, then jointly on contested items."""

import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from robustness.core.errors import InputError
from robustness.video.answers import INDIVIDUAL, JOINT, Answer, ReviewPlan
from robustness.video.candidates import ANCHOR, PAIR, Candidates, Item

UNCHECKED = 'unchecked'
"""Value of `replaces` in `ReviewRounds.submit` that accepts an answer without a check."""
RESERVATION_SECONDS = 600.0
"""Time for which an item is reserved for an annotator to whom it was shown."""


class OutdatedAnswerError(InputError):
  """Raised for an answer about an item that has changed since the page showed it."""


def strict_majority(votes: Sequence[Answer]) -> bool:
  """Returns whether more than half of the votes accept an item.

  Reference:
    Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, section 2.1.
  """
  return 2 * sum(vote.accepts for vote in votes) > len(votes)


@dataclasses.dataclass
class Ballot:
  """All answers about one item, an anchor or a pair.

  Attributes:
    individual: {annotator: newest answer} of the individual round, in which each answers alone.
    joint: {annotator: newest answer} of the joint round, in which contested items are voted on.
  """

  individual: dict[str, Answer] = dataclasses.field(default_factory=dict)
  joint: dict[str, Answer] = dataclasses.field(default_factory=dict)

  def answers(self, review_round: str) -> dict[str, Answer]:
    """Returns {annotator: newest answer} of the round `review_round`."""
    return self.individual if review_round == INDIVIDUAL else self.joint

  def add(self, answer: Answer) -> None:
    """Adds an answer, which replaces an earlier one of the same annotator and round."""
    self.answers(answer.round)[answer.annotator] = answer

  @property
  def votes(self) -> list[Answer]:
    """The vote of every annotator: the joint answer, or without one the individual answer."""
    return list({**self.individual, **self.joint}.values())

  @property
  def is_contested(self) -> bool:
    """Whether annotators must vote jointly on the item, because they disagree or reject it.

    This is so if an individual answer does not accept the item, or if annotators would add
    different labels to an anchor.
    """
    answers = self.individual.values()
    has_different_additions = len({frozenset(answer.added) for answer in answers}) > 1
    return has_different_additions or not all(answer.accepts for answer in answers)

  @property
  def added(self) -> tuple[int, ...]:
    """The class ids that a strict majority of the votes adds to the labels, ascending."""
    counts = Counter(label for vote in self.votes for label in set(vote.added))
    half = len(self.votes) / 2
    return tuple(sorted(label for label, count in counts.items() if count > half))


class ReviewRounds:
  """The state of a review: all answers, and the next item of each annotator.

  Items are anchors and pairs. In the individual round each annotator answers alone. Items that
  somebody rejects, or for which annotators add different labels, are contested, and annotators vote
  on them in the joint round.

  Methods that change the state or reserve items (`next`, `previous`, `submit`, `add`, `progress`)
  hold a lock; the other methods only read.
  """

  def __init__(self, candidates: Candidates, plan: ReviewPlan, answers: Iterable[Answer] = ()):
    """Begins a review, or continues it with earlier answers.

    Args:
      candidates: the sets under review.
      plan: the rules of the review.
      answers: earlier answers, in the order in which they were given.
    """
    self.candidates, self.plan = candidates, plan
    self.ballots: dict[Item, Ballot] = {}
    self._lock = threading.RLock()
    self._order: list[Item] = []  # items of the individual round, in the order of the pages
    for anchor, pairs in enumerate(candidates.pairs_of):
      # The page of a pair shows its anchor too. An anchor has a page of its own only if annotators
      # add labels to it (`densify`), or if it has no pairs.
      self._order += [Item(ANCHOR, anchor)] if plan.densify or not pairs else []
      self._order += [Item(PAIR, number) for number in pairs]
    self._individual = set(self._order)
    # {annotator: index in `_order` of the first item that the annotator may still have to answer}
    self._first_open: dict[str, int] = {}
    self._reserved: dict[Item, dict[str, float]] = {}  # {item: {annotator: end of the reservation}}
    self._contested: set[Item] = set()  # items on which annotators must vote jointly
    # {annotator: {(item, round): None}}, in the order of the newest answers.
    self._history: dict[str, dict[tuple[Item, str], None]] = {}
    self._done = 0  # number of individual answers, without those beyond `annotators_per_pair`
    for answer in answers:
      self.add(answer)

  def ballot(self, item: Item) -> Ballot:
    """Returns all answers about an item; without any the ballot is empty."""
    return self.ballots.get(item) or Ballot()

  def add(self, answer: Answer, write: Callable[[Answer], None] = lambda answer: None) -> None:
    """Adds an answer to the state of the review.

    Args:
      answer: the answer.
      write: stores the answer; the state changes after it has returned.

    Raises:
      InputError: the item of the answer is not under review, or the answer is a joint vote on an
        item that needs no joint vote.
    """
    item = self.candidates.items.get((answer.anchor, answer.neighbor))
    if item is None:
      pair = f'anchor {answer.anchor} with neighbor {answer.neighbor}'
      raise InputError(f'{pair} is not under review.')
    with self._lock:
      if answer.round == JOINT and not self.ready_for_joint(item):
        reason = 'nobody objected to it, or not everybody has answered alone.'
        raise InputError(f'{item} is not in the joint round: {reason}')
      write(answer)
      ballot = self.ballots.setdefault(item, Ballot())
      # `_done` counts only answers that their item still needs, and no corrected answer twice
      awaited_before = self._num_awaited(item)
      ballot.add(answer)
      self._done += awaited_before - self._num_awaited(item)
      self._reserved.get(item, {}).pop(answer.annotator, None)
      history = self._history.setdefault(answer.annotator, {})
      history.pop((item, answer.round), None)  # a corrected answer moves to the end
      history[item, answer.round] = None  # the dict serves as an ordered set
      if ballot.is_contested:
        self._contested.add(item)
      else:
        self._contested.discard(item)

  def submit(
    self, answer: Answer, write: Callable[[Answer], None], replaces: object = UNCHECKED
  ) -> None:
    """Adds an answer from the page, unless the annotator has meanwhile answered elsewhere.

    Args:
      answer: the answer.
      write: stores the answer.
      replaces: time in seconds of the annotator's earlier answer in the same round that the page
        showed; None if it showed none. `UNCHECKED` replaces any earlier answer.

    Raises:
      OutdatedAnswerError: the annotator has answered the item in another window, or an individual
        answer comes after the annotator's vote in the joint round.
    """
    item, name = self.candidates.items.get((answer.anchor, answer.neighbor)), answer.annotator
    with self._lock:
      if item and answer.round == INDIVIDUAL and name in self.ballot(item).joint:
        raise OutdatedAnswerError(
          f'{name} has voted on {item} in the joint round: the individual answer stands.'
        )
      if item and replaces not in (UNCHECKED, self.answer_time(item, answer.round, name)):
        raise OutdatedAnswerError(
          f'{name} has answered {item} in another window since it was shown here: that answer '
          'stands. Go back to change it.'
        )
      self.add(answer, write)

  def answer_time(self, item: Item, review_round: str, annotator: str) -> float | None:
    """Returns the time of an annotator's answer about an item in a round, in seconds since 1970.

    It is None if there is no answer.
    """
    answer = self.ballot(item).answers(review_round).get(annotator)
    return answer.time if answer else None

  def next(self, annotator: str) -> tuple[Item, str] | None:
    """Returns the item that an annotator is to answer next and its round; None if there is none.

    Items come in this order:

    1. in the individual round, the items that need more answers and have none by this annotator.
       The item that is returned is reserved for the annotator: it is shown to others only if it
       needs still more answers.
    2. in the joint round, the contested items that have all individual answers and need more votes,
       without a vote by this annotator: first the anchors, then the pairs.

    The pairs of an anchor that somebody called bad are not shown before the joint vote on the
    anchor. There may be nothing to answer at the end of the review, and until other annotators
    have answered.
    """
    with self._lock:
      # items at the beginning that the annotator need not answer are never searched again
      first_open = self._first_open.get(annotator, 0)
      while first_open < len(self._order) and self._is_done(self._order[first_open], annotator):
        first_open += 1
      self._first_open[annotator] = first_open
      for item in self._order[first_open:]:
        if self._is_free(item, annotator):
          reserved_until = self._reserved.setdefault(item, {})
          reserved_until[annotator] = time.monotonic() + RESERVATION_SECONDS
          return item, INDIVIDUAL
      for item in sorted(self._contested):
        joint = self.ballot(item).joint
        needs_vote = annotator not in joint and len(joint) < self.plan.needed
        if needs_vote and self.ready_for_joint(item) and not self._is_blocked(item):
          return item, JOINT
      return None

  def previous(
    self, annotator: str, before: Item | None, review_round: str = INDIVIDUAL
  ) -> tuple[Item, str] | None:
    """Returns the previous item that an annotator answered, and its round; None if there is none.

    An individual answer is not shown again after the annotator's joint vote on its item, nor to an
    annotator in the joint round, who has seen the answers of other annotators.

    Args:
      annotator: name of the annotator.
      before: the item on the page; the item that was answered before it in the same round is
        returned. None returns the item of the annotator's last answer in any round.
      review_round: the round in which `before` is shown.
    """
    with self._lock:
      previous: tuple[Item, str] | None = None
      for item, answer_round in self._history.get(annotator, {}):  # by time of the newest answer
        has_voted_since = answer_round == INDIVIDUAL and annotator in self.ballot(item).joint
        is_of_other_round = before is not None and answer_round != review_round
        if has_voted_since or is_of_other_round:
          continue
        if item == before:
          break
        previous = item, answer_round
      return previous

  def ready_for_joint(self, item: Item) -> bool:
    """Returns whether annotators can vote jointly on an item.

    It must be contested, and all individual answers about it must have been given.
    """
    return item in self._contested and not self._num_awaited(item)

  def is_settled(self, item: Item) -> bool:
    """Returns whether an item, and if it is a pair also its anchor, needs no more answers.

    A contested item needs the answers of the individual round and then `plan.needed` joint votes. A
    pair that was dropped with its anchor needs none.
    """
    if item.kind == PAIR and not self.is_settled(self.candidates.anchor_of(item)):
      return False
    if self._is_dropped(item):
      return True
    has_joint_votes = len(self.ballot(item).joint) >= self.plan.needed
    return not self._num_awaited(item) and (item not in self._contested or has_joint_votes)

  def progress(self, annotator: str) -> dict[str, int]:
    """Returns {name: number of answers} for the page.

    * `own`: answers of `annotator` in both rounds.
    * `individual`, `individual_of`: answers of all annotators in the individual round, and how many
      this round needs in all. Answers beyond those that an item needs are not counted.
    * `joint`, `joint_of`: the same of the joint round, which needs votes on contested items.
    """
    with self._lock:
      # Pairs of an anchor that somebody called bad need no individual answers but those they have.
      bad = [item for item in self._contested if item.kind == ANCHOR and self._blocks_pairs(item)]
      pairs = [pair for anchor in bad for pair in self.candidates.pairs_of[anchor.number]]
      num_not_needed = sum(self._num_awaited(Item(PAIR, number)) for number in pairs)
      num_votes = [  # on each contested item, at most as many as it needs
        min(len(self.ballot(item).joint), self.plan.needed)
        for item in self._contested
        if not self._is_dropped(item)
      ]
      return {
        'own': len(self._history.get(annotator, {})),
        'individual': self._done,
        'individual_of': len(self._order) * self.plan.annotators_per_pair - num_not_needed,
        'joint': sum(num_votes),
        'joint_of': len(num_votes) * self.plan.needed,
      }

  def annotators(self) -> list[str]:
    """Returns the names of annotators with answers, in the order of their first answers."""
    return list(self._history)

  def _is_done(self, item: Item, annotator: str) -> bool:
    """Returns whether an item needs no individual answer of an annotator."""
    individual = self.ballot(item).individual
    return annotator in individual or len(individual) >= self.plan.annotators_per_pair

  def _is_free(self, item: Item, annotator: str) -> bool:
    """Returns whether an item needs an individual answer, and `annotator` may answer it now.

    An item is reserved for `RESERVATION_SECONDS` for each annotator to whom it was shown. It is not
    free if the answers and the reservations of other annotators reach `annotators_per_pair`.
    """
    if self._is_done(item, annotator) or self._is_blocked(item):
      return False
    time_now, individual = time.monotonic(), self.ballot(item).individual
    num_reserved = sum(
      end > time_now
      for name, end in self._reserved.get(item, {}).items()
      if name != annotator and name not in individual
    )
    return len(individual) + num_reserved < self.plan.annotators_per_pair

  def _is_blocked(self, item: Item) -> bool:
    """Returns whether an item is a pair that waits for the vote on its anchor or was dropped."""
    return item.kind == PAIR and self._blocks_pairs(self.candidates.anchor_of(item))

  def _blocks_pairs(self, anchor: Item) -> bool:
    """Returns whether the pairs of an anchor are not to be answered, now or ever.

    This is so if somebody called the anchor bad and the joint round has not accepted it.
    """
    ballot = self.ballot(anchor)
    if all(answer.accepts for answer in ballot.individual.values()):
      return False
    return not (self.is_settled(anchor) and strict_majority(ballot.votes))

  def _is_dropped(self, item: Item) -> bool:
    """Returns whether an item is a pair that was dropped because its anchor was rejected."""
    anchor = self.candidates.anchor_of(item)
    is_decided = item.kind == PAIR and anchor in self._contested and self.is_settled(anchor)
    return is_decided and not strict_majority(self.ballot(anchor).votes)

  def _num_awaited(self, item: Item) -> int:
    """Returns the number of individual answers that an item still needs."""
    if item not in self._individual:  # such as an anchor that is not shown alone
      return 0
    return max(self.plan.annotators_per_pair - len(self.ballot(item).individual), 0)
