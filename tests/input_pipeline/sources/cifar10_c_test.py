"""Tests reading CIFAR-10-C, CIFAR-100-C and CIFAR-10.1 in the released layouts."""

import os
import time

import numpy as np
import pytest

from robustness.corruptions.names import NAMES
from tests.cases import cases
from tests.input_pipeline.domains import full_batch, read
from tests.refusals import bad_setting, refused

N, LABELS = 4, np.array([3, 8, 8, 0], np.uint8)  # base images and their labels


PICTURES = np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3), np.uint8)


def pixels(name):
  """Returns random images of five severities, uint8 [5 N, 32, 32, 3], by name."""
  return np.random.default_rng(NAMES.index(name)).integers(0, 256, (5 * N, 32, 32, 3), np.uint8)


def in_unit_range(images):
  return images.astype(np.float32) / np.float32(255)


@pytest.fixture
def write(tmp_path):
  """Returns a function that writes `pixels` of these names, labels and more arrays to a folder."""

  def make(*names, **arrays):
    all_arrays = {'labels': np.tile(LABELS, 5), **{name: pixels(name) for name in names}, **arrays}
    for name, array in all_arrays.items():
      np.save(tmp_path / f'{name}.npy', array)
    return tmp_path

  return make


def open_rows(folder, source='cifar10_c', **settings):
  return read(source, folder, **settings)


def test_rows_are_ordered_by_corruption_severity_and_image(write):
  rows = open_rows(write('fog', 'gaussian_noise'))
  stored = full_batch(rows)
  expected = np.concatenate([pixels('gaussian_noise'), pixels('fog')])
  np.testing.assert_array_equal(stored['image'], in_unit_range(expected))
  for name, values in {
    'label': np.tile(LABELS, 10),
    'corruption': np.repeat([NAMES.index('gaussian_noise'), NAMES.index('fog')], 20),
    'severity': np.tile(np.repeat(np.arange(1, 6), N), 2),
    'base_id': np.tile(np.arange(N), 10),
    'example_id': np.arange(40),
  }.items():
    np.testing.assert_array_equal(stored[name], values)
  assert rows.class_names[3] == 'cat'
  described = rows.description
  assert described['stored'] is True and described['clean_images'] is False
  assert described['corruptions'] == ['gaussian_noise', 'fog']
  assert described['base_images'] == N and described['num_examples'] == 40


def test_a_subset_takes_the_same_base_images_from_every_severity(write):
  folder = write('fog', 'snow')
  stored, complete = full_batch(open_rows(folder, num_images=2)), full_batch(open_rows(folder))
  assert len(stored['base_id']) == 2 * 10 and len(set(stored['base_id'])) == 2
  assert (stored['base_id'].reshape(10, 2) == stored['base_id'][:2]).all()
  np.testing.assert_array_equal(stored['image'], complete['image'][stored['example_id']])
  refused(bad_setting('config.data.num_images', 5), open_rows, folder, num_images=5)
  first = full_batch(open_rows(folder, num_images=2, subset='first'))
  assert first['base_id'].tolist() == [0, 1] * 10, 'as RobustBench takes them'
  message = r"config.data.image_list is 'ids.txt', but images of CIFAR-10-C"
  refused(message, open_rows, folder, image_list='ids.txt')


def test_cifar100_c_has_the_same_layout_and_a_hundred_classes(write):
  folder = write('fog', labels=np.tile(np.array([0, 99, 11, 98], np.uint8), 5))
  rows = open_rows(folder, 'cifar100_c')
  assert len(rows.class_names) == 100
  named = [rows.class_names[k] for k in full_batch(rows)['label'][:N]]
  assert named == ['apple', 'worm', 'boy', 'woman']
  assert rows.description['source'] == 'cifar100_c'
  refused(r'labels 0..99; CIFAR-10 has 0..9. It looks like CIFAR-100', open_rows, folder)


def test_images_of_the_file_clean_come_first(write):
  clean = pixels('snow')[:N]
  rows = open_rows(write('fog', clean=clean))
  stored = full_batch(rows)
  np.testing.assert_array_equal(stored['image'][:N], in_unit_range(clean))
  assert (stored['corruption'][:N] == -1).all() and (stored['severity'][:N] == 0).all()
  np.testing.assert_array_equal(stored['base_id'][:N], np.arange(N))
  assert rows.description['clean_images'] is True


def test_images_may_have_changed_if_their_file_has(write):
  folder = write('snow', 'fog')
  rows, fog = open_rows(folder), slice(5 * N, 10 * N)
  os.utime(folder / 'fog.npy', (0, 0))  # the file of the time before is put back
  since = max(file.stat().st_ctime for file in (folder / 'snow.npy', folder, folder.parent))
  assert rows.may_have_changed(since, fog)
  assert not rows.may_have_changed(time.time() + 100, fog)


