"""What the page is told: plain values about an item, the session and the progress."""

from __future__ import annotations

from typing import Any

from robustness.video.review_answers import INDIVIDUAL, JOINT, REASONS, Answer
from robustness.video.review_candidates import ANCHOR, Candidates, Item
from robustness.video.review_rounds import Rounds


def session(rounds: Rounds, annotator: str | None) -> dict[str, Any]:
  """Returns what holds for the whole session.

  Args:
    rounds: the review.
    annotator: the name given on the command line; None where the page asks for it.
  """
  candidates = rounds.candidates
  return {
    'annotator': annotator,
    'annotators': rounds.annotators(),
    'classes': [_named(candidates, label) for label in sorted(candidates.class_names)],
    'reasons': list(REASONS),
    'pairs': len(candidates.pairs),
    'anchors': len(candidates.sets.anchors),
  }


def turn(rounds: Rounds, annotator: str, choice: tuple[Item, str] | None) -> dict[str, Any]:
  """Returns an annotator's progress and what they judge (`item` is null when nothing is left)."""
  shown = _item(rounds, annotator, *choice) if choice else None
  return {'item': shown, 'progress': rounds.progress(annotator)}


def shown_labels(rounds: Rounds, item: Item) -> tuple[int, ...]:
  """Returns the labels that the page gives: those of the anchor, and with a pair the added ones."""
  candidates = rounds.candidates
  if item.kind == ANCHOR:
    return candidates.labels[int(candidates.sets.anchors[item.number])]
  anchor = candidates.pairs[item.number].anchor
  stored = candidates.labels[int(candidates.sets.anchors[anchor])]
  return tuple(sorted({*stored, *rounds.ballot(Item(ANCHOR, anchor)).added}))


def _item(rounds: Rounds, annotator: str, item: Item, stage: str) -> dict[str, Any]:
  candidates, ballot = rounds.candidates, rounds.ballot(item)
  labels = shown_labels(rounds, item)
  facts: dict[str, Any] = {
    'id': str(item),
    'kind': item.kind,
    'round': stage,
    'labels': [_named(candidates, label) for label in labels],
    'answered': rounds.given_at(item, stage, annotator),
    'answer': _given(ballot.joint.get(annotator) or ballot.individual.get(annotator)),
    'others': [],
  }
  if stage == JOINT:
    voices = {**ballot.individual, **ballot.joint}
    facts['others'] = [
      {'annotator': name, 'round': answer.round, **(_given(answer) or {})}
      for name, answer in voices.items()
    ]
  if item.kind == ANCHOR:
    anchor = int(candidates.sets.anchors[item.number])
    return {**facts, 'anchor': _frame(candidates, anchor)}
  return {**facts, **_pair(rounds, item, annotator)}


def _pair(rounds: Rounds, item: Item, annotator: str) -> dict[str, Any]:
  candidates, sets = rounds.candidates, rounds.candidates.sets
  pair = candidates.pairs[item.number]
  stored = candidates.labels[int(sets.anchors[pair.anchor])]
  own = candidates.labels[pair.frame]
  differs = bool(own) and own != stored
  judged = Item(ANCHOR, pair.anchor)  # what the page answers about if it calls the anchor bad
  stage = JOINT if rounds.ready_for_joint(judged) else INDIVIDUAL
  return {
    'anchor_item': str(judged),
    'anchor_round': stage,
    'anchor_answered': rounds.given_at(judged, stage, annotator),
    'anchor': _frame(candidates, int(sets.anchors[pair.anchor])),
    'neighbor': _frame(candidates, pair.frame),
    'offset': pair.offset,
    'neighbor_labels': [_named(candidates, label) for label in own] if differs else None,
  }


def _frame(candidates: Candidates, index: int) -> dict[str, Any]:
  return {'index': index, 'url': f'/frames/{index}', 'path': candidates.sets.frames[index]}


def _named(candidates: Candidates, label: int) -> dict[str, Any]:
  return {'id': label, 'name': candidates.class_names[label]}


def _given(answer: Answer | None) -> dict[str, Any] | None:
  if answer is None:
    return None
  return {
    'label': answer.label,
    'similar': answer.similar,
    'reasons': list(answer.reasons),
    'feature': answer.feature,
    'added': list(answer.added),
  }
