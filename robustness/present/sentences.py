"""Choices in words: levels with their differences, where classifiers differ, and worst values.

A sentence is made of the rows of a choice alone. Its differences hold for all classifiers that it
compares together, and the largest of many for all that it was chosen from.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pandas as pd

from robustness.estimates.of_means import ITSELF
from robustness.estimates.quantity import Quantity
from robustness.estimates.simultaneous import for_all
from robustness.estimates.systematic import DEGENERATE, SAYS_LITTLE, UNDEFINED
from robustness.estimates.table import OVER_SEEDS
from robustness.present.choice import Choice, choices
from robustness.present.notation import (
  MAX_NAMED,
  Notation,
  name_of,
  places_of,
  preposition,
  sentence,
)
from robustness.results import Results

MOST_IN_A_LINE = 2
"""Clauses of a sentence that follow one another; of more each has a line."""
MANY = 100
"""Places from which their share in percent is told, and not their number."""
_ANSWERS = re.compile(r'top-1 (error|accuracy)\b *')
_VERBS = {
  'error': ('errs less', 'errs more'),
  'accuracy': ('is right less often', 'is right more often'),
}
"""What a classifier does whose top-1 error, or accuracy, is lower, and higher."""


class Finding(NamedTuple):
  """What rows of the table say.

  Attributes:
    text: one sentence, and what its intervals hold for; clauses of many classifiers have a line
      each.
    rows: of the table that it is made of, levels with the intervals that it states.
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
  chosen, found = choices(results), list[Finding]()
  levels = [choice for choice in chosen if choice.extremes is None]
  for quantity in dict.fromkeys(choice.quantity for choice in levels):
    found += _levels([choice for choice in levels if choice.quantity == quantity], quantity)
  for choice in chosen[len(levels) :]:
    of_differences = bool((choice.rows.versus != '').any())
    head, clauses = _differences(choice) if of_differences else _extremes(choice)
    if clauses:
      told = _joined(head, clauses, 1 if of_differences else MOST_IN_A_LINE)
      text = f'{told} Intervals are {choice.coverage}.'
      found.append(Finding(text, choice.rows, choice.facets))
  return found


def _levels(levels: Sequence[Choice], quantity: Quantity) -> Iterator[Finding]:
  """Yields the levels of a quantity with the classifiers side by side; of a single classifier all
  levels in one finding."""
  known = [choice.rows[choice.rows['low'].notna()] for choice in levels]
  labels = pd.concat(known).classifier.unique()
  if len(levels) > 1 and len(labels) == 1:
    clauses = [
      f'{_estimate(quantity, row)} {choice.place}'
      for choice, rows in zip(levels, known, strict=True)
      for row in _rows(rows)
    ]
    text = _joined(f'{quantity.words}, {labels[0]}:', clauses)
    yield Finding(text, pd.concat(known), levels[0].facets)
    return
  for choice, rows in zip(levels, known, strict=True):
    own, differences = (rows[(rows.versus != '') == kind] for kind in (False, True))
    stated = [for_all(row, len(differences), quantity) for row in _rows(differences)]
    widened = {row.classifier: row for row in stated if row is not None}
    clauses = list(_level_clauses(own, widened, quantity))
    if (rows.high > rows.low).any():
      networks = f'Differences are simultaneous over {len(widened)} networks.'
      text = f'{_joined(f"{choice.words}:", clauses)} {networks * (len(widened) > 1)}'
      rows = pd.concat([own, pd.DataFrame([*widened.values()])]) if widened else own
      yield Finding(text.rstrip(), rows, choice.facets)


def _level_clauses(
  own: pd.DataFrame, differences: dict[str, pd.Series], quantity: Quantity
) -> Iterator[str]:
  """Yields each classifier's value, then how it differs from the first."""
  values = {row.classifier: f' {_estimate(quantity, row)}' for row in _rows(own)}
  for label in dict.fromkeys([*values, *differences]):
    clause, link = f'{label}{values.get(label, "")}', ', ' if label in values else ' is '
    if label not in differences:
      yield clause
      continue
    row = differences[label]
    difference = _estimate(quantity, row)
    if quantity.biased and row.method == OVER_SEEDS:
      yield f'{clause}, minus {row.versus} {difference}, which seeds alone do not test'
    elif row.low <= 0 <= row.high:
      yield f'{clause}, no difference from {row.versus} is shown: {difference}'
    else:
      size = row if row.value > 0 else _reversed(row)
      by = _estimate(quantity, size).replace('+', '')
      yield f'{clause}{link}{_ways(quantity)[row.value > 0]} than {row.versus} by {by}'


