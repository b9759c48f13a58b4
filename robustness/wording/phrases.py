"""Numbers with their intervals as words, and sentences made of them."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeGuard, TypeVar

import numpy as np
import pandas as pd

from robustness.estimates import simultaneous
from robustness.estimates.quantity import Quantity
from robustness.results import Number, Results, Table

_T = TypeVar('_T')
MOST_IN_A_LINE = 2
OVER_SEEDS = 'over seeds'
PERCENT = '\N{NO-BREAK SPACE}%'


class NotReportedError(Exception):
  """Results lack what a sentence is about, or its interval: the sentence is left out."""


class Reader:
  """Results as sentences read them: what is not there, or has no interval, is `NotReportedError`.

  Attributes:
    results: of one study.
    labels: of the classifiers, in order.
  """

  def __init__(self, results: Results):
    self.results = results
    self.labels = list(results.prefixes)

  def number(self, name: str, label: str = '') -> Number:
    """Returns a number that has an interval, of a classifier if one is named."""
    number = self.results.numbers.get(self.name(name, label))
    if not has_interval(number):
      raise NotReportedError(name)
    return number

  def beginning(self, start: str, label: str = '') -> dict[str, Number]:
    """Returns the numbers that have intervals and whose names begin so, by the rest of the name."""
    start = self.name(start, label)
    numbers = {
      name.removeprefix(start): number
      for name, number in self.results.numbers.items()
      if name.startswith(start) and has_interval(number)
    }
    if not numbers:
      raise NotReportedError(start)
    return numbers

  def array(self, name: str, label: str = '') -> np.ndarray:
    """Returns an array."""
    values = self.results.arrays.get(self.name(name, label))
    if values is None:
      raise NotReportedError(name)
    return values

  def table(self, name: str) -> Table:
    """Returns a table that has rows."""
    if name not in self.results.tables or not self.results.tables[name].rows:
      raise NotReportedError(name)
    return self.results.tables[name]

  def setting(self, name: str) -> Any:
    """Returns a setting of the study."""
    if name not in self.results.settings:
      raise NotReportedError(name)
    return self.results.settings[name]

  def each(self, clause: Callable[[str], str]) -> str:
    """Returns a clause of every classifier for which there is one, joined to one sentence."""
    return joined(self.labels, clause)

  def others(self, clause: Callable[[str], str]) -> str:
    """Returns a clause of every classifier but the first, joined to one sentence."""
    return joined(self.labels[1:], clause)

  def shares(self, name: str, verb: str) -> str:
    """Returns a fraction of every classifier: 'a errs on 10 % (8 to 12); b errs on …'."""
    return self.each(lambda label: f'{label} {verb} {percent(self.number(name, label))}')

  def differences(
    self, lower: str, higher: str, shown: Callable[[str], bool] = lambda view: True
  ) -> str:
    """Returns what the table `comparison` says of every classifier but the first.

    Args:
      lower: word for one whose interval lies below 0; see `verdict`.
      higher: word for one whose interval lies above 0.
      shown: whether a row is told, by its third cell: the view.
    """
    table = self.table('comparison')
    low = table.columns.index('low')
    rows = {row[1]: row for row in table.rows if row[0] == self.first and shown(str(row[2]))}

    def clause(label: str) -> str:
      if label not in rows:
        raise NotReportedError(label)
      difference = number_of(rows[label][low - 1 : low + 2])
      return f'{label} {points(difference)}, {verdict(difference, lower, higher)}'

    return self.others(clause)

  def name(self, name: str, label: str = '') -> str:
    """Returns the whole name of a number or array, of a classifier if one is named."""
    return (self.results.prefixes[label] if label else '') + name

  @property
  def first(self) -> str:
    """The classifier that others are compared with."""
    return self.labels[0]

  @property
  def confidence(self) -> float:
    """Of the study's intervals."""
    return float(self.setting('confidence'))


def has_interval(number: Number | None) -> TypeGuard[Number]:
  """Whether there is a number, with an interval around it."""
  return number is not None and not math.isnan(number.value + number.low + number.high)


def joined(entries: Iterable[str], clause: Callable[[str], str]) -> str:
  """Returns the clauses that can be said, with semicolons; from three on, each on its own line.

  Raises:
    NotReportedError: there is none.
  """
  clauses = list(_said(clause, entries))
  if not clauses:
    raise NotReportedError('no clause')
  if len(clauses) <= MOST_IN_A_LINE:
    return '; '.join(clauses)
  return '\n' + ';\n'.join(clauses)


def told(results: Results, sentences: Sequence[Callable[[Reader], str]]) -> list[str]:
  """Returns the sentences that results allow, each with a capital letter and a full stop."""
  reader = Reader(results)
  return [
    f'{text[0].upper()}{text[1:]}.' for text in _said(lambda sentence: sentence(reader), sentences)
  ]


def clean_errors(reader: Reader) -> str:
  """'On clean images, a errs on 10 % (8 to 12); b errs on …'."""
  return f'on clean images, {reader.shares("clean_error", "errs on")}'


def _said(say: Callable[[_T], str], entries: Iterable[_T]) -> Iterator[str]:
  """Yields what is said of each entry, but of those that results do not report.

  Studies have different numbers, and settings leave some out, so that is no mistake; what is left
  out is logged at the level DEBUG of Python's logging, which commands do not show.
  """
  for entry in entries:
    try:
      yield say(entry)
    except NotReportedError as missing:
      logging.debug('no sentence on what results do not report: %s', missing)


