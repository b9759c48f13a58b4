"""Outcome of a review: accepted anchors, pairs and labels, Table 1 of the paper, and agreement."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from robustness.core.errors import InputError
from robustness.core.rows import padded_labels
from robustness.estimates.means import Estimate, means, part, row
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity
from robustness.estimates.table import assemble
from robustness.evaluation.outcomes import ONE_VIEW
from robustness.results import Table
from robustness.video import agreement
from robustness.video.agreement import CONFIDENCE
from robustness.video.answers import CORRECT, LABEL_ANSWERS, SIMILAR_ANSWERS, UNSURE, Answer
from robustness.video.candidates import ANCHOR, PAIR, Candidates, Item
from robustness.video.metadata import NeighborSets
from robustness.video.review_rounds import ReviewRounds, strict_majority

ANCHORS = Quantity('anchors_accepted', 'anchors accepted, of those reviewed')
UPDATED = Quantity('labels_updated', 'anchors that gained labels, of those accepted')
PAIRS = Quantity('pairs_accepted', 'pairs accepted, of those reviewed')
ADDED = Quantity(
  'labels_added_per_anchor', 'labels added to an accepted anchor', 'amount', unit='labels', low=0
)
AGREEMENT = Quantity('agreement', 'agreeing pairs of annotators')
FLEISS, COHEN = (
  Quantity(f'{name.lower()}_kappa', f"{name}'s kappa", 'amount', low=-1, high=1)
  for name in ('Fleiss', 'Cohen')
)
QUANTITIES = (ANCHORS, UPDATED, PAIRS, ADDED, AGREEMENT, FLEISS, COHEN)
"""All quantities of the table of results of a review."""
REVIEWERS = 'review'
"""Label in the column of classifiers of the table of results."""
QUESTIONS: Mapping[str, tuple[Sequence[object], Callable[[Answer], object]]] = {
  'label': (LABEL_ANSWERS, lambda answer: answer.label),
  'similar': (SIMILAR_ANSWERS, lambda answer: answer.similar),
  'keep': ((False, True), lambda answer: answer.accepts),
}
"""{question: (its possible answers, function that reads an annotator's answer to it)}."""

Rule = Callable[[Sequence[Answer]], bool]
"""Function that returns whether the votes about an item accept it."""


def no_objection(votes: Sequence[Answer]) -> bool:
  """Returns whether there are votes and all accept: the rule of YTBB-Robust.

  In YTBB-Robust a pair is accepted if somebody marked it similar and nobody marked it dissimilar,
  incorrect, unsure, or changed (deformation, background, occlusion, blur).
  """
  return bool(votes) and all(vote.accepts for vote in votes)


RULES: Mapping[str, Rule] = {'strict_majority': strict_majority, 'ytbb': no_objection}
"""The rules by name, for the option --rule."""


@dataclasses.dataclass(frozen=True)
class Decisions:
  """The outcome of a review of A anchors and P pairs.

  Attributes:
    anchor_reviewed: bool [A], whether the anchor or one of its pairs has an answer.
    anchor_accepted: bool [A], whether the anchor is accepted.
    pair_reviewed: bool [P], whether the pair has an answer or was dropped with a bad anchor.
    pair_accepted: bool [P], whether the pair is accepted.
    unsettled: anchors and pairs that need more answers, anchors first.
    added: for each anchor the class ids that its labels gain, ascending; () if it is not accepted.
  """

  anchor_reviewed: np.ndarray
  anchor_accepted: np.ndarray
  pair_reviewed: np.ndarray
  pair_accepted: np.ndarray
  unsettled: tuple[Item, ...]
  added: tuple[tuple[int, ...], ...]

  def require_settled(self, candidates: Candidates) -> None:
    """Raises InputError, which names the first item, if items need more answers."""
    if self.unsettled:
      anchor, neighbor = candidates.paths(self.unsettled[0])
      raise InputError(
        f'answers are awaited about {len(self.unsettled)} anchors and pairs, first about '
        f'{anchor if neighbor is None else f"{anchor} with {neighbor}"}: continue the review, or '
        'give --unsettled=drop to leave them out.'
      )


def decide(rounds: ReviewRounds, rule: Rule) -> Decisions:
  """Returns the outcome of a review; `rule` decides from its votes whether an item is accepted.

  An item is an anchor or a pair. An anchor without votes is accepted if one of its pairs has an
  answer. Pairs of an anchor that is not accepted are dropped. Items on which more votes are needed
  (`is_settled`) are not accepted.
  """

  def is_accepted(item: Item, without_votes: bool) -> bool:
    votes = rounds.ballot(item).votes
    return rounds.is_settled(item) and (rule(votes) if votes else without_votes)

  items = list(rounds.candidates.items.values())
  anchors = [item for item in items if item.kind == ANCHOR]
  pairs = [item for item in items if item.kind == PAIR]
  anchor_of_pair = np.array([pair.anchor for pair in rounds.candidates.pairs], int)
  answered = np.array([item in rounds.ballots for item in pairs], bool)
  reviewed = np.array([item in rounds.ballots for item in anchors], bool)
  reviewed[anchor_of_pair[answered]] = True
  accepted = reviewed & np.array([is_accepted(item, True) for item in anchors], bool)
  bad = reviewed & ~accepted & np.array([rounds.is_settled(item) for item in anchors], bool)
  pair_accepted = np.array([is_accepted(item, False) for item in pairs], bool)
  return Decisions(
    reviewed,
    accepted,
    answered | bad[anchor_of_pair],
    pair_accepted & accepted[anchor_of_pair],
    tuple(item for item in items if not rounds.is_settled(item)),
    tuple(rounds.ballot(item).added if accepted[item.number] else () for item in anchors),
  )


def reviewed_sets(candidates: Candidates, decisions: Decisions) -> NeighborSets:
  """Returns the sets of accepted anchors and pairs.

  Sets may be empty, as in ImageNet-Vid-Robust. Neighbors gain the labels that their anchor gains.
  """
  sets = candidates.sets
  anchors = np.flatnonzero(decisions.anchor_accepted)
  if not len(anchors):
    raise InputError('no anchor was accepted, so there are no sets to write.')
  group, frames, offsets = np.array(candidates.pairs, np.int32).reshape(-1, 3).T
  labels = list(candidates.labels)
  for anchor, added in enumerate(decisions.added):
    for frame in (candidates.anchor_frame(anchor), *frames[group == anchor]) if added else ():
      labels[frame] = tuple(sorted({*labels[frame], *added}))
  members = [np.flatnonzero(decisions.pair_accepted & (group == anchor)) for anchor in anchors]
  neighbors = [frames[pairs] for pairs in members]
  indices = np.unique(np.concatenate([sets.anchors[anchors], *neighbors]))
  new_index = np.full(len(sets.frames), -1, np.int32)
  new_index[indices] = np.arange(len(indices))
  return dataclasses.replace(
    sets,
    frames=tuple(sets.frames[index] for index in indices),
    labels=padded_labels([labels[index] for index in indices]),
    anchors=new_index[sets.anchors[anchors]],
    neighbors=tuple(new_index[positions] for positions in neighbors),
    offsets=tuple(offsets[pairs] for pairs in members),
    frame_types=None if sets.frame_types is None else sets.frame_types[indices],
    fps=None if sets.fps is None else sets.fps[indices],
  )


def table(rounds: ReviewRounds, decided: Decisions) -> pd.DataFrame:
  """Returns the accepted fractions (the paper's Table 1) and the annotators' agreement on pairs.

  Rows about added labels are included if the plan of the review asks for labels that an anchor
  lacks (`densify`), or if labels were added. Agreement is computed on the individual round for each
  question: whether the labels are correct, whether the pair is similar, and whether the annotator
  accepts it (keep). Intervals take the pairs of an anchor as one cluster; undefined values are NaN.

  Reference:
    Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, Table 1.
  """
  parts = [
    means(quantity, Outcomes({REVIEWERS: values[:, None]}, ONE_VIEW), confidence=CONFIDENCE)
    for quantity, values in _values(rounds, decided).items()
  ]
  return assemble([*parts, *_agreement(rounds)])


def counts(rounds: ReviewRounds, decided: Decisions) -> Table:
  """Returns a table with the numbers of accepted items and updated labels, and their totals."""
  rows = [
    (quantity.words, int(values.sum()), len(values))
    for quantity, values in _values(rounds, decided).items()
    if quantity is not ADDED
  ]
  return Table(('what', 'count', 'of'), rows)


def _values(rounds: ReviewRounds, decided: Decisions) -> dict[Quantity, np.ndarray]:
  """Returns {quantity: its value for each anchor or pair for which it is defined}."""
  values = {ANCHORS: decided.anchor_accepted[decided.anchor_reviewed]}
  added = np.array([len(classes) for classes in decided.added], float)[decided.anchor_accepted]
  if rounds.plan.densify or added.any():
    values[UPDATED] = added > 0
  values[PAIRS] = decided.pair_accepted[decided.pair_reviewed]
  if rounds.plan.densify and len(added):
    values[ADDED] = added
  return values


def _agreement(rounds: ReviewRounds) -> Iterator[pd.DataFrame]:
  """Yields, for each question, the agreement of all annotators and of each pair of annotators."""
  names = rounds.annotators()
  items = [item for item in sorted(rounds.ballots) if item.kind == PAIR]
  groups = np.array([rounds.candidates.pairs[item.number].anchor for item in items], int)
  for question, (answers, read_answer) in QUESTIONS.items():
    ratings = np.full((len(items), len(names)), -1)
    for number, item in enumerate(items):
      for name, answer in rounds.ballot(item).individual.items():
        ratings[number, names.index(name)] = answers.index(read_answer(answer))
    estimates: list[tuple[Quantity, dict[str, str], Estimate]] = [
      (AGREEMENT, {}, agreement.percent_agreement(ratings, groups)),
      (FLEISS, {}, agreement.fleiss_kappa(ratings, groups)),
    ]
    for first, second in itertools.combinations(range(len(names)), 2):
      kappa = agreement.cohen_kappa(ratings[:, first], ratings[:, second], groups)
      estimates.append((COHEN, {'annotators': f'{names[first]} and {names[second]}'}, kappa))
    yield part(
      [
        row(REVIEWERS, '', quantity, {'question': question, **facets}, estimate, CONFIDENCE)
        for quantity, facets, estimate in estimates
      ]
    )


def reasons(rounds: ReviewRounds) -> Table:
  """Returns a table of marks, the faults that votes find in pairs, with the number of pairs each.

  Marks are, for example, 'blur', 'label incorrect' and 'similarity unsure'; a pair may have many.
  """
  pairs: dict[str, set[Item]] = {}
  for item, ballot in rounds.ballots.items():
    for vote in ballot.votes if item.kind == PAIR else ():
      marks = [
        *vote.reasons,
        *(['feature in only one'] if vote.feature else []),
        *([] if vote.label == CORRECT else [f'label {vote.label}']),
        *(['similarity unsure'] if vote.similar == UNSURE else []),
      ]
      for mark in marks:
        pairs.setdefault(mark, set()).add(item)
  return Table(('mark', 'pairs'), [(mark, len(pairs[mark])) for mark in sorted(pairs)])
