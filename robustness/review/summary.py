"""The numbers of a review: how far the annotators agreed, and the paper's Table 1."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pandas as pd

from robustness.estimates.means import CLOPPER_PEARSON, STUDENT, of_number, part
from robustness.estimates.quantity import Quantity
from robustness.estimates.table import assemble
from robustness.metrics import review
from robustness.metrics.accuracy import average
from robustness.results import Number, Table
from robustness.review.answers import LABEL_ANSWERS, SIMILAR_ANSWERS, Answer
from robustness.review.candidates import PAIR, Candidates, Item
from robustness.review.decisions import Decisions
from robustness.review.rounds import Rounds

ADDED = Quantity(
  'labels_added_per_anchor', 'labels added to an accepted anchor', 'amount', unit='labels', low=0
)
QUANTITIES = (
  Quantity('anchors_accepted', 'anchors accepted, of those reviewed'),
  Quantity('labels_updated', 'anchors that gained labels, of those accepted'),
  Quantity('pairs_accepted', 'pairs accepted, of those reviewed'),
  ADDED,
)
REVIEWERS = 'review'
"""What stands for a classifier in the table of results."""
QUESTIONS = {'label': LABEL_ANSWERS, 'similar': SIMILAR_ANSWERS, 'keep': (False, True)}


def counts(candidates: Candidates, decisions: Decisions, densified: bool) -> review.ReviewCounts:
  """Counts what Table 1 shows.

  Args:
    candidates: the sets under review.
    decisions: of the review.
    densified: whether anchors were shown alone to add labels.
  """
  updated = [added for added in decisions.added if added]
  return review.ReviewCounts(
    int(decisions.anchor_reviewed.sum()),
    int(decisions.anchor_accepted.sum()),
    len(updated) if densified or updated else None,
    int(decisions.pair_reviewed.sum()),
    int(decisions.pair_accepted.sum()),
  )


def numbers(candidates: Candidates, decisions: Decisions, densified: bool) -> dict[str, Number]:
  """Returns the fractions of Table 1, and with densified labels how many an anchor gained.

  Args:
    candidates: the sets under review.
    decisions: of the review.
    densified: whether anchors were shown alone to add labels.
  """
  fractions = review.fractions(counts(candidates, decisions, densified))
  accepted = np.flatnonzero(decisions.anchor_accepted)
  if densified and len(accepted):
    gained = [len(decisions.added[anchor]) for anchor in accepted]
    fractions['labels_added_per_anchor'] = average(gained, lowest=0)
  return fractions


def estimates(found: Mapping[str, Number]) -> pd.DataFrame:
  """Returns what `numbers` found as a table of results; see `robustness.estimates.table`."""
  confidence = 0.95
  rows = [
    of_number(
      REVIEWERS,
      '',
      quantity,
      {},
      found[quantity.name],
      STUDENT if quantity is ADDED else CLOPPER_PEARSON,
      confidence,
    )
    for quantity in QUANTITIES
    if quantity.name in found
  ]
  return assemble([part(rows)])


def agreement(rounds: Rounds) -> Table:
  """Returns how far annotators agreed about pairs in the individual round.

  A row for each question and measure: whether the labels are correct, whether the pair is similar,
  and whether both are so (keep); percent agreement and Fleiss' kappa over all annotators, and
  Cohen's kappa of every two. Intervals count the pairs of an anchor as one cluster. Values are
  NaN where they are not defined.
  """
  names = rounds.annotators()
  items = [item for item in sorted(rounds.ballots) if item.kind == PAIR]
  groups = np.array([rounds.candidates.pairs[item.number].anchor for item in items], int)
  rows = []
  for question in QUESTIONS:
    ratings = _ratings(rounds, items, names, question)
    rows.append((question, 'agreement', *_cells(review.percent_agreement(ratings, groups))))
    rows.append((question, "Fleiss' kappa", *_cells(review.fleiss_kappa(ratings, groups))))
    for first, second in itertools.combinations(range(len(names)), 2):
      kappa = review.cohen_kappa(ratings[:, first], ratings[:, second], groups)
      rows.append((question, f"Cohen's kappa, {names[first]} and {names[second]}", *_cells(kappa)))
  return Table(('question', 'measure', 'value', 'low', 'high', 'n'), rows)


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
  for row, item in enumerate(items):
    for name, answer in rounds.ballot(item).individual.items():
      said = answer.accepts if question == 'keep' else getattr(answer, question)
      ratings[row, names.index(name)] = QUESTIONS[question].index(said)
  return ratings


def _cells(number: Number) -> tuple[float, float, float, int]:
  return number.value, number.low, number.high, number.n
