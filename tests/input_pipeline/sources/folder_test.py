"""Tests reading images from folders of class folders, and the package `foolbox`."""

import functools
import importlib.util
import logging
import os
import shutil

import numpy as np
import pytest
from PIL import Image

from input_pipeline import load, selection
from robustness.config.experiment import Execution
from robustness.core.rows import identity_of
from robustness.measurement import measure
from robustness.models import label_space
from robustness.models.imagenet_names import WNIDS
from robustness.studies.accuracy import Accuracy
from tests.input_pipeline.domains import full_batch, levels, read, save_grey, settings_of
from tests.networks import CLASSES, SHAPE
from tests.refusals import bad_setting, refused
from tests.studies.conftest import classifier

open_folder = functools.partial(read, 'folder')


def test_classes_and_files_are_sorted_by_name_without_hidden_and_other_files(tmp_path, save_image):
  paths = [
    save_image(tmp_path / name)
    for name in ('cat/b.png', 'cat/a.JPG', 'cat/deep/c.png', 'ant/z.bmp')
  ]
  (tmp_path / 'bee').mkdir()
  (tmp_path / '__MACOSX').mkdir()
  save_image(tmp_path / '.elsewhere/d.png')
  (tmp_path / 'cat/linked').symlink_to(tmp_path / '.elsewhere')
  (tmp_path / 'cat/deep/loop').symlink_to(tmp_path / 'cat')
  save_image(tmp_path / 'cat/.ipynb_checkpoints/a.png')
  for extra in ('cat/notes.txt', 'cat/._a.png', 'readme.md'):
    (tmp_path / extra).write_text('not an image')
  rows = open_folder(tmp_path)
  assert rows.class_names == ('ant', 'bee', 'cat')
  batch = next(rows.batches(5))
  assert batch['label'].tolist() == [0, 2, 2, 2, 2]
  assert batch['example_id'].tolist() == [0, 1, 2, 3, 4]
  for position, path in [(0, paths[3]), (2, paths[0]), (3, paths[2])]:
    expected = np.asarray(Image.open(path), np.float32) / np.float32(255)
    np.testing.assert_array_equal(batch['image'][position], expected)


def test_classes_of_a_coarser_label_space_hold_the_images_of_their_members(tmp_path, save_image):
  for folder in ('n01440764', 'n02085620', 'n02099601', 'n01530575'):  # a tench, two dogs, a bird
    save_image(tmp_path / folder / '1.png')
  rows = open_folder(tmp_path, label_space='imagenet_vid')
  assert len(rows.class_names) == 30
  names = [rows.class_names[label] for label in next(rows.batches(3))['label']]
  assert rows.num_examples == 3 and names == ['bird', 'dog', 'dog']
  # An image list of a byte order mark and one name, which must be that of one image alone.
  listed = tmp_path / 'listed.txt'
  listed.write_text('\ufeffn02099601/1.png\n', 'utf-8')
  rows = open_folder(tmp_path, label_space='imagenet_vid', image_list=str(listed))
  assert rows.indices.tolist() == [2]
  save_image(tmp_path / 'n02099601/deep/1.png')
  message = "a line of .* is 'n02099601/1.png'; it must be a name that one image alone has"
  refused(message, open_folder, tmp_path, image_list=str(listed))
  message = 'none of its 1 class folders .deep. is a member of youtube_bb'
  refused(
    message, open_folder, save_image(tmp_path / 'x/deep/1.png').parents[1], label_space='youtube_bb'
  )


def test_grey_images_have_one_channel_unless_another_image_has_colour(tmp_path, save_image):
  save_image(tmp_path / 'a/1.png', 'L')
  save_image(tmp_path / 'a/2.png', 'L')
  grey = next(open_folder(tmp_path).batches(2))['image']
  assert grey.shape == (2, 8, 8, 1)
  save_image(tmp_path / 'b/3.png', 'RGB')
  save_image(tmp_path / 'b/4.png', 'RGBA')
  save_image(tmp_path / 'b/5.jpg', 'CMYK')
  mixed = next(open_folder(tmp_path).batches(5))['image']
  assert mixed.shape == (5, 8, 8, 3)
  np.testing.assert_array_equal(mixed[:2], np.repeat(grey, 3, axis=-1))


