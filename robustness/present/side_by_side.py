"""A table of classifiers for a paper: rows and columns by classifier, quantity and facets."""

import collections
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from robustness.core.errors import InputError, nearest
from robustness.estimates.quantity import Quantity
from robustness.estimates.table import facets_of, select
from robustness.present import choice
from robustness.present.notation import MINUS, Notation, number
from robustness.present.tables import Cell
from robustness.results import SINGLE, TASK, Results, Table

CLASSIFIER, QUANTITY = 'classifier', 'quantity'
ARROWS = {'lower': ' ↓', 'higher': ' ↑', '': ''}


class Formatted(NamedTuple):
  """An estimate: the values of what rows and columns are of, its quantity, value and text."""

  at: Mapping[str, str]
  quantity: Quantity
  value: float
  text: str


def arranged(
  tasks: Mapping[str, Results],
  quantities: Sequence[str] = (),
  rows: Sequence[str] = (),
  columns: Sequence[str] = (),
  intervals: bool = False,
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

  Raises:
    InputError: a quantity or facet that the results do not have, or no estimate by them.
  """
  named = [*rows, *columns]
  facets = [name for name in named if name not in (CLASSIFIER, QUANTITY, TASK)]
  _check_names(tasks, quantities, named)
  entries = list(_entries(tasks, quantities, facets, intervals, TASK in named))
  if not entries:
    of = f' of {", ".join(quantities)}' if quantities else ''
    by = f' by {" and ".join(facets)} alone' if facets else ' over all'
    raise InputError(f'there is no estimate{of}{by}: results.csv shows which facets there are.')
  heads = dict.fromkeys(entry.at[QUANTITY] for entry in entries)
  rows = [*rows, *([] if CLASSIFIER in named else [CLASSIFIER])]
  one = len(heads) == 1 and bool(facets)
  columns = [*columns, *([] if QUANTITY in named or (one and columns) else [QUANTITY])]

  def keys(names: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(entry.at[name] for name in names) for entry in entries]

  ranks = {name: _ranks(name, [entry.at[name] for entry in entries]) for name in entries[0].at}

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
  return table, frozenset(cell for several in rivals.values() for cell in _best(several))


def _check_names(
  tasks: Mapping[str, Results], quantities: Sequence[str], named: Sequence[str]
) -> None:
  known = {quantity.name for of in tasks.values() for quantity in of.quantities}
  known &= {name for of in tasks.values() for name in of.table['quantity']}
  facets = {name for of in tasks.values() for name in facets_of(of.table)}
  facets |= set() if SINGLE in tasks else {TASK}
  for what, names, valid in (
    ('quantity of these runs', quantities, known),
    ('facet of these runs', named, {CLASSIFIER, QUANTITY, *facets}),
  ):
    for name in names:
      if name not in valid:
        raise InputError(f'{name!r} is no {what}; {nearest(name, valid)}.')
  if len(set(named)) < len(named):
    raise InputError(f'rows and columns are of {", ".join(named)}: name each once.')


def _entries(
  tasks: Mapping[str, Results],
  quantities: Sequence[str],
  facets: Sequence[str],
  intervals: bool,
  by_task: bool,
) -> Iterator[Formatted]:
  for task, of in tasks.items():
    declared = {quantity.name: quantity for quantity in of.quantities}
    named = [declared[name] for name in quantities if name in declared]
    if facets:
      by: dict[str, Any] = dict.fromkeys(facets, ...)
      found = [
        choice.Choice(quantity, select(of.table, quantity.name, '', **by), task=task)
        for quantity in named or [q for q in of.quantities if q.headline] or of.quantities
      ]
    elif quantities:
      found = [c for q in named for c in choice.heads(of.table, q, of.quantities, task)]
    else:
      found = choice.headlines({task: of})
    for chosen in found:
      notation = Notation(chosen.quantity)
      unit = f' ({notation.unit})' if notation.unit else ''
      words = chosen.words if by_task else chosen.name
      words += f', {chosen.together}' if intervals and chosen.extremes is not None else ''
      head = f'{words}{unit}{ARROWS[chosen.quantity.better]}'
      rows = chosen.stated[chosen.stated.versus == '']
      digits = notation.plain_digits(float(rows['value'].abs().max()))
      for _, row in rows.iterrows():
        text = notation.bare(row) if intervals else notation.number(row.value, digits)
        at = {name: written(row[name]) for name in facets}
        at |= {TASK: written(task)} if by_task else {}
        yield Formatted(
          {CLASSIFIER: row.classifier, QUANTITY: head, **at}, chosen.quantity, row.value, text
        )


def _ranks(name: str, texts: Sequence[str]) -> dict[str, int]:
  """Returns the order of names: numbers of a facet ascending, all else as the results have it."""
  order = list(dict.fromkeys(texts))
  if name not in (CLASSIFIER, QUANTITY):
    with contextlib.suppress(ValueError):
      order.sort(key=float)
  return {text: place for place, text in enumerate(order)}


def written(value: object) -> str:
  """Returns the value of a facet as text."""
  return value.replace('_', ' ') if isinstance(value, str) else number(value).replace(MINUS, '-')


def _best(several: Sequence[tuple[Cell, Formatted]]) -> Iterator[Cell]:
  """Yields the best of the estimates that differ in the classifier alone, and what is written like
  it; none where all are written alike."""
  better = several[0][1].quantity.better
  known = [(cell, entry) for cell, entry in several if entry.value == entry.value]
  if better and len({entry.text.partition(' ')[0] for _, entry in known}) > 1:
    choose = min if better == 'lower' else max
    first = choose(entry.value for _, entry in known)
    texts = {entry.text.partition(' ')[0] for _, entry in known if entry.value == first}
    yield from (cell for cell, entry in known if entry.text.partition(' ')[0] in texts)
