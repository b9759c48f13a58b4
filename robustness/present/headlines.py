"""What heads the findings of a run: its headline quantities, classifiers side by side.

Of a quantity that is declared a headline, the estimates that are over most are taken: those without
facets, else those with the fewest. Where a facet has few values each is a headline; where all have
many, the worst for each classifier is, with an interval that holds for all of them together.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from robustness.estimates.quantity import SHARE, Quantity, facet
from robustness.estimates.table import ESTIMATE, SUBJECT, by_facets, facets_of
from robustness.present import charts
from robustness.present.notation import Notation
from robustness.present.sentences import for_all
from robustness.results import Results, Table

FEW = 4
"""Values of a facet up to which each is a headline."""
CLASS = 'class'
_LETTERS = 34  # of a line of a headline beside its bar


class Headline(NamedTuple):
  """Estimates of a quantity, classifier by classifier.

  Attributes:
    part: of the battery, '' for one study.
    quantity: what they are of.
    words: what they are, such as 'top-1 error, severity 5'.
    rows: of the table of results, one a classifier; and differences, where none is a choice.
    choices: how many estimates each was chosen from as the worst; 1 for no choice.
  """

  part: str
  quantity: Quantity
  words: str
  rows: pd.DataFrame
  choices: int = 1

  @property
  def name(self) -> str:
    """Words, after the part's name where there are parts."""
    return ': '.join(filter(None, (self.part.replace('_', ' '), self.words)))

  @property
  def is_rated(self) -> bool:
    """Whether it is a share of which more is better, or worse, than less."""
    return self.quantity.kind == SHARE and bool(self.quantity.better)

  def widened(self, row: pd.Series, choices: int) -> pd.Series:
    """Returns an estimate with the interval for all it was chosen from, if there is one."""
    if choices == 1:
      return row
    wide = for_all(row, choices, self.quantity)
    return pd.Series({**row, 'low': math.nan, 'high': math.nan}) if wide is None else wide

  def own(self) -> Iterator[pd.Series]:
    """Yields the estimate of each classifier, no differences."""
    for _, row in self.rows[self.rows.versus == ''].iterrows():
      yield row


def headlines(parts: Mapping[str, Results]) -> list[Headline]:
  """Returns what heads the findings of `Results.by_part`, part after part."""
  return [
    headline
    for part, of in parts.items()
    for quantity in of.quantities
    if quantity.headline
    for headline in of_quantity(part, of.table, quantity)
  ]


def of_quantity(part: str, table: pd.DataFrame, quantity: Quantity) -> Iterator[Headline]:
  """Yields the headlines of one quantity; see the module."""
  own = table[(table['quantity'] == quantity.name) & table['value'].notna()]
  if CLASS in own and own[CLASS].isna().any():
    own = own[own[CLASS].isna()]  # of other images each
  count = own[facets_of(own)].notna().sum(axis=1)
  least = own[count == count.min()]
  found = False
  for facets, rows in by_facets(least):
    several = list(rows.groupby(list(facets), sort=False)) if facets else [((), rows)]
    if len(several) <= FEW:
      found = True
      for values, of_values in several:
        words = ', '.join((quantity.words, *map(_value, facets, values)))
        yield Headline(part, quantity, words, of_values)
  own = least[least.versus == '']
  if not found and quantity.better and len(own):
    groups = own.groupby('classifier', sort=False).value
    places = groups.idxmax() if quantity.better == 'lower' else groups.idxmin()
    extreme = 'largest' if quantity.better == 'lower' else 'smallest'
    choices = int(groups.size().max())
    words = f'{quantity.words}, {extreme} of {choices}'
    yield Headline(part, quantity, words, own.loc[places], choices)


def _value(name: str, value: Any) -> str:
  return value.replace('_', ' ') if isinstance(value, str) else f'{facet(name).words} {value:g}'


def worst(found: Sequence[Headline], label: str) -> list[tuple[Headline, pd.Series]]:
  """Returns in which part a classifier is wrong on the largest share, the worst first.

  Each part's worst headline that is a share and has an interval is in, with the one that holds for
  all estimates that were looked through; nothing where there was no choice.
  """
  choices, by_part = 0, dict[str, tuple[float, Headline, pd.Series]]()
  for headline in found:
    for row in headline.own() if headline.is_rated else ():
      if row.classifier == label and not math.isnan(row.low):
        choices += headline.choices
        bad = row.value if headline.quantity.better == 'lower' else 1 - row.value
        if bad > by_part.get(headline.part, (-1.0,))[0]:
          by_part[headline.part] = (bad, headline, row)
  ordered = sorted(by_part.values(), key=lambda entry: -entry[0]) if choices > 1 else []
  return [(headline, headline.widened(row, choices)) for _, headline, row in ordered]


