"""Natural shifts: the releases' layouts made small, TFDS's own sets, and what is refused."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow_datasets as tfds
from PIL import Image

from input_pipeline import DataSettings, load
from input_pipeline.rows import TfRows
from robustness.core.errors import InputError
from robustness.models.imagenet_names import WNIDS
from tests.input_pipeline.domains import store, write_domain

TENCH, GOLDFISH, CLOCK, PEN = 0, 1, 409, 418
FOUNTAIN_PEN = 563


def save(path: pathlib.Path, level: int, side: int = 8) -> None:
  path.parent.mkdir(parents=True, exist_ok=True)
  Image.fromarray(np.full((side, side, 3), level, np.uint8)).save(path)


def open_rows(name: str, path: pathlib.Path | str, **settings: Any) -> TfRows:
  given = {'allow_missing': True, **settings}
  return load(DataSettings(source='natural_shifts', name=name, path=str(path), **given))


def shown(rows: TfRows) -> list[tuple[int, list[str]]]:
  """(Grey level, WordNet identifiers) of every row."""
  (batch,) = rows.batches(50)
  labels = batch['label'][batch['mask']].reshape(rows.num_examples, -1)
  levels = np.rint(batch['image'][batch['mask'], 0, 0, 0] * 255).astype(int).tolist()
  names = [[rows.class_names[k] for k in own if k >= 0] for own in labels]
  return list(zip(levels, names, strict=True))


@pytest.mark.parametrize('name', ['imagenet_a', 'imagenet_r', 'imagenet_sketch'])
def test_folders_of_wordnet_identifiers_have_the_classes_that_are_there(
  tmp_path: pathlib.Path, name: str
) -> None:
  for level, label in ((10, PEN), (20, GOLDFISH), (30, GOLDFISH)):
    save(tmp_path / WNIDS[label] / f'{level}.png', level)
  rows = open_rows(name, tmp_path)
  assert shown(rows) == [(20, [WNIDS[GOLDFISH]]), (30, [WNIDS[GOLDFISH]]), (10, [WNIDS[PEN]])]
  assert rows.description['classes'] == 2


def test_folders_of_imagenet_v2_are_numbers_of_classes(tmp_path: pathlib.Path) -> None:
  """Sorted by name, 10 would come before 2."""
  for label in (2, 10, 999):
    save(tmp_path / str(label) / 'x.png', label % 250)
  expected = [(2, [WNIDS[2]]), (10, [WNIDS[10]]), (249, [WNIDS[999]])]
  assert shown(open_rows('imagenet_v2', tmp_path)) == expected


def test_reassessed_labels_go_by_the_images_number(tmp_path: pathlib.Path) -> None:
  for number in (1, 3, 4):
    save(tmp_path / 'val' / f'ILSVRC2012_val_{number:08d}.JPEG', 40 * number)
  labels = tmp_path / 'real.json'
  labels.write_text(json.dumps([[PEN, TENCH], [7], [], [PEN]]))
  rows = open_rows('imagenet_real', tmp_path / 'val', metadata=str(labels))
  assert shown(rows) == [(40, [WNIDS[PEN], WNIDS[TENCH]]), (160, [WNIDS[PEN]])]
  assert rows.description['images_without_label'] == 1
  labels.write_text(json.dumps([[PEN]]))
  with pytest.raises(InputError, match='labels of 1 images; there is number 4'):
    open_rows('imagenet_real', tmp_path / 'val', metadata=str(labels))
  with pytest.raises(InputError, match="config.data.metadata is '', which is no file"):
    open_rows('imagenet_real', tmp_path / 'val')


def write_real(folder: pathlib.Path, pictures: list[tuple[int, list[str]]]) -> None:
  """Writes (grey level, reassessed labels) as TFDS's imagenet2012_real."""
  label = tfds.features.ClassLabel(names=list(WNIDS))
  features = {
    'image': tfds.features.Image(encoding_format='png'),
    'original_label': label,
    'real_label': tfds.features.Sequence(tfds.features.ClassLabel(names=list(WNIDS))),
    'file_name': tfds.features.Text(),
  }
  examples = [
    {
      'image': np.full((8, 8, 3), level, np.uint8),
      'original_label': np.int64(0),
      'real_label': np.array([WNIDS.index(wnid) for wnid in wnids], np.int64),
      'file_name': f'ILSVRC2012_val_{number:08d}.JPEG',
    }
    for number, (level, wnids) in enumerate(pictures, 1)
  ]
  version = str(tfds.builder_cls('imagenet2012_real').VERSION)
  store(folder, 'imagenet2012_real', features, {'validation': examples}, version=version)


