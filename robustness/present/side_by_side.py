"""The table of classifiers for a paper, with rows and columns by classifier, quantity and
facets.
"""

import collections
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from robustness.core.errors import InputError, nearest
from robustness.estimates.facets import Facet
from robustness.estimates.means import join_notes
from robustness.estimates.quantity import ACCURACY, CLEAN_ACCURACY, CLEAN_ERROR, Quantity
from robustness.estimates.systematic import DEGENERATE
from robustness.estimates.table import facets_of, select_by
from robustness.present.notation import MINUS, Notation, are_degenerate, span, value_text
from robustness.present.selection import Selection, headlines, headlines_of_quantity
from robustness.present.tables import Cell, in_order
from robustness.results import SINGLE, TASK, Results, Table

CLASSIFIER, QUANTITY = 'classifier', 'quantity'
CLEAN_ACCURACIES = 'top1_accuracy', CLEAN_ACCURACY.name
"""Names of the quantities that are accuracies on clean images, the preferred one first."""
CLEAN = *CLEAN_ACCURACIES, CLEAN_ERROR.name
"""Names of the quantities that the column 'clean' may hold, the preferred one first."""
MAX_COLUMNS = 7
"""With more headlines than this, the headlines are rows and the classifiers columns."""
ARROWS = {'lower': ' ↓', 'higher': ' ↑', '': ''}
"""The mark after the name of a quantity, by `Quantity.better`."""


class Entry(NamedTuple):
  """An estimate, formatted as a cell of a table, with the labels of its row and column.

  Attributes:
    labels: {name: text}, such as {'classifier': 'net', 'quantity': 'top-1 error (%)', 'corruption':
      'fog'}.
    quantity: the quantity that is estimated.
    value: the estimate; NaN if it is undefined or degenerate, and cannot be the best.
    text: text of the cell, with an interval if the table has intervals.
    numbers: {name: value} of labels that are numbers, such as {'severity': 3}. Rows are sorted by
      them.
    counts: [number of observations], or [] if it is unknown.
  """

  labels: Mapping[str, str]
  quantity: Quantity
  value: float
  text: str
  numbers: Mapping[str, float]
  counts: Sequence[int]

  def key(self, names: Sequence[str]) -> tuple[str, ...]:
    """Returns the labels of a row or column, such as ('net', 'fog').

    Args:
      names: names of the labels, such as ('classifier', 'corruption').
    """
    return tuple(self.labels[name] for name in names)


def arrange(
  tasks: Mapping[str, Results],
  quantities: Sequence[str] = (),
  rows: Sequence[str] = (),
  columns: Sequence[str] = (),
  intervals: bool = False,
  short_columns: Sequence[str] = (),
) -> tuple[Table, frozenset[Cell]]:
  """Arranges estimates in a table for a paper, and finds the cells to print in bold.

  Bold is the best classifier for each quantity and condition, with all cells of the same text.
  Nothing is bold if no direction is better or all cells are equal. Names of quantities have the
  number of observations n if it differs between them.

  Args:
    tasks: {task: its results}; a single study has the key `SINGLE`.
    quantities: names of quantities; () for the main ones (headlines).
    rows: names of what varies along the rows: 'classifier', 'quantity', 'task', or columns of the
      table of results such as 'corruption'. By default rows are classifiers and columns quantities.
    columns: names of what varies along the columns. With a name such as 'corruption' in `rows` or
      `columns`, estimates by exactly these columns are shown. Otherwise values over all conditions
      are shown, or highest or lowest values.
    intervals: whether intervals follow values.
    short_columns: columns with short titles in place of `quantities`: 'clean', names of tasks (for
      their first headline), or names of quantities.

  Returns:
    (table, positions of the best cells).

  Raises:
    InputError: the results lack a quantity, a column, or estimates by these columns.
  """
  dimensions = [*rows, *columns]
  facets, by_task = _facets(dimensions), TASK in dimensions
  entries: list[Entry] = []
  for name, selection in named_selections(tasks, quantities, dimensions, short_columns):
    entries += _entries(name, selection, facets, intervals, by_task)
  if not entries:
    names = f' of {", ".join(quantities)}' if quantities else ''
    by = f' by {" and ".join(facets)} alone' if facets else ' over all'
    raise InputError(f'there is no estimate{names}{by}: results.csv shows which facets there are.')
  entries = _with_counts(entries)
  num_quantities = len({entry.labels[QUANTITY] for entry in entries})
  num_classifiers = len({entry.labels[CLASSIFIER] for entry in entries})
  # A column per quantity would make the table wider than a page, a column per classifier does not.
  is_narrower_by_classifier = num_classifiers <= MAX_COLUMNS < num_quantities
  if is_narrower_by_classifier and not dimensions and not short_columns:
    return _fill_table(entries, rows=[QUANTITY], columns=[CLASSIFIER])
  if CLASSIFIER not in dimensions:
    rows = [*rows, CLASSIFIER]
  is_named_in_corner = num_quantities == 1 and facets and columns  # the only quantity, top left
  if QUANTITY not in dimensions and not is_named_in_corner:
    columns = [*columns, QUANTITY]
  return _fill_table(entries, rows, columns)


