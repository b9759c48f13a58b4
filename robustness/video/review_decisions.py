"""What a review decides: which anchors and pairs stay, and which labels anchors gain."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from robustness.core.errors import InputError
from robustness.video.metadata import NeighborSets
from robustness.video.review_ballots import Rule
from robustness.video.review_candidates import ANCHOR, PAIR, Candidates, Item
from robustness.video.review_rounds import Rounds


@dataclasses.dataclass(frozen=True)
class Decisions:
  """The outcome of a review of A anchors and P pairs.

  Attributes:
    anchor_reviewed: [A] booleans, whether the anchor or one of its pairs has an answer.
    anchor_accepted: [A] booleans; a bad anchor is not.
    pair_reviewed: [P] booleans, whether the pair has an answer or went with a bad anchor.
    pair_accepted: [P] booleans.
    unsettled: items about which answers are still awaited, in their order.
    added: by anchor, the class ids its labels gain, ascending.
  """

  anchor_reviewed: np.ndarray
  anchor_accepted: np.ndarray
  pair_reviewed: np.ndarray
  pair_accepted: np.ndarray
  unsettled: tuple[Item, ...]
  added: tuple[tuple[int, ...], ...]


def decide(rounds: Rounds, rule: Rule) -> Decisions:
  """Counts the votes.

  An anchor that nobody has judged alone is accepted if one of its pairs has an answer. A bad
  anchor takes its pairs along. What is unsettled is not accepted.

  Args:
    rounds: the review with all answers.
    rule: when votes keep an item (`robustness.video.review_ballots.RULES`).
  """
  candidates = rounds.candidates
  anchors = [Item(ANCHOR, number) for number in range(len(candidates.sets.anchors))]
  pairs = [Item(PAIR, number) for number in range(len(candidates.pairs))]
  group = np.array([pair.anchor for pair in candidates.pairs], int)
  answered = np.array([item in rounds.ballots for item in pairs], bool)
  reviewed = np.array([item in rounds.ballots for item in anchors], bool)
  reviewed[group[answered]] = True
  accepted = reviewed & np.array([_keeps(rounds, item, rule, True) for item in anchors], bool)
  kept = np.array([_keeps(rounds, item, rule, False) for item in pairs], bool)
  return Decisions(
    reviewed,
    accepted,
    answered | (reviewed & ~accepted)[group],
    kept & accepted[group],
    tuple(item for item in [*anchors, *pairs] if not rounds.is_settled(item)),
    tuple(rounds.ballot(item).added if accepted[item.number] else () for item in anchors),
  )


def _keeps(rounds: Rounds, item: Item, rule: Rule, unasked: bool) -> bool:
  votes = rounds.ballot(item).votes
  return rounds.is_settled(item) and (rule(votes) if votes else unasked)


def require_settled(decisions: Decisions, candidates: Candidates) -> None:
  """Checks that a review is finished.

  Raises:
    InputError: answers are still awaited: about how many items, and which is the first.
  """
  if decisions.unsettled:
    anchor, neighbor = candidates.paths(decisions.unsettled[0])
    raise InputError(
      f'answers are awaited about {len(decisions.unsettled)} anchors and pairs, first about '
      f'{anchor if neighbor is None else f"{anchor} with {neighbor}"}: go on with the review, '
      'or give --unsettled=drop to leave them out.'
    )


def reviewed_sets(candidates: Candidates, decisions: Decisions) -> NeighborSets:
  """Returns the sets that a review leaves.

  Accepted anchors stay, even with no neighbor left, as in ImageNet-Vid-Robust. Labels that an
  anchor gains go to its neighbors too; neighbors without labels of their own stay so, and take
  their anchor's by the label rule 'anchor'.

  Raises:
    InputError: no anchor is left.
  """
  sets = candidates.sets
  anchors = np.flatnonzero(decisions.anchor_accepted)
  if not len(anchors):
    raise InputError('no anchor was accepted, so there are no sets to write.')
  group = np.array([pair.anchor for pair in candidates.pairs], int)
  frames = np.array([pair.frame for pair in candidates.pairs], np.int32)
  offsets = np.array([pair.offset for pair in candidates.pairs], np.int32)
  members = [np.flatnonzero(decisions.pair_accepted & (group == anchor)) for anchor in anchors]
  kept = np.unique(np.concatenate([sets.anchors[anchors], *(frames[chosen] for chosen in members)]))
  place = np.full(len(sets.frames), -1, np.int32)
  place[kept] = np.arange(len(kept))
  labels = _labels(candidates, decisions)
  return dataclasses.replace(
    sets,
    frames=tuple(sets.frames[index] for index in kept),
    labels=_table([labels[index] for index in kept]),
    anchors=place[sets.anchors[anchors]],
    neighbors=tuple(place[frames[chosen]] for chosen in members),
    offsets=tuple(offsets[chosen] for chosen in members),
    frame_types=None if sets.frame_types is None else sets.frame_types[kept],
    fps=None if sets.fps is None else sets.fps[kept],
  )


def _labels(candidates: Candidates, decisions: Decisions) -> list[tuple[int, ...]]:
  labels = list(candidates.labels)
  for anchor, added in enumerate(decisions.added):
    members = (candidates.pairs[number].frame for number in candidates.pairs_of[anchor])
    for frame in (int(candidates.sets.anchors[anchor]), *members) if added else ():
      if labels[frame]:
        labels[frame] = tuple(sorted({*labels[frame], *added}))
  return labels


def _table(labels: Sequence[Sequence[int]]) -> np.ndarray:
  table = np.full((len(labels), max(map(len, labels))), -1, np.int32)
  for row, values in zip(table, labels, strict=True):
    row[: len(values)] = values
  return table
