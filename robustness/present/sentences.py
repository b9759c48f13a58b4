"""Findings in words, from a few forms over declared quantities: level, worst of many, difference.

A sentence is made of rows of the table of results alone. One that is chosen as the largest of many
has the interval that holds for all of them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from robustness.estimates.quantity import Quantity, facet
from robustness.estimates.simultaneous import for_all
from robustness.estimates.table import facets_of
from robustness.present.notation import Notation, verdict
from robustness.results import Results

MOST_IN_A_LINE = 2


def sentences(results: Results) -> list[str]:
  """Returns what the table of results says, the headline quantities first."""
  order = sorted(results.presented, key=lambda quantity: not quantity.headline)
  told = [text for quantity in order for text in of_quantity(results.table, quantity)]
  return [f'{text[0].upper()}{text[1:]}.' for text in told]


def of_quantity(table: pd.DataFrame, quantity: Quantity) -> list[str]:
  """Returns the level, the paired differences and the worst of a quantity, where there are such."""
  own = table[(table['quantity'] == quantity.name) & table['low'].notna()]
  facets = facets_of(table)
  whole = own[own[facets].isna().all(axis=1)] if facets else own
  told = [_level(whole, quantity), _differences(whole, quantity)]
  if quantity.better:
    told += [_worst(own, quantity, name, facets) for name in facets]
  return [text for text in told if text]


def _level(whole: pd.DataFrame, quantity: Quantity) -> str:
  rows = whole[whole.versus == '']
  notation = Notation(quantity)
  clauses = [f'{row.classifier} {notation.full(row)}' for row in rows.itertuples()]
  return f'{quantity.words}: {_joined(clauses)}' if clauses else ''


def _differences(whole: pd.DataFrame, quantity: Quantity) -> str:
  rows = whole[whole.versus != '']
  notation = Notation(quantity, difference=True)
  clauses = [
    f'{row.classifier} {notation.full(row)}, {verdict(row, quantity)}' for row in rows.itertuples()
  ]
  if not clauses:
    return ''
  return f'{quantity.words} minus that of {rows.versus.iloc[0]}, paired: {_joined(clauses)}'


def _worst(own: pd.DataFrame, quantity: Quantity, name: str, facets: Sequence[str]) -> str:
  """Returns the worst value of a facet for each classifier, all other facets averaged over."""
  others = [facet_name for facet_name in facets if facet_name != name]
  rows = own[(own.versus == '') & own[name].notna() & own[others].isna().all(axis=1)]
  notation, clauses = Notation(quantity), []
  for label, several in rows.groupby('classifier', sort=False):
    if len(several) < 2:
      continue
    place = several.value.idxmax() if quantity.better == 'lower' else several.value.idxmin()
    widened = for_all(several.loc[place], len(several), quantity)
    if widened is not None:
      clauses.append(f'{label} {value_words(name, widened[name])}, {notation.full(widened)}')
  extreme = 'largest' if quantity.better == 'lower' else 'smallest'
  told = f'the {extreme} {quantity.words} by {facet(name).words}: {_joined(clauses)}'
  return told if clauses else ''


def value_words(name: str, value: Any) -> str:
  """Returns the value of a facet in words: 'under fog', 'at severity 3', 'in class 7'."""
  if isinstance(value, str):
    place = 'under' if name == 'corruption' else f'in {facet(name).words}'
    return f'{place} {value.replace("_", " ")}'
  return f'at {facet(name).words} {value:g}'


def _joined(clauses: Sequence[str]) -> str:
  if len(clauses) <= MOST_IN_A_LINE:
    return '; '.join(clauses)
  return '\n' + ';\n'.join(clauses)
