"""The table of results: a row per estimate, with a column for each facet of the study.

A facet is a column that estimates are grouped by, such as `corruption`. In the row of the error
under fog, `corruption` is 'fog'; in the row of the mean over all corruptions it is missing.
"""

import io
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from robustness.core.bounded_files import read_bounded
from robustness.core.errors import InputError
from robustness.core.limits import MAX_BYTES_OF_RESULTS, MAX_COUNT, MAX_LABEL_LENGTH

FILE_NAME = 'results.csv'
SUBJECT = ('classifier', 'versus', 'quantity')
"""The first columns, which say what is estimated. `versus` is '' for a value of a classifier; for a
paired difference it is the classifier that is subtracted.
"""
ESTIMATE = ('value', 'low', 'high', 'n', 'clusters', 'method', 'confidence', 'family', 'p', 'note')
"""The last columns. Shares are fractions in full precision. `n` is the number of observations,
which are in `clusters` independent groups, such as videos. `family` is the number of estimates for
which the intervals hold together, 1 for a single one. `p` is the p-value of the test that a
difference is 0.
"""
RESERVED = (*SUBJECT, *ESTIMATE, 'task', 'seed', 'marked')
"""Names that no facet of a study may have: `SUBJECT` and `ESTIMATE`, the facets `task` and `seed`,
which are added for several tasks or seeds, and `marked`, the column that figures add for
significant differences.
"""
OVER_SEEDS = 'student over seeds'
"""The method of intervals of means over several trainings, which differ in their seeds."""
TEXT, NUMBER = 'text', 'number'
"""The types of facets in `facet_types`."""
_NUMBERS = ('value', 'low', 'high', 'confidence', 'p')
"""Columns of type float64."""
_COUNTS = ('n', 'clusters', 'family')
"""Columns of type Int64, in which values may be missing."""
_WORDS = ('classifier', 'versus', 'quantity', 'method', 'note')
"""Columns of type str, in which missing values are ''."""


