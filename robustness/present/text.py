"""Text for the terminal: the headlines and the findings of a run, and tables."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from robustness.present import headlines
from robustness.results import Results, Table, labels_of

MAX_SENTENCES, MAX_CLASS_LINES, WIDTH = 4, 3, 100
"""Most findings and lines about single classes that are printed, and letters in a line."""


def summary(results: Results) -> list[str]:
  """Returns the headline (main) quantities of a run as lines for the terminal.

  They have each classifier's values, paired differences and notes. Single classes come last, with
  at most `MAX_CLASS_LINES` lines. If there are no headlines, a line refers to the report.
  """
  tasks = results.over_seeds.by_task
  rows, labels = headlines.headline_texts(tasks), labels_of(tasks)
  if not rows:
    count = len(results.table)
    return [f'{count} estimates, too many to print: see the report.'] if count else []
  printed_rows = _without_many_classes(rows)
  notes = list(dict.fromkeys(note for row in printed_rows for note in row.notes.values()))
  baselines = list(dict.fromkeys(base for row in printed_rows for _, base in row.values if base))
  # A line is [headline, classifier, value, differences from baselines]. Their texts in `row.values`
  # have the keys (classifier, '') and (classifier, baseline).
  heads = ['', '', 'value', *(f'minus {label}' for label in baselines)]
  table = []
  for row in printed_rows:
    name = row.name
    for label in sorted({label for label, _ in row.values}, key=labels.index):
      cells = [name, label]
      for versus in ('', *baselines):
        text, note = row.values.get((label, versus), ''), row.notes.get((label, versus))
        cells.append(f'{text} [{notes.index(note) + 1}]' if note else text)
      table.append(cells)
      name = ''  # in the lines of other classifiers
  if len(labels) == 1:  # there are no differences, and the label is the head of the values
    heads = ['', *labels]
    table = [[name, value] for name, _, value in table]
  footnotes = [f'[{number}] {note}' for number, note in enumerate(notes, 1)]
  if len(printed_rows) < len(rows):
    footnotes.append('further headlines of single classes are in the report')
  return [*lines(Table(heads, table)), *footnotes]


def _without_many_classes(rows: Sequence[headlines.HeadlineText]) -> list[headlines.HeadlineText]:
  """Leaves out main quantities of single classes after `MAX_CLASS_LINES` lines, for a terminal.

  All other main quantities are kept. A quantity has a line for each classifier.

  Args:
    rows: the texts of the main quantities.
  """
  printed_rows, num_class_lines = [], 0
  for row in rows:
    if row.is_by_class:
      num_class_lines += len({label for label, _ in row.values})
    if not row.is_by_class or num_class_lines <= MAX_CLASS_LINES:
      printed_rows.append(row)
  return printed_rows


def findings(sentences: Sequence[str]) -> list[str]:
  """Returns the first `MAX_SENTENCES` sentences as indented lines, with a bullet before each.

  A last line counts the sentences that are left out.
  """
  wrapper = textwrap.TextWrapper(WIDTH, subsequent_indent='    ', break_on_hyphens=False)
  lines = []
  for sentence in sentences[:MAX_SENTENCES]:
    wrapper.initial_indent = '* '
    for clause in sentence.split('\n'):
      lines += wrapper.wrap(clause.strip())
      wrapper.initial_indent = '    '
  if len(sentences) > MAX_SENTENCES:
    lines.append(f'... and {len(sentences) - MAX_SENTENCES} more in the report')
  return lines


def lines(table: Table) -> list[str]:
  """Formats a table as lines of aligned text, in which floats have four decimals."""
  rows = [[str(column) for column in table.columns]]
  rows += [[_cell(value) for value in row] for row in table.rows]
  columns = zip(*rows, strict=True)
  name_width, *widths = [max(map(len, column)) for column in columns]
  lines = []
  for name, *cells in rows:
    aligned = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
    lines.append('  '.join([name.ljust(name_width), *aligned]).rstrip())
  return lines


def _cell(value: Any) -> str:
  """Formats a cell of a table; missing values become '-'."""
  if value is None or (isinstance(value, float) and math.isnan(value)):
    return '-'
  return f'{value:.4f}' if isinstance(value, float) else str(value)
