"""Blocks that stay on the devices between evaluations, and which training rows are held out."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

from robustness.core import random_keys
from robustness.core.rows import ArrayRows
from robustness.core.sampler import held_out
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.views import identity
from robustness.parallel.mesh import MeshParallel
from robustness.training.evaluation import KeptBlocks, split_validation
from tests.networks import tiny_classifier, tiny_rows

UNITS = np.repeat(np.arange(20), 5)


@pytest.mark.parametrize('column', ['group_id', 'base_id'])
def test_frames_of_a_clip_and_versions_of_an_image_are_on_one_side(column: str) -> None:
  images = np.zeros((100, 2, 2, 1), np.float32)
  rows = ArrayRows(images, np.zeros(100, int), ('a',), columns={column: UNITS[::-1]})
  kept, held = split_validation(rows, 0.2)
  assert len(held) == 20 and len(kept) == 80
  assert not {*rows.columns[column][kept]} & {*rows.columns[column][held]}
  assert len(split_validation(rows, 0.0)[1]) == 0


def test_other_rows_are_held_out_one_by_one() -> None:
  rows = ArrayRows(np.zeros((100, 2, 2, 1), np.float32), np.zeros(100, int), ('a',))
  np.testing.assert_array_equal(split_validation(rows, 0.2)[1], held_out(100, 0.2)[1])


def evaluator() -> Evaluator:
  key, devices = random_keys.stream(0, 'accuracy'), MeshParallel(jax.devices()[:2])
  return Evaluator(tiny_classifier(), identity(), key, devices)


def test_kept_blocks_are_read_once_and_give_the_same_shards():
  rows = tiny_rows()
  runner = evaluator()
  layout = runner.layout(rows.num_examples, 8)
  expected = [shard.arrays for _, _, shard in runner.shards(rows, layout)]
  size = sum(block.nbytes for block in runner.placed(rows, layout))
  for most, reads in ((size, 1), (size - 1, 3)):
    counted = []

    def read(counted=counted):
      counted.append(1)
      return runner.placed(rows, layout)

    blocks = KeptBlocks(read, most)
    for _ in range(3):
      shards = [shard.arrays for _, _, shard in runner.shards_of(blocks, layout)]
      jax.tree.map(np.testing.assert_array_equal, shards, expected)
    assert len(counted) == reads


def test_images_of_8_bits_give_the_shards_of_their_floats():
  rows = tiny_rows()
  stored = np.rint(rows.images * 255).astype(np.uint8)
  runner = evaluator()
  layout = runner.layout(rows.num_examples, 8)
  as_floats, as_stored = (
    [shard.arrays for _, _, shard in runner.shards(dataclasses.replace(rows, images=i), layout)]
    for i in (stored.astype(np.float32) / np.float32(255), stored)
  )
  jax.tree.map(np.testing.assert_array_equal, as_stored, as_floats)
