"""Facets and their values in words, and what pictures and tables are called by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from robustness.estimates.quantity import facet
from robustness.present.notation import MINUS


def is_axis(rows: pd.DataFrame, name: str) -> bool:
  """Returns whether the values of a facet are numbers on an axis, and not names."""
  return not pd.api.types.is_string_dtype(rows[name].dtype) and facet(name, ordered=True).ordered


def value_words(name: str, value: Any) -> str:
  """Returns the value of a facet in words: 'under fog', 'at severity 3', 'in class 7'."""
  described = facet(name)
  text = value.replace('_', ' ') if isinstance(value, str) else f'{value:g}'.replace('-', MINUS)
  preposition = 'in' if isinstance(value, str) else 'at'
  return (described.place or f'{preposition} {described.words} {{}}').replace('{}', text)


def place_words(facets: Sequence[str], values: Sequence[Any]) -> str:
  """Returns the values of several facets in words: 'under fog at severity 3'."""
  return ' '.join(map(value_words, facets, values))


def joined_words(facets: Sequence[str]) -> str:
  """Returns what estimates are by: 'corruption and severity'."""
  return ' and '.join(facet(name).words for name in facets)


def axis_name(name: str) -> str:
  """Returns the words of a facet with its unit."""
  described = facet(name)
  return f'{described.words} ({described.unit})' if described.unit else described.words


def name_of(quantity: str, facets: Sequence[str]) -> str:
  """Returns the name of the picture and of the table of estimates that have the same facets."""
  return '_'.join((quantity, *facets))


def column_name(label: str, versus: str) -> str:
  """Returns what stands above a classifier's own values, or its differences from another's."""
  return f'{label} − {versus}' if versus else label


def sentence(text: str) -> str:
  """Returns a text with a capital and a full stop."""
  return f'{text[0].upper()}{text[1:]}.'
