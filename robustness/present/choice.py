"""Selects the rows of a table of results that people read first.

A `Choice` is one of three kinds: a level (a quantity over everything, or by few names, with its
differences), the highest or lowest of many values of each classifier, or many differences, each
marked as significant or not. Other modules word choices: in sentences, the table of headlines, the
terminal and the paragraph of methods.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from robustness.estimates.facets import EPSILON
from robustness.estimates.of_means import ITSELF
from robustness.estimates.quantity import SHARE, Quantity
from robustness.estimates.simultaneous import RATE, for_all, significant
from robustness.estimates.systematic import SAYS_LITTLE
from robustness.estimates.table import by_facets, facets_of, select, told_once
from robustness.present.notation import (
  is_axis,
  place_of,
  places_of,
  plural,
  says_nothing,
  value_text,
)
from robustness.results import Results

FEW = 7
"""Most names of a facet with a level each, where a quantity has none over everything."""
CLASS = 'class'
_ERROR = re.compile(r'\b(error|accuracy)\b')
_ATTACK = re.compile(
  r'.* under (?:(?P<ball>ℓ\S+) (?P<attack>\S+)|the worst (?P<worst>ℓ\S+) attack .*)'
)
_QUALIFIED = re.compile(r',| (?:under|over|on|of|by|in|at) ')
SHORT_WORDS = {
  'clean_accuracy': 'clean accuracy',
  'clean_error': 'clean error',
  'ece': 'ECE',
  'mCE': 'mCE',
  'relative_mCE': 'relative mCE',
  'AutoAttack': 'AA',
  'Auto-PGD': 'APGD',
}
"""The short names of quantities and attacks in the heads of papers' tables."""
_ESTIMATE = ('classifier', 'versus', 'value', 'low', 'high')


@dataclasses.dataclass(frozen=True, eq=False)
class Choice:
  """Rows of the table of results that are reported in one statement.

  Attributes:
    quantity: the quantity of all rows.
    rows: for a level, a row for each classifier, then its differences; otherwise every candidate,
      where differences have a column `marked` that is true if they are significant.
    facets: names of the facets of the rows.
    extremes: the highest or lowest of many values of each classifier, or its largest difference,
      with intervals simultaneous over all rows; every row of a tie. None for a level.
    task: name of the task of a battery; '' for one study.
    reference: `Quantity.reference` at the extremes, None if it has no values by these facets.
  """

  quantity: Quantity
  rows: pd.DataFrame
  facets: tuple[str, ...] = ()
  extremes: pd.DataFrame | None = None
  task: str = ''
  reference: Choice | None = None

  @property
  def summary_rows(self) -> pd.DataFrame:
    """The rows that a table shows: all rows of a level, else one extreme for each classifier."""
    return self.rows if self.extremes is None else self.extremes.drop_duplicates('classifier')

  @property
  def place(self) -> str:
    """The condition of a level, such as 'under fog'; '' over everything or for many rows."""
    is_level = self.extremes is None and len(self.rows) > 0
    return place_of(self.quantity, self.rows.iloc[0], self.facets) if is_level else ''

  @property
  def words(self) -> str:
    """The statement: 'top-1 error under fog', or 'highest top-1 error of 8 corruptions'."""
    if self.extremes is None:
      return ' '.join(filter(None, (self.quantity.words, self.place)))
    if not self.quantity.end:  # at extremes of another quantity
      return f'{self.quantity.words}, there'
    if self.reference is not None:
      return f'{self.quantity.words}, clearest of {self.count_words}'
    return f'{self.quantity.end} {self.quantity.words} of {self.count_words}'

  @property
  def attack_words(self) -> str:
    """The head of a level under an attack in papers' tables, such as 'AA 8/255'; else ''."""
    attack = _ATTACK.fullmatch(self.quantity.words) if 'epsilon' in self.facets else None
    if not attack or self.extremes is not None:
      return ''
    name, ball = attack['attack'] or 'worst attack', attack['ball'] or attack['worst']
    radius = value_text(EPSILON, self.rows.iloc[0].epsilon)
    return ' '.join((SHORT_WORDS.get(name, name), *([] if ball == 'ℓ∞' else [ball]), radius))

  @property
  def short_words(self) -> str:
    """The words for a narrow column: 'mCE', 'AA 8/255', 'lowest accuracy'."""
    plain = _QUALIFIED.split(self.quantity.words)[0].replace('top-1 ', '')
    end = self.quantity.end if self.extremes is not None else ''
    words = SHORT_WORDS.get(self.quantity.name, plain)
    return self.attack_words or ' '.join(filter(None, (end, words)))

  @property
  def name(self) -> str:
    """The words, after the name of the task in a battery."""
    return ': '.join(filter(None, (self.task.replace('_', ' '), self.words)))

  @property
  def count_words(self) -> str:
    """The number of rows among which an extreme was searched: '8 corruptions'."""
    count = int(self.rows.groupby(['classifier', 'versus']).size().max())
    return f'{count} {plural(self.quantity, self.varying)}'

  @property
  def coverage(self) -> str:
    """The rows that the interval of an extreme covers: 'simultaneous over 8 corruptions'."""
    networks = self.rows.classifier.nunique()
    of_networks = f' and {networks} networks' if networks > 1 else ''
    return f'simultaneous over {self.count_words}{of_networks}'

  @property
  def varying(self) -> list[str]:
    """The facets with more than one value; all facets if none has."""
    return [name for name in self.facets if self.rows[name].nunique() > 1] or [*self.facets]

  def places(self, row: pd.Series) -> str:
    """Returns the place of a classifier's extreme, each place of a tie, or 'everywhere'."""
    if self.extremes is None:
      return ''
    tied, candidates = (
      rows[(rows.classifier == row.classifier) & (rows.versus == row.versus)]
      for rows in (self.extremes, self.rows)
    )
    if len(tied) == len(candidates) > 1:
      return 'everywhere'
    return places_of(self.quantity, tied, self.facets)


