"""Findings in words, from a few forms over declared quantities: the level with its paired
differences, the worst of many, and the largest difference of many.

A sentence is made of rows of the table of results alone. One that is chosen as the largest of many
has the interval that holds for all of them together.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from robustness.estimates.quantity import Quantity
from robustness.estimates.simultaneous import for_all
from robustness.estimates.systematic import DEGENERATE, SAYS_LITTLE, UNDEFINED
from robustness.estimates.table import by_facets, select, told_once
from robustness.present.notation import (
  Notation,
  is_axis,
  joined_words,
  name_of,
  place_of,
  place_words,
  sentence,
  verdict,
)
from robustness.results import SEED, Results

MOST_IN_A_LINE = 2
FEW = 7
"""Names of a facet that a quantity without a value over all is told for one by one."""


class Finding(NamedTuple):
  """What rows of the table say.

  Attributes:
    text: one sentence; clauses of many classifiers have a line each.
    rows: of the table that it is made of.
    facets: that these have.
    task: of a battery, '' for none.
  """

  text: str
  rows: pd.DataFrame
  facets: tuple[str, ...] = ()
  task: str = ''

  @property
  def figure(self) -> str:
    """The name that `robustness.present.charts.draw` gives the picture of these rows."""
    return name_of(self.rows['quantity'].iloc[0], self.facets)


def sentences(results: Results) -> list[str]:
  """Returns the text of `findings`."""
  return [finding.text for finding in findings(results)]


def findings(results: Results) -> list[Finding]:
  """Returns what the table says of the quantities that are headlines; of all without one."""
  quantities = [q for q in results.presented if q.headline] or list(results.presented)
  own = results.table
  if SEED in own.columns:
    own = own[own[SEED].isna()]
  levels = {quantity: leading(own, quantity.name) for quantity in quantities}
  told = [
    Finding(f'{words}: {_level(rows, quantity)}', rows, facets)
    for quantity, every in levels.items()
    for words, rows, facets in level_groups(every[every['low'].notna()], quantity)
  ]
  for difference in (False, True):
    for quantity in quantities:
      of_quantity = own[own['quantity'] == quantity.name]
      for facets, rows in told_once(of_quantity.drop(levels[quantity].index)):
        chosen = rows[(rows.versus != '') == difference]
        text = _largest(chosen, quantity, facets, levels[quantity]) if facets else ''
        told += [Finding(text, rows, facets)] if text else []
  return [finding._replace(text=sentence(finding.text)) for finding in told]


def leading(table: pd.DataFrame, quantity: str) -> pd.DataFrame:
  """Returns the rows of a quantity over all of everything; where there are none, those by the one
  facet that has the fewest values: at most `FEW` names, or 2 on an axis."""
  own = table[table['quantity'] == quantity]
  whole = select(own, quantity, None)
  if len(whole) or own.empty:
    return whole
  named = [
    rows
    for facets, rows in by_facets(own)
    if len(facets) == 1 and rows[facets[0]].nunique() <= (2 if is_axis(rows, facets[0]) else FEW)
  ]
  return min(named, key=len, default=whole)


def level_groups(
  leading_rows: pd.DataFrame, quantity: Quantity
) -> Iterator[tuple[str, pd.DataFrame, tuple[str, ...]]]:
  """Yields what the rows of `leading` are of ('top-1 error over the official corruptions'), these
  rows for each value of their facet, and their facets."""
  for facets, several in by_facets(leading_rows):
    groups = several.groupby(list(facets), sort=False) if facets else [((), several)]
    for values, rows in groups:
      yield ' '.join(filter(None, (quantity.words, place_words(facets, values)))), rows, facets


def _level(rows: pd.DataFrame, quantity: Quantity) -> str:
  """Returns clauses of each classifier: its value, then its difference from the first."""
  own, difference = Notation(quantity), Notation(quantity, difference=True)
  differences = {row.classifier: row for row in rows[rows.versus != ''].itertuples()}
  levels = {row.classifier: f' {_noted(own, row)}' for row in rows[rows.versus == ''].itertuples()}
  clauses = []
  for label in dict.fromkeys(rows.classifier):
    clause, other = f'{label}{levels.get(label, "")}', differences.get(label)
    if other is not None:
      told = f'minus {other.versus} {_noted(difference, other)}: {verdict(other, quantity)}'
      clause = f'{clause}, {told}' if label in levels else f'{clause} {told}'
    clauses.append(clause)
  return _joined(clauses)


def _largest(
  rows: pd.DataFrame, quantity: Quantity, facets: Sequence[str], levels: pd.DataFrame
) -> str:
  """Returns each classifier's worst value, or largest paired difference, by a facet or two; nothing
  of a classifier whose values are all the same, or whose level is the worst of them, as pm-k is.

  Of several that are as large those of each sign are told as one, with their widest interval.
  """
  difference = bool((rows.versus != '').any())
  if len(facets) > 2 or not (difference or quantity.better):
    return ''
  notation, clauses = Notation(quantity, difference), []
  same = ['classifier', 'versus', 'value', 'low', 'high']
  told = {*levels[same].itertuples(index=False, name=None)}
  for (label, versus), several in rows.groupby(['classifier', 'versus'], sort=False):
    own = several[several.low.notna()].value
    if several.value.nunique() < 2 or own.empty:
      continue
    size = own.abs() if difference else own if quantity.better == 'lower' else -own
    largest = several.loc[alike(size)]
    if told & {*largest[same].itertuples(index=False, name=None)}:
      continue
    for _, tied in largest.groupby(largest.value > 0, sort=False):
      row = tied.loc[(tied.high - tied.low).idxmax()]
      widened = for_all(row, len(several), quantity)
      if widened is not None:
        minus = f' minus {versus}' if difference else ''
        sign = '' if len(tied) == len(largest) else ' higher' if row.value > 0 else ' lower'
        place = place_of_alike(widened, facets, len(tied))
        clause = f'{label}{minus}{sign} {place}, {_noted(notation, widened)}'
        clauses.append(f'{clause}: {verdict(widened, quantity)}' if difference else clause)
  extreme = 'smallest' if quantity.better == 'higher' and not difference else 'largest'
  words = f'difference in {quantity.words}' if difference else quantity.words
  chosen = ', of those with an interval' if (rows.value.notna() & rows.low.isna()).any() else ''
  by = f'{joined_words([of for of in facets if rows[of].nunique() > 1])}{chosen}'
  return f'the {extreme} {words} by {by}: {_joined(clauses)}' if clauses else ''


def alike(sizes: pd.Series) -> pd.Index:
  """Returns where the largest are, all that rounding of floats alone tells apart."""
  return sizes.index[np.isclose(sizes, sizes.max(), rtol=1e-12, atol=1e-12)]


def place_of_alike(row: pd.Series, facets: Sequence[str], count: int) -> str:
  """Returns where the largest is, of several that are as large how many these are."""
  return place_of(row, facets) if count == 1 else f'at {count} places alike'


def _noted(notation: Notation, row: Any) -> str:
  """Returns an estimate with its unit, and with its note where this tells what it leaves out, or
  that it says nothing."""
  told = any(word in row.note for word in (UNDEFINED, DEGENERATE, SAYS_LITTLE))
  note = f', {row.note.replace(";", ",")}' if told else ''
  return f'{notation.full(row)}{note}'


def _joined(clauses: Sequence[str]) -> str:
  if len(clauses) <= MOST_IN_A_LINE:
    return '; '.join(clauses)
  return '\n' + ';\n'.join(clauses)
