"""What the terminal prints of a run: its headlines, its findings, tables."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from robustness.present import headlines
from robustness.results import Results, Table

TOLD, WIDTH = 4, 100
"""How many sentences are told at most, and in how many columns."""


def summary(results: Results) -> list[str]:
  """Returns the headline quantities of each classifier beside its paired differences, and notes;
  where none has few enough estimates, where these are."""
  rows = headlines.cells(results.over_seeds.by_task)
  if not rows:
    count = len(results.table)
    return [f'{count} estimates, too many to print: see the report.'] if count else []
  notes = list(dict.fromkeys(note for row in rows for note in row.notes.values()))
  firsts = list(dict.fromkeys(versus for row in rows for _, versus in row.values if versus))
  table = [
    [
      row.name if place == 0 else '',
      label,
      *(_marked(row, (label, versus), notes) for versus in ('', *firsts)),
    ]
    for row in rows
    for place, label in enumerate(dict.fromkeys(label for label, _ in row.values))
  ]
  heads = ('', '', 'value', *(f'minus {first}' for first in firsts))
  below = [f'[{number}] {note}' for number, note in enumerate(notes, 1)]
  return [*lines(Table(heads, table)), *below]


def _marked(row: headlines.HeadlineText, key: tuple[str, str], notes: Sequence[str]) -> str:
  note = row.notes.get(key)
  return row.values.get(key, '') + (f' [{notes.index(note) + 1}]' if note else '')


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
