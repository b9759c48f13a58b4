"""Sets under review as numbered pairs."""

from __future__ import annotations

import pathlib

import pytest

from robustness.core.errors import InputError
from robustness.video import metadata
from robustness.video.review_candidates import Candidates, Item, Pair
from tests.video.review_frames import CLASS_NAMES, candidates, path, sets


def test_pairs_go_from_the_first_neighbor_to_the_last() -> None:
  frames = sets().frames
  pairs = candidates().pairs
  assert [(frames[pair.frame], pair.offset) for pair in pairs[:3]] == [
    (path(0, 9), -1),
    (path(0, 11), 1),
    (path(0, 12), 2),
  ]
  assert pairs[3] == Pair(1, frames.index(path(1, 9)), -1)
  assert candidates().pairs_of == ((0, 1, 2), (3, 4, 5))


def test_items_by_name_and_by_paths() -> None:
  of = candidates()
  for name in ('anchor:0', 'anchor:1', 'pair:0', 'pair:5'):
    assert str(of.item(name)) == name
    assert of.items[of.paths(of.item(name))] == of.item(name)
  assert of.paths(Item('pair', 3)) == (path(1, 10), path(1, 9))


@pytest.mark.parametrize(
  'name',
  [
    'pair:6',
    'anchor:2',
    'pair:-1',
    'pair:',
    'frame:0',
    '',
    'pair:1.0',
    'pair:\u0663',
    'pair:9999999999',
  ],
)
def test_other_names_are_refused(name: str) -> None:
  with pytest.raises(InputError, match=r'anchor:0 to anchor:1 and pair:0 to pair:5 are'):
    candidates().item(name)


def test_the_digest_is_of_sets_and_labels() -> None:
  neighbor_sets = sets()
  frames = neighbor_sets.frames
  table = {
    frames[anchor]: [frames[n] for n in members][::-1]
    for anchor, members in zip(neighbor_sets.anchors, neighbor_sets.neighbors, strict=True)
  }
  labels = {frame: [int(neighbor_sets.labels[index][0])] for index, frame in enumerate(frames)}
  again = Candidates(metadata.from_mappings(dict(reversed(table.items())), labels), CLASS_NAMES)
  assert again.digest == candidates().digest
  labels[frames[0]] = [2]
  assert Candidates(metadata.from_mappings(table, labels), CLASS_NAMES).digest != again.digest


def test_a_label_without_a_name_is_refused() -> None:
  with pytest.raises(InputError, match='class id 1, which is none of the 1 classes'):
    Candidates(sets(), {0: 'cat'})


def test_the_released_sets(shared_dir: pathlib.Path) -> None:
  folder = shared_dir / 'data' / 'imagenet_vid_robust'
  of = Candidates(metadata.read(folder), dict(enumerate(map(str, range(30)))))
  assert (len(of.sets.anchors), len(of.pairs)) == (1109, 21070)
  assert sum(not numbers for numbers in of.pairs_of) == 1
