"""Tests the lines that say how the images of a run were prepared."""

import numpy as np

import input_pipeline
from input_pipeline import DataSettings
from robustness.evaluation.provenance import data_lines, require_same_images
from tests.cases import cases
from tests.refusals import refused


@cases(
  'settings, expected',
  ({}, 'as stored; 28 × 28 pixels'),
  ({'resized_by': 'pillow'}, 'as stored; 28 × 28 pixels'),
  ({'resize': 20}, 'shorter side to 20 (bicubic); 20 × 20 pixels'),
  (
    {'resize': 32, 'crop': 24, 'interpolation': 'bilinear', 'resized_by': 'pillow'},
    'shorter side to 32 (bilinear, by Pillow), centre of 24; 24 × 24 pixels',
  ),
)
def test_preprocessing_names_size_interpolation_and_library(settings, expected):
  rows = input_pipeline.load(DataSettings(num_images=3, **settings))
  lines = data_lines(rows.description, '', rows.num_examples, rows.image_shape)
  assert lines['preprocessing'] == expected
  assert lines['images'] == '3 of 1000, drawn with seed 0'
  grouped = {**rows.description, 'class_groups': {'C1': ['0', '1'], 'left over': []}}
  assert data_lines(grouped, '', 3, rows.image_shape)['class groups'] == 'C1 (0, 1)'


def test_a_column_of_texts_that_became_numbers_is_refused(tmp_path):
  numbers = np.array([0.5, np.nan], np.float32)
  require_same_images({'level': numbers}, {'level': numbers.copy()}, tmp_path)
  recorded = {'level': np.array(['low', 'high'])}
  refused('level differs', require_same_images, recorded, {'level': numbers}, tmp_path)