def _fill_table(
  entries: Sequence[Entry], rows: Sequence[str], columns: Sequence[str]
) -> tuple[Table, frozenset[Cell]]:
  """Fills a table with formatted estimates and finds the cells of the best classifiers.

  Args:
    entries: the estimates.
    rows, columns: names of the labels that vary along each, such as 'classifier'. If 'quantity' is
      in neither, all entries are of one quantity, which the corner of the table names.

  Returns:
    (table, positions of the best cells).
  """
  row_keys, column_keys = _ordered_keys(entries, rows), _ordered_keys(entries, columns)
  texts = [[*key, *[''] * len(column_keys)] for key in row_keys]  # names of rows, empty cells
  # {quantity, condition and task: the cells of all classifiers, among which one is the best}
  compared: dict[tuple[str, ...], list[tuple[Cell, Entry]]] = collections.defaultdict(list)
  for entry in entries:
    row = row_keys.index(entry.key(rows))
    column = len(rows) + column_keys.index(entry.key(columns))
    texts[row][column] = entry.text
    condition = entry.key([name for name in entry.labels if name != CLASSIFIER])
    compared[condition].append(((row, column), entry))
  corner = [entries[0].quantity.facet(name).words for name in rows]
  if QUANTITY not in (*rows, *columns):
    corner[0] = f'{entries[0].labels[QUANTITY]}: {corner[0]}'
  table = Table((*corner, *map(', '.join, column_keys)), texts)
  return table, frozenset(cell for cells in compared.values() for cell in _best_cells(cells))


def _facets(dimensions: Sequence[str]) -> list[str]:
  """Returns the names that are grouping columns such as 'corruption'.

  Args:
    dimensions: names of what varies in a table. 'classifier', 'quantity' and 'task' are left out.
  """
  return [name for name in dimensions if name not in (CLASSIFIER, QUANTITY, TASK)]


def named_selections(
  tasks: Mapping[str, Results],
  quantities: Sequence[str] = (),
  dimensions: Sequence[str] = (),
  short_columns: Sequence[str] = (),
) -> list[tuple[str, Selection]]:
  """Returns the estimates that a table shows, as (name of the quantity, selection).

  Args:
    tasks: {task: its results}.
    quantities: names of quantities; () for the main ones (headlines). Ignored with `short_columns`.
    dimensions: what varies along rows or columns: 'classifier', 'quantity', 'task', or columns such
      as 'corruption'. Names of quantities begin with the task unless 'task' is here.
    short_columns: columns with short titles: 'clean', names of tasks (for their first headline), or
      names of quantities. () selects by `quantities` and `dimensions`.
  """
  if short_columns:
    return [column for name in short_columns for column in _short_column(tasks, name)]
  _check_names(tasks, quantities, dimensions)
  selections: list[Selection] = []
  for task, results in tasks.items():
    selections += _selections(task, results, quantities, _facets(dimensions))
  selections.sort(key=lambda selection: selection.is_by_class)  # single classes come last
  return [(s.words if TASK in dimensions else s.name, s) for s in selections]


