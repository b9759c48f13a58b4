"""Which pairs of candidate neighbor sets passed their review."""

from __future__ import annotations

import numpy as np

from robustness.core.errors import InputError
from robustness.video.metadata import NeighborSets


def passed(candidates: NeighborSets, reviewed: NeighborSets) -> np.ndarray:
  """Returns which pairs of the candidates are pairs of the reviewed sets, bool [P].

  Args:
    candidates: P pairs; a subset of all candidates does.
    reviewed: what was accepted of them, with the same paths.

  Raises:
    InputError: no pair of either is one of the other.
  """
  accepted = set(_named(reviewed))
  is_reviewed = np.array([pair in accepted for pair in _named(candidates)], bool)
  if not is_reviewed.any():
    raise InputError(
      f'none of the {len(is_reviewed)} pairs of the data is one of the {len(accepted)} '
      'reviewed pairs: config.study.reviewed names the review of the sets in '
      'config.data.metadata, with the same paths of frames.'
    )
  return is_reviewed


def _named(sets: NeighborSets) -> list[tuple[str, str]]:
  """Returns the paths of anchor and neighbor of every pair."""
  return [
    (sets.frames[sets.anchors[group]], sets.frames[frame])
    for group, frame in zip(sets.pairs.group, sets.pairs.frame, strict=True)
  ]
