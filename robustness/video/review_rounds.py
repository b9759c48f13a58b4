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
  """Raised for an answer from an outdated review page: a newer answer exists already."""


def strict_majority(votes: Sequence[Answer]) -> bool:
  """Returns whether more than half of the votes accept an anchor or pair.

  Reference:
    Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, section 2.1.
  """
  return 2 * sum(vote.accepts for vote in votes) > len(votes)


@dataclasses.dataclass
class Ballot:
  """All answers of annotators about one item, which is an anchor or a pair of frames.

  Attributes:
    individual: {annotator: newest answer} of the individual round, where annotators answer alone.
    joint: {annotator: newest vote} of the joint round, where annotators see all answers.
  """

  individual: dict[str, Answer] = dataclasses.field(default_factory=dict)
  joint: dict[str, Answer] = dataclasses.field(default_factory=dict)

  def answers(self, review_round: str) -> dict[str, Answer]:
    """Returns `{annotator: newest answer}` of a round, 'individual' or 'joint'."""
    return self.individual if review_round == INDIVIDUAL else self.joint

  def add(self, answer: Answer) -> None:
    """Adds an answer; an earlier answer of the same annotator in the same round is replaced."""
    self.answers(answer.round)[answer.annotator] = answer

  @property
  def votes(self) -> list[Answer]:
    """The final answer of each annotator, from the joint round if there is one."""
    return list({**self.individual, **self.joint}.values())

  @property
  def is_contested(self) -> bool:
    """Whether the item needs a joint vote, because annotators disagree or reject it.

    This is the case if an annotator who answered alone did not accept the item, or if annotators
    would add different labels to an anchor.
    """
    answers = self.individual.values()
    has_different_additions = len({frozenset(answer.added) for answer in answers}) > 1
    return has_different_additions or not all(answer.accepts for answer in answers)

  @property
  def added(self) -> tuple[int, ...]:
    """The class ids that more than half of the votes add to the labels, ascending."""
    counts = Counter(label for vote in self.votes for label in set(vote.added))
    half = len(self.votes) / 2
    return tuple(sorted(label for label, count in counts.items() if count > half))


