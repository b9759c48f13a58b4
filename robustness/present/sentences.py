"""Sentences about results: overall values with differences, significant differences, extremes.

A sentence is made from one `Choice` (`robustness.present.choice`). The intervals of its differences
hold for all classifiers in the sentence together; intervals of an extreme hold for all values
that it was selected from.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pandas as pd

from robustness.estimates.of_means import ITSELF
from robustness.estimates.quantity import Quantity
from robustness.estimates.simultaneous import widen_for_family
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

MAX_CLAUSES_IN_LINE = 2
"""Most clauses in one line of a sentence; with more clauses, each has a line."""
MANY = 100
"""With at least this many conditions, their share in percent is stated and not their number."""
_ANSWERS = re.compile(r'top-1 (error|accuracy)\b *')
_VERBS = {
  'error': ('errs less', 'errs more'),
  'accuracy': ('is right less often', 'is right more often'),
}
"""Verbs for a classifier with a lower and with a higher top-1 error or accuracy."""


class Finding(NamedTuple):
  """A statement about rows of the table of results.

  Attributes:
    text: one sentence, followed by a sentence on its intervals. With many classifiers the clause of
      each is on a line.
    rows: the estimates that it is about, as rows of the table of results.
    facets: the facets of the rows.
    task: the name of the task in a battery; '' for none.
  """

  text: str
  rows: pd.DataFrame
  facets: tuple[str, ...] = ()
  task: str = ''

  @property
  def figure(self) -> str:
    """The name of the figure that shows `rows`: the quantity and its facets, 'error_corruption'."""
    return name_of(self.rows['quantity'].iloc[0], self.facets)


def findings(results: Results) -> list[Finding]:
  """Returns the findings, sentences about results, on the headline quantities.

  If no quantity is a headline, they are about all quantities. Findings on estimates that say little
  according to their notes come last.
  """
  selected, findings = choices(results), list[Finding]()
  overall = [choice for choice in selected if choice.extremes is None]
  by_condition = [choice for choice in selected if choice.extremes is not None]
  for quantity in dict.fromkeys(choice.quantity for choice in overall):
    findings += _overall([choice for choice in overall if choice.quantity == quantity], quantity)
  for choice in by_condition:
    has_differences = bool((choice.rows.versus != '').any())
    head, clauses = _differences(choice) if has_differences else _extremes(choice)
    if clauses:
      text = _join_clauses(head, clauses, 1 if has_differences else MAX_CLAUSES_IN_LINE)
      text = f'{text} Intervals are {choice.coverage}.'
      findings.append(Finding(text, choice.rows, choice.facets))
  return sorted(findings, key=lambda finding: finding.rows['note'].str.contains(SAYS_LITTLE).all())


def _overall(choices: Sequence[Choice], quantity: Quantity) -> Iterator[Finding]:
  """Yields findings about `choices`, the overall values of a quantity.

  With several classifiers there is a finding per overall value, which compares them; for a single
  classifier there is one finding with all values.
  """
  estimates = [choice.rows[choice.rows['low'].notna()] for choice in choices]
  labels = pd.concat(estimates).classifier.unique()
  if len(choices) > 1 and len(labels) == 1:
    clauses = [
      f'{_estimate(quantity, row)} {choice.place}'
      for choice, rows in zip(choices, estimates, strict=True)
      for row in _rows(rows)
    ]
    text = _join_clauses(f'{quantity.words}, {labels[0]}:', clauses)
    yield Finding(text, pd.concat(estimates), choices[0].facets)
    return
  for choice, rows in zip(choices, estimates, strict=True):
    values, differences = rows[rows.versus == ''], rows[rows.versus != '']
    # Differences with intervals that hold for all differences together; None if there is none.
    joint = [widen_for_family(row, len(differences), quantity) for row in _rows(differences)]
    widened = {row.classifier: row for row in joint if row is not None}
    clauses = list(_overall_clauses(values, widened, quantity))
    if (rows.high > rows.low).any():
      text = _join_clauses(f'{choice.words}:', clauses)
      if len(widened) > 1:
        text = f'{text} Differences are simultaneous over {len(widened)} networks.'
      stated = pd.concat([values, pd.DataFrame([*widened.values()])]) if widened else values
      yield Finding(text, stated, choice.facets)


def _overall_clauses(
  rows: pd.DataFrame, differences: dict[str, pd.Series], quantity: Quantity
) -> Iterator[str]:
  """Yields a clause per classifier: its value, then its difference from the first classifier.

  Examples are 'net 71 % (65 to 77), better than base by 3 (1 to 5)', and 'net is better than base
  by 3 (1 to 5)' without a value.

  Args:
    rows: the values, a row per classifier.
    differences: {label: row of the difference} for classifiers but the first: the value of the
      classifier minus the value of the first one.
    quantity: the quantity of all rows.
  """
  values = {row.classifier: f' {_estimate(quantity, row)}' for row in _rows(rows)}
  for label in dict.fromkeys([*values, *differences]):
    clause = f'{label}{values.get(label, "")}'
    if label not in differences:
      yield clause
      continue
    row = differences[label]
    difference = _estimate(quantity, row)
    if quantity.biased and row.method == OVER_SEEDS:
      # Seeds have the same bias, so that an interval over them does not show a difference.
      yield f'{clause}, minus {row.versus} {difference}, which seeds alone do not test'
    elif row.low <= 0 <= row.high:
      yield f'{clause}, no difference from {row.versus} is shown: {difference}'
    else:
      is_higher = bool(row.value > 0)
      if_lower, if_higher = _comparatives(quantity)
      comparative = if_higher if is_higher else if_lower
      # 'lower by 3 (1 to 5)' for −3 (−5 to −1)
      size = _estimate(quantity, row if is_higher else _swap_classifiers(row)).replace('+', '')
      link = ',' if label in values else ' is'
      yield f'{clause}{link} {comparative} than {row.versus} by {size}'


def _differences(choice: Choice) -> tuple[str, list[str]]:
  """Returns the beginning of a sentence and a clause for each classifier about its differences.

  A clause names the conditions in which the classifier differs significantly from the first one,
  and its largest difference, which may be in another condition and not significant.
  """
  quantity, clauses = choice.quantity, []
  at = preposition(quantity, choice.rows, choice.varying)
  for (label, versus), rows in choice.rows.groupby(['classifier', 'versus'], sort=False):
    largest = _extreme_of(choice, rows)
    if largest is None:
      continue
    if quantity.biased and (rows.method == OVER_SEEDS).any():
      clause = f'seeds alone do not test whether {label} differs from {versus}'
    elif rows.marked.any():
      clause = f'{label} {_significant_differences(choice, rows, versus, at)}'
    else:
      clause = f'{label} is not shown to differ from {versus} {at} any'
    estimate, place = _estimate(quantity, largest), _shortened(choice.place_words(largest))
    if rows.marked.any() and not _extremes_of(choice, rows).marked.any():
      estimate = f'{estimate}, not significant'
    clauses.append(f'{clause}; the largest difference, {estimate}, is {place}')
  answers = _ANSWERS.match(quantity.words)
  if answers:  # the verbs say what is measured, so that 'top-1 error' is left out
    rest_of_words = quantity.words[answers.end() :]
    return f'{f"of {choice.conditions_text} {rest_of_words}".rstrip()},', clauses
  return f'{quantity.words}: of {choice.conditions_text},', clauses


def _significant_differences(choice: Choice, rows: pd.DataFrame, versus: str, at: str) -> str:
  """Returns where a classifier differs significantly from another one, the better conditions first.

  An example is 'errs less than base under fog and more under snow'.

  Args:
    choice: the choice that the rows are from.
    rows: the differences of the classifier; at least one is marked as significant.
    versus: label of the other classifier.
    at: the preposition before a number of conditions, 'under' in 'under 12 %'.
  """
  quantity, is_higher = choice.quantity, rows['value'] > 0
  answers = _ANSWERS.match(quantity.words)  # of 'top-1 error …' or 'top-1 accuracy …'
  verbs = _VERBS[answers[1]] if answers else [f'is {word}' for word in _comparatives(quantity)]
  directions = list(zip(verbs, (~is_higher, is_higher), strict=True))  # lower, then higher
  if quantity.better == 'higher':
    directions.reverse()
  parts = list[str]()
  for verb, is_in_direction in directions:
    differing = rows[rows.marked & is_in_direction]
    if len(differing):
      # The second verb is shortened: 'more' of 'errs more'.
      verb = re.sub('^(errs|is right|is) ', '', verb) if parts else f'{verb} than {versus}'
      parts.append(f'{verb} {_conditions_in_words(choice, differing, len(rows), at)}')
  return ' and '.join(parts)


def _extremes(choice: Choice) -> tuple[str, list[str]]:
  """Returns the beginning of a sentence and a clause for each classifier about its worst value.

  A clause has the highest or lowest value and its conditions. A classifier with equal values in all
  conditions has no clause.
  """
  quantity, clauses = choice.quantity, []
  for _, rows in choice.rows.groupby('classifier', sort=False):
    extreme = _extreme_of(choice, rows)
    place = '' if extreme is None else _shortened(choice.place_words(extreme))
    if extreme is None or place == 'everywhere':
      continue
    clause = f'{extreme.classifier} {_estimate(quantity, extreme)} {place}'
    if choice.reference is not None and choice.reference.extremes is not None:
      reference = choice.reference.extremes.loc[extreme.name]  # the row with the same index
      estimate = _estimate(choice.reference.quantity, reference)
      clause = f'{clause}, where the {choice.reference.quantity.words} is {estimate}'
    clauses.append(clause)
  return f'{choice.words}:', clauses


def _conditions_in_words(choice: Choice, rows: pd.DataFrame, total: int, at: str) -> str:
  """Returns the conditions of `rows` in words, or their number if there are many.

  Args:
    choice: the choice that the rows are from.
    rows: the significant differences of a classifier in one direction.
    total: the number of all its differences.
    at: the preposition before a number of conditions, 'under' in 'under 12 %'.
  """
  if total > 1 and len(rows) == total:
    return f'{at} all'
  if len(rows) <= MAX_NAMED + 1:
    return _shortened(places_of(choice.quantity, rows, choice.facets))
  share = 100 * len(rows) / total
  can_be_rounded = 1 <= share < 99.5  # neither to 0 % nor to 100 %
  return f'{at} {share:.0f} %' if total >= MANY and can_be_rounded else f'{at} {len(rows)}'


def _shortened(places: str) -> str:
  """Returns conditions without the word 'frequency', which the sentence has at its beginning."""
  return places.replace('at frequency ', 'at ')


def _comparatives(quantity: Quantity) -> tuple[str, str]:
  """Returns the words for a lower and for a higher value: 'better', 'worse', 'lower' or
  'higher'.
  """
  better = {'lower': ('better', 'worse'), 'higher': ('worse', 'better')}
  return better.get(quantity.better, ('lower', 'higher'))


def _rows(table: pd.DataFrame) -> list[pd.Series]:
  """Returns the rows of a table as a list."""
  return [row for _, row in table.iterrows()]


def _extremes_of(choice: Choice, rows: pd.DataFrame) -> pd.DataFrame:
  """Returns the rows with a classifier's extreme, several for a tie.

  `rows` are the rows of the classifier in `choice`, a choice of extremes.
  """
  assert choice.extremes is not None
  return choice.extremes[choice.extremes.index.isin(rows.index)]


def _extreme_of(choice: Choice, rows: pd.DataFrame) -> pd.Series | None:
  """Returns the first of `_extremes_of`; None if it has no interval."""
  row = _extremes_of(choice, rows).iloc[0]
  return None if pd.isna(row.low) else row


def _swap_classifiers(row: pd.Series) -> pd.Series:
  """Returns a difference with the classifiers swapped: value and interval are negated."""
  return pd.Series({**row, 'value': -row.value, 'low': -row.high, 'high': -row.low})


def _estimate(quantity: Quantity, row: pd.Series) -> str:
  """Returns an estimate with its unit, followed by its note if the note limits what it means.

  The baseline of a ratio is 100 % by definition and is called the baseline.
  """
  text = Notation(quantity, bool(row.versus)).full(row)
  if ITSELF in row.note:
    return f'{text}, {ITSELF}'
  is_noted = any(word in row.note for word in (UNDEFINED, DEGENERATE, SAYS_LITTLE))
  return f'{text}, {row.note.replace(";", ",")}' if is_noted else text


def _join_clauses(head: str, clauses: Sequence[str], limit: int = MAX_CLAUSES_IN_LINE) -> str:
  """Returns 'HEAD clause; clause.'; more clauses than `limit` have a line each."""
  between, begin = ('; ', ' ') if len(clauses) <= limit else (';\n', '\n')
  return sentence(f'{head}{begin}{between.join(clauses)}')
