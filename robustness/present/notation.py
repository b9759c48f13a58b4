"""A number and its interval as text: one notation for figures, sentences and tables."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from robustness.estimates.means import OVER_SEEDS
from robustness.estimates.quantity import SHARE, Quantity

MINUS, NO_BREAK = '−', '\N{NO-BREAK SPACE}'


@dataclasses.dataclass(frozen=True)
class Notation:
  """How values of a quantity are written.

  Attributes:
    quantity: whose values.
    difference: whether they are differences of two classifiers.
  """

  quantity: Quantity
  difference: bool = False

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
    return f'{words} ({self.unit})' if self.unit else words

  def digits(self, width: float) -> int:
    """Returns the decimals that an interval of a width leaves meaning to."""
    scaled = self.scale * width
    if not scaled > 0:
      return 1 if self.scale > 1 else 2
    return min(12, max(0, math.ceil(-math.log10(scaled / 5))))

  def number(self, value: float, digits: int) -> str:
    """Returns a value without its unit; a difference has a sign, and a rounded zero none."""
    if math.isnan(value):
      return 'unknown'
    text = f'{abs(self.scale * value):.{digits}f}'
    sign = '' if not float(text) else MINUS if value < 0 else '+' if self.signed else ''
    return f'{sign}{text}'

  def bare(self, row: Any) -> str:
    """Returns an estimate without its unit: '31.2 (30.1 to 32.4)'.

    The interval of a difference that leaves out 0 has the decimals that show it.

    Args:
      row: of the table of results.
    """
    width = row.high - row.low
    digits = (
      self.digits(width) if width > 0 else max(self.digits(0), self.digits(abs(row.value) / 2))
    )
    if self.difference and (row.low > 0 or row.high < 0):
      nearest = self.scale * min(abs(row.low), abs(row.high))
      digits = min(12, max(digits, math.ceil(-math.log10(2 * nearest))))
    value = self.number(row.value, digits)
    if math.isnan(row.low + row.high):
      return value
    family = f', for all {row.family} together' if row.family > 1 else ''
    low, high = (self.number(end, digits) for end in (row.low, row.high))
    return f'{value} ({low} to {high}{family})'

  def full(self, row: Any) -> str:
    """Returns an estimate with its unit: '31.2 % (30.1 to 32.4)'."""
    value, space, interval = self.bare(row).partition(' ')
    unit = f'{NO_BREAK}{self.unit}' if self.unit else ''
    return f'{value}{unit}{space}{interval}'


def verdict(row: Any, quantity: Quantity) -> str:
  """Returns what the interval of a difference shows: 'better', 'worse', 'higher', 'lower', or that
  it shows neither.

  Args:
    row: of a paired difference.
    quantity: says whether lower or higher is better.
  """
  if math.isnan(row.low + row.high):
    return 'unknown'
  if quantity.biased and row.method == OVER_SEEDS:
    return 'not told by seeds alone'
  if row.low <= 0 <= row.high:
    return 'no difference shown'
  way = 'lower' if row.high < 0 else 'higher'
  if not quantity.better:
    return way
  return f'{way}, {"better" if way == quantity.better else "worse"}'
