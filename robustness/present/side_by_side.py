"""A table of classifiers for a paper: rows and columns by classifier, quantity and facets."""

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from robustness.core.errors import InputError, nearest
from robustness.estimates.quantity import ACCURACY, CLEAN_ACCURACY, CLEAN_ERROR, Quantity
from robustness.estimates.table import facets_of, select
from robustness.present import choice
from robustness.present.notation import MINUS, Notation, value_text
from robustness.present.tables import Cell
from robustness.results import SINGLE, TASK, Results, Table

CLASSIFIER, QUANTITY = 'classifier', 'quantity'
CLEAN_ACCURACIES = 'top1_accuracy', CLEAN_ACCURACY.name
CLEAN = *CLEAN_ACCURACIES, CLEAN_ERROR.name
MAX_COLUMNS = 7
"""Headlines side by side; more are rows."""
ARROWS = {'lower': ' ↓', 'higher': ' ↑', '': ''}


class Formatted(NamedTuple):
  """An estimate: the values of what rows and columns are of as text, its quantity, value and text;
  `order` has the numbers among these values."""

  at: Mapping[str, str]
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
  """Returns a table of classifiers' own estimates, and which cells are the best of several
  classifiers, ties as written included; none where neither end of a quantity is better, or all are
  written alike.

  Args:
    tasks: results by task, see `Results.by_task`.
    quantities: by name; () takes the headlines.
    rows, columns: 'classifier', 'quantity', of a battery 'task', or facets, which the estimates
      have and no others; with no facet they are those that head a report. Classifiers that are in
      neither are rows, and several quantities columns.
    intervals: whether they are written behind values.
    shown: columns with short heads in place of quantities, see `_columns`.

  Raises:
    InputError: a quantity or facet that the results do not have, or no estimate by them.
  """
  named = [*rows, *columns]
  facets = [name for name in named if name not in (CLASSIFIER, QUANTITY, TASK)]
  if shown:
    entries = [
      entry for name in shown for entry in _formatted(_columns(tasks, name), (), intervals, False)
    ]
  else:
    _check_names(tasks, quantities, named)
    entries = list(_entries(tasks, quantities, facets, intervals, TASK in named))
  if not entries:
    names = f' of {", ".join(quantities)}' if quantities else ''
    by = f' by {" and ".join(facets)} alone' if facets else ' over all'
    raise InputError(f'there is no estimate{names}{by}: results.csv shows which facets there are.')
  heads = dict.fromkeys(entry.at[QUANTITY] for entry in entries)
  rows = [*rows, *([] if CLASSIFIER in named else [CLASSIFIER])]
  is_single = len(heads) == 1 and bool(facets)
  columns = [*columns, *([] if QUANTITY in named or (is_single and columns) else [QUANTITY])]

  def keys(names: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(entry.at[name] for name in names) for entry in entries]

  if not (named or shown) and len(heads) > MAX_COLUMNS >= len(
    {entry.at[CLASSIFIER] for entry in entries}
  ):
    rows, columns = [QUANTITY], [CLASSIFIER]  # so that the table is no wider than a page
  ranks = {name: _ranks(name, entries) for name in entries[0].at}

  def rank(names: Sequence[str]) -> Callable[[tuple[str, ...]], list[int]]:
    return lambda key: [ranks[name][text] for name, text in zip(names, key, strict=True)]

  down, across = (sorted(set(keys(names)), key=rank(names)) for names in (rows, columns))
  cells = [[*key, *([''] * len(across))] for key in down]
  rivals: dict[tuple[str, ...], list[tuple[Cell, Formatted]]] = collections.defaultdict(list)
  for entry, row, column in zip(entries, keys(rows), keys(columns), strict=True):
    place = down.index(row), len(rows) + across.index(column)
    cells[place[0]][place[1]] = entry.text
    rivals[tuple(text for name, text in entry.at.items() if name != CLASSIFIER)].append(
      (place, entry)
    )
  corner = [entries[0].quantity.facet(name).words for name in rows]
  if QUANTITY not in (*rows, *columns):
    corner[0] = f'{next(iter(heads))}: {corner[0]}'
  table = Table((*corner, *map(', '.join, across)), cells)
  return table, frozenset(cell for entries in rivals.values() for cell in _best(entries))


def _check_names(
  tasks: Mapping[str, Results], quantities: Sequence[str], named: Sequence[str]
) -> None:
  estimated = {quantity.name for results in tasks.values() for quantity in results.quantities}
  estimated &= {name for results in tasks.values() for name in results.table['quantity']}
  estimated |= {ACCURACY.name} if estimated & {*CLEAN_ACCURACIES} else set()
  facets = {name for results in tasks.values() for name in facets_of(results.table)}
  facets |= set() if SINGLE in tasks else {TASK}
  for kind, names, valid in (
    ('quantity of these runs', quantities, estimated),
    ('facet of these runs', named, {CLASSIFIER, QUANTITY, *facets}),
  ):
    for name in names:
      if name not in valid:
        raise InputError(f'{name!r} is no {kind}; {nearest(name, valid)}.')
  if len(set(named)) < len(named):
    raise InputError(f'rows and columns are of {", ".join(named)}: name each once.')


