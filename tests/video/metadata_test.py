"""Tests that neighbor sets are read, checked and written in the released format."""

import json

import numpy as np
import pytest

from robustness.models import label_space
from robustness.video import metadata
from robustness.video.metadata import are_reviewed, from_mappings
from tests.cases import cases
from tests.refusals import refused
from tests.video import small_archive

SETS = {'a/000010.JPEG': ['a/000009.JPEG', 'a/000012.JPEG'], 'b/frame-3.jpg': []}
FRAMES = ('a/000009.JPEG', 'a/000010.JPEG', 'a/000012.JPEG', 'b/frame-3.jpg')
LABELS = dict(zip(FRAMES, ([1], [1, 2], [2], [0]), strict=True))


def test_frames_sets_and_offsets():
  sets = metadata.from_mappings(SETS, LABELS)
  assert sets.frames == FRAMES
  assert sets.labels.tolist() == [[1, -1], [1, 2], [2, -1], [0, -1]]
  assert sets.anchors.tolist() == [1, 3]
  assert [m.tolist() for m in sets.neighbors] == [[0, 2], []]
  assert [o.tolist() for o in sets.offsets] == [[-1, 2], []]
  assert [part.tolist() for part in sets.pairs] == [[0, 0], [0, 2], [-1, 2]]


def test_clips_cut_from_one_video_of_youtube_are_of_one_video():
  video_of = {
    'KxDh7a8_AmU_44666/frame-1117.jpg': 'KxDh7a8_AmU',
    'train/-m2lapVUcdI_3000/frame-90.jpg': 'train/-m2lapVUcdI',
    'val/ILSVRC2015_val_00000000/000442.JPEG': 'val/ILSVRC2015_val_00000000',
    '8Lx004yCltY_part_2/7.jpg': '8Lx004yCltY_part_2',
    '7.jpg': '',
  }
  assert {path: metadata.source_of(path) for path in video_of} == video_of
  cut = ('8Lx004yCltY_1000/1.jpg', '8Lx004yCltY_2000/2.jpg', 'KxDh7a8_AmU_44666/3.jpg', '4.jpg')
  frames = (*cut, '5.jpg')
  sets = metadata.from_mappings({f: [] for f in frames}, dict.fromkeys(frames, [0]))
  assert sets.videos is not None
  first, second, *other_videos = sets.videos.tolist()
  assert first == second and len({first, *other_videos}) == 4
  assert metadata.from_mappings(SETS, LABELS).videos is None


def test_sets_with_a_common_frame_are_of_one_video():
  """Frames without folders, as those of arrays, do not name their videos."""
  frames = [f'{number}.jpg' for number in range(1, 8)]
  neighbors = {'1.jpg': ['2.jpg'], '3.jpg': ['2.jpg', '4.jpg'], '5.jpg': ['4.jpg'], '7.jpg': []}
  sets = metadata.from_mappings(neighbors | {'6.jpg': ['7.jpg']}, dict.fromkeys(frames, [0]))
  assert sets.videos is not None
  first, second, third, alone, sixth = sets.videos.tolist()
  assert first == second == third != alone == sixth
  apart = metadata.from_mappings({'1.jpg': ['2.jpg'], '3.jpg': []}, dict.fromkeys(frames, [0]))
  assert apart.videos is None


def test_a_neighbor_has_its_labels_or_those_of_its_anchor():
  sets = metadata.from_mappings(SETS, LABELS)
  assert sets.pair_labels().tolist() == [[1, -1], [2, -1]]
  assert sets.pair_labels('anchor').tolist() == [[1, 2], [1, 2]]
  # The frame 12 has no labels, so it takes those of the anchor.
  sets = metadata.from_mappings(SETS, {key: LABELS[key] for key in LABELS if '12' not in key})
  assert sets.pair_labels().tolist() == [[1, -1], [1, 2]]


def test_sets_survive_a_round_trip(tmp_path):
  facts = {'a/000009.JPEG': {'frame_type': 'p', 'fps': 25}, 'b/frame-3.jpg': {'fps': 30.0}}
  sets = metadata.from_mappings(SETS, LABELS, ('x', 'y', 'z'), facts)
  metadata.write(sets, tmp_path)
  for name, written in (('pmsets', SETS), ('labels', LABELS), ('frames', facts)):
    assert json.loads((tmp_path / f'metadata/{name}.json').read_text()) == written
  index = json.loads((tmp_path / 'misc/class_index.json').read_text())
  assert [index[str(n)][1] for n in range(3)] == ['x', 'y', 'z']
  for folder in (tmp_path, tmp_path / 'metadata'):
    again = metadata.read(folder)
    assert again.frames == sets.frames and again.class_names == ('x', 'y', 'z')
    np.testing.assert_array_equal(again.labels, sets.labels)
    np.testing.assert_array_equal(again.pairs.offset, sets.pairs.offset)
    assert again.frame_types.tolist() == ['p', '', '', '']
    np.testing.assert_array_equal(again.fps, [25, np.nan, np.nan, 30])
  # Sets without class names and facts write the two released files alone.
  metadata.write(metadata.from_mappings(SETS, LABELS), tmp_path / 'plain')
  names = sorted(path.name for path in (tmp_path / 'plain').rglob('*.*'))
  assert names == ['labels.json', 'pmsets.json']


