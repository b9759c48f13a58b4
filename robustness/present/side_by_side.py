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
from robustness.estimates.quantity import ACCURACY, CLEAN_ACCURACY, CLEAN_ERROR, Quantity
from robustness.estimates.table import facets_of, select
from robustness.present.choice import CLASS, Choice, headlines, headlines_of_quantity
from robustness.present.notation import MINUS, Notation, span, value_text
from robustness.present.tables import Cell
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
  """An estimate as text for one cell.

  Attributes:
    labels: {'classifier': …, 'quantity': …, 'task': …, facet: …} of the estimate as text.
    quantity: the quantity that is estimated.
    value: the estimate; NaN if it is undefined.
    text: the estimate as text, with its interval if the table has intervals.
    numbers: {facet: value} for the facets with numbers; rows of the table are sorted by them.
    counts: [number of observations], or [] if it is unknown.
  """

  labels: Mapping[str, str]
  quantity: Quantity
  value: float
  text: str
  numbers: Mapping[str, float]
  counts: Sequence[int]

  def key(self, names: Sequence[str]) -> tuple[str, ...]:
    """Returns `labels[name]` for each of `names`, which identifies the entry's row or column."""
    return tuple(self.labels[name] for name in names)


def arrange(
  tasks: Mapping[str, Results],
  quantities: Sequence[str] = (),
  rows: Sequence[str] = (),
  columns: Sequence[str] = (),
  intervals: bool = False,
  short_columns: Sequence[str] = (),
) -> tuple[Table, frozenset[Cell]]:
  """Returns a table of estimates, and the cells with the best classifier's value.

  The number of observations n follows the name of a quantity if quantities differ in it. Cells with
  the same text as the best one count as best too. There is no best cell if the quantity
  has no better direction or all cells have the same text.

  Args:
    tasks: {task: its results}; a single study has the key `SINGLE`.
    quantities: names of quantities; () selects the headlines.
    rows, columns: what varies along each: 'classifier', 'quantity', 'task' or facets. With facets,
      estimates by exactly these facets are shown; without, the headlines. By default rows are
      classifiers and columns quantities.
    intervals: whether intervals follow values.
    short_columns: columns with short titles in place of `quantities`: 'clean', names of tasks (for
      their first headline), or names of quantities.

  Raises:
    InputError: the results lack a quantity or facet, or estimates by these facets.
  """
  dimensions = [*rows, *columns]
  facets, by_task = _facets(dimensions), TASK in dimensions
  entries: list[Entry] = []
  for head, choice in named_choices(tasks, quantities, dimensions, short_columns):
    entries += _entries(head, choice, facets, intervals, by_task)
  if not entries:
    names = f' of {", ".join(quantities)}' if quantities else ''
    by = f' by {" and ".join(facets)} alone' if facets else ' over all'
    raise InputError(f'there is no estimate{names}{by}: results.csv shows which facets there are.')
  entries = _with_counts(entries)
  titles = {entry.labels[QUANTITY] for entry in entries}
  num_classifiers = len({entry.labels[CLASSIFIER] for entry in entries})
  is_free = not dimensions and not short_columns  # the user chose no rows and columns
  # With a column per classifier instead of per quantity, the table is no wider than a page.
  is_narrower_by_classifier = num_classifiers <= MAX_COLUMNS < len(titles)
  if is_free and is_narrower_by_classifier:
    rows, columns = [QUANTITY], [CLASSIFIER]
  else:
    if CLASSIFIER not in dimensions:
      rows = [*rows, CLASSIFIER]
    is_named_in_corner = len(titles) == 1 and facets and columns  # the only quantity
    if QUANTITY not in dimensions and not is_named_in_corner:
      columns = [*columns, QUANTITY]
  return _fill_table(entries, rows, columns)


