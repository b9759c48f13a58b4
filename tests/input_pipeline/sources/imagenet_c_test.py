"""Tests reading ImageNet-C, Tiny ImageNet-C, ImageNet-3DCC and LAION-C in the released layouts."""

import functools
import importlib.util
import os
import shutil
import sys
import time

import numpy as np
import pytest
from PIL import Image

from input_pipeline import Preparation, load
from input_pipeline.selection import read_names
from robustness.corruptions.names import NAMES, NUMBERS
from robustness.models.imagenet_names import WNIDS
from tests.input_pipeline.domains import full_batch, levels, read, save_grey, settings_of
from tests.refusals import bad_setting, refused

open_rows = functools.partial(read, 'imagenet_c')
CLASSES, PER_CLASS, SIDE = ('n01440764', 'n01443537'), 2, 8


def write_part(folder, level):
  """Writes two grey JPEGs a class, of `level`, `level` + 20, + 40 and + 60."""
  for number, wnid in enumerate(CLASSES):
    for k in range(PER_CLASS):
      image_level = level + 20 * (number * PER_CLASS + k)
      save_grey(folder / wnid / f'val_{k}.JPEG', image_level, SIDE, quality=95)


@pytest.fixture
def folder(tmp_path):
  """Returns a folder with the severities 1 and 3 of snow and fog."""
  for name, severity, level in (('snow', 1, 10), ('snow', 3, 30), ('fog', 1, 50), ('fog', 3, 70)):
    write_part(tmp_path / name / str(severity), level)
  return tmp_path


def test_rows_are_ordered_by_corruption_severity_class_and_name(folder):
  rows = open_rows(folder)
  batch = full_batch(rows)
  assert rows.class_names == CLASSES and rows.image_shape == (SIDE, SIDE, 3)
  expected = np.add.outer([10, 30, 50, 70], [0, 20, 40, 60]).ravel()
  np.testing.assert_allclose(levels(batch['image']), expected, atol=1)
  assert batch['label'].tolist() == [0, 0, 1, 1] * 4
  assert batch['corruption'].tolist() == [NAMES.index('snow')] * 8 + [NAMES.index('fog')] * 8
  assert batch['severity'].tolist() == [1] * 4 + [3] * 4 + [1] * 4 + [3] * 4
  assert batch['base_id'].tolist() == [0, 1, 2, 3] * 4
  assert rows.description['severities'] == [1, 3]
  steps = rows.training_batches(8, seed=0)
  assert sorted(np.concatenate([next(steps)['example_id'] for _ in range(2)])) == list(range(16))


def test_a_subset_takes_the_same_image_of_every_part(folder):
  batch = full_batch(open_rows(folder, num_images=1))
  assert len(set(batch['base_id'].tolist())) == 1
  assert batch['severity'].tolist() == [1, 3, 1, 3]


def test_only_listed_images_are_read_from_every_part(folder, tmp_path):
  """RobustBench's list of 5,000 of ImageNet's validation images has this form."""
  listed = tmp_path / 'ids.txt'
  listed.write_text(f'{CLASSES[1]}/val_0.JPEG\n{CLASSES[0]}/val_1.JPEG\n\n')
  rows = open_rows(folder, image_list=str(listed))
  assert full_batch(rows)['base_id'].tolist() == [1, 2] * 4
  assert rows.description['image_list'] == str(listed)
  first_listed = open_rows(folder, image_list=str(listed), num_images=1, subset='first')
  assert next(first_listed.batches(4))['base_id'].tolist() == [1] * 4
  for text, message in (
    (f'{CLASSES[1]}/val_9.JPEG', 'lists 1 of 1 images that ImageNet-C in .* lacks'),
    (f'{CLASSES[1]}/val_0.JPEG\n' * 2, 'twice'),
    ('', 'lists no images'),
  ):
    listed.write_text(text)
    refused(message, open_rows, folder, image_list=str(listed))
  refused(
    bad_setting('config.data.image_list'),
    open_rows,
    folder,
    image_list=str(tmp_path / 'absent.txt'),
  )


