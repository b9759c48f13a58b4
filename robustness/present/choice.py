"""Which rows of a table of results people read first: chosen here, worded elsewhere.

A choice is one of three kinds: a level (a quantity over everything, or by few names, with its
differences), the highest or lowest of many values of each classifier, and many differences with
those that are significant. Sentences, the table of headlines, the terminal and the paragraph of
methods are renderings of choices.
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
  r'.* under (?:(?P<ball>ℓ\S+) (?P<attack>\S+)|the worst (?P<of>ℓ\S+) attack .*)'
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
_SAME = ('classifier', 'versus', 'value', 'low', 'high')


@dataclasses.dataclass(frozen=True, eq=False)
class Choice:
  """Rows of the table of results that are told together.

  Attributes:
    quantity: of all rows.
    rows: of a level one for each classifier, then its differences; else all from which one is
      chosen, of differences with the column `marked`, whether they are significant.
    facets: that the rows have.
    extremes: of many values, the highest or lowest of each classifier, or its largest difference,
      with the interval that holds for all rows; several where they are equal.
    task: of a battery; '' for one study.
    beside: the values of `Quantity.reference` at the extremes, where it has some by these facets.
  """

  quantity: Quantity
  rows: pd.DataFrame
  facets: tuple[str, ...] = ()
  extremes: pd.DataFrame | None = None
  task: str = ''
  beside: Choice | None = None

  @property
  def stated(self) -> pd.DataFrame:
    """The rows that a table states: a level's own, else one extreme for each classifier."""
    return self.rows if self.extremes is None else self.extremes.drop_duplicates('classifier')

  @property
  def place(self) -> str:
    """Where a level is, such as 'under fog'; '' over everything, and where rows differ."""
    is_level = self.extremes is None and len(self.rows) > 0
    return place_of(self.quantity, self.rows.iloc[0], self.facets) if is_level else ''

  @property
  def words(self) -> str:
    """What is stated: 'top-1 error under fog', or 'highest top-1 error of 8 corruptions'."""
    if self.extremes is None:
      return ' '.join(filter(None, (self.quantity.words, self.place)))
    if not self.quantity.end:  # beside extremes of another quantity
      return f'{self.quantity.words}, there'
    if self.beside is not None:
      return f'{self.quantity.words}, clearest of {self.of_places}'
    return f'{self.quantity.end} {self.quantity.words} of {self.of_places}'

  @property
  def attack_words(self) -> str:
    """The head of a level under an attack in papers' tables, such as 'AA 8/255'; else ''."""
    attack = _ATTACK.fullmatch(self.quantity.words) if 'epsilon' in self.facets else None
    if not attack or self.extremes is not None:
      return ''
    named, ball = attack['attack'] or 'worst attack', attack['ball'] or attack['of']
    radius = value_text(EPSILON, self.rows.iloc[0].epsilon)
    return ' '.join((SHORT_WORDS.get(named, named), *([] if ball == 'ℓ∞' else [ball]), radius))

  @property
  def short_words(self) -> str:
    """The words for a narrow column: 'mCE', 'AA 8/255', 'lowest accuracy'."""
    plain = _QUALIFIED.split(self.quantity.words)[0].replace('top-1 ', '')
    end = self.quantity.end if self.extremes is not None else ''
    words = SHORT_WORDS.get(self.quantity.name, plain)
    return self.attack_words or ' '.join(filter(None, (end, words)))

  @property
  def name(self) -> str:
    """The words, after the task's name where there are tasks."""
    return ': '.join(filter(None, (self.task.replace('_', ' '), self.words)))

  @property
  def of_places(self) -> str:
    """What an extreme of each classifier was chosen from: '8 corruptions'."""
    count = int(self.rows.groupby(['classifier', 'versus']).size().max())
    return f'{count} {plural(self.quantity, self.varying)}'

  @property
  def together(self) -> str:
    """What the interval of an extreme holds for: 'simultaneous over 8 corruptions'."""
    networks = self.rows.classifier.nunique()
    of_networks = f' and {networks} networks' if networks > 1 else ''
    return f'simultaneous over {self.of_places}{of_networks}'

  @property
  def varying(self) -> list[str]:
    """The facets with several values; all where none has."""
    return [name for name in self.facets if self.rows[name].nunique() > 1] or [*self.facets]

  def places(self, row: pd.Series) -> str:
    """Returns where a classifier's extreme is: each place of equal ones, or 'everywhere'."""
    if self.extremes is None:
      return ''
    same = (self.extremes.classifier == row.classifier) & (self.extremes.versus == row.versus)
    of_row = (self.rows.classifier == row.classifier) & (self.rows.versus == row.versus)
    tied = self.extremes[same]
    if len(tied) == of_row.sum() > 1:
      return 'everywhere'
    return places_of(self.quantity, tied, self.facets)


