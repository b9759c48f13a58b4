"""Tests the clips of moving digits: their sets, their motion, subsets and training frames."""

import functools

import numpy as np

from input_pipeline import load
from input_pipeline.sources import made_clips
from robustness.video.columns import from_columns
from robustness.video.metadata import frame_number, video_of
from tests.input_pipeline.domains import full_batch, settings_of
from tests.refusals import bad_setting, refused


@functools.cache
def columns(**settings):
  """Returns all rows as one batch."""
  return full_batch(load(settings_of('made_clips', **settings), seed=3))


def test_every_clip_is_a_set_of_one_digit():
  sets = from_columns(columns())
  sizes = [len(n) for n in sets.neighbors]
  assert len(sets.anchors) == made_clips.CLIPS
  assert max(sizes) == 20 and min(sizes) >= 10, 'up to ten neighbors on each side'
  assert np.abs(sets.pairs.offset).max() == 10
  anchor_labels = sets.labels[sets.anchors][sets.pairs.group]
  np.testing.assert_array_equal(sets.labels[sets.pairs.frame], anchor_labels)
  assert sets.fps is not None and set(sets.fps) == {25, 30}


def test_paths_of_frames_name_their_clip_and_number():
  batch = columns()
  sets = from_columns(batch, batch['path'].tolist())
  assert len(set(sets.frames)) == len(sets.frames)
  some_pairs = (column[::97].tolist() for column in sets.pairs)
  for group, frame, offset in zip(*some_pairs, strict=True):
    anchor, neighbor = sets.frames[sets.anchors[group]], sets.frames[frame]
    assert video_of(anchor) == video_of(neighbor)
    assert frame_number(neighbor) - frame_number(anchor) == offset


def test_distant_frames_differ_more_than_neighboring_ones():
  batch = columns()
  sets = from_columns(batch)
  pairs, images = sets.pairs, batch['image']
  change = np.abs(images[sets.anchors][pairs.group] - images[pairs.frame]).mean((1, 2, 3))
  near, far = (change[np.abs(pairs.offset) == d].mean() for d in (1, 10))
  assert 0 < near < far


def test_a_subset_takes_complete_clips():
  batch = columns(num_images=5)
  sets, all_sets = from_columns(batch), from_columns(columns())
  assert len(sets.anchors) == 5
  for anchor, neighbors in zip(sets.anchors, sets.neighbors, strict=True):
    assert len(all_sets.neighbors[int(batch['group_id'][anchor])]) == len(neighbors)
  refused('at most 200, the number of clips there are', columns, num_images=201)


def test_training_frames_belong_to_no_set():
  batch = columns(split='train', num_images=50)
  assert 'group_id' not in batch and len(batch['image']) == 50
  refused(bad_setting('config.data.split', 'validation'), columns, split='validation')