def percent(number: Number) -> str:
  """A fraction with its interval, rounded as it deserves: '83 % (80 to 86)'."""
  value, low, high = (100 * end for end in (number.value, number.low, number.high))
  digits = _digits(high - low)
  return f'{value:.{digits}f}{PERCENT} ({_range(low, high, digits)}{_family(number)})'


def points(number: Number, signs: bool = True) -> str:
  """A difference of fractions with its interval: '−21 points (−24 to −18)'.

  Args:
    number: with an interval.
    signs: whether a plus is written.
  """
  value, low, high = (100 * end for end in (number.value, number.low, number.high))
  digits, form = _digits(high - low), signed if signs else _fixed
  return f'{form(value, digits)} points ({_range(low, high, digits, form)}{_family(number)})'


def plain(number: Number) -> str:
  """A number that is no share with its interval: '0.81 (0.79 to 0.84)'."""
  width = number.high - number.low
  digits = max(0, math.ceil(-math.log10(width / 3))) if width > 0 else 2
  return (
    f'{_fixed(number.value, digits)} ({_range(number.low, number.high, digits)}{_family(number)})'
  )


def verdict(difference: Number, lower: str, higher: str) -> str:
  """Says what an interval of a difference shows: one of two words, or that it shows neither."""
  if difference.high < 0:
    return lower
  return higher if difference.low > 0 else 'no difference shown'


def largest(numbers: dict[str, Number], sign: int = 1, least: float = 0.0) -> tuple[str, Number]:
  """Returns the name of the largest number (smallest for sign −1), and that number with the
  interval that holds for all of them together.

  Args:
    numbers: shares, or differences of shares.
    sign: 1 or −1.
    least: what the numbers can be: 0 of shares, −1 of differences; see `for_all`.
  """
  name = max(numbers, key=lambda key: sign * numbers[key].value)
  return name, for_all(numbers[name], len(numbers), least)


def for_all(number: Number, count: int, least: float = -1.0, most: float = 1.0) -> Number:
  """Returns one of `count` numbers with the interval that holds for all of them together.

  Args:
    number: with an interval.
    count: how many numbers it was chosen from.
    least, most: what the number can be; as given, a difference of shares.

  Raises:
    NotReportedError: the number has an interval that cannot be widened.
  """
  method, _, confidence = number.interval.rpartition(' ')
  if not method:
    raise NotReportedError(number.interval)
  described = {'clusters': number.n, 'method': method, 'confidence': float(confidence)}
  row = pd.Series({**dataclasses.asdict(number), **described, 'versus': ''})
  wide = simultaneous.for_all(row, count, Quantity('any', 'any', low=least, high=most))
  if wide is None:
    raise NotReportedError(number.interval)
  text = f'{number.interval} for all {count}'
  return dataclasses.replace(number, low=wide.low, high=wide.high, interval=text)


def number_of(cells: Sequence[Any], n: int = 0, interval: str = '') -> Number:
  """Returns the number whose value, low and high end are three cells of a table.

  Args:
    cells: of a row.
    n: how many examples it rests on.
    interval: how the ends were made.

  Raises:
    NotReportedError: a cell is missing.
  """
  if any(cell is None or math.isnan(cell) for cell in cells):
    raise NotReportedError('a row without an interval')
  value, low, high = map(float, cells)
  return Number(value, low, high, n, interval)


def complement(share: Number) -> Number:
  """Returns 1 minus a share with its interval: accuracy from error."""
  return dataclasses.replace(share, value=1 - share.value, low=1 - share.high, high=1 - share.low)


def listed(words: Sequence[str]) -> str:
  """'a', 'a and b', 'a, b and c'."""
  if len(words) < 2:
    return ''.join(words)
  return f'{", ".join(words[:-1])} and {words[-1]}'


def words(name: str) -> str:
  """A name as it is spoken: 'gaussian_noise' is 'gaussian noise'."""
  return name.replace('_', ' ')


def noted(text: str, number: Number) -> str:
  """Adds the note of a number, if it has one."""
  return f'{text} ({number.note})' if number.note else text


def counted(number: Number, of: str) -> str:
  """What a number rests on: '1,000 images', or 'the images' where its n are the seeds."""
  return f'the {of}' if OVER_SEEDS in number.interval else f'{number.n:,} {of}'


def signed(value: float, digits: int) -> str:
  """A number with a typographic sign; a rounded zero has none."""
  text = f'{abs(value):.{digits}f}'
  return text if not float(text) else f'{"+" if value > 0 else "−"}{text}'


def _fixed(value: float, digits: int) -> str:
  text = f'{abs(value):.{digits}f}'
  return f'−{text}' if value < 0 and float(text) else text


def _range(low: float, high: float, digits: int, form: Callable[[float, int], str] = _fixed) -> str:
  return f'{form(low, digits)} to {form(high, digits)}'


def _family(number: Number) -> str:
  """', for all 15 together' of an interval that was widened for a choice among as many."""
  _, chosen, count = number.interval.partition(' for all ')
  return f', for all {count} together' if chosen and count != '1' else ''


def _digits(width: float) -> int:
  """Decimals of percent that an interval of such a width leaves meaning to."""
  return 0 if width >= 5 else 1 if width >= 0.5 else 2