def _with_counts(entries: list[Entry]) -> list[Entry]:
  """Adds numbers of images to the names of quantities in a table: 'top-1 error (%), n = 100'.

  Nothing is added if all quantities have the same number.

  Args:
    entries: the cells of the table, with labels of their row and column, and numbers of images.
  """
  counts = collections.defaultdict[str, list[int]](list)
  for entry in entries:
    counts[entry.labels[QUANTITY]] += entry.counts
  spans = {name: span(numbers) or 'unknown' for name, numbers in counts.items()}
  if len({*spans.values()}) < 2:
    return entries
  names = {name: f'{name}, n = {text}' for name, text in spans.items()}
  return [
    entry._replace(labels={**entry.labels, QUANTITY: names[entry.labels[QUANTITY]]})
    for entry in entries
  ]


def _check_names(
  tasks: Mapping[str, Results], quantities: Sequence[str], dimensions: Sequence[str]
) -> None:
  """Checks the names in a request for a table.

  Args:
    tasks: {task: its results}.
    quantities: names of quantities.
    dimensions: what varies along rows or columns: 'classifier', 'quantity', 'task', or columns such
      as 'corruption'.

  Raises:
    InputError: the results lack a name, or a name of `dimensions` is repeated.
  """
  declared = {quantity.name for results in tasks.values() for quantity in results.quantities}
  estimated = declared & {name for results in tasks.values() for name in results.table['quantity']}
  if estimated & {*CLEAN_ACCURACIES}:  # 'accuracy' stands for these too
    estimated.add(ACCURACY.name)
  valid = {name for results in tasks.values() for name in facets_of(results.table)}
  valid |= {CLASSIFIER, QUANTITY}
  if SINGLE not in tasks:
    valid.add(TASK)
  for name in quantities:
    if name not in estimated:
      raise InputError(f'{name!r} is no quantity of these runs; {nearest(name, estimated)}.')
  for name in dimensions:
    if name not in valid:
      raise InputError(f'{name!r} is no facet of these runs; {nearest(name, valid)}.')
  if len(set(dimensions)) < len(dimensions):
    raise InputError(f'rows and columns are of {", ".join(dimensions)}: name each once.')


def _selections(
  task: str, results: Results, quantities: Sequence[str], facets: Sequence[str]
) -> list[Selection]:
  """Selects the estimates of one task that a table shows, each as a column.

  A task is a study in a run of several. A headline is one of the quantities that the study declares
  as its main results.

  Args:
    task: name of the task.
    results: its results.
    quantities: names of quantities; () for the main ones (headlines). Without `facets`, 'accuracy'
      is the accuracy on clean images. If this was not measured, it is the quantity 'accuracy',
      often a mean over views, if that is a headline.
    facets: grouping columns of the estimates, such as ('corruption',). () selects values over all
      conditions, or else highest or lowest values.
  """
  declared = {quantity.name: quantity for quantity in results.quantities}
  selected = [declared[name] for name in quantities if name in declared]  # [] for the headlines
  if facets:
    headline_quantities = [quantity for quantity in results.quantities if quantity.headline]
    return [
      Selection(quantity, select_by(results.table, quantity.name, facets), task=task)
      for quantity in selected or headline_quantities or results.quantities
    ]
  if not quantities:
    return headlines({task: results})
  if ACCURACY.name in quantities:
    clean_accuracies = _measured_quantities(results, CLEAN_ACCURACIES)  # the preferred one first
    other_quantities = [quantity for quantity in selected if quantity.name != ACCURACY.name]
    if clean_accuracies:
      selected = [clean_accuracies[0], *other_quantities]
    elif ACCURACY.name in declared and not declared[ACCURACY.name].headline:
      selected = other_quantities
  selections: list[Selection] = []
  for quantity in selected:
    selections += headlines_of_quantity(results.table, quantity, results.quantities, task)
  return selections