@pytest.mark.slow
def test_clean_images_of_cifar10_are_in_the_released_order(write, cifar10_dir):
  import tensorflow_datasets as tfds

  data = tfds.load('cifar10', split='test', data_dir=str(cifar10_dir), download=False)
  order = sorted(tfds.as_numpy(data), key=lambda example: example['id'])
  labels = np.array([e['label'] for e in order], np.uint8)
  # 50,000 black images that take no memory, as one pixel is repeated
  fog = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (50_000, 32, 32, 3), (0, 0, 0, 0))
  folder = write(labels=np.tile(labels, 5), fog=fog)
  settings = {'clean_dataset': 'cifar10', 'data_dir': str(cifar10_dir)}
  rows = open_rows(folder, num_images=3, **settings)
  expected = np.stack([order[i]['image'] for i in rows.indices[:3]])
  np.testing.assert_array_equal(np.rint(next(rows.batches(3))['image'] * 255), expected)
  np.save(folder / 'labels.npy', np.tile(np.roll(labels, 1), 5))
  refused('its images are others', open_rows, folder, **settings)


@cases(
  'arrays, message',
  ({}, 'holds no corruption'),
  ({'fogg': np.zeros(3)}, "'fogg', which is no corruption: did you mean 'fog'"),
  ({'fog': pixels('fog')[:-1]}, r'fog.npy holds 19 images; its labels say 20'),
  ({'fog': pixels('fog').astype(np.float32)}, 'float32 of shape'),
  ({'fog': pixels('fog')[:, :16]}, r'expected uint8 \[N, 32, 32, 3\]'),
  ({'fog': pixels('fog'), 'labels': np.arange(20) % 7}, 'not the same 5 times over'),
  ({'fog': pixels('fog'), 'labels': np.full(20, 10)}, r'labels 10..10; CIFAR-10 has 0..9'),
  ({'fog': pixels('fog'), 'labels': np.zeros((20, 1), int)}, r'expected integers \[N\]'),
  ({'fog': np.array([{}] * 20, object)}, 'cannot be read as .npy'),
)
def test_unusable_arrays_are_refused(write, arrays, message):
  refused(message, open_rows, write(**arrays))


def test_truncated_files_and_missing_folders_and_labels_are_refused(write, tmp_path):
  refused(bad_setting('config.data.cifar10_c.path'), open_rows, tmp_path / 'nowhere')
  refused(r'no labels\.npy', open_rows, tmp_path)
  file = write('fog') / 'fog.npy'
  file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
  refused(r'fog\.npy cannot be read.*truncated', open_rows, tmp_path)
  np.savez(tmp_path / 'fog', images=PICTURES)
  (tmp_path / 'fog.npz').replace(file)
  refused(r'fog\.npy is a zip archive', open_rows, tmp_path)
  (tmp_path / 'archive/inside').mkdir(parents=True)
  (tmp_path / 'labels.npy').rename(tmp_path / 'archive/inside/labels.npy')
  refused(r'archive has no labels\.npy; give .*inside', open_rows, tmp_path / 'archive')


def write_cifar10_1(folder, version, images=PICTURES, labels=6):
  """Writes images and the labels 0, 1, 2, ... as a version of CIFAR-10.1."""
  np.save(folder / f'cifar10.1_{version}_data.npy', images)
  np.save(folder / f'cifar10.1_{version}_labels.npy', np.arange(labels, dtype=np.int32))


def test_a_version_of_cifar10_1_is_read_and_must_be_chosen_if_there_are_two(tmp_path):
  refused(bad_setting('config.data.cifar10_1.path'), open_rows, tmp_path, 'cifar10_1')
  write_cifar10_1(tmp_path, 'v6')
  rows = open_rows(tmp_path, 'cifar10_1')
  np.testing.assert_array_equal(full_batch(rows)['image'], in_unit_range(PICTURES))
  assert full_batch(rows)['label'].tolist() == list(range(6))
  assert rows.description['name'] == 'v6' and rows.class_names[0] == 'airplane'
  write_cifar10_1(tmp_path, 'v4', PICTURES[:3], 3)
  assert open_rows(tmp_path, 'cifar10_1', version='v4').num_examples == 3
  refused(bad_setting('config.data.cifar10_1.path'), open_rows, tmp_path, 'cifar10_1')
  unknown = bad_setting('config.data.cifar10_1.version', 'v5')
  refused(unknown, open_rows, tmp_path, 'cifar10_1', version='v5')
  write_cifar10_1(tmp_path, 'v4', PICTURES[:5])
  refused('holds 5 images; its labels say 6', open_rows, tmp_path, 'cifar10_1', version='v4')
  (tmp_path / 'cifar10.1_v4_labels.npy').unlink()
  refused(r'labels\.npy cannot be read', open_rows, tmp_path, 'cifar10_1', version='v4')
