"""Tests the TFDS data set `video_neighbors`: released archives, folders of users, boxes."""

import functools
import json

import numpy as np
import pytest
import tensorflow_datasets as tfds

import input_pipeline.builders  # noqa: F401  (registers the builder)
from input_pipeline.builders.video_neighbors import VideoNeighborsConfig
from robustness.models import label_space
from robustness.video import metadata
from robustness.video.building import build
from tests.input_pipeline.builders.conftest import examples
from tests.refusals import refused
from tests.video import small_archive
from tests.video.small_videos import encode, number_of


@pytest.fixture
def open_builder(tmp_path):
  """Returns a function that makes the builder of a config."""
  return functools.partial(tfds.builder, 'video_neighbors', data_dir=tmp_path / 'tfds')


@pytest.fixture
def prepared(open_builder):
  """Returns a function that prepares a config, with `manual_dir`, and returns its builder."""

  def prepare(config, manual=None):
    builder = open_builder(config=config)
    manual_dir = {} if manual is None else {'manual_dir': str(manual)}
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(**manual_dir))
    return builder

  return prepare


def unpacked_archive(root):
  """Returns a `manual_dir` with a small ImageNet-Vid-Robust, unpacked."""
  return small_archive.unpacked(root).parent


def config_of(name, home, **settings):
  """Returns a config that reads its metadata from the folder `home`."""
  return VideoNeighborsConfig(name=name, metadata=str(home), **settings)


def test_imagenet_vid_robust_is_prepared_from_its_archive(tmp_path, prepared):
  builder = prepared('imagenet_vid_robust', unpacked_archive(tmp_path / 'manual'))
  assert builder.info.features['label'].names == list(label_space.get('imagenet_vid').class_names)
  rows = examples(builder)
  assert [number_of(row['image']) for row in rows] == [20, 21, 22, 23, 20]
  assert [row['group_id'].tolist() for row in rows] == [[0], [0], [0, 1], [1], [2]]
  assert [row['offset'].tolist() for row in rows] == [[-1], [0], [1, -1], [0], [0]]
  assert [bool(row['anchor']) for row in rows] == [False, True, False, True, True]
  assert [row['labels'].tolist() for row in rows] == [[8]] * 4 + [[4, 6]]
  assert [int(row['label']) for row in rows] == [8] * 4 + [4]
  assert {int(row['frame_type']) for row in rows} == {-1}
  assert all(np.isnan(row['fps']) and not len(row['boxes']['label']) for row in rows)
  assert rows[2]['path'] == b'val/ILSVRC2015_val_00000000/000022.JPEG'


def test_the_archive_is_found_in_its_folder_and_refused_by_another_config(tmp_path, prepared):
  small_archive.with_annotations(tmp_path / 'manual')
  builder = prepared('imagenet_vid_robust', tmp_path / 'manual')
  assert len(examples(builder)) == 5
  refused('YTBB-Robust has anchor_labels.json', prepared, 'ytbb_robust', tmp_path / 'manual')


def test_a_missing_folder_of_frames_is_refused(tmp_path, prepared):
  home = unpacked_archive(tmp_path / 'sets') / 'imagenet-vid-robust'
  config = config_of('mine', home, frames='nowhere')
  refused("'nowhere' of config 'mine' is not there", prepared, config)


def test_ytbb_robust_is_prepared_from_its_archive(tmp_path, prepared):
  """One of three good anchors is dropped by its pair; class 22 of the CSV is car, label 23."""
  small_archive.ytbb_robust(tmp_path / 'manual')
  builder = prepared('ytbb_robust', tmp_path / 'manual')
  assert builder.info.features['label'].int2str(23) == 'car'
  rows = examples(builder)
  frames = ('a_3000/frame-44.jpg', 'a_3000/frame-45.jpg', 'b_3000/frame-45.jpg')
  assert [row['path'].decode() for row in rows] == [*frames]
  assert [row['labels'].tolist() for row in rows] == [[0, 23], [0, 23], [1, 23]]
  assert [row['offset'].tolist() for row in rows] == [[-1], [0], [0]]


