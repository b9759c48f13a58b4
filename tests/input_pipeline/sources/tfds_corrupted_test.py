"""Configs of a corrupted TFDS set as one stored set: order, columns, subsets, and refusals."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

from input_pipeline import DataSettings, Preparation, load
from input_pipeline.corruption_parts import Part, part_of_config
from input_pipeline.rows import TfRows
from robustness.core.errors import InputError
from robustness.corruptions.names import NAMES
from tests.input_pipeline.domains import write_domain

CONFIGS = {'snow_1': 10, 'frosted_glass_blur_1': 40, 'snow_2': 70}  # by name, their first level
N = 3


def write(folder: pathlib.Path, config: str, level: int, count: int = N) -> None:
  """Writes a config of `some_corrupted` as TFDS would: grey levels that grow by 10."""
  pictures = {'test': [(str(k % 2), level + 10 * k) for k in range(count)]}
  write_domain(folder, 'some_corrupted', config, pictures, ('0', '1'))


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
  path = tmp_path_factory.mktemp('tfds')
  for config, level in CONFIGS.items():
    write(path, config, level)
  return path


def open_rows(path: pathlib.Path, name: str = 'some_corrupted/*', **settings: Any) -> TfRows:
  return load(DataSettings(source='tfds_corrupted', name=name, data_dir=str(path), **settings))


def test_parts_go_by_corruption_then_severity(folder: pathlib.Path) -> None:
  rows = open_rows(folder)
  (batch,) = rows.batches(9)
  assert np.rint(batch['image'][:, 0, 0, 0] * 255).tolist() == [40, 50, 60, 10, 20, 30, 70, 80, 90]
  glass, snow = NAMES.index('glass_blur'), NAMES.index('snow')
  assert batch['corruption'].tolist() == [glass] * 3 + [snow] * 6
  assert batch['severity'].tolist() == [1] * 6 + [2] * 3
  assert batch['base_id'].tolist() == [0, 1, 2] * 3
  assert batch['example_id'].tolist() == list(range(9))
  assert rows.description['stored'] is True and rows.description['base_images'] == N


def test_a_subset_and_blocks_across_parts(folder: pathlib.Path) -> None:
  rows = open_rows(folder, num_images=2)
  (whole,) = open_rows(folder).batches(9)
  batches = list(rows.batches(4, [0, 1]))
  read = np.concatenate([b['image'][b['mask']] for b in batches])
  np.testing.assert_array_equal(read, whole['image'][rows.indices])
  assert len(set(np.concatenate([b['base_id'][b['mask']] for b in batches]).tolist())) == 2


def test_one_config_is_a_set_of_one_part(folder: pathlib.Path) -> None:
  (batch,) = open_rows(folder, 'some_corrupted/snow_2').batches(3)
  assert batch['severity'].tolist() == [2] * 3


def test_training_reads_permutations(folder: pathlib.Path) -> None:
  assert sorted(next(open_rows(folder).training_batches(9, 0))['example_id']) == list(range(9))


def test_names_of_configs() -> None:
  assert part_of_config('brightness_1') == Part(NAMES.index('brightness'), 1)
  assert part_of_config('elastic_4') == Part(NAMES.index('elastic_transform'), 4)
  assert part_of_config('brightness_6') is None and part_of_config('brightness') is None


def test_what_is_refused(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
  with pytest.raises(InputError, match=r"fog_\*', which no prepared config .*valid:"):
    open_rows(folder, 'some_corrupted/fog_*')
  with pytest.raises(InputError, match='none is prepared there'):
    open_rows(tmp_path, 'cifar10_corrupted/*')
  write(tmp_path, 'snow_1', 0)
  write(tmp_path, 'snow_2', 0, count=2)
  with pytest.raises(InputError, match='snow_1/1.0.0 and .*snow_2/1.0.0 differ .*3 and 2'):
    open_rows(tmp_path)
  write(tmp_path, 'snowy', 0)
  with pytest.raises(InputError, match='snowy/1.0.0. says of no corruption'):
    open_rows(tmp_path, 'some_corrupted/snowy')


@pytest.mark.parametrize('source', ['tfds_corrupted', 'tfds'])
def test_images_are_not_cropped_a_second_time(folder: pathlib.Path, source: str) -> None:
  settings = DataSettings(source=source, name='some_corrupted/snow_1', data_dir=str(folder))
  rows = load(settings, preparation=Preparation('weights', 6, 8, 'bilinear'))
  assert (rows.description['resize'], rows.description['crop']) == (6, 6)
  assert rows.description['crop_margin'].startswith('none')