def test_the_list_of_robustbench_names_images_of_known_classes():
  """The installed package has the list, and is not imported for it."""
  if importlib.util.find_spec('robustbench') is None:
    pytest.skip('pip install --no-deps robustbench')
  names = read_names('robustbench')
  assert len(names) == 5000
  assert {name.partition('/')[0] for name in names} <= set(WNIDS)
  assert 'robustbench' not in sys.modules


def test_a_missing_robustbench_is_named_with_its_installation(monkeypatch):
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
  refused('is not installed: pip install --no-deps robustbench, or', read_names, 'robustbench')


def test_images_may_have_changed_if_their_class_folder_or_its_first_image_has(folder):
  rows = open_rows(folder)
  class_folder, last = folder / 'snow/1' / CLASSES[0], folder / 'fog/3' / CLASSES[1]
  first = rows._images.file(0)
  assert os.path.dirname(first) == rows._images.file(1) == str(class_folder)
  assert rows._images.file(15) == str(last)
  assert rows.may_have_changed(0, slice(None))
  assert not rows.may_have_changed(time.time() + 100, slice(None))
  since = np.nextafter(max(path.stat().st_ctime for path in folder.rglob('*')), np.inf)
  time.sleep(0.02)  # the clock of files is coarse
  os.utime(first)  # as if it were overwritten
  assert rows.may_have_changed(since, slice(0, 2))
  assert not rows.may_have_changed(since, slice(12, 16))


def test_tiny_imagenet_c_is_read_without_the_additional_classes_of_frost(folder):
  """Frost of the first released archive has them; in ImageNet-C they are an error."""
  for severity in ('1', '3'):
    write_part(folder / 'frost' / severity, 20)
    shutil.copytree(folder / 'frost' / severity / CLASSES[0], folder / 'frost' / severity / 'n9')
  rows = read('tiny_imagenet_c', folder)
  assert rows.description['source'] == 'tiny_imagenet_c' and rows.class_names == CLASSES
  assert rows.description['class_folders_left_out'] == 1 and rows.num_examples == 6 * 4
  refused('frost/1 has', open_rows, folder)
  for part in ('fog/3', 'snow/1'):  # the latter is the first that is not frost
    (folder / part / CLASSES[1]).rename(folder.parent / 'elsewhere')
    refused(f'{part} lacks {CLASSES[1]}', read, 'tiny_imagenet_c', folder)
    (folder.parent / 'elsewhere').rename(folder / part / CLASSES[1])


def test_imagenet_3dcc_has_other_corruptions(folder):
  for path in list(folder.iterdir()):
    path.rename(folder / {'snow': 'fog_3d', 'fog': 'near_focus'}[path.name])
  batch = full_batch(read('imagenet_3dcc', folder))
  assert batch['corruption'].tolist() == [NUMBERS['near_focus']] * 8 + [NUMBERS['fog_3d']] * 8
  np.testing.assert_allclose(levels(batch['image'])[:4], [50, 70, 90, 110], atol=1)
  (folder / 'fog_3d').rename(folder / 'fog3d')
  refused("'fog3d', which is no corruption: did you mean 'fog_3d'", read, 'imagenet_3dcc', folder)


def test_files_of_laion_c_are_matched_without_the_endings_of_their_names(tmp_path):
  """The image z0 of class dog is called z0_sticker_1.JPEG in severity 1 of stickers."""
  for name, ending, level in (('stickers', 'sticker', 10), ('mosaic', 'mosaic', 70)):
    for severity in (1, 2):
      for k, label in enumerate(('dog', 'cat')):
        class_folder = tmp_path / name / f'intensity_level_{severity}' / label
        path = class_folder / f'z{k}_{ending}_{severity}.JPEG'
        save_grey(path, level + 10 * k + severity, quality=95)
  rows = read('laion_c', tmp_path)
  batch = full_batch(rows)
  assert rows.class_names == ('cat', 'dog') and batch['label'].tolist() == [0, 1] * 4
  assert batch['corruption'].tolist() == [NUMBERS['mosaic']] * 4 + [NUMBERS['stickers']] * 4
  np.testing.assert_allclose(levels(batch['image']), [81, 71, 82, 72, 21, 11, 22, 12], atol=1)
  (tmp_path / 'mosaic/intensity_level_2/cat/z1_mosaic_2.JPEG').unlink()
  message = 'intensity_level_2 lacks cat/z1.JPEG, which .*intensity_level_1 has'
  refused(message, read, 'laion_c', tmp_path)
  (tmp_path / 'mosaic/2').mkdir()
  refused('mosaic holds 2; expected .* intensity_level_1, ', read, 'laion_c', tmp_path)


