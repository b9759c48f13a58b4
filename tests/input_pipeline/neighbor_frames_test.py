"""Distinct frames of neighbor sets: memberships, labels, subsets, missing files."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from input_pipeline import neighbor_frames
from input_pipeline.neighbor_frames import NeighborFrames, load
from robustness.core.errors import InputError
from robustness.models import label_space
from robustness.video import metadata

SETS = {
  'v/000003.JPEG': ['v/000002.JPEG', 'v/000004.JPEG'],
  'v/000005.JPEG': ['v/000004.JPEG', 'v/000003.JPEG'],
  'w/frame-7.jpg': [],
  'x/000001.JPEG': ['x/000000.JPEG'],
}
LABELS: dict[str, Sequence[int]] = {
  'v/000003.JPEG': [1],
  'v/000005.JPEG': [2, 1],
  'v/000002.JPEG': [1],
  'w/frame-7.jpg': [0],
  'x/000001.JPEG': [3],
}
FACTS = {'v/000002.JPEG': {'frame_type': 'b', 'fps': 25.0}, 'x/000001.JPEG': {'frame_type': 'i'}}


def made(
  root: pathlib.Path,
  sets: Mapping[str, Sequence[str]] | None = None,
  class_names: Sequence[str] = (),
  left_out: Sequence[str] = (),
) -> pathlib.Path:
  """Metadata in `root`, and empty files for the frames in `root/frames`."""
  built = metadata.from_mappings(sets or SETS, LABELS, class_names, FACTS)
  metadata.write(built, root)
  for path in set(built.frames) - set(left_out):
    (root / 'frames' / path).parent.mkdir(parents=True, exist_ok=True)
    (root / 'frames' / path).touch()
  return root


def loaded(root: pathlib.Path, **more: bool) -> NeighborFrames:
  return load(root, str(root / 'frames'), **more)


def test_a_frame_is_one_row_with_all_its_memberships(tmp_path: pathlib.Path) -> None:
  frames = loaded(made(tmp_path))
  assert [path[:2] + str(metadata.frame_number(path)) for path in frames.paths] == [
    'v/2',
    'v/3',
    'v/4',
    'v/5',
    'w/7',
    'x/0',
    'x/1',
  ]
  assert frames.group_id.tolist() == [[0, -1], [0, 1], [0, 1], [1, -1], [2, -1], [3, -1], [3, -1]]
  assert frames.offset.tolist() == [[-1, 0], [0, -2], [1, -1], [0, 0], [0, 0], [-1, 0], [0, 0]]
  assert frames.anchor.tolist() == [0, 1, 0, 1, 1, 0, 1]
  assert frames.frame_type.tolist() == [2, -1, -1, -1, -1, -1, 0]
  assert frames.fps[0] == 25.0 and np.isnan(frames.fps[1:]).all()
  assert (frames.num_anchors, frames.missing, frames.missing_anchors) == (4, (), 0)
  assert set(frames.columns) == {'group_id', 'offset', 'anchor', 'frame_type', 'fps', 'path'}


def test_frames_without_labels_have_those_of_their_anchors(tmp_path: pathlib.Path) -> None:
  frames = loaded(made(tmp_path))
  assert frames.labels.tolist() == [[1, -1], [1, -1], [1, 2], [1, 2], [0, -1], [3, -1], [3, -1]]
  alone = loaded(made(tmp_path / 'alone', {'w/frame-7.jpg': [], 'x/000001.JPEG': []}))
  assert alone.labels.tolist() == [0, 3], 'one label a frame is one axis'


def test_every_pair_of_the_metadata_is_there_once(
  shared_dir: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  folder = shared_dir / 'data/imagenet_vid_robust'
  if not folder.is_dir():
    pytest.skip('needs the released metadata')
  monkeypatch.setattr(neighbor_frames, '_is_file', lambda root, path: True)
  frames = load(folder, str(tmp_path))
  sets = metadata.read(folder)
  rows, slots = np.nonzero((frames.group_id >= 0) & (frames.offset != 0))
  pairs = {
    (frames.group_id[r, s], frames.paths[r], frames.offset[r, s])
    for r, s in zip(rows, slots, strict=True)
  }
  expected = {(g, sets.frames[f], o) for g, f, o in zip(*sets.pairs, strict=True)}
  assert pairs == expected and len(pairs) == len(rows) == 21_070
  assert (frames.num_anchors, int(frames.anchor.sum())) == (1109, 1109)
  assert frames.class_names == label_space.get('imagenet_vid').class_names
  assert len(np.unique(frames.choose(100, 0))) == len(frames.choose(100, 0)) > 1000


def test_a_subset_takes_whole_sets_and_those_that_share_frames(tmp_path: pathlib.Path) -> None:
  frames = loaded(made(tmp_path))
  assert frames.choose(0, 0).tolist() == list(range(7))
  assert frames.choose(4, 0).tolist() == list(range(7))
  seen = set()
  for seed in range(20):
    before: set[int] = set()
    for number in (1, 2, 3, 4):
      chosen = frames.choose(number, seed)
      assert before <= set(chosen), 'nested'
      before = set(chosen)
      groups = {g for g in frames.group_id[chosen].ravel() if g >= 0}
      whole = np.flatnonzero(np.isin(frames.group_id, list(groups)).any(1))
      assert chosen.tolist() == whole.tolist()
      assert number <= len(groups) <= number + 1
      assert (0 in groups) == (1 in groups), 'they share two frames'
    seen.add(tuple(frames.choose(1, seed)))
  assert len(seen) == 3
  with pytest.raises(InputError, match='num_images is 5, which counts anchors.*there are 4'):
    frames.choose(5, 0)


def test_missing_frames_are_listed_and_left_out_only_when_allowed(tmp_path: pathlib.Path) -> None:
  root = made(tmp_path, left_out=('v/000003.JPEG', 'x/000000.JPEG'))
  with pytest.raises(
    InputError,
    match=r'2 of 7 frames are not in .*\(1 of 4 anchors\): '
    r'v/000003\.JPEG, x/000000\.JPEG\. .*allow_missing=True',
  ):
    loaded(root)
  frames = loaded(root, allow_missing=True)
  assert [path[0] for path in frames.paths] == ['v', 'v', 'w', 'x']
  assert frames.group_id.tolist() == [[1], [1], [2], [3]]
  assert (frames.num_anchors, frames.missing_anchors, len(frames.missing)) == (3, 1, 2)
  with pytest.raises(InputError, match='4 of 4 anchors'):
    loaded(made(tmp_path / 'none', left_out=tuple(SETS)), allow_missing=True)


def test_class_names(tmp_path: pathlib.Path) -> None:
  spaces = {name: label_space.get(name).class_names for name in ('imagenet_vid', 'youtube_bb')}
  plain = made(tmp_path / 'plain')
  assert load(plain, str(plain / 'frames')).class_names == spaces['imagenet_vid']
  assert load(plain, str(plain / 'frames'), 'youtube_bb').class_names == spaces['youtube_bb']
  words = [name.replace('_', ' ') for name in spaces['imagenet_vid']]
  spelt = made(tmp_path / 'spelt', class_names=words)
  assert loaded(spelt).class_names == spaces['imagenet_vid']
  assert loaded(made(tmp_path / 'own', class_names=tuple('abcd'))).class_names == tuple('abcd')
  other = tmp_path / 'many'
  metadata.write(metadata.from_mappings({'v/1.jpg': []}, {'v/1.jpg': [30]}), other)
  (tmp_path / 'v').mkdir()
  (tmp_path / 'v/1.jpg').touch()
  with pytest.raises(InputError, match='label 30, and imagenet_vid has 30 classes'):
    load(other, str(tmp_path))


def test_folders_and_splits(tmp_path: pathlib.Path) -> None:
  root = made(tmp_path / 'sets')
  assert neighbor_frames.find_metadata(str(root), 'test') == root
  made(root / 'train')
  assert neighbor_frames.find_metadata(str(root), 'train') == root / 'train'
  with pytest.raises(InputError, match="split is 'trian'.*did you mean 'train'"):
    neighbor_frames.find_metadata(str(root), 'trian')
  with pytest.raises(InputError, match=r"config\.data\.metadata is 'none'"):
    neighbor_frames.find_metadata('none', 'test')
  with pytest.raises(InputError, match=r"config\.data\.path is 'none'.*'v/000002\.JPEG'"):
    load(root, 'none')


@pytest.mark.parametrize('path', ['../v/1.jpg', '/v/1.jpg', 'v/../../1.jpg'])
def test_paths_that_lead_out_of_the_folder_are_refused(tmp_path: pathlib.Path, path: str) -> None:
  (tmp_path / 'pmsets.json').write_text(json.dumps({path: []}))
  (tmp_path / 'labels.json').write_text(json.dumps({path: [0]}))
  with pytest.raises(InputError, match='does not lie under the folder'):
    load(tmp_path, str(tmp_path))
