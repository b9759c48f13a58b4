"""Selects the rows of a table of results that people read first.

A `Selection` has the rows that one sentence, or one column of a table, reports. A condition is one
value of each facet, such as fog at severity 3. A selection is one of three kinds:

* an overall value: a quantity over all conditions, or in one of few conditions, with the paired
  differences between classifiers;
* an extreme: each classifier's highest or lowest value among many conditions;
* differences: paired differences of each classifier in many conditions, each marked as significant
  or not.

Other modules put selections into words: `sentences`, `tables` and `methods` of this package.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from robustness.estimates.facets import EPSILON
from robustness.estimates.of_means import ITSELF
from robustness.estimates.quantity import Quantity
from robustness.estimates.simultaneous import significant, widen_for_family
from robustness.estimates.systematic import SAYS_LITTLE
from robustness.estimates.table import by_facets, facets_of, select_by, without_repeats
from robustness.present import notation
from robustness.results import NO_SPREAD, Results

MAX_OVERALL_VALUES = 7
"""Most values of one facet that are all reported for a quantity without a value over all
conditions. With more values only the extreme is reported.
"""
CLASS = 'class'
"""Name of the facet for the true class of the images."""
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
class Selection:
  """Estimates that one sentence of a report, or one column of its table, states.

  Attributes:
    quantity: the quantity of all rows.
    rows: rows of the table of results. For an overall value, a row per classifier and then the
      paired differences. Otherwise a row for each condition and classifier, or pair of classifiers.
      The column `marked` of differences is true if they are significant.
    facets: the grouping columns of the rows, such as ('corruption', 'severity').
    extremes: the row with each classifier's highest or lowest value, or largest difference; several
      rows for a tie. Intervals hold for all rows together. None for an overall value.
    task: name of the task of a battery; '' for one study.
    reference: values of the quantity `quantity.reference` in the same conditions, which the
      extremes are compared with. None without a comparison.
  """

  quantity: Quantity
  rows: pd.DataFrame
  facets: tuple[str, ...] = ()
  extremes: pd.DataFrame | None = None
  task: str = ''
  reference: Selection | None = None

  @property
  def is_by_class(self) -> bool:
    """Whether the estimates are for single classes of images."""
    return CLASS in self.facets

  @property
  def reported_rows(self) -> pd.DataFrame:
    """The rows that a table shows.

    For an overall value, such as the mean over all corruptions, these are all rows. For values
    under several conditions, it is one row per classifier, with its highest or lowest value. Of
    equal values, the first row counts.
    """
    return self.rows if self.extremes is None else self.extremes.drop_duplicates('classifier')

  @property
  def condition(self) -> str:
    """The condition of an overall value, such as 'under fog'.

    It is '' for a value over all conditions. It is also '' for highest or lowest values, since each
    classifier has its own condition.
    """
    if self.extremes is not None or self.rows.empty:
      return ''
    return notation.condition_of(self.quantity, self.rows.iloc[0], self.facets)

  @property
  def words(self) -> str:
    """The name of the reported value.

    * 'top-1 error under fog' for an overall value;
    * 'highest top-1 error of 8 corruptions' for the highest or lowest value;
    * 'ratio, clearest of 8 corruptions' for the value that differs most from its reference;
    * 'accuracy, there' for this reference, which follows the value.
    """
    if self.extremes is None:
      return ' '.join(filter(None, (self.quantity.words, self.condition)))
    extreme = self.quantity.named_extreme
    if not extreme:  # only references of other quantities have extremes then
      return f'{self.quantity.words}, there'
    if self.reference is not None:
      return f'{self.quantity.words}, clearest of {self.number_of_conditions}'
    return f'{extreme} {self.quantity.words} of {self.number_of_conditions}'

  @property
  def attack_words(self) -> str:
    """The attack of a quantity as in heads of columns in papers: 'AA 8/255', 'PGD ℓ2 0.5'.

    It states the attack, its norm unless this is ℓ∞, and the radius ε. It is '' if the quantity is
    not measured under an attack, or with several ε.
    """
    match = _ATTACK.fullmatch(self.quantity.words)
    has_single_radius = self.extremes is None and 'epsilon' in self.facets
    if not match or not has_single_radius:
      return ''
    # 'top-1 error under ℓ∞ PGD' has norm and attack, '… under the worst ℓ2 attack of 3' the norm.
    attack = match['attack'] or 'worst attack'
    norm = match['norm'] or match['norm_of_worst']
    radius = notation.value_text(EPSILON, self.rows.iloc[0].epsilon)
    words = (SHORT_WORDS.get(attack, attack), '' if norm == 'ℓ∞' else norm, radius)
    return ' '.join(filter(None, words))

  @property
  def as_accuracy(self) -> Selection:
    """These estimates of an error, converted to accuracies as papers report them.

    A selection has rows of the table of results that are stated together. Values e become 1 − e,
    and intervals are converted alike. Differences between classifiers are left out.
    """
    errors = self.rows[self.rows.versus == '']
    # The lower end of an error's interval becomes the upper end of the accuracy's.
    rows = errors.assign(value=1 - errors['value'], low=1 - errors.high, high=1 - errors.low)
    words = self.quantity.words.replace('error', 'accuracy')
    quantity = dataclasses.replace(self.quantity, words=words, better='higher')
    return dataclasses.replace(self, quantity=quantity, rows=rows)

  @property
  def short_words(self) -> str:
    """The name of the selected values for a narrow column: 'mCE', 'AA 8/255 error'.

    It is the description of the quantity without its conditions ('under …'). If the selection has
    the lowest or highest value under several conditions, it begins with that: 'lowest accuracy'.
    """
    if self.attack_words:
      return f'{self.attack_words} error'
    without_condition = _START_OF_QUALIFIER.split(self.quantity.words)[0].replace('top-1 ', '')
    words = SHORT_WORDS.get(self.quantity.name, without_condition)
    extreme = self.quantity.named_extreme if self.extremes is not None else ''
    return f'{extreme} {words}'.lstrip()

  @property
  def name(self) -> str:
    """The name of the value, after the task in a battery (several studies): 'fog: top-1 error'."""
    return after_task(self.task, self.words)

  @property
  def number_of_conditions(self) -> str:
    """The number of conditions, of which the highest or lowest is reported: '8 corruptions'."""
    count = int(self.rows.groupby(['classifier', 'versus']).size().max())
    return f'{count} {notation.plural(self.quantity, self.varying)}'

  @property
  def interval_scope(self) -> str:
    """A phrase for the values that the interval holds for: 'simultaneous over 8 corruptions'.

    `self` selects either an overall value or the highest or lowest of the values under several
    conditions. The interval of an extreme is widened, so that it holds for all conditions and
    networks at once; the phrase names their numbers, with ' and 2 networks' for several networks.
    The interval of an overall value is not widened, and the phrase is ''.
    """
    if self.extremes is None:
      return ''
    num_networks = self.rows.classifier.nunique()
    networks = f' and {num_networks} networks' if num_networks > 1 else ''
    return f'simultaneous over {self.number_of_conditions}{networks}'

  @property
  def varying(self) -> list[str]:
    """The grouping columns with more than one value, or all of them if none has more than one."""
    return [name for name in self.facets if self.rows[name].nunique() > 1] or [*self.facets]

  def extreme_condition(self, row: pd.Series) -> str:
    """Returns where a classifier has its extreme value, such as 'under fog and snow' for a tie.

    The result is 'everywhere' if all conditions are tied, and '' for an overall value.

    Args:
      row: a row of `extremes`, of the classifier or the pair of classifiers.
    """
    if self.extremes is None:
      return ''
    tied = _of_same_pair(self.extremes, row)
    num_conditions = len(_of_same_pair(self.rows, row))
    if num_conditions > 1 and len(tied) == num_conditions:  # a single condition is named
      return 'everywhere'
    return notation.conditions_of(self.quantity, tied, self.facets)


def _of_same_pair(rows: pd.DataFrame, row: pd.Series) -> pd.DataFrame:
  """Returns the rows with the same `classifier` and `versus` as `row`."""
  return rows[(rows.classifier == row.classifier) & (rows.versus == row.versus)]


def after_task(task: str, words: str) -> str:
  """Returns 'task: words', with spaces for underscores, or the words alone if `task` is ''."""
  return f'{task.replace("_", " ")}: {words}' if task else words


def selections(results: Results) -> list[Selection]:
  """Selects the estimates that a report states in sentences.

  They are of the headline (main) quantities, or of all quantities if there are none. Overall values
  come first, then differences between classifiers, then highest or lowest values. Selections by
  class come last. Equal values are selected only once. If there are several seeds, values are their
  means.

  Args:
    results: the results.

  Returns:
    A selection for each sentence.
  """
  quantities = [q for q in results.presented if q.headline] or list(results.presented)
  table = results.over_seeds.table
  selected: list[Selection] = []
  for quantity in quantities:
    selected += overall_selections(table, quantity)
  for quantity in quantities:
    selected += difference_selections(table, quantity, results.false_discovery_rate)
  for quantity in quantities:
    selected += extreme_selections(table, quantity, results.quantities)
  distinct: dict[object, Selection] = {}
  for selection in sorted(selected, key=lambda selection: selection.is_by_class):
    distinct.setdefault(_key_of_values(selection), selection)
  return list(distinct.values())


def _key_of_values(selection: Selection) -> tuple[object, ...]:
  """Returns a key for dictionaries that is equal for selections with the same numbers.

  A selection has rows of the table of results that a report states together, all of one quantity.
  Keys are used to leave out a selection that repeats the numbers of another one. Numbers are
  compared to 9 digits, for the same classifiers and conditions. An accuracy has the same key as the
  error 1 − accuracy.
  """
  rows, quantity = selection.rows, selection.quantity
  values = rows['value']
  if quantity.range == (0, 1) and quantity.better == 'higher':
    # an accuracy becomes an error; a difference between two classifiers changes its sign
    values = np.where(rows.versus == '', 1, 0) - values
  texts = rows[['classifier', 'versus', *selection.facets]].astype(str)
  texts = texts.assign(value=values.map('{:.9g}'.format))
  is_overall = selection.extremes is None
  return quantity.kind, is_overall, frozenset(texts.itertuples(index=False, name=None))


def overall_rows(table: pd.DataFrame, quantity: Quantity) -> pd.DataFrame:
  """Returns the overall values of a quantity, with their paired differences.

  They are values over all conditions, or by the columns that the quantity declares (`Quantity.by`).
  If there are none, the values by other columns are taken if they are few enough to be reported one
  by one.

  Args:
    table: the table of results.
    quantity: the quantity.

  Returns:
    Rows of the table, possibly none.
  """
  rows = table[table['quantity'] == quantity.name]
  by = [name for name in quantity.by if name in facets_of(table)]
  overall = select_by(rows, quantity.name, by, versus=None)  # values and differences
  if len(overall) or rows.empty:
    return _in_order(overall, by)
  short = [group for facets, group in by_facets(rows) if _is_short(quantity, facets, group)]
  return min(short, key=len, default=overall)


def _is_short(quantity: Quantity, facets: Sequence[str], rows: pd.DataFrame) -> bool:
  """Returns whether rows by some grouping columns are few enough to be reported one by one.

  At most one column may have several values: 2 ordered numbers, such as severities, or
  `MAX_OVERALL_VALUES` names, such as corruptions.

  Args:
    quantity: the quantity, which declares its grouping columns.
    facets: names of the columns, such as ('corruption', 'severity').
    rows: the rows.
  """
  varying = [name for name in facets if rows[name].nunique() > 1]
  if len(varying) != 1:
    return not varying
  limit = 2 if notation.is_axis(quantity, rows, varying[0]) else MAX_OVERALL_VALUES
  return int(rows[varying[0]].nunique()) <= limit


def _in_order(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
  """Sorts rows by columns, with the values of each column in the order of first occurrence."""
  ranks = [pd.factorize(rows[name])[0] for name in by]
  return rows.iloc[np.lexsort(ranks[::-1])] if by else rows  # lexsort takes the main key last


def overall_selections(table: pd.DataFrame, quantity: Quantity, task: str = '') -> list[Selection]:
  """Selects the overall values of a quantity, with one selection for each condition.

  Undefined values (NaN) are left out. An exception is a classifier's value over all conditions with
  a note that explains why it is undefined, if other classifiers have values.

  Args:
    table: the table of results.
    quantity: the quantity.
    task: name of the task of a battery (a run of several studies); '' for a single study.
  """
  selections = []
  for facets, rows in by_facets(overall_rows(table, quantity)):
    if facets:
      groups = rows.groupby(list(facets), sort=False)
      conditions = [group.dropna(subset=['value']) for _, group in groups]
    else:
      is_explained = (rows.versus == '') & (rows.note != '')
      conditions = [rows[rows['value'].notna() | is_explained]]
    for group in conditions:  # the rows of all classifiers
      if group['value'].notna().any():
        selections.append(Selection(quantity, group, facets, task=task))
  return selections


def values_that_rank(results: Results, quantity: Quantity) -> pd.DataFrame:
  """Returns the overall values of a quantity if it can rank classifiers of different runs.

  The result has no rows if the quantity is not a main result (`headline`), or if neither high nor
  low values are better. Ratios to a classifier of the same run, such as mCE, are also excluded.
  Values are means over seeds.
  """
  rows = overall_rows(results.over_seeds.table, quantity)
  # The classifier that values are divided by has this note.
  is_ratio_in_run = rows.note.str.contains(ITSELF, regex=False).any()
  if not quantity.headline or not quantity.better or is_ratio_in_run:
    return rows.iloc[:0]
  return rows[(rows.versus == '') & rows.value.notna()]


def difference_selections(
  table: pd.DataFrame, quantity: Quantity, rate: float
) -> Iterator[Selection]:
  """Selects the paired differences of a quantity, with one selection for each set of columns.

  For instance, the selection by ('corruption', 'severity') has a row for each pair of classifiers,
  corruption and severity. Its `extremes` are the largest absolute difference of each pair. Their
  intervals hold for all rows together.

  Args:
    table: the table of results.
    quantity: the quantity.
    rate: false-discovery rate of the differences that are marked as significant.
  """
  for facets, rows in _groups_by_facets(table, quantity, is_difference=True):
    rows = rows.assign(marked=significant(rows, quantity, rate))
    extremes = _largest_per_classifier(rows, rows['value'].abs(), quantity, family=len(rows))
    yield Selection(quantity, rows, facets, extremes)


def extreme_selections(
  table: pd.DataFrame, quantity: Quantity, quantities: Sequence[Quantity], task: str = ''
) -> Iterator[Selection]:
  """Selects the highest or lowest value of each classifier, for each set of grouping columns.

  For instance, one selection has the highest error over corruptions. Quantities without
  `named_extreme`, which is 'highest' or 'lowest', have no selection. Intervals hold for the values
  in all conditions together.

  If `quantity.extreme` is set and the reference quantity has values in the same conditions, the
  value with the highest or lowest difference from its reference is selected. Intervals then hold
  for both quantities together.

  Args:
    table: estimates of one task.
    quantity: the quantity.
    quantities: all quantities of the table, with the reference.
    task: name of the task of a battery (a run of several studies); '' for a single study.
  """
  if not quantity.named_extreme:
    return
  sign = -1 if quantity.named_extreme == 'lowest' else 1
  for facets, rows in _groups_by_facets(table, quantity):
    references = select_by(table, quantity.reference, facets)
    if references.empty or not quantity.extreme:  # the extreme of the values themselves
      extremes = _largest_per_classifier(rows, sign * rows['value'], quantity, family=len(rows))
      yield Selection(quantity, rows, facets, extremes, task)
      continue
    # For each of `rows`, the reference of the same classifier in the same condition.
    keys = ['classifier', *facets]
    reference_rows = rows[keys].merge(references, on=keys, how='left').set_index(rows.index)
    difference = rows['value'] - reference_rows['value']
    family = len(rows) + len(reference_rows)
    extremes = _largest_per_classifier(rows, sign * difference, quantity, family)
    reference = next(q for q in quantities if q.name == quantity.reference)
    of_extremes = reference_rows.loc[extremes.index]  # equal for tied extremes
    widened = _largest_per_classifier(of_extremes, of_extremes['value'], reference, family)
    compared = Selection(reference, reference_rows, facets, widened, task)
    yield Selection(quantity, rows, facets, extremes, task, compared)


def _groups_by_facets(
  table: pd.DataFrame, quantity: Quantity, is_difference: bool = False
) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
  """Yields the values of a quantity in many conditions, for each set of grouping columns.

  Sets with fewer columns come first, sets with the column class last. Left out is what a report
  states already or would state in too much detail:

  * overall values (`overall_rows`), and rows without a value;
  * rows without an interval, if others in the set have one, unless all seeds have equal values;
  * sets with one row per classifier;
  * sets in which every classifier's highest or lowest value equals an overall value;
  * sets of three or more columns, if any set has one or two.

  Args:
    table: the table of results.
    quantity: the quantity.
    is_difference: whether to yield paired differences instead of values.

  Yields:
    (columns, rows), for instance with the columns ('corruption', 'severity').
  """
  overall = overall_rows(table, quantity)
  rows = table[table['quantity'] == quantity.name].drop(index=overall.index)
  groups = [(facets, group) for facets, group in without_repeats(rows) if facets]
  groups.sort(key=lambda pair: (CLASS in pair[0], len(pair[0])))
  for facets, group in with_few_facets(groups):
    group = group[((group.versus != '') == is_difference) & group['value'].notna()]
    if group['low'].notna().any():  # `NO_SPREAD` is the note that all seeds have equal values
      group = group[group['low'].notna() | group['note'].eq(NO_SPREAD)]
    num_conditions = group.groupby(['classifier', 'versus']).size().max()  # NaN without rows
    if num_conditions > 1 and not _has_overall_extremes(group.drop(columns=[*facets]), overall):
      yield facets, group


def with_few_facets(
  groups: Sequence[tuple[tuple[str, ...], pd.DataFrame]],
) -> list[tuple[tuple[str, ...], pd.DataFrame]]:
  """Selects the estimates by one or two grouping columns, or else by the fewest columns.

  Args:
    groups: (columns, rows) of each set of estimates, for instance with ('corruption', 'severity').
  """
  max_facets = max(2, min((len(facets) for facets, _ in groups), default=0))
  return [(facets, rows) for facets, rows in groups if len(facets) <= max_facets]


def _has_overall_extremes(rows: pd.DataFrame, overall: pd.DataFrame) -> bool:
  """Returns whether each classifier's highest or lowest estimate repeats an overall value.

  For instance, an overall value may be defined as the lowest over conditions. A report then states
  it once.

  Args:
    rows: rows of the table of results: estimates in many conditions, of classifiers and differences
      between them.
    overall: rows with overall values.
  """
  values_by_pair = rows.groupby(['classifier', 'versus'])['value']
  extremes = rows.loc[[*values_by_pair.idxmin(), *values_by_pair.idxmax()]]
  # Extremes with the value and the interval of an overall estimate.
  repeated = extremes.merge(overall, on=[*_ESTIMATE])[['classifier', 'versus']].drop_duplicates()
  return len(repeated) == values_by_pair.ngroups


def _largest_per_classifier(
  rows: pd.DataFrame, size: pd.Series, quantity: Quantity, family: int
) -> pd.DataFrame:
  """Returns each classifier's row with the largest `size`, with a widened interval.

  The interval allows for the choice of the row. Pairs of classifiers count as classifiers. If rows
  are tied, all with the same value as the first are returned.

  Args:
    rows: values of classifiers, or differences between pairs of classifiers.
    size: a number for each row, with the index of `rows`.
    quantity: the quantity of the rows.
    family: number of estimates that the widened intervals hold for together (Bonferroni).
  """
  largest = []
  for _, sizes in size.groupby([rows.classifier, rows.versus], sort=False):
    is_largest = np.isclose(sizes, sizes.max(), rtol=1e-12, atol=1e-12)
    tied = rows.loc[sizes.index[is_largest]]
    tied = tied[np.isclose(tied['value'], tied['value'].iloc[0], rtol=1e-12, atol=1e-12)]
    # Tied rows are one statement, which gets the widest of their intervals.
    widest = tied.loc[(tied.high - tied.low).fillna(0).idxmax()]
    joint = widen_for_family(widest, family, quantity)
    if joint is None:  # there is no interval, or it cannot be widened
      joint = pd.Series({**widest, 'low': math.nan, 'high': math.nan})
    largest.append(tied.assign(low=joint.low, high=joint.high, family=joint.family))
  return pd.concat(largest)


def headlines(tasks: Mapping[str, Results]) -> list[Selection]:
  """Selects the headlines: the values that reports and tables state first.

  They are values of the quantities that a study declares as headlines, then of the reference
  quantities to compare them with. If no headline was estimated, all quantities are taken. Without
  an overall value, each classifier's highest or lowest value over conditions is taken.

  Tasks follow each other, but single classes come last. A headline that repeats an earlier task,
  such as the error on clean images, is left out.

  Args:
    tasks: {task: its results}.
  """
  distinct: dict[tuple[str, str], Selection] = {}  # by the words and the estimates as text
  for task, results in tasks.items():
    table = without_uninformative(results.table)
    measured = {*table['quantity']}
    quantities = [q for q in results.quantities if q.headline and q.name in measured]
    references = {quantity.reference for quantity in quantities}
    quantities += [quantity for quantity in results.quantities if quantity.name in references]
    for quantity in dict.fromkeys(quantities or results.quantities):
      for selection in headlines_of_quantity(table, quantity, results.quantities, task):
        estimates = selection.reported_rows[[*_ESTIMATE, 'n']].to_csv(index=False)
        distinct.setdefault((selection.words, estimates), selection)
  return sorted(distinct.values(), key=lambda selection: selection.is_by_class)


def without_uninformative(table: pd.DataFrame) -> pd.DataFrame:
  """Returns the table of results without rows that say little about a classifier.

  If a classifier's estimate of a quantity over all conditions is degenerate or says little, as for
  a network at chance, all its rows of the quantity are left out. The notes `DEGENERATE` and
  `SAYS_LITTLE` mark such estimates.
  """
  is_over_all = table[facets_of(table)].isna().all(axis=1)
  says_little = table.note.str.contains(SAYS_LITTLE, regex=False) | notation.are_degenerate(table)
  keys = pd.MultiIndex.from_frame(table[['classifier', 'quantity']])  # the pair of each row
  return table[~keys.isin(keys[is_over_all & says_little])]


def headlines_of_quantity(
  table: pd.DataFrame, quantity: Quantity, quantities: Sequence[Quantity], task: str = ''
) -> list[Selection]:
  """Selects the overall values of a quantity, or else each classifier's highest or lowest value.

  A highest or lowest value is over the smallest set of grouping columns. If it is compared with a
  reference quantity, a selection with the reference's values follows. The result is [] if there is
  nothing to report.

  Args:
    table: estimates of one task (one of several studies in a run).
    quantity: the quantity.
    quantities: all quantities of the table, with the reference.
    task: name of the task.
  """
  if selections := overall_selections(table, quantity, task):
    return selections
  extreme = next(extreme_selections(table, quantity, quantities, task), None)
  if extreme is None:
    return []
  return [extreme, extreme.reference] if extreme.reference else [extreme]
