"""Tests that neighbor sets become columns of frames and columns become neighbor sets."""

import numpy as np

from robustness.video import metadata
from robustness.video.columns import clip_numbers, from_columns, to_columns, with_numbered_sets
from robustness.video.metadata import NeighborSets
from tests.refusals import refused

SETS = {'a/2.jpg': ['a/4.jpg', 'a/1.jpg'], 'a/4.jpg': ['a/2.jpg'], 'b/7.jpg': []}
LABELS = {'a/1.jpg': [0], 'a/2.jpg': [0, 1], 'a/4.jpg': [1], 'b/7.jpg': [2]}


def pairs_of(sets: NeighborSets) -> set[tuple[int, int, int]]:
  """Returns the anchor, the neighbor (both as indices of frames) and the offset of each pair."""
  return {(int(sets.anchors[g]), int(f), int(o)) for g, f, o in zip(*sets.pairs, strict=True)}


def test_sets_become_columns_and_survive_a_round_trip():
  columns = to_columns(metadata.from_mappings(SETS, LABELS))
  assert columns['group_id'].tolist() == [[0, -1], [0, 1], [0, 1], [2, -1]]
  assert columns['offset'].tolist() == [[-1, 0], [0, -2], [2, 0], [0, 0]]
  assert set(columns) == {'label', 'group_id', 'offset'}
  facts = {'a/1.jpg': {'frame_type': 'b', 'fps': 25}, 'b/7.jpg': {'frame_type': 'i'}}
  sets = metadata.from_mappings(SETS, LABELS, ('x', 'y', 'z'), facts)
  restored = from_columns(to_columns(sets), sets.frames, sets.class_names)
  assert restored.frames == sets.frames and restored.class_names == sets.class_names
  assert pairs_of(restored) == pairs_of(sets)
  assert restored.anchors.tolist() == sets.anchors.tolist()
  assert restored.frame_types.tolist() == ['b', '', '', 'i']
  np.testing.assert_array_equal(restored.fps, sets.fps)


def test_frames_are_of_one_clip_by_folder_by_video_or_by_sets_that_share_frames():
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


def test_a_subset_of_rows_gives_the_sets_that_it_has():
  columns = to_columns(metadata.from_mappings(SETS, LABELS))
  sets = from_columns({name: values[3:] for name, values in columns.items()})
  assert sets.anchors.tolist() == [0] and len(sets.pairs.frame) == 0


GOOD = {'label': np.array([3, 3]), 'group_id': np.array([5, 5]), 'offset': np.array([0, 1])}
"""Columns of one axis: an anchor of class 3 and its next frame, in the set 5."""


def test_columns_may_have_one_axis_and_sets_may_have_names():
  sets = from_columns(GOOD)
  assert sets.labels.tolist() == [[3], [3]] and sets.pairs.offset.tolist() == [1]
  named = with_numbered_sets({**GOOD, 'group_id': ['walk', 'walk']})
  assert from_columns(named).pairs.frame.tolist() == [1]
  numbered = with_numbered_sets({'group_id': np.array(['b', 'a', 'b'])})
  assert numbered['group_id'].tolist() == [1, 0, 1]
  assert with_numbered_sets(GOOD) == GOOD


def test_invalid_columns_are_refused():
  bare = {'label': GOOD['label'], 'group_id': GOOD['group_id']}
  refused("no column 'offset'.*'video_neighbors'", from_columns, bare)
  refused(r'set 5 \(of row 0\) has 2 anchors', from_columns, {**GOOD, 'offset': np.zeros(2, int)})
  refused(r'set 5 \(of row 0\) has 0 anchors', from_columns, {**GOOD, 'offset': np.ones(2, int)})
  refused('in no neighbor set', from_columns, {**GOOD, 'group_id': np.array([-1, -1])})
  refused("'offset' has values that are no whole", from_columns, {**GOOD, 'offset': [0, 0.5]})
  refused('shape', from_columns, {**GOOD, 'offset': np.array([[0, 0], [1, 0]])})
  three = {name: np.append(values, values[-1:]) for name, values in GOOD.items()}
  refused(r'set 5 \(of row 0\) has two rows with offset 1', from_columns, three)
  refused('no whole numbers', from_columns, {**GOOD, 'frame_type': np.array(['i', 'p'])})
  refused('0 to 2 for i, p, b', from_columns, {**GOOD, 'frame_type': np.array([0, 7])})
  refused('fps is -1', from_columns, {**GOOD, 'fps': np.array([25, -1])})
  refused('cannot be sorted', with_numbered_sets, {**GOOD, 'group_id': ['walk', None]})
