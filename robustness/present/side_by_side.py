"""A table of classifiers for a paper: rows and columns by classifier, quantity and facets."""

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from robustness.core.errors import InputError, nearest
from robustness.estimates.quantity import ACCURACY, CLEAN_ACCURACY, CLEAN_ERROR, Quantity
from robustness.estimates.table import facets_of, select
from robustness.present.choice import Choice, headlines, heads
from robustness.present.notation import MINUS, Notation, value_text
from robustness.present.tables import Cell
from robustness.results import SINGLE, TASK, Results, Table

CLASSIFIER, QUANTITY = 'classifier', 'quantity'
CLEAN_ACCURACIES = 'top1_accuracy', CLEAN_ACCURACY.name
CLEAN = *CLEAN_ACCURACIES, CLEAN_ERROR.name
MAX_COLUMNS = 7
"""Most headlines that are columns; more are rows."""
ARROWS = {'lower': ' ↓', 'higher': ' ↑', '': ''}


class Formatted(NamedTuple):
  """An estimate as text.

  Attributes:
    labels: the text of the estimate's classifier, quantity, task and facets, by name.
    quantity: the quantity that is estimated.
    value: the estimate, NaN if it is undefined.
    text: the estimate, perhaps with its interval.
    order: the values of facets that are numbers, by name.
  """

  labels: Mapping[str, str]
  quantity: Quantity
  value: float
  text: str
  order: Mapping[str, float] = {}


def arranged(
  tasks: Mapping[str, Results],
  quantities: Sequence[str] = (),
  rows: Sequence[str] = (),
  columns: Sequence[str] = (),
  intervals: bool = False,
  shown: Sequence[str] = (),
) -> tuple[Table, frozenset[Cell]]:
  """Returns a table of the estimates of classifiers, and the cells of the best classifiers.

  Cells with the same text as the best one are included. There is no best cell if neither end of a
  quantity is better, or if all cells have the same text.

  Args:
    tasks: results by task, see `Results.by_task`.
    quantities: names of quantities; () takes the headlines.
    rows, columns: 'classifier', 'quantity', 'task' in a battery, or facets. Estimates have exactly
      these facets; without any, they are the headlines. Classifiers default to rows, quantities to
      columns.
    intervals: whether intervals follow values.
    shown: columns with short titles in place of quantities, see `_columns`.

  Raises:
    InputError: a quantity or facet that the results do not have, or no estimate by them.
  """
  dimensions = [*rows, *columns]
  facets = [name for name in dimensions if name not in (CLASSIFIER, QUANTITY, TASK)]
  if shown:
    entries = [
      entry for name in shown for entry in _formatted(_columns(tasks, name), (), intervals, False)
    ]
  else:
    _check_names(tasks, quantities, dimensions)
    entries = list(_entries(tasks, quantities, facets, intervals, TASK in dimensions))
  if not entries:
    names = f' of {", ".join(quantities)}' if quantities else ''
    by = f' by {" and ".join(facets)} alone' if facets else ' over all'
    raise InputError(f'there is no estimate{names}{by}: results.csv shows which facets there are.')
  titles = dict.fromkeys(entry.labels[QUANTITY] for entry in entries)
  rows = [*rows, *([] if CLASSIFIER in dimensions else [CLASSIFIER])]
  is_single = len(titles) == 1 and bool(facets)
  columns = [*columns, *([] if QUANTITY in dimensions or (is_single and columns) else [QUANTITY])]

  def keys(names: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(entry.labels[name] for name in names) for entry in entries]

  if not (dimensions or shown) and len(titles) > MAX_COLUMNS >= len(
    {entry.labels[CLASSIFIER] for entry in entries}
  ):
    rows, columns = [QUANTITY], [CLASSIFIER]  # so that the table is no wider than a page
  ranks = {name: _ranks(name, entries) for name in entries[0].labels}

  def rank(names: Sequence[str]) -> Callable[[tuple[str, ...]], list[int]]:
    return lambda key: [ranks[name][text] for name, text in zip(names, key, strict=True)]

  down, across = (sorted(set(keys(names)), key=rank(names)) for names in (rows, columns))
  cells = [[*key, *([''] * len(across))] for key in down]
  rivals: dict[tuple[str, ...], list[tuple[Cell, Formatted]]] = collections.defaultdict(list)
  for entry, row, column in zip(entries, keys(rows), keys(columns), strict=True):
    place = down.index(row), len(rows) + across.index(column)
    cells[place[0]][place[1]] = entry.text
    rivals[tuple(text for name, text in entry.labels.items() if name != CLASSIFIER)].append(
      (place, entry)
    )
  corner = [entries[0].quantity.facet(name).words for name in rows]
  if QUANTITY not in (*rows, *columns):
    corner[0] = f'{next(iter(titles))}: {corner[0]}'
  table = Table((*corner, *map(', '.join, across)), cells)
  return table, frozenset(cell for entries in rivals.values() for cell in _best(entries))


