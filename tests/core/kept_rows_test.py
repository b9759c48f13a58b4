"""Rows that are read once: the same batches, one reading, none for a few samples."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from robustness.core.kept_rows import KeptRows
from robustness.core.rows import ArrayRows, Batch
from tests.networks import tiny_rows


@dataclasses.dataclass
class CountedRows:
  """Rows on disk, as it were: they count how many images are decoded."""

  rows: ArrayRows
  decoded: int = 0

  def __getattr__(self, name: str) -> Any:
    return getattr(self.rows, name)

  def in_memory(self, most: int) -> ArrayRows | None:
    kept = self.rows.in_memory(most)
    self.decoded += self.rows.num_examples if kept else 0
    return kept

  def batches(self, *arguments: Any, **named: Any) -> Iterator[Batch]:
    for batch in self.rows.batches(*arguments, **named):
      self.decoded += int(batch['mask'].sum())
      yield batch


def same(first: Iterator[Batch], second: Iterator[Batch]) -> None:
  for one, other in zip(first, second, strict=True):
    assert one.keys() == other.keys()
    for name, value in one.items():
      np.testing.assert_array_equal(value, other[name])


def test_the_second_reading_decodes_nothing() -> None:
  counted = CountedRows(tiny_rows(21))
  kept = KeptRows(counted)
  for batch_size in (8, 5):
    same(kept.batches(batch_size), tiny_rows(21).batches(batch_size))
  same(kept.batches(8, [0, 2], stored=True), tiny_rows(21).batches(8, [0, 2], stored=True))
  assert counted.decoded == 21
  assert kept.num_examples == 21 and kept.description == counted.description


def test_samples_alone_keep_nothing() -> None:
  counted = CountedRows(tiny_rows(21))
  same(KeptRows(counted).batches(1, [0]), tiny_rows(21).batches(1, [0]))
  assert counted.decoded == 1


def test_rows_that_are_too_large_are_read_each_time() -> None:
  counted = CountedRows(tiny_rows(21))
  kept = KeptRows(counted, most=100)
  for _ in range(2):
    same(kept.batches(8), tiny_rows(21).batches(8))
  assert counted.decoded == 2 * 21
