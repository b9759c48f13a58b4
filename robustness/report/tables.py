"""Tables of the report: sortable where scripts run, with numbers named in plain words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from robustness.results import Number, Results
from robustness.wording.number_labels import label_of
from robustness.wording.phrases import words as words

_LONG = 60  # letters of a cell from which it is broken into lines


class Named(NamedTuple):
  """A cell: what a number is in plain words, and its key in `results.json`."""

  plain: str
  key: str


def number_table(results: Results) -> str:
  """The numbers with intervals, each with a plain label above its key."""
  numbers = results.numbers
  rows = [
    [
      Named(label_of(results, name), name),
      number.value,
      _interval(number),
      number.n,
      number.interval,
      number.note,
    ]
    for name, number in numbers.items()
  ]
  columns = ['number', 'value', 'interval', 'n', 'method and confidence', 'note']
  if not any(number.note for number in numbers.values()):
    columns, rows = columns[:-1], [row[:-1] for row in rows]
  return table(columns, rows)


def confidences(results: Results) -> list[float]:
  """Returns the confidences of the numbers' intervals, such as [0.95]; without numbers those of the
  table of results."""
  if not results.numbers:
    return sorted(set(results.table.confidence[results.table.low.notna()]))
  found = {
    float(match[0])
    for number in results.numbers.values()
    for match in [re.search(r'\b0?\.\d+', number.interval)]
    if match
  }
  return sorted(found)


def _interval(number: Number) -> str:
  if math.isnan(number.low) and math.isnan(number.high):
    return 'none'
  return f'[{_cell(number.low)}, {_cell(number.high)}]'


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
  """A table that scrolls sideways where it is wider than the page."""
  cells = [list(row) for row in rows]
  if not cells:
    return ''
  numeric = [all(_is_number(row[i]) for row in cells) for i in range(len(columns))]
  head = ''.join(
    _tagged('th scope="col"', words(column), right)
    for column, right in zip(columns, numeric, strict=True)
  )
  body = '\n'.join(f'<tr>{_row(row, numeric)}</tr>' for row in cells)
  return (
    '<div class="scroll"><table>\n'
    f'<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'
  )


def _row(row: Sequence[Any], numeric: Sequence[bool]) -> str:
  tags = ['th scope="row"'] + ['td'] * (len(row) - 1)
  return ''.join(
    _named(tag, cell) if isinstance(cell, Named) else _tagged(tag, _cell(cell), right)
    for tag, cell, right in zip(tags, row, numeric, strict=True)
  )


def _named(tag: str, cell: Named) -> str:
  key = re.sub('([/_])', r'\1<wbr>', escape(cell.key))
  return f'<{tag} class="named">{escape(cell.plain)} <code>{key}</code></{tag.split()[0]}>'


def _tagged(tag: str, text: str, right: bool) -> str:
  kind = ' class="number"' if right else ' class="long"' if len(text) > _LONG else ''
  return f'<{tag}{kind}>{escape(text)}</{tag.split()[0]}>'


def _is_number(value: Any) -> bool:
  """Whether a cell belongs in a column of numbers; a missing one does."""
  return value is None or (
    isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
  )


def _cell(value: Any) -> str:
  """A value as a reader wants it: four decimals or significant digits, never 'nan'."""
  if isinstance(value, np.generic):
    value = value.item()
  if value is None or (isinstance(value, float) and math.isnan(value)):
    return 'not available'
  if isinstance(value, float):
    return f'{value:.4f}' if 0.001 <= abs(value) < 1000 or value == 0 else f'{value:.4g}'
  return str(value)