def choices(results: Results) -> list[Choice]:
  """Returns what is told of the quantities that are headlines; of all where there is none: levels,
  then differences, then extremes, of few facets before those of many; those of classes last."""
  quantities = [q for q in results.presented if q.headline] or list(results.presented)
  table = results.over_seeds.table
  rate = float(results.settings.get('false_discovery_rate', RATE))
  chosen = [choice for quantity in quantities for choice in levels(table, quantity)]
  many = [choice for quantity in quantities for choice in differences(table, quantity, rate)]
  for quantity in quantities:
    many += extremes(table, quantity, results.quantities)
  chosen = sorted([*chosen, *many], key=lambda choice: CLASS in choice.facets)
  told: dict[object, Choice] = {}
  for choice in chosen:
    told.setdefault(_values(choice), choice)
  return list(told.values())


def _values(choice: Choice) -> tuple[object, ...]:
  """Returns what tells choices apart: those of errors and of accuracies, 1 minus these, are one."""
  rows, quantity = choice.rows, choice.quantity
  values = rows['value']
  if quantity.range == (0, 1) and quantity.better == 'higher':
    values = (rows.versus == '') - values
  keys = rows[['classifier', 'versus', *choice.facets]].astype(str)
  cells = keys.assign(value=values.map('{:.9g}'.format)).itertuples(index=False, name=None)
  return quantity.kind, choice.extremes is None, frozenset(cells)


def leading(table: pd.DataFrame, quantity: Quantity) -> pd.DataFrame:
  """Returns the rows of a quantity by the facets that it heads a report by; without these, those
  over everything; where there are none, those by the one facet that has the fewest values: at most
  `FEW` names, or 2 on an axis."""
  rows = table[table['quantity'] == quantity.name]
  by = [name for name in quantity.by if name in facets_of(table)]
  declared = select(rows, quantity.name, None, **dict.fromkeys(by, ...))
  if len(declared) or rows.empty:
    return _in_order(declared, by)
  named = []
  for facets, of_facets in by_facets(rows):
    varying = [name for name in facets if of_facets[name].nunique() > 1]
    most = 2 if varying and is_axis(quantity, of_facets, varying[0]) else FEW
    if not varying or (len(varying) == 1 and of_facets[varying[0]].nunique() <= most):
      named.append(of_facets)
  return min(named, key=len, default=declared)


