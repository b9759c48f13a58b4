"""Finds rows of a table of results, and compares them with arrays."""

from typing import Any

import numpy as np
import pandas as pd

from robustness.estimates.table import select


def estimate(
  table: pd.DataFrame, classifier: str, quantity: str, versus: str = '', **facets: Any
) -> Any:
  rows = select(table, quantity, versus, **facets)
  rows = rows[rows.classifier == classifier]
  assert len(rows) == 1, f'{len(rows)} rows of {classifier} {quantity} {facets}'
  return rows.iloc[0]


def assert_same_arrays(rows: pd.DataFrame, *arrays: np.ndarray) -> None:
  for column, values in zip(('value', 'low', 'high', 'p'), arrays, strict=False):
    np.testing.assert_allclose(rows[column], values.ravel(), atol=1e-9, err_msg=column)
