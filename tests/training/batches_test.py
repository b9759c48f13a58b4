"""Order, position and checks of training batches."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.training.training import check_batch


def _ids(rows, size, seed, start, count):
  batches = itertools.islice(rows.training_batches(size, seed, start), count)
  return np.concatenate([batch['example_id'] for batch in batches])


def test_every_epoch_holds_every_row_once_in_another_order(rows):
  epochs = _ids(rows, 36, 3, 0, 8).reshape(3, 96)  # 36 does not divide 96: batches span epochs
  np.testing.assert_array_equal(np.sort(epochs), np.tile(np.arange(96), (3, 1)))
  assert (epochs[0] != epochs[1]).any() and (epochs[1] != epochs[2]).any()


def test_a_later_start_is_a_later_place_in_the_same_order(rows):
  np.testing.assert_array_equal(_ids(rows, 36, 3, 5, 4), _ids(rows, 36, 3, 0, 9)[5 * 36 :])
  assert (_ids(rows, 36, 4, 0, 1) != _ids(rows, 36, 3, 0, 1)).any()


def test_a_batch_larger_than_the_rows_spans_epochs(rows):
  counts = np.bincount(_ids(rows, 200, 0, 0, 1))
  assert set(counts) == {2, 3}


def test_images_and_labels_belong_together(rows):
  batch = next(rows.training_batches(10, 0, 7))
  np.testing.assert_array_equal(batch['image'], rows.images[batch['example_id']])
  np.testing.assert_array_equal(batch['label'], rows.labels[batch['example_id']])


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'image': np.zeros((2, 6, 6, 1), np.float32)}, r'\(6, 6, 3\); got float32 .*\(6, 6, 1\)'),
    ({'image': np.zeros((2, 6, 6, 3), np.uint16)}, 'got uint16'),
    ({'label': np.array([0, 3])}, 'example 12 has label 3; the classifier has classes 0 to 2'),
    ({'label': np.array([-1, 0])}, 'example 11 has label -1'),
    ({'label': np.array([[0, 1], [1, -1]])}, r'one label an image.*\(2, 2\)'),
  ],
)
def test_bad_batches_are_refused_by_name(change, message):
  batch = {
    'image': np.zeros((2, 6, 6, 3), np.float32),
    'label': np.array([0, 1]),
    'example_id': np.array([11, 12]),
    'block': 0,
  }
  assert set(check_batch(batch, (6, 6, 3), 3)) == {'image', 'label', 'example_id'}
  with pytest.raises(InputError, match=message):
    check_batch({**batch, **change}, (6, 6, 3), 3)