def _differences(choice: Choice) -> tuple[str, list[str]]:
  """Returns the head of a sentence, and clauses of each classifier: where it differs significantly
  from the first, and its largest difference."""
  quantity, clauses = choice.quantity, []
  answers = _ANSWERS.match(quantity.words)
  ways = _VERBS[answers[1]] if answers else [f'is {way}' for way in _ways(quantity)]
  short = [re.sub('^(errs|is right|is) ', '', way) for way in ways]
  at = preposition(quantity, choice.rows, choice.varying)
  for (label, versus), rows in choice.rows.groupby(['classifier', 'versus'], sort=False):
    largest, parts = _extreme_of(choice, rows), list[str]()
    if largest is None:
      continue
    for is_higher in (quantity.better == 'higher', quantity.better != 'higher'):
      there = rows[rows.marked & ((rows['value'] > 0) == is_higher)]
      way = short[is_higher] if parts else f'{ways[is_higher]} than {versus}'
      parts += [f'{way} {_where(choice, there, len(rows), at)}'] if len(there) else []
    clause = f'{label} {" and ".join(parts)}'
    if quantity.biased and (rows.method == OVER_SEEDS).any():
      clause = f'seeds alone do not test whether {label} differs from {versus}'
    elif not parts:
      clause = f'{label} is not shown to differ from {versus} {at} any'
    place = _among(choice.places(largest))
    clauses.append(f'{clause}; the largest difference, {_estimate(quantity, largest)}, is {place}')
  if answers:
    return f'{f"of {choice.count_words} {quantity.words[answers.end() :]}".rstrip()},', clauses
  return f'{quantity.words}: of {choice.count_words},', clauses


def _extremes(choice: Choice) -> tuple[str, list[str]]:
  """Returns the head of a sentence, and clauses of each classifier: its highest or lowest value
  with the place; nothing of one that is the same everywhere."""
  quantity, clauses = choice.quantity, []
  for _, rows in choice.rows.groupby('classifier', sort=False):
    extreme = _extreme_of(choice, rows)
    place = '' if extreme is None else _among(choice.places(extreme))
    if extreme is None or place == 'everywhere':
      continue
    clause = f'{extreme.classifier} {_estimate(quantity, extreme)} {place}'
    if choice.reference is not None and choice.reference.extremes is not None:
      reference = choice.reference.extremes.loc[extreme.name]
      estimate = _estimate(choice.reference.quantity, reference)
      clause = f'{clause}, where the {choice.reference.quantity.words} is {estimate}'
    clauses.append(clause)
  return f'{choice.words}:', clauses


def _where(choice: Choice, rows: pd.DataFrame, total: int, at: str) -> str:
  """Returns where some of a classifier's differences are: each place of few, else how many."""
  if len(rows) == total > 1:
    return f'{at} all'
  if len(rows) <= MAX_NAMED + 1:
    return _among(places_of(choice.quantity, rows, choice.facets))
  share = 100 * len(rows) / total
  return f'{at} {share:.0f} %' if total >= MANY and 1 <= share < 99.5 else f'{at} {len(rows)}'


def _among(places: str) -> str:
  """Returns places behind words that say what they are of."""
  return places.replace('at frequency ', 'at ')


def _ways(quantity: Quantity) -> tuple[str, str]:
  """Returns what a lower value is, and a higher one."""
  better = {'lower': ('better', 'worse'), 'higher': ('worse', 'better')}
  return better.get(quantity.better, ('lower', 'higher'))


def _rows(table: pd.DataFrame) -> list[pd.Series]:
  return [row for _, row in table.iterrows()]


def _extreme_of(choice: Choice, rows: pd.DataFrame) -> pd.Series | None:
  """Returns the extreme of a classifier, the first of equal ones; None without an interval."""
  if choice.extremes is None:
    return None
  row = choice.extremes[choice.extremes.index.isin(rows.index)].iloc[0]
  return row if row.low == row.low else None


def _reversed(row: pd.Series) -> pd.Series:
  return pd.Series({**row, 'value': -row.value, 'low': -row.high, 'high': -row.low})


def _estimate(quantity: Quantity, row: pd.Series) -> str:
  """Returns an estimate with its unit, and with its note where this says what it leaves out, or
  that it says nothing; of the baseline of a ratio what it is."""
  text = Notation(quantity, bool(row.versus)).full(row)
  if ITSELF in row.note:
    return f'{row.value:g}, {ITSELF}'
  is_noted = any(word in row.note for word in (UNDEFINED, DEGENERATE, SAYS_LITTLE))
  return f'{text}, {row.note.replace(";", ",")}' if is_noted else text


def _joined(head: str, clauses: Sequence[str], most: int = MOST_IN_A_LINE) -> str:
  """Returns a head with its clauses behind it, or in lines below it."""
  between, begin = ('; ', ' ') if len(clauses) <= most else (';\n', '\n')
  return sentence(f'{head}{begin}{between.join(clauses)}')