def _check_names(
  tasks: Mapping[str, Results], quantities: Sequence[str], dimensions: Sequence[str]
) -> None:
  estimated = {quantity.name for results in tasks.values() for quantity in results.quantities}
  estimated &= {name for results in tasks.values() for name in results.table['quantity']}
  estimated |= {ACCURACY.name} if estimated & {*CLEAN_ACCURACIES} else set()
  facets = {name for results in tasks.values() for name in facets_of(results.table)}
  facets |= set() if SINGLE in tasks else {TASK}
  for kind, names, valid in (
    ('quantity of these runs', quantities, estimated),
    ('facet of these runs', dimensions, {CLASSIFIER, QUANTITY, *facets}),
  ):
    for name in names:
      if name not in valid:
        raise InputError(f'{name!r} is no {kind}; {nearest(name, valid)}.')
  if len(set(dimensions)) < len(dimensions):
    raise InputError(f'rows and columns are of {", ".join(dimensions)}: name each once.')


def _entries(
  tasks: Mapping[str, Results],
  quantities: Sequence[str],
  facets: Sequence[str],
  intervals: bool,
  by_task: bool,
) -> Iterator[Formatted]:
  for task, results in tasks.items():
    declared = {quantity.name: quantity for quantity in results.quantities}
    selected = [declared[name] for name in quantities if name in declared]
    if facets:
      by: dict[str, Any] = dict.fromkeys(facets, ...)
      choices = [
        Choice(quantity, select(results.table, quantity.name, '', **by), task=task)
        for quantity in selected
        or [quantity for quantity in results.quantities if quantity.headline]
        or results.quantities
      ]
    elif quantities:
      clean = _measured(results, CLEAN_ACCURACIES)[:1] if ACCURACY.name in quantities else []
      choices = [
        choice
        for quantity in [*clean, *selected]
        if not (quantity.name == ACCURACY.name and (clean or not quantity.headline))
        for choice in heads(results.table, quantity, results.quantities, task)
      ]
    else:
      choices = headlines({task: results})
    titles = [choice.words if by_task else choice.name for choice in choices]
    yield from _formatted(zip(titles, choices, strict=True), facets, intervals, by_task)


def _measured(results: Results, names: Sequence[str]) -> list[Quantity]:
  """Returns the quantities among `names` that results have estimates of, in the order of names."""
  measured = {*results.table['quantity']}
  declared = {q.name: q for q in results.quantities if q.name in measured}
  return [declared[name] for name in names if name in declared]


