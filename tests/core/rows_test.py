"""Tests rows from arrays: batches, labels, columns, and refused arrays."""

import jax
import numpy as np

from robustness.core import rows
from robustness.core.rows import ArrayRows
from tests.cases import cases
from tests.refusals import bad_setting, refused

IMAGES = np.linspace(0, 1, 7 * 4 * 3 * 1, dtype=np.float32).reshape(7, 4, 3, 1)
LABELS = np.arange(7) % 2
NAMES = ('a', 'b')
ROWS = ArrayRows(IMAGES, LABELS, NAMES)


def test_every_example_occurs_once_in_order_for_any_block_size():
  for size in (1, 3, 7, 10):
    batches = list(ROWS.batches(size))
    assert [b['block'] for b in batches] == list(range(rows.num_blocks(7, size)))
    assert all(len(b['image']) == size for b in batches)
    for name, expected in (('image', IMAGES), ('label', LABELS), ('example_id', np.arange(7))):
      np.testing.assert_array_equal(np.concatenate([b[name][b['mask']] for b in batches]), expected)
  (last,) = ROWS.batches(3, [2])
  jax.tree.map(np.testing.assert_array_equal, last, list(ROWS.batches(3))[2])
  np.testing.assert_array_equal(last['mask'], [True, False, False])
  assert not last['image'][1:].any(), 'padding is black'


def test_dtypes_and_example_ids():
  (batch,) = ArrayRows(IMAGES, LABELS, NAMES, np.arange(7) * 10).batches(7)
  dtypes = {'image': 'float32', 'label': 'int32', 'example_id': 'int32', 'mask': 'bool'}
  assert {name: str(batch[name].dtype) for name in dtypes} == dtypes
  np.testing.assert_array_equal(batch['example_id'], np.arange(7) * 10)


def test_lists_of_labels():
  table = np.array([[0, -1], [1, 0], [1, -1]])
  (batch,) = ArrayRows(IMAGES[:3], table, NAMES).batches(4)
  np.testing.assert_array_equal(batch['label'][:3], table)
  assert batch['label'].shape == (4, 2)
  (merged,) = rows.with_labels(
    ArrayRows(IMAGES[:3], table, NAMES), np.zeros(2, np.int32), ('any',)
  ).batches(3)
  assert merged['label'].tolist() == [[0, -1]] * 3, 'two labels that become equal are one'
  table = np.array([[0, 1], [1, 0], [1, -1]])  # labels of two classes, not one-hot rows
  assert ArrayRows(IMAGES[:3], table, NAMES).at(np.arange(2)).labels.tolist() == [[0, 1], [1, 0]]


@cases(
  'labels, message',
  (np.eye(7, dtype=np.int64), r'has \[1, 0, 0, 0, 0, 0, 0\] \(example 0\).* not one-hot'),
  (np.eye(2, dtype=np.uint8)[LABELS], r'has \[1, 0\] \(example 0\).* not one-hot'),
  (np.stack([LABELS, LABELS], 1), r'has \[0, 0\] \(example 0\); the labels of an image are diff'),
  (LABELS + 2**32, r'labels has 4294967297 \(example 1\); labels end at 2147483647'),
  (LABELS.astype(np.uint64) + 2**63, r'labels has 9223372036854775809 \(example 1\)'),
  (LABELS - 1, r'labels has -1 \(example 0\); labels start at 0'),
  (np.full((7, 2), -1), 'labels has no label for example 0'),
  (np.zeros((7, 0), int), r'labels is int64 of shape \(7, 0\)'),
  (LABELS / 2, 'labels is float64 of shape'),
  (LABELS > 0, 'labels is bool of shape'),
  (LABELS[:, None, None], r'labels is int64 of shape \(7, 1, 1\)'),
)
def test_bad_labels_are_refused(labels, message):
  refused(message, ArrayRows, IMAGES, labels, NAMES)


@cases(
  'images, labels, message',
  (IMAGES.astype(np.float64), LABELS, 'must be uint8 or float32 .* got float64'),
  (IMAGES[0], LABELS, r'must be uint8 or float32 \[N, H, W, C\]'),
  (IMAGES[:0], LABELS[:0], 'the arrays are empty'),
  (IMAGES, LABELS[:3], '3 labels for 7 images'),
  (IMAGES * 2, LABELS, r'lie in \[0, 2\]'),
  (np.nextafter(IMAGES.clip(1), np.float32(2)), LABELS, r'lie in \[1\.00000012, 1\.00000012\]'),
  (IMAGES * np.float32(np.nan), LABELS, r'image values are NaN; they must lie in \[0, 1\]'),
)
def test_bad_arrays_are_refused(images, labels, message):
  refused(message, ArrayRows, images, labels, NAMES)


@cases('names, message', ('aba', "call the classes 0 and 2 all 'a'"), (['a', ''], "the class 1 ''"))
def test_bad_class_names_are_refused(names, message):
  refused(message, ArrayRows, IMAGES, LABELS, tuple(names))