def _measured_quantities(results: Results, names: Sequence[str]) -> list[Quantity]:
  """Returns the quantities with these names that have estimates, in the order of `names`."""
  measured = {*results.table['quantity']}
  declared = {q.name: q for q in results.quantities if q.name in measured}
  return [declared[name] for name in names if name in declared]


def _short_column(tasks: Mapping[str, Results], name: str) -> Iterator[tuple[str, Selection]]:
  """Selects the estimates for a name in `--show`, such as 'clean' or 'mCE'.

  The name of a task stands for its first headline. 'clean' and 'accuracy' stand for the accuracy on
  clean images, or else the error. Other names are of quantities in the first task (one of several
  studies in a run) that measured them. Errors under an attack are shown as accuracies.

  Args:
    tasks: {task: its results}.
    name: the name.

  Yields:
    (short title, selection); several if the quantity has several values.

  Raises:
    InputError: `name` is neither a task, a measured quantity nor 'clean'.
  """
  # {'mce': 'mCE'}, because users may write names in lower case
  quantities = {q.name.lower(): q.name for results in tasks.values() for q in results.quantities}
  quantity = quantities.get(name.lower(), '')  # '' if the name is of no quantity
  if name in tasks and name != SINGLE:
    of_task = headlines({name: tasks[name]})
    selections = [headline for headline in of_task if headline.quantity == of_task[0].quantity]
  else:
    is_clean = name.lower() in ('clean', ACCURACY.name)
    selections = _first_measured(tasks, CLEAN if is_clean else (quantity,), is_clean)
  if not selections:
    valid = {'clean', *filter(None, tasks), *quantities.values()} - {name}
    raise InputError(f'--show has {name!r}, which is no task or quantity; {nearest(name, valid)}.')
  if selections[0].quantity.name == CLEAN_ERROR.name:
    title = 'Clean error'
  elif quantity != quantity.lower():  # an abbreviation with capitals, such as mCE
    title = quantity
  else:
    title = name.replace('_', ' ').capitalize()
  for selection in selections:
    if selection.attack_words:
      yield selection.attack_words, selection.as_accuracy
    elif len(selections) > 1:
      yield f'{title} {selection.condition}', selection
    else:
      yield title, selection


def _first_measured(
  tasks: Mapping[str, Results], names: Sequence[str], over_all: bool
) -> list[Selection]:
  """Selects the values of one quantity in the first task that measured it.

  Args:
    tasks: {task: its results}.
    names: names of acceptable quantities, the preferred one first.
    over_all: whether only values over all conditions count. Values in one condition, such as fog,
      are then ignored.

  Returns:
    The selections, or [] if no task measured any of the quantities.
  """
  for task, results in tasks.items():
    for quantity in _measured_quantities(results, names):
      selections = headlines_of_quantity(results.table, quantity, results.quantities, task)
      if over_all:
        selections = [selection for selection in selections if not selection.facets]
      if selections:
        return selections
  return []


def notes_of(selections: Sequence[tuple[str, Selection]]) -> list[str]:
  """Returns notes on the estimates in a table, such as 'error, net: under fog; few images'.

  A note names the quantity, the classifier, the condition of a highest or lowest value, and the
  estimate's own note.

  Args:
    selections: (name of the quantity, its estimates), from `named_selections`.
  """
  notes = []
  for name, selection in selections:
    for _, row in selection.reported_rows[selection.reported_rows.versus == ''].iterrows():
      note = join_notes(selection.extreme_condition(row), row.note)
      if note:
        notes.append(f'{name}, {row.classifier}: {note}')
  return list(dict.fromkeys(notes))


