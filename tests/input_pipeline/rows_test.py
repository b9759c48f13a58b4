"""Exact, ordered, padded batches; subsets; blocks; channels."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import input_pipeline
from input_pipeline.geometry import resized_by_pillow
from input_pipeline.image_files import read_image
from input_pipeline.images import array_images
from input_pipeline.rows import TfRows
from input_pipeline.selection import choose_subset
from input_pipeline.settings import DataSettings
from robustness.core.errors import InputError
from robustness.core.rows import Batch

Maker = Callable[..., TfRows]


def ids(batches: list) -> list[int]:
  return np.concatenate([b['example_id'][b['mask']] for b in batches]).tolist()


@pytest.mark.parametrize('batch_size', [1, 2, 5, 23, 24, 100])
def test_every_example_comes_once_in_order_for_any_batch_size(
  make_rows: Maker, batch_size: int
) -> None:
  rows = make_rows(23)
  batches = list(rows.batches(batch_size))
  assert ids(batches) == list(range(23))
  assert [b['block'] for b in batches] == list(range(-(-23 // batch_size)))
  assert sum(int(b['mask'].sum()) for b in batches) == 23
  for batch in batches:
    assert batch['image'].shape == (batch_size, 4, 6, 3) and batch['image'].dtype == np.float32
    assert batch['label'].dtype == batch['example_id'].dtype == np.int32
    assert not batch['image'][~batch['mask']].any()


def test_blocks_are_slices_of_the_whole(make_rows: Maker) -> None:
  rows = make_rows(23)
  whole = list(rows.batches(5))
  for chosen in ([0], [4], [1, 3], [2, 4], []):
    part = list(rows.batches(5, chosen))
    assert [b['block'] for b in part] == chosen
    for batch in part:
      for key in ('image', 'label', 'example_id', 'mask'):
        np.testing.assert_array_equal(batch[key], whole[batch['block']][key])


def test_a_block_that_does_not_exist_is_refused(make_rows: Maker) -> None:
  with pytest.raises(InputError, match=r'there are 5 blocks of 5 rows, 0\.\.4'):
    list(make_rows(23).batches(5, [5]))
  with pytest.raises(InputError, match='batch_size is 0'):
    list(make_rows(23).batches(0))


def test_a_subset_is_seeded_sorted_nested_and_independent_of_the_batch_size(
  make_rows: Maker,
) -> None:
  rows = make_rows(23, num_images=9)
  chosen = ids(list(rows.batches(4)))
  assert chosen == sorted(set(chosen)) and len(chosen) == 9
  assert chosen == ids(list(rows.batches(7))) == ids(list(make_rows(23, num_images=9).batches(9)))
  assert chosen != ids(list(make_rows(23, seed=1, num_images=9).batches(4)))
  assert set(choose_subset(23, 4, 0).tolist()) < set(chosen)
  assert rows.description['num_examples'] == 9 and rows.description['available_examples'] == 23


def test_a_subset_keeps_image_label_and_id_together(make_rows: Maker) -> None:
  whole = next(make_rows(23).batches(23))
  batch = next(make_rows(23, num_images=9).batches(9))
  np.testing.assert_array_equal(batch['image'], whole['image'][batch['example_id']])
  np.testing.assert_array_equal(batch['label'], whole['label'][batch['example_id']])


def test_more_images_than_there_are_is_refused(make_rows: Maker) -> None:
  with pytest.raises(InputError, match='num_images is 24; it must be at most 23'):
    make_rows(23, num_images=24)


def test_a_negative_seed_is_refused(make_rows: Maker) -> None:
  with pytest.raises(InputError, match='config.seed is -1'):
    make_rows(seed=-1)


def test_grey_becomes_rgb_on_request_and_rgb_never_becomes_grey(make_rows: Maker) -> None:
  grey = make_rows(channels=1)
  rgb = grey.with_channels(3)
  assert grey.image_shape == (4, 6, 1) and rgb.image_shape == (4, 6, 3)
  image = next(grey.batches(23))['image']
  np.testing.assert_array_equal(next(rgb.batches(23))['image'], np.repeat(image, 3, axis=-1))
  assert rgb.with_channels(1).image_shape == (4, 6, 1)
  with pytest.raises(InputError, match='numbers holds images of 3 channels'):
    make_rows(channels=3).with_channels(1)


def test_a_crop_larger_than_the_image_is_refused(make_rows: Maker) -> None:
  with pytest.raises(InputError, match='numbers, example 0 is 4x6 pixels, smaller .*crop = 5'):
    make_rows(crop=5)


def test_resize_and_crop_give_the_stated_shape(make_rows: Maker) -> None:
  for settings, shape in [
    ({'resize': 8}, (8, 12, 3)),
    ({'crop': 3}, (3, 3, 3)),
    ({'resize': 8, 'crop': 7}, (7, 7, 3)),
  ]:
    rows = make_rows(**settings)
    batch = next(rows.batches(23))['image']
    assert rows.image_shape == shape == batch.shape[1:]
    assert batch.min() >= 0 and batch.max() <= 1


@pytest.mark.parametrize('random_crop_area', [0.0, 0.5])
def test_what_pillow_resizes_travels_as_8_bits(make_rows: Maker, random_crop_area: float) -> None:
  settings = {'resize': 8, 'crop': 8, 'interpolation': 'bilinear'}
  settings['random_crop_area'] = random_crop_area
  rows = make_rows(resized_by='pillow', **settings)
  assert rows.description['resized_by'] == 'pillow'
  assert next(rows.batches(4, stored=True))['image'].dtype == np.uint8
  batch = next(rows.training_batches(23, seed=3))
  in_floats = next(make_rows(**settings).training_batches(23, seed=3))
  assert batch['image'].dtype == np.uint8 and in_floats['image'].dtype == np.float32
  assert np.abs(batch['image'] / np.float32(255) - in_floats['image']).max() < 2 / 255


def test_images_of_more_than_8_bits_are_not_resized_by_pillow() -> None:
  source = array_images(np.zeros((3, 4, 4, 3), np.float32), np.arange(3), tuple('abc'), 'deep', {})
  with pytest.raises(InputError, match=r"deep holds images of float32.*'tensorflow'"):
    TfRows(source, DataSettings(resize=8, resized_by='pillow'))


def test_description_is_plain(make_rows: Maker) -> None:
  description = make_rows(num_images=3, resize=8).description
  assert description == {
    'source': 'numbers',
    'subset_seed': 0,
    'num_examples': 3,
    'available_examples': 23,
    'num_classes': 5,
    'image_shape': [8, 12, 3],
    'resize': 8,
    'crop': 0,
    'interpolation': 'bicubic',
  }


def test_rows_take_an_empty_source_for_an_error(make_rows: Maker) -> None:
  with pytest.raises(InputError, match='numbers holds no images'):
    make_rows(0)


def test_several_labels_an_image_pass_through(make_rows: Maker) -> None:
  labels = np.array([[0, 2], [1, -1], [2, -1]], np.int32)
  source = array_images(np.zeros((3, 2, 2, 1), np.uint8), labels, tuple('abc'), 'several', {})
  batch = next(TfRows(source, DataSettings()).batches(2))
  np.testing.assert_array_equal(batch['label'], labels[:2])


def test_columns_follow_their_examples(make_rows: Maker) -> None:
  columns = {'severity': np.arange(23, dtype=np.int32) % 6, 'boxes': np.ones((23, 4), np.float32)}
  source = dataclasses.replace(make_rows(23)._images, columns=columns)
  rows = TfRows(source, DataSettings(num_images=7), seed=3)
  (batch,) = rows.batches(8)
  np.testing.assert_array_equal(batch['severity'][:7], rows.indices % 6)
  assert batch['boxes'].shape == (8, 4) and not batch['boxes'][7:].any()


def test_a_source_may_choose_what_belongs_together(make_rows: Maker) -> None:
  source = dataclasses.replace(
    make_rows(12)._images, choose=lambda count, seed: np.arange(12)[np.arange(12) % 4 < count]
  )
  assert ids(list(TfRows(source, DataSettings(num_images=1)).batches(5))) == [0, 4, 8]


def test_decoding_may_give_further_images(make_rows: Maker) -> None:
  plain = make_rows(5)
  source = dataclasses.replace(
    plain._images,
    decode=lambda image: {'image': image, 'object': tf.cast(image[:2, :2], tf.float32) / 255},
  )
  rows = TfRows(source, DataSettings(resize=2, crop=2))
  (batch,) = rows.batches(5)
  (whole,) = plain.batches(5)
  assert batch['image'].shape == (5, 2, 2, 3)
  np.testing.assert_allclose(batch['object'], whole['image'][:, :2, :2])


def assert_equal(first: Iterator[Batch], second: Iterator[Batch]) -> None:
  for one, other in zip(first, second, strict=True):
    assert one.keys() == other.keys()
    for name, value in one.items():
      np.testing.assert_array_equal(value, other[name])


@pytest.fixture
def counted(make_rows: Maker) -> tuple[TfRows, list[int]]:
  """Rows, and what is noted when an image is decoded."""
  decoded: list[int] = []

  def note(image: np.ndarray) -> np.ndarray:
    decoded.append(1)
    return image

  def decode(image: tf.Tensor) -> tf.Tensor:
    return tf.ensure_shape(tf.numpy_function(note, [image], tf.uint8), image.shape)

  source = dataclasses.replace(make_rows(21)._images, decode=decode)
  return TfRows(source, DataSettings()), decoded


def test_rows_that_are_kept_are_decoded_once(counted, make_rows: Maker) -> None:
  (rows, decoded), plain = counted, make_rows(21)
  kept = rows.kept()
  for batch_size in (8, 5):
    assert_equal(kept.batches(batch_size), plain.batches(batch_size))
  first = len(decoded)
  assert 21 <= first <= 22, 'one to know the size'
  assert_equal(kept.batches(8, [0, 2], stored=True), plain.batches(8, [0, 2], stored=True))
  some = np.array([3, 20])
  assert_equal(kept.at(some).batches(2), plain.at(some).batches(2))
  assert len(decoded) == first and kept.description == plain.description


def test_samples_alone_and_rows_that_are_too_large_are_read_each_time(counted) -> None:
  rows, decoded = counted
  list(rows.kept().batches(1, [0]))
  assert len(decoded) == 1
  large = rows.kept(100)
  for _ in range(2):
    list(large.batches(8))
  assert len(decoded) >= 1 + 2 * 21


COUNT = 11


@pytest.fixture
def stored_files(tmp_path: pathlib.Path) -> DataSettings:
  generator = np.random.default_rng(0)
  for index in range(COUNT):
    path = tmp_path / str(index % 2) / f'{index:02d}.png'
    path.parent.mkdir(exist_ok=True)
    height, width = 20 + index, 40 - index
    Image.fromarray(generator.integers(0, 256, (height, width, 3), np.uint8)).save(path)
  return DataSettings(
    source='folder', path=str(tmp_path), resize=16, crop=12, resized_by='pillow', num_images=0
  )


def files(stored_files: DataSettings) -> list[pathlib.Path]:
  return sorted(pathlib.Path(stored_files.path).rglob('*.png'))


@pytest.mark.parametrize('in_flight', [1, 64])
def test_blocks_are_those_of_reading_one_by_one(
  stored_files: DataSettings, in_flight: int, monkeypatch: pytest.MonkeyPatch
) -> None:
  monkeypatch.setattr(input_pipeline.rows, 'IN_FLIGHT', in_flight)
  monkeypatch.setattr(input_pipeline.rows, 'usable_cores', lambda: 2)
  batches = list(input_pipeline.load(stored_files).batches(4, [0, 2], stored=True))
  expected = np.stack(
    [resized_by_pillow(read_image(str(p), 3), stored_files) for p in files(stored_files)]
  )
  labels = [int(path.parent.name) for path in files(stored_files)]
  assert [batch['block'] for batch in batches] == [0, 2]
  for batch, rows in zip(batches, (range(4), range(8, COUNT)), strict=True):
    known = batch['mask']
    assert batch['image'].dtype == np.uint8 and known.sum() == len(rows)
    np.testing.assert_array_equal(batch['image'][known], expected[rows.start : rows.stop])
    np.testing.assert_array_equal(batch['label'][known], labels[rows.start : rows.stop])
    np.testing.assert_array_equal(batch['example_id'][known], rows)


def test_a_damaged_file_is_named_when_its_block_is_reached(stored_files: DataSettings) -> None:
  rows = input_pipeline.load(stored_files)
  damaged = files(stored_files)[7]
  damaged.write_bytes(damaged.read_bytes()[:200])
  blocks = rows.batches(4, stored=True)
  next(blocks)
  with pytest.raises(InputError, match=rf'{damaged.name} \(example 7\) cannot be decoded'):
    next(blocks)
