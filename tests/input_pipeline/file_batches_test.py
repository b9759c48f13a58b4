"""Image files that Pillow resizes are read in order by threads, as one by one."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from PIL import Image

import input_pipeline
from input_pipeline import DataSettings
from input_pipeline import rows as tf_rows
from input_pipeline.geometry import resized_by_pillow
from input_pipeline.image_files import read_image
from robustness.core.errors import InputError

COUNT = 11


@pytest.fixture
def settings(tmp_path: pathlib.Path) -> DataSettings:
  generator = np.random.default_rng(0)
  for index in range(COUNT):
    path = tmp_path / str(index % 2) / f'{index:02d}.png'
    path.parent.mkdir(exist_ok=True)
    height, width = 20 + index, 40 - index
    Image.fromarray(generator.integers(0, 256, (height, width, 3), np.uint8)).save(path)
  return DataSettings(
    source='folder', path=str(tmp_path), resize=16, crop=12, resized_by='pillow', num_images=0
  )


def files(settings: DataSettings) -> list[pathlib.Path]:
  return sorted(pathlib.Path(settings.path).rglob('*.png'))


@pytest.mark.parametrize('in_flight', [1, 64])
def test_blocks_are_those_of_reading_one_by_one(
  settings: DataSettings, in_flight: int, monkeypatch: pytest.MonkeyPatch
) -> None:
  monkeypatch.setattr(tf_rows, 'IN_FLIGHT', in_flight)
  monkeypatch.setattr(tf_rows, 'usable_cores', lambda: 2)
  batches = list(input_pipeline.load(settings).batches(4, [0, 2], stored=True))
  expected = np.stack([resized_by_pillow(read_image(str(p), 3), settings) for p in files(settings)])
  labels = [int(path.parent.name) for path in files(settings)]
  assert [batch['block'] for batch in batches] == [0, 2]
  for batch, rows in zip(batches, (range(4), range(8, COUNT)), strict=True):
    known = batch['mask']
    assert batch['image'].dtype == np.uint8 and known.sum() == len(rows)
    np.testing.assert_array_equal(batch['image'][known], expected[rows.start : rows.stop])
    np.testing.assert_array_equal(batch['label'][known], labels[rows.start : rows.stop])
    np.testing.assert_array_equal(batch['example_id'][known], rows)


def test_a_damaged_file_is_named_when_its_block_is_reached(settings: DataSettings) -> None:
  rows = input_pipeline.load(settings)
  damaged = files(settings)[7]
  damaged.write_bytes(damaged.read_bytes()[:200])
  blocks = rows.batches(4, stored=True)
  next(blocks)
  with pytest.raises(InputError, match=rf'{damaged.name} \(example 7\) cannot be decoded'):
    next(blocks)