@pytest.mark.parametrize('space', ['imagenet_vid', 'youtube_bb', 'imagenet'])
def test_the_name_of_a_class_index_states_its_label_space(tmp_path, space):
  names = label_space.get(space).class_names
  metadata.write(metadata.from_mappings(SETS, LABELS, names), tmp_path)
  (path,) = (tmp_path / 'misc').iterdir()
  assert path.name == ('' if space == 'imagenet' else f'{space}_') + 'class_index.json'
  assert metadata.read(tmp_path).class_names == names
  metadata.write(metadata.from_mappings(SETS, LABELS, ('x', 'y', 'z')), tmp_path)
  if space != 'imagenet':
    refused(f'indices that differ .class_index.json, {path.name}', metadata.read, tmp_path)


def test_an_error_about_custom_sets_does_not_mention_a_release(tmp_path):
  metadata.write(metadata.from_mappings(SETS, LABELS, ('x', 'y', 'z')), tmp_path)
  (tmp_path / 'metadata/labels.json').write_text('{"b/frame-3.jpg": [77]}')
  refused(r'labels \[77\]: give a list of distinct classes 0\.\.2\.$', metadata.read, tmp_path)


def test_the_digest_depends_on_frame_properties():
  properties = ({}, {'b/frame-3.jpg': {'frame_type': 'i'}}, {'b/frame-3.jpg': {'fps': 25}})
  sets = [metadata.from_mappings(SETS, LABELS, (), facts) for facts in properties]
  assert len({built.digest for built in sets}) == 3
  assert sets[0].digest.startswith('c0390fab'), 'records on disk have this digest'


def test_the_released_metadata(shared_dir):
  sets = metadata.read(shared_dir / 'data/imagenet_vid_robust')
  assert sets.title == 'ImageNet-Vid-Robust, reviewed: 1109 anchors, 21070 pairs'
  assert sets.class_names == label_space.get('imagenet_vid').class_names
  sizes = np.array([len(members) for members in sets.neighbors])
  assert (len(sets.frames), len(sets.anchors), sizes.sum()) == (22179, 1109, 21070)
  assert np.median(sizes) == 20 and (sizes == 0).sum() == 1
  assert ((sets.labels[sets.anchors] >= 0).sum(1) > 1).sum() == 79, 'anchors with several labels'
  frame_labels, anchor_labels = sets.pair_labels('frame'), sets.pair_labels('anchor')
  assert (np.sort(frame_labels, 1) != np.sort(anchor_labels, 1)).any(1).sum() == 11, 'own labels'
  # The frames from the first to the last of a set are as many as its range of offsets, or fewer.
  has_gap = [len(o) > 0 and len(o) < max(0, o.max()) - min(0, o.min()) for o in sets.offsets]
  assert sum(has_gap) == 141
  assert np.abs(sets.pairs.offset).max() == 10


ALONE = {'a/1.jpg': []}


@cases(
  'sets, labels, message',
  ({}, LABELS, 'holds no sets'),
  (SETS, {'a/000010.JPEG': [1]}, "1 of 2 anchors have no label, first 'b/frame-3.jpg'"),
  ({'a/1.jpg': ['b/2.jpg']}, {}, "'b/2.jpg' is no neighbor of anchor 'a/1.jpg'.*another video"),
  ({'a/1.jpg': ['a/2.jpg', 'a/2.jpg']}, {}, 'holds frame 2 2 times'),
  ({'a/1.jpg': ['a/01.jpg']}, {}, 'holds frame 1 2 times'),
  ({'a/1.jpg': ['a/x.jpg']}, {}, "'a/x.jpg' has no number"),
  ({'a/1.jpg': ['a/2147483649.jpg']}, {}, 'the frames 1 to 2147483649: .* at most 2147483647'),
  ({'a/1.jpg': 'a/2.jpg'}, {}, 'give a list of frame paths'),
  (ALONE, {'a/1.jpg': [3]}, r'labels \[3\].*0\.\.2'),
  (ALONE, {'a/1.jpg': [1, 1]}, 'distinct classes'),
  (ALONE, {'a/1.jpg': [-1]}, 'distinct classes'),
  (ALONE, {'a/1.jpg': 2}, 'give a list'),
)
def test_bad_sets(sets, labels, message):
  refused(message, metadata.from_mappings, sets, labels, ('x', 'y', 'z'))


