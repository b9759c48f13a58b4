"""Sets to columns and back."""

import numpy as np

from robustness.video import metadata
from robustness.video.columns import clip_numbers, from_columns, to_columns, with_numbered_sets
from robustness.video.metadata import NeighborSets
from tests.refusals import refused

SETS = {'a/2.jpg': ['a/4.jpg', 'a/1.jpg'], 'a/4.jpg': ['a/2.jpg'], 'b/7.jpg': []}
LABELS = {'a/1.jpg': [0], 'a/2.jpg': [0, 1], 'a/4.jpg': [1], 'b/7.jpg': [2]}


def pairs_of(sets: NeighborSets) -> set[tuple[int, int, int]]:
  return {(int(sets.anchors[g]), int(f), int(o)) for g, f, o in zip(*sets.pairs, strict=True)}


def test_columns_by_hand_and_a_round_trip():
  columns = to_columns(metadata.from_mappings(SETS, LABELS))
  assert columns['group_id'].tolist() == [[0, -1], [0, 1], [0, 1], [2, -1]]
  assert columns['offset'].tolist() == [[-1, 0], [0, -2], [2, 0], [0, 0]]
  assert set(columns) == {'label', 'group_id', 'offset'}
  facts = {'a/1.jpg': {'frame_type': 'b', 'fps': 25}, 'b/7.jpg': {'frame_type': 'i'}}
  sets = metadata.from_mappings(SETS, LABELS, ('x', 'y', 'z'), facts)
  again = from_columns(to_columns(sets), sets.frames, sets.class_names)
  assert again.frames == sets.frames and again.class_names == sets.class_names
  assert pairs_of(again) == pairs_of(sets) and again.anchors.tolist() == sets.anchors.tolist()
  assert again.frame_types.tolist() == ['b', '', '', 'i']
  np.testing.assert_array_equal(again.fps, sets.fps)


def test_frames_of_a_clip_share_a_folder_or_sets_that_share_frames():
  columns = to_columns(metadata.from_mappings(SETS, LABELS))
  assert clip_numbers(columns).tolist() == [0, 0, 0, 1], 'by their sets'
  paths = np.array(['v/1', 'v/2', 'w/4', 'v/7'])
  assert clip_numbers({**columns, 'path': paths}).tolist() == [0] * 4, 'by set and folder'
  cut = np.array(['8Lx004yCltY_10/1', '8Lx004yCltY_10/2', '8Lx004yCltY_10/4', '8Lx004yCltY_20/7'])
  assert clip_numbers({**columns, 'path': cut}).tolist() == [0] * 4, 'of one video of YouTube'
  flat = {**columns, 'path': np.array(['1', '2', '4', '7'])}
  assert clip_numbers(flat).tolist() == [0, 0, 0, 1]
  assert clip_numbers({'group_id': np.array([3, 3, 9])}).tolist() == [0, 0, 1]
  assert clip_numbers({'label': np.zeros(3)}) is None
  # a subset keeps the ids of its sets
  sets = from_columns({name: values[3:] for name, values in columns.items()})
  assert sets.anchors.tolist() == [0] and len(sets.pairs.frame) == 0


def test_columns_of_one_axis_and_invalid_columns():
  good = {'label': np.array([3, 3]), 'group_id': np.array([5, 5]), 'offset': np.array([0, 1])}
  sets = from_columns(good)
  assert sets.labels.tolist() == [[3], [3]] and sets.pairs.offset.tolist() == [1]
  bare = {'label': good['label'], 'group_id': good['group_id']}
  refused("no column 'offset'.*'video_neighbors'", from_columns, bare)
  refused('set 5 has 2 anchors', from_columns, {**good, 'offset': np.zeros(2, int)})
  refused('set 5 has 0 anchors', from_columns, {**good, 'offset': np.ones(2, int)})
  named = with_numbered_sets({**good, 'group_id': ['walk', 'walk']})
  assert from_columns(named).pairs.frame.tolist() == [1]
  assert with_numbered_sets({'group_id': np.array(['b', 'a', 'b'])})['group_id'].tolist() == [
    1,
    0,
    1,
  ]
  assert with_numbered_sets(good) == good
  refused('in no neighbor set', from_columns, {**good, 'group_id': np.array([-1, -1])})
