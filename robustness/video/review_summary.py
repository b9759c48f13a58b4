"""What a review found: what it kept, how far the annotators agreed, and their reasons."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd

from robustness.estimates.means import Estimate, means, part, row
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity
from robustness.estimates.table import assemble
from robustness.evaluation.outcomes import ONE_VIEW
from robustness.results import Table
from robustness.video import agreement as review
from robustness.video.review_answers import LABEL_ANSWERS, SIMILAR_ANSWERS, Answer
from robustness.video.review_candidates import PAIR, Item
from robustness.video.review_decisions import Decisions
from robustness.video.review_rounds import Rounds

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
QUESTIONS = {'label': LABEL_ANSWERS, 'similar': SIMILAR_ANSWERS, 'keep': (False, True)}
CONFIDENCE = 0.95


def table(rounds: Rounds, decided: Decisions) -> pd.DataFrame:
  """Returns what was kept of what (the paper's Table 1), and how far annotators agreed about pairs.

  Labels are told of where anchors were shown alone to add some, or some were added. Agreement is
  that of the individual round, by question: whether the labels are correct, whether the pair is
  similar, and whether both are so (keep); Cohen's kappa by two annotators too. Its intervals count
  the pairs of an anchor as one cluster, and values are NaN where they are not defined.

  Args:
    rounds: the review with all answers.
    decided: of the review.

  Reference:
    Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, Table 1.
  """
  parts = [
    means(quantity, Outcomes({REVIEWERS: own[:, None]}, ONE_VIEW), confidence=CONFIDENCE)
    for quantity, own in _kept(rounds, decided).items()
  ]
  return assemble([*parts, *_agreement(rounds)])


def counts(rounds: Rounds, decided: Decisions) -> Table:
  """Returns how many were accepted or gained labels, and of how many; see `table`."""
  rows = [
    (quantity.words, int(own.sum()), len(own))
    for quantity, own in _kept(rounds, decided).items()
    if quantity is not ADDED
  ]
  return Table(('what', 'count', 'of'), rows)


def _kept(rounds: Rounds, decided: Decisions) -> dict[Quantity, np.ndarray]:
  """Returns for each quantity what there is of each anchor or pair that it is of."""
  kept = {ANCHORS: decided.anchor_accepted[decided.anchor_reviewed]}
  added = np.array([len(classes) for classes in decided.added], float)[decided.anchor_accepted]
  if rounds.plan.densify or added.any():
    kept[UPDATED] = added > 0
  kept[PAIRS] = decided.pair_accepted[decided.pair_reviewed]
  if rounds.plan.densify and len(added):
    kept[ADDED] = added
  return kept


def _agreement(rounds: Rounds) -> Iterator[pd.DataFrame]:
  names = rounds.annotators()
  items = [item for item in sorted(rounds.ballots) if item.kind == PAIR]
  groups = np.array([rounds.candidates.pairs[item.number].anchor for item in items], int)
  for question in QUESTIONS:
    ratings = _ratings(rounds, items, names, question)
    found: list[tuple[Quantity, dict[str, str], Estimate]] = [
      (AGREEMENT, {}, review.percent_agreement(ratings, groups, CONFIDENCE)),
      (FLEISS, {}, review.fleiss_kappa(ratings, groups, CONFIDENCE)),
    ]
    for first, second in itertools.combinations(range(len(names)), 2):
      kappa = review.cohen_kappa(ratings[:, first], ratings[:, second], groups, CONFIDENCE)
      found.append((COHEN, {'annotators': f'{names[first]} and {names[second]}'}, kappa))
    yield part(
      [
        row(REVIEWERS, '', quantity, {'question': question, **of}, estimate, CONFIDENCE)
        for quantity, of, estimate in found
      ]
    )


def reasons(rounds: Rounds) -> Table:
  """Returns for each reason how many pairs carry it in a vote; a pair may carry several."""
  marks = [
    {mark for vote in ballot.votes for mark in _marks(vote)}
    for item, ballot in rounds.ballots.items()
    if item.kind == PAIR
  ]
  names = sorted({mark for of_pair in marks for mark in of_pair})
  return Table(
    ('mark', 'pairs'), [(name, sum(name in of_pair for of_pair in marks)) for name in names]
  )


def _marks(vote: Answer) -> list[str]:
  feature = ['feature in only one'] if vote.feature else []
  label = [] if vote.label == 'correct' else [f'label {vote.label}']
  similar = ['similarity unsure'] if vote.similar == 'unsure' else []
  return [*vote.reasons, *feature, *label, *similar]


def _ratings(rounds: Rounds, items: list[Item], names: list[str], question: str) -> np.ndarray:
  """Returns the individual answers [items, annotators] as positions in the question's answers."""
  ratings = np.full((len(items), len(names)), -1)
  for row_of, item in enumerate(items):
    for name, answer in rounds.ballot(item).individual.items():
      said = answer.accepts if question == 'keep' else getattr(answer, question)
      ratings[row_of, names.index(name)] = QUESTIONS[question].index(said)
  return ratings
