"""The headlines of a run as a table and as figures, classifiers side by side.

A headline is a quantity that reports state first, such as mCE.
"""

import collections
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from robustness.estimates.of_means import ITSELF
from robustness.estimates.quantity import Quantity
from robustness.estimates.table import ESTIMATE, SUBJECT
from robustness.present import charts, forms
from robustness.present.notation import Notation, column_name, sentence
from robustness.present.selection import Selection, after_task, headlines
from robustness.results import Results, Table, labels_of


class HeadlineText(NamedTuple):
  """A headline quantity (a main result of a run), formatted as a row of a table.

  Attributes:
    name: name with the unit.
    values: {(classifier, versus): text}. `versus` is '' for the classifier's value, else the label
      of the classifier that is subtracted.
    notes: {(classifier, versus): note on the value}.
    is_by_class: whether the values are for single classes.
  """

  name: str
  values: dict[tuple[str, str], str]
  notes: dict[tuple[str, str], str]
  is_by_class: bool = False


def headline_texts(tasks: Mapping[str, Results], limit: int = 0) -> list[HeadlineText]:
  """Formats the headline (main) quantities of a run, with values such as '31.2 (30.1 to 32.4)'.

  The highest or lowest value of several conditions is followed by its condition.

  Args:
    tasks: {task: its results}.
    limit: largest number of headlines, for a summary: they are spread over the tasks (the studies
      of a run), and their names are shortened. 0 returns all with full names.
  """
  texts = []
  selections = headlines(tasks)
  names = [selection.name for selection in selections]
  if limit:
    selections = first_headlines(selections, limit)
    names = short_names(selections)
  for name, selection in zip(names, selections, strict=True):
    unit = Notation(selection.quantity).unit
    name_with_unit = f'{name} ({unit})' if unit else name
    text = HeadlineText(name_with_unit, values={}, notes={}, is_by_class=selection.is_by_class)
    for _, row in selection.reported_rows.iterrows():
      key = row.classifier, row.versus
      if math.isnan(row.value):
        text.values[key] = row.note.split(';')[0]  # the reason
        continue
      estimate = Notation(selection.quantity, difference=bool(row.versus)).bare(row)
      text.values[key] = f'{estimate} {selection.extreme_condition(row)}'.rstrip()
      # The scope of an interval is, for example, 'simultaneous over 8 corruptions'.
      notes = [note for note in (selection.interval_scope, row.note) if note]
      if notes:
        text.notes[key] = '; '.join(notes)
    texts.append(text)
  return texts


def short_names(selections: Sequence[Selection]) -> list[str]:
  """Returns a short name for each column of a table of main results, such as 'fog: mCE'.

  'fog' is the task, one of several studies in a run. Conditions, such as 'under noise', are added
  to equal names of a task. If the names are still equal, the long names are taken.

  Args:
    selections: the estimates of each column.
  """
  names = [after_task(s.task, s.short_words) for s in selections]
  with_condition = [
    after_task(s.task, f'{s.short_words} {s.condition}'.rstrip()) for s in selections
  ]
  for longer_names in (with_condition, [s.name for s in selections]):
    counts = collections.Counter(names)  # names that are still equal are replaced
    pairs = zip(names, longer_names, strict=True)
    names = [longer_name if counts[name] > 1 else name for name, longer_name in pairs]
  return names


def first_headlines(headlines: Sequence[Selection], limit: int) -> list[Selection]:
  """Returns at most `limit` headlines, spread evenly over the tasks, in their original order.

  Each task contributes its first headline, then each its second, and so on. Headlines of single
  classes, and ratios of a classifier to itself, are left out.
  """
  candidates = [
    headline
    for headline in headlines
    if not (headline.is_by_class or headline.reported_rows.note.str.startswith(ITSELF).all())
  ]
  tasks = pd.Series([headline.task for headline in candidates], dtype=object)
  ranks_in_task = tasks.groupby(tasks).cumcount()  # 0 for a task's first headline, 1 for the second
  # The indices of the first headlines of all tasks come first, then of the second ones, ….
  selected = np.argsort(ranks_in_task, kind='stable')[:limit]
  return [candidates[index] for index in sorted(selected)]


def joined_notes(row: HeadlineText) -> str:
  """Joins the notes on the values of a main quantity to one text, such as 'net, base: few images'.

  A note on all values stands alone. Other notes follow the names of their classifiers.

  Args:
    row: the texts of the quantity: `values` and `notes`, both by (classifier, versus).
  """
  columns: dict[str, list[str]] = {}
  for key, note in row.notes.items():
    columns.setdefault(note, []).append(column_name(*key))
  return '; '.join(
    note if len(names) == len(row.values) else f'{", ".join(names)}: {note}'
    for note, names in columns.items()
  )


def table(tasks: Mapping[str, Results], limit: int = 0) -> Table:
  """Returns a table of main quantities, with a column per classifier and per difference.

  The last column has notes, if there are any.

  Args:
    tasks: {task: its results}.
    limit: largest number of headlines, spread over the tasks (the studies of a run); 0 for all.
  """
  rows = headline_texts(tasks, limit)
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
  """Draws the values of headline (main) quantities as points with intervals.

  Headlines share a figure if they have the same kind (share, ratio, …), unit and better direction.

  Args:
    tasks: {task: its results}.

  Returns:
    {file name: (figure, caption)}.
  """
  # {axis of a figure: rows of the headlines in it}; an axis is the quantity with what they share
  rows_by_axis: dict[Quantity, list[pd.DataFrame]] = {}
  for selection in headlines(tasks):
    quantity = selection.quantity
    rating = f' ({quantity.better} is better)' if quantity.better else ''
    axis = Quantity('overview', f'value{rating}', quantity.kind, quantity.better, quantity.unit)
    rows = selection.reported_rows.dropna(subset=['value'])[[*SUBJECT, *ESTIMATE]]  # no facets
    rows_by_axis.setdefault(axis, []).append(rows.assign(headline=selection.name))
  figures: dict[str, charts.Picture] = {}
  for axis, parts in rows_by_axis.items():
    rows = pd.concat(parts, ignore_index=True)
    plots = charts.values_and_differences(rows, axis)
    names = list(dict.fromkeys(rows.headline))
    figure = forms.rows_of_points(names, plots, labels_of(tasks), 'headline')
    # such as 'overview_share_percent_lower', without what is ''
    parts_of_name = axis.name, axis.kind, axis.unit.replace('%', 'percent'), axis.better
    name = '_'.join(part.replace(' ', '_') for part in parts_of_name if part)
    text = f'headline quantities: {axis.words}{charts.sample_in_words(rows)}'
    figures[name] = figure, sentence(text + charts.difference_words(plots[-1]))
  return figures
