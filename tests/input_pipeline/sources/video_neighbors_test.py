"""Tests reading frames of neighbor sets: images, columns, subsets, missing frames and folders."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest

from input_pipeline import DataSettings, load
from input_pipeline.sources import video_neighbors
from input_pipeline.sources.video_neighbors import VideoNeighbors, find_metadata
from robustness.models import label_space
from robustness.video import metadata
from robustness.video.building import build
from tests.input_pipeline.domains import full_batch, read
from tests.refusals import bad_setting, refused
from tests.video import small_archive
from tests.video.small_videos import SIDE, number_of, save_frames


@pytest.fixture
def settings(tmp_path):
  """Returns settings of three sets with k = 3, one for each of three clips of 12 frames."""
  videos = tmp_path / 'videos'
  for name in 'abc':
    save_frames(videos / name, range(12))
  built = build(videos, {'a': [0], 'b': [1], 'c': [29]}, videos, k=3)
  metadata.write(built.sets, tmp_path / 'sets')
  return DataSettings(VideoNeighbors(str(tmp_path / 'sets'), str(videos)))


def test_rows_are_frames_with_their_set_offset_and_label(settings):
  rows = load(settings)
  assert rows.image_shape == (SIDE, SIDE, 3)
  batch, sets = full_batch(rows), metadata.read(settings.source.metadata)
  for index in range(rows.num_examples):
    path = sets.frames[index]
    assert number_of(batch['image'][index] * 255) == metadata.frame_number(path)
    group = batch['group_id'][index, 0]
    anchor = sets.frames[sets.anchors[group]]
    assert metadata.video_of(anchor) == metadata.video_of(path)
    distance = metadata.frame_number(path) - metadata.frame_number(anchor)
    assert batch['offset'][index, 0] == distance
    assert batch['anchor'][index] == (path == anchor)
    assert batch['label'][index] == {'a': 0, 'b': 1, 'c': 29}[path[0]]
  assert batch['anchor'].sum() == 3


def test_the_number_of_images_counts_anchors(settings):
  rows = load(dataclasses.replace(settings, num_images=2))
  (batch,) = rows.batches(64)
  groups = np.unique(batch['group_id'][batch['mask']])
  assert len(groups) == 2 and batch['anchor'].sum() == 2
  assert rows.description['available_anchors'] == 3
  message = 'num_images is 4, which counts anchors'
  refused(message, load, dataclasses.replace(settings, num_images=4))


@pytest.mark.parametrize('inside', ['', 'metadata'])
def test_ytbb_robust_is_read_as_it_unpacks(tmp_path, inside):
  """Its folder has annotations, here also in a folder `metadata`, and frames in `ytbb_videos`."""
  home = small_archive.ytbb_robust(tmp_path)
  if inside:
    (home / inside).mkdir()
    for file in [file for file in home.iterdir() if file.is_file()]:
      file.rename(home / inside / file.name)
  settings = DataSettings(VideoNeighbors(str(home), str(home)))
  rows = load(settings)
  batch, count = full_batch(rows), rows.num_examples
  assert count == 3 and rows.description['available_anchors'] == 2
  assert batch['label'].tolist() == [[0, 23], [0, 23], [1, 23]]
  assert [number_of(image * 255) for image in batch['image']] == [44, 45, 45]
  (home / 'ytbb_videos/b_3000/frame-45.jpg').unlink()
  refused('1 of 3 frames are not in .*ytbb_videos', load, settings)


def test_results_state_missing_frames_and_anchors(settings):
  assert 'missing_frames' not in load(settings).description
  sets = metadata.read(settings.source.metadata)
  anchor = sets.frames[sets.anchors[0]]
  (pathlib.Path(settings.source.frames) / anchor).unlink()
  rows = load(DataSettings(dataclasses.replace(settings.source, allow_missing=True)))
  assert rows.description['missing_frames'] == rows.description['missing_anchors'] == 1
  assert rows.description['available_anchors'] == 2


def test_results_state_a_digest_of_the_sets(settings):
  before, sets = load(settings).description, metadata.read(settings.source.metadata)
  assert before['sets'] == sets.digest
  frame_facts = dict.fromkeys(sets.frames, {'frame_type': 'i'})
  labels = dict(zip(sets.frames, sets.labels.tolist(), strict=True))
  members = zip(sets.anchors, sets.neighbors, strict=True)
  mapping = {sets.frames[a]: [sets.frames[n] for n in near] for a, near in members}
  metadata.write(metadata.from_mappings(mapping, labels, (), frame_facts), settings.source.metadata)
  after = load(settings).description
  assert [key for key in before if before[key] != after[key]] == ['sets']


def test_training_reads_the_sets_of_the_folder_train(settings, tmp_path):
  videos = pathlib.Path(settings.source.frames)
  train = build(videos, {'a': [0], 'b': [1]}, videos, k=20).sets
  metadata.write(train, tmp_path / 'sets/train')
  rows = load(dataclasses.replace(settings, split='train'))
  assert rows.num_examples == 24, 'both clips, as k = 20 exceeds their 12 frames'
  batch = next(rows.training_batches(8, 0))
  assert batch['label'].shape == (8,) and set(batch['label']) <= {0, 1}


def test_imagenet_vid_robust_is_read_as_it_unpacks(tmp_path):
  archive = small_archive.with_annotations(tmp_path)
  home = archive / small_archive.VID_ROBUST
  rows = read('video_neighbors', frames=str(home))
  assert rows.class_names == label_space.get('imagenet_vid').class_names
  (batch,) = rows.batches(5)
  assert [number_of(image * 255) for image in batch['image']] == [20, 21, 22, 23, 20]
  assert batch['label'].tolist() == [[8, -1]] * 4 + [[4, 6]]
  refused(f'but in {home}: give that folder', read, 'video_neighbors', frames=str(archive))
  for folder in (archive, home / 'val'):
    message = f'5 of 5 frames .* The first lies in {home}: give'
    refused(message, read, 'video_neighbors', frames=str(folder), metadata=str(home))


# Two sets of the video v that share frames 3 and 4, a set without neighbors, and one of video x.
SETS = {
  'v/000003.JPEG': ['v/000002.JPEG', 'v/000004.JPEG'],
  'v/000005.JPEG': ['v/000004.JPEG', 'v/000003.JPEG'],
  'w/frame-7.jpg': [],
  'x/000001.JPEG': ['x/000000.JPEG'],
}
LABELS = {'v/000003.JPEG': [1], 'v/000005.JPEG': [2, 1], 'v/000002.JPEG': [1]}
LABELS |= {'w/frame-7.jpg': [0], 'x/000001.JPEG': [3]}
FACTS = {'v/000002.JPEG': {'frame_type': 'b', 'fps': 25.0}, 'x/000001.JPEG': {'frame_type': 'i'}}


def write_sets(root, sets=None, class_names=(), left_out=()):
  """Writes metadata to `root`, and empty frames but those `left_out` to `root/frames`.

  Returns `root`. The sets are {anchor: neighbors}, by default `SETS`.
  """
  built = metadata.from_mappings(sets or SETS, LABELS, class_names, FACTS)
  metadata.write(built, root)
  for path in set(built.frames) - set(left_out):
    (root / 'frames' / path).parent.mkdir(parents=True, exist_ok=True)
    (root / 'frames' / path).touch()
  return root


def load_frames(root, **options):
  """Returns the frames of `write_sets`."""
  return video_neighbors.load(root, str(root / 'frames'), **options)


def test_a_frame_is_one_row_with_all_its_sets_and_labels(tmp_path):
  frames = load_frames(write_sets(tmp_path))
  video_frames = [path[:2] + str(metadata.frame_number(path)) for path in frames.paths]
  assert video_frames == ['v/2', 'v/3', 'v/4', 'v/5', 'w/7', 'x/0', 'x/1']
  columns = {name: values.tolist() for name, values in frames.columns.items()}
  assert columns.pop('path') == list(frames.paths)
  fps = columns.pop('fps')
  assert fps[0] == 25.0 and np.isnan(fps[1:]).all()
  assert columns == {
    'group_id': [[0, -1], [0, 1], [0, 1], [1, -1], [2, -1], [3, -1], [3, -1]],
    'offset': [[-1, 0], [0, -2], [1, -1], [0, 0], [0, 0], [-1, 0], [0, 0]],
    'anchor': [0, 1, 0, 1, 1, 0, 1],
    'frame_type': [2, -1, -1, -1, -1, -1, 0],
  }
  assert (frames.num_anchors, frames.missing, frames.missing_anchors) == (4, (), 0)
  assert frames.labels.tolist() == [[1, -1], [1, -1], [1, 2], [1, 2], [0, -1], [3, -1], [3, -1]]
  single_labels = load_frames(
    write_sets(tmp_path / 'alone', {'w/frame-7.jpg': [], 'x/000001.JPEG': []})
  )
  assert single_labels.labels.tolist() == [0, 3], 'frames of one label each have one axis'


def test_a_subset_takes_complete_sets_and_those_that_share_frames(tmp_path):
  frames = load_frames(write_sets(tmp_path))
  group_id = frames.columns['group_id']
  assert frames.choose(0, 0).tolist() == list(range(7))
  assert frames.choose(4, 0).tolist() == list(range(7))
  subsets_of_one = set()
  for seed in range(20):
    smaller_subset: set[int] = set()
    for number in (1, 2, 3, 4):
      subset = frames.choose(number, seed)
      assert smaller_subset <= set(subset), 'subsets are nested'
      smaller_subset = set(subset)
      groups = {g for g in group_id[subset].ravel() if g >= 0}
      members = np.flatnonzero(np.isin(group_id, list(groups)).any(1))
      assert subset.tolist() == members.tolist()
      assert number <= len(groups) <= number + 1
      assert (0 in groups) == (1 in groups), 'both sets share two frames'
    subsets_of_one.add(tuple(frames.choose(1, seed)))
  assert len(subsets_of_one) == 3, 'any set may be drawn; two of the four come together'
  refused(bad_setting('config.data.num_images', 5), frames.choose, 5, 0)


def test_missing_frames_are_listed_and_left_out_only_when_allowed(tmp_path):
  root = write_sets(tmp_path, left_out=('v/000003.JPEG', 'x/000000.JPEG'))
  missing = r'v/000003\.JPEG, x/000000\.JPEG\. .*allow_missing=True'
  refused(rf'2 of 7 frames are not in .*\(1 of 4 anchors\): {missing}', load_frames, root)
  frames = load_frames(root, allow_missing=True)
  assert [path[0] for path in frames.paths] == ['v', 'v', 'w', 'x']
  assert frames.columns['group_id'].tolist() == [[1], [1], [2], [3]]
  assert (frames.num_anchors, frames.missing_anchors, len(frames.missing)) == (3, 1, 2)
  message = '4 of 4 anchors'
  refused(
    message, load_frames, write_sets(tmp_path / 'none', left_out=tuple(SETS)), allow_missing=True
  )


def test_class_names_come_from_the_metadata_or_a_label_space(tmp_path):
  spaces = {name: label_space.get(name).class_names for name in ('imagenet_vid', 'youtube_bb')}
  unnamed = write_sets(tmp_path / 'plain')
  assert load_frames(unnamed).class_names == spaces['imagenet_vid']
  youtube = video_neighbors.load(unnamed, str(unnamed / 'frames'), 'youtube_bb')
  assert youtube.class_names == spaces['youtube_bb']
  words = [name.replace('_', ' ') for name in spaces['imagenet_vid']]
  with_spaces = write_sets(tmp_path / 'spelt', class_names=words)
  assert load_frames(with_spaces).class_names == spaces['imagenet_vid']
  assert load_frames(
    write_sets(tmp_path / 'letters', class_names=tuple('abcd'))
  ).class_names == tuple('abcd')
  label_too_large = tmp_path / 'many'
  metadata.write(metadata.from_mappings({'v/1.jpg': []}, {'v/1.jpg': [30]}), label_too_large)
  (tmp_path / 'v').mkdir()
  (tmp_path / 'v/1.jpg').touch()
  message = r"'v/1\.jpg' has label 30, and imagenet_vid has 30 classes .*: set .*label_space"
  refused(message, video_neighbors.load, label_too_large, str(tmp_path))


def test_a_split_is_a_folder_in_that_of_the_metadata(tmp_path):
  root = write_sets(tmp_path / 'sets')
  assert find_metadata(str(root), 'test') == root
  write_sets(root / 'train')
  assert find_metadata(str(root), 'train') == root / 'train'
  expected = bad_setting('config.data.split', 'trian', r"did you mean 'train'\? valid: 'train'\.$")
  refused(expected, find_metadata, str(root), 'trian')
  (tmp_path / 'fog').mkdir()
  refused(
    'no neighbor sets; .*looks like ImageNet-C .*; give', find_metadata, str(tmp_path), 'test'
  )
  refused(
    bad_setting('config.data.video_neighbors.metadata', 'none'), find_metadata, 'none', 'test'
  )
  refused(
    bad_setting('config.data.video_neighbors.frames', 'none'), video_neighbors.load, root, 'none'
  )


@pytest.mark.parametrize('path', ['../v/1.jpg', '/v/1.jpg', 'v/../../1.jpg'])
def test_paths_that_lead_out_of_the_folder_are_refused(tmp_path, path):
  (tmp_path / 'pmsets.json').write_text(json.dumps({path: []}))
  (tmp_path / 'labels.json').write_text(json.dumps({path: [0]}))
  refused('does not lie under the folder', video_neighbors.load, tmp_path, str(tmp_path))