def _fill_table(
  entries: Sequence[Entry], rows: Sequence[str], columns: Sequence[str]
) -> tuple[Table, frozenset[Cell]]:
  """Returns the table of entries, and its cells (row, column) with the best classifier's value.

  Args:
    entries: the estimates.
    rows, columns: names of the labels that vary along each, such as 'classifier'. If neither has
      'quantity', all entries are of one quantity, which is named in the corner of the table.
  """
  row_keys, column_keys = _ordered_keys(entries, rows), _ordered_keys(entries, columns)
  texts = [[*key, *([''] * len(column_keys))] for key in row_keys]
  # The entries that are compared for the best one: those that differ in the classifier only.
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
  return table, frozenset(cell for rivals in compared.values() for cell in _best_cells(rivals))


def _facets(dimensions: Sequence[str]) -> list[str]:
  """Returns the dimensions that are facets: not 'classifier', 'quantity' or 'task'."""
  return [name for name in dimensions if name not in (CLASSIFIER, QUANTITY, TASK)]


def named_choices(
  tasks: Mapping[str, Results],
  quantities: Sequence[str] = (),
  dimensions: Sequence[str] = (),
  short_columns: Sequence[str] = (),
) -> list[tuple[str, Choice]]:
  """Returns (name, choice) for each set of estimates that a table shows.

  Args:
    tasks: results by task.
    quantities: names of quantities; () selects the headlines.
    dimensions: what varies along rows or columns: 'classifier', 'quantity', 'task' or facets.
    short_columns: columns with short titles, which replace the other choices: 'clean', names of
      tasks (for their first headline), or names of quantities.
  """
  if short_columns:
    return [column for name in short_columns for column in _columns(tasks, name)]
  _check_names(tasks, quantities, dimensions)
  facets = _facets(dimensions)
  choices = [c for task in tasks for c in _choices(task, tasks[task], quantities, facets)]
  choices.sort(key=lambda choice: CLASS in choice.facets)  # single classes come last
  return [(choice.words if TASK in dimensions else choice.name, choice) for choice in choices]


def _with_counts(entries: list[Entry]) -> list[Entry]:
  """Returns the entries, with quantities called, for example, 'top-1 error (%), n = 100'.

  If all quantities have the same number of observations n, their names stay without it.
  """
  counts = collections.defaultdict[str, list[int]](list)
  for entry in entries:
    counts[entry.labels[QUANTITY]] += entry.counts
  texts = {head: span(numbers) for head, numbers in counts.items()}
  if len({*texts.values()}) < 2:
    return entries
  heads = {head: f'{head}, n = {text or "unknown"}' for head, text in texts.items()}
  return [
    entry._replace(labels={**entry.labels, QUANTITY: heads[entry.labels[QUANTITY]]})
    for entry in entries
  ]


def _check_names(
  tasks: Mapping[str, Results], quantities: Sequence[str], dimensions: Sequence[str]
) -> None:
  """Raises InputError for a quantity or dimension that the results lack or that is repeated.

  A dimension is what varies along rows or columns of a table: 'classifier', 'quantity', 'task', or
  a facet such as 'corruption'.
  """
  estimated = {quantity.name for results in tasks.values() for quantity in results.quantities}
  estimated &= {name for results in tasks.values() for name in results.table['quantity']}
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


def _choices(
  task: str, results: Results, quantities: Sequence[str], facets: Sequence[str]
) -> list[Choice]:
  """Returns the rows of a task that the table shows, a `Choice` per quantity and condition.

  Args:
    task: name of the task.
    results: its results.
    quantities: names of quantities; () selects the headlines. The name 'accuracy' selects the
      accuracy on clean images. If that was not measured, it selects the quantity `accuracy`, but
      only if this is a headline.
    facets: facets of the rows; () selects overall values, or extremes if there are none. With
      facets, 'accuracy' is a quantity like others.
  """
  declared = {quantity.name: quantity for quantity in results.quantities}
  selected = [declared[name] for name in quantities if name in declared]  # [] for the headlines
  if facets:
    any_value: dict[str, Any] = dict.fromkeys(facets, ...)  # ... selects all values of a facet
    headline_quantities = [quantity for quantity in results.quantities if quantity.headline]
    return [
      Choice(quantity, select(results.table, quantity.name, '', **any_value), task=task)
      for quantity in selected or headline_quantities or results.quantities
    ]
  if not quantities:
    return headlines({task: results})
  if ACCURACY.name in quantities:  # which stands for the accuracy on clean images
    clean_accuracies = _measured_quantities(results, CLEAN_ACCURACIES)  # the preferred one first
    other_quantities = [quantity for quantity in selected if quantity.name != ACCURACY.name]
    if clean_accuracies:
      selected = [clean_accuracies[0], *other_quantities]
    elif ACCURACY.name in declared and not declared[ACCURACY.name].headline:
      selected = other_quantities
  choices: list[Choice] = []
  for quantity in selected:
    choices += headlines_of_quantity(results.table, quantity, results.quantities, task)
  return choices