def _columns(tasks: Mapping[str, Results], name: str) -> Iterator[tuple[str, Choice]]:
  """Yields a short head and the estimates of each column that a name stands for: a task's first
  headline, a quantity, or `clean` for accuracy or error on clean images.

  Raises:
    InputError: `name` is neither a task, a measured quantity nor `clean`.
  """
  quantities = {q.name.lower(): q.name for results in tasks.values() for q in results.quantities}
  quantity = quantities.get(name.lower(), '')
  names = CLEAN if name.lower() in ('clean', ACCURACY.name) else (quantity,)
  if name in tasks and name != SINGLE:
    choices = headlines({name: tasks[name]})
    choices = [choice for choice in choices if choice.quantity == choices[0].quantity]
  else:
    choices = []
    for task, results in tasks.items():
      for measured in () if choices else _measured(results, names):
        levels = heads(results.table, measured, results.quantities, task)
        choices = choices or [c for c in levels if names != CLEAN or not c.facets]
  if not choices:
    valid = dict.fromkeys(['clean', *filter(None, tasks), *quantities.values()])
    raise InputError(f'--show has {name!r}, which is no task or quantity; {nearest(name, valid)}.')
  has_capitals = quantity != quantity.lower()  # as mCE
  head = quantity if has_capitals else name.replace('_', ' ').capitalize()
  head = 'Clean error' if choices[0].quantity.name == CLEAN_ERROR.name else head
  for choice in choices:
    place = f' {choice.place}' if len(choices) > 1 else ''
    yield choice.attack_words or f'{head}{place}', choice


def notes_of(tasks: Mapping[str, Results], shown: Sequence[str]) -> list[str]:
  """Returns the notes of the columns `shown`, such as why mCE is not comparable."""
  notes = dict[str, None]()
  for name in shown:
    for head, choice in _columns(tasks, name):
      rows = choice.summary_rows
      rows = rows[(rows.versus == '') & (rows.note != '')]
      notes |= dict.fromkeys(f'{head}, {row.classifier}: {row.note}' for _, row in rows.iterrows())
  return [*notes]


def _formatted(
  columns: Iterable[tuple[str, Choice]], facets: Sequence[str], intervals: bool, by_task: bool
) -> Iterator[Formatted]:
  """Yields the estimates of classifiers in each column, a pair of a head and a choice."""
  for words, choice in columns:
    notation = Notation(choice.quantity)
    unit = f' ({notation.unit})' if notation.unit else ''
    coverage = f', {choice.coverage}' if intervals and choice.extremes is not None else ''
    head = f'{words}{coverage}{unit}{ARROWS[choice.quantity.better]}'
    rows = choice.summary_rows[choice.summary_rows.versus == '']
    digits = notation.plain_digits(float(rows['value'].abs().max()))
    for _, row in rows.iterrows():
      text = notation.bare(row) if intervals else notation.number(row.value, digits)
      labels = {CLASSIFIER: row.classifier, QUANTITY: head}
      for name in facets:
        labels[name] = value_text(choice.quantity.facet(name), row[name]).replace(MINUS, '-')
      labels |= {TASK: choice.task.replace('_', ' ')} if by_task else {}
      order = {name: row[name] for name in facets if not isinstance(row[name], str)}
      yield Formatted(labels, choice.quantity, row.value, text, order)


def _ranks(name: str, entries: Sequence[Formatted]) -> dict[str, int]:
  """Returns the rank of each text: numbers of a facet ascend, all else keeps its order."""
  numbers = {entry.labels[name]: entry.order.get(name, 0) for entry in entries}
  return {text: place for place, text in enumerate(sorted(numbers, key=lambda k: numbers[k]))}


def _best(entries: Sequence[tuple[Cell, Formatted]]) -> Iterator[Cell]:
  """Yields the cells with the text of the best estimate, of estimates that differ in the classifier
  alone; yields nothing if all texts are equal."""
  better = entries[0][1].quantity.better
  defined = [(cell, entry) for cell, entry in entries if entry.value == entry.value]
  if better and len({entry.text.partition(' ')[0] for _, entry in defined}) > 1:
    choose = min if better == 'lower' else max
    best = choose(entry.value for _, entry in defined)
    texts = {entry.text.partition(' ')[0] for _, entry in defined if entry.value == best}
    yield from (cell for cell, entry in defined if entry.text.partition(' ')[0] in texts)
