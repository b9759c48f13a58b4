"""Tests reading natural shifts of ImageNet, in the released layouts and from TFDS."""

import json

import numpy as np
import pytest
import tensorflow_datasets as tfds

from input_pipeline.sources import natural_shifts
from robustness.models.imagenet_names import WNIDS
from tests.cases import cases
from tests.input_pipeline.domains import full_batch, levels, read, save_grey, store, write_domain
from tests.refusals import bad_setting, refused

TENCH, GOLDFISH, CLOCK, DIGITAL_CLOCK, PEN, FOUNTAIN_PEN = (
  WNIDS[label] for label in (0, 1, 409, 530, 418, 563)
)


def open_rows(name, path='', allow_missing=True, **settings):
  """Returns the rows of a data set that may have fewer images than the release."""
  return read('natural_shifts', path, dataset=name, allow_missing=allow_missing, **settings)


def levels_and_names(rows):
  """Returns (grey level, WordNet identifiers of its labels) of every row."""
  batch = full_batch(rows)
  labels = batch['label'].reshape(rows.num_examples, -1)
  names = [[rows.class_names[k] for k in labels_of_row if k >= 0] for labels_of_row in labels]
  return list(zip(levels(batch['image']), names, strict=True))


@pytest.mark.parametrize('name', ['imagenet_a', 'imagenet_r', 'imagenet_sketch'])
def test_class_folders_are_wordnet_identifiers(tmp_path, name):
  for level, label in ((10, PEN), (20, GOLDFISH), (30, GOLDFISH)):
    save_grey(tmp_path / label / f'{level}.png', level)
  rows = open_rows(name, tmp_path)
  assert levels_and_names(rows) == [(20, [GOLDFISH]), (30, [GOLDFISH]), (10, [PEN])]
  assert rows.description['classes'] == 2
  refused(bad_setting('config.data.split', 'train'), open_rows, name, tmp_path, split='train')


def test_a_number_of_images_that_differs_from_the_release_is_refused(tmp_path):
  for label in range(200):  # all classes, with one of many images each
    save_grey(tmp_path / WNIDS[label] / '1.png', label)
  message = 'has 200 images; imagenet_r has 30000: complete it'
  refused(message, open_rows, 'imagenet_r', tmp_path, allow_missing=False)


def test_two_images_of_one_number_are_refused(tmp_path):
  for folder in ('val', 'val/small'):
    save_grey(tmp_path / folder / 'ILSVRC2012_val_00000001.JPEG', 1)
  labels = tmp_path / 'real.json'
  labels.write_text('[[0]]')
  refused('of one number', open_rows, 'imagenet_real', tmp_path / 'val', real_labels=str(labels))


def test_class_folders_of_imagenet_v2_are_ordered_by_number(tmp_path):
  """Sorted by name, 10 would come before 2."""
  for label in (2, 10, 999):
    save_grey(tmp_path / str(label) / 'x.png', label % 250)
  expected = [(2, [WNIDS[2]]), (10, [WNIDS[10]]), (249, [WNIDS[999]])]
  assert levels_and_names(open_rows('imagenet_v2', tmp_path)) == expected
  for name, message in (('002', "'002'; .* no other one has"), ('²', "ImageNet, first '10'")):
    (tmp_path / name).mkdir()
    refused(message, open_rows, 'imagenet_v2', tmp_path)
    (tmp_path / name).rmdir()
  for name in ('007', '0007'):
    (tmp_path / name).mkdir()
  refused("'0007'; .* no other one has", open_rows, 'imagenet_v2', tmp_path)


def test_reassessed_labels_are_assigned_by_the_number_of_the_image(tmp_path):
  for number in (1, 3, 4):
    save_grey(tmp_path / 'val' / f'ILSVRC2012_val_{number:08d}.JPEG', 40 * number)
  labels = tmp_path / 'real.json'
  labels.write_text(json.dumps([[418, 0], [7], [], [418]]))
  rows = open_rows('imagenet_real', tmp_path / 'val', real_labels=str(labels))
  assert levels_and_names(rows) == [(40, [PEN, TENCH]), (160, [PEN])]
  assert rows.description['images_without_label'] == 1
  for document, message in (
    ([[418]], 'labels of 1 images; there is number 4'),
    ([[418, -1]] * 4, r'labels of an image is \[418, -1\]'),
  ):
    labels.write_text(json.dumps(document))
    refused(message, open_rows, 'imagenet_real', tmp_path / 'val', real_labels=str(labels))
  save_grey(tmp_path / 'val' / 'ILSVRC2012_val_00000000.JPEG', 9)
  message = 'labels of 4 images; there is number 0'
  refused(message, open_rows, 'imagenet_real', tmp_path / 'val', real_labels=str(labels))


def test_reassessed_labels_are_read_from_tfds(tmp_path):
  label = tfds.features.ClassLabel(names=list(WNIDS))
  features = {
    'image': tfds.features.Image(encoding_format='png'),
    'original_label': label,
    'real_label': tfds.features.Sequence(label),
    'file_name': tfds.features.Text(),
  }
  examples = [
    {
      'image': np.full((8, 8, 3), level, np.uint8),
      'original_label': np.int64(0),
      'real_label': np.array(labels, np.int64),
      'file_name': f'ILSVRC2012_val_{number:08d}.JPEG',
    }
    for number, level, labels in ((1, 40, [418, 0]), (2, 80, []), (3, 160, [418]))
  ]
  version = str(tfds.builder_cls('imagenet2012_real').VERSION)
  store(tmp_path, 'imagenet2012_real', features, {'validation': examples}, version=version)
  rows = open_rows('imagenet_real', data_dir=str(tmp_path))
  assert levels_and_names(rows) == [(40, [PEN, TENCH]), (160, [PEN])]
  assert rows.description['images_without_label'] == 1
  assert rows.description['split'] == 'validation'


