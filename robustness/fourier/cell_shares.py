"""Shares of the cells of a heat map: of each image over many cells, and of a pair by cell.

View 0 is the clean one; a view for each distinct frequency follows, which fills one cell or two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from robustness.core.errors import InputError
from robustness.evaluation.study import Evaluation
from robustness.fourier.basis import Frequencies

CLEAN = 0
"""Index of the clean view; the distinct frequencies follow it."""


def cell_counts(frequencies: Frequencies, masks: Sequence[np.ndarray]) -> np.ndarray:
  """Returns how many cells of each mask a view fills, int [1 + V, masks]; the clean view none.

  Args:
    frequencies: a frequency fills a cell and, unless it is its own, its mirror's.
    masks: boolean maps [window height, window width].
  """
  cells = np.zeros((1 + len(frequencies), len(masks)), np.int64)
  for column, mask in enumerate(masks):
    cells[CLEAN + 1 :, column] = np.bincount(frequencies.cell[mask], minlength=len(frequencies))
  return cells


def image_shares(evaluation: Evaluation, cells: np.ndarray) -> np.ndarray:
  """Returns each image's share of wrong predictions over the cells of each mask, [N, masks].

  Args:
    evaluation: records of one classifier.
    cells: of `cell_counts`; no mask is empty.
  """
  wrong = np.zeros((evaluation.records.layout.num_rows, cells.shape[1]), np.int64)
  for shard in evaluation.records.shards():
    wrong[shard.rows] += (shard['rank'] > 0).astype(np.int64) @ cells[shard.views]
  return wrong / cells.sum(0, keepdims=True)


def discordant_shares(
  first: Evaluation, second: Evaluation, cells: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns each image's share of cells right with the first only and with the second only."""
  totals = np.zeros((2, first.records.layout.num_rows, cells.shape[1]), np.int64)
  for rows, views, b, c in _discordant(first, second):
    totals[0][rows] += b.astype(np.int64) @ cells[views]
    totals[1][rows] += c.astype(np.int64) @ cells[views]
  shares = totals / cells.sum(0, keepdims=True)
  return shares[0], shares[1]


def discordant_counts(first: Evaluation, second: Evaluation) -> tuple[np.ndarray, np.ndarray]:
  """Counts, for each view [V], the rows right with the first only and with the second only."""
  totals = np.zeros((2, first.records.layout.num_views), np.int64)
  for _, views, b, c in _discordant(first, second):
    totals[0][views] += b.sum(0)
    totals[1][views] += c.sum(0)
  return totals[0], totals[1]


def _discordant(
  first: Evaluation, second: Evaluation
) -> Iterator[tuple[slice, slice, np.ndarray, np.ndarray]]:
  """Yields rows, views, and what only the first and only the second has right, [rows, views]."""
  for shard, other in zip(first.records.shards(), second.records.shards(), strict=True):
    if (shard.rows, shard.views) != (other.rows, other.views):
      raise InputError(f'{first.label} and {second.label} are recorded in shards of another shape.')
    right = shard['rank'] == 0, other['rank'] == 0
    yield shard.rows, shard.views, right[0] & ~right[1], ~right[0] & right[1]
