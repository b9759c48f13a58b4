"""Neighbor sets as rows: images, columns, subsets, what results state."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np
import pytest

import input_pipeline
from input_pipeline import DataSettings
from robustness.core.errors import InputError
from robustness.models import label_space
from robustness.video import metadata
from robustness.video.building import build
from tests.video import small_archive
from tests.video.small_videos import SIDE, number_of, save_frames


@pytest.fixture
def settings(tmp_path: pathlib.Path) -> DataSettings:
  """Three clips of 12 frames, built with k = 3."""
  videos = tmp_path / 'videos'
  for name in 'abc':
    save_frames(videos / name, range(12))
  built = build(videos, {'a': [0], 'b': [1], 'c': [29]}, videos, k=3)
  metadata.write(built.sets, tmp_path / 'sets')
  return DataSettings(source='video_neighbors', path=str(videos), metadata=str(tmp_path / 'sets'))


def test_rows_hold_frames_with_their_columns(settings: DataSettings) -> None:
  rows = input_pipeline.load(settings)
  assert rows.image_shape == (SIDE, SIDE, 3)
  (batch,) = rows.batches(64)
  count = rows.num_examples
  assert batch['mask'].sum() == count
  sets = metadata.read(settings.metadata)
  for index in range(count):
    path = sets.frames[index]
    assert number_of(batch['image'][index] * 255) == metadata.frame_number(path)
    group = batch['group_id'][index, 0]
    anchor = sets.frames[sets.anchors[group]]
    assert metadata.video_of(anchor) == metadata.video_of(path)
    assert batch['offset'][index, 0] == (
      metadata.frame_number(path) - metadata.frame_number(anchor)
    )
    assert batch['anchor'][index] == (path == anchor)
    assert batch['label'][index] == {'a': 0, 'b': 1, 'c': 29}[path[0]]
  assert batch['anchor'].sum() == 3


def test_subsets_count_anchors(settings: DataSettings) -> None:
  rows = input_pipeline.load(dataclasses.replace(settings, num_images=2))
  (batch,) = rows.batches(64)
  groups = np.unique(batch['group_id'][batch['mask']])
  assert len(groups) == 2 and batch['anchor'].sum() == 2
  assert rows.description['available_anchors'] == 3
  with pytest.raises(InputError, match='num_images is 4, which counts anchors'):
    input_pipeline.load(dataclasses.replace(settings, num_images=4))


def test_results_state_what_was_missing(settings: DataSettings) -> None:
  assert 'missing_frames' not in input_pipeline.load(settings).description
  sets = metadata.read(settings.metadata)
  anchor = sets.frames[sets.anchors[0]]
  (pathlib.Path(settings.path) / anchor).unlink()
  with pytest.raises(InputError, match='frames are not in .*1 of 3 anchors'):
    input_pipeline.load(settings)
  rows = input_pipeline.load(dataclasses.replace(settings, allow_missing=True))
  assert rows.description['missing_frames'] == rows.description['missing_anchors'] == 1
  assert rows.description['available_anchors'] == 2


def test_a_frame_that_cannot_be_decoded_is_named(settings: DataSettings) -> None:
  sets = metadata.read(settings.metadata)
  file = pathlib.Path(settings.path) / sets.frames[2]
  file.write_bytes(file.read_bytes()[:80])
  with pytest.raises(InputError, match=rf'{file}'):
    list(input_pipeline.load(settings).batches(4))


def test_training_reads_the_split(settings: DataSettings, tmp_path: pathlib.Path) -> None:
  videos = pathlib.Path(settings.path)
  train = build(videos, {'a': [0], 'b': [1]}, videos, k=20).sets
  metadata.write(train, tmp_path / 'sets/train')
  rows = input_pipeline.load(dataclasses.replace(settings, split='train'))
  assert rows.num_examples == 24
  batch = next(rows.training_batches(8, 0))
  assert batch['label'].shape == (8,) and set(batch['label']) <= {0, 1}


def test_the_archive_is_read_as_it_unpacks(tmp_path: pathlib.Path) -> None:
  archive = small_archive.with_annotations(tmp_path)
  home = archive / small_archive.VID_ROBUST
  rows = input_pipeline.load(DataSettings(source='video_neighbors', path=str(home)))
  assert rows.class_names == label_space.get('imagenet_vid').class_names
  (batch,) = rows.batches(5)
  assert [number_of(image * 255) for image in batch['image']] == [20, 21, 22, 23, 20]
  assert batch['label'].tolist() == [[8, -1]] * 4 + [[4, 6]]
  with pytest.raises(InputError, match=f'but in {home}: give that folder'):
    input_pipeline.load(DataSettings(source='video_neighbors', path=str(archive)))
  for folder in (archive, home / 'val'):
    settings = DataSettings(source='video_neighbors', path=str(folder), metadata=str(home))
    with pytest.raises(InputError, match=f'5 of 5 frames .* The first lies in {home}: give'):
      input_pipeline.load(settings)
