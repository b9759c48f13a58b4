"""Outcome of a review: accepted anchors, pairs and labels, Table 1 of the paper, and agreement.

The paper is Shankar et al., Do Image Classifiers Generalize Across Time?, 2021.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from robustness.core.errors import InputError
from robustness.core.rows import padded_labels
from robustness.estimates.means import estimate_row, means, table_of_rows
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity, declare_amount
from robustness.estimates.table import assemble
from robustness.evaluation.outcomes import ONE_VIEW
from robustness.results import Table
from robustness.video import agreement
from robustness.video.agreement import CONFIDENCE
from robustness.video.answers import CORRECT, LABEL_ANSWERS, SIMILAR_ANSWERS, UNSURE, Answer
from robustness.video.candidates import PAIR, Candidates, Item
from robustness.video.metadata import NeighborSets
from robustness.video.review_rounds import ReviewRounds, strict_majority

ANCHORS = Quantity('anchors_accepted', 'anchors accepted, of those reviewed')
UPDATED = Quantity('labels_updated', 'anchors that gained labels, of those accepted')
PAIRS = Quantity('pairs_accepted', 'pairs accepted, of those reviewed')
ADDED = declare_amount(
  'labels_added_per_anchor', 'labels added to an accepted anchor', unit='labels'
)
AGREEMENT = Quantity('agreement', 'agreeing pairs of annotators')
FLEISS = Quantity('fleiss_kappa', "Fleiss's kappa", 'amount', low=-1, high=1)
COHEN = Quantity('cohen_kappa', "Cohen's kappa", 'amount', low=-1, high=1)
QUANTITIES = (ANCHORS, UPDATED, PAIRS, ADDED, AGREEMENT, FLEISS, COHEN)
"""All quantities of the table of results of a review."""
REVIEWERS = 'review'
"""Label in the column of classifiers of the table of results."""
QUESTIONS: Mapping[str, tuple[Sequence[object], Callable[[Answer], object]]] = {
  'label': (LABEL_ANSWERS, lambda answer: answer.label),
  'similar': (SIMILAR_ANSWERS, lambda answer: answer.similar),
  'keep': ((False, True), lambda answer: answer.accepts),
}
"""{question: (possible answers, function that returns which of them an `Answer` states)}."""

Rule = Callable[[Sequence[Answer]], bool]
"""Function that returns whether an item is accepted, given its votes; False without votes."""


def no_objection(votes: Sequence[Answer]) -> bool:
  """Returns whether there is at least one vote and every vote accepts the anchor or pair.

  YTBB-Robust was made with this rule. A vote accepts a pair that it marks as similar, with correct
  labels and without any change (deformation, background, occlusion, blur).
  """
  return bool(votes) and all(vote.accepts for vote in votes)


RULES: Mapping[str, Rule] = {'strict_majority': strict_majority, 'ytbb': no_objection}
"""{name of a rule in the option --rule: the rule}."""


@dataclasses.dataclass(frozen=True)
class Decisions:
  """The outcome of a human review of A anchor frames and P pairs of an anchor and a neighbor.

  Attributes:
    anchor_reviewed: bool [A], whether somebody answered about the anchor or one of its pairs.
    anchor_accepted: bool [A], whether the anchor is accepted.
    pair_reviewed: bool [P], whether somebody answered about the pair or rejected its anchor.
    pair_accepted: bool [P], whether the pair is accepted.
    unsettled: anchors and pairs that need more votes, anchors first.
    added: for each anchor, the class ids that reviewers added to its labels, ascending; () for a
      rejected anchor.
  """

  anchor_reviewed: np.ndarray
  anchor_accepted: np.ndarray
  pair_reviewed: np.ndarray
  pair_accepted: np.ndarray
  unsettled: tuple[Item, ...]
  added: tuple[tuple[int, ...], ...]

  def require_settled(self, candidates: Candidates) -> None:
    """Raises InputError if an anchor (labelled frame) or pair still needs votes of annotators.

    Args:
      candidates: the neighbor sets under review, from which the message takes paths.
    """
    if self.unsettled:
      anchor, neighbor = candidates.paths(self.unsettled[0])
      raise InputError(
        f'answers are awaited about {len(self.unsettled)} anchors and pairs, first about '
        f'{anchor if neighbor is None else f"{anchor} with {neighbor}"}: continue the review, or '
        'give --unsettled=drop to leave them out.'
      )


def decide(rounds: ReviewRounds, rule: Rule) -> Decisions:
  """Decides which anchors (labelled frames) and pairs are accepted, from the votes of annotators.

  * An anchor or pair that still needs votes is not accepted.
  * An anchor is accepted if `rule` accepts its votes. An anchor without votes is accepted if one of
    its pairs has votes, because these annotators saw the anchor and did not call it bad.
  * A pair is accepted if `rule` accepts its votes and its anchor is accepted.

  Args:
    rounds: all answers of the review.
    rule: called with the votes about an anchor or pair; returns whether they accept it.
  """
  items = list(rounds.candidates.items.values())
  num_anchors = len(rounds.candidates.sets.anchors)
  anchors, pairs = slice(num_anchors), slice(num_anchors, None)  # of `items`
  ballots = [rounds.ballot(item) for item in items]
  has_votes = np.array([len(ballot.votes) > 0 for ballot in ballots])
  is_settled = np.array([rounds.is_settled(item) for item in items])
  is_approved = np.array([rule(ballot.votes) for ballot in ballots])
  anchor_of_pair = np.array([pair.anchor for pair in rounds.candidates.pairs], int)
  # an anchor is reviewed if it or one of its pairs has votes
  anchor_reviewed = has_votes[anchors].copy()
  anchor_reviewed[anchor_of_pair[has_votes[pairs]]] = True
  is_decided = anchor_reviewed & is_settled[anchors]
  anchor_accepted = is_decided & (is_approved[anchors] | ~has_votes[anchors])
  anchor_rejected = is_decided & ~anchor_accepted
  return Decisions(
    anchor_reviewed=anchor_reviewed,
    anchor_accepted=anchor_accepted,
    # the rejection of an anchor decides its pairs too
    pair_reviewed=has_votes[pairs] | anchor_rejected[anchor_of_pair],
    pair_accepted=is_settled[pairs] & is_approved[pairs] & anchor_accepted[anchor_of_pair],
    unsettled=tuple(itertools.compress(items, ~is_settled)),
    added=tuple(
      ballot.added if is_accepted else ()
      for ballot, is_accepted in zip(ballots[anchors], anchor_accepted, strict=True)
    ),
  )


def reviewed_sets(candidates: Candidates, decisions: Decisions) -> NeighborSets:
  """Returns the neighbor sets that remain after a review: accepted anchors with accepted pairs.

  Labels that reviewers added to an anchor (labelled frame) are added to its neighbors too. Frames
  that belong to no remaining set are removed. As in ImageNet-Vid-Robust, a set may be left without
  neighbors.

  Args:
    candidates: the neighbor sets that were reviewed.
    decisions: the outcome of the review.

  Raises:
    InputError: no anchor was accepted.
  """
  sets = candidates.sets
  anchors = np.flatnonzero(decisions.anchor_accepted)  # numbers of the accepted anchors
  if not len(anchors):
    raise InputError('no anchor was accepted, so there are no sets to write.')
  # the columns of `Pair`, [P] each; `reshape` is for P = 0, where the array has no columns
  anchor_of_pair, frame, offset = np.array(candidates.pairs, np.int32).reshape(-1, 3).T
  labels = list(candidates.labels)
  for anchor, added in enumerate(decisions.added):
    for index in (candidates.anchor_frame(anchor), *frame[anchor_of_pair == anchor]):
      labels[index] = tuple(sorted({*labels[index], *added}))
  accepted = decisions.pair_accepted
  pairs_of_anchor = [np.flatnonzero(accepted & (anchor_of_pair == anchor)) for anchor in anchors]
  neighbors = [frame[pairs] for pairs in pairs_of_anchor]
  used_frames = np.unique(np.concatenate([sets.anchors[anchors], *neighbors]))
  new_index = np.full(len(sets.frames), -1, np.int32)  # among the used frames
  new_index[used_frames] = np.arange(len(used_frames))
  return dataclasses.replace(
    sets,
    frames=tuple(sets.frames[index] for index in used_frames),
    labels=padded_labels([labels[index] for index in used_frames]),
    anchors=new_index[sets.anchors[anchors]],
    neighbors=tuple(new_index[frames] for frames in neighbors),
    offsets=tuple(offset[pairs] for pairs in pairs_of_anchor),
    frame_types=None if sets.frame_types is None else sets.frame_types[used_frames],
    fps=None if sets.fps is None else sets.fps[used_frames],
  )


def table(rounds: ReviewRounds, decided: Decisions) -> pd.DataFrame:
  """Returns a table of accepted fractions (the paper's Table 1) and of annotator agreement on
  pairs.

  Agreement is computed from answers given before the joint round, for each of three questions: are
  the labels correct ('label'), is the pair similar ('similar'), is the pair acceptable ('keep').
  Its intervals treat the pairs of an anchor (labelled frame) as a cluster. Undefined values are
  NaN.

  Rows about added labels are present if `rounds.plan.densify` asked annotators to add missing
  labels, or if any labels were added.

  Args:
    rounds: all answers of the review.
    decided: the outcome of the review.

  Reference:
    Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, Table 1.
  """
  # `means` computes means of a classifier in views: the reviewers stand for it, with one view
  parts = [
    means(quantity, Outcomes({REVIEWERS: values[:, None]}, ONE_VIEW), confidence=CONFIDENCE)
    for quantity, values in _values(rounds, decided).items()
  ]
  return assemble([*parts, *_agreement(rounds)])


def counts(rounds: ReviewRounds, decided: Decisions) -> Table:
  """Returns a table that counts accepted anchors, accepted pairs and anchors with added labels.

  The columns are 'what', 'count' and 'of', the total.
  """
  shares = {q: values for q, values in _values(rounds, decided).items() if q is not ADDED}
  rows = [(quantity.words, int(values.sum()), len(values)) for quantity, values in shares.items()]
  return Table(('what', 'count', 'of'), rows)


def _values(rounds: ReviewRounds, decided: Decisions) -> dict[Quantity, np.ndarray]:
  """Returns the values behind the table of a review, `{quantity: array}`.

  * `ANCHORS`: whether each reviewed anchor was accepted.
  * `PAIRS`: whether each reviewed pair was accepted.
  * `UPDATED`: whether labels were added to each accepted anchor. Missing if annotators were not
    asked for labels (`rounds.plan.densify`) and added none.
  * `ADDED`: the number of labels added to each accepted anchor. Missing if annotators were not
    asked for labels or accepted no anchor (labelled frame).
  """
  values = {ANCHORS: decided.anchor_accepted[decided.anchor_reviewed]}
  # number of labels that each accepted anchor gained
  added = np.array([len(classes) for classes in decided.added], float)[decided.anchor_accepted]
  if rounds.plan.densify or added.any():
    values[UPDATED] = added > 0
  values[PAIRS] = decided.pair_accepted[decided.pair_reviewed]
  if rounds.plan.densify and len(added):
    values[ADDED] = added
  return values


def _agreement(rounds: ReviewRounds) -> Iterator[pd.DataFrame]:
  """Yields a table of annotator agreement for each question about pairs.

  Rows are percent agreement and Fleiss' κ of all annotators, and Cohen's κ of every two annotators.
  Only answers given alone count, not votes of the joint round.
  """
  names = rounds.annotators()
  items = [item for item in sorted(rounds.ballots) if item.kind == PAIR]
  # the anchor of each pair; the pairs of an anchor form a cluster in the intervals
  groups = np.array([rounds.candidates.pairs[item.number].anchor for item in items], int)
  for question, (answers, read_answer) in QUESTIONS.items():
    # [pairs, annotators], the index in `answers` of the answer; −1 for none
    ratings = np.full((len(items), len(names)), -1)
    for number, item in enumerate(items):
      for name, answer in rounds.ballot(item).individual.items():
        ratings[number, names.index(name)] = answers.index(read_answer(answer))
    facets = {'question': question}
    percent = agreement.percent_agreement(ratings, groups)
    fleiss = agreement.fleiss_kappa(ratings, groups)
    # with '', a row is no difference from another classifier
    rows = [
      estimate_row(REVIEWERS, '', AGREEMENT, facets, percent, CONFIDENCE),
      estimate_row(REVIEWERS, '', FLEISS, facets, fleiss, CONFIDENCE),
    ]
    for first, second in itertools.combinations(range(len(names)), 2):
      kappa = agreement.cohen_kappa(ratings[:, first], ratings[:, second], groups)
      facets_of_pair = {**facets, 'annotators': f'{names[first]} and {names[second]}'}
      rows.append(estimate_row(REVIEWERS, '', COHEN, facets_of_pair, kappa, CONFIDENCE))
    yield table_of_rows(rows)


def reasons(rounds: ReviewRounds) -> Table:
  """Returns a table that counts the pairs in which annotators found each kind of fault.

  The columns are 'mark', a fault such as 'blur', 'label incorrect' or 'similarity unsure', and
  'pairs'. A pair with several faults counts once for each.
  """
  pairs: dict[str, set[Item]] = {}  # {mark: pairs with a vote that has the mark}
  for item, ballot in rounds.ballots.items():
    votes = ballot.votes if item.kind == PAIR else ()
    for vote in votes:
      marks = list(vote.reasons)
      if vote.feature:
        marks.append('feature in only one')
      if vote.label != CORRECT:
        marks.append(f'label {vote.label}')
      if vote.similar == UNSURE:
        marks.append('similarity unsure')
      for mark in marks:
        pairs.setdefault(mark, set()).add(item)
  return Table(('mark', 'pairs'), [(mark, len(pairs[mark])) for mark in sorted(pairs)])
