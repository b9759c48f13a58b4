"""Measured values next to the published tables 1 and 3, or 4, of Yin et al. (2019).

The measured values come from the task with the study `corruption_error`. Changes of the error and
mCE are relative to the first classifier, which in the paper is the naturally trained one.
Classifiers are matched to the paper's by label: natural, gaussian, adversarial, low_pass,
high_pass, auto_augment and fog_noise. Published values are rows of the table of results, converted
from accuracies to errors, with the facet `source`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from robustness.estimates.means import Estimate, Row, estimate_row, table_of_rows
from robustness.estimates.published import TABLE_1, TABLE_3, TABLE_4, PublishedTable
from robustness.estimates.table import assemble, facets_of, select
from robustness.present import charts
from robustness.present.forms import NamedPoints, named_points
from robustness.present.notation import Notation, condition_words
from robustness.results import Findings, Results, Table

TITLE = 'Tables and figures of Yin et al. (2019)'
STUDY, PUBLISHED, NATURAL = 'corruption_error', 'published', 'natural'
"""The study with the measured values, the value of the facet `source`, and the first classifier's
label in the paper.
"""


def published_table(results: Results) -> tuple[PublishedTable, str]:
  """Returns the table of Yin et al. with the same corruptions as the results.

  Returns:
    (table 4, 'fourier_imagenet') if this corruption set was measured, else (table 3,
    'fourier_cifar').
  """
  is_imagenet = (results.table['corruption_set'] == 'fourier_imagenet').any()
  return (TABLE_4, 'fourier_imagenet') if is_imagenet else (TABLE_3, 'fourier_cifar')


def summarise(tasks: Mapping[str, Results]) -> Findings:
  """Compares measured values with the tables of Yin et al. (2019).

  Args:
    tasks: {task: its results}.

  Returns:
    Published values as rows of the table of results, and tables. Tables 3 or 4, and 1 for
    severities, have measured next to published values. The table 'agreement' lists the corruptions
    under which the measured and the published change of the error have the same sign.
  """
  results = _errors(tasks)
  if results is None:
    return Findings()
  rows = published(results)
  # True for values of table 1; without such values there is no column `severity`
  is_by_severity = rows.get('severity', pd.Series(np.nan, rows.index)).notna()
  table, _ = published_table(results)
  tables = {table.name: _comparison(results, rows[~is_by_severity])}
  if is_by_severity.any():
    tables['table 1'] = _comparison(results, rows[is_by_severity])
  tables['agreement'] = _agreement(changes(results))
  return Findings(tables=tables, estimates=[rows])


def draw(tasks: Mapping[str, Results]) -> dict[str, charts.Picture]:
  """Draws measured against published changes of the error, with a plot for each classifier.

  A change is relative to the first classifier. Each point is a corruption.

  Args:
    tasks: {task: its results}.

  Returns:
    {'agreement': (figure, caption)}, or {} if no published value can be compared.
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
    as_published = measured.assign(value=measured.published, low=np.nan, high=np.nan)
    panels.append(NamedPoints((str(label),), x=as_published, y=measured))
  table, _ = published_table(results)
  caption = (
    f'Error minus that of {results.labels[0]} under each corruption, on {rows.n.max():,} images '
    f'with paired intervals, against the same in {table.name} of Yin et al. (2019).'
  )
  x, y = 'published change of error (points)', 'measured change (points)'
  return {'agreement': (named_points(panels, x, y), caption)}


def published(results: Results) -> pd.DataFrame:
  """Returns the values that Yin et al. published for the measured classifiers.

  They are the clean error, the error under each corruption, the mean error, mCE, and each error
  minus the first classifier's error.

  Returns:
    Rows of the table of results.
  """
  table, corruption_set = published_table(results)
  first = results.labels[0]
  quantities = {quantity.name: quantity for quantity in results.quantities}
  # Published mCE is relative to the naturally trained network.
  is_relative_to_natural = first == NATURAL and results.settings.get('baseline') == 'first'
  # Table 1 has accuracies of 'natural' and 'fog_noise' under fog by severity. They are shown if
  # 'fog_noise', which is not in table 3, is measured next to networks of table 3.
  is_measured = table is TABLE_3 and 'fog_noise' in results.labels
  under_fog = TABLE_1 if is_measured else {}
  rows: list[Row] = []

  def add(label: str, name: str, value: float, versus: str = '', **facets: Any) -> None:
    """Adds a published value to `rows`.

    Args:
      label: label of the classifier.
      name: name of the quantity, such as 'error'.
      value: the value as a fraction. The paper prints at most four decimals.
      versus: for a difference, the label of the classifier that is subtracted; else ''.
      **facets: grouping columns of the value, such as corruption='fog'.
    """
    estimate = Estimate.without_interval(round(value, 4), n=table.images)
    facets = {**facets, 'source': PUBLISHED}
    rows.append(estimate_row(label, versus, quantities[name], facets, estimate, confidence=np.nan))

  for label in results.labels:
    for severity, accuracy in enumerate(under_fog.get(label, ()), 1):
      add(label, 'error', 1 - accuracy, corruption='fog', severity=severity)
    if label not in table.clean:
      continue
    add(label, 'clean_error', 1 - table.clean[label])
    for name, accuracy in table.corrupted[label].items():
      add(label, 'error', 1 - accuracy, corruption=name)
      if label != first and first in table.corrupted:
        change = table.corrupted[first][name] - accuracy
        add(label, 'error', change, versus=first, corruption=name)
    add(label, 'error', 1 - table.average[label], corruption_set=corruption_set)
    if label in table.mce and is_relative_to_natural:
      add(label, 'mCE', table.mce[label], corruption_set=corruption_set)
  return assemble([table_of_rows(rows)])


