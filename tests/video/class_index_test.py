"""Tests the names of classes that files beside neighbor sets give."""

import json
import pathlib
from typing import Any

import pytest

from robustness.models import label_space
from robustness.models.label_space import LabelSpace
from robustness.video import metadata
from tests.refusals import refused
from tests.video import small_archive

VID, YTBB = (label_space.get(name) for name in ('imagenet_vid', 'youtube_bb'))


def flat(folder: pathlib.Path, **documents: Any) -> pathlib.Path:
  """Writes a set of one anchor, and `documents` as JSON files by name, into a folder."""
  folder.mkdir(exist_ok=True)
  files = {'pmsets': {'a/1.jpg': []}, 'labels': {'a/1.jpg': [0]}, **documents}
  for name, document in files.items():
    (folder / f'{name}.json').write_text(json.dumps(document))
  return folder


def class_maps(space: LabelSpace) -> dict[str, Any]:
  """Returns the maps from ImageNet's classes to those of a space, and back, by name of file."""
  return {
    'class_idx_map': {m: label for label, members in enumerate(space.members) for m in members},
    'rev_class_idx_map': {label: members for label, members in enumerate(space.members) if members},
  }


def test_the_released_archive_has_the_thirty_classes_of_its_labels(tmp_path):
  home = small_archive.unpacked(tmp_path)
  for folder in (home, home / 'metadata'):
    assert metadata.read(folder).class_names == VID.class_names
  (home / 'misc/my_class_index.json').write_text('{"0": "x"}')
  refused('differ .imagenet_vid_class_index.json, my_class_index.js', metadata.read, home)
  for name in ('my', 'imagenet_vid'):
    (home / f'misc/{name}_class_index.json').unlink()
  refused('misc has only imagenet_class_index.json, which does not', metadata.read, home)


@pytest.mark.parametrize('space', [VID, YTBB], ids=lambda space: space.name)
@pytest.mark.parametrize('left_out', ['', 'class_idx_map', 'rev_class_idx_map'])
def test_class_names_follow_from_a_map_of_classes(tmp_path, space, left_out):
  maps = {name: table for name, table in class_maps(space).items() if name != left_out}
  assert metadata.read(flat(tmp_path, **maps)).class_names == space.class_names
  indexed = flat(tmp_path / 'indexed', **maps, class_index={'0': 'x'})
  assert metadata.read(indexed).class_names == ('x',), 'an index of classes has priority'


def test_bad_class_maps_and_indices(tmp_path):
  forward, backward = (class_maps(space) for space in (VID, YTBB))
  mixed = {**forward, 'rev_class_idx_map': backward['rev_class_idx_map']}
  for maps in (mixed, {'class_idx_map': {'0': 0}}):
    other = 'class_idx_map.json.* other classes .*imagenet_vid or yo'
    refused(other, metadata.read, flat(tmp_path, **maps))
  for index, message in (
    ({'0': ['n1', 'x'], '2': ['n2', 'y']}, r'does not number its 2 classes 0\.\.1'),
    ({'0': ['n1', 'x'], '1': ['n2', 'x']}, "calls 2 classes 'x'"),
    ({'0': ['n1', 7]}, r"class 0 is \['n1', 7\]; give \[identifier, name\]"),
    ({'0': []}, r'class 0 is \[\]'),
    ({'0': None}, 'class 0 is None'),
  ):
    refused(message, metadata.read, flat(tmp_path, class_index=index))
