"""Layouts give back what was stored; names that no variable needs are left out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from robustness.models import naming


def numbered(*shape):
  return np.arange(math.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize(
  ('layout', 'shape', 'to_file'),
  [
    (naming.AS_IS, (3, 4), lambda a: a),
    (naming.OUTPUT_FIRST, (3, 4), lambda a: a.T),
    (naming.OUTPUT_FIRST, (2, 5, 3, 4), lambda a: a.transpose(3, 2, 0, 1)),
    (naming.OUTPUT_FIRST_POINTWISE, (3, 4), lambda a: a.T[:, :, None, None]),
    (naming.POINTWISE, (3, 4), lambda a: a[None, None]),
    (naming.FLAT_IMAGE, (2, 5, 3, 4), lambda a: a.transpose(3, 2, 0, 1).reshape(4, 30)),
  ],
)
def test_layouts_give_back_what_was_stored(layout, shape, to_file):
  array = numbered(*shape)
  stored = to_file(array)
  assert layout.stored(shape) == stored.shape
  np.testing.assert_array_equal(layout.restored(stored, shape), array)


def test_parts_follow_each_other_along_the_last_axis():
  stored = naming.Stored(('q', 'k', 'v'), naming.OUTPUT_FIRST)
  array = numbered(2, 6)
  parts = {name: array[:, 2 * i : 2 * i + 2].T for i, name in enumerate('qkv')}
  assert stored.shapes((2, 6)) == dict.fromkeys('qkv', (2, 2))
  np.testing.assert_array_equal(stored.restore(parts, (2, 6)), array)


def test_ignored_names_are_left_out():
  scheme = naming.pytorch('a project', '.'.join)
  arrays = {'bn1.num_batches_tracked': numbered(1), 'bn1.weight': numbered(2)}
  assert set(scheme.wanted(arrays)) == {'bn1.weight'}
