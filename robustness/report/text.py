"""Tables as lines of text, for the log."""

from __future__ import annotations

import math
from typing import Any

from robustness.results import Table


def lines(table: Table) -> list[str]:
  """Returns the head and the rows in columns of even width; fractions have four decimals."""
  cells = [[str(column) for column in table.columns], *([*map(_cell, row)] for row in table.rows)]
  widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
  return [
    '  '.join(
      text.ljust(width) if place == 0 else text.rjust(width)
      for place, (text, width) in enumerate(zip(row, widths, strict=True))
    ).rstrip()
    for row in cells
  ]


def _cell(value: Any) -> str:
  if value is None or (isinstance(value, float) and math.isnan(value)):
    return '-'
  return f'{value:.4f}' if isinstance(value, float) else str(value)
