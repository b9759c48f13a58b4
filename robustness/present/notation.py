"""Numbers, intervals and facets as text: one notation for figures, sentences and tables."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from robustness.estimates.facets import Facet
from robustness.estimates.jackknife import TOO_FEW
from robustness.estimates.quantity import COUNT, RATIO, SHARE, Quantity
from robustness.estimates.systematic import DEGENERATE

MINUS, NO_BREAK = '−', '\N{NO-BREAK SPACE}'
FREQUENCIES = ('frequency_y', 'frequency_x')
"""Facets of a Fourier map: a frequency and its mirror through 0 are one row and two cells."""
ATTACKS = {
  'auto_attack': 'AutoAttack',
  'auto_pgd': 'Auto-PGD',
  'fab': 'FAB',
  'fgsm': 'FGSM',
  'pgd': 'PGD',
  'square': 'Square',
}
"""The names of attacks in papers."""
MOST_NAMED = 3
"""Places that are named one by one."""


@dataclasses.dataclass(frozen=True)
class Notation:
  """How values of a quantity, or differences of two classifiers, are written; `versus` is the one
  that all are from, '' for several."""

  quantity: Quantity
  difference: bool = False
  versus: str = ''

  @property
  def scale(self) -> float:
    """What values are multiplied by: 100 for shares, which are written in percent."""
    return self.quantity.scale

  @property
  def signed(self) -> bool:
    """Whether values have signs, and shares are in points: differences, also within a quantity."""
    return self.difference or (self.quantity.kind == SHARE and self.quantity.range[0] < 0)

  @property
  def unit(self) -> str:
    """The unit of what is written: '%', 'points', that of the quantity, or ''."""
    if self.quantity.kind == SHARE:
      return 'points' if self.signed else '%'
    return self.quantity.unit

  @property
  def head(self) -> str:
    """The name of an axis or column, with the unit: 'top-1 error (%)'."""
    words = f'difference in {self.quantity.words}' if self.difference else self.quantity.words
    words = f'{self.quantity.words} minus that of {self.versus}' if self.versus else words
    return f'{words} ({self.unit})' if self.unit else words

  def digits(self, width: float) -> int:
    """Returns the decimals that an interval of a width leaves meaning to; of a count 0."""
    if self.quantity.kind == COUNT and not self.difference:
      return 0
    scaled = self.scale * width
    if not scaled > 1e-12:  # rounding of floats too
      return 1 if self.scale > 1 else 2
    return min(12, max(0, math.ceil(-math.log10(scaled / 5))))

  def plain_digits(self, largest: float) -> int:
    """Returns the decimals of values without intervals whose largest is given: of shares one, or
    those that show two digits of it; of others those that show three, of ratios at least three."""
    largest = self.scale * largest
    if self.quantity.kind == COUNT and not self.difference:
      return 0
    leading = math.floor(math.log10(largest)) if largest > 1e-12 else 0
    if self.quantity.kind == SHARE:
      return 1 if self.signed else min(12, max(1, 1 - leading))
    return min(12, max(3 if self.quantity.kind == RATIO else 0, 2 - leading))

  def number(self, value: float, digits: int) -> str:
    """Returns a value without its unit; a difference has a sign, and a rounded zero none."""
    if math.isnan(value):
      return 'unknown'
    text = f'{abs(self.scale * value):.{digits}f}'
    sign = '' if not float(text) else MINUS if value < 0 else '+' if self.signed else ''
    return f'{sign}{text}'

  def bare(self, row: Any) -> str:
    """Returns an estimate without its unit: '31.2 (30.1 to 32.4)', or why it has no interval where
    clusters are too few; the interval of a difference that leaves out 0 has the decimals that show
    it."""
    width = row.high - row.low
    wide = width > 1e-12 * abs(row.value)  # wider than rounding of floats makes it
    digits = self.digits(width) if wide else self.plain_digits(abs(row.value))
    if self.difference and (row.low > 0 or row.high < 0):
      nearest = self.scale * min(abs(row.low), abs(row.high))
      digits = min(12, max(digits, math.ceil(-math.log10(2 * nearest))))
    value = self.number(row.value, digits)
    if math.isnan(row.low + row.high):
      reasons = (part for part in row.note.split('; ') if part.startswith(TOO_FEW))
      return ' '.join([value, *(f'({reason})' for reason in reasons)])
    return f'{value} ({self.number(row.low, digits)} to {self.number(row.high, digits)})'

  def full(self, row: Any) -> str:
    """Returns an estimate with its unit: '31.2 % (30.1 to 32.4)'."""
    value, space, interval = self.bare(row).partition(' ')
    unit = f'{NO_BREAK}{self.unit}' if self.unit else ''
    return f'{value}{unit}{space}{interval}'


def says_nothing(rows: pd.DataFrame) -> np.ndarray:
  """Returns which estimates are noted as degenerate, as ρ of what nothing was learned of is."""
  return rows['note'].str.fullmatch(f'{DEGENERATE}(;.*)?').to_numpy(bool)


def is_axis(quantity: Quantity, rows: pd.DataFrame, name: str) -> bool:
  """Returns whether the values of a facet are numbers on an axis, and not names."""
  return not pd.api.types.is_string_dtype(rows[name].dtype) and quantity.facet(name).ordered


def number(value: Any) -> str:
  """Returns the value of a facet as text, with a typographic minus; whole ones with all digits."""
  return (str(int(value)) if float(value).is_integer() else f'{value:g}').replace('-', MINUS)


def rounded(facet: Facet, value: float) -> str:
  """Returns the value of a facet as an author prints it: with the fewest digits, two or more, that
  change it by 1 % at most; a multiple of the facet's steps as such, '8/255'."""
  steps = facet.steps * value
  if facet.steps and abs(steps - round(steps)) < 1e-6 and value != round(value, 2):
    return f'{round(steps)}/{facet.steps}'
  digits = 2 if abs(value) < 10 or float(value).is_integer() else int(math.log10(abs(value))) + 1
  texts = (f'{value:.{count}g}' for count in range(digits, digits + 5))
  near = (text for text in texts if abs(float(text) - value) <= 0.01 * abs(value))
  return number(value if float(value).is_integer() else float(next(near, value)))


