"""Tests rows that are read with tf.data: batches, subsets, blocks, channels and caching."""

import dataclasses
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import input_pipeline
from input_pipeline.geometry import resized_by_pillow
from input_pipeline.image_files import read_image
from input_pipeline.images import array_images
from input_pipeline.rows import TfRows
from input_pipeline.selection import choose_subset, select
from input_pipeline.settings import DataSettings
from tests.cases import cases
from tests.input_pipeline.domains import assert_equal, full_batch, settings_of
from tests.refusals import bad_setting, refused


def ids(batches):
  """Returns the numbers of the examples in batches, without padding."""
  return np.concatenate([b['example_id'][b['mask']] for b in batches]).tolist()


def test_a_subset_is_sorted_nested_and_depends_on_the_seed_alone(make_rows):
  rows = make_rows(23, num_images=9)
  subset = ids(rows.batches(4))
  assert subset == sorted(set(subset)) and len(subset) == 9
  assert subset == ids(rows.batches(7)) == ids(make_rows(23, num_images=9).batches(9))
  assert subset != ids(make_rows(23, seed=1, num_images=9).batches(4))
  assert set(choose_subset(23, 4, 0).tolist()) < set(subset)
  assert rows.description['num_examples'] == 9 and rows.description['available_examples'] == 23
  all_rows, batch = full_batch(make_rows(23)), full_batch(rows)
  for name in ('image', 'label'):
    np.testing.assert_array_equal(batch[name], all_rows[name][batch['example_id']])


@cases(
  'number, settings, message',
  (23, {'num_images': 24}, bad_setting('config.data.num_images', 24)),
  (23, {'seed': -1}, bad_setting('config.seed', -1)),
  (23, {'crop': 5}, 'numbers, example 0 is 4x6 pixels, smaller .*crop = 5'),
  (0, {}, 'numbers holds no images'),
)
def test_unusable_settings_and_no_images_are_refused(make_rows, number, settings, message):
  refused(message, make_rows, number, **settings)


def test_missing_blocks_and_other_channels_are_refused(make_rows):
  rows = make_rows(23)
  refused(r'there are 5 blocks of 5 rows, 0\.\.4', rows.batches, 5, [5])
  refused(bad_setting('batch_size', 0), rows.batches, 0)
  refused('numbers holds images of 3 channels', rows.with_channels, 1)
  assert make_rows(channels=1).with_channels(3).with_channels(1).image_shape == (4, 6, 1)


@pytest.mark.parametrize('random_crop_area', [0.0, 0.5])
def test_images_resized_by_pillow_stay_in_8_bits(make_rows, random_crop_area):
  settings = {'resize': 8, 'crop': 8, 'interpolation': 'bilinear'}
  settings['random_crop_area'] = random_crop_area
  rows = make_rows(resized_by='pillow', **settings)
  assert rows.description['resized_by'] == 'pillow'
  assert next(rows.batches(4, stored=True))['image'].dtype == np.uint8
  batch = next(rows.training_batches(23, seed=3))
  in_floats = next(make_rows(**settings).training_batches(23, seed=3))
  assert batch['image'].dtype == np.uint8 and in_floats['image'].dtype == np.float32
  difference = np.abs(batch['image'] / np.float32(255) - in_floats['image'])
  assert difference.max() < 2 / 255, 'Pillow rounds to a level after each direction'


def test_images_of_more_than_8_bits_are_not_resized_by_pillow():
  source = array_images(np.zeros((3, 4, 4, 3), np.float32), np.arange(3), tuple('abc'), 'deep', {})
  message = r"deep holds images of float32.*'tensorflow'"
  selection = select(source, DataSettings(resize=8, resized_by='pillow'))
  refused(message, TfRows, selection)


@cases(
  'images, labels, message',
  (
    np.zeros((4, 5, 5)),
    np.arange(4),
    r'deep are a ndarray of shape \(4, 5, 5\); expected an array',
  ),
  ([np.zeros((5, 5, 1))], [0], 'images of deep are a list'),
  (np.zeros((4, 5, 5, 1)), np.eye(2, dtype=int)[[0, 1, 1, 0]], 'labels of deep has .* not one-hot'),
)
def test_arrays_that_are_no_images_with_labels_are_refused(images, labels, message):
  refused(message, array_images, images, labels, ('a', 'b'), 'deep', {})


def test_stored_pixels_have_no_function_that_reads_bytes():
  source = array_images(np.zeros((3, 4, 4, 3), np.float32), np.arange(3), tuple('abc'), 'deep', {})
  refused('deep stores pixels', dataclasses.replace, source, read=len)


def test_the_description_states_source_subset_and_sizes(make_rows):
  sizes = {'image_shape': [8, 12, 3], 'resize': 8, 'crop': 0, 'interpolation': 'bicubic'}
  counts = {'num_examples': 3, 'available_examples': 23, 'num_classes': 5}
  description = make_rows(num_images=3, resize=8).description
  assert description == {'source': 'numbers', 'subset_seed': 0, **counts, **sizes}