def test_images_of_the_folder_clean_come_first(folder):
  write_part(folder / 'clean', 120)
  rows = open_rows(folder)
  batch = full_batch(rows)
  assert batch['corruption'][:4].tolist() == [-1] * 4
  np.testing.assert_allclose(levels(batch['image'])[:4], [120, 140, 160, 180], atol=1)
  assert rows.description['clean_images'] is True


def test_damaged_missing_and_unknown_files_and_folders_are_refused(folder, tmp_path):
  path = folder / 'fog' / '1' / CLASSES[0] / 'val_0.JPEG'
  path.write_bytes(path.read_bytes()[:200])
  refused(r'1 of 16 pictures .*fog/1/n01440764/val_0\.JPEG', open_rows, folder)
  refused(bad_setting('config.data.imagenet_c.path'), open_rows, tmp_path / 'nowhere')
  (folder / 'fog' / '3' / CLASSES[1] / 'val_1.JPEG').unlink()
  refused(r'fog/3 lacks n01443537/val_1\.JPEG, which .*snow/1 has', open_rows, folder)
  shutil.rmtree(folder / 'fog' / '3')
  (folder / 'fog' / '3').mkdir()
  refused(r'fog/3 lacks n01440764/val_0\.JPEG, which .*snow/1 has', open_rows, folder)
  (folder / 'fog' / '6').mkdir()
  refused('fog holds 6; expected folders named after severities', open_rows, folder)
  (folder / 'frogs').mkdir()
  refused(r"'frogs', which is no corruption: .*'frost'.*like ImageNet-C \(", open_rows, folder)
  (folder / 'fog_3d').mkdir()
  message = r"'fog_3d', which .* it looks like ImageNet-3DCC \(.*source='imagenet_3dcc'\)\.$"
  refused(message, open_rows, folder)
  for path in list(folder.iterdir()):
    shutil.rmtree(path)
  refused('holds no corruption', open_rows, folder)
  (folder / 'fog' / '1').mkdir(parents=True)
  refused('fog/1 holds no <class>/<image>; expected files ending in', open_rows, folder)


def test_stored_images_are_resized_without_a_crop_for_a_classifier_of_another_size(tmp_path):
  # black with a white border of 4 of 32 pixels
  pixels = np.pad(np.zeros((24, 24, 3), np.uint8), ((4, 4), (4, 4), (0, 0)), constant_values=255)
  (tmp_path / 'fog' / '1' / CLASSES[0]).mkdir(parents=True)
  Image.fromarray(pixels).save(tmp_path / 'fog' / '1' / CLASSES[0] / 'a.png')
  settings = settings_of('imagenet_c', tmp_path)
  rows = load(settings, preparation=Preparation('weights', 40, 48, 'bilinear'))
  batch = full_batch(rows)
  assert batch['image'].shape == (1, 40, 40, 3)
  # The border is 5 of 40 pixels; a crop of 40 from 48 pixels would leave 2 of its 6.
  assert batch['image'][0, [0, 3, 36, 39], :, 0].min() > 0.99
  assert batch['image'][0, 20, [6, 33], 0].max() < 0.01
  facts = rows.description
  assert (facts['prepared_for'], facts['resize'], facts['crop']) == ('weights', 40, 40)
  assert facts['crop_margin'] == 'none: the images were cropped before they were stored'


def test_files_that_are_not_read_are_counted_and_class_folders_ordered_by_number(folder):
  for severity in folder.glob('*/*'):
    for name, number in zip(CLASSES, ('2', '10'), strict=True):
      (severity / name).rename(severity / number)
    (severity / '2/notes.txt').touch()
    (severity / '10/.DS_Store').touch()
    (severity / '@eaDir').mkdir()
  rows = open_rows(folder)
  assert rows.class_names == ('2', '10')
  assert rows.description['left_out'] == {'files .txt': 4, 'hidden files': 4}
  # Images are in the order of their paths, where 10 comes before 2.
  assert full_batch(rows)['label'].tolist() == [1, 1, 0, 0] * 4
