"""Measured values next to the published tables 1 and 3, or 4, of Yin et al. (2019).

The measured values come from the task with the study `corruption_error`. Changes of the error and
mCE are relative to the first classifier, which in the paper is the naturally trained one.
Classifiers are matched to the paper's by label: natural, gaussian, adversarial, low_pass,
high_pass, auto_augment and fog_noise. Published values are rows of the table of results, converted
from accuracies to errors, with the facet `source`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from robustness.estimates.means import Estimate, Row, estimate_row, table_of_rows
from robustness.estimates.published import TABLE_1, TABLE_3, TABLE_4, PublishedTable
from robustness.estimates.table import assemble, facets_of, select
from robustness.present import charts
from robustness.present.forms import NamedPoints, named_points
from robustness.present.notation import Notation, place_words
from robustness.results import Findings, Results, Table

TITLE = 'Tables and figures of Yin et al. (2019)'
STUDY, PUBLISHED, NATURAL = 'corruption_error', 'published', 'natural'
"""The study with the measured values, the value of the facet `source`, and the first classifier's
label in the paper.
"""


def published_table(results: Results) -> tuple[PublishedTable, str]:
  """Returns (table 4 of Yin et al., 'fourier_imagenet') if its corruption set was measured.

  Else the result is (table 3, 'fourier_cifar').
  """
  is_imagenet = (results.table['corruption_set'] == 'fourier_imagenet').any()
  return (TABLE_4, 'fourier_imagenet') if is_imagenet else (TABLE_3, 'fourier_cifar')


def summarise(tasks: Mapping[str, Results]) -> Findings:
  """Returns Yin et al.'s published values as rows of the table of results, and tables of them.

  The tables of the paper (by its name, and 'table 1' for values by severity) have measured next to
  published values. The table 'agreement' lists for each classifier the corruptions under which the
  measured and the published change of the error have the same sign.

  Args:
    tasks: results by task.
  """
  results = _errors(tasks)
  if results is None:
    return Findings()
  rows = published(results)
  is_by_severity = rows.get('severity', pd.Series(np.nan, rows.index)).notna()  # only in table 1
  table, _ = published_table(results)
  tables = {table.name: _comparison(results, rows[~is_by_severity])}
  if is_by_severity.any():
    tables['table 1'] = _comparison(results, rows[is_by_severity])
  tables['agreement'] = _agreement(changes(results))
  return Findings(tables=tables, estimates=[rows])


def draw(tasks: Mapping[str, Results]) -> dict[str, charts.Picture]:
  """Returns {'agreement': (figure, caption)}, or {} if no published value can be compared.

  The figure has a scatter plot for each classifier and a point for each corruption: the published
  change of the error is on the horizontal axis, the measured change on the vertical axis.
  """
  results = _errors(tasks)
  if results is None:
    return {}
  rows = changes(results)
  if rows.empty:
    return {}
  panels = []
  for label, group in rows.groupby('classifier', sort=False):
    measured = group.set_index('corruption')
    printed = measured.assign(value=measured.printed, low=np.nan, high=np.nan)
    panels.append(NamedPoints((str(label),), x=printed, y=measured))
  table, _ = published_table(results)
  caption = (
    f'Error minus that of {results.labels[0]} under each corruption, on {rows.n.max():,} images '
    f'with paired intervals, against the same in {table.name} of Yin et al. (2019).'
  )
  x, y = 'published change of error (points)', 'measured change (points)'
  return {'agreement': (named_points(panels, x, y), caption)}


def published(results: Results) -> pd.DataFrame:
  """Returns the published values of the measured classifiers as rows of the table of results.

  For each classifier they are the clean error, the error under each corruption, the mean error over
  corruptions, mCE, and each error under a corruption minus the first classifier's.
  """
  table, corruption_set = published_table(results)
  first = results.labels[0]
  declared = {quantity.name: quantity for quantity in results.quantities}
  # Published mCE is relative to the naturally trained network.
  is_relative_to_natural = first == NATURAL and results.settings.get('baseline') == 'first'
  # Table 1 has accuracies under fog by severity, for networks of table 3.
  under_fog = TABLE_1 if table is TABLE_3 and 'fog_noise' in results.labels else {}

  def published_row(label: str, name: str, value: float, versus: str = '', **facets: Any) -> Row:
    """Returns a published value of the quantity `name` as a row of the table of results.

    Args:
      label: label of the classifier.
      name: name of the quantity, such as 'error'.
      value: the value as a fraction; the paper prints four decimals at most.
      versus: '' for a value of the classifier; for a difference, the label of the classifier that
        is subtracted.
      **facets: facets of the value, such as corruption='fog'.
    """
    printed = Estimate.without_interval(round(value, 4), n=table.images)
    all_facets = {**facets, 'source': PUBLISHED}
    return estimate_row(label, versus, declared[name], all_facets, printed, confidence=np.nan)

  def rows() -> Iterator[Row]:
    """Yields rows of the table of results, with published values."""
    for label in results.labels:
      for severity, accuracy in enumerate(under_fog.get(label, ()), 1):
        yield published_row(label, 'error', 1 - accuracy, corruption='fog', severity=severity)
      if label not in table.clean:
        continue
      yield published_row(label, 'clean_error', 1 - table.clean[label])
      for name, accuracy in table.corrupted[label].items():
        yield published_row(label, 'error', 1 - accuracy, corruption=name)
        if label != first and first in table.corrupted:
          change = table.corrupted[first][name] - accuracy
          yield published_row(label, 'error', change, versus=first, corruption=name)
      mean_error = 1 - table.average[label]
      yield published_row(label, 'error', mean_error, corruption_set=corruption_set)
      if label in table.mce and is_relative_to_natural:
        yield published_row(label, 'mCE', table.mce[label], corruption_set=corruption_set)

  return assemble([table_of_rows(list(rows()))])


def changes(results: Results) -> pd.DataFrame:
  """Returns the differences of errors, by corruption, that are both measured and published.

  They are rows of the table of results: the measured error of a classifier under a corruption minus
  the first classifier's error. The column `printed` has the published difference.
  """
  first, keys = results.labels[0], ['classifier', 'corruption']
  measured = select(results.table, 'error', first, corruption=...)  # `...`: under any corruption
  printed = select(published(results), 'error', first, corruption=..., source=PUBLISHED)
  return measured.merge(printed[[*keys, 'value']].rename(columns={'value': 'printed'}), on=keys)


def _errors(tasks: Mapping[str, Results]) -> Results | None:
  """Returns the results of the first task with the study `STUDY`; None if there is none.

  Its estimates are errors by corruption. `tasks` is {task: its results}.
  """
  return next((results for results in tasks.values() if results.study == STUDY), None)


def _comparison(results: Results, printed: pd.DataFrame) -> Table:
  """Returns a table of the estimates that are both measured and published, a row each.

  The columns are what is estimated, such as 'error under fog (%)', and for each classifier the
  measured value and the published value. `printed` has the published values, as rows of the table
  of results.
  """
  facets = [name for name in facets_of(printed) if name != 'source']
  quantities, rows = {q.name: q for q in results.quantities}, []
  groups = printed[printed.versus == ''].groupby(['quantity', *facets], sort=False, dropna=False)
  for (name, *values), group in groups:  # the published values of all classifiers in a condition
    condition = {k: value for k, value in zip(facets, values, strict=True) if not pd.isna(value)}
    measured = select(results.table, name, **condition).set_index('classifier')
    if measured.empty:
      continue
    quantity, published_values = quantities[name], group.set_index('classifier').value
    notation = Notation(quantity)
    head = f'{quantity.words} {place_words(quantity, [*condition], [*condition.values()])}'.rstrip()
    texts = [f'{head} ({notation.unit})' if notation.unit else head]
    for label in results.labels:  # the measured value, then the published value; '' if missing
      value = published_values.get(label, np.nan)
      texts.append(notation.bare(measured.loc[label]) if label in measured.index else '')
      texts.append('' if np.isnan(value) else notation.number(value, 2 if notation.unit else 4))
    rows.append(texts)
  heads = ['']
  for label in results.labels:
    heads += [label, f'{label}, {PUBLISHED}']
  return Table(heads, rows)


def _agreement(rows: pd.DataFrame) -> Table:
  """Returns a table with a row per classifier, which lists corruptions by agreement with the paper.

  One column has the corruptions for which the measured and the published change of the error have
  the same sign, one those with opposite signs, and one those for which the interval of the measured
  change includes 0. `rows` are the rows that `changes` returns.
  """
  lines = []
  for label, group in rows.groupby('classifier', sort=False):
    has_sign = (group.low > 0) | (group.high < 0)
    agrees = (group.value > 0) == (group.printed > 0)
    columns = has_sign & agrees, has_sign & ~agrees, ~has_sign
    lines.append([label, *(', '.join(group.corruption[column]) or 'none' for column in columns)])
  return Table(('classifier', 'same sign as published', 'opposite sign', 'no sign shown'), lines)
