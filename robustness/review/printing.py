"""A table as lines of a terminal."""

from __future__ import annotations

from typing import Any

from robustness.results import Table


def text(table: Table) -> str:
  """Returns a table with aligned columns; fractions have four digits."""
  cells = [[_cell(value) for value in row] for row in (table.columns, *table.rows)]
  widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
  return '\n'.join(
    '  '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    for row in cells
  )


def _cell(value: Any) -> str:
  return f'{value:.4f}' if isinstance(value, float) else str(value)
