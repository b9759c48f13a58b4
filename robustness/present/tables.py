"""Tables for readers: a quantity by its facets, with classifiers and differences as columns."""

import csv
import html
import io
import itertools
import math
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import pandas as pd

from robustness.core.plain_characters import escaped
from robustness.estimates.facets import Facet
from robustness.estimates.quantity import Quantity
from robustness.estimates.systematic import DEGENERATE
from robustness.present import notation
from robustness.results import Results, Table

MOST_ROWS = 60
"""Most rows of a table in a report; results.csv alone has the estimates of longer ones."""
CELL = ('value', 'low', 'high', 'note')
"""Columns of the table of results that the text of a cell is made from."""
_GREEK_NAMES = (
  *('alpha', 'beta', 'gamma', 'delta', 'kappa', 'lambda'),
  *('mu', 'pi', 'rho', 'sigma', 'tau'),
)
_LATEX = str.maketrans(
  {c: f'\\{c}' for c in '&%$#_{}'}
  | {c: f'{{{c}}}' for c in '[]*'}  # else arguments of the line break \\ before them
  | {c: f'${c}$' for c in '<>|'}
  | {'\\': '\\textbackslash{}', '^': '\\textasciicircum{}', '~': '\\textasciitilde{}'}
  | {'−': '$-$', '×': '$\\times$', '°': '$^\\circ$', '\n': ' '}
  | {'↓': '$\\downarrow$', '↑': '$\\uparrow$', '≤': '$\\le$', '≥': '$\\ge$'}
  | {'ε': '$\\varepsilon$', 'ℓ': '$\\ell$', '∞': '$\\infty$'}
  | {c: f'$\\{name}$' for c, name in zip('αβγδκλμπρστ', _GREEK_NAMES, strict=True)}
)
_MARKDOWN = str.maketrans({c: f'\\{c}' for c in '\\|<*`'} | dict.fromkeys('\n\r', ' '))
_Key = TypeVar('_Key', bound=tuple[Any, ...])


class Titled(NamedTuple):
  """A table of estimates with its title.

  Attributes:
    title: the quantity with its unit, and the grouping columns.
    table: the table; its cells are text.
    name: name of the table, and of the figure of the same rows.
  """

  title: str
  table: Table
  name: str = ''


def tables(results: Results) -> Iterator[Titled]:
  """Yields a table for each quantity and set of grouping columns, such as corruption and severity.

  Cells have intervals. Tables of more than `MOST_ROWS` rows are left out.
  """
  for quantity, facets, rows in results.by_facets():
    # In a row, which is a condition, a classifier has at most two estimates: a value and a
    # difference. With more than 2 * `MOST_ROWS` estimates there are too many rows.
    if rows.groupby('classifier').size().max() > 2 * MOST_ROWS:
      continue
    wide = _wide_table(rows, quantity, facets)
    if len(wide.rows) <= MOST_ROWS:
      by = notation.joined_words(quantity, facets)
      title = f'{notation.Notation(quantity).head}{f" by {by}" if by else ""}'
      yield Titled(title, wide, notation.name_of(quantity.name, facets))


def left_out(results: Results, names: Container[str]) -> list[str]:
  """Returns a line for each set of estimates without a table.

  An example is 'top-1 error by frequency: 1,200 rows'.

  Args:
    results: the results.
    names: names of the existing tables.
  """
  return [
    f'{quantity.words} by {notation.joined_words(quantity, facets)}: {len(rows):,} rows'
    for quantity, facets, rows in results.by_facets()
    if notation.name_of(quantity.name, facets) not in names
  ]


def _wide_table(rows: pd.DataFrame, quantity: Quantity, facets: tuple[str, ...]) -> Table:
  """Returns a table with a row per condition, and a column per classifier and per difference.

  Numbers of conditions ascend; their names keep the order in which they first occur.

  Args:
    rows: rows of the table of results.
    quantity: their quantity.
    facets: the grouping columns that make up a condition, such as ('corruption', 'severity').
  """
  # {condition, the values of the facets: {(classifier, versus): text of the cell}}
  texts: dict[tuple[Any, ...], dict[tuple[str, str], str]] = {}
  for row in rows[['classifier', 'versus', *CELL, *facets]].itertuples(index=False):
    condition = row[-len(facets) :] if facets else ()
    texts.setdefault(condition, {})[row.classifier, row.versus] = _estimate_text(quantity, row)
  # (classifier, versus) of each column; values are before differences
  pairs = dict.fromkeys(zip(rows.classifier, rows.versus, strict=True))
  columns = sorted(pairs, key=lambda pair: pair[1] != '')
  ordered_values = []  # for each facet
  for name in facets:
    values = rows[name].sort_values() if notation.is_axis(quantity, rows, name) else rows[name]
    ordered_values.append(list(dict.fromkeys(values)))
  lines = []
  for condition in in_order(texts, ordered_values):
    named_values = zip(facets, condition, strict=True)
    words = [_facet_text(quantity.facet(name), value) for name, value in named_values]
    # Without facets there is one line, which begins with the quantity.
    words = words or [quantity.words]
    lines.append([*words, *(texts[condition].get(column, '') for column in columns)])
  heads = [quantity.facet(name).axis for name in facets] or ['quantity']
  return Table((*heads, *itertools.starmap(notation.column_name, columns)), lines)


