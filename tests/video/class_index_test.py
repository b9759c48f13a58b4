"""Which classes the labels are of: class indices side by side, class maps, and what is refused."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from robustness.core.errors import InputError
from robustness.models import label_space
from robustness.models.label_space import LabelSpace
from robustness.video import metadata
from tests.video import small_archive

VID, YTBB = (label_space.get(name) for name in ('imagenet_vid', 'youtube_bb'))


def flat(folder: pathlib.Path, **documents: Any) -> pathlib.Path:
  """One set in a folder with further files."""
  folder.mkdir(exist_ok=True)
  files = {'pmsets': {'a/1.jpg': []}, 'labels': {'a/1.jpg': [0]}, **documents}
  for name, document in files.items():
    (folder / f'{name}.json').write_text(json.dumps(document))
  return folder


def class_maps(space: LabelSpace) -> dict[str, Any]:
  return {
    'class_idx_map': {m: label for label, own in enumerate(space.members) for m in own},
    'rev_class_idx_map': {label: own for label, own in enumerate(space.members) if own},
  }


def test_the_archive_has_the_thirty_classes_that_its_labels_are_of(tmp_path: pathlib.Path) -> None:
  home = small_archive.unpacked(tmp_path)
  for folder in (home, home / 'metadata'):
    assert metadata.read(folder).class_names == VID.class_names


def test_an_index_of_imagenet_alone_is_that_of_the_labels(tmp_path: pathlib.Path) -> None:
  home = small_archive.unpacked(tmp_path)
  (home / 'misc/imagenet_vid_class_index.json').unlink()
  assert metadata.read(home).class_names == label_space.get('imagenet').class_names


def test_another_index_beside_the_two_is_refused(tmp_path: pathlib.Path) -> None:
  home = small_archive.unpacked(tmp_path)
  (home / 'misc/my_class_index.json').write_text('{"0": "x"}')
  with pytest.raises(InputError, match='differ .imagenet_vid_class_index.json, my_class_index.js'):
    metadata.read(home)


@pytest.mark.parametrize('space', [VID, YTBB], ids=lambda space: space.name)
@pytest.mark.parametrize('left_out', ['', 'class_idx_map', 'rev_class_idx_map'])
def test_class_maps_tell_the_classes(
  tmp_path: pathlib.Path, space: LabelSpace, left_out: str
) -> None:
  maps = {name: table for name, table in class_maps(space).items() if name != left_out}
  assert metadata.read(flat(tmp_path, **maps)).class_names == space.class_names
  indexed = flat(tmp_path / 'indexed', **maps, class_index={'0': 'x'})
  assert metadata.read(indexed).class_names == ('x',), 'an index says it itself'


def test_class_maps_of_other_classes_are_refused(tmp_path: pathlib.Path) -> None:
  forward, backward = (class_maps(space) for space in (VID, YTBB))
  mixed = {**forward, 'rev_class_idx_map': backward['rev_class_idx_map']}
  for maps in (mixed, {'class_idx_map': {'0': 0}}):
    with pytest.raises(InputError, match='class_idx_map.json.* other classes .*imagenet_vid or yo'):
      metadata.read(flat(tmp_path, **maps))


@pytest.mark.parametrize(
  'index, message',
  [
    ({'0': ['n1', 'x'], '2': ['n2', 'y']}, r'does not number its 2 classes 0\.\.1'),
    ({'0': ['n1', 'x'], '1': ['n2', 'x']}, "calls 2 classes 'x'"),
    ({'0': ['n1', 7]}, r"class 0 is \['n1', 7\]; give \[identifier, name\]"),
    ({'0': []}, r'class 0 is \[\]'),
    ({'0': None}, 'class 0 is None'),
  ],
)
def test_bad_class_indices(tmp_path: pathlib.Path, index: Any, message: str) -> None:
  with pytest.raises(InputError, match=message):
    metadata.read(flat(tmp_path, class_index=index))


def test_the_released_class_maps(shared_dir: pathlib.Path) -> None:
  assert metadata.read(shared_dir / 'data/imagenet_vid_robust').class_names == VID.class_names
