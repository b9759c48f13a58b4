"""Tables that people read: a quantity by its facets, classifiers and differences as columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd

from robustness.estimates.quantity import Quantity, facet
from robustness.estimates.table import by_facets
from robustness.present.notation import Notation
from robustness.results import Results, Table

MOST_ROWS = 60
"""Of a table; more are in the file alone."""


class Titled(NamedTuple):
  """A table under its title."""

  title: str
  table: Table


def tables(results: Results) -> Iterator[Titled]:
  """Yields a table for each quantity and set of facets that is not too long to be read.

  Cells have the interval in brackets; the unit is in the title.
  """
  for quantity in results.presented:
    own = results.table[results.table['quantity'] == quantity.name]
    for facets, rows in by_facets(own):
      if rows[['classifier', *facets]].groupby('classifier').size().max() > 2 * MOST_ROWS:
        continue
      wide = _wide(rows, quantity, facets)
      if len(wide.rows) <= MOST_ROWS:
        by = ' and '.join(facet(name).words for name in facets)
        yield Titled(f'{Notation(quantity).head}{f" by {by}" if by else ""}', wide)


def _wide(rows: pd.DataFrame, quantity: Quantity, facets: tuple[str, ...]) -> Table:
  """Returns a row for each value of the facets, a column for each classifier and difference."""
  columns: dict[tuple[str, str], str] = {}
  cells: dict[tuple[Any, ...], dict[tuple[str, str], str]] = {}
  keys = zip(*(rows[name] for name in facets), strict=True) if facets else [()] * len(rows)
  for key, row in zip(keys, rows.itertuples(index=False), strict=True):
    column = (str(row.classifier), str(row.versus))
    columns[column] = f'{row.classifier} − {row.versus}' if row.versus else str(row.classifier)
    notation = Notation(quantity, difference=bool(row.versus))
    cells.setdefault(key, {})[column] = notation.bare(row)
  ordered = sorted(columns, key=lambda column: bool(column[1]))
  heads = [facet(name).words for name in facets] or ['quantity']
  return Table(
    (*heads, *(columns[column] for column in ordered)),
    [
      [*(key or (quantity.words,)), *(own.get(column, '') for column in ordered)]
      for key, own in cells.items()
    ],
  )