def _entries(
  name: str, selection: Selection, facets: Sequence[str], intervals: bool, by_task: bool
) -> Iterator[Entry]:
  """Formats the estimates of one quantity as the cells of a table.

  Differences between classifiers are left out. If the quantity is reported by its highest or lowest
  values, each classifier has only this value.

  Args:
    name: name of the quantity, to which the unit and an arrow (↑ if higher is better) are added.
    selection: the estimates of the quantity.
    facets: grouping columns that label the entries, such as ('corruption',).
    intervals: whether intervals follow values.
    by_task: whether the task labels the entries.
  """
  notation = Notation(selection.quantity)
  unit = f' ({notation.unit})' if notation.unit else ''
  if intervals and selection.interval_scope:
    name = f'{name}, {selection.interval_scope}'
  full_name = f'{name}{unit}{ARROWS[selection.quantity.better]}'
  rows = selection.reported_rows[selection.reported_rows.versus == '']
  if rows.empty:  # the columns of the facets may be missing
    return
  # Without intervals, all values have the same number of decimals.
  digits = notation.plain_digits(float(rows['value'].abs().max()))
  texts = {facet: _text_of_values(selection.quantity.facet(facet), rows[facet]) for facet in facets}
  for (_, row), is_degenerate in zip(rows.iterrows(), are_degenerate(rows), strict=True):
    text, value = notation.number(row.value, digits), row.value
    if intervals:
      text = f'{notation.bare(row)} {selection.extreme_condition(row)}'.rstrip()
    if is_degenerate:  # 1 by definition, which is not the best value
      text, value = f'{text}, {DEGENERATE}', math.nan
    labels = {CLASSIFIER: row.classifier, QUANTITY: full_name}
    labels |= {facet: texts[facet][row[facet]] for facet in facets}
    if by_task:
      labels[TASK] = selection.task.replace('_', ' ')
    numbers = {facet: row[facet] for facet in facets if not isinstance(row[facet], str)}
    counts = [] if pd.isna(row.n) else [int(row.n)]
    yield Entry(labels, selection.quantity, value, text, numbers, counts)


def _text_of_values(facet: Facet, values: pd.Series) -> dict[Any, str]:
  """Returns different texts for the values of a grouping column, as {value: text}.

  Values with the same short text, such as close radii ε, are written in full.
  """
  texts = {value: value_text(facet, value).replace(MINUS, '-') for value in values}
  counts = collections.Counter(texts.values())
  return {value: text if counts[text] == 1 else str(value) for value, text in texts.items()}


def _ordered_keys(entries: Sequence[Entry], names: Sequence[str]) -> list[tuple[str, ...]]:
  """Returns the labels of all rows, or columns, of a table in order: [('net', 'fog'), …].

  They are sorted by the first label, then by the next. Numbers ascend; other labels keep the order
  of the entries.

  Args:
    entries: the estimates.
    names: names of the labels, such as ('classifier', 'corruption').
  """
  ordered_labels = []  # for each of `names`
  for name in names:
    # {label: its number, or 0 for all labels that are no numbers}
    numbers = {entry.labels[name]: entry.numbers.get(name, 0) for entry in entries}
    ordered_labels.append(sorted(numbers, key=numbers.__getitem__))
  return in_order({entry.key(names) for entry in entries}, ordered_labels)


def _best_cells(entries: Sequence[tuple[Cell, Entry]]) -> list[Cell]:
  """Returns the positions of the best classifier and of all others with the same text.

  The result is [] if no direction of the quantity is better or all texts are the same.

  Args:
    entries: (position of the cell, entry) of one quantity and condition for each classifier.
  """
  better = entries[0][1].quantity.better
  defined = [(cell, entry) for cell, entry in entries if not math.isnan(entry.value)]
  # '31.2 (30.1 to 32.4)' → '31.2'
  value_texts = {cell: entry.text.partition(' ')[0] for cell, entry in defined}
  if not better or len({*value_texts.values()}) < 2:
    return []
  choose = min if better == 'lower' else max
  best = choose(entry.value for _, entry in defined)
  # Several texts if equal values have intervals of different width, and so different digits.
  best_texts = {value_texts[cell] for cell, entry in defined if entry.value == best}
  return [cell for cell, text in value_texts.items() if text in best_texts]
