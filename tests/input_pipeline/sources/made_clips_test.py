"""The made clips: sets, motion and subsets."""

import numpy as np

from input_pipeline import load
from input_pipeline.sources import made_clips
from robustness.video.columns import from_columns
from robustness.video.metadata import frame_number, video_of
from tests.input_pipeline.domains import settings_of
from tests.refusals import bad_setting, refused

MADE = settings_of('made_clips')


def columns(settings):
  rows = load(settings, seed=3)
  return next(rows.batches(rows.num_examples))


def test_every_clip_is_a_named_set_of_one_digit_that_changes_with_time():
  sets = from_columns(columns(MADE))
  sizes = [len(n) for n in sets.neighbors]
  assert len(sets.anchors) == made_clips.CLIPS and max(sizes) == 20 and min(sizes) >= 10
  assert np.abs(sets.pairs.offset).max() == 10
  of_anchors = sets.labels[sets.anchors][sets.pairs.group]
  np.testing.assert_array_equal(sets.labels[sets.pairs.frame], of_anchors)
  assert sets.fps is not None and set(sets.fps) == {25, 30}
  batch = columns(MADE)
  sets = from_columns(batch, batch['path'].tolist())
  assert len(set(sets.frames)) == len(sets.frames)
  for group, frame, offset in zip(*(part[::97].tolist() for part in sets.pairs), strict=True):
    anchor, neighbor = sets.frames[sets.anchors[group]], sets.frames[frame]
    assert video_of(anchor) == video_of(neighbor)
    assert frame_number(neighbor) - frame_number(anchor) == offset
  batch = columns(MADE)
  sets = from_columns(batch)
  pairs, images = sets.pairs, batch['image']
  change = np.abs(images[sets.anchors][pairs.group] - images[pairs.frame]).mean((1, 2, 3))
  near, far = (change[np.abs(pairs.offset) == d].mean() for d in (1, 10))
  assert 0 < near < far


def test_a_subset_takes_whole_clips():
  batch = columns(settings_of('made_clips', num_images=5))
  sets, all_sets = from_columns(batch), from_columns(columns(MADE))
  assert len(sets.anchors) == 5
  for anchor, neighbors in zip(sets.anchors, sets.neighbors, strict=True):
    assert len(all_sets.neighbors[int(batch['group_id'][anchor])]) == len(neighbors)
  message = 'at most 200, the number of clips there are'
  refused(message, load, settings_of('made_clips', num_images=201))


def test_training_frames_are_of_other_digits_and_have_no_sets():
  batch = columns(settings_of('made_clips', split='train', num_images=50))
  assert 'group_id' not in batch and len(batch['image']) == 50
  refused(
    bad_setting('config.data.split', 'validation'),
    load,
    settings_of('made_clips', split='validation'),
  )