def test_a_split_is_a_folder_above_the_class_folders_and_may_be_absent(tmp_path, save_image):
  save_image(tmp_path / 'train/a/1.png')
  save_image(tmp_path / 'train/a/2.png')
  save_image(tmp_path / 'test/a/1.png')
  assert open_folder(tmp_path).num_examples == 1
  assert open_folder(tmp_path, split='train').num_examples == 2
  refused(
    bad_setting('config.data.split', 'trian', words="did you mean 'train'"),
    open_folder,
    tmp_path,
    split='trian',
  )
  without_splits = tmp_path / 'train'
  assert (
    open_folder(without_splits).num_examples
    == open_folder(without_splits, split='').num_examples
    == 2
  )
  refused(bad_setting('config.data.split', 'train'), open_folder, without_splits, split='train')


def test_images_of_other_sizes_are_refused_with_their_file_and_the_settings_to_change(
  tmp_path, save_image
):
  save_image(tmp_path / 'a/1.png', size=(8, 8))
  save_image(tmp_path / 'a/2.png', size=(8, 8))
  save_image(tmp_path / 'a/3.png', size=(12, 9))
  refused(r'3\.png .* as 9x12 pixels.*resize=256 .*crop=224', open_folder, tmp_path)
  refused(r'3\.png .* comes out as 8x10', open_folder, tmp_path, resize=8)
  assert open_folder(tmp_path, crop=8).image_shape == (8, 8, 3)
  refused(r'1\.png \(example 0\) is 8x8 pixels, smaller than .* 10', open_folder, tmp_path, crop=10)
  batch = next(open_folder(tmp_path, resize=10, crop=9).batches(3))
  assert batch['image'].shape == (3, 9, 9, 3) and batch['mask'].all()


def test_images_outside_the_subset_are_not_read(tmp_path, save_image):
  for index in range(6):
    save_image(tmp_path / f'a/{index}.png')
  subset = set(open_folder(tmp_path, num_images=3).indices.tolist())
  for index in set(range(1, 6)) - subset:
    (tmp_path / f'a/{index}.png').write_bytes(b'torn')
  assert next(open_folder(tmp_path, num_images=3).batches(3))['mask'].all()


def test_damaged_images_are_counted_and_the_first_ones_named(tmp_path, save_image):
  for index in range(9):
    save_image(tmp_path / f'a/{index}.png', size=(32, 32))
  for index in range(1, 9):
    path = tmp_path / f'a/{index}.png'
    path.write_bytes(path.read_bytes()[: 1500 if index > 1 else 0])  # a part, or no byte
  message = (
    r'^8 of 9 pictures cannot be decoded, first .*1\.png \(example 1\): its content is none of .*; '
    r'then .*2\.png .*5\.png \(example 5\) and 3 more\. Replace'
  )
  refused(message, open_folder, tmp_path)


def test_some_of_many_images_are_decoded_and_their_headers_read(tmp_path, save_image, monkeypatch):
  monkeypatch.setattr(selection, 'MAX_DECODED', 3)
  for index in range(9):
    save_image(tmp_path / f'a/{index}.png', size=(32, 32))
  torn, empty = tmp_path / 'a/3.png', tmp_path / 'a/5.png'
  content = torn.read_bytes()
  torn.write_bytes(content[:1500])  # not decoded here; its header is whole
  open_folder(tmp_path)
  empty.write_bytes(b'')
  refused(r'^1 of 9 pictures \(3 were decoded, .*5\.png', open_folder, tmp_path)
  monkeypatch.setattr(selection, 'MAX_HEADERS', 5)  # those of images 0, 2, 4, 6 and 8
  open_folder(tmp_path, resize=32, crop=32)
  (tmp_path / 'a/8.png').write_bytes(content[:1500])
  message = r'^1 of 5 pictures that were looked at of 9 .*8\.png'
  refused(message, open_folder, tmp_path, resize=32, crop=32)


@pytest.mark.parametrize('training', [False, True])
def test_an_image_that_is_damaged_after_the_folder_was_opened_is_named(
  tmp_path, save_image, training
):
  for index in range(5):
    save_image(tmp_path / f'a/{index}.png', size=(32, 32))
  rows = open_folder(tmp_path)
  torn = tmp_path / 'a/3.png'
  torn.write_bytes(torn.read_bytes()[:1500])
  batches = rows.training_batches(5, seed=0) if training else rows.batches(2)
  message = r'3\.png \(example 3\) cannot be decoded: .*truncated'
  refused(message, list, zip(range(3), batches, strict=False))


