"""Text for the terminal: the headlines and the findings of a run, and tables."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from robustness.present import headlines
from robustness.present.choice import labels_of
from robustness.results import Results, Table

MAX_SENTENCES, WIDTH = 4, 100
"""The most sentences that are printed, and the letters of a line."""


def summary(results: Results) -> list[str]:
  """Returns lines with each classifier's headlines and paired differences, and their notes.

  Without headlines, a line refers to the report.
  """
  tasks = results.over_seeds.by_task
  rows, labels = headlines.cells(tasks), labels_of(tasks)
  if not rows:
    count = len(results.table)
    return [f'{count} estimates, too many to print: see the report.'] if count else []
  notes = list(dict.fromkeys(note for row in rows for note in row.notes.values()))
  baselines = list(dict.fromkeys(versus for row in rows for _, versus in row.values if versus))
  table = [
    [
      row.name if place == 0 else '',
      label,
      *(_marked(row, (label, versus), notes) for versus in ('', *baselines)),
    ]
    for row in rows
    for place, label in enumerate(sorted({label for label, _ in row.values}, key=labels.index))
  ]
  heads = ['', '', 'value', *(f'minus {label}' for label in baselines)]
  if len(labels) == 1:
    heads, table = ['', *labels], [[name, value] for name, _, value in table]
  footnotes = [f'[{number}] {note}' for number, note in enumerate(notes, 1)]
  return [*lines(Table(heads, table)), *footnotes]


def _marked(row: headlines.HeadlineText, key: tuple[str, str], notes: Sequence[str]) -> str:
  """Returns a headline's value for (classifier, versus), and the number of its note in brackets."""
  note = row.notes.get(key)
  return row.values.get(key, '') + (f' [{notes.index(note) + 1}]' if note else '')


def findings(sentences: Sequence[str]) -> list[str]:
  """Returns the first sentences as indented lines, each sentence with a bullet."""
  lines = [
    line
    for sentence in sentences[:MAX_SENTENCES]
    for index, clause in enumerate(sentence.split('\n'))
    for line in textwrap.wrap(
      clause.strip(),
      WIDTH,
      initial_indent='    ' if index else '* ',
      subsequent_indent='    ',
      break_on_hyphens=False,
    )
  ]
  num_omitted = len(sentences) - MAX_SENTENCES
  return [*lines, *([f'... and {num_omitted} more in the report'] if num_omitted > 0 else ())]


def lines(table: Table) -> list[str]:
  """Returns the head and the rows of a table as aligned text; fractions have four decimals."""
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
  """Returns a value as the text of a table cell; '-' if it is missing."""
  if value is None or (isinstance(value, float) and math.isnan(value)):
    return '-'
  return f'{value:.4f}' if isinstance(value, float) else str(value)