def assemble(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
  """Joins tables of estimates into one table, with equal columns in all rows.

  The columns are `SUBJECT` (classifier, versus, quantity), facets such as `corruption`, and
  `ESTIMATE` (value, low, high, n and so on). A facet that one of the tables lacks is missing in its
  rows. Facets are in the order in which they first occur.

  Args:
    parts: the tables.

  Raises:
    InputError: a table lacks a column, two rows are the same estimate, a number is infinite, or a
      facet is ''.
  """
  facets = list(dict.fromkeys(name for part in parts for name in facets_of(part)))
  columns = [*SUBJECT, *facets, *ESTIMATE]
  for part in parts:
    missing = [name for name in (*SUBJECT, *ESTIMATE) if name not in part.columns]
    if missing:
      raise InputError(f'a part of the table lacks the columns {", ".join(missing)}.')
  # Objects, because a facet may have words in one table and numbers in another. The first, empty
  # table decides the order of the columns.
  empty = pd.DataFrame(columns=columns, dtype=object)
  joined = pd.concat([empty, *(part.astype(object) for part in parts)], ignore_index=True)
  table = with_column_types(joined)
  _check(table, facets)
  return table


def with_column_types(table: pd.DataFrame) -> pd.DataFrame:
  """Returns a table of results with a fixed type for each column.

  Equal tables then compare as equal. Numbers are float64, counts Int64 and texts str. A facet (a
  column such as `corruption`) has strings, integers or floats, and its values may be missing.
  """
  typed = {}
  for name in table.columns:
    column = table[name]
    if name in _NUMBERS:
      typed[name] = column.astype('float64')
    elif name in _COUNTS:
      typed[name] = column.astype('Int64')
    elif name in _WORDS:
      texts = column.astype(object).where(column.notna(), '')
      typed[name] = texts.astype(str).astype('str')  # 'str' is pandas' type of text
    else:  # a facet
      typed[name] = _typed_facet(column)
  return pd.DataFrame(typed, columns=table.columns)


def facets_of(table: pd.DataFrame) -> list[str]:
  """Returns the names of the facets: all columns except `SUBJECT` and `ESTIMATE`."""
  return [name for name in table.columns if name not in (*SUBJECT, *ESTIMATE)]


def _typed_facet(column: pd.Series) -> pd.Series:
  """Returns the column of a facet as strings, integers or floats, with missing values.

  Numbers become integers if all numbers in the column are whole.
  """
  present = column[column.notna()]
  if len(present) and isinstance(present.iloc[0], str):
    return column.astype('string')
  numbers = present.astype('float64')
  is_integer = bool((numbers == np.round(numbers)).all())
  return pd.to_numeric(column).astype('Float64').astype('Int64' if is_integer else 'Float64')


def _check(table: pd.DataFrame, facets: Sequence[str]) -> None:
  """Raises InputError if numbers are infinite, a facet is '', or an estimate occurs twice.

  Args:
    table: table of results.
    facets: names of the facets, columns such as 'corruption'.
  """
  for name in _NUMBERS:
    infinite = np.isinf(table[name].to_numpy())
    if infinite.any():
      quantity = table['quantity'][infinite].iloc[0]
      raise InputError(
        f'{name} of {quantity} is infinite in the table of results: give a statistic that is '
        'finite, or NaN where it does not exist.'
      )
  for name in facets:
    if (table[name].astype(object) == '').any():  # in results.csv '' is a missing value
      raise InputError(f"the facet {name} is '' in the table of results: give a word, or None.")
  keys = [*SUBJECT, *facets, 'family']
  is_repeated = table.duplicated(keys)
  if is_repeated.any():
    row = table[is_repeated].iloc[0]
    values = row[keys].dropna().items()
    subject = ', '.join(f'{key}={value}' for key, value in values if value != '')
    raise InputError(f'the table of results has two rows of one estimate: {subject}.')


def with_facet(table: pd.DataFrame, name: str, value: object) -> pd.DataFrame:
  """Returns a table of results with a further column that has the same value in all rows.

  The column is a facet, such as `task`, and comes before the other facets.
  """
  wider = table.copy()
  wider.insert(len(SUBJECT), name, value)  # after classifier, versus and quantity
  return wider


def without_facet(table: pd.DataFrame, name: str, value: object = None) -> pd.DataFrame:
  """Selects the estimates at one value of a facet, and removes the column of this facet.

  A facet is a column such as `corruption`. Other facets without a value in the selected rows are
  removed too. A table that lacks the facet has only estimates over all its values. It is returned
  unchanged if `value` is None, and without rows otherwise.

  Args:
    table: table of results.
    name: the facet.
    value: the value that is selected; None selects the estimates over all values of the facet.
  """
  if name not in table.columns:
    return table if value is None else table[:0]
  is_selected = table[name].isna() if value is None else (table[name] == value).fillna(False)
  selected = table[is_selected]
  is_empty = selected.isna().all()
  return selected.drop(columns=[k for k in facets_of(selected) if k == name or is_empty[k]])


def named_values(table: pd.DataFrame, start: str) -> dict[str, float]:
  """Returns {name: value} for logs, from a table of results.

  For example, 'results/gaussian minus natural/error/corruption=fog' is the error of the classifier
  'gaussian' under fog minus the error of 'natural'. Estimates by two or more facets, such as
  corruption and severity, are left out. The facets `task` and `seed` do not count here, and are
  part of the name.

  Args:
    table: table of results.
    start: first part of every name, 'results' in the example.
  """
  facets = facets_of(table)
  conditions = [name for name in facets if name not in ('task', 'seed')]
  num_conditions = table[conditions].notna().sum(axis=1)
  values = {}
  for row in table[num_conditions <= 1].to_dict('records'):
    label = f'{row["classifier"]} minus {row["versus"]}' if row['versus'] else row['classifier']
    parts = [f'{name}={row[name]}' for name in facets if not pd.isna(row[name])]
    values['/'.join([start, label, row['quantity'], *parts])] = row['value']
  return values


def to_csv(table: pd.DataFrame) -> bytes:
  """Returns a table as CSV in UTF-8, in which missing values are empty.

  Equal tables have equal bytes.
  """
  return str(table.to_csv(index=False, lineterminator='\n')).encode()


def facet_types(table: pd.DataFrame) -> dict[str, str]:
  """Returns whether each facet holds text or numbers, {facet: 'text' or 'number'}.

  CSV does not record whether a value such as 007 is text.
  """
  is_text = pd.api.types.is_string_dtype
  return {name: TEXT if is_text(table[name].dtype) else NUMBER for name in facets_of(table)}


def from_csv(path: pathlib.Path, types: Mapping[str, str]) -> pd.DataFrame:
  """Reads a table of results that `to_csv` wrote to a file.

  Args:
    path: the file.
    types: the types of the facets from `facet_types`.

  Raises:
    InputError: the file is missing, truncated or too large, lacks a column, has a column that is
      not in `types`, or has an impossible value.
  """
  try:
    content = read_bounded(path, MAX_BYTES_OF_RESULTS).decode()
    if content.partition('\n')[0].endswith('\r'):  # Git on Windows ends lines so
      content = content.replace('\r\n', '\n')
    # All values are read as text, because pandas would guess types, and read 'nan' as missing.
    file = io.StringIO(content, newline='')
    table = pd.read_csv(file, dtype=str, keep_default_na=False, lineterminator='\n')
    expected = (*SUBJECT, *types, *ESTIMATE)
    if lacking := [name for name in expected if name not in table.columns]:
      raise ValueError(f'it lacks {", ".join(lacking)}')
    if not content.endswith('\n'):
      raise ValueError('it lacks its last line')
    if unknown := [name for name in table.columns if name not in expected]:
      raise ValueError(f'it has the column {unknown[0]!r:.60}, which results.json does not declare')
    for name in table.columns:
      if name not in _WORDS and types.get(name) != TEXT:  # a column of numbers
        table[name] = [float(value) if value else None for value in table[name]]
    for name in types:  # in a facet '' is a missing value
      table[name] = table[name].where(table[name] != '', None)
    table = with_column_types(table)
    _check_values(table)
    return table
  except (OSError, ValueError, TypeError) as error:
    raise InputError(
      f'{path} cannot be read as a table of results ({error}). Run the same command again: it is '
      'made again from the records.'
    ) from error


_VALID: Mapping[str, tuple[float, float]] = {
  'n': (0, MAX_COUNT),
  'clusters': (0, MAX_COUNT),
  'family': (1, MAX_COUNT),
  'confidence': (0, 1),
  'p': (0, 1),
}
"""{column: (smallest, largest valid value)}, for columns with one range for all quantities."""


def _check_values(table: pd.DataFrame) -> None:
  """Raises ValueError if a table of results has an impossible value.

  Such a value is a number outside the range of its column in `_VALID`, an interval with low > high,
  or text that is too long.
  """
  for name, (low, high) in _VALID.items():
    is_outside = ((table[name] < low) | (table[name] > high)).fillna(False).astype(bool)
    if is_outside.any():
      value = table[name][is_outside].iloc[0]
      raise ValueError(f'{name} is {value:g}, outside [{low:g}, {high:g}]')
  crossed = table[table.low > table.high]
  if len(crossed):
    raise ValueError(f'low is {crossed.low.iloc[0]:g}, above high, {crossed.high.iloc[0]:g}')
  for name in ('classifier', 'versus', 'quantity', *facets_of(table)):
    for value in dict.fromkeys(table[name].dropna()):
      if isinstance(value, str) and len(value) > MAX_LABEL_LENGTH:
        raise ValueError(f'{name} is {value!r:.40}..., longer than {MAX_LABEL_LENGTH} characters')


def select(
  table: pd.DataFrame, quantity: str, versus: str | None = '', **facets: object
) -> pd.DataFrame:
  """Returns the estimates of a quantity that are grouped by the given facets and by no others.

  For example, `select(table, 'error', corruption='fog')` returns the error under fog over all
  severities, but not the errors at single severities, which also have a value in the column (facet)
  `severity`. The result has no rows if the table lacks a given facet.

  Args:
    table: table of results.
    quantity: name of the quantity.
    versus: '' selects values of classifiers; a label selects the paired differences from the
      classifier with this label; None selects values and all differences.
    **facets: {facet: value}. The value `...` (Ellipsis) selects all rows with a value of the facet.
  """
  is_selected = table.quantity == quantity
  if versus is not None:
    is_selected &= table.versus == versus
  for name in facets_of(table):
    value = facets.pop(name, None)
    if value is None:
      is_selected &= table[name].isna()
    elif value is Ellipsis:  # any value of this facet
      is_selected &= table[name].notna()
    else:
      is_selected &= (table[name] == value).fillna(False).astype(bool)
  lacks_facet = bool(facets)  # facets of the table have been removed above
  return table[:0] if lacks_facet else table[is_selected]


def select_by(
  table: pd.DataFrame, quantity: str, facets: Iterable[str], versus: str | None = ''
) -> pd.DataFrame:
  """Returns the estimates of a quantity by exactly the given facets, with all their values.

  Args:
    table: table of results.
    quantity: name of the quantity.
    facets: names of the facets, such as ('corruption', 'severity').
    versus: '' selects values, None values and differences; see `select`.
  """
  return select(table, quantity, versus, **dict.fromkeys(facets, ...))


def by_facets(table: pd.DataFrame) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
  """Groups the rows of a table of results by the facets in which they have a value.

  For example, errors by corruption are one group, and errors by corruption and severity another.

  Yields:
    (names of the facets, rows) of each group, in the order of the first rows.
  """
  names = facets_of(table)
  has_value = table[names].notna().to_numpy()  # [rows, facets]
  for pattern in dict.fromkeys(map(tuple, has_value.tolist())):  # distinct, in their order
    is_in_group = (has_value == np.array(pattern, bool)).all(1)
    facets = tuple(name for name, is_present in zip(names, pattern, strict=True) if is_present)
    yield facets, table[is_in_group]


def without_repeats(table: pd.DataFrame) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
  """Yields the groups of `by_facets`, without groups that repeat a group with fewer facets.

  With a single severity, for example, the errors by corruption and severity repeat the errors by
  corruption.

  Args:
    table: estimates of one quantity.

  Yields:
    (names of the facets, rows) of each group.
  """
  groups = list(by_facets(table))
  contents = [_content(facets, rows) for facets, rows in groups]
  # {content: smallest number of facets among the groups with this content}
  fewest_facets: dict[tuple[object, ...], int] = {}
  for (facets, _), content in zip(groups, contents, strict=True):
    fewest_facets[content] = min(len(facets), fewest_facets.get(content, len(facets)))
  for (facets, rows), content in zip(groups, contents, strict=True):
    if len(facets) == fewest_facets[content]:
      yield facets, rows


def _content(facets: Sequence[str], rows: pd.DataFrame) -> tuple[object, ...]:
  """Returns a key that is equal for two groups of estimates if one repeats the other.

  It has the facets with several values in the group, and the set of all estimates by these facets.

  Args:
    facets: names of the facets of a group from `by_facets`.
    rows: the estimates of the group.
  """
  varying = [name for name in facets if rows[name].nunique() > 1]
  texts = rows[['classifier', 'versus', *varying]].astype(str)
  texts['value'] = rows['value'].map('{:.9g}'.format)
  return (*varying, frozenset(texts.itertuples(index=False, name=None)))
