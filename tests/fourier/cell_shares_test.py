"""Shares of cells against plain loops over the cells of a map."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.evaluation.records import Layout, Records
from robustness.evaluation.study import Evaluation
from robustness.fourier.basis import distinct_frequencies
from robustness.fourier.cell_shares import (
  CLEAN,
  cell_counts,
  discordant_counts,
  discordant_shares,
  image_shares,
)

SIDE, ROWS = 4, 5
FREQUENCIES = distinct_frequencies(SIDE, SIDE)
VIEWS = 1 + len(FREQUENCIES)
WRONG = np.random.default_rng(0).random((2, ROWS, VIEWS)) < 0.4
MASK = np.arange(SIDE**2).reshape(SIDE, SIDE) % 3 > 0


def recorded(path: pathlib.Path, wrong: np.ndarray, block_rows: int = 2) -> Evaluation:
  layout = Layout(ROWS, VIEWS, block_rows, 3)
  records = Records(path, layout, {})
  for block in range(layout.num_blocks):
    for chunk in range(layout.num_chunks):
      rows, views = layout.rows(block), layout.views(chunk)
      rank = wrong[rows, views].astype(np.int32)
      records.write(block, chunk, {'rank': rank})
  return Evaluation(path.name, records)


def test_a_share_is_that_of_the_cells_of_a_mask(tmp_path: pathlib.Path) -> None:
  cells = cell_counts(FREQUENCIES, [MASK])
  assert cells[CLEAN] == 0 and cells.sum() == MASK.sum()
  shares = image_shares(recorded(tmp_path / 'first', WRONG[0]), cells)
  by_cell = WRONG[0][:, 1 + FREQUENCIES.cell[MASK]]
  np.testing.assert_allclose(shares[:, 0], by_cell.mean(1))


def test_of_a_pair_what_one_alone_has_right_is_counted(tmp_path: pathlib.Path) -> None:
  first, second = (
    recorded(tmp_path / label, wrong) for label, wrong in zip('ab', WRONG, strict=True)
  )
  only_first, only_second = ~WRONG[0] & WRONG[1], WRONG[0] & ~WRONG[1]
  b, c = discordant_counts(first, second)
  np.testing.assert_array_equal(b, only_first.sum(0))
  np.testing.assert_array_equal(c, only_second.sum(0))
  shares = discordant_shares(first, second, cell_counts(FREQUENCIES, [MASK]))
  for share, only in zip(shares, (only_first, only_second), strict=True):
    np.testing.assert_allclose(share[:, 0], only[:, 1 + FREQUENCIES.cell[MASK]].mean(1))


def test_shards_of_another_shape_are_refused(tmp_path: pathlib.Path) -> None:
  first, second = recorded(tmp_path / 'a', WRONG[0]), recorded(tmp_path / 'b', WRONG[1], ROWS)
  with pytest.raises(InputError, match='a and b are recorded in shards of another shape'):
    discordant_counts(first, second)
