"""Grids of class groups × environments against cells that are counted by hand."""

from __future__ import annotations

import numpy as np

from robustness.environments import grids


def test_the_classes_left_over_come_first() -> None:
  assert grids.in_order(['C1', 'C2', 'left over']) == ['left over', 'C1', 'C2']
  assert grids.in_order(['C1']) == ['left over', 'C1']


def test_training_shows_clean_images_and_each_group_its_own_environment() -> None:
  expected = [[1, 0, 0], [1, 1, 0], [1, 0, 1]]
  np.testing.assert_array_equal(grids.seen(3, 3), np.array(expected, bool))


def test_cells_without_classes_are_not_listed() -> None:
  grid = np.array([[np.nan, np.nan], [0.5, 0.25]])
  arrays = {
    'group': np.array(['left over', 'C1']),
    'environment': np.array(['clean', 'fog']),
    **{f'one/grid{end}': grid for end in ('', '_low', '_high')},
    'one/seen': np.array([[False, False], [True, False]]),
  }
  assert grids.table(arrays, {'one': 'one/'}).rows == [
    ['one', 'C1', 'clean', 'yes', 0.5, 0.5, 0.5],
    ['one', 'C1', 'fog', 'no', 0.25, 0.25, 0.25],
  ]
