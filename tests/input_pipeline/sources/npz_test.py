"""Tests reading arrays of `.npz` files and of folders of `.npy` files."""

import numpy as np
import pytest

from input_pipeline.sources.npz import Npz
from tests.cases import cases
from tests.input_pipeline.domains import read
from tests.refusals import refused

IMAGES = np.random.default_rng(0).integers(0, 256, (6, 5, 4, 3), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 0, 1, 2])


def open_npz(folder, split='test', **arrays):
  """Returns the rows of these arrays in a `.npz` file."""
  np.savez(folder / 'data.npz', **arrays)
  return read('npz', folder / 'data.npz', split=split)


def open_npy(folder, split='test', **arrays):
  """Returns the rows of these arrays in `.npy` files, beside those that the folder has already."""
  for name, array in arrays.items():
    np.save(folder / f'{name}.npy', array)
  return read('npy', folder, split=split)


@cases('image, label', ('images', 'labels'), ('image', 'label'), ('x', 'y'), ('x_test', 'y_test'))
def test_arrays_are_found_by_their_usual_names(tmp_path, image, label):
  rows = open_npz(tmp_path, 'test', **{image: IMAGES, label: LABELS})
  batch = next(rows.batches(6))
  np.testing.assert_array_equal(batch['image'], IMAGES.astype(np.float32) / np.float32(255))
  assert batch['label'].tolist() == LABELS.tolist()
  assert rows.class_names == ('0', '1', '2')


@pytest.mark.parametrize('dtype', [np.float16, np.float32, np.float64])
def test_floats_in_the_unit_range_are_not_scaled(tmp_path, dtype):
  images: np.ndarray = (IMAGES / 255).astype(dtype)
  batch = next(open_npz(tmp_path, images=images, labels=LABELS).batches(6))
  np.testing.assert_array_equal(batch['image'], images.astype(np.float32))


def test_images_may_have_several_labels_and_named_classes(tmp_path):
  batch = next(open_npz(tmp_path, x=IMAGES, y=LABELS[:, None]).batches(6))
  assert batch['label'].shape == (6,)
  label_pairs = np.stack([LABELS, np.full(6, -1)], axis=1)
  for names in (['a', 'b', 'c'], [b'a', b'b', b'c']):
    rows = open_npz(tmp_path, x=IMAGES, y=label_pairs, class_names=np.array(names))
    np.testing.assert_array_equal(next(rows.batches(6))['label'], label_pairs)
    assert rows.class_names == ('a', 'b', 'c')


@pytest.mark.parametrize('opened', [open_npz, open_npy])
def test_arrays_of_a_split_and_grey_images_are_read(tmp_path, opened):
  grey = IMAGES[..., 0]
  arrays = {'x_train': grey, 'y_train': LABELS, 'x_test': grey[:2], 'y_test': LABELS[:2]}
  rows = opened(tmp_path, 'train', **arrays)
  assert rows.num_examples == 6 and rows.image_shape == (5, 4, 1)
  (batch,) = rows.batches(6)
  np.testing.assert_array_equal(batch['image'][..., 0], grey.astype(np.float32) / np.float32(255))
  assert batch['label'].tolist() == LABELS.tolist()
  assert opened(tmp_path, 'test', **arrays).num_examples == 2
  refused("no array 'images_dev' .*It holds 'x_test', 'x_train'", opened, tmp_path, 'dev', **arrays)


@cases(
  'changes, message',
  ({'labels': None}, "no array 'labels_test' .*It holds 'images'"),
  ({'images': None, 'data': IMAGES}, "no array 'images_test'"),
  ({'images': IMAGES.astype(np.int64)}, "'images' is int64; expected uint8"),
  ({'images': IMAGES.astype(np.float32)}, r'in \[0, 255\].*Divide by 255'),
  ({'images': np.full((6, 5, 4, 3), np.nan)}, 'of 360 image values are NaN; floats must'),
  ({'images': np.full((6, 5, 4, 3), -0.5)}, r'values lie in \[-0.5, -0.5\]'),
  ({'images': IMAGES.transpose(0, 3, 1, 2)}, 'channels-first: transpose it'),
  ({'images': IMAGES.reshape(6, -1)}, r'shape \(6, 60\)'),
  ({'images': IMAGES[:0], 'labels': LABELS[:0]}, 'holds no images'),
  ({'labels': LABELS[:4]}, '4 labels for 6 images'),
  ({'labels': LABELS / 2}, "'labels' is float64 of shape"),
  ({'labels': LABELS + 2**20 - 2}, 'largest label of .*npz is 1048576; it must be below 1048576'),
  ({'labels': LABELS - 1}, r'has -1 \(example 0\); labels start at 0'),
  ({'labels': np.eye(3, dtype=int)[LABELS]}, "'labels' has .* not one-hot"),
  ({'class_names': np.array([*'aba'])}, "'class_names' call the classes 0 and 2 all 'a'"),
  ({'class_names': np.array([*'ab'])}, r'labels has 2 \(example 2\); there are 2 classes'),
)
def test_unusable_arrays_are_refused(tmp_path, changes, message):
  arrays = {'images': IMAGES, 'labels': LABELS, **changes}
  stored = {name: array for name, array in arrays.items() if array is not None}
  refused(message, open_npz, tmp_path, **stored)


def test_npz_files_that_are_truncated_or_hold_no_plain_arrays_are_refused(tmp_path):
  torn = tmp_path / 'torn.npz'
  np.savez(torn, images=IMAGES, labels=LABELS)
  torn.write_bytes(torn.read_bytes()[:300])
  np.savez(tmp_path / 'objects.npz', images=np.array([{}, {}]), labels=LABELS)
  (tmp_path / 'text.npz').write_text('hello')
  np.save(tmp_path / 'single.npy', IMAGES)
  for name in ('torn.npz', 'objects.npz', 'text.npz', 'single.npy'):
    message = f'{name} is truncated or is no archive of plain arrays'
    refused(message, read, 'npz', tmp_path / name)


def test_npy_files_that_are_truncated_or_hold_objects_and_missing_folders_are_refused(tmp_path):
  open_npy(tmp_path, images=IMAGES, labels=LABELS)
  path = tmp_path / 'images.npy'
  path.write_bytes(path.read_bytes()[:-1])
  refused(r'images\.npy cannot be read as \.npy.*may be truncated', open_npy, tmp_path)
  message = r'labels\.npy cannot be read as \.npy'
  refused(message, open_npy, tmp_path, images=IMAGES, labels=np.array([{}] * 6))
  message = r"config\.data\.npy\.path is '.*gone', which is not a folder"
  refused(message, read, 'npy', tmp_path / 'gone')


def test_splits_share_images_if_they_are_read_from_one_array(tmp_path):
  open_npz(tmp_path, images=IMAGES, labels=LABELS, x_train=IMAGES)
  source = Npz(str(tmp_path / 'data.npz'))
  assert source.shares_images('', source, 'test'), 'both read the array without a split'
  assert not source.shares_images('train', source, 'test')
  assert not source.shares_images('test', Npz('other.npz'), 'test')