@cases(
  'ids, message',
  (np.arange(3), r'example_ids is int64 of shape \(3,\); expected integers \[7\]'),
  (np.arange(7) / 2, 'example_ids is float64'),
  (np.arange(7) * 2**32, 'example_ids go from 0 to 25769803776; they are int32'),
)
def test_bad_example_ids_are_refused(ids, message):
  refused(message, ArrayRows, IMAGES, LABELS, NAMES, ids)


def test_columns_are_read_and_count_for_the_size_in_memory():
  columns = {'severity': np.arange(7, dtype=np.int32), 'object': IMAGES[:, :2]}
  rows = ArrayRows(IMAGES, LABELS, NAMES, columns=columns)
  size = sum(x.nbytes for x in (IMAGES, LABELS, *columns.values()))
  assert rows.in_memory(size) is rows and rows.in_memory(size - 1) is None
  (batch,) = rows.batches(3, [2])
  np.testing.assert_array_equal(batch['severity'], [6, 0, 0])
  np.testing.assert_array_equal(batch['object'][0], IMAGES[6, :2])
  message, short = "column 'severity' has 2 values for 7 images", {'severity': np.zeros(2)}
  refused(message, ArrayRows, IMAGES, LABELS, NAMES, columns=short)


def test_grey_is_repeated_on_request_and_colour_never_becomes_grey():
  colour = ROWS.with_channels(3)
  assert colour.image_shape == (4, 3, 3) and colour.description['image_shape'] == [4, 3, 3]
  assert np.shares_memory(colour.images, IMAGES)
  np.testing.assert_array_equal(next(colour.batches(7))['image'], np.repeat(IMAGES, 3, axis=-1))
  assert ROWS.with_channels(1) is ROWS
  stored = ArrayRows(np.repeat(IMAGES, 3, axis=-1), LABELS, NAMES)
  refused('arrays holds images of 3 channels', stored.with_channels, 1)


def test_invalid_blocks_and_batch_sizes_are_refused():
  refused(r'there are 3 blocks of 3 rows, 0\.\.2', list, ROWS.batches(3, [3]))
  refused(bad_setting('batch_size', 0), list, ROWS.batches(0))
  refused(bad_setting('share', (2, 2)), ROWS.training_batches, 4, 0, 0, (2, 2))
  refused(bad_setting('batch_size', 0), ROWS.training_batches, 0, 0)
  refused(bad_setting('config.training.batch_size', 5), ROWS.training_batches, 5, 0, 0, (0, 2))


def test_images_of_8_bits_are_delivered_as_floats_or_as_they_are_stored(tmp_path):
  images = np.random.default_rng(0).integers(0, 256, IMAGES.shape, np.uint8)
  np.save(tmp_path / 'images.npy', images)
  mapped = np.load(tmp_path / 'images.npy', mmap_mode='r')
  floats = ArrayRows(images.astype(np.float32) / np.float32(255), LABELS, NAMES)
  for array_rows in (ArrayRows(images, LABELS, NAMES), ArrayRows(mapped, LABELS, NAMES)):
    for size in (3, 7):
      iterators = array_rows.batches(size), array_rows.batches(size, stored=True)
      for expected, converted, stored in zip(floats.batches(size), *iterators, strict=True):
        np.testing.assert_array_equal(converted['image'], expected['image'])
        assert converted['image'].dtype == np.float32 and type(stored['image']) is np.ndarray
        part = stored['image'][stored['mask']]
        np.testing.assert_array_equal(part, images[stored['example_id'][stored['mask']]])
        assert part.dtype == np.uint8


@cases(
  'names, ordered',
  ({'10', '2', '0', '1'}, ['0', '1', '2', '10']),
  ({'010', '2', '1'}, ['1', '2', '010']),
  ({'10', '2', 'x'}, ['10', '2', 'x']),
  ({'²', '10', '9'}, ['10', '9', '²']),
  ({'e\u0301cureuil', 'faon'}, ['faon', 'e\u0301cureuil']),  # as with a composed é
  (
    ('\u00e9', 'e\u0301'),
    ['e\u0301', '\u00e9'],
  ),  # no order of a folder changes that of equal names
  ((), []),
)
def test_classes_are_in_the_order_of_numbers_or_composed_letters(names, ordered):
  assert rows.in_class_order(names) == rows.in_class_order([*names][::-1]) == ordered


def test_columns_in_memory_have_new_labels_and_no_column_made_of_images():
  stored = ArrayRows(
    np.zeros((3, 2, 2, 1), np.uint8), np.array([0, 1, 1]), ('a', 'b'), columns={'n': np.arange(3)}
  )
  with_mean = rows.with_column(stored, 'mean', lambda batch: batch['image'].mean((1, 2, 3)), {})
  columns = rows.columns_in_memory(rows.with_labels(with_mean, np.array([4, 2]), tuple('vwxyz')))
  assert {name: values.tolist() for name, values in columns.items()} == {
    'label': [4, 2, 2],
    'example_id': [0, 1, 2],
    'n': [0, 1, 2],
  }
