"""Tables as lines of text, for the terminal."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from robustness.present.tables import tables
from robustness.results import Number, Results, Table

SHOWN = 40
"""How many numbers a summary has at most."""
TOLD, WIDTH = 4, 100
"""How many sentences are told at most, and in how many columns."""


def summary(results: Results) -> list[str]:
  """Returns the first numbers of results with their intervals, and below them their notes."""
  shown = dict(list(results.numbers.items())[:SHOWN])
  notes = list(dict.fromkeys(number.note for number in shown.values() if number.note))
  rows = [
    (name + _mark(number, notes), number.value, _interval(number), number.n)
    for name, number in shown.items()
  ]
  left = len(results.numbers) - len(shown)
  if not shown:
    return [line for own in tables(results) for line in (own.title, *lines(own.table))][:SHOWN]
  return [
    *(lines(Table((results.study, 'value', 'interval', 'n'), rows)) if rows else ()),
    *(f'[{index}] {note}' for index, note in enumerate(notes, 1)),
    *([f'... and {left} more in results.json'] if left > 0 else ()),
  ]


def findings(sentences: Sequence[str]) -> list[str]:
  """Returns the first sentences, broken into lines; from the second on a line is indented."""
  told = [
    line
    for sentence in sentences[:TOLD]
    for index, clause in enumerate(sentence.split('\n'))
    for line in textwrap.wrap(
      clause.strip(),
      WIDTH,
      initial_indent='    ' if index else '* ',
      subsequent_indent='    ',
      break_on_hyphens=False,
    )
  ]
  left = len(sentences) - TOLD
  return [*told, *([f'... and {left} more in the report'] if left > 0 else ())]


def _mark(number: Number, notes: list[str]) -> str:
  return f' [{notes.index(number.note) + 1}]' if number.note else ''


def _interval(number: Number) -> str:
  if math.isnan(number.low) and math.isnan(number.high):
    return 'none'
  return f'[{_cell(number.low)}, {_cell(number.high)}]'


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
