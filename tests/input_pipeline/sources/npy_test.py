"""Folders of `.npy` files: what is read, and what is refused by name."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from input_pipeline import DataSettings, load
from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows

IMAGES = np.random.default_rng(0).integers(0, 256, (6, 5, 4), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 0, 1, 2])


def open_folder(folder: pathlib.Path, split: str = 'test', **arrays: np.ndarray) -> ArrayRows:
  for name, array in arrays.items():
    np.save(folder / f'{name}.npy', array)
  rows = load(DataSettings(source='npy', path=str(folder), split=split))
  assert isinstance(rows, ArrayRows)
  return rows


def test_splits_and_grey_images_are_read(tmp_path: pathlib.Path) -> None:
  rows = open_folder(
    tmp_path,
    'train',
    images_train=IMAGES,
    labels_train=LABELS,
    images=IMAGES[:2],
    labels=LABELS[:2],
  )
  assert rows.num_examples == 6 and rows.image_shape == (5, 4, 1)
  (batch,) = rows.batches(6)
  np.testing.assert_array_equal(batch['image'][..., 0], IMAGES.astype(np.float32) / np.float32(255))
  assert batch['label'].tolist() == LABELS.tolist()
  assert open_folder(tmp_path).num_examples == 2


@pytest.mark.parametrize(
  ('arrays', 'message'),
  [
    ({'images': IMAGES}, "no array 'labels_test' .*It holds 'images'"),
    ({'images': IMAGES.astype(np.int32), 'labels': LABELS}, "'images' is int32; expected uint8"),
    ({'images': IMAGES[0], 'labels': LABELS}, r"'images' has shape \(5, 4\); expected \[N, H, W\]"),
    ({'images': IMAGES, 'labels': LABELS[:5]}, '5 labels for 6 images'),
    ({'images': IMAGES, 'labels': LABELS - 1}, r'has -1 \(example 0\); labels start at 0'),
    (
      {'images': IMAGES, 'labels': LABELS, 'class_names': np.array(['a', 'b'])},
      r'label 2 \(example 2\) is outside the 2 classes',
    ),
    ({'images': IMAGES, 'labels': np.array([{}] * 6)}, r'labels\.npy cannot be read as \.npy'),
  ],
)
def test_unusable_arrays_are_named(
  tmp_path: pathlib.Path, arrays: dict[str, np.ndarray], message: str
) -> None:
  with pytest.raises(InputError, match=message):
    open_folder(tmp_path, **arrays)


def test_truncated_files_and_missing_folders_are_named(tmp_path: pathlib.Path) -> None:
  open_folder(tmp_path, images=IMAGES, labels=LABELS)
  path = tmp_path / 'images.npy'
  path.write_bytes(path.read_bytes()[:-1])
  with pytest.raises(InputError, match=r'images\.npy cannot be read as \.npy.*may be truncated'):
    open_folder(tmp_path)
  with pytest.raises(InputError, match=r"config\.data\.path is '.*gone', which is not a folder"):
    load(DataSettings(source='npy', path=str(tmp_path / 'gone')))