def choices(results: Results) -> list[Choice]:
  """Returns the choices of the headline quantities, or of all quantities if none is a headline.

  Levels come first, then differences, then extremes, fewer facets first, and classes last.
  Choices with equal values are reported once.
  """
  quantities = [q for q in results.presented if q.headline] or list(results.presented)
  table = results.over_seeds.table
  rate = float(results.settings.get('false_discovery_rate', RATE))
  candidates = [choice for quantity in quantities for choice in levels(table, quantity)]
  for quantity in quantities:
    candidates += differences(table, quantity, rate)
  for quantity in quantities:
    candidates += extremes(table, quantity, results.quantities)
  distinct: dict[object, Choice] = {}
  for choice in sorted(candidates, key=lambda choice: CLASS in choice.facets):
    distinct.setdefault(_values(choice), choice)
  return list(distinct.values())


def _values(choice: Choice) -> tuple[object, ...]:
  """Returns the values of a choice as a key, where an accuracy has the key of its error, 1 − it."""
  rows, quantity = choice.rows, choice.quantity
  values = rows['value']
  if quantity.range == (0, 1) and quantity.better == 'higher':
    values = (rows.versus == '') - values
  keys = rows[['classifier', 'versus', *choice.facets]].astype(str)
  cells = keys.assign(value=values.map('{:.9g}'.format)).itertuples(index=False, name=None)
  return quantity.kind, choice.extremes is None, frozenset(cells)


def leading(table: pd.DataFrame, quantity: Quantity) -> pd.DataFrame:
  """Returns the rows of a quantity by the facets in `Quantity.by`, or over everything without them.

  If there are no such rows, returns the rows by the one facet with the fewest values, at most
  `FEW` names or 2 points of an axis.
  """
  rows = table[table['quantity'] == quantity.name]
  by = [name for name in quantity.by if name in facets_of(table)]
  declared = select(rows, quantity.name, None, **dict.fromkeys(by, ...))
  if len(declared) or rows.empty:
    return _in_order(declared, by)
  short = []
  for facets, group in by_facets(rows):
    varying = [name for name in facets if group[name].nunique() > 1]
    limit = 2 if varying and is_axis(quantity, group, varying[0]) else FEW
    if not varying or (len(varying) == 1 and group[varying[0]].nunique() <= limit):
      short.append(group)
  return min(short, key=len, default=declared)