def test_folders_without_readable_images_are_refused(tmp_path, save_image):
  refused('holds no class folders', open_folder, tmp_path)
  save_image(tmp_path / 'loose.png')
  (tmp_path / 'ILSVRC2012_img_val.tar').touch()
  refused('no class folders; .*looks like an archive that is not', open_folder, tmp_path)
  (tmp_path / 'a').mkdir()
  refused('none of its 1 class folders holds an image', open_folder, tmp_path)
  (tmp_path / 'a/1.png').write_text('hello')
  refused(r'1 of 1 pictures cannot be decoded, first .*1\.png', open_folder, tmp_path)
  os.rename(save_image(tmp_path / 'a/1.png').parent, os.fsencode(tmp_path) + b'/caf\xe9')
  refused(r'\\udce9.* is no text in UTF-8: rename it', open_folder, tmp_path)


def test_folders_called_train_and_val_are_splits_and_no_classes(tmp_path, save_image):
  for name in ('train/cat/1.png', 'val/cat/1.png', 'test/1.png'):
    save_image(tmp_path / name)
  refused(bad_setting('config.data.split', 'test'), open_folder, tmp_path)
  save_image(tmp_path / 'extra/1.png')
  refused(bad_setting('config.data.split', 'test'), open_folder, tmp_path)
  shutil.rmtree(tmp_path / 'extra')
  assert open_folder(tmp_path, split='val').class_names == ('cat',)
  assert open_folder(tmp_path, split='').class_names == ('test', 'train', 'val')


def test_photographs_of_many_sizes_are_cropped_at_their_centre(shared_dir):
  rows = open_folder(shared_dir / 'data' / 'imagenet_samples', num_images=32, crop=224)
  assert rows.image_shape == (224, 224, 3) and len(rows.class_names) == 1000
  batch = next(rows.batches(32))
  assert batch['mask'].all() and batch['label'].tolist() == rows.indices.tolist()
  name = rows.class_names[batch['label'][5]]
  with Image.open(shared_dir / 'data' / 'imagenet_samples' / name / f'{name}.jpg') as image:
    x, y = (round((side - 224) / 2) for side in image.size)
    crop = image.convert('RGB').crop((x, y, x + 224, y + 224))
  np.testing.assert_array_equal(batch['image'][5], np.asarray(crop, np.float32) / np.float32(255))


def test_foolbox_has_twenty_images_in_the_order_of_their_numbers():
  if importlib.util.find_spec('foolbox') is None:
    pytest.skip("needs pip install '.[imagenet]'")
  rows = load(settings_of('foolbox', resize=32, crop=32))
  batch = full_batch(rows)
  assert rows.num_examples == 20 and len(rows.class_names) == 19
  classes = [rows.class_names[label] for label in batch['label']]
  assert classes[:3] == [WNIDS[i] for i in (243, 559, 438)]
  assert classes[6] == classes[7] == WNIDS[609]
  assert 0.2 < batch['image'].mean() < 0.8, 'photographs in the unit range'


def test_foolbox_refuses_another_split_and_names_the_missing_package(monkeypatch):
  refused(bad_setting('config.data.split', 'train'), read, 'foolbox', split='train')
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
  refused(r"pip install '.\[imagenet\]'.*source=folder", read, 'foolbox')


def save_levels(root, names, file='0.png'):
  """Writes one grey picture into a folder of each name; the level is 20 times its position."""
  for k, name in enumerate(names):
    save_grey(root / name / file, 20 * k)