def _measured_quantities(results: Results, names: Sequence[str]) -> list[Quantity]:
  """Returns the named quantities that the results have estimates of, in the order of `names`."""
  measured = {*results.table['quantity']}
  declared = {q.name: q for q in results.quantities if q.name in measured}
  return [declared[name] for name in names if name in declared]


def _columns(tasks: Mapping[str, Results], name: str) -> Iterator[tuple[str, Choice]]:
  """Yields a short head and a choice for each column that a name in `--show` stands for.

  The name of a task stands for its first headline; 'clean' and 'accuracy' stand for the accuracy or
  error on clean images; any other name is a quantity, from the first task that has it.

  Raises:
    InputError: `name` is neither a task, a measured quantity nor `clean`.
  """
  # {'mce': 'mCE'}, because users may write names in lower case
  quantities = {q.name.lower(): q.name for results in tasks.values() for q in results.quantities}
  quantity = quantities.get(name.lower(), '')  # '' if the name is of no quantity
  if name in tasks and name != SINGLE:
    choices = headlines({name: tasks[name]})
    choices = [choice for choice in choices if choice.quantity == choices[0].quantity]
  else:
    is_clean = name.lower() in ('clean', ACCURACY.name)
    choices = _first_measured(tasks, CLEAN if is_clean else (quantity,), is_clean)
  if not choices:
    valid = {'clean', *filter(None, tasks), *quantities.values()} - {name}
    raise InputError(f'--show has {name!r}, which is no task or quantity; {nearest(name, valid)}.')
  if choices[0].quantity.name == CLEAN_ERROR.name:
    head = 'Clean error'
  elif quantity != quantity.lower():  # an abbreviation with capitals, such as mCE
    head = quantity
  else:
    head = name.replace('_', ' ').capitalize()
  for choice in choices:
    place = f' {choice.place}' if len(choices) > 1 else ''
    if choice.attack_words:
      yield choice.attack_words, choice.as_accuracy
    else:
      yield f'{head}{place}', choice


def _first_measured(
  tasks: Mapping[str, Results], names: Sequence[str], without_facets: bool
) -> list[Choice]:
  """Returns the headlines of one quantity from the first task that has any; [] if no task has any.

  Args:
    tasks: results by task.
    names: names of quantities, the preferred one first; a task contributes the first one that has
      headlines, with `without_facets` headlines over all conditions.
    without_facets: whether only values over all conditions count, and not those in one condition,
      such as one view.
  """
  for task, results in tasks.items():
    for quantity in _measured_quantities(results, names):
      choices = headlines_of_quantity(results.table, quantity, results.quantities, task)
      if without_facets:
        choices = [choice for choice in choices if not choice.facets]
      if choices:
        return choices
  return []


def notes_of(choices: Sequence[tuple[str, Choice]]) -> list[str]:
  """Returns notes on what a table shows, such as 'error, net: under fog; few images'.

  A note names the column and the classifier. It has the condition, such as 'under fog', if the
  column shows the largest or smallest value over conditions, and the note of the estimate.
  `choices` has the head of each column and the estimates that it shows.
  """
  notes = []
  for head, choice in choices:
    for _, row in choice.summary_rows[choice.summary_rows.versus == ''].iterrows():
      note = '; '.join(filter(None, (choice.place_words(row), row.note)))
      if note:
        notes.append(f'{head}, {row.classifier}: {note}')
  return list(dict.fromkeys(notes))


