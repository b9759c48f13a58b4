"""Tests training batches: order, resumption, shares of processes, random crops and dtypes."""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf

from input_pipeline import rows as rows_module
from input_pipeline.images import IndexedStore
from robustness.core.rows import ArrayRows, as_float32
from robustness.core.sampler import Balanced, Epochs, share_of_batch
from tests.input_pipeline.domains import assert_equal


def take(batches, count):
  return list(itertools.islice(batches, count))


def ids(batches):
  """Returns the numbers of the examples in batches."""
  return np.concatenate([b['example_id'] for b in batches])


@dataclasses.dataclass(frozen=True)
class CountedStore(IndexedStore):
  """A store that notes the examples that are fetched from it."""

  store: IndexedStore
  fetched: list[int]

  def element(self, index):
    noted = tf.numpy_function(lambda i: (self.fetched.append(int(i)), i)[1], [index], tf.int64)
    return self.store.element(tf.ensure_shape(noted, []))


def test_a_process_fetches_only_the_rows_of_its_share(make_rows):
  order = ids(take(make_rows(23).training_batches(6, seed=0), 200)).reshape(200, 2, 3)
  for process in range(2):
    rows, fetched = make_rows(23), list[int]()
    source = rows._images
    rows._images = dataclasses.replace(source, store=CountedStore(source.store, fetched))
    delivered = ids(take(rows.training_batches(6, 0, 0, (process, 2)), 8))
    np.testing.assert_array_equal(delivered, order[:8, process].ravel())
    fetched_ids = fetched.copy()  # more rows are read ahead at the same time
    assert len(fetched_ids) >= 8 * 3
    np.testing.assert_array_equal(fetched_ids, order[:, process].ravel()[: len(fetched_ids)])


@pytest.mark.slow
@pytest.mark.parametrize('start', [0, 1, 5, 12, 100])
@pytest.mark.parametrize('share', [(0, 1), (1, 2)])
@pytest.mark.parametrize('balanced', [False, True])
def test_the_order_equals_that_of_rows_in_memory(make_rows, balanced, share, start):
  """`tests/core/sampler_test.py` tests the order itself: epochs, seeds, parts and shares."""
  rows = make_rows(23)
  batch = next(rows.batches(23, stored=True))
  arrays = ArrayRows(batch['image'], batch['label'], rows.class_names)
  groups = [np.arange(23), np.array([1, 4, 22])]
  order = Balanced(groups, 3, 'group') if balanced else None
  arguments = (10, 3, start, share, order)
  tf_batches, array_batches = (take(r.training_batches(*arguments), 9) for r in (rows, arrays))
  spans = [share_of_batch(start + k, 10, share) for k in range(9)]
  expected = [(order or Epochs(23, 3)).positions(*span) for span in spans]
  np.testing.assert_array_equal(ids(tf_batches), np.concatenate(expected))
  assert all(('group' in batch) == balanced for batch in tf_batches)
  assert_equal(tf_batches, array_batches)


def test_columns_are_read_without_images(make_rows):
  rows = make_rows(23).at(np.array([3, 4, 20]))
  batch, columns = next(rows.batches(3, stored=True)), rows.without_images()
  for name, values in columns.items():
    np.testing.assert_array_equal(values, batch[name])
  np.testing.assert_array_equal(columns['example_id'], [3, 4, 20])


@pytest.mark.slow
def test_random_crops_depend_on_the_position_and_not_on_batch_size_start_or_process(make_rows):
  rows = make_rows(23, random_crop_area=0.3)
  images = np.concatenate([b['image'] for b in take(rows.training_batches(6, 0), 8)])
  assert images.shape[1:] == rows.image_shape
  assert not np.array_equal(images[0], next(make_rows(23).training_batches(6, 0))['image'][0])
  later = np.concatenate([b['image'] for b in take(rows.training_batches(12, 0, 2), 2)])
  np.testing.assert_array_equal(later, images[24:])
  second_half = next(rows.training_batches(6, 0, 3, (1, 2)))['image']
  np.testing.assert_array_equal(second_half, images[21:24])
  evaluated = next(rows.batches(23))['image']
  np.testing.assert_array_equal(evaluated, next(make_rows(23).batches(23))['image'])


def test_images_of_8_bits_stay_in_8_bits_unless_they_are_resized(make_rows):
  for settings, dtype in (({}, np.uint8), ({'resize': 6, 'crop': 5}, np.float32)):
    rows = make_rows(23, **settings)
    stored, floats = next(rows.batches(8, stored=True)), next(rows.batches(8))
    assert stored['image'].dtype == dtype and floats['image'].dtype == np.float32
    np.testing.assert_array_equal(as_float32(stored['image']), floats['image'])
    assert next(rows.training_batches(5, 0))['image'].dtype == dtype


@pytest.mark.slow
def test_rows_in_memory_give_the_same_batches(make_rows):
  for settings in ({}, {'resize': 6, 'crop': 5}, {'num_images': 9}):
    rows = make_rows(23, **settings)
    arrays = rows.in_memory(2**20)
    assert arrays is not None and arrays.num_examples == rows.num_examples
    assert arrays.class_names == rows.class_names
    assert_equal(*(take(r.training_batches(10, 3, 5), 4) for r in (arrays, rows)))


def test_large_rows_and_random_crops_are_not_read_into_memory(make_rows):
  row_bytes = 4 * 6 * 3 + 4 + 4 + 1  # image, label, example_id, mask
  assert make_rows(23).in_memory(23 * row_bytes) is not None
  assert make_rows(23).in_memory(23 * row_bytes - 1) is None
  assert make_rows(23, random_crop_area=0.3).in_memory(2**20) is None


def test_few_rows_in_memory_are_not_padded_to_a_large_batch(make_rows, monkeypatch):
  padded, pad_batch = [], rows_module.pad_batch
  monkeypatch.setattr(rows_module, 'pad_batch', lambda b, n: padded.append(n) or pad_batch(b, n))
  assert make_rows(23).in_memory(2**20) is not None
  assert max(padded) == 23