def write_objectnet(root, classes):
  """Writes an image of three objects each, and `classes`, {object: its classes of ImageNet}."""
  objects = {'alarm_clock': 50, 'pen': 60, 'air_freshener': 70}
  for folder, level in objects.items():
    save_grey(root / 'images' / folder / 'x.png', level, side=12)
  (root / 'mappings').mkdir()
  names = {folder: folder.replace('_', ' ').capitalize() for folder in objects}
  (root / 'mappings/folder_to_objectnet_label.json').write_text(json.dumps(names))
  (root / 'mappings/objectnet_to_imagenet_1k.json').write_text(json.dumps(classes))


def test_objects_have_all_their_classes_and_are_read_without_their_frame(tmp_path):
  pen = 'ballpoint, ballpoint pen, ballpen, Biro; fountain pen'
  write_objectnet(tmp_path, {'Alarm clock': 'analog clock; digital clock', 'Pen': pen})
  rows = open_rows('objectnet', tmp_path)
  assert rows.image_shape == (8, 8, 3), '12 pixels without a frame of 2'
  assert levels_and_names(rows) == [(50, [CLOCK, DIGITAL_CLOCK]), (60, [PEN, FOUNTAIN_PEN])]
  assert rows.description['objects_left_out'] == 1 and rows.description['classes'] == 4
  write_objectnet(tmp_path / 'other', {'Pen': 'balpoint, biro'})
  save_grey(tmp_path / 'images/pen/y.png', 60, side=4)
  message = r'1 of 3 pictures cannot be .*y.png is \(4, 4\); it must be above twice'
  refused(message, open_rows, 'objectnet', tmp_path)
  refused(r"'balpoint, biro'.*did you mean 'ballpoint'", open_rows, 'objectnet', tmp_path / 'other')


@cases(
  'words, label',
  ('Cardigan, Cardigan Welsh corgi', 264),
  ('cardigan', 474),
  ('maillot', 638),
  ('maillot, tank suit', 639),
  ('projectile, missile', 744),
  ('Bathtub, bathing tub, bath, tub', 435),
)
def test_words_name_the_class_with_the_same_synonyms_or_the_only_similar_one(words, label):
  assert natural_shifts._label_of(words) == label


def test_data_sets_of_tfds_have_the_classes_that_occur(tmp_path):
  pictures = {'test': [(PEN, 10), (TENCH, 20), (PEN, 30)]}
  version = str(tfds.builder_cls('imagenet_r').VERSION)
  write_domain(tmp_path, 'imagenet_r', '', pictures, WNIDS, version=version, named=True)
  stored = {'data_dir': str(tmp_path), 'split': 'test'}
  rows = open_rows('imagenet_r', **stored)
  assert rows.class_names == (TENCH, PEN)
  assert levels_and_names(rows) == [(10, [PEN]), (20, [TENCH]), (30, [PEN])]
  message = 'imagenet_r has 2 classes; imagenet_r has 200'
  refused(message, open_rows, 'imagenet_r', allow_missing=False, **stored)


def test_unusable_folders_and_settings_are_refused(tmp_path):
  save_grey(tmp_path / 'some' / 'tench' / 'x.png', 1)
  refused("none of ImageNet, first 'tench'", open_rows, 'imagenet_a', tmp_path / 'some')
  message = bad_setting('config.data.natural_shifts.real_labels', 'real.json')
  refused(message, open_rows, 'imagenet_a', tmp_path / 'some', real_labels='real.json')
  save_grey(tmp_path / 'few' / WNIDS[3] / 'x.png', 1)
  message = 'has 1 classes; imagenet_a has 200'
  refused(message, open_rows, 'imagenet_a', tmp_path / 'few', allow_missing=False)
  (tmp_path / 'empty' / WNIDS[0]).mkdir(parents=True)
  refused('holds no images', open_rows, 'imagenet_r', tmp_path / 'empty')
  refused(
    bad_setting('config.data.natural_shifts.dataset', 'imagenet_q'),
    open_rows,
    'imagenet_q',
    tmp_path,
  )
  refused(bad_setting('config.data.natural_shifts.path', ''), open_rows, 'objectnet', '')
  for part in ('mappings', 'images'):
    expected = bad_setting('config.data.natural_shifts.path', words=f'lacks the folder {part}')
    refused(expected, open_rows, 'objectnet', tmp_path / 'few')
    (tmp_path / 'few' / part).mkdir()
  for part in ('mappings', 'images'):
    (tmp_path / 'few' / part).rmdir()
  expected = bad_setting('config.data.natural_shifts.real_labels', '', 'real.json')
  refused(expected, open_rows, 'imagenet_real', tmp_path / 'few')
  (tmp_path / 'real.json').write_text('[]')
  labels = str(tmp_path / 'real.json')
  refused(
    'ILSVRC2012_val_00000001', open_rows, 'imagenet_real', tmp_path / 'few', real_labels=labels
  )