def _estimate_text(quantity: Quantity, row: Any) -> str:
  """Formats an estimate with its interval for a cell of a table, such as '31.2 (30.1 to 32.4)'.

  The text of an undefined estimate (NaN) is the reason, such as 'no image', and an estimate without
  variation, which has no valid interval, ends with ', degenerate'.

  Args:
    quantity: the quantity, which decides on units and digits.
    row: a row of the table of results, with `value`, the ends of its interval, `note` and `versus`:
      the label of the classifier that was subtracted, or '' if the estimate is no difference.
  """
  # notes are separated by ';', and the reason of NaN and 'degenerate' are first
  first_note = row.note.partition(';')[0]
  if math.isnan(row.value) and first_note:
    return first_note
  text = notation.Notation(quantity, difference=bool(row.versus)).bare(row)
  return f'{text}, {first_note}' if first_note == DEGENERATE else text


def in_order(keys: Iterable[_Key], ordered_values: Sequence[Sequence[Any]]) -> list[_Key]:
  """Sorts keys such as ('fog', 3) by their first value, then by the next.

  Args:
    keys: the keys.
    ordered_values: order of the first values, then of the next ones, such as [['fog', 'snow'],
      [1, 3, 5]].
  """

  def positions_of(key: _Key) -> list[int]:
    """Returns the position of each value of a key in `ordered_values`."""
    return [values.index(value) for values, value in zip(ordered_values, key, strict=True)]

  return sorted(keys, key=positions_of)


def _facet_text(facet: Facet, value: Any) -> str:
  """Formats a value of a grouping column as the cell of a table.

  Attacks and their radii ε are written as in papers, such as 'PGD' and '8/255'. Other numbers have
  four significant digits.
  """
  if facet.name in ('attack', 'epsilon'):
    return notation.value_text(facet, value)
  return value if isinstance(value, str) else cell_text(value).replace('-', notation.MINUS)


def cell_text(value: Any, missing: str = '') -> str:
  """Formats a cell of a table: floats have four significant digits.

  Args:
    value: the content of the cell.
    missing: text for None and NaN.
  """
  if value is None or value != value:  # NaN
    return missing
  return f'{value:.4g}' if isinstance(value, float) else str(value)


Cell = tuple[int, int]
"""The position of a cell: its row, counted from 0 below the head, and its column."""


def to_csv(table: Table, bold: Container[Cell] = ()) -> str:
  """Returns a table as CSV. `bold` is ignored, since CSV has no bold cells."""
  buffer = io.StringIO()
  lines = (map(cell_text, line) for line in (table.columns, *table.rows))
  readable = ([cell.replace(notation.MINUS, '-') for cell in line] for line in lines)
  csv.writer(buffer, lineterminator='\n').writerows(readable)
  return buffer.getvalue()


def to_markdown(table: Table, bold: Container[Cell] = ()) -> str:
  """Returns a table in GitHub's Markdown.

  Args:
    table: the table.
    bold: positions of the cells to print in bold.
  """
  head, *rows = _mark_cells(table, bold, _markdown_cell, '**{}**')
  lines = [head, ['---'] * len(table.columns), *rows]
  return ''.join(f'| {" | ".join(cells)} |\n' for cells in lines)


def markdown_text(text: str) -> str:
  """Escapes characters in a text that have a meaning in Markdown or HTML, such as '*' and '<'."""
  return _markdown_cell(html.escape(text, quote=False))


def _markdown_cell(text: str) -> str:
  """Escapes characters in a text that have a meaning in a Markdown table."""
  return escaped(text).translate(_MARKDOWN).replace('](', ']\\(')  # which would begin a link


def _latex_text(text: str) -> str:
  """Escapes characters in a text that have a meaning in LaTeX."""
  return escaped(text).translate(_LATEX)


def to_latex(table: Table, bold: Container[Cell] = ()) -> str:
  """Returns a table as a LaTeX `tabular`, with rules of the package booktabs.

  Args:
    table: the table.
    bold: positions of the cells to print in bold.
  """
  marked_rows = _mark_cells(table, bold, _latex_text, '\\textbf{{{}}}')
  head, *rows = [f'{" & ".join(cells)} \\\\\n' for cells in marked_rows]
  return (
    f'\\begin{{tabular}}{{l{"r" * (len(table.columns) - 1)}}}\n\\toprule\n{head}'
    f'\\midrule\n{"".join(rows)}\\bottomrule\n\\end{{tabular}}\n'
  )


def _mark_cells(
  table: Table, bold: Container[Cell], escape: Callable[[str], str], mark: str
) -> Iterator[list[str]]:
  """Yields the escaped cells of the head and then of each row, with marks around bold cells.

  Args:
    table: the table.
    bold: positions (row, column) of the bold cells, from 0; the head is row −1.
    escape: function that escapes special characters of the format, such as Markdown's.
    mark: format string of a bold cell, such as '**{}**'.
  """
  for row, cells in enumerate([table.columns, *table.rows], -1):
    texts = [escape(cell_text(cell)) for cell in cells]
    yield [
      mark.format(text) if (row, column) in bold else text for column, text in enumerate(texts)
    ]
