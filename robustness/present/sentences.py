"""Sentences about results: overall values with differences, significant differences, extremes.

A sentence is made from one `Selection` (`robustness.present.selection`). The intervals of its
differences hold for all classifiers in the sentence together; intervals of an extreme hold for all
values that it was selected from.
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
from robustness.present import notation
from robustness.present.selection import Selection, selections
from robustness.results import Results

MAX_CLAUSES_IN_LINE = 2
"""Most clauses in one line of a sentence; with more clauses, each has a line."""
MANY = 100
"""With at least this many conditions, their share in percent is stated and not their number."""
_TOP1 = re.compile(r'top-1 (error|accuracy)\b *')
_VERBS = {'error': ('errs', 'less', 'more'), 'accuracy': ('is right', 'less often', 'more often')}
"""Verb, and words after it for a classifier with a lower and a higher top-1 error or accuracy."""


class Finding(NamedTuple):
  """A statement about estimates, such as 'top-1 error: net 71 % (65 to 77)'.

  Attributes:
    text: one sentence, followed by a sentence on its intervals. Many clauses are on a line each.
    rows: the estimates, as rows of the table of results.
    facets: the grouping columns of the rows, such as ('corruption', 'severity').
    task: name of the task in a battery; '' for none.
  """

  text: str
  rows: pd.DataFrame
  facets: tuple[str, ...] = ()
  task: str = ''

  @property
  def figure(self) -> str:
    """The name of the figure that shows the estimates, such as 'error_corruption'."""
    return notation.name_of(self.rows['quantity'].iloc[0], self.facets)


def findings(results: Results) -> list[Finding]:
  """Writes sentences on the main quantities of results, or on all quantities if none is a main one.

  There are sentences on overall values, which compare classifiers, and on the highest or lowest
  value under several conditions, with a joint interval. Sentences on estimates that say little,
  according to their notes, come last.

  Args:
    results: the results of one study.
  """
  selected = selections(results)
  findings: list[Finding] = []
  overall: dict[Quantity, list[Selection]] = {}  # the overall values of each quantity
  for selection in selected:
    if selection.extremes is None:
      overall.setdefault(selection.quantity, []).append(selection)
  for quantity, selections_of_quantity in overall.items():
    findings += map(_with_note, _overall_findings(selections_of_quantity, quantity))
  for selection in selected:
    if selection.extremes is not None:
      has_differences = (selection.rows.versus != '').any()
      text = _difference_sentence(selection) if has_differences else _extreme_sentence(selection)
      if text:
        text = f'{text} Intervals are {selection.interval_scope}.'
        findings.append(Finding(text, selection.rows, selection.facets))
  return sorted(findings, key=lambda finding: finding.rows['note'].str.contains(SAYS_LITTLE).all())


def _overall_findings(selections: Sequence[Selection], quantity: Quantity) -> Iterator[Finding]:
  """Yields sentences on the overall values of a quantity.

  Each selection, a set of rows that are stated together, has a sentence that compares several
  classifiers. A single classifier has one sentence for all selections.

  Args:
    selections: the selections of the quantity: values and differences under one condition each.
    quantity: the quantity.
  """
  estimates = [selection.rows[selection.rows['low'].notna()] for selection in selections]
  labels = pd.concat(estimates).classifier.unique()
  if len(selections) > 1 and len(labels) == 1:  # a clause for each value of the classifier
    clauses = [
      _estimate_text(quantity, row, selection.condition)
      for selection, rows in zip(selections, estimates, strict=True)
      for _, row in rows.iterrows()
    ]
    text = _join_clauses(f'{quantity.words}, {labels[0]}:', clauses)
    yield Finding(text, pd.concat(estimates), selections[0].facets)
    return
  for selection, rows in zip(selections, estimates, strict=True):  # a clause for each classifier
    if not (rows.high > rows.low).any():  # such as 100 % for the baseline of a ratio
      continue
    values, differences = rows[rows.versus == ''], rows[rows.versus != '']
    # {classifier: its difference, with an interval that holds for all together}
    widened: dict[str, pd.Series] = {}
    for _, row in differences.iterrows():
      widened_row = widen_for_family(row, len(differences), quantity)
      if widened_row is not None:
        widened[row.classifier] = widened_row
    text = _join_clauses(f'{selection.words}:', list(_overall_clauses(values, widened, quantity)))
    if len(widened) > 1:
      text = f'{text} Differences are simultaneous over {len(widened)} networks.'
    stated_rows = pd.concat([values, pd.DataFrame([*widened.values()])]) if widened else values
    if not stated_rows.empty:
      yield Finding(text, stated_rows, selection.facets)


def _with_note(finding: Finding) -> Finding:
  """Adds the note that all estimates of a finding share, such as 'k = 10', if its text lacks it."""
  note = finding.rows['note'].iloc[0].replace(';', ',')
  if finding.rows['note'].nunique() > 1 or note in finding.text:
    return finding
  return finding._replace(text=f'{finding.text} Note: {note}.')


def _overall_clauses(
  rows: pd.DataFrame, differences: dict[str, pd.Series], quantity: Quantity
) -> Iterator[str]:
  """Yields a clause per classifier with its value and its difference from the first classifier.

  Examples are 'net 71 % (65 to 77), better than base by 3 (1 to 5)', and 'net is better than base
  by 3 (1 to 5)' without a value.

  Args:
    rows: the values, a row per classifier.
    differences: {label: row of the difference from the first classifier}.
    quantity: the quantity of all rows.
  """
  values = {row.classifier: f' {_estimate_text(quantity, row)}' for _, row in rows.iterrows()}
  for label in dict.fromkeys([*values, *differences]):
    clause = f'{label}{values.get(label, "")}'
    if label not in differences:
      yield clause
      continue
    row = differences[label]
    difference = _estimate_text(quantity, row)
    if quantity.biased and row.method == OVER_SEEDS:
      # Seeds have the same bias, so that an interval over them does not show a difference.
      yield f'{clause}, minus {row.versus} {difference}, which seeds alone do not test'
    elif row.low <= 0 <= row.high:
      yield f'{clause}, no difference from {row.versus} is shown: {difference}'
    else:
      if_lower, if_higher = _comparatives(quantity)
      comparative = if_higher if row.value > 0 else if_lower
      if row.value <= 0:  # 'lower by 3 (1 to 5)' for −3 (−5 to −1)
        row = pd.Series({**row, 'value': -row.value, 'low': -row.high, 'high': -row.low})
      size = _estimate_text(quantity, row).replace('+', '')
      link = ',' if label in values else ' is'
      yield f'{clause}{link} {comparative} than {row.versus} by {size}'


def _difference_sentence(selection: Selection) -> str:
  """Returns a sentence on paired differences with a clause per classifier; '' without clauses.

  An example of a clause is 'net errs more than base under fog; the largest difference, +9 points
  (5 to 13), is under fog'. Conditions with significant differences are named. The largest
  difference need not be significant.
  """
  quantity = selection.quantity
  clauses = []
  at = notation.preposition(quantity, selection.rows, selection.varying)
  for (label, versus), rows in selection.rows.groupby(['classifier', 'versus'], sort=False):
    extremes = _extremes_of_rows(selection, rows)
    largest = extremes.iloc[0]
    if pd.isna(largest.low):
      continue
    if quantity.biased and (rows.method == OVER_SEEDS).any():
      clause = f'seeds alone do not test whether {label} differs from {versus}'
    elif rows.marked.any():
      clause = f'{label} {_significant_differences(selection, rows, versus, at)}'
    else:
      clause = f'{label} is not shown to differ from {versus} {at} any'
    estimate = _estimate_text(quantity, largest)
    condition = _without_frequency(selection.extreme_condition(largest))
    if rows.marked.any() and not extremes.marked.any():
      estimate = f'{estimate}, not significant'
    clauses.append(f'{clause}; the largest difference, {estimate}, is {condition}')
  top1 = _TOP1.match(quantity.words)
  beginning = f'{quantity.words}: of {selection.number_of_conditions},'
  if top1:  # `_VERBS` say in the clauses that errors or right answers are counted
    rest_of_words = quantity.words[top1.end() :]  # 'after training' of 'top-1 error after training'
    beginning = f'of {selection.number_of_conditions} {rest_of_words}'.rstrip() + ','
  return _join_clauses(beginning, clauses, 1) if clauses else ''


def _significant_differences(selection: Selection, rows: pd.DataFrame, versus: str, at: str) -> str:
  """Returns where a classifier differs significantly from another one, the better conditions first.

  An example is 'errs less than base under fog and more under snow'.

  Args:
    selection: the selection that the rows are from.
    rows: the differences of the classifier; at least one is marked as significant.
    versus: label of the other classifier.
    at: the preposition before a number of conditions, 'under' in 'under 12 %'.
  """
  quantity = selection.quantity
  is_higher = rows['value'] > 0
  top1 = _TOP1.match(quantity.words)
  # For example 'errs', 'less' and 'more', or 'is', 'better' and 'worse'.
  verb, if_lower, if_higher = _VERBS[top1[1]] if top1 else ('is', *_comparatives(quantity))
  directions = [(if_lower, ~is_higher), (if_higher, is_higher)]
  if quantity.better == 'higher':
    directions.reverse()
  parts: list[str] = []
  for comparative, is_in_direction in directions:
    differing = rows[rows.marked & is_in_direction]
    if len(differing):
      words = comparative if parts else f'{verb} {comparative} than {versus}'
      parts.append(f'{words} {_conditions_in_words(selection, differing, len(rows), at)}')
  return ' and '.join(parts)


def _extreme_sentence(selection: Selection) -> str:
  """Returns a sentence on highest or lowest values with a clause per classifier.

  An example of a clause is 'net 71 % (65 to 77) under fog'. A classifier with equal values in all
  conditions has no clause. The result is '' without clauses.
  """
  quantity = selection.quantity
  clauses = []
  for _, rows in selection.rows.groupby('classifier', sort=False):
    extreme = _extremes_of_rows(selection, rows).iloc[0]
    condition = _without_frequency(selection.extreme_condition(extreme))
    if pd.isna(extreme.low) or condition == 'everywhere':
      continue
    clause = f'{extreme.classifier} {_estimate_text(quantity, extreme, condition)}'
    if selection.reference is not None and selection.reference.extremes is not None:
      # The reference in the condition of the extreme has the same index.
      reference_row = selection.reference.extremes.loc[extreme.name]
      estimate = _estimate_text(selection.reference.quantity, reference_row)
      clause = f'{clause}, where the {selection.reference.quantity.words} is {estimate}'
    clauses.append(clause)
  return _join_clauses(f'{selection.words}:', clauses) if clauses else ''


def _conditions_in_words(selection: Selection, rows: pd.DataFrame, total: int, at: str) -> str:
  """Returns the conditions of rows as a phrase, such as 'under fog and snow' or 'under all'.

  Many conditions are counted instead: 'under 12', or 'under 12 %' of at least `MANY` conditions.

  Args:
    selection: the selection that the rows are from.
    rows: the significant differences of a classifier in one direction.
    total: number of conditions in which the classifier has differences, significant or not.
    at: the preposition before a number of conditions, such as 'under'.
  """
  if total > 1 and len(rows) == total:  # a single condition is named
    return f'{at} all'
  if len(rows) <= notation.MAX_NAMED + 1:  # `conditions_of` names all of them
    return _without_frequency(notation.conditions_of(selection.quantity, rows, selection.facets))
  percent = 100 * len(rows) / total
  if total >= MANY and 1 <= percent < 99.5:  # rounded neither to 0 % nor to 100 %
    return f'{at} {percent:.0f} %'
  return f'{at} {len(rows)}'


def _without_frequency(conditions: str) -> str:
  """Replaces 'at frequency (3, 1)' by 'at (3, 1)', if the sentence has the word already."""
  return conditions.replace('at frequency ', 'at ')


def _comparatives(quantity: Quantity) -> tuple[str, str]:
  """Returns the words for a lower and for a higher value of a quantity.

  They are ('better', 'worse') for an error, and ('lower', 'higher') if neither is better.
  """
  better = {'lower': ('better', 'worse'), 'higher': ('worse', 'better')}
  return better.get(quantity.better, ('lower', 'higher'))


def _extremes_of_rows(selection: Selection, rows: pd.DataFrame) -> pd.DataFrame:
  """Returns which of a classifier's rows have its highest, lowest or largest value (`extremes`)."""
  assert selection.extremes is not None
  return selection.extremes[selection.extremes.index.isin(rows.index)]


def _estimate_text(quantity: Quantity, row: pd.Series, condition: str = '') -> str:
  """Formats an estimate with its unit, interval and condition.

  Its note is added if the estimate is undefined, degenerate, says little, or is the ratio of a
  classifier to itself.
  """
  text = f'{notation.Notation(quantity, bool(row.versus)).full(row)} {condition}'.rstrip()
  if ITSELF in row.note:
    return f'{text}, {ITSELF}'
  if any(word in row.note for word in (UNDEFINED, DEGENERATE, SAYS_LITTLE)):
    note = row.note.replace(';', ',')  # semicolons separate the clauses of a sentence
    return f'{text}, {note}'
  return text


def _join_clauses(begin: str, clauses: Sequence[str], limit: int = MAX_CLAUSES_IN_LINE) -> str:
  """Joins clauses to the sentence 'BEGIN clause; clause.'.

  Each clause is on its own line if there are more than `limit`.
  """
  if len(clauses) <= limit:
    return notation.sentence(f'{begin} {"; ".join(clauses)}')
  return notation.sentence('\n'.join([begin, ';\n'.join(clauses)]))