def test_reassessed_labels_come_by_tfds_too(tmp_path: pathlib.Path) -> None:
  pen, tench = WNIDS[PEN], WNIDS[TENCH]
  write_real(tmp_path, [(40, [pen, tench]), (80, []), (160, [pen])])
  rows = open_rows('imagenet_real', '', data_dir=str(tmp_path))
  assert shown(rows) == [(40, [pen, tench]), (160, [pen])]
  assert rows.description['images_without_label'] == 1
  assert rows.description['split'] == 'validation'
  with pytest.raises(InputError, match='imagenet_real has 2 classes; imagenet_real has 1000'):
    open_rows('imagenet_real', '', data_dir=str(tmp_path), allow_missing=False)


def write_objectnet(root: pathlib.Path, classes: dict[str, str]) -> None:
  for folder, level in (('alarm_clock', 50), ('pen', 60), ('air_freshener', 70)):
    save(root / 'images' / folder / 'x.png', level, side=12)
  (root / 'mappings').mkdir()
  folders = {'alarm_clock': 'Alarm clock', 'pen': 'Pen', 'air_freshener': 'Air freshener'}
  (root / 'mappings' / 'folder_to_objectnet_label.json').write_text(json.dumps(folders))
  (root / 'mappings' / 'objectnet_to_imagenet_1k.json').write_text(json.dumps(classes))


def test_objects_have_all_their_classes_and_no_frame(tmp_path: pathlib.Path) -> None:
  write_objectnet(
    tmp_path,
    {
      'Alarm clock': 'analog clock; digital clock',
      'Pen': 'ballpoint, ballpoint pen, ballpen, Biro; fountain pen',
    },
  )
  rows = open_rows('objectnet', tmp_path)
  assert rows.image_shape == (8, 8, 3)
  clocks = [WNIDS[CLOCK], WNIDS[530]]
  assert shown(rows) == [(50, clocks), (60, [WNIDS[PEN], WNIDS[FOUNTAIN_PEN]])]
  assert rows.description['objects_left_out'] == 1 and rows.description['classes'] == 4


def test_an_object_of_an_unknown_class_is_named(tmp_path: pathlib.Path) -> None:
  write_objectnet(tmp_path, {'Pen': 'balpoint, biro'})
  with pytest.raises(InputError, match=r"'balpoint, biro'.*did you mean 'ballpoint'"):
    open_rows('objectnet', tmp_path)


def test_tfds_sets_have_the_classes_that_occur(tmp_path: pathlib.Path) -> None:
  pictures = {'test': [(WNIDS[PEN], 10), (WNIDS[TENCH], 20), (WNIDS[PEN], 30)]}
  version = str(tfds.builder_cls('imagenet_r').VERSION)
  write_domain(tmp_path, 'imagenet_r', '', pictures, WNIDS, version=version, named=True)
  rows = open_rows('imagenet_r', '', data_dir=str(tmp_path), split='test')
  assert rows.class_names == (WNIDS[TENCH], WNIDS[PEN])
  assert shown(rows) == [(10, [WNIDS[PEN]]), (20, [WNIDS[TENCH]]), (30, [WNIDS[PEN]])]
  with pytest.raises(InputError, match='imagenet_r has 2 classes; imagenet_r has 200'):
    open_rows('imagenet_r', '', data_dir=str(tmp_path), split='test', allow_missing=False)


def test_what_does_not_fit_is_named(tmp_path: pathlib.Path) -> None:
  save(tmp_path / 'some' / 'tench' / 'x.png', 1)
  with pytest.raises(InputError, match="none of ImageNet, first 'tench'"):
    open_rows('imagenet_a', tmp_path / 'some')
  save(tmp_path / 'few' / WNIDS[3] / 'x.png', 1)
  with pytest.raises(InputError, match='has 1 classes; imagenet_a has 200'):
    open_rows('imagenet_a', tmp_path / 'few', allow_missing=False)
  (tmp_path / 'empty' / WNIDS[0]).mkdir(parents=True)
  with pytest.raises(InputError, match='holds no images'):
    open_rows('imagenet_r', tmp_path / 'empty')
  with pytest.raises(InputError, match="config.data.name is 'imagenet_q'"):
    open_rows('imagenet_q', tmp_path)
  with pytest.raises(InputError, match='not a folder'):
    open_rows('objectnet', '')
  for part in ('mappings', 'images'):
    with pytest.raises(InputError, match=f'lacks the folder {part}: give that of ObjectNet'):
      open_rows('objectnet', tmp_path / 'few')
    (tmp_path / 'few' / part).mkdir()
  for part in ('mappings', 'images'):
    (tmp_path / 'few' / part).rmdir()
  with pytest.raises(
    InputError, match="config.data.metadata is '', which is no file: give real.json"
  ):
    open_rows('imagenet_real', tmp_path / 'few')
  with pytest.raises(InputError, match='ILSVRC2012_val_00000001'):
    (tmp_path / 'real.json').write_text('[]')
    open_rows('imagenet_real', tmp_path / 'few', metadata=str(tmp_path / 'real.json'))
