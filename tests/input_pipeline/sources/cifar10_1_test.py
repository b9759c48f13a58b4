"""CIFAR-10.1 as released: which version is read, and what is refused."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from input_pipeline import DataSettings, load
from input_pipeline.rows import TfRows
from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows

IMAGES = np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3), np.uint8)
LABELS = np.arange(6, dtype=np.int32)


def write(
  folder: pathlib.Path, version: str, images: np.ndarray = IMAGES, labels: np.ndarray = LABELS
) -> None:
  np.save(folder / f'cifar10.1_{version}_data.npy', images)
  np.save(folder / f'cifar10.1_{version}_labels.npy', labels)


def open_rows(folder: pathlib.Path, name: str = '') -> ArrayRows | TfRows:
  return load(DataSettings(source='cifar10_1', path=str(folder), name=name))


def test_the_only_version_is_read(tmp_path: pathlib.Path) -> None:
  write(tmp_path, 'v6')
  rows = open_rows(tmp_path)
  batch = next(rows.batches(6))
  np.testing.assert_array_equal(batch['image'], IMAGES.astype(np.float32) / np.float32(255))
  assert batch['label'].tolist() == LABELS.tolist()
  assert rows.description['name'] == 'v6' and rows.class_names[0] == 'airplane'


def test_of_two_versions_one_must_be_chosen(tmp_path: pathlib.Path) -> None:
  write(tmp_path, 'v4', IMAGES[:3], LABELS[:3])
  write(tmp_path, 'v6')
  assert open_rows(tmp_path, 'v4').num_examples == 3
  with pytest.raises(InputError, match=r'v4 and v6: .* choose config\.data\.name'):
    open_rows(tmp_path)
  with pytest.raises(InputError, match="'v5'"):
    open_rows(tmp_path, 'v5')


def test_bad_files_are_named(tmp_path: pathlib.Path) -> None:
  with pytest.raises(InputError, match=r'holds no cifar10\.1'):
    open_rows(tmp_path)
  write(tmp_path, 'v4', IMAGES[:5])
  with pytest.raises(InputError, match='holds 5 images; its labels say 6'):
    open_rows(tmp_path)
  (tmp_path / 'cifar10.1_v4_labels.npy').unlink()
  with pytest.raises(InputError, match=r'labels\.npy cannot be read'):
    open_rows(tmp_path)
