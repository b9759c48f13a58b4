"""Held-out rows are whole groups, and their blocks stay on the devices between evaluations."""

import dataclasses
from unittest import mock

import jax
import numpy as np
import pytest

from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows
from robustness.core.sampler import held_out
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.views import stored_view
from robustness.parallel import MeshParallel
from robustness.training.evaluation import CachedBlocks, split_validation
from tests.networks import tiny_classifier, tiny_rows
from tests.refusals import refused
from tests.training.conftest import assert_same


@pytest.mark.parametrize('column', ['group_id', 'base_id', 'other'])
def test_frames_of_a_clip_and_versions_of_an_image_are_on_one_side(column):
  images, units = np.zeros((100, 2, 2, 1), np.float32), np.repeat(np.arange(20), 5)[::-1]
  rows = ArrayRows(images, np.zeros(100, int), ('a',), columns={column: units})
  trained, held = split_validation(rows, 0.2)
  assert len(held) == 20 and len(trained) == 80
  if column == 'other':
    np.testing.assert_array_equal(held, held_out(100, 0.2)[1], 'rows are held out one by one')
  else:
    assert not {*units[trained]} & {*units[held]}
  assert len(split_validation(rows, 0.0)[1]) == 0
  words = dataclasses.replace(rows, columns={column: np.array([f'patient {k}' for k in units])})
  assert len(split_validation(words, 0.2)[1]) == 20


def test_streamed_versions_of_images_are_not_split():
  class Streamed(ArrayRows):
    def without_images(self, **options):
      raise InputError('it is streamed')

  facts = {'base_images': 2}
  rows = Streamed(np.zeros((4, 2, 2, 1), np.uint8), np.zeros(4, int), ('a',), facts=facts)
  refused('it is streamed', split_validation, rows, 0.5)
  assert len(split_validation(rows, 0.0)[1]) == 0
  assert len(split_validation(dataclasses.replace(rows, facts={}), 0.5)[1]) == 2


@pytest.fixture
def runner():
  key, devices = random_keys.stream(0, 'accuracy'), MeshParallel(jax.devices()[:2])
  return Evaluator(tiny_classifier(), stored_view(), key, devices)


def arrays(shards):
  return [shard.arrays for _, _, shard in shards]


def test_kept_blocks_are_read_once_and_give_the_same_shards(runner):
  rows, layout = tiny_rows(), runner.layout(21, 8)
  expected = arrays(runner.shards(rows, layout))
  size = sum(block.nbytes for block in runner.blocks_on_devices(rows, layout))
  for max_bytes, reads in ((size, 1), (size - 1, 3)):
    read = mock.Mock(side_effect=lambda: runner.blocks_on_devices(rows, layout))
    blocks = CachedBlocks(read, max_bytes)
    for _ in range(3):
      assert_same(arrays(runner.shards_of_blocks(blocks, layout)), expected)
    assert read.call_count == reads


def test_images_of_8_bits_give_the_shards_of_their_floats(runner):
  rows, layout = tiny_rows(), runner.layout(21, 8)
  stored = np.rint(rows.images * 255).astype(np.uint8)
  kinds = stored.astype(np.float32) / np.float32(255), stored
  variants = [dataclasses.replace(rows, images=images) for images in kinds]
  as_floats, as_stored = (arrays(runner.shards(rows, layout)) for rows in variants)
  assert_same(as_stored, as_floats)