def value_text(facet: Facet, value: Any) -> str:
  """Returns the value of a facet as authors write it: 'AutoAttack', '8/255', 'gaussian noise'."""
  if not isinstance(value, str):
    return rounded(facet, value)
  return ATTACKS.get(value if facet.name == 'attack' else '', value.replace('_', ' '))


def _place_form(facet: Facet, value: Any) -> str:
  """Returns how a sentence says a value of a facet, with '{}' in place of the value."""
  preposition = 'in' if isinstance(value, str) else 'at'
  return facet.place or f'{preposition} {facet.words} {{}}'


def value_words(facet: Facet, value: Any) -> str:
  """Returns the value of a facet in words: 'under fog', 'at severity 3', 'in class 7'."""
  form = facet.places.get(value) or _place_form(facet, value)
  return form.replace('{}', value_text(facet, value))


def place_words(quantity: Quantity, facets: Sequence[str], values: Sequence[Any]) -> str:
  """Returns the values of facets in words: 'under fog at severity 3', 'at frequency ±(3, −1)'."""
  named = dict(zip(facets, values, strict=True))
  if not {*FREQUENCIES} <= named.keys():
    return ' '.join(value_words(quantity.facet(name), value) for name, value in named.items())
  y, x = (named.pop(name) for name in FREQUENCIES)
  y, x = (y, x) if (y, x) > (0, 0) else (0 - y, 0 - x)
  sign = '±' if y or x else ''
  wave = f'at frequency {sign}({number(y)}, {number(x)})'
  words = [value_words(quantity.facet(name), value) for name, value in named.items()]
  return ' '.join([*words, wave])


def place_of(quantity: Quantity, row: pd.Series, facets: Sequence[str]) -> str:
  """Returns in words the values of the facets that a row has."""
  names = [name for name in facets if not pd.isna(row[name])]
  return place_words(quantity, names, [row[name] for name in names])


def places_of(quantity: Quantity, rows: pd.DataFrame, facets: Sequence[str]) -> str:
  """Returns the places of rows in words: 'under fog, snow and frost', and of more than
  `MOST_NAMED` how many others there are: 'under fog, snow, frost and 4 others'."""
  named = rows if len(rows) == MOST_NAMED + 1 else rows.head(MOST_NAMED)
  more = len(rows) - len(named)
  varying = [name for name in facets if rows[name].nunique() > 1]
  if varying[1:] or not varying:
    texts = [place_of(quantity, row, facets) for _, row in named.iterrows()]
    form = '{}'
  else:
    facet, first = quantity.facet(varying[0]), rows.iloc[0]
    texts = [value_text(facet, value) for value in named[facet.name]]
    singular, plural_form = f'{facet.words} {{}}', f'{facet.plural} {{}}'
    form = ' '.join(
      _place_form(facet, first[name]).replace(singular, plural_form)
      if name == facet.name
      else value_words(quantity.facet(name), first[name])
      for name in facets
    )
  texts = [text.removeprefix('at frequency ') if k else text for k, text in enumerate(texts)]
  *first, last = [*texts, f'{more} others'] if more else texts
  return form.replace('{}', f'{", ".join(first)} and {last}' if first else last)


def preposition(quantity: Quantity, rows: pd.DataFrame, facets: Sequence[str]) -> str:
  """Returns what stands before places by these facets: 'under', 'at', 'in'."""
  if {*facets} == {*FREQUENCIES}:
    return 'at'
  first = rows.iloc[0]
  is_single = len(facets) == 1
  form = _place_form(quantity.facet(facets[0]), first[facets[0]]) if is_single else 'in'
  return form.partition(' ')[0]


def plural(quantity: Quantity, facets: Sequence[str]) -> str:
  """Returns what several values of facets are: 'corruptions', 'pairs of attacks and radii'."""
  if {*facets} == {*FREQUENCIES}:
    return 'frequencies'
  words = ' and '.join(quantity.facet(name).plural for name in facets)
  return (
    words if len(facets) == 1 else f'{"pairs" if len(facets) == 2 else "combinations"} of {words}'
  )


def joined_words(quantity: Quantity, facets: Sequence[str]) -> str:
  """Returns what estimates are by: 'corruption and severity'."""
  return ' and '.join(quantity.facet(name).words for name in facets)


def name_of(quantity: str, facets: Sequence[str]) -> str:
  """Returns the name of the picture and of the table of estimates that have the same facets."""
  return '_'.join((quantity, *facets))


def column_name(label: str, versus: str) -> str:
  """Returns what stands above a classifier's own values, or its differences from another's."""
  return f'{label} − {versus}' if versus else label


def sentence(text: str) -> str:
  """Returns a text with a capital and a full stop."""
  return f'{text[0].upper()}{text[1:]}.'