def test_columns_of_a_source_follow_the_subset_and_are_padded_with_zeros(make_rows):
  columns = {'severity': np.arange(23, dtype=np.int32) % 6, 'boxes': np.ones((23, 4), np.float32)}
  source = dataclasses.replace(make_rows(23)._images, columns=columns)
  rows = TfRows(select(source, DataSettings(num_images=7), seed=3))
  (batch,) = rows.batches(8)
  np.testing.assert_array_equal(batch['severity'][:7], rows.indices % 6)
  assert batch['boxes'].shape == (8, 4) and not batch['boxes'][7:].any()


def test_a_source_may_choose_its_subsets(make_rows):
  def choose(count, seed):
    return np.arange(12)[np.arange(12) % 4 < count]

  source = dataclasses.replace(make_rows(12)._images, choose=choose)
  assert ids(TfRows(select(source, DataSettings(num_images=1))).batches(5)) == [0, 4, 8]


def test_a_source_may_decode_more_images_of_a_row(make_rows):
  plain = make_rows(5)
  source = dataclasses.replace(
    plain._images,
    decode=lambda image: {'image': image, 'object': tf.cast(image[:2, :2], tf.float32) / 255},
  )
  rows = TfRows(select(source, DataSettings(resize=2, crop=2)))
  batch = full_batch(rows)
  assert batch['image'].shape == (5, 2, 2, 3)
  np.testing.assert_allclose(batch['object'], full_batch(plain)['image'][:, :2, :2])


@pytest.fixture
def counted(make_rows):
  """Returns rows of 21 images, and a list with one entry for every image decoded so far."""
  decoded: list[int] = []

  def note(image):
    decoded.append(1)
    return image

  def decode(image):
    return tf.ensure_shape(tf.numpy_function(note, [image], tf.uint8), image.shape)

  source = dataclasses.replace(make_rows(21)._images, decode=decode)
  return TfRows(select(source, DataSettings())), decoded


def test_cached_rows_are_decoded_once(counted, make_rows):
  (rows, decoded), plain = counted, make_rows(21)
  cached = rows.cached()
  for batch_size in (8, 5):
    assert_equal(cached.batches(batch_size), plain.batches(batch_size))
  num_decoded = len(decoded)
  assert 21 <= num_decoded <= 22, 'one image may be decoded for its size alone'
  assert_equal(cached.batches(8, [0, 2], stored=True), plain.batches(8, [0, 2], stored=True))
  positions = np.array([3, 20])
  assert_equal(cached.at(positions).batches(2), plain.at(positions).batches(2))
  assert len(decoded) == num_decoded and cached.description == plain.description


def test_single_blocks_and_rows_that_are_too_large_are_not_cached(counted, monkeypatch):
  rows, decoded = counted
  list(rows.cached().batches(1, [0]))
  assert len(decoded) == 1
  monkeypatch.setattr('input_pipeline.rows.MAX_CACHED_BYTES', 100)
  large = rows.cached()
  for _ in range(2):
    list(large.batches(8))
  assert len(decoded) >= 1 + 2 * 21


COUNT = 11


@pytest.fixture
def stored_files(tmp_path):
  """Returns settings of a folder with `COUNT` images of different sizes in the classes 0 and 1."""
  generator = np.random.default_rng(0)
  for index in range(COUNT):
    path = tmp_path / str(index % 2) / f'{index:02d}.png'
    path.parent.mkdir(exist_ok=True)
    height, width = 20 + index, 40 - index
    Image.fromarray(generator.integers(0, 256, (height, width, 3), np.uint8)).save(path)
  sizes = {'resize': 16, 'crop': 12, 'resized_by': 'pillow'}
  return settings_of('folder', tmp_path, **sizes)


def files(stored_files):
  """Returns the paths of the images in the order of the rows."""
  return sorted(pathlib.Path(stored_files.source.path).rglob('*.png'))


@pytest.mark.parametrize('in_flight', [1, 64])
def test_files_read_in_parallel_give_the_rows_of_reading_them_one_by_one(
  stored_files, in_flight, monkeypatch
):
  monkeypatch.setattr(input_pipeline.rows, 'IN_FLIGHT', in_flight)
  monkeypatch.setattr(input_pipeline.rows, 'usable_cores', lambda: 2)
  batches = list(input_pipeline.load(stored_files).batches(4, [0, 2], stored=True))
  paths = files(stored_files)
  expected = np.stack([resized_by_pillow(read_image(str(p), 3), stored_files) for p in paths])
  labels = [int(path.parent.name) for path in paths]
  assert [batch['block'] for batch in batches] == [0, 2]
  for batch, rows in zip(batches, (range(4), range(8, COUNT)), strict=True):
    mask = batch['mask']
    assert batch['image'].dtype == np.uint8 and mask.sum() == len(rows)
    np.testing.assert_array_equal(batch['image'][mask], expected[rows.start : rows.stop])
    np.testing.assert_array_equal(batch['label'][mask], labels[rows.start : rows.stop])
    np.testing.assert_array_equal(batch['example_id'][mask], rows)


def test_a_damaged_file_is_named_when_its_block_is_reached(stored_files):
  rows = input_pipeline.load(stored_files)
  damaged = files(stored_files)[7]
  damaged.write_bytes(damaged.read_bytes()[:200])
  blocks = rows.batches(4, stored=True)
  next(blocks)
  refused(rf'{damaged.name} \(example 7\) cannot be decoded', next, blocks)
