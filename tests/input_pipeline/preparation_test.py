"""Images prepared as a classifier wants them, where the settings do not say."""

from __future__ import annotations

import dataclasses

import pytest

from input_pipeline import Preparation
from input_pipeline.rows import TfRows
from input_pipeline.settings import DataSettings

WANTED = Preparation('weights', side=4, resize=6, interpolation='bilinear')


def prepared(make_rows, size=(8, 12), **settings) -> TfRows:
  return TfRows(make_rows(size=size)._images, DataSettings(**settings), preparation=WANTED)


def test_images_of_another_size_are_resized_and_cropped(make_rows):
  rows = prepared(make_rows)
  assert rows.image_shape == (4, 4, 3)
  assert rows.description['prepared_for'] == 'weights'
  assert (rows.description['resize'], rows.description['crop']) == (6, 4)
  assert rows.description['interpolation'] == 'bilinear'
  assert 'crop_margin' not in rows.description
  assert next(iter(rows.batches(3)))['image'].shape == (3, 4, 4, 3)


@pytest.mark.parametrize(
  ('size', 'settings', 'shape'),
  [((4, 4), {}, (4, 4, 3)), ((8, 12), {'crop': 5}, (5, 5, 3)), ((8, 12), {'resize': 4}, (4, 6, 3))],
)
def test_the_wanted_size_and_the_users_word_are_left_alone(make_rows, size, settings, shape):
  rows = prepared(make_rows, size, **settings)
  assert rows.image_shape == shape
  assert 'prepared_for' not in rows.description


def test_parts_of_scenes_stay_as_stored(make_rows):
  source = dataclasses.replace(make_rows(size=(8, 12))._images, as_stored=True)
  assert TfRows(source, DataSettings(), preparation=WANTED).image_shape == (8, 12, 3)


def test_files_of_several_sizes_are_prepared(save_image, tmp_path):
  from input_pipeline import load

  for index, size in enumerate([(4, 4), (9, 7)]):
    save_image(tmp_path / 'a' / f'{index}.png', size=size)
  rows = load(DataSettings(source='folder', path=str(tmp_path)), preparation=WANTED)
  assert rows.image_shape == (4, 4, 3)
  assert next(iter(rows.batches(2)))['mask'].all()