def _entries(
  words: str, choice: Choice, facets: Sequence[str], intervals: bool, by_task: bool
) -> Iterator[Entry]:
  """Yields an entry of the table for each classifier: its overall value, or its extreme one.

  Rows with differences between two classifiers are left out.

  Args:
    words: the name of the quantity in the table. The unit follows, and an arrow that points to the
      better direction.
    choice: the rows of one quantity in the table of results, such as the mCE of all classifiers.
    facets: facets that label the entries.
    intervals: whether intervals follow values.
    by_task: whether the task labels the entries.
  """
  notation = Notation(choice.quantity)
  unit = f' ({notation.unit})' if notation.unit else ''
  coverage = f', {choice.coverage}' if intervals and choice.extremes is not None else ''
  head = f'{words}{coverage}{unit}{ARROWS[choice.quantity.better]}'
  rows = choice.summary_rows[choice.summary_rows.versus == '']
  # Without intervals, all values have the same number of decimals.
  digits = notation.plain_digits(float(rows['value'].abs().max()))
  # a task without any such estimate may lack the column of the facet
  texts = {
    name: _text_of_values(choice.quantity.facet(name), rows[name]) for name in facets if len(rows)
  }
  for _, row in rows.iterrows():
    if intervals:
      text = f'{notation.bare(row)} {choice.place_words(row)}'.rstrip()
    else:
      text = notation.number(row.value, digits)
    labels = {CLASSIFIER: row.classifier, QUANTITY: head}
    for name in facets:
      labels[name] = texts[name][row[name]]
    if by_task:
      labels[TASK] = choice.task.replace('_', ' ')
    numbers = {name: row[name] for name in facets if not isinstance(row[name], str)}
    counts = [] if pd.isna(row.n) else [int(row.n)]
    yield Entry(labels, choice.quantity, row.value, text, numbers, counts)


def _text_of_values(facet: Facet, values: pd.Series) -> dict[Any, str]:
  """Returns {value of a facet: its text}.

  Values that would have the same text are written as they are stored.
  """
  texts = {value: value_text(facet, value).replace(MINUS, '-') for value in values}
  counts = collections.Counter(texts.values())
  return {value: text if counts[text] == 1 else str(value) for value, text in texts.items()}


def _ordered_keys(entries: Sequence[Entry], names: Sequence[str]) -> list[tuple[str, ...]]:
  """Returns the distinct keys of entries, such as ('net', 'fog'), in the order of the table.

  A key has the entry's label for each of `names`. Keys are sorted by the first label, then by the
  next. Labels that are numbers ascend; others keep the order in which they first occur.
  """
  ranks = {}  # {name: {label: its position}}
  for name in names:
    # {label: its number, or 0 for all labels that are no numbers}
    numbers = {entry.labels[name]: entry.numbers.get(name, 0) for entry in entries}
    ordered = sorted(numbers, key=lambda label: numbers[label])
    ranks[name] = {label: rank for rank, label in enumerate(ordered)}

  def ranks_of(key: tuple[str, ...]) -> list[int]:
    """Returns the ranks that a key is sorted by, one for each of `names`.

    The key ('net', 'fog') of names ('classifier', 'corruption') has the position of 'net' among the
    classifiers, then the position of 'fog' among the corruptions.
    """
    return [ranks[name][label] for name, label in zip(names, key, strict=True)]

  return sorted({entry.key(names) for entry in entries}, key=ranks_of)


def _best_cells(entries: Sequence[tuple[Cell, Entry]]) -> list[Cell]:
  """Returns the cells of the best classifiers: all with a value of the same text as the best.

  It is [] if the quantity has no better direction or all values have the same text.

  Args:
    entries: (cell, entry) of one quantity and condition for each classifier.
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
