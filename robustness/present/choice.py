"""Selects the rows of a table of results that people read first.

A `Choice` is a set of rows that is reported in one sentence or one column of a table. A condition
is one value of each facet, such as fog at severity 3. A choice is one of three kinds:

* an overall value: a quantity over all conditions, or in one of few conditions, with the paired
  differences between classifiers;
* an extreme: each classifier's highest or lowest value among many conditions;
* differences: paired differences of each classifier in many conditions, each marked as significant
  or not.

Other modules put choices into words: `sentences`, `tables` and `methods` of this package.
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
from robustness.estimates.simultaneous import significant, widen_for_family
from robustness.estimates.systematic import SAYS_LITTLE
from robustness.estimates.table import by_facets, facets_of, select, without_repeats
from robustness.present.notation import (
  are_degenerate,
  is_axis,
  place_of,
  places_of,
  plural,
  value_text,
)
from robustness.results import NO_SPREAD, Results

MAX_OVERALL_VALUES = 7
"""Most values of one facet that are all reported for a quantity without a value over all
conditions. With more values only the extreme is reported.
"""
CLASS = 'class'
"""Name of the facet for the true class of the images."""
_ERROR_OR_ACCURACY = re.compile(r'\b(error|accuracy)\b')
"""Matches the names of quantities that can be compared between tasks as errors."""
_ATTACK = re.compile(
  r'.* under (?:(?P<norm>ℓ\S+) (?P<attack>\S+)|the worst (?P<norm_of_worst>ℓ\S+) attack .*)'
)
"""Matches words such as 'top-1 error under ℓ∞ PGD' or '… under the worst ℓ2 attack of 3'."""
_START_OF_QUALIFIER = re.compile(r',| (?:under|over|on|of|by|in|at) ')
"""Matches where the name of a quantity begins to state its condition, as ' under' in 'error under
fog'.
"""
SHORT_WORDS = {
  'clean_accuracy': 'clean accuracy',
  'clean_error': 'clean error',
  'ece': 'ECE',
  'mCE': 'mCE',
  'relative_mCE': 'relative mCE',
  'AutoAttack': 'AA',
  'Auto-PGD': 'APGD',
}
"""Short names of quantities and attacks for the column heads of tables, as papers write them."""
_ESTIMATE = ('classifier', 'versus', 'value', 'low', 'high')
"""Columns that two rows with the same estimate have in common, whatever the quantity and facets."""


@dataclasses.dataclass(frozen=True, eq=False)
class Choice:
  """Rows of the table of results that are reported in one statement.

  Attributes:
    quantity: the quantity of all rows.
    rows: for an overall value, a row per classifier and then the paired differences; otherwise a
      row for each classifier (or pair) and condition. Differences have a boolean column `marked`,
      true if they are significant.
    facets: names of the facets of the rows, such as ('corruption', 'severity').
    extremes: the rows with each classifier's highest or lowest value, or largest difference, with
      intervals that hold for all rows together. A classifier with a tie has several. None for an
      overall value.
    task: name of the task of a battery; '' for one study.
    reference: the choice of the quantity that `quantity.reference` names, in the conditions of the
      extremes; None if that quantity has no values by `facets`.
  """

  quantity: Quantity
  rows: pd.DataFrame
  facets: tuple[str, ...] = ()
  extremes: pd.DataFrame | None = None
  task: str = ''
  reference: Choice | None = None

  @property
  def summary_rows(self) -> pd.DataFrame:
    """The rows for a table: all rows of an overall value, else one row with the extreme per
    classifier.
    """
    return self.rows if self.extremes is None else self.extremes.drop_duplicates('classifier')

  @property
  def place(self) -> str:
    """The condition of an overall value, such as 'under fog'; '' if it is over all conditions.

    It is '' for extremes too, because each classifier has its extreme in another condition.
    """
    if self.extremes is not None or self.rows.empty:
      return ''
    return place_of(self.quantity, self.rows.iloc[0], self.facets)

  @property
  def words(self) -> str:
    """The reported value in words.

    * An overall value: 'top-1 error under fog'.
    * The highest or lowest of several values: 'highest top-1 error of 8 corruptions'.
    * The value furthest above or below its `reference`: 'ratio, clearest of 8 corruptions'.
    * The values of such a reference in these conditions: 'accuracy, there'.
    """
    if self.extremes is None:
      return ' '.join(filter(None, (self.quantity.words, self.place)))
    extreme = self.quantity.named_extreme
    if not extreme:  # the reference in the conditions of another quantity's extremes
      return f'{self.quantity.words}, there'
    if self.reference is not None:
      return f'{self.quantity.words}, clearest of {self.conditions_text}'
    return f'{extreme} {self.quantity.words} of {self.conditions_text}'

  @property
  def attack_words(self) -> str:
    """A short head for a column of values under an attack: 'AA 8/255', 'PGD ℓ2 0.5'.

    As in papers, it has the attack, its norm unless this is ℓ∞, and the radius ε of the ball. It is
    '' if the quantity is not measured under an attack, or if the rows have no single ε.
    """
    match = _ATTACK.fullmatch(self.quantity.words)
    has_single_radius = self.extremes is None and 'epsilon' in self.facets
    if not match or not has_single_radius:
      return ''
    # 'top-1 error under ℓ∞ PGD' has norm and attack, '… under the worst ℓ2 attack of 3' the norm.
    attack = match['attack'] or 'worst attack'
    norm = match['norm'] or match['norm_of_worst']
    radius = value_text(EPSILON, self.rows.iloc[0].epsilon)
    words = (SHORT_WORDS.get(attack, attack), '' if norm == 'ℓ∞' else norm, radius)
    return ' '.join(filter(None, words))

  @property
  def as_accuracy(self) -> Choice:
    """The same rows as accuracies, 1 − error, without paired differences.

    Papers report accuracies under attacks; this software measures errors.
    """
    errors = self.rows[self.rows.versus == '']
    # The lower end of an error's interval becomes the upper end of the accuracy's.
    rows = errors.assign(value=1 - errors['value'], low=1 - errors.high, high=1 - errors.low)
    words = self.quantity.words.replace('error', 'accuracy')
    quantity = dataclasses.replace(self.quantity, words=words, better='higher')
    return dataclasses.replace(self, quantity=quantity, rows=rows)

  @property
  def short_words(self) -> str:
    """Short words for a narrow column: 'mCE', 'AA 8/255 error', 'lowest accuracy'.

    If the value is the worst one over conditions, the words begin with 'highest' or 'lowest'
    (`quantity.named_extreme`), whichever is worse.
    """
    if self.attack_words:
      return f'{self.attack_words} error'
    unqualified = _START_OF_QUALIFIER.split(self.quantity.words)[0].replace('top-1 ', '')
    words = SHORT_WORDS.get(self.quantity.name, unqualified)
    extreme = self.quantity.named_extreme if self.extremes is not None else ''
    return f'{extreme} {words}' if extreme else words

  @property
  def name(self) -> str:
    """The words, preceded by the task if the run is a battery: 'fog: top-1 error'."""
    return _after_task(self.task, self.words)

  @property
  def conditions_text(self) -> str:
    """The number of conditions that the minimum or maximum is selected from: '8 corruptions'.

    It is the largest number of conditions that a classifier, or a pair of classifiers, has.
    """
    count = int(self.rows.groupby(['classifier', 'versus']).size().max())
    return f'{count} {plural(self.quantity, self.varying)}'

  @property
  def coverage(self) -> str:
    """The estimates that an extreme's interval holds for together, in words.

    An example is 'simultaneous over 8 corruptions and 2 networks'.
    """
    num_networks = self.rows.classifier.nunique()
    networks = f' and {num_networks} networks' if num_networks > 1 else ''
    return f'simultaneous over {self.conditions_text}{networks}'

  @property
  def varying(self) -> list[str]:
    """The facets with more than one value; all facets if none has more than one."""
    return [name for name in self.facets if self.rows[name].nunique() > 1] or [*self.facets]

  def place_words(self, row: pd.Series) -> str:
    """Returns the conditions of a classifier's extreme value, such as 'under fog and snow'.

    All conditions that share the extreme value are named; if all conditions of the classifier do,
    the result is 'everywhere'. It is '' if this `Choice` has overall values and no extremes.

    Args:
      row: an extreme value; only its `classifier` and `versus` are read. `versus` is the classifier
        that is subtracted, '' for none.
    """
    if self.extremes is None:
      return ''

    def same_pair(rows: pd.DataFrame) -> pd.DataFrame:
      """Returns the rows with the same `classifier` and `versus` as `row`."""
      return rows[(rows.classifier == row.classifier) & (rows.versus == row.versus)]

    tied = same_pair(self.extremes)
    num_conditions = len(same_pair(self.rows))
    if len(tied) == num_conditions and num_conditions > 1:
      return 'everywhere'
    return places_of(self.quantity, tied, self.facets)


def _after_task(task: str, words: str) -> str:
  """Returns 'task: words', with spaces for underscores, or the words alone if `task` is ''."""
  return f'{task.replace("_", " ")}: {words}' if task else words


def choices(results: Results) -> list[Choice]:
  """Returns the groups of rows to report.

  They are of the headline quantities, or of all quantities if there is no headline quantity.
  Overall values come first, then differences between classifiers, then the extreme of each
  classifier over conditions. Each of these follows the order of the quantities; within a quantity,
  choices with fewer facets come first. Choices by class come last of all. Choices with equal values
  are reported once. Trainings with several seeds are averaged.
  """
  quantities = [q for q in results.presented if q.headline] or list(results.presented)
  table = results.over_seeds.table
  rate = results.false_discovery_rate
  candidates = [choice for quantity in quantities for choice in overall_choices(table, quantity)]
  for quantity in quantities:
    candidates += difference_choices(table, quantity, rate)
  for quantity in quantities:
    candidates += extreme_choices(table, quantity, results.quantities)
  distinct: dict[object, Choice] = {}
  for choice in sorted(candidates, key=lambda choice: CLASS in choice.facets):
    distinct.setdefault(_key_of_values(choice), choice)
  return list(distinct.values())


def _key_of_values(choice: Choice) -> tuple[object, ...]:
  """Returns a key that is equal for two choices that report the same numbers.

  Equal choices have the same values, to 9 digits, for the same classifiers and facets. An accuracy
  has the same key as its error, 1 − accuracy.
  """
  rows, quantity = choice.rows, choice.quantity
  values = rows['value']
  if quantity.range == (0, 1) and quantity.better == 'higher':
    is_value = (rows.versus == '').astype(float)  # 0 for a difference, which changes its sign
    values = is_value - values
  texts = rows[['classifier', 'versus', *choice.facets]].astype(str)
  texts = texts.assign(value=values.map('{:.9g}'.format))
  is_overall = choice.extremes is None
  return quantity.kind, is_overall, frozenset(texts.itertuples(index=False, name=None))


def overall_rows(table: pd.DataFrame, quantity: Quantity) -> pd.DataFrame:
  """Returns the rows of a quantity that a report states first, values and differences.

  These are the rows by the facets in `Quantity.by`, or over all conditions if the table has none of
  these facets. If there are no such rows, one facet with few values is used instead: at most
  `MAX_OVERALL_VALUES` names, or at most 2 numbers of an ordered facet. Among several such facets
  the one with the fewest rows is taken; without any, the result is empty.
  """
  rows = table[table['quantity'] == quantity.name]
  by = [name for name in quantity.by if name in facets_of(table)]
  # None selects values and differences, `...` all values of a facet.
  declared = select(rows, quantity.name, None, **dict.fromkeys(by, ...))
  if len(declared) or rows.empty:
    return _in_order(declared, by)
  candidates = [group for facets, group in by_facets(rows) if _is_short(quantity, facets, group)]
  return min(candidates, key=len, default=declared)


def _is_short(quantity: Quantity, facets: Sequence[str], rows: pd.DataFrame) -> bool:
  """Returns whether the rows are few enough to be reported one by one.

  At most one facet then has several values in the rows: at most 2 if it is drawn on a numeric axis,
  else at most `MAX_OVERALL_VALUES`.
  """
  varying = [name for name in facets if rows[name].nunique() > 1]
  if len(varying) != 1:
    return not varying
  limit = 2 if is_axis(quantity, rows, varying[0]) else MAX_OVERALL_VALUES
  return int(rows[varying[0]].nunique()) <= limit


def _in_order(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
  """Returns rows sorted by the facets `by`, with the values of each in order of first
  occurrence.
  """
  ranks = [pd.factorize(rows[name])[0] for name in by]
  return rows.iloc[np.lexsort(ranks[::-1])] if by else rows  # lexsort takes the main key last


def overall_choices(table: pd.DataFrame, quantity: Quantity, task: str = '') -> list[Choice]:
  """Returns the values of a quantity that a report states first, one choice for each condition.

  A value over all conditions keeps classifiers with an undefined value (NaN) if a note says why.
  `task` is the name of the task of a battery; '' for a single study.
  """
  choices = []
  for facets, rows in by_facets(overall_rows(table, quantity)):
    # [(values of the facets, rows of all classifiers)]
    conditions = rows.groupby(list(facets), sort=False) if facets else [((), rows)]
    for _, group in conditions:
      is_noted = (group.versus == '') & (group.note != '') & (not facets)
      group = group[group['value'].notna() | is_noted]
      if group['value'].notna().any():
        choices.append(Choice(quantity, group, facets, task=task))
  return choices


def values_that_rank(results: Results, quantity: Quantity) -> pd.DataFrame:
  """Returns the overall values of a quantity, means over seeds, if they can rank classifiers.

  No row is returned if the quantity is not one of the study's main results (`headline`), if neither
  high nor low values are better, or if the quantity is a ratio to a baseline of the same run.
  """
  rows = overall_rows(results.over_seeds.table, quantity)
  is_ratio_in_run = rows.note.str.contains(ITSELF, regex=False).any()
  can_rank = bool(quantity.headline and quantity.better and not is_ratio_in_run)
  return rows[(rows.versus == '') & rows.value.notna() & can_rank]


def difference_choices(table: pd.DataFrame, quantity: Quantity, rate: float) -> Iterator[Choice]:
  """Yields the paired differences of a quantity as choices, which are the rows of one figure each.

  There is one choice for each set of facets: the one for ('corruption', 'severity') has a row for
  each pair of classifiers, corruption and severity. Its rows have the boolean `marked`, true if the
  difference is significant at the false-discovery rate `rate`. Its `extremes` are, for each pair of
  classifiers, the row with the largest absolute difference, with intervals that hold for all rows
  of the choice together.
  """
  for facets, rows in _groups_by_facets(table, quantity, is_difference=True):
    rows = rows.assign(marked=significant(rows, quantity, rate))
    extremes = _rows_of_largest(rows, rows['value'].abs(), quantity, family=len(rows))
    yield Choice(quantity, rows, facets, extremes)


def extreme_choices(
  table: pd.DataFrame, quantity: Quantity, quantities: Sequence[Quantity], task: str = ''
) -> Iterator[Choice]:
  """Yields a choice for each set of facets: values of a quantity, and each classifier's extreme.

  The extreme is the highest or the lowest value, as `quantity.named_extreme` says; if it is '',
  there are no choices. The intervals of extremes hold for all conditions together.

  If `quantity.extreme` is set and `quantity.reference`, another quantity, has values by the same
  facets, the extreme is where the value minus the reference in the same condition is highest or
  lowest. The choice then has the reference's values too, and intervals hold for both quantities.

  Args:
    table: estimates of one task.
    quantity: the quantity to search.
    quantities: all quantities of the table, the reference among them.
    task: name of the task of a battery; '' for a single study.
  """
  if not quantity.named_extreme:
    return
  sign = -1 if quantity.named_extreme == 'lowest' else 1
  for facets, rows in _groups_by_facets(table, quantity):
    keys = ['classifier', *facets]
    any_value: dict[str, Any] = dict.fromkeys(facets, ...)  # `...` selects all values
    references = select(table, quantity.reference, **any_value)
    if references.empty or not quantity.extreme:
      extremes = _rows_of_largest(rows, sign * rows['value'], quantity, family=len(rows))
      yield Choice(quantity, rows, facets, extremes, task)
      continue
    # The reference in the same condition of each row, with the index of `rows`.
    paired = rows[keys].merge(references, on=keys, how='left').set_index(rows.index)
    beyond_reference = sign * (rows['value'] - paired['value'])
    family = 2 * len(rows)  # values and references
    extremes = _rows_of_largest(rows, beyond_reference, quantity, family)
    reference = next(q for q in quantities if q.name == quantity.reference)
    # The references in the conditions of the extremes, with widened intervals.
    at_extremes = paired.loc[extremes.index].apply(_widened, axis=1, args=(family, reference))
    reference_choice = Choice(reference, paired, facets, at_extremes, task)
    yield Choice(quantity, rows, facets, extremes, task, reference_choice)


def _groups_by_facets(
  table: pd.DataFrame, quantity: Quantity, is_difference: bool = False
) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
  """Yields (facets, rows) of a quantity for each set of facets that its rows have values of.

  Sets with fewer facets come first, sets with the facet class last. The rows are values of
  classifiers, or paired differences if `is_difference`. Left out are

  * rows over all conditions (`overall_rows`), which are reported separately;
  * rows without a value;
  * rows without an interval, if others in the set have one, unless all seeds are equal;
  * sets with one row per classifier;
  * sets in which every classifier's highest or lowest value equals its overall value;
  * sets of three or more facets, if any set has one or two.
  """
  overall = overall_rows(table, quantity)
  rows = table[table['quantity'] == quantity.name].drop(index=overall.index)
  groups = [(facets, group) for facets, group in without_repeats(rows) if facets]
  # 2, or the fewest facets of a set if all sets have more
  max_facets = max(2, min((len(facets) for facets, _ in groups), default=0))
  for facets, group in sorted(groups, key=lambda pair: (CLASS in pair[0], len(pair[0]))):
    group = group[((group.versus != '') == is_difference) & group['value'].notna()]
    has_interval = group['low'].notna() | group['note'].eq(NO_SPREAD)
    if group['low'].notna().any():
      group = group[has_interval]
    if group.empty or len(facets) > max_facets:
      continue
    num_conditions = group.groupby(['classifier', 'versus']).size().max()
    if num_conditions > 1 and not _has_overall_extremes(group.drop(columns=[*facets]), overall):
      yield facets, group


def _has_overall_extremes(rows: pd.DataFrame, overall: pd.DataFrame) -> bool:
  """Returns whether `overall` has, for every classifier, a row equal to its highest or its lowest
  row in `rows`.
  """
  values = rows.groupby(['classifier', 'versus'])['value']  # over the conditions
  extremes = rows.loc[[*values.idxmin(), *values.idxmax()]]
  repeated = extremes.merge(overall, on=[*_ESTIMATE])[['classifier', 'versus']].drop_duplicates()
  return len(repeated) == values.ngroups


def _rows_of_largest(
  rows: pd.DataFrame, size: pd.Series, quantity: Quantity, family: int
) -> pd.DataFrame:
  """Returns the rows with the largest `size` for each classifier, or pair of classifiers.

  If several rows of a classifier have the largest size, all of these with the sign of the first are
  returned (not −3 after +3), each with the widest interval among them.

  Args:
    rows: values of classifiers, or differences between pairs of classifiers.
    size: what the rows are compared by, with the index of `rows`.
    quantity: the quantity of the rows.
    family: number of estimates that the intervals of the returned rows hold for together.
  """
  largest = []
  for _, sizes in size.groupby([rows.classifier, rows.versus], sort=False):
    is_largest = np.isclose(sizes, sizes.max(), rtol=1e-12, atol=1e-12)
    tied = rows.loc[sizes.index[is_largest]]
    tied = tied[np.sign(tied['value']) == np.sign(tied['value'].iloc[0])]
    widest = tied.loc[(tied.high - tied.low).fillna(0).idxmax()]
    joint = _widened(widest, family, quantity)
    largest.append(tied.assign(low=joint.low, high=joint.high, family=joint.family))
  return pd.concat(largest)


def _widened(row: pd.Series, family: int, quantity: Quantity) -> pd.Series:
  """Returns an estimate with its interval widened to hold for `family` estimates together.

  The ends are NaN if the interval cannot be widened.
  """
  joint = widen_for_family(row, family, quantity)
  return pd.Series({**row, 'low': math.nan, 'high': math.nan}) if joint is None else joint


def headlines(tasks: Mapping[str, Results]) -> list[Choice]:
  """Returns the headlines of all tasks, task after task, with single classes last.

  Within a task, quantities that are declared as headlines come first, then their references
  (`Quantity.reference`). If no headline was estimated, all quantities are used. A quantity without
  an overall value is reported by each classifier's largest or smallest value over conditions. A
  choice that repeats the words and estimates of an earlier task, such as the error on clean images,
  is left out.

  Args:
    tasks: {task: its results}.
  """
  distinct: dict[tuple[str, str], Choice] = {}  # by the words and the estimates as text
  for task, results in tasks.items():
    table = without_uninformative(results.table)
    measured = {*table['quantity']}
    quantities = [q for q in results.quantities if q.headline and q.name in measured]
    references = {quantity.reference for quantity in quantities}
    quantities += [quantity for quantity in results.quantities if quantity.name in references]
    for quantity in dict.fromkeys(quantities or results.quantities):
      for choice in headlines_of_quantity(table, quantity, results.quantities, task):
        estimates = choice.summary_rows[[*_ESTIMATE, 'n']].to_csv(index=False)
        distinct.setdefault((choice.words, estimates), choice)
  return sorted(distinct.values(), key=lambda choice: CLASS in choice.facets)


def without_uninformative(table: pd.DataFrame) -> pd.DataFrame:
  """Returns the table of results without the quantities that say little about a classifier.

  All rows of a classifier and a quantity are left out if the note of their estimate over all
  conditions begins with 'degenerate' or contains `SAYS_LITTLE`, as for a network at chance.
  """
  is_over_all = table[facets_of(table)].isna().all(axis=1)
  says_little = table.note.str.contains(SAYS_LITTLE, regex=False) | are_degenerate(table)
  keys = pd.MultiIndex.from_frame(table[['classifier', 'quantity']])  # the pair of each row
  return table[~keys.isin(keys[is_over_all & says_little])]


def headlines_of_quantity(
  table: pd.DataFrame, quantity: Quantity, quantities: Sequence[Quantity], task: str = ''
) -> list[Choice]:
  """Returns the overall values of a quantity, or if it has none, its extreme over conditions.

  The extreme is each classifier's largest or smallest value, among the values by the fewest facets.
  If it is relative to a reference quantity, the values of the reference in the same conditions
  follow. The result is empty if the quantity has neither an overall value nor an extreme.

  Args:
    table: estimates of one task.
    quantity: the quantity that is reported.
    quantities: all quantities of the table, the reference among them.
    task: name of the task.
  """
  if choices := overall_choices(table, quantity, task):
    return choices
  extreme = next(extreme_choices(table, quantity, quantities, task), None)
  if extreme is None:
    return []
  return [extreme, extreme.reference] if extreme.reference else [extreme]


def short_names(choices: Sequence[Choice]) -> list[str]:
  """Returns a name for each choice: the task and the short words, such as 'fog: mCE'.

  If two choices of a task have equal names, the condition is added; if they are still equal, the
  full words are used.
  """
  names = [choice.short_words for choice in choices]
  # Names that are equal within a task are replaced, first by these, then by the full words.
  with_place = [f'{choice.short_words} {choice.place}'.rstrip() for choice in choices]
  for longer_names in (with_place, [choice.words for choice in choices]):
    tasks_and_names = [(choice.task, name) for choice, name in zip(choices, names, strict=True)]
    counts = collections.Counter(tasks_and_names)
    for index, task_and_name in enumerate(tasks_and_names):
      if counts[task_and_name] > 1:
        names[index] = longer_names[index]
  return [_after_task(choice.task, name) for choice, name in zip(choices, names, strict=True)]


def first_headlines(choices: Sequence[Choice], limit: int) -> list[Choice]:
  """Returns at most `limit` headlines, spread evenly over the tasks, in their original order.

  The first headline of each task is taken, then the second of each, and so on. Headlines of single
  classes are left out, and ratios of a classifier to itself, which are always 1.
  """
  candidates = [
    choice
    for choice in choices
    if CLASS not in choice.facets and not choice.summary_rows.note.str.startswith(ITSELF).all()
  ]
  tasks = pd.Series([choice.task for choice in candidates], dtype=object)
  ranks_in_task = tasks.groupby(tasks).cumcount()  # 0 for a task's first headline, 1 for the second
  # The indices of the first headlines of all tasks come first, then of the second ones, ….
  selected = np.argsort(ranks_in_task, kind='stable')[:limit]
  return [candidates[index] for index in sorted(selected)]


def worst_tasks(choices: list[Choice], label: str) -> list[tuple[Choice, pd.Series]]:
  """Returns (choice, row) of a classifier's largest error in each task, largest error first.

  Only overall values of errors or accuracies (counted as 1 − accuracy) with an interval are
  compared. The intervals of the rows returned hold for all compared errors together. The result is
  empty if fewer than two tasks have an error.

  Args:
    choices: choices of all tasks.
    label: label of the classifier.
  """
  errors: list[tuple[float, Choice, pd.Series]] = []  # (error, its choice, its row)
  for choice in choices:
    quantity = choice.quantity
    is_overall = choice.extremes is None and CLASS not in choice.facets
    is_rated_share = quantity.kind == SHARE and quantity.better and quantity.range == (0, 1)
    if not (is_overall and is_rated_share and _ERROR_OR_ACCURACY.search(quantity.words)):
      continue
    rows = choice.rows[(choice.rows.classifier == label) & (choice.rows.versus == '')]
    for _, row in rows[rows.low.notna()].iterrows():
      error = row.value if quantity.better == 'lower' else 1 - row.value
      errors.append((error, choice, row))
  worst_by_task: dict[str, tuple[Choice, pd.Series]] = {}
  for _, choice, row in sorted(errors, key=lambda entry: -entry[0]):
    worst_by_task.setdefault(choice.task, (choice, row))
  if len(worst_by_task) < 2:
    return []
  widened = [
    (c, widen_for_family(row, len(errors), c.quantity)) for c, row in worst_by_task.values()
  ]
  return [(choice, row) for choice, row in widened if row is not None]
