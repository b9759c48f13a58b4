"""The table of results: one row an estimate, a column for each facet of the study."""

import io
import pathlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from robustness.core.bounded_files import read_bounded
from robustness.core.errors import InputError
from robustness.core.limits import MAX_BYTES_OF_RESULTS, MAX_COUNT, MAX_LABEL_LENGTH

FILE_NAME = 'results.csv'
SUBJECT = ('classifier', 'versus', 'quantity')
"""The first columns. `versus` is the classifier that the estimate is a paired difference from, the
classifier's own value minus that one's; '' where it is no difference."""
ESTIMATE = ('value', 'low', 'high', 'n', 'clusters', 'method', 'confidence', 'family', 'p', 'note')
"""The last columns: fractions in full precision; `n` observations in `clusters` independent units;
`family` is how many estimates the interval holds for together."""
RESERVED = (*SUBJECT, *ESTIMATE, 'task', 'seed', 'marked')
"""Names that no facet of a study has: other columns, facets of what stands above several studies or
seeds, and what figures mark."""
OVER_SEEDS = 'student over seeds'
"""The method of intervals of means over several trainings."""
TEXT, NUMBER = 'text', 'number'
"""The types of facets."""
_NUMBERS = ('value', 'low', 'high', 'confidence', 'p')
_COUNTS = ('n', 'clusters', 'family')
_WORDS = ('classifier', 'versus', 'quantity', 'method', 'note')


