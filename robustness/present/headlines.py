"""The headlines of a run as a table and as figures, classifiers side by side.

A headline is a quantity that reports state first, such as mCE.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from robustness.estimates.quantity import Quantity
from robustness.estimates.table import ESTIMATE, SUBJECT
from robustness.present import charts, forms
from robustness.present.choice import CLASS, first_headlines, headlines, short_names
from robustness.present.notation import Notation, column_name
from robustness.results import Results, Table, labels_of


class HeadlineText(NamedTuple):
  """A headline, which is one of the main results, as text.

  Attributes:
    name: its name with the unit.
    values: values as text by (classifier, versus), where `versus` is the classifier that is
      subtracted or ''.
    notes: notes by the same keys.
    is_of_classes: whether it is about single classes.
  """

  name: str
  values: dict[tuple[str, str], str]
  notes: dict[tuple[str, str], str]
  is_of_classes: bool = False


def cells(tasks: Mapping[str, Results], limit: int = 0) -> list[HeadlineText]:
  """Returns the headlines as text; the worst of several values is followed by its condition.

  Args:
    tasks: results by task.
    limit: the number of headlines, spread over the tasks, under short names; 0 returns all under
      full names.
  """
  texts, choices = [], headlines(tasks)
  choices = first_headlines(choices, limit) if limit else choices
  names = short_names(choices) if limit else [choice.name for choice in choices]
  for name, choice in zip(names, choices, strict=True):
    unit = Notation(choice.quantity).unit
    full_name = f'{name} ({unit})' if unit else name
    line = HeadlineText(full_name, values={}, notes={}, is_of_classes=CLASS in choice.facets)
    for _, row in choice.summary_rows.iterrows():
      key = row.classifier, row.versus
      text = Notation(choice.quantity, difference=bool(row.versus)).bare(row)
      if math.isnan(row.value):  # the first part of the note is the reason
        line.values[key] = row.note.partition(';')[0]
        continue
      line.values[key] = f'{text} {choice.place_words(row)}'.rstrip()
      coverage = choice.coverage if choice.extremes is not None else ''
      if note := '; '.join(filter(None, (coverage, row.note))):
        line.notes[key] = note
    texts.append(line)
  return texts


def joined_notes(row: HeadlineText) -> str:
  """Returns the notes of a headline as one text.

  A note is preceded by the columns it concerns, unless it concerns all.
  """
  columns: dict[str, list[str]] = {}
  for key, note in row.notes.items():
    columns.setdefault(note, []).append(column_name(*key))
  return '; '.join(
    note if len(names) == len(row.values) else f'{", ".join(names)}: {note}'
    for note, names in columns.items()
  )


def table(tasks: Mapping[str, Results], limit: int = 0) -> Table:
  """Returns a table with a row per headline and a column per classifier and per difference.

  It has a column of notes if there are any. `limit` is the number of headlines, spread over the
  tasks; 0 takes all.
  """
  rows = cells(tasks, limit)
  pairs = dict.fromkeys(key for row in rows for key in row.values)  # (classifier, versus)
  values = [(label, '') for label in labels_of(tasks) if (label, '') in pairs]
  differences = [(label, versus) for label, versus in pairs if versus]
  columns = [*values, *differences]
  heads = ['', *(column_name(label, versus) for label, versus in columns)]
  has_notes = any(row.notes for row in rows)
  lines = []
  for row in rows:
    notes = [joined_notes(row)] if has_notes else []
    lines.append([row.name, *(row.values.get(key, '') for key in columns), *notes])
  return Table((*heads, 'note') if has_notes else tuple(heads), lines)


def draw(tasks: Mapping[str, Results]) -> dict[str, charts.Picture]:
  """Returns {file name: (figure, caption)}: a figure of points for headlines that share an axis.

  They have the same kind (share, ratio, …), the same unit and the same better direction.
  """
  # {quantity made up for the common axis: the rows of its headlines}
  kinds: dict[Quantity, list[pd.DataFrame]] = {}
  for choice in headlines(tasks):
    quantity = choice.quantity
    rating = f', {quantity.better} is better' if quantity.better else ''
    kind = Quantity('overview', f'value{rating}', quantity.kind, quantity.better, quantity.unit)
    rows = choice.summary_rows.dropna(subset=['value'])[[*SUBJECT, *ESTIMATE]]
    kinds.setdefault(kind, []).append(rows.assign(headline=choice.name))
  figures: dict[str, charts.Picture] = {}
  for kind, parts in kinds.items():
    rows = pd.concat(parts, ignore_index=True)
    columns = charts.columns_of(rows, kind)
    names = list(dict.fromkeys(rows.headline))
    figure = forms.rows_of_points(names, columns, labels_of(tasks), 'headline')
    name = '_'.join(filter(None, (kind.name, kind.kind, kind.unit, kind.better)))
    caption = f'Headline quantities: {kind.words}{charts.sample_in_words(rows)}.'
    figures[name.replace(' ', '_').replace('%', 'percent')] = figure, caption
  return figures
