"""Finds rows of a table of results."""

from typing import Any

import pandas as pd

from robustness.estimates.table import select


def estimate(
  table: pd.DataFrame, classifier: str, quantity: str, versus: str = '', **facets: Any
) -> Any:
  """Returns the only row of a classifier and quantity with these facets."""
  rows = select(table, quantity, versus, **facets)
  rows = rows[rows.classifier == classifier]
  assert len(rows) == 1, f'{len(rows)} rows of {classifier} {quantity} {facets}'
  return rows.iloc[0]