def assemble(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
  """Joins parts of a table, columns `SUBJECT`, facets, `ESTIMATE`, to one in its canonical form.

  Columns of facets have the order in which parts name them, and are empty (missing) where an
  estimate is over all of a facet; text is strings, whole numbers nullable integers.

  Raises:
    InputError: a column is missing, two rows are the same estimate, a number is infinite, or a
      facet is ''.
  """
  facets = list(dict.fromkeys(name for part in parts for name in facets_of(part)))
  columns = [*SUBJECT, *facets, *ESTIMATE]
  for part in parts:
    missing = [name for name in (*SUBJECT, *ESTIMATE) if name not in part.columns]
    if missing:
      raise InputError(f'a part of the table lacks the columns {", ".join(missing)}.')
  if not parts:
    return canonical(pd.DataFrame(columns=columns))

  def values(part: pd.DataFrame, name: str) -> np.ndarray:
    """Returns a column of a part of the table, NaN if the part lacks it."""
    return part[name].to_numpy(object) if name in part else np.full(len(part), np.nan, object)

  joined = {name: np.concatenate([values(part, name) for part in parts]) for name in columns}
  table = canonical(pd.DataFrame(joined))
  _check(table, facets)
  return table


def canonical(table: pd.DataFrame) -> pd.DataFrame:
  """Returns a table with one type a column, whatever it was made of or read from."""
  typed = {}
  for name in table.columns:
    column = table[name]
    if name in _NUMBERS:
      typed[name] = column.astype('float64')
    elif name in _COUNTS:
      typed[name] = column.astype('Int64')
    elif name in _WORDS:
      typed[name] = column.astype(object).where(column.notna(), '').astype(str).astype('str')
    else:
      typed[name] = _facet(column)
  return pd.DataFrame(typed, columns=table.columns)


def facets_of(table: pd.DataFrame) -> list[str]:
  """Returns the names of the columns that are facets."""
  return [name for name in table.columns if name not in (*SUBJECT, *ESTIMATE)]


def _facet(column: pd.Series) -> pd.Series:
  """Returns a column of a facet as strings, or as integers or floats that may be missing."""
  present = column[column.notna()]
  if len(present) and isinstance(present.iloc[0], str):
    return column.astype('string')
  numbers = present.astype('float64')
  is_integer = bool((numbers == np.round(numbers)).all())
  return pd.to_numeric(column).astype('Float64').astype('Int64' if is_integer else 'Float64')


def _check(table: pd.DataFrame, facets: Sequence[str]) -> None:
  """Raises InputError for an infinite number, a facet that is '', or a repeated estimate."""
  for name in _NUMBERS:
    infinite = np.isinf(table[name].to_numpy())
    if infinite.any():
      quantity = table['quantity'][infinite].iloc[0]
      raise InputError(
        f'{name} of {quantity} is infinite in the table of results: give a statistic that is '
        'finite, or NaN where it does not exist.'
      )
  for name in facets:
    if (table[name].astype(object) == '').any():  # in results.csv '' means that it is missing
      raise InputError(f"the facet {name} is '' in the table of results: give a word, or None.")
  keys = [*SUBJECT, *facets, 'family']
  is_repeated = table.duplicated(keys)
  if is_repeated.any():
    row = table[is_repeated].iloc[0]
    words = ', '.join(f'{k}={row[k]}' for k in keys if not pd.isna(row[k]) and row[k] != '')
    raise InputError(f'the table of results has two rows of one estimate: {words}.')


def with_facet(table: pd.DataFrame, name: str, value: object) -> pd.DataFrame:
  """Returns a table with a first facet `name`, which has the same value in all rows."""
  wider = table.copy()
  wider.insert(len(SUBJECT), name, value)
  return wider


def without_facet(table: pd.DataFrame, name: str, value: object = None) -> pd.DataFrame:
  """Returns the estimates with a value of a facet; None selects those over all of its values.

  The column of the facet is left out, and so are facets that none of these estimates has.
  """
  if name not in table.columns:
    return table if value is None else table[:0]
  selected = table[table[name].isna() if value is None else (table[name] == value).fillna(False)]
  is_empty = selected.isna().all()
  return selected.drop(columns=[k for k in facets_of(selected) if k == name or is_empty[k]])


def named_values(table: pd.DataFrame, start: str) -> dict[str, float]:
  """Returns {name: value} of the estimates by at most one facet except `task` and `seed`, for logs.

  Names are such as 'results/gaussian minus natural/error/corruption=fog'.
  """
  facets = facets_of(table)
  conditions = [name for name in facets if name not in ('task', 'seed')]
  values = {}
  for row in table[table[conditions].notna().sum(axis=1) <= 1].to_dict('records'):
    label = f'{row["classifier"]} minus {row["versus"]}' if row['versus'] else row['classifier']
    words = [f'{name}={row[name]}' for name in facets if not pd.isna(row[name])]
    values['/'.join([start, label, row['quantity'], *words])] = row['value']
  return values


def to_csv(table: pd.DataFrame) -> bytes:
  """Returns a table as UTF-8 CSV: the same bytes for the same table; missing values are empty."""
  return str(table.to_csv(index=False, lineterminator='\n')).encode()


def facet_types(table: pd.DataFrame) -> dict[str, str]:
  """Returns {facet: 'text' or 'number'}, which CSV cannot say of a name such as '007'."""
  return {
    name: TEXT if pd.api.types.is_string_dtype(table[name].dtype) else NUMBER
    for name in facets_of(table)
  }


def from_csv(path: pathlib.Path, types: Mapping[str, str]) -> pd.DataFrame:
  """Reads what `to_csv` wrote, with the types of facets that `facet_types` gave.

  Raises:
    InputError: the file is missing, truncated, or lacks columns.
  """
  try:
    content = read_bounded(path, MAX_BYTES_OF_RESULTS).decode()
    table = pd.read_csv(
      io.StringIO(content, newline=''), dtype=str, keep_default_na=False, lineterminator='\n'
    )
    lacking = [name for name in (*SUBJECT, *types, *ESTIMATE) if name not in table.columns]
    if lacking or not content.endswith('\n'):
      raise ValueError(f'it lacks {", ".join(lacking) or "its last line"}')
    if unknown := [name for name in table.columns if name not in (*SUBJECT, *types, *ESTIMATE)]:
      raise ValueError(f'it has the column {unknown[0]!r:.60}, which results.json does not declare')
    numbers = [name for name in table.columns if name not in _WORDS and types.get(name) != TEXT]
    for name in numbers:
      table[name] = [float(value) if value else None for value in table[name]]
    for name in types:
      table[name] = table[name].where(table[name] != '', None)
    table = canonical(table)
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
"""The smallest and largest valid value of columns that do not depend on the quantity."""


def _check_values(table: pd.DataFrame) -> None:
  """Raises ValueError for impossible numbers, such as n < 0, and for words that are too long."""
  for name, (low, high) in _VALID.items():
    bad = table[name][((table[name] < low) | (table[name] > high)).fillna(False).astype(bool)]
    if len(bad):
      raise ValueError(f'{name} is {bad.iloc[0]:g}, outside [{low:g}, {high:g}]')
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
  """Returns the estimates of a quantity with exactly the facets that are named.

  Args:
    table: table of results.
    quantity: name of the quantity.
    versus: '' selects values of classifiers, a label the differences from that classifier, and
      None all of these.
    **facets: {facet: value}; `...` is any value. Facets that are not named are missing in the rows
      returned: `select(table, 'error', corruption='fog')` is the mean over severities.
  """
  is_selected = table.quantity == quantity
  if versus is not None:
    is_selected &= table.versus == versus
  for name in facets_of(table):
    value = facets.pop(name, None)
    if value is None:
      is_selected &= table[name].isna()
    elif value is ...:
      is_selected &= table[name].notna()
    else:
      is_selected &= (table[name] == value).fillna(False).astype(bool)
  return table[is_selected] if not facets else table[:0]


def by_facets(table: pd.DataFrame) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
  """Yields (names of facets, rows) for the rows in which exactly these facets have values."""
  names = facets_of(table)
  has_value = table[names].notna().to_numpy()
  for pattern in dict.fromkeys(map(tuple, has_value.tolist())):
    is_in_group = (has_value == np.array(pattern, bool)).all(1)
    facets = tuple(name for name, is_present in zip(names, pattern, strict=True) if is_present)
    yield facets, table[is_in_group]


def without_repeats(table: pd.DataFrame) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
  """Yields `by_facets` of a quantity, except groups that repeat the values of one by fewer facets.

  Where there is one severity, the errors by corruption and severity repeat the errors by
  corruption.
  """
  groups = list(by_facets(table))
  keys = []
  min_num_facets: dict[tuple[object, ...], int] = {}
  for facets, rows in groups:
    varying = [name for name in facets if rows[name].nunique() > 1]
    texts = rows[['classifier', 'versus', *varying]].astype(str)
    texts['value'] = rows['value'].map('{:.9g}'.format)
    key = (*varying, frozenset(texts.itertuples(index=False, name=None)))
    min_num_facets[key] = min(len(facets), min_num_facets.get(key, len(facets)))
    keys.append(key)
  for key, (facets, rows) in zip(keys, groups, strict=True):
    if len(facets) == min_num_facets[key]:
      yield facets, rows
