"""Compares rows of a study's table of results with its numbers and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from robustness.estimates.table import select
from robustness.results import Number


def estimate(
  table: pd.DataFrame, classifier: str, quantity: str, versus: str = '', **facets: Any
) -> Any:
  """Returns the one row of an estimate."""
  rows = select(table, quantity, versus, **facets)
  rows = rows[rows.classifier == classifier]
  assert len(rows) == 1, f'{len(rows)} rows of {classifier} {quantity} {facets}'
  return rows.iloc[0]


def assert_same(row: Any, number: Number) -> None:
  """Fails unless a row has a number's value, interval, n and note."""
  ends = (row.value, row.low, row.high)
  assert ends == pytest.approx((number.value, number.low, number.high), abs=1e-9, nan_ok=True)
  assert (row.n, row.note) == (number.n, number.note)


def assert_same_arrays(rows: pd.DataFrame, *arrays: np.ndarray) -> None:
  """Fails unless the values, and low and high ends, of rows are those of arrays, in order."""
  for column, values in zip(('value', 'low', 'high', 'p'), arrays, strict=False):
    np.testing.assert_allclose(rows[column], values.ravel(), atol=1e-9, err_msg=column)