def test_files_that_are_not_read_are_counted_by_reason(tmp_path, caplog):
  caplog.set_level(logging.INFO)
  save_levels(tmp_path, 'abc')
  (tmp_path / 'b/0.png').rename(tmp_path / 'b/0.jfif')
  save_levels(tmp_path, 'abc', '1.gif')
  for name in ('a/@eaDir/0.png', 'b/.DS_Store', 'c/0.xml', 'd/none.txt', 'e.tar', 'loose.png'):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    shutil.copy(tmp_path / 'a/0.png', tmp_path / name)
  rows = open_folder(tmp_path)
  assert rows.num_examples == 6 and full_batch(rows)['label'].tolist() == [0, 0, 1, 1, 2, 2]
  assert rows.description['left_out'] == {
    'files .tar': 1,
    'files .txt': 1,
    'files .xml': 1,
    'folders of file servers and systems': 1,
    'hidden files': 1,
    'pictures outside class folders': 1,
  }
  assert rows.description['classes_without_images'] == ['d']
  assert "1 of 4 classes have no image: 'd'" in caplog.text
  assert (
    'left out 1 files .tar, 1 files .txt, 1 files .xml, 1 folders of file servers' in caplog.text
  )
  assert 'left_out' not in identity_of(rows), 'a new stray file does not change the data'


@pytest.mark.parametrize('copied', ['train/cat', 'train'])
def test_a_folder_that_was_copied_into_itself_is_refused(tmp_path, copied):
  save_levels(tmp_path / 'train', ['cat', 'dog'])
  save_levels(tmp_path / 'train/cat', ['cat'], '1.png')  # called like its class, and no copy
  (tmp_path / 'train/dog/dog').symlink_to('.')
  assert open_folder(tmp_path, split='train').num_examples == 3
  folder = shutil.copytree(tmp_path / copied, tmp_path / 'copy', symlinks=True)
  inner = tmp_path / copied / copied.rpartition('/')[2]
  shutil.copytree(folder, inner, symlinks=True, dirs_exist_ok=True)
  refused(f'was copied into itself, as {inner}/', open_folder, tmp_path, split='train')


def test_a_relative_path_is_no_copy_of_its_folders(tmp_path, monkeypatch):
  save_levels(tmp_path, ['cat', 'dog/cat'])
  monkeypatch.chdir(tmp_path)
  assert open_folder('.').num_examples == open_folder(tmp_path).num_examples == 2


def test_class_folders_called_by_numbers_are_in_the_order_of_the_numbers(tmp_path):
  names = [str(number) for number in range(12)]
  save_levels(tmp_path, names)
  (tmp_path / '@eaDir').mkdir()
  rows = open_folder(tmp_path)
  assert rows.class_names == tuple(names)
  assert levels(full_batch(rows)['image']) == [20 * k for k in range(12)]


def test_composed_and_decomposed_unicode_names_are_one_class(tmp_path):
  decomposed, composed = 'Cafe\u0301', 'Caf\u00e9'
  save_levels(tmp_path, [decomposed, 'tea'])
  rows = open_folder(tmp_path)
  assert rows.class_names == (composed, 'tea')
  for typed in (decomposed, composed):
    aligned = label_space.align(rows, ('tea', typed), 'the network')
    assert full_batch(aligned)['label'].tolist() == [1, 0]
    listed = tmp_path / 'list.txt'
    listed.write_text(f'{typed}/0.png\n', 'utf-8')
    assert open_folder(tmp_path, image_list=str(listed)).indices.tolist() == [0]
  (tmp_path / composed).mkdir()
  refused(f"classes 0 and 1 all '{composed}'", open_folder, tmp_path)


def test_records_of_files_that_were_replaced_since_are_noticed_in_every_block(tmp_path):
  files = [tmp_path / f'photos/{name}/{number}.png' for name in CLASSES for number in range(6)]

  def save(number, level):
    files[number].parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full(SHAPE, level, np.uint8)).save(files[number])

  def measured():
    folder = tmp_path / 'records'
    data = open_folder(tmp_path / 'photos')
    measure(Accuracy(), Execution(batch_size=8), [network], data, folder)

  for number in range(len(files)):
    save(number, 255 - number)
  last_folder, other_folder = files[-1].parent, tmp_path / 'other'
  last_folder.rename(other_folder)
  for number in range(len(files)):
    save(number, number)
  network, replaced = classifier('net', 0), files[20]  # in the third of three blocks
  measured()
  before = replaced.stat()
  replaced.unlink()
  save(20, 200)
  os.utime(replaced, ns=(before.st_atime_ns, before.st_mtime_ns))  # as copies keep times
  refused('net holds answers on other images', measured)
  save(20, 20)
  measured()
  last_folder.rename(tmp_path / 'same')
  other_folder.rename(last_folder)  # its files are older than the records
  refused('net holds answers on other images', measured)
