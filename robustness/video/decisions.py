"""What a review decides and found: the anchors, pairs and labels that stay, Table 1, agreement."""

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
REVIEWERS = 'review'
"""What stands for a classifier in the table of results."""
QUESTIONS: Mapping[str, tuple[Sequence[object], Callable[[Answer], object]]] = {
  'label': (LABEL_ANSWERS, lambda answer: answer.label),
  'similar': (SIMILAR_ANSWERS, lambda answer: answer.similar),
  'keep': ((False, True), lambda answer: answer.accepts),
}
"""By question, the answers to it and how an annotator's is read."""

Rule = Callable[[Sequence[Answer]], bool]


def no_objection(votes: Sequence[Answer]) -> bool:
  """Keeps what somebody keeps and nobody marks otherwise: the rule of YTBB-Robust.

  There a pair is kept when it is marked similar and by nobody dissimilar, incorrect, unsure,
  or changed (deformation, background, occlusion, blur).
  """
  return bool(votes) and all(vote.accepts for vote in votes)


RULES: Mapping[str, Rule] = {'strict_majority': strict_majority, 'ytbb': no_objection}


@dataclasses.dataclass(frozen=True)
class Decisions:
  """The outcome of a review of A anchors and P pairs.

  Attributes:
    anchor_reviewed: bool [A], whether the anchor or one of its pairs has an answer.
    anchor_accepted: bool [A]; a bad anchor is not.
    pair_reviewed: bool [P], whether the pair has an answer or went with a bad anchor.
    pair_accepted: bool [P].
    unsettled: items about which answers are still awaited, in their order.
    added: by anchor, the class ids its labels gain, ascending.
  """

  anchor_reviewed: np.ndarray
  anchor_accepted: np.ndarray
  pair_reviewed: np.ndarray
  pair_accepted: np.ndarray
  unsettled: tuple[Item, ...]
  added: tuple[tuple[int, ...], ...]

  def require_settled(self, candidates: Candidates) -> None:
    """Raises InputError if answers are still awaited: about how many items, and which is first."""
    if self.unsettled:
      anchor, neighbor = candidates.paths(self.unsettled[0])
      raise InputError(
        f'answers are awaited about {len(self.unsettled)} anchors and pairs, first about '
        f'{anchor if neighbor is None else f"{anchor} with {neighbor}"}: go on with the review, '
        'or give --unsettled=drop to leave them out.'
      )


def decide(rounds: ReviewRounds, rule: Rule) -> Decisions:
  """Counts the votes.

  An anchor that nobody has judged alone is accepted if one of its pairs has an answer. A bad
  anchor takes its pairs along. What is unsettled is not accepted.
  """

  def keeps(item: Item, unasked: bool) -> bool:
    votes = rounds.ballot(item).votes
    return rounds.is_settled(item) and (rule(votes) if votes else unasked)

  items = list(rounds.candidates.items.values())
  anchors, pairs = ([item for item in items if item.kind == kind] for kind in (ANCHOR, PAIR))
  group = np.array([pair.anchor for pair in rounds.candidates.pairs], int)
  answered = np.array([item in rounds.ballots for item in pairs], bool)
  reviewed = np.array([item in rounds.ballots for item in anchors], bool)
  reviewed[group[answered]] = True
  accepted = reviewed & np.array([keeps(item, True) for item in anchors], bool)
  bad = reviewed & ~accepted & np.array([rounds.is_settled(item) for item in anchors], bool)
  kept = np.array([keeps(item, False) for item in pairs], bool)
  return Decisions(
    reviewed,
    accepted,
    answered | bad[group],
    kept & accepted[group],
    tuple(item for item in items if not rounds.is_settled(item)),
    tuple(rounds.ballot(item).added if accepted[item.number] else () for item in anchors),
  )