def place(headline: Headline, row: pd.Series) -> str:
  """Returns where the worst of many is, such as 'fog, severity 5'; '' for no choice."""
  if headline.choices == 1:
    return ''
  names = [name for name in facets_of(headline.rows) if not pd.isna(row[name])]
  return ', '.join(_value(name, row[name]) for name in names)


def labels_of(parts: Mapping[str, Results]) -> list[str]:
  """Returns the classifiers in order; a part may lack those that it cannot measure."""
  return list(dict.fromkeys(label for of in parts.values() for label in of.table.classifier))


class Cells(NamedTuple):
  """A headline as text.

  Attributes:
    name: with its unit.
    values: by classifier and the one it is a difference from, '' for its own value.
    notes: of those that have one.
  """

  name: str
  values: dict[tuple[str, str], str]
  notes: dict[tuple[str, str], str]


def cells(parts: Mapping[str, Results]) -> list[Cells]:
  """Returns the headlines as text.

  Above several parts the worst share of each classifier is marked, with the interval for all that
  it was chosen from.
  """
  found, told = headlines(parts), []
  marked = {} if '' in parts else {label: worst(found, label)[:1] for label in labels_of(parts)}
  for headline in found:
    unit = Notation(headline.quantity).unit
    line = Cells(headline.name + (f' ({unit})' if unit else ''), {}, {})
    for _, row in headline.rows.iterrows():
      notation = Notation(headline.quantity, difference=bool(row.versus))
      text, where = notation.bare(headline.widened(row, headline.choices)), place(headline, row)
      for of, widest in marked.get(row.classifier, ()) if not row.versus else ():
        text = f'worst: {notation.bare(widest)}' if of is headline else text
      line.values[row.classifier, row.versus] = text + (f', {where}' if where else '')
      if row.note:
        line.notes[row.classifier, row.versus] = row.note
    told.append(line)
  return told


def table(parts: Mapping[str, Results]) -> Table:
  """Returns a row for each headline, a column for each classifier, then each difference, and notes
  if there are some."""
  rows = cells(parts)
  known = dict.fromkeys([(label, '') for label in labels_of(parts)])
  columns = sorted(known | dict.fromkeys(k for row in rows for k in row.values), key=_is_difference)
  heads = [f'{label} − {versus}' if versus else label for label, versus in columns]
  lines = [[row.name, *(row.values.get(k, '') for k in columns)] for row in rows]
  if any(row.notes for row in rows):
    heads = [*heads, 'note']
    lines = [
      [*line, '; '.join(dict.fromkeys(row.notes.values()))]
      for line, row in zip(lines, rows, strict=True)
    ]
  return Table(('', *heads), lines)


def _is_difference(column: tuple[str, str]) -> bool:
  return bool(column[1])


def draw(parts: Mapping[str, Results]) -> Mapping[str, charts.Picture]:
  """Returns a picture of bars for all headlines of one unit and direction."""
  kinds: dict[Quantity, list[pd.DataFrame]] = {}
  for headline in headlines(parts):
    quantity = headline.quantity
    words = f'{quantity.better} is better' if quantity.better else 'value'
    shown = Quantity('overview', words, quantity.kind, quantity.better, quantity.unit)
    rows = pd.DataFrame([headline.widened(row, headline.choices) for row in headline.own()])
    rows = rows[[*SUBJECT, *ESTIMATE]].assign(headline=textwrap.fill(headline.name, _LETTERS))
    kinds.setdefault(shown, []).append(rows)
  figures: dict[str, charts.Picture] = {}
  for shown, of_kind in kinds.items():
    rows = pd.concat(of_kind, ignore_index=True).astype({'headline': 'string'})
    picture = charts.draw_rows(rows, shown, ('headline',), labels_of(parts))
    if picture is not None:
      images = sorted({int(n) for n in rows.n})
      counted = f'{images[0]:,}' if len(images) == 1 else f'{images[0]:,} to {images[-1]:,}'
      caption = (
        f'The headline quantities of which {shown.words}, on {counted} images; '
        f'{100 * np.unique(rows.confidence)[0]:g} % intervals, of a worst of many for all of them '
        'together.'
      )
      name = '_'.join(filter(None, (shown.name, shown.kind, shown.unit, shown.better)))
      figures[name.replace(' ', '_')] = picture[0], caption
  return figures
