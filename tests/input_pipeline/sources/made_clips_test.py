"""The made clips: sets, motion and subsets."""

from __future__ import annotations

import numpy as np
import pytest

from input_pipeline import DataSettings, load
from input_pipeline.sources import made_clips
from robustness.core.errors import InputError
from robustness.core.sampler import held_out
from robustness.video.columns import clips, from_columns
from robustness.video.metadata import frame_number, video_of

MADE = DataSettings(source='made_clips')


def columns(settings: DataSettings) -> dict[str, np.ndarray]:
  rows = load(settings, seed=3)
  return next(rows.batches(rows.num_examples))


def test_every_clip_is_a_set_whose_frames_show_one_digit() -> None:
  sets = from_columns(columns(MADE))
  sizes = [len(n) for n in sets.neighbors]
  assert len(sets.anchors) == made_clips.CLIPS and max(sizes) == 20 and min(sizes) >= 10
  assert np.abs(sets.pairs.offset).max() == 10
  np.testing.assert_array_equal(
    sets.labels[sets.pairs.frame], sets.labels[sets.anchors][sets.pairs.group]
  )
  assert sets.fps is not None and set(sets.fps) == {25, 30}


def test_frames_have_names_that_tell_clip_and_number() -> None:
  batch = columns(MADE)
  sets = from_columns(batch, batch['path'].tolist())
  assert len(set(sets.frames)) == len(sets.frames)
  for group, frame, offset in zip(*(part[::97].tolist() for part in sets.pairs), strict=True):
    anchor, neighbor = sets.frames[sets.anchors[group]], sets.frames[frame]
    assert video_of(anchor) == video_of(neighbor)
    assert frame_number(neighbor) - frame_number(anchor) == offset


def test_frames_change_more_the_further_they_are_apart() -> None:
  batch = columns(MADE)
  sets = from_columns(batch)
  pairs, images = sets.pairs, batch['image']
  change = np.abs(images[sets.anchors][pairs.group] - images[pairs.frame]).mean((1, 2, 3))
  near, far = (change[np.abs(pairs.offset) == d].mean() for d in (1, 10))
  assert 0 < near < far


def test_a_subset_takes_whole_clips() -> None:
  batch = columns(DataSettings(source='made_clips', num_images=5))
  sets, whole = from_columns(batch), from_columns(columns(MADE))
  assert len(sets.anchors) == 5
  sizes = {
    int(batch['group_id'][a]): len(n) for a, n in zip(sets.anchors, sets.neighbors, strict=True)
  }
  assert all(len(whole.neighbors[clip]) == size for clip, size in sizes.items())
  with pytest.raises(InputError, match='at most the number of clips, 200'):
    load(DataSettings(source='made_clips', num_images=201))


def test_training_frames_are_of_other_digits_and_have_no_sets() -> None:
  batch = columns(DataSettings(source='made_clips', split='train', num_images=50))
  assert 'group_id' not in batch and len(batch['image']) == 50
  with pytest.raises(InputError, match='config.data.split'):
    load(DataSettings(source='made_clips', split='validation'))


def test_no_clip_is_on_both_sides_of_a_validation() -> None:
  own = columns(DataSettings(source='made_clips'))
  units = clips(own)
  assert units is not None and len(np.unique(units)) == 200
  kept, held = held_out(len(units), 0.2, units)
  assert not {*own['group_id'][kept].ravel()} & {*own['group_id'][held].ravel()}
  assert abs(len(held) - 0.2 * len(units)) < 21
