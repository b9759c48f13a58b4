"""Tests near-duplicates: hashes against ImageHash, pairs against brute force, shares and lists."""

import dataclasses
import sys

import numpy as np
import pytest

from robustness.core.rows import ArrayRows
from robustness.environments import near_duplicates
from robustness.environments.near_duplicates import (
  Hashed,
  compare_hashes,
  hash_rows,
  hashes,
  similar_pairs,
)
from robustness.studies.systematic import Systematic
from tests.refusals import bad_setting, refused

imagehash = pytest.importorskip('imagehash', reason='needs ImageHash')
Image = pytest.importorskip('PIL.Image')


def pictures(count: int = 6) -> np.ndarray:
  """Returns smooth random images, uint8 [count, 24, 20, 3]."""
  coarse = np.random.default_rng(0).integers(0, 256, (count, 6, 5, 3)).astype(np.uint8)
  return np.stack([np.asarray(Image.fromarray(p).resize((20, 24))) for p in coarse])


def test_hashes_equal_those_of_imagehash():
  images = pictures()
  theirs = [imagehash.phash(Image.fromarray(image)) for image in images]
  assert [f'{value:016x}' for value in hashes(images)] == [str(value) for value in theirs]
  np.testing.assert_array_equal(hashes(images.astype(np.float32) / 255), hashes(images))
  ours = np.bitwise_count(hashes(images)[:, None] ^ hashes(images))
  np.testing.assert_array_equal(ours, [[a - b for b in theirs] for a in theirs])
  grey = np.repeat(images[..., :1], 3, -1)
  np.testing.assert_array_equal(hashes(grey), hashes(images[..., :1]))
  assert hashes(images[:0]).shape == (0,)


def test_slightly_changed_copies_are_found_and_other_images_are_not():
  images = pictures()
  brighter = np.clip(images * 0.9 + 12, 0, 255).astype(np.uint8)
  smaller = np.stack([np.asarray(Image.fromarray(p).resize((16, 20))) for p in images])
  for copies in (brighter, smaller):
    table = similar_pairs(hashes(images), hashes(copies), 6)
    assert sorted(table[:, :2].tolist()) == [[k, k] for k in range(6)]


def test_pairs_equal_those_of_brute_force(monkeypatch):
  draw = np.random.default_rng(0)
  first, second = (draw.integers(0, 2**8, count, np.uint64) for count in (40, 30))
  distances = np.bitwise_count(first[:, None] ^ second)
  expected = sorted((distances[i, j], i, j) for i, j in np.argwhere(distances <= 2))
  for max_pairs in (2**22, 70):  # all 40 · 30 pairs at once, and two rows at a time
    monkeypatch.setattr(near_duplicates, '_MAX_PAIRS_AT_ONCE', max_pairs)
    table = similar_pairs(first, second, 2)
    assert [(bits, i, j) for i, j, bits in table.tolist()] == expected
  assert similar_pairs(first, second[:0], 2).shape == (0, 3)


def hashed_rows(values: list[int], first: int = 0) -> Hashed:
  """Returns rows of these hashes, numbered from `first`: cat, dog and pig in turn, all photos."""
  ids = np.arange(len(values))
  names, style = np.array(['cat', 'dog', 'pig'])[ids % 3], np.full(len(ids), 'photo')
  return Hashed(np.array(values, np.uint64), first + ids, names, style)


def test_the_share_counts_test_images_and_the_table_lists_pairs(monkeypatch):
  # Within one bit, image 0 is near training image 10 and image 2 equals training image 12.
  test, training = hashed_rows([0b0, 0b1111, 0xFF00]), hashed_rows([0b1, 0b11, 0xFF00], first=10)
  shares, table = compare_hashes(test, {'a': training, 'b': hashed_rows([2**63 - 1])}, 1)
  assert shares['a'].value == pytest.approx(2 / 3) and shares['a'].n == 3
  assert shares['a'].note == '2 pairs that differ in at most 1 of 64 bits'
  assert shares['b'].value == 0
  assert table.rows == [
    ['a', 2, 12, 0, 'pig', 'pig', 'photo', 'photo'],
    ['a', 0, 10, 1, 'cat', 'cat', 'photo', 'photo'],
  ]
  monkeypatch.setattr(near_duplicates, 'LISTED', 1)
  shares, table = compare_hashes(test, {'a': training}, 1)
  assert 'the nearest 1 are listed' in shares['a'].note and len(table.rows) == 1


def test_hashed_rows_have_the_number_class_and_environment_of_each_image():
  images = pictures()
  rows = ArrayRows(images, np.arange(6) % 2, ('cat', 'dog'), np.arange(50, 56))
  read = hash_rows(rows)
  np.testing.assert_array_equal(read.hashes, hashes(images))
  assert read.example_ids.tolist() == list(range(50, 56))
  assert read.classes.tolist() == ['cat', 'dog'] * 3 and set(read.environments) == {''}
  unrelated = dataclasses.replace(rows, columns={'environment': np.array(['street', 'studio'] * 3)})
  assert set(hash_rows(unrelated).environments) == {''}, 'words of a user are no environments'
  columns = {'environment': np.arange(6, dtype=np.int32) % 2}
  rows = dataclasses.replace(rows, columns=columns, facts={'environments': ['photo', 'sketch']})
  assert hash_rows(rows).environments.tolist() == ['photo', 'sketch'] * 3


def test_unusable_numbers_of_bits_and_a_missing_package_are_refused(monkeypatch):
  refused(bad_setting('config.study.near_duplicates', 40), Systematic, near_duplicates=40)
  refused(bad_setting('config.study.near_duplicates', -2), Systematic, near_duplicates=-2)
  monkeypatch.setitem(sys.modules, 'imagehash', None)  # as if it were not installed
  refused('pip install ImageHash', Systematic, near_duplicates=4)
  assert not Systematic().compares_training_rows
