"""CIFAR-10-C, CIFAR-100-C and CIFAR-10.1 as released: what is read and what is refused."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from input_pipeline import DataSettings, load
from robustness.core.errors import InputError
from robustness.core.rows import Rows
from robustness.corruptions.names import NAMES

N, LABELS = 4, np.array([3, 8, 8, 0], np.uint8)
Write = Callable[..., pathlib.Path]


def pixels(name: str) -> np.ndarray:
  """uint8 [5 N, 32, 32, 3], other ones for every name."""
  return np.random.default_rng(NAMES.index(name)).integers(0, 256, (5 * N, 32, 32, 3), np.uint8)


@pytest.fixture
def write(tmp_path: pathlib.Path) -> Write:
  """Returns a writer of a folder with the given corruptions, further arrays and labels."""

  def make(*names: str, **arrays: Any) -> pathlib.Path:
    for name, array in {
      'labels': np.tile(LABELS, 5),
      **{n: pixels(n) for n in names},
      **arrays,
    }.items():
      np.save(tmp_path / f'{name}.npy', array)
    return tmp_path

  return make


def open_rows(folder: pathlib.Path, **settings: Any) -> Rows:
  return load(DataSettings(source='cifar10_c', path=str(folder), **settings))


def whole(rows: Rows, batch_size: int = 7) -> dict[str, np.ndarray]:
  batches = list(rows.batches(batch_size))
  return {
    name: np.concatenate([b[name][b['mask']] for b in batches])
    for name in batches[0]
    if name != 'block'
  }


def test_rows_go_by_corruption_severity_and_image(write: Write) -> None:
  rows = open_rows(write('fog', 'gaussian_noise'))
  stored = whole(rows)
  expected = np.concatenate([pixels('gaussian_noise'), pixels('fog')])
  np.testing.assert_array_equal(stored['image'], expected.astype(np.float32) / np.float32(255))
  np.testing.assert_array_equal(stored['label'], np.tile(LABELS, 10))
  np.testing.assert_array_equal(
    stored['corruption'], np.repeat([NAMES.index('gaussian_noise'), NAMES.index('fog')], 20)
  )
  np.testing.assert_array_equal(stored['severity'], np.tile(np.repeat(np.arange(1, 6), N), 2))
  np.testing.assert_array_equal(stored['base_id'], np.tile(np.arange(N), 10))
  np.testing.assert_array_equal(stored['example_id'], np.arange(40))
  assert rows.class_names[3] == 'cat'
  described = rows.description
  assert described['stored'] is True and described['clean_images'] is False
  assert described['corruptions'] == ['gaussian_noise', 'fog']
  assert described['base_images'] == N and described['num_examples'] == 40


def test_a_subset_takes_the_same_base_images_from_every_severity(write: Write) -> None:
  folder = write('fog', 'snow')
  stored = whole(open_rows(folder, num_images=2))
  assert len(stored['base_id']) == 2 * 10
  assert len(set(stored['base_id'])) == 2
  assert (stored['base_id'].reshape(10, 2) == stored['base_id'][:2]).all()
  everything = whole(open_rows(folder))
  np.testing.assert_array_equal(stored['image'], everything['image'][stored['example_id']])
  with pytest.raises(InputError, match='at most 4'):
    open_rows(folder, num_images=5)


def test_the_first_images_are_taken_as_robustbench_does(write: Write) -> None:
  stored = whole(open_rows(write('fog', 'snow'), num_images=2, subset='first'))
  assert stored['base_id'].tolist() == [0, 1] * 10
  with pytest.raises(
    InputError, match=r"config.data.listed is 'ids.txt', but images of CIFAR-10-C"
  ):
    open_rows(write('fog'), listed='ids.txt')


def test_cifar100_c_has_the_same_layout_and_a_hundred_classes(write: Write) -> None:
  labels = np.array([0, 99, 11, 98], np.uint8)
  folder = write('fog', labels=np.tile(labels, 5))
  rows = load(DataSettings(source='cifar100_c', path=str(folder)))
  assert len(rows.class_names) == 100
  named = [rows.class_names[k] for k in whole(rows)['label'][:N]]
  assert named == ['apple', 'worm', 'boy', 'woman']
  assert rows.description['source'] == 'cifar100_c'
  with pytest.raises(InputError, match=r'labels 0..99; CIFAR-10 has 0..9'):
    open_rows(folder)


def test_clean_images_of_the_folder_come_first(write: Write) -> None:
  clean = pixels('snow')[:N]
  rows = open_rows(write('fog', clean=clean))
  stored = whole(rows)
  np.testing.assert_array_equal(stored['image'][:N], clean.astype(np.float32) / np.float32(255))
  assert (stored['corruption'][:N] == -1).all() and (stored['severity'][:N] == 0).all()
  np.testing.assert_array_equal(stored['base_id'][:N], np.arange(N))
  assert rows.description['clean_images'] is True


@pytest.mark.slow
def test_clean_images_of_cifar10_are_in_the_released_order(
  write: Write, cifar10_dir: pathlib.Path
) -> None:
  import tensorflow_datasets as tfds

  data = tfds.load('cifar10', split='test', data_dir=str(cifar10_dir), download=False)
  by_id = {e['id'].decode(): e for e in tfds.as_numpy(data)}
  order = [by_id[name] for name in sorted(by_id)]
  labels = np.array([e['label'] for e in order], np.uint8)
  folder = write(
    labels=np.tile(labels, 5),
    fog=np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (50_000, 32, 32, 3), (0, 0, 0, 0)),
  )
  settings = {'name': 'cifar10', 'data_dir': str(cifar10_dir)}
  rows = open_rows(folder, num_images=3, **settings)
  batch = next(rows.batches(3))
  expected = np.stack([order[i]['image'] for i in rows.indices[:3]])
  np.testing.assert_array_equal(np.rint(batch['image'] * 255), expected)
  np.save(folder / 'labels.npy', np.tile(np.roll(labels, 1), 5))
  with pytest.raises(InputError, match='its images are others'):
    open_rows(folder, **settings)


@pytest.mark.parametrize(
  ('arrays', 'message'),
  [
    ({}, 'holds no corruption'),
    ({'fogg': np.zeros(3)}, "'fogg', which is no corruption: did you mean 'fog'"),
    ({'fog': pixels('fog')[:-1]}, r'fog.npy holds 19 images; its labels say 20'),
    ({'fog': pixels('fog').astype(np.float32)}, 'float32 of shape'),
    ({'fog': pixels('fog')[:, :16]}, r'expected uint8 \[20, 32, 32, 3\]'),
    ({'fog': pixels('fog'), 'labels': np.arange(20) % 7}, 'not the same 5 times over'),
    ({'fog': pixels('fog'), 'labels': np.full(20, 10)}, r'labels 10..10; CIFAR-10 has 0..9'),
    ({'fog': pixels('fog'), 'labels': np.zeros((20, 1), int)}, r'expected integers \[N\]'),
    ({'fog': np.array([{}] * 20, object)}, 'cannot be read as .npy'),
  ],
)
def test_bad_files_are_named(write: Write, arrays: dict[str, Any], message: str) -> None:
  folder = write(**arrays)
  with pytest.raises(InputError, match=message):
    open_rows(folder)


def test_a_truncated_file_is_named(write: Write) -> None:
  folder = write('fog')
  content = (folder / 'fog.npy').read_bytes()
  (folder / 'fog.npy').write_bytes(content[: len(content) // 2])
  with pytest.raises(InputError, match=r'fog\.npy cannot be read.*truncated'):
    open_rows(folder)


def test_missing_folders_and_labels_are_named(tmp_path: pathlib.Path) -> None:
  with pytest.raises(InputError, match='is not a folder'):
    open_rows(tmp_path / 'nowhere')
  with pytest.raises(InputError, match=r'no labels\.npy'):
    open_rows(tmp_path)


PICTURES = np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3), np.uint8)
CLASSES = np.arange(6, dtype=np.int32)


def write_second(
  folder: pathlib.Path, version: str, images: np.ndarray = PICTURES, labels: np.ndarray = CLASSES
) -> None:
  np.save(folder / f'cifar10.1_{version}_data.npy', images)
  np.save(folder / f'cifar10.1_{version}_labels.npy', labels)


def open_second(folder: pathlib.Path, name: str = '') -> Rows:
  return load(DataSettings(source='cifar10_1', path=str(folder), name=name))


def test_the_only_version_is_read(tmp_path: pathlib.Path) -> None:
  write_second(tmp_path, 'v6')
  rows = open_second(tmp_path)
  batch = next(rows.batches(6))
  np.testing.assert_array_equal(batch['image'], PICTURES.astype(np.float32) / np.float32(255))
  assert batch['label'].tolist() == CLASSES.tolist()
  assert rows.description['name'] == 'v6' and rows.class_names[0] == 'airplane'


def test_of_two_versions_one_must_be_chosen(tmp_path: pathlib.Path) -> None:
  write_second(tmp_path, 'v4', PICTURES[:3], CLASSES[:3])
  write_second(tmp_path, 'v6')
  assert open_second(tmp_path, 'v4').num_examples == 3
  with pytest.raises(InputError, match=r'v4 and v6: .* choose config\.data\.name'):
    open_second(tmp_path)
  with pytest.raises(InputError, match="'v5'"):
    open_second(tmp_path, 'v5')


def test_bad_files_of_cifar10_1_are_named(tmp_path: pathlib.Path) -> None:
  with pytest.raises(InputError, match=r'holds no cifar10\.1'):
    open_second(tmp_path)
  write_second(tmp_path, 'v4', PICTURES[:5])
  with pytest.raises(InputError, match='holds 5 images; its labels say 6'):
    open_second(tmp_path)
  (tmp_path / 'cifar10.1_v4_labels.npy').unlink()
  with pytest.raises(InputError, match=r'labels\.npy cannot be read'):
    open_second(tmp_path)