def _in_order(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
  """Returns rows sorted by facets, each in order of first occurrence."""
  ranks = {name: pd.factorize(rows[name])[0] for name in by}
  return rows.iloc[np.lexsort([ranks[name] for name in reversed(by)])] if by else rows


def level_groups(rows: pd.DataFrame) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
  """Yields the facets and the rows of `leading`, for each value of the facets."""
  for facets, table in by_facets(rows):
    groups = table.groupby(list(facets), sort=False) if facets else [((), table)]
    yield from ((facets, group) for _, group in groups)


def levels(table: pd.DataFrame, quantity: Quantity, task: str = '') -> list[Choice]:
  """Returns the levels of a quantity. A level over everything includes the classifiers that have an
  undefined value and a note."""
  choices = []
  for facets, rows in level_groups(leading(table, quantity)):
    is_noted = (rows.versus == '') & (rows.note != '') & (not facets)
    rows = rows[rows['value'].notna() | is_noted]
    if rows['value'].notna().any():
      choices.append(Choice(quantity, rows, facets, task=task))
  return choices


def differences(table: pd.DataFrame, quantity: Quantity, rate: float = RATE) -> Iterator[Choice]:
  """Yields the differences of a quantity for each set of facets, with each classifier's largest."""
  for facets, rows in _groups(table, quantity, is_difference=True):
    rows = rows.assign(marked=significant(rows, quantity, rate))
    yield Choice(quantity, rows, facets, _largest(rows, rows['value'].abs(), quantity))


def extremes(
  table: pd.DataFrame, quantity: Quantity, quantities: Sequence[Quantity], task: str = ''
) -> Iterator[Choice]:
  """Yields the values of a quantity for each set of facets, with each classifier's highest or
  lowest, as `Quantity.end` says; yields nothing for a quantity without an end.

  If the quantity has `Quantity.extreme` and its reference, one of `quantities`, has values by the
  same facets, the extremes are the values farthest beyond the reference, which is included.
  """
  for facets, rows in _groups(table, quantity) if quantity.end else ():
    sign = -1 if quantity.end == 'lowest' else 1
    keys = ['classifier', *facets]
    by: dict[str, Any] = dict.fromkeys(facets, ...)
    references = select(table, quantity.reference, **by)
    if references.empty or not quantity.extreme:
      yield Choice(quantity, rows, facets, _largest(rows, sign * rows['value'], quantity), task)
      continue
    paired = rows[keys].merge(references, on=keys, how='left').set_index(rows.index)
    size = sign * (rows['value'] - paired['value'])
    largest = _largest(rows, size, quantity, 2 * len(rows))
    reference = next(q for q in quantities if q.name == quantity.reference)
    at_largest = paired.loc[largest.index].apply(_for_all, axis=1, args=(2 * len(rows), reference))
    yield Choice(
      *(quantity, rows, facets, largest, task),
      reference=Choice(reference, paired, facets, at_largest, task),
    )


def _groups(
  table: pd.DataFrame, quantity: Quantity, is_difference: bool = False
) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
  """Yields each set of facets with the values of a quantity by these facets, or its differences.

  The level is the estimate with the fewest facets, which a report states first; it is left out, and
  so is a group that has it as its highest or lowest value and would repeat it (pm-k equals the
  accuracy at the largest distance). Sets of more than two facets are left out unless none has
  fewer, and rows without an interval if others have one.
  """
  level = leading(table, quantity)
  rows = table[table['quantity'] == quantity.name].drop(index=level.index)
  groups = [(facets, group) for facets, group in told_once(rows) if facets]
  max_facets = max(2, min((len(facets) for facets, _ in groups), default=0))
  for facets, group in sorted(groups, key=lambda pair: (CLASS in pair[0], len(pair[0]))):
    group = group[((group.versus != '') == is_difference) & group['value'].notna()]
    group = group[group['low'].notna()] if group['low'].notna().any() else group
    if group.empty or len(facets) > max_facets:
      continue
    pairs = group.groupby(['classifier', 'versus'])['value']
    ends = group.loc[[*pairs.idxmin(), *pairs.idxmax()]].drop(columns=[*facets])
    at_level = ends.merge(level, on=[*_ESTIMATE])[['classifier', 'versus']].drop_duplicates()
    if pairs.size().max() > 1 and len(at_level) < pairs.ngroups:
      yield facets, group


def _largest(
  rows: pd.DataFrame, size: pd.Series, quantity: Quantity, family: int = 0
) -> pd.DataFrame:
  """Returns each classifier's rows of largest size, with intervals simultaneous over a family.

  `family` is the number of estimates, by default all rows. Ties share the widest interval.
  """
  largest = []
  for _, sizes in size.groupby([rows.classifier, rows.versus], sort=False):
    tied = rows.loc[sizes.index[np.isclose(sizes, sizes.max(), rtol=1e-12, atol=1e-12)]]
    tied = tied[np.sign(tied['value']) == np.sign(tied['value'].iloc[0])]
    wide = _for_all(
      tied.loc[(tied.high - tied.low).fillna(0).idxmax()], family or len(rows), quantity
    )
    largest.append(tied.assign(low=wide.low, high=wide.high, family=wide.family))
  return pd.concat(largest)


def _for_all(row: pd.Series, family: int, quantity: Quantity) -> pd.Series:
  """Returns an estimate with the interval for a family, NaN if it cannot be widened."""
  wide = for_all(row, family, quantity)
  return pd.Series({**row, 'low': math.nan, 'high': math.nan}) if wide is None else wide


def headlines(tasks: Mapping[str, Results]) -> list[Choice]:
  """Returns the headlines of `Results.by_task`, task after task.

  The quantities of a task that are declared as headlines come first, then their references
  (`Quantity.reference`); all quantities do if no headline was estimated. A quantity without a level
  has its extreme by the fewest facets. A choice with the words and estimates of an earlier task,
  such as the error on clean images, is left out.
  """
  distinct: dict[tuple[str, str], Choice] = {}
  for task, results in tasks.items():
    table = without_little(results.table)
    measured = {*table['quantity']}
    heading = [q for q in results.quantities if q.headline and q.name in measured]
    references = {quantity.reference for quantity in heading}
    heading += [quantity for quantity in results.quantities if quantity.name in references]
    for quantity in dict.fromkeys(heading or results.quantities):
      for choice in heads(table, quantity, results.quantities, task):
        estimates = choice.summary_rows[[*_ESTIMATE, 'n']].to_csv(index=False)
        distinct.setdefault((choice.words, estimates), choice)
  return [*distinct.values()]


def without_little(table: pd.DataFrame) -> pd.DataFrame:
  """Returns a table without the rows of a classifier and quantity that say little.

  Their estimate over everything has the note `SAYS_LITTLE`, as ρ of networks at chance, or is
  degenerate.
  """
  over_all = table[facets_of(table)].isna().all(axis=1)
  little = over_all & (table.note.str.contains(SAYS_LITTLE, regex=False) | says_nothing(table))
  keys = pd.MultiIndex.from_frame(table[['classifier', 'quantity']])
  return table[~keys.isin(keys[little])]


def heads(
  table: pd.DataFrame, quantity: Quantity, quantities: Sequence[Quantity], task: str = ''
) -> list[Choice]:
  """Returns the levels of a quantity, or its extreme and the reference if it has no level."""
  choices = levels(table, quantity, task)
  for choice in () if choices else extremes(table, quantity, quantities, task):
    return [choice, choice.reference] if choice.reference else [choice]
  return choices


def short_names(choices: Sequence[Choice]) -> list[str]:
  """Returns the task and the short words of each choice; equal names get the place, or all words,
  until they differ."""
  names = [choice.short_words for choice in choices]
  for longer in ('place', 'words'):
    tasks = [choice.task for choice in choices]
    counts = collections.Counter(zip(tasks, names, strict=True))
    for index, choice in enumerate(choices):
      if counts[choice.task, names[index]] > 1:
        place = f'{choice.short_words} {choice.place}'.rstrip()
        names[index] = place if longer == 'place' else choice.words
  return [
    ': '.join(filter(None, (choice.task.replace('_', ' '), name)))
    for choice, name in zip(choices, names, strict=True)
  ]


def foremost(choices: Sequence[Choice], limit: int) -> list[Choice]:
  """Returns at most `limit` headlines, in their order: the first of each task, then the second of
  each, and so on. Single classes, and ratios of classifiers to themselves, are left out."""
  candidates = [
    choice
    for choice in choices
    if CLASS not in choice.facets and not choice.summary_rows.note.str.startswith(ITSELF).all()
  ]
  counts, ranks = collections.Counter[str](), []
  for choice in candidates:
    counts[choice.task] += 1
    ranks.append(counts[choice.task])
  return [candidates[place] for place in sorted(np.argsort(ranks, kind='stable')[:limit])]


def labels_of(tasks: Mapping[str, Results]) -> list[str]:
  """Returns the classifiers of all tasks in order; a task may lack classifiers."""
  return list(dict.fromkeys(label for task in tasks.values() for label in task.table.classifier))


def worst_tasks(choices: list[Choice], label: str) -> list[tuple[Choice, pd.Series]]:
  """Returns the tasks by the share of answers that a classifier gets wrong, the worst first.

  Each task has its largest error, or 1 − accuracy, at a level, with an interval simultaneous over
  all errors compared. Returns [] if fewer than two tasks have an error.
  """
  num_errors, by_task = 0, dict[str, tuple[float, Choice, pd.Series]]()
  for choice in choices:
    quantity = choice.quantity
    is_level = choice.extremes is None and CLASS not in choice.facets
    is_share = quantity.kind == SHARE and quantity.better and quantity.range == (0, 1)
    is_error = is_level and is_share and _ERROR.search(quantity.words)
    rows = choice.rows[(choice.rows.classifier == label) & (choice.rows.versus == '')]
    for _, row in rows[rows.low.notna()].iterrows() if is_error else ():
      num_errors += 1
      error = row.value if quantity.better == 'lower' else 1 - row.value
      if error > by_task.get(choice.task, (-1.0,))[0]:
        by_task[choice.task] = (error, choice, row)
  if len(by_task) < 2:
    return []
  ordered = sorted(by_task.values(), key=lambda entry: -entry[0])
  wide = ((choice, for_all(row, num_errors, choice.quantity)) for _, choice, row in ordered)
  return [(choice, row) for choice, row in wide if row is not None]
