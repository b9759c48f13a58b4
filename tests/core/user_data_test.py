"""Tests rows from arrays and from data sets of other libraries."""

import sys

import numpy as np
import pytest

from robustness.core.user_data import rows_of
from tests.cases import cases
from tests.refusals import refused

IMAGES = np.random.default_rng(0).random((6, 4, 5, 3), np.float32)
LABELS = np.arange(6) % 3
NAMES = ('a', 'b', 'c')


class Tensor(np.ndarray):
  """An array that looks like a tensor of PyTorch."""

  detach = cpu = lambda self: self


class WithoutIterator:
  """A data set with a length and an index but no iterator, like one of PyTorch."""

  def __len__(self):
    return len(IMAGES)

  def __getitem__(self, index):
    return IMAGES[index], LABELS[index]


def of_tensorflow(batch_size):
  """Returns a data set of pairs, in batches unless `batch_size` is 0."""
  import tensorflow as tf

  data = tf.data.Dataset.from_tensor_slices((IMAGES, LABELS))
  return data.batch(batch_size) if batch_size else data


def of_torch(batch_size):
  """Returns a data set of pairs with channels first, in batches unless `batch_size` is 0."""
  torch = pytest.importorskip('torch', reason='needs torch')
  first = torch.from_numpy(IMAGES.transpose(0, 3, 1, 2).copy())
  data = torch.utils.data.TensorDataset(first, torch.from_numpy(LABELS))
  return torch.utils.data.DataLoader(data, batch_size=batch_size) if batch_size else data


def of_grain(batch_size):
  """Returns a data set of pairs, in batches unless `batch_size` is 0."""
  grain = pytest.importorskip('grain', reason='needs grain')
  data = grain.MapDataset.source(list(zip(IMAGES, LABELS, strict=True)))
  return data.batch(batch_size) if batch_size else data


DATA_SETS = {
  'pairs': lambda: list(zip(IMAGES, LABELS, strict=True)),
  'mappings': lambda: [{'image': x, 'label': y} for x, y in zip(IMAGES, LABELS, strict=True)],
  'batches': lambda: iter([(IMAGES[:4], LABELS[:4]), (IMAGES[4:], LABELS[4:])]),
  'indices': WithoutIterator,
  **{f'tensorflow {n}': lambda n=n: of_tensorflow(n) for n in (0, 4)},
  **{f'torch {n}': lambda n=n: of_torch(n) for n in (0, 4)},
  **{f'grain {n}': lambda n=n: of_grain(n) for n in (0, 4)},
}


@pytest.mark.parametrize('name', DATA_SETS)
def test_data_sets_have_the_images_and_labels_of_the_arrays(name):
  rows, arrays = rows_of(DATA_SETS[name]()), rows_of(IMAGES, LABELS)
  np.testing.assert_array_equal(rows.images, arrays.images)
  np.testing.assert_array_equal(rows.labels, arrays.labels)


def test_arrays_keep_their_type_columns_and_class_names():
  rows = rows_of((255 * IMAGES).astype(np.uint8), LABELS.tolist(), {'path': list('abcdef')}, NAMES)
  assert rows.images.dtype == np.uint8 and rows.class_names == NAMES
  assert rows.columns['path'].tolist() == list('abcdef')
  objects = np.array([*'abcdef'], object)  # a column of texts in pandas
  assert rows_of(IMAGES, LABELS, {'path': objects}).columns['path'].dtype.kind == 'U'
  assert rows_of(IMAGES.astype(float), LABELS).images.dtype == np.float32


@cases(
  'arguments, message',
  ((IMAGES.transpose(0, 3, 1, 2), LABELS), 'channels first'),
  ((np.ones((6, 8, 8, 3)).view(Tensor), LABELS), 'last; tensors have channels first'),
  ((IMAGES * 255, LABELS), r'must lie in \[0, 1\]'),
  ((IMAGES, LABELS, None, NAMES[:2]), 'labels has 2 .example 2.; there are 2 classes'),
  ((IMAGES, LABELS.astype(float)), 'expected integers'),
  ((IMAGES, np.eye(3)[LABELS]), 'expected integers'),
  ((IMAGES, LABELS[:2]), '2 labels for 6 images'),
  ((IMAGES,), 'give labels'),
  (([],), 'empty'),
  (([1, 2],), 'pairs'),
  ((object(),), 'without labels'),
  ((IMAGES, (label for label in LABELS)), r'labels is object of shape \(\)'),
  ((IMAGES, [[0], [1, 2]] * 3), 'a list and no array .*arrays of one shape'),
  (([(IMAGES[:4], LABELS[:3]), (IMAGES[4:], LABELS[3:])],), r'shape \(3,\): give each image one'),
  (([(IMAGES[0], [0]), (IMAGES[1], [1, 2])],), r'shape \(2,\): give each image one'),
  *(
    ((IMAGES, LABELS, {name: LABELS}), f'a column is called {name!r}; .*rename it')
    for name in ('label', 'image', 'example_id', 'draws', '_seal', 3)
  ),
  ((IMAGES, LABELS, {'pose': 1}), r"column 'pose' is int64 of shape \(\)"),
  ((IMAGES, LABELS, {'pose': ['a', None] * 3}), "'pose' is object.*'' for a missing text"),
  (([{'image': IMAGES[0]}],), 'pairs'),
)
def test_bad_data_are_refused(arguments, message):
  refused(message, rows_of, *arguments)


def test_a_tensorflow_data_set_without_end_is_refused():
  refused('repeat without end', rows_of, of_tensorflow(2).repeat(), None, {}, NAMES)


class Repeated(WithoutIterator):
  """A data set without end, like `grain.MapDataset.repeat()`, or the sampler of a loader."""

  def __len__(self):
    return sys.maxsize // 32  # in batches of 32


class Loader:
  """A loader without a length, like Grain's."""

  _sampler = Repeated()

  def __iter__(self):
    return iter([(IMAGES, LABELS)])  # one batch, so that a test of it ends


@pytest.mark.parametrize('data', [Repeated(), Loader()])
def test_data_and_loaders_of_grain_without_end_are_refused(data):
  refused('repeat without end', rows_of, data)


class Stream(Loader):
  """A stream that refuses to state its length, like PyTorch's `IterableDataset`."""

  _sampler = ()

  def __len__(self):
    raise NotImplementedError


def test_a_stream_without_a_length_is_read():
  assert rows_of(Stream(), None, {}, ()).num_examples == len(LABELS)