def reviewed_sets(candidates: Candidates, decisions: Decisions) -> NeighborSets:
  """Returns the sets that a review leaves.

  Accepted anchors stay, even with no neighbor left, as in ImageNet-Vid-Robust. Labels that an
  anchor gains go to its neighbors too.
  """
  sets = candidates.sets
  anchors = np.flatnonzero(decisions.anchor_accepted)
  if not len(anchors):
    raise InputError('no anchor was accepted, so there are no sets to write.')
  columns = np.array(candidates.pairs, np.int32).reshape(-1, 3).T
  group, frames, offsets = columns
  labels = list(candidates.labels)
  for anchor, added in enumerate(decisions.added):
    for frame in (candidates.anchor_frame(anchor), *frames[group == anchor]) if added else ():
      labels[frame] = tuple(sorted({*labels[frame], *added}))
  members = [np.flatnonzero(decisions.pair_accepted & (group == anchor)) for anchor in anchors]
  kept = np.unique(np.concatenate([sets.anchors[anchors], *(frames[chosen] for chosen in members)]))
  place = np.full(len(sets.frames), -1, np.int32)
  place[kept] = np.arange(len(kept))
  return dataclasses.replace(
    sets,
    frames=tuple(sets.frames[index] for index in kept),
    labels=padded_labels([labels[index] for index in kept]),
    anchors=place[sets.anchors[anchors]],
    neighbors=tuple(place[frames[chosen]] for chosen in members),
    offsets=tuple(offsets[chosen] for chosen in members),
    frame_types=None if sets.frame_types is None else sets.frame_types[kept],
    fps=None if sets.fps is None else sets.fps[kept],
  )


def table(rounds: ReviewRounds, decided: Decisions) -> pd.DataFrame:
  """Returns what was kept of what (the paper's Table 1), and how far annotators agreed about pairs.

  There are rows about labels where anchors were shown alone to add some, or some were added.
  Agreement is that of the individual round, by question: whether the labels are correct, whether
  the pair is similar, and whether both are so (keep). The pairs of an anchor count as one cluster,
  and values are NaN where they are not defined.

  Reference:
    Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, Table 1.
  """
  parts = [
    means(quantity, Outcomes({REVIEWERS: own[:, None]}, ONE_VIEW), confidence=CONFIDENCE)
    for quantity, own in _kept(rounds, decided).items()
  ]
  return assemble([*parts, *_agreement(rounds)])


def counts(rounds: ReviewRounds, decided: Decisions) -> Table:
  """Returns how many were accepted or gained labels, and of how many; see `table`."""
  rows = [
    (quantity.words, int(own.sum()), len(own))
    for quantity, own in _kept(rounds, decided).items()
    if quantity is not ADDED
  ]
  return Table(('what', 'count', 'of'), rows)


def _kept(rounds: ReviewRounds, decided: Decisions) -> dict[Quantity, np.ndarray]:
  """Returns for each quantity what there is of each anchor or pair that it is of."""
  kept = {ANCHORS: decided.anchor_accepted[decided.anchor_reviewed]}
  added = np.array([len(classes) for classes in decided.added], float)[decided.anchor_accepted]
  if rounds.plan.densify or added.any():
    kept[UPDATED] = added > 0
  kept[PAIRS] = decided.pair_accepted[decided.pair_reviewed]
  if rounds.plan.densify and len(added):
    kept[ADDED] = added
  return kept


def _agreement(rounds: ReviewRounds) -> Iterator[pd.DataFrame]:
  names = rounds.annotators()
  items = [item for item in sorted(rounds.ballots) if item.kind == PAIR]
  groups = np.array([rounds.candidates.pairs[item.number].anchor for item in items], int)
  for question, (answers, said) in QUESTIONS.items():
    ratings = np.full((len(items), len(names)), -1)
    for place, item in enumerate(items):
      for name, answer in rounds.ballot(item).individual.items():
        ratings[place, names.index(name)] = answers.index(said(answer))
    found: list[tuple[Quantity, dict[str, str], Estimate]] = [
      (AGREEMENT, {}, agreement.percent_agreement(ratings, groups)),
      (FLEISS, {}, agreement.fleiss_kappa(ratings, groups)),
    ]
    for first, second in itertools.combinations(range(len(names)), 2):
      kappa = agreement.cohen_kappa(ratings[:, first], ratings[:, second], groups)
      found.append((COHEN, {'annotators': f'{names[first]} and {names[second]}'}, kappa))
    yield part(
      [
        row(REVIEWERS, '', quantity, {'question': question, **of}, estimate, CONFIDENCE)
        for quantity, of, estimate in found
      ]
    )


def reasons(rounds: ReviewRounds) -> Table:
  """Returns for each reason how many pairs carry it in a vote; a pair may carry several."""
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