def changes(results: Results) -> pd.DataFrame:
  """Returns measured and published changes of the error under each corruption.

  A change is a classifier's error minus the first classifier's error.

  Returns:
    Rows of the table of results with the measured change, and the published change in the
    additional column `published`.
  """
  first, keys = results.labels[0], ['classifier', 'corruption']
  measured = select(results.table, 'error', first, corruption=...)  # `...`: under any corruption
  paper = select(published(results), 'error', first, corruption=..., source=PUBLISHED)
  return measured.merge(paper[[*keys, 'value']].rename(columns={'value': 'published'}), on=keys)


def _errors(tasks: Mapping[str, Results]) -> Results | None:
  """Returns the results of the first task with the study `STUDY`; None without such a task.

  Args:
    tasks: {task: its results}.
  """
  return next((results for results in tasks.values() if results.study == STUDY), None)


def _comparison(results: Results, published_rows: pd.DataFrame) -> Table:
  """Returns a table of measured next to published values.

  Each row is a quantity under a condition, such as 'error under fog (%)'. Each classifier has a
  column of measured and a column of published values.

  Args:
    results: the measured values.
    published_rows: the published values, as rows of the table of results.
  """
  facets = [name for name in facets_of(published_rows) if name != 'source']
  quantities = {quantity.name: quantity for quantity in results.quantities}
  lines = []
  values = published_rows[published_rows.versus == '']
  groups = values.groupby(['quantity', *facets], sort=False, dropna=False)
  for (name, *facet_values), group in groups:  # a group has a row for each classifier
    # columns that do not group this quantity are NaN
    pairs = zip(facets, facet_values, strict=True)
    condition = {facet: value for facet, value in pairs if not pd.isna(value)}
    measured = select(results.table, name, **condition).set_index('classifier')
    if measured.empty:
      continue
    quantity, published_values = quantities[name], group.set_index('classifier').value
    notation = Notation(quantity)
    condition_text = condition_words(quantity, [*condition], [*condition.values()])
    head = f'{quantity.words} {condition_text}'.rstrip()
    cells = [f'{head} ({notation.unit})' if notation.unit else head]
    digits = 2 if notation.unit else 4  # as in the paper, in percent and as fraction
    for label in results.labels:
      measured_text = notation.bare(measured.loc[label]) if label in measured.index else ''
      value = published_values.get(label, np.nan)
      published_text = '' if np.isnan(value) else notation.number(value, digits)
      cells += [measured_text, published_text]
    lines.append(cells)
  heads = ['']
  for label in results.labels:
    heads += [label, f'{label}, {PUBLISHED}']
  return Table(heads, lines)


def _agreement(rows: pd.DataFrame) -> Table:
  """Returns a table of the corruptions under which each classifier agrees with the paper.

  Its columns list corruptions with equal signs of the measured and the published change of the
  error, with opposite signs, and with an interval of the measured change that includes 0.

  Args:
    rows: the result of `changes`.
  """
  lines = []
  for label, group in rows.groupby('classifier', sort=False):
    has_sign = (group.low > 0) | (group.high < 0)
    agrees = (group.value > 0) == (group.published > 0)
    cells = [str(label)]
    for in_column in (has_sign & agrees, has_sign & ~agrees, ~has_sign):
      cells.append(', '.join(group.corruption[in_column]) or 'none')
    lines.append(cells)
  return Table(('classifier', 'same sign as published', 'opposite sign', 'no sign shown'), lines)
