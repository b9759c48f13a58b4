"""The headlines of a run as a table and as pictures, classifiers side by side."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from robustness.estimates.quantity import Quantity
from robustness.estimates.table import ESTIMATE, SUBJECT
from robustness.present import charts, choice, forms
from robustness.present.notation import Notation, column_name
from robustness.results import Results, Table


class HeadlineText(NamedTuple):
  """A headline as text: name with unit; values and notes by classifier and `versus`."""

  name: str
  values: dict[tuple[str, str], str]
  notes: dict[tuple[str, str], str]


def cells(tasks: Mapping[str, Results], most: int = 0) -> list[HeadlineText]:
  """Returns the headlines as text, extremes with their places; with `most` that many of them at
  most, see `choice.foremost`, under short names."""
  texts, found = [], choice.headlines(tasks)
  found = choice.foremost(found, most) if most else found
  names = choice.short_names(found) if most else [chosen.name for chosen in found]
  for name, chosen in zip(names, found, strict=True):
    unit = Notation(chosen.quantity).unit
    line = HeadlineText(name + (f' ({unit})' if unit else ''), {}, {})
    for _, row in chosen.summary_rows.iterrows():
      key = row.classifier, row.versus
      text = Notation(chosen.quantity, difference=bool(row.versus)).bare(row)
      if math.isnan(row.value):
        line.values[key] = row.note.partition(';')[0]
        continue
      line.values[key] = f'{text} {chosen.places(row)}'.rstrip()
      together = chosen.coverage if chosen.extremes is not None else ''
      if note := '; '.join(filter(None, (together, row.note))):
        line.notes[key] = note
    texts.append(line)
  return texts


def joined_notes(row: HeadlineText) -> str:
  """Returns each note of a headline behind the columns it is of, alone where it is of all."""
  columns: dict[str, list[str]] = {}
  for key, note in row.notes.items():
    columns.setdefault(note, []).append(column_name(*key))
  return '; '.join(
    note if len(of) == len(row.values) else f'{", ".join(of)}: {note}'
    for note, of in columns.items()
  )


def table(tasks: Mapping[str, Results], most: int = 0) -> Table:
  """Returns a row a headline; columns of classifiers, differences, and notes if there are some.
  For `most` see `cells`."""
  rows = cells(tasks, most)
  there = dict.fromkeys(key for row in rows for key in row.values)
  known = dict.fromkeys((label, '') for label in choice.labels_of(tasks) if (label, '') in there)
  columns = sorted(known | there, key=lambda column: bool(column[1]))
  heads = [column_name(label, versus) for label, versus in columns]
  lines = [[row.name, *(row.values.get(k, '') for k in columns)] for row in rows]
  if any(row.notes for row in rows):
    heads = [*heads, 'note']
    lines = [[*line, joined_notes(row)] for line, row in zip(lines, rows, strict=True)]
  return Table(('', *heads), lines)


def draw(tasks: Mapping[str, Results]) -> dict[str, charts.Picture]:
  """Returns a picture of points for all headlines of one unit and direction."""
  kinds: dict[Quantity, list[pd.DataFrame]] = {}
  for chosen in choice.headlines(tasks):
    quantity = chosen.quantity
    rated = f', {quantity.better} is better' if quantity.better else ''
    shown = Quantity('overview', f'value{rated}', quantity.kind, quantity.better, quantity.unit)
    rows = chosen.summary_rows.dropna(subset=['value'])[[*SUBJECT, *ESTIMATE]]
    kinds.setdefault(shown, []).append(rows.assign(headline=chosen.name))
  figures: dict[str, charts.Picture] = {}
  for shown, of_kind in kinds.items():
    rows = pd.concat(of_kind, ignore_index=True)
    columns = charts.columns_of(rows, shown)
    names = list(dict.fromkeys(rows.headline))
    figure = forms.rows_of_points(names, columns, choice.labels_of(tasks), 'headline')
    name = '_'.join(filter(None, (shown.name, shown.kind, shown.unit, shown.better)))
    caption = f'Headline quantities: {shown.words}{charts.sample(rows)}.'
    figures[name.replace(' ', '_')] = figure, caption
  return figures
