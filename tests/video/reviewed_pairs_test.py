"""Which pairs passed: by the paths of anchor and neighbor, and no pair in common."""

from __future__ import annotations

import pytest

from robustness.core.errors import InputError
from robustness.video.metadata import NeighborSets, from_mappings
from robustness.video.reviewed_pairs import passed


def made(sets: dict[str, list[str]]) -> NeighborSets:
  frames = {frame for anchor, members in sets.items() for frame in (anchor, *members)}
  return from_mappings(sets, dict.fromkeys(frames, [0]))


CANDIDATES = made({'v/2': ['v/1', 'v/3'], 'v/3': ['v/2', 'v/4'], 'w/2': ['w/1']})


def test_a_pair_is_an_anchor_with_a_neighbor() -> None:
  reviewed = made({'v/3': ['v/4'], 'v/2': ['v/3'], 'x/2': ['x/1']})
  assert passed(CANDIDATES, reviewed).tolist() == [False, True, False, True, False]
  assert passed(CANDIDATES, CANDIDATES).all()


def test_sets_without_a_common_pair_are_refused() -> None:
  with pytest.raises(InputError, match='none of the 5 pairs of the data is one of the 1 reviewed'):
    passed(CANDIDATES, made({'v/1': ['v/2']}))