def _entries(
  tasks: Mapping[str, Results],
  quantities: Sequence[str],
  facets: Sequence[str],
  intervals: bool,
  by_task: bool,
) -> Iterator[Formatted]:
  for task, results in tasks.items():
    declared = {quantity.name: quantity for quantity in results.quantities}
    named = [declared[name] for name in quantities if name in declared]
    if facets:
      by: dict[str, Any] = dict.fromkeys(facets, ...)
      found = [
        choice.Choice(quantity, select(results.table, quantity.name, '', **by), task=task)
        for quantity in named
        or [quantity for quantity in results.quantities if quantity.headline]
        or results.quantities
      ]
    elif quantities:
      clean = _measured(results, CLEAN_ACCURACIES)[:1] if ACCURACY.name in quantities else []
      found = [
        chosen
        for quantity in [*clean, *named]
        if not (quantity.name == ACCURACY.name and (clean or not quantity.headline))
        for chosen in choice.heads(results.table, quantity, results.quantities, task)
      ]
    else:
      found = choice.headlines({task: results})
    heads = [chosen.words if by_task else chosen.name for chosen in found]
    yield from _formatted(zip(heads, found, strict=True), facets, intervals, by_task)


def _measured(results: Results, names: Sequence[str]) -> list[Quantity]:
  """Returns the quantities of some names that results have estimates of, in the order of names."""
  measured = {*results.table['quantity']}
  declared = {q.name: q for q in results.quantities if q.name in measured}
  return [declared[name] for name in names if name in declared]


def _columns(tasks: Mapping[str, Results], name: str) -> Iterator[tuple[str, choice.Choice]]:
  """Yields a short head and the estimates of each column that a name stands for: a task's first
  headline, a quantity, or `clean` for accuracy or error on clean images.

  Raises:
    InputError: a name of none of these.
  """
  quantities = {q.name.lower(): q.name for results in tasks.values() for q in results.quantities}
  quantity = quantities.get(name.lower(), '')
  names = CLEAN if name.lower() in ('clean', ACCURACY.name) else (quantity,)
  if name in tasks and name != SINGLE:
    found = choice.headlines({name: tasks[name]})
    found = [chosen for chosen in found if chosen.quantity == found[0].quantity]
  else:
    found = []
    for task, results in tasks.items():
      for measured in () if found else _measured(results, names):
        heads = choice.heads(results.table, measured, results.quantities, task)
        found = found or [c for c in heads if names != CLEAN or not c.facets]
  if not found:
    valid = dict.fromkeys(['clean', *filter(None, tasks), *quantities.values()])
    raise InputError(f'--show has {name!r}, which is no task or quantity; {nearest(name, valid)}.')
  is_written = quantity != quantity.lower()  # as mCE is
  head = quantity if is_written else name.replace('_', ' ').capitalize()
  head = 'Clean error' if found[0].quantity.name == CLEAN_ERROR.name else head
  for chosen in found:
    place = f' {chosen.place}' if len(found) > 1 else ''
    yield chosen.attack_words or f'{head}{place}', chosen


def notes_of(tasks: Mapping[str, Results], shown: Sequence[str]) -> list[str]:
  """Returns what a reader must know of the columns `shown`, such as why mCE is not comparable."""
  notes = dict[str, None]()
  for name in shown:
    for head, chosen in _columns(tasks, name):
      estimates = chosen.stated[(chosen.stated.versus == '') & (chosen.stated.note != '')]
      notes |= dict.fromkeys(
        f'{head}, {row.classifier}: {row.note}' for _, row in estimates.iterrows()
      )
  return [*notes]


def _formatted(
  columns: Iterable[tuple[str, choice.Choice]],
  facets: Sequence[str],
  intervals: bool,
  by_task: bool,
) -> Iterator[Formatted]:
  """Yields the classifiers' own estimates of each column, a head and a choice."""
  for words, chosen in columns:
    notation = Notation(chosen.quantity)
    unit = f' ({notation.unit})' if notation.unit else ''
    together = f', {chosen.together}' if intervals and chosen.extremes is not None else ''
    head = f'{words}{together}{unit}{ARROWS[chosen.quantity.better]}'
    rows = chosen.stated[chosen.stated.versus == '']
    digits = notation.plain_digits(float(rows['value'].abs().max()))
    for _, row in rows.iterrows():
      text = notation.bare(row) if intervals else notation.number(row.value, digits)
      at = {
        name: value_text(chosen.quantity.facet(name), row[name]).replace(MINUS, '-')
        for name in facets
      }
      at |= {TASK: chosen.task.replace('_', ' ')} if by_task else {}
      order = {name: row[name] for name in facets if not isinstance(row[name], str)}
      at = {CLASSIFIER: row.classifier, QUANTITY: head, **at}
      yield Formatted(at, chosen.quantity, row.value, text, order)


def _ranks(name: str, entries: Sequence[Formatted]) -> dict[str, int]:
  """Returns the order of names: numbers of a facet ascending, all else as the results have it."""
  numbers = {entry.at[name]: entry.order.get(name, 0) for entry in entries}
  return {text: place for place, text in enumerate(sorted(numbers, key=lambda k: numbers[k]))}


def _best(entries: Sequence[tuple[Cell, Formatted]]) -> Iterator[Cell]:
  """Yields the best of the estimates that differ in the classifier alone, and each that is written
  as the best one is; none where all are written alike."""
  better = entries[0][1].quantity.better
  defined = [(cell, entry) for cell, entry in entries if entry.value == entry.value]
  if better and len({entry.text.partition(' ')[0] for _, entry in defined}) > 1:
    choose = min if better == 'lower' else max
    best = choose(entry.value for _, entry in defined)
    texts = {entry.text.partition(' ')[0] for _, entry in defined if entry.value == best}
    yield from (cell for cell, entry in defined if entry.text.partition(' ')[0] in texts)