def test_sets_of_a_user_are_prepared_with_video_facts_and_boxes(tmp_path, prepared, open_builder):
  encode(tmp_path / 'videos/clip.mp4', 20, fps=24)
  videos, frames = tmp_path / 'videos', tmp_path / 'frames'
  built = build(videos, {'clip': [1]}, frames, ('cat', 'dog'), k=2, facts=True)
  metadata.write(built.sets, tmp_path / 'sets')
  first_frame = built.sets.frames[0]
  annotations = {
    'images': [{'id': 1, 'file_name': first_frame, 'width': 32, 'height': 32}],
    'annotations': [{'image_id': 1, 'category_id': 1, 'bbox': [8, 16, 8, 8]}],
    'categories': [{'id': 1, 'name': 'dog'}],
  }
  (tmp_path / 'boxes.json').write_text(json.dumps(annotations))
  paths = {'frames': str(tmp_path / 'frames'), 'boxes': str(tmp_path / 'boxes.json')}
  config = config_of('mine', tmp_path / 'sets', **paths)
  builder = prepared(config)
  rows = examples(builder)
  assert [row['path'].decode() for row in rows] == list(built.sets.frames)
  numbers = [metadata.frame_number(path) for path in built.sets.frames]
  assert [number_of(row['image']) for row in rows] == numbers
  frame_types = builder.info.features['frame_type']
  assert [frame_types.int2str(row['frame_type']) for row in rows] == built.sets.frame_types.tolist()
  assert {float(row['fps']) for row in rows} == {24.0}
  # x, y, width, height 8, 16, 8, 8 of 32 pixels as ymin, xmin, ymax, xmax in [0, 1]
  np.testing.assert_allclose(rows[0]['boxes']['bbox'], [[0.5, 0.25, 0.75, 0.5]])
  assert rows[0]['boxes']['label'].tolist() == [1]
  expected = {'anchors': 1, 'frames': len(rows), 'missing_frames': 0, 'missing_anchors': 0}
  for name, value in {**expected, 'clipped_boxes': 0}.items():
    assert builder.info.metadata[name] == value
  reopened = open_builder(config=config)
  assert reopened.is_prepared() and reopened.info.metadata['anchors'] == 1


def test_missing_frames_are_refused_or_stated(tmp_path, prepared):
  home = small_archive.unpacked(tmp_path)
  (home / 'val/ILSVRC2015_val_00000000/000020.JPEG').unlink()
  refused(r'1 of 5 frames are not in .*000020\.JPEG', prepared, config_of('strict', home))
  builder = prepared(config_of('lenient', home, allow_missing=True))
  assert builder.info.metadata['missing_frames'] == 1
  assert len(examples(builder)) == 4


def test_damaged_frames_are_refused_before_they_are_stored(tmp_path, prepared):
  home = small_archive.unpacked(tmp_path)
  frame = home / 'val/ILSVRC2015_val_00000000/000021.JPEG'
  message = r'1 of 5 pictures cannot be decoded, first .*000021\.JPEG'
  for content in (frame.read_bytes()[:-40], b''):
    frame.write_bytes(content)
    refused(message, prepared, config_of('mine', home))


def test_an_archive_with_other_classes_than_the_config_is_refused(tmp_path, prepared):
  root = unpacked_archive(tmp_path)
  class_index = {str(i): ['', name] for i, name in enumerate('abcdefghij')}
  misc = root / 'imagenet-vid-robust/misc'
  (misc / 'imagenet_vid_class_index.json').unlink()
  (misc / 'imagenet_class_index.json').write_text(json.dumps(class_index))
  refused('use a VideoNeighborsConfig of your own', prepared, 'imagenet_vid_robust', root)


def test_other_frames_labels_or_settings_under_the_same_name_are_refused(tmp_path, prepared):
  first, second = (small_archive.unpacked(tmp_path / name) for name in ('a', 'b'))
  frame = second / 'val/ILSVRC2015_val_00000000/000020.JPEG'
  frame.write_bytes((second / 'val/ILSVRC2015_val_00000000/000023.JPEG').read_bytes())
  prepared(config_of('mine', first))
  message = r'inputs_sha256\.frames: .*\nGive the config another name'
  options = {'data_dir': tmp_path / 'tfds', 'builder_kwargs': {'config': config_of('mine', second)}}
  refused(message, tfds.load, 'video_neighbors', **options)
  builder = prepared(config_of('other', second))
  assert [number_of(example['image']) for example in examples(builder)][0] == 23
  message = r'settings\.allow_missing: False → True'
  refused(message, prepared, config_of('mine', first, allow_missing=True))
  labels = first / 'metadata/labels.json'
  labels.write_text(labels.read_text().replace('8', '9'))
  refused(r'inputs_sha256\.metadata', prepared, config_of('mine', first))


def test_a_prepared_config_opens_after_its_folder_was_moved_or_removed(
  tmp_path, prepared, open_builder
):
  home = small_archive.unpacked(tmp_path / 'a')
  prepared(config_of('mine', home))
  moved = home.rename(tmp_path / 'moved')
  assert prepared(config_of('mine', moved)).is_prepared()
  moved.rename(tmp_path / 'gone')
  config = config_of('mine', moved, classes='imagenet_vid')
  refused(r"settings\.classes: '' → 'imagenet_vid'", open_builder, config=config)
  builder = open_builder(config=config_of('mine', moved))
  assert len(examples(builder)) == 5