def test_frame_numbers_may_exceed_int32_and_labels_not():
  times = [f'a/2024010112000000000000{i}.jpg' for i in (1, 4)]
  sets = metadata.from_mappings({times[1]: times[:1]}, {times[1]: [0]})
  assert sets.pairs.offset.tolist() == [-3]
  refused(r'labels \[2147483648\]', metadata.from_mappings, ALONE, {'a/1.jpg': [2**31]})


def test_partly_written_sets_are_not_found(tmp_path):
  (tmp_path / 'metadata/labels.json').mkdir(parents=True)  # No file can take a folder's place.
  sets = metadata.from_mappings(SETS, LABELS)
  refused('cannot be written .*: give another', metadata.write, sets, tmp_path)
  assert metadata.find(tmp_path) is None


def test_bad_facts_and_files(tmp_path):
  for key, value in (('frame_type', 'k'), ('fps', 0), ('fps', '25')):
    arguments = ALONE, {'a/1.jpg': [0]}, (), {'a/1.jpg': {key: value}}
    refused(f'{key} {value!r}', metadata.from_mappings, *arguments)
  refused('no pmsets.json in', metadata.read, tmp_path)
  for content, message in (
    ('{"a/1.jpg": [], "a/1.jpg": []}', "the key 'a/1.jpg' 2 times"),
    ('[]', 'Give an object'),
    (json.dumps(SETS), 'labels.json is no file'),
  ):
    (tmp_path / 'pmsets.json').write_text(content)
    refused(message, metadata.read, tmp_path)


def test_a_neighboring_folder_is_refused_with_the_right_one(tmp_path):
  archive = small_archive.with_annotations(tmp_path)
  sets = archive / small_archive.VID_ROBUST
  for folder in (archive, sets / 'val', sets / 'misc'):
    refused(f'no pmsets.json in {folder} or .* but in {sets}: give', metadata.read, folder)
  for folder in (archive / 'ytbb-robust', archive / 'ytbb-robust/metadata'):
    refused(r'no pmk_labels.json and .*; YTBB-Robust has [\w., ]*\.$', metadata.read, folder)
  nowhere = r'nowhere/metadata: give a folder of neighbor sets\.$'
  refused(nowhere, metadata.read, tmp_path / 'nowhere')


def test_a_file_of_another_release_is_refused(tmp_path):
  vid, ytbb = small_archive.unpacked(tmp_path), small_archive.ytbb_robust(tmp_path)
  anchors, index = ytbb / 'anchor_labels.json', vid / 'misc/imagenet_vid_class_index.json'
  for file, content, message in (
    (vid / 'metadata/pmsets.json', anchors, "metadata: frame 'labels' has no number"),
    (vid / 'metadata/labels.json', vid / 'metadata/pmsets.json', 'metadata: frame .* has labels'),
    (index, ytbb / 'ytbb_class_index.json', f'{index} holds the 24 classes of youtube_bb'),
    (anchors, ytbb / 'pmk_labels.json', f"{anchors} has no label 'good'.*as it was released"),
  ):
    before = file.read_bytes()
    file.write_bytes(content.read_bytes())
    refused(message, metadata.read, file.parents['ytbb' not in str(file)])
    file.write_bytes(before)
  assert metadata.read(vid).title.startswith('neighbor sets of imagenet_vid: 3 anchors, 3 pairs')
  classes = ytbb / 'ytbb_class_index.json'
  numbered = json.loads(classes.read_text())
  classes.write_text(json.dumps({**numbered, '3': numbered['4'], '4': numbered['3']}))
  refused('ytbb_class_index.json does not hold the 24 classes of YTBB', metadata.read, ytbb)


def test_a_reviewed_pair_is_an_anchor_with_a_neighbor():
  candidates, reviewed, other = (
    from_mappings(sets, dict.fromkeys(['v/1', 'v/2', 'v/3', 'v/4', 'w/1', 'w/2', 'x/2'], [0]))
    for sets in (
      {'v/2': ['v/1', 'v/3'], 'v/3': ['v/2', 'v/4'], 'w/2': ['w/1']},
      {'v/3': ['v/4'], 'v/2': ['v/3'], 'x/2': ['x/1']},
      {'v/1': ['v/2']},
    )
  )
  assert are_reviewed(candidates, reviewed).tolist() == [False, True, False, True, False]
  assert are_reviewed(candidates, candidates).all()
  refused(
    'none of the 5 pairs of the data is one of the 1 reviewed', are_reviewed, candidates, other
  )