class ReviewRounds:
  """The state of a human review of neighbor sets: all answers, and what to show to whom.

  Annotators judge items: anchor frames, and pairs of an anchor and a neighbor. In the individual
  round they answer alone. In the joint round they see all answers and vote again on contested
  items, which somebody rejected or for which annotators suggest different labels.

  Thread-safe: methods that change the state hold a lock.

  Attributes:
    candidates: the neighbor sets under review.
    plan: the rules of the review, such as the number of annotators per pair.
    ballots: {item: all answers about it}.
  """

  def __init__(self, candidates: Candidates, plan: ReviewPlan, answers: Iterable[Answer] = ()):
    """Starts a review, or continues it with earlier answers.

    Args:
      candidates: the neighbor sets under review.
      plan: the rules of the review, such as the number of annotators per pair.
      answers: earlier answers, in the order in which they were given.
    """
    self.candidates, self.plan = candidates, plan
    self.ballots: dict[Item, Ballot] = {}
    self._lock = threading.RLock()
    self._order: list[Item] = []  # items of the individual round, in the order of the pages
    for anchor, pairs in enumerate(candidates.pairs_of):
      # The page of a pair shows its anchor too. An anchor has a separate page only if annotators
      # add labels to it (`densify`), or if it has no pairs.
      if plan.densify or not pairs:
        self._order.append(Item(ANCHOR, anchor))
      self._order += [Item(PAIR, number) for number in pairs]
    self._individual = set(self._order)
    # {annotator: index in `_order` of the first item that the annotator may still have to answer}
    self._first_open: dict[str, int] = {}
    self._reserved: dict[Item, dict[str, float]] = {}  # {item: {annotator: end of the reservation}}
    self._contested: set[Item] = set()  # items on which annotators must vote jointly
    # {annotator: {(item, round): None}}, in the order of the newest answers.
    self._history: dict[str, dict[tuple[Item, str], None]] = {}
    self._num_answered = 0  # individual answers, without those beyond `annotators_per_pair`
    for answer in answers:
      self.add(answer)

  def ballot(self, item: Item) -> Ballot:
    """Returns all answers about an item (an anchor or a pair), possibly none."""
    return self.ballots.get(item) or Ballot()

  def add(self, answer: Answer, write: Callable[[Answer], None] = lambda answer: None) -> None:
    """Saves an answer and adds it to the state of the review.

    Args:
      answer: the answer.
      write: called with the answer to save it, before the state changes.

    Raises:
      InputError: the anchor (labelled frame) or pair is not under review, or the answer is a joint
        vote where none is needed.
    """
    item = self._item_of(answer)
    with self._lock:
      if answer.round == JOINT and not self.ready_for_joint(item):
        reason = 'nobody objected to it, or not everybody has answered alone.'
        raise InputError(f'{item} is not in the joint round: {reason}')
      write(answer)
      ballot = self.ballots.setdefault(item, Ballot())
      # only answers that their item still needs are counted, and no corrected answer twice
      awaited_before = self._num_awaited(item)
      ballot.add(answer)
      self._num_answered += awaited_before - self._num_awaited(item)
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
    """Adds an answer from the review page, unless it is based on an outdated page.

    Args:
      answer: the answer.
      write: called with the answer to save it.
      replaces: time of the earlier answer that the page showed to the annotator, in seconds since
        1970; None if it showed none. `UNCHECKED` replaces any earlier answer.

    Raises:
      OutdatedAnswerError: the annotator has since answered in another window, or has already voted
        in the joint round and now answers in the individual round.
    """
    item, name = self._item_of(answer), answer.annotator
    with self._lock:
      if answer.round == INDIVIDUAL and name in self.ballot(item).joint:
        raise OutdatedAnswerError(
          f'{name} has voted on {item} in the joint round: the individual answer stands.'
        )
      newest_time = self.answer_time(item, answer.round, name)
      if replaces not in (UNCHECKED, newest_time):
        problem = f'{name} has answered {item} in another window since it was shown here'
        raise OutdatedAnswerError(f'{problem}: that answer stands. Go back to change it.')
      self.add(answer, write)

  def _item_of(self, answer: Answer) -> Item:
    """Returns the item (an anchor or a pair) that an answer is about.

    Raises:
      InputError: the item is not under review.
    """
    item = self.candidates.items.get((answer.anchor, answer.neighbor))
    if item is None:
      pair = f'anchor {answer.anchor} with neighbor {answer.neighbor}'
      raise InputError(f'{pair} is not under review.')
    return item

  def answer_time(self, item: Item, review_round: str, annotator: str) -> float | None:
    """Returns when an annotator answered, in seconds since 1970; None without an answer.

    Args:
      item: the anchor or pair.
      review_round: 'individual' or 'joint'.
      annotator: name of the annotator.
    """
    answer = self.ballot(item).answers(review_round).get(annotator)
    return answer.time if answer else None

  def next(self, annotator: str) -> tuple[Item, str] | None:
    """Returns the next item for an annotator to judge and its round, or None.

    An item is an anchor (labelled frame) or a pair. The individual round comes first: items that
    need more answers and have none by this annotator. The returned item is reserved, so that not
    too many annotators answer it at once.

    The joint round follows: contested items with all individual answers but too few votes, anchors
    before pairs. Pairs of an anchor that somebody called bad wait for the vote on the anchor.

    The result is None at the end of the review, and while answers of other annotators are awaited.
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
        needs_vote = annotator not in joint and len(joint) < self.plan.votes_needed
        if needs_vote and self.ready_for_joint(item) and not self._is_blocked(item):
          return item, JOINT
      return None

  def previous(
    self, annotator: str, before: Item | None, review_round: str = INDIVIDUAL
  ) -> tuple[Item, str] | None:
    """Returns the item that an annotator answered before another one and its round, or None.

    Used to go back and correct an answer. Individual answers about items on which the annotator has
    voted in the joint round are skipped, because the annotator has seen the answers of others.

    Args:
      annotator: name of the annotator.
      before: the item (anchor or pair) on the page. Only answers of its round are searched. None
        returns the last answer in any round.
      review_round: the round of `before`, 'individual' or 'joint'.
    """
    with self._lock:
      latest: tuple[Item, str] | None = None
      for item, answer_round in self._history.get(annotator, {}):  # by time of the newest answer
        if before is not None and answer_round != review_round:
          continue
        if answer_round == INDIVIDUAL and annotator in self.ballot(item).joint:
          continue  # the annotator has voted on it since, with the answers of others in view
        if item == before:
          break
        latest = item, answer_round
      return latest

  def ready_for_joint(self, item: Item) -> bool:
    """Returns whether the joint vote on an item can start.

    It can for a contested item (one on which annotators disagree, or that one of them rejects) once
    all individual answers are given.

    Args:
      item: the anchor or pair.
    """
    return item in self._contested and not self._num_awaited(item)

  def is_settled(self, item: Item) -> bool:
    """Returns whether an item needs no more answers; a pair also needs a settled anchor.

    Annotators judge items, which are anchors (labelled frames) and pairs of an anchor and a
    neighbor. Each annotator answers alone in the individual round. An item that somebody does not
    accept, or to which annotators would add different labels, is contested: after all individual
    answers it needs `plan.votes_needed` votes in the joint round. Pairs of an anchor that the votes
    reject need no answers.

    Args:
      item: the anchor or pair.
    """
    if item.kind == PAIR and not self.is_settled(self.candidates.anchor_of(item)):
      return False
    if self._is_dropped(item):
      return True
    has_joint_votes = len(self.ballot(item).joint) >= self.plan.votes_needed
    return not self._num_awaited(item) and (item not in self._contested or has_joint_votes)

  def progress(self, annotator: str) -> dict[str, int]:
    """Counts given and needed answers, for the progress display of the review page.

    Returns:
      A dictionary of counts.

      * `own`: answers by `annotator` in both rounds.
      * `individual`, `individual_of`: answers by all annotators in the individual round, and the
        number needed. Surplus answers are not counted.
      * `joint`, `joint_of`: votes by all annotators in the joint round, and the number needed.
    """
    with self._lock:
      num_needed = len(self._order) * self.plan.annotators_per_pair
      for item in self._contested:
        if item.kind == ANCHOR and self._blocks_pairs(item):
          # Somebody called the anchor bad: its pairs need no answers beyond those given already.
          pairs = self.candidates.pairs_of[item.number]
          num_needed -= sum(self._num_awaited(Item(PAIR, number)) for number in pairs)
      items_to_vote_on = [item for item in self._contested if not self._is_dropped(item)]
      votes_needed = self.plan.votes_needed  # for each of these items
      votes = [min(len(self.ballot(item).joint), votes_needed) for item in items_to_vote_on]
      return {
        'own': len(self._history.get(annotator, {})),
        'individual': self._num_answered,
        'individual_of': num_needed,
        'joint': sum(votes),
        'joint_of': len(items_to_vote_on) * votes_needed,
      }

  def annotators(self) -> list[str]:
    """Returns the names of annotators with answers, in the order of their first answers."""
    return list(self._history)

  def _is_done(self, item: Item, annotator: str) -> bool:
    """Returns whether no individual answer about an item is needed from an annotator."""
    individual = self.ballot(item).individual
    return annotator in individual or len(individual) >= self.plan.annotators_per_pair

  def _is_free(self, item: Item, annotator: str) -> bool:
    """Returns whether `annotator` may answer an item in the individual round now.

    An item that was shown to an annotator is reserved for `RESERVATION_SECONDS`. It is not free if
    the answers and reservations of others reach `plan.annotators_per_pair`.
    """
    if self._is_done(item, annotator) or self._is_blocked(item):
      return False
    individual = self.ballot(item).individual
    expected = [  # annotators to whom the item is shown, and who have not answered
      name
      for name, end in self._reserved.get(item, {}).items()
      if end > time.monotonic() and name != annotator and name not in individual
    ]
    return len(individual) + len(expected) < self.plan.annotators_per_pair

  def _is_blocked(self, item: Item) -> bool:
    """Returns whether an item is a pair that must not be shown, because of a bad anchor."""
    return item.kind == PAIR and self._blocks_pairs(self.candidates.anchor_of(item))

  def _blocks_pairs(self, anchor: Item) -> bool:
    """Returns whether the pairs of an anchor must not be shown to annotators.

    An anchor is a labelled frame, and annotators judge it before its pairs. Pairs are blocked if
    somebody called the anchor bad and the joint round of votes has not accepted it.

    Args:
      anchor: the anchor.
    """
    ballot = self.ballot(anchor)
    if all(answer.accepts for answer in ballot.individual.values()):
      return False
    return not (self.is_settled(anchor) and strict_majority(ballot.votes))

  def _is_dropped(self, item: Item) -> bool:
    """Returns whether an item is a pair with a rejected anchor, which needs no answers."""
    anchor = self.candidates.anchor_of(item)
    is_decided = item.kind == PAIR and anchor in self._contested and self.is_settled(anchor)
    return is_decided and not strict_majority(self.ballot(anchor).votes)

  def _num_awaited(self, item: Item) -> int:
    """Returns how many more individual answers an item (anchor or pair) needs."""
    if item not in self._individual:  # such as an anchor that is not shown alone
      return 0
    return max(self.plan.annotators_per_pair - len(self.ballot(item).individual), 0)