def _in_order(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
  """Returns rows sorted by facets, the values of each in the order in which they come."""
  ranks = {name: pd.factorize(rows[name])[0] for name in by}
  return rows.iloc[np.lexsort([ranks[name] for name in reversed(by)])] if by else rows


def level_groups(rows: pd.DataFrame) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
  """Yields the rows of `leading` for each value of their facets, with these."""
  for facets, of_facets in by_facets(rows):
    groups = of_facets.groupby(list(facets), sort=False) if facets else [((), of_facets)]
    yield from ((facets, group) for _, group in groups)


def levels(table: pd.DataFrame, quantity: Quantity, task: str = '') -> list[Choice]:
  """Returns the levels of a quantity. A classifier's value that is undefined is told by its note
  where the level is over everything."""
  chosen = []
  for facets, rows in level_groups(leading(table, quantity)):
    noted = (rows.versus == '') & (rows.note != '') & (not facets)
    shown = rows[rows['value'].notna() | noted]
    if shown['value'].notna().any():
      chosen.append(Choice(quantity, shown, facets, task=task))
  return chosen


def differences(table: pd.DataFrame, quantity: Quantity, rate: float = RATE) -> Iterator[Choice]:
  """Yields the differences of a quantity by the same facets, with each classifier's largest."""
  for facets, rows in _many(table, quantity, is_difference=True):
    marked = rows.assign(marked=significant(rows, quantity, rate))
    yield Choice(quantity, marked, facets, _widened(marked, marked['value'].abs(), quantity))


def extremes(
  table: pd.DataFrame, quantity: Quantity, quantities: Sequence[Quantity], task: str = ''
) -> Iterator[Choice]:
  """Yields the values of a quantity by the same facets, with the highest or lowest of each
  classifier (`Quantity.end`); nothing of a quantity without such an end.

  Where the quantity names its end and its reference, one of `quantities`, has values by the same
  facets, those are chosen that are farthest beyond it, and it is stated beside.
  """
  for facets, rows in _many(table, quantity) if quantity.end else ():
    sign = -1 if quantity.end == 'lowest' else 1
    keys = ['classifier', *facets]
    by: dict[str, Any] = dict.fromkeys(facets, ...)
    of_reference = select(table, quantity.reference, **by)
    if of_reference.empty or not quantity.extreme:
      yield Choice(quantity, rows, facets, _widened(rows, sign * rows['value'], quantity), task)
      continue
    near = rows[keys].merge(of_reference, on=keys, how='left').set_index(rows.index)
    size = sign * (rows['value'] - near['value'])
    chosen = _widened(rows, size, quantity, 2 * len(rows))
    reference = next(q for q in quantities if q.name == quantity.reference)
    there = near.loc[chosen.index].apply(_for_all, axis=1, args=(2 * len(rows), reference))
    beside = Choice(reference, near, facets, there, task)
    yield Choice(quantity, rows, facets, chosen, task, beside)


def _many(
  table: pd.DataFrame, quantity: Quantity, is_difference: bool = False
) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
  """Yields the values of a quantity, or its differences, by two facets at most, or by as few as
  there are, without those of the level; with intervals, where any have one. A group that is the
  level at its highest or lowest, as pm-k is at the largest distance, is left out."""
  level = leading(table, quantity)
  rows = table[table['quantity'] == quantity.name].drop(index=level.index)
  groups = [(facets, group) for facets, group in told_once(rows) if facets]
  most = max(2, min((len(facets) for facets, _ in groups), default=0))
  for facets, group in sorted(groups, key=lambda pair: (CLASS in pair[0], len(pair[0]))):
    many = group[((group.versus != '') == is_difference) & group['value'].notna()]
    many = many[many['low'].notna()] if many['low'].notna().any() else many
    if many.empty or len(facets) > most:
      continue
    pairs = many.groupby(['classifier', 'versus'])['value']
    ends = many.loc[[*pairs.idxmin(), *pairs.idxmax()]].drop(columns=[*facets])
    of_level = ends.merge(level, on=[*_SAME])[['classifier', 'versus']].drop_duplicates()
    if pairs.size().max() > 1 and len(of_level) < pairs.ngroups:
      yield facets, many


def _widened(
  rows: pd.DataFrame, size: pd.Series, quantity: Quantity, family: int = 0
) -> pd.DataFrame:
  """Returns the rows of each classifier whose size is the largest, with intervals that hold for a
  family of estimates, by default all rows: for equal ones the widest."""
  found = []
  for _, of_pair in size.groupby([rows.classifier, rows.versus], sort=False):
    tied = rows.loc[of_pair.index[np.isclose(of_pair, of_pair.max(), rtol=1e-12, atol=1e-12)]]
    tied = tied[np.sign(tied['value']) == np.sign(tied['value'].iloc[0])]
    wide = _for_all(
      tied.loc[(tied.high - tied.low).fillna(0).idxmax()], family or len(rows), quantity
    )
    found.append(tied.assign(low=wide.low, high=wide.high, family=wide.family))
  return pd.concat(found)


def _for_all(row: pd.Series, family: int, quantity: Quantity) -> pd.Series:
  """Returns an estimate with the interval for a family, without one where it cannot be widened."""
  wide = for_all(row, family, quantity)
  return pd.Series({**row, 'low': math.nan, 'high': math.nan}) if wide is None else wide


def headlines(tasks: Mapping[str, Results]) -> list[Choice]:
  """Returns what heads the findings of `Results.by_task`, task after task.

  Of each task these are the quantities that are declared to, then those that they are drawn beside
  (`Quantity.reference`); where none that is declared to was estimated, all. A quantity without a
  level has its extreme by the fewest facets. What an earlier task states in the same words with the
  same estimates, such as the error on clean images, is left out.
  """
  found: dict[tuple[str, str], Choice] = {}
  for task, results in tasks.items():
    table = without_little(results.table)
    measured = {*table['quantity']}
    heading = [q for q in results.quantities if q.headline and q.name in measured]
    beside = {quantity.reference for quantity in heading}
    heading += [quantity for quantity in results.quantities if quantity.name in beside]
    for quantity in dict.fromkeys(heading or results.quantities):
      for choice in heads(table, quantity, results.quantities, task):
        estimates = choice.stated[[*_SAME, 'n']].to_csv(index=False)
        found.setdefault((choice.words, estimates), choice)
  return [*found.values()]


def without_little(table: pd.DataFrame) -> pd.DataFrame:
  """Returns a table without what a classifier has of a quantity where its estimate over everything
  is noted to say little, as ρ of networks at chance, or is degenerate."""
  over_all = table[facets_of(table)].isna().all(axis=1)
  little = over_all & (table.note.str.contains(SAYS_LITTLE, regex=False) | says_nothing(table))
  keys = pd.MultiIndex.from_frame(table[['classifier', 'quantity']])
  return table[~keys.isin(keys[little])]


def heads(
  table: pd.DataFrame, quantity: Quantity, quantities: Sequence[Quantity], task: str = ''
) -> list[Choice]:
  """Returns the levels of a quantity, or its extreme where there is none."""
  found = levels(table, quantity, task)
  for choice in () if found else extremes(table, quantity, quantities, task):
    return [choice, choice.beside] if choice.beside else [choice]
  return found


def short_names(chosen: Sequence[Choice]) -> list[str]:
  """Returns the short words of choices after the names of their tasks, with the place, or all
  words, where several of a task would have one name."""
  names = [choice.short_words for choice in chosen]
  for longer in ('place', 'words'):
    tasks = [choice.task for choice in chosen]
    counts = collections.Counter(zip(tasks, names, strict=True))
    for index, choice in enumerate(chosen):
      if counts[choice.task, names[index]] > 1:
        place = f'{choice.short_words} {choice.place}'.rstrip()
        names[index] = place if longer == 'place' else choice.words
  return [
    ': '.join(filter(None, (choice.task.replace('_', ' '), name)))
    for choice, name in zip(chosen, names, strict=True)
  ]


def foremost(found: Sequence[Choice], most: int) -> list[Choice]:
  """Returns at most so many of the headlines, in their order: the first of each task, then second
  ones, and so on. Single classes, and ratios of classifiers to themselves, are left out."""
  candidates = [
    choice
    for choice in found
    if CLASS not in choice.facets and not choice.stated.note.str.startswith(ITSELF).all()
  ]
  counts, ranks = collections.Counter[str](), []
  for choice in candidates:
    counts[choice.task] += 1
    ranks.append(counts[choice.task])
  return [candidates[place] for place in sorted(np.argsort(ranks, kind='stable')[:most])]


def labels_of(tasks: Mapping[str, Results]) -> list[str]:
  """Returns the classifiers in order; a task may lack those that it cannot measure."""
  return list(dict.fromkeys(label for of in tasks.values() for label in of.table.classifier))


def worst_tasks(found: list[Choice], label: str) -> list[tuple[Choice, pd.Series]]:
  """Returns in which task a classifier is wrong on the largest share, the worst first.

  Each task's largest error, or 1 − accuracy, over everything is in, with the interval that holds
  for all that were looked through; nothing where fewer than two tasks have one.
  """
  num_errors, by_task = 0, dict[str, tuple[float, Choice, pd.Series]]()
  for choice in found:
    quantity = choice.quantity
    of_answers = quantity.range == (0, 1) and _ERROR.search(quantity.words)
    is_level = choice.extremes is None and CLASS not in choice.facets
    rated = is_level and quantity.kind == SHARE and quantity.better and of_answers
    rows = choice.rows[(choice.rows.classifier == label) & (choice.rows.versus == '')]
    for _, row in rows[rows.low.notna()].iterrows() if rated else ():
      num_errors += 1
      error = row.value if quantity.better == 'lower' else 1 - row.value
      if error > by_task.get(choice.task, (-1.0,))[0]:
        by_task[choice.task] = (error, choice, row)
  if len(by_task) < 2:
    return []
  ordered = sorted(by_task.values(), key=lambda entry: -entry[0])
  wide = ((choice, for_all(row, num_errors, choice.quantity)) for _, choice, row in ordered)
  return [(choice, row) for choice, row in wide if row is not None]
