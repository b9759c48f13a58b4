"""Tests the table of results: its columns, its CSV file, facets, and refused tables."""

import numpy as np
import pandas as pd

from robustness.estimates import table as tables
from robustness.estimates.means import means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity
from tests.estimates.means_test import ERROR, made
from tests.refusals import refused


def table() -> pd.DataFrame:
  """Returns errors by corruption and severity, by corruption, and top-5 errors by layer."""
  outcomes = made()
  top5 = Quantity('top5_error', 'top-5 error')
  parts = [means(ERROR, outcomes, ('corruption', 'severity'), test=True)]
  parts.append(means(ERROR, outcomes, ('corruption',)))
  for layer in ('007', 'a\r', 'b\r\nc'):
    parts.append(means(top5, outcomes, facets={'layer': layer}, paired=False))
  return tables.assemble(parts)


def test_a_table_is_read_from_csv_as_it_was_written(tmp_path):
  results = table()
  facets = ['corruption', 'severity', 'layer']
  assert list(results.columns) == [*tables.SUBJECT, *facets, *tables.ESTIMATE]
  assert tables.facets_of(results) == facets
  assert results.severity.dtype == 'Int64' and results.n.dtype == 'Int64'
  assert results.severity.isna().sum() == 3 * 3 + 3 * 2
  assert (results.family == 1).all() and (results.confidence == 0.95).all()
  file = tmp_path / 'results.csv'
  file.write_bytes(tables.to_csv(results))
  read = tables.from_csv(file, tables.facet_types(results))
  pd.testing.assert_frame_equal(read, results)
  assert tables.to_csv(read) == tables.to_csv(results)
  assert np.array_equal(read.value.to_numpy(), results.value.to_numpy())


def test_lines_may_end_as_git_writes_them_on_windows(tmp_path):
  results, file = table(), tmp_path / 'results.csv'
  file.write_bytes(tables.to_csv(results).replace(b'\n', b'\r\n'))
  read = tables.from_csv(file, tables.facet_types(results))
  assert tables.to_csv(read) == tables.to_csv(results)


def test_repeated_rows_infinite_values_and_damaged_files_are_refused(tmp_path):
  part = means(ERROR, made(), ('corruption',), paired=False)
  refused('two rows of one estimate: .*quantity=error.*corruption=', tables.assemble, [part, part])
  named = tables.with_facet(part, 'place', '')
  refused("the facet place is '' in the table", tables.assemble, [named])
  loss = Quantity('loss', 'loss', kind='amount')
  outcomes = Outcomes({'net': np.array([[np.inf], [1.0]])}, pd.DataFrame(index=range(1)))
  with np.errstate(invalid='ignore'):
    infinite = means(loss, outcomes)
  refused('value of loss is infinite', tables.assemble, [infinite])
  file = tmp_path / 'results.csv'
  refused(r'results\.csv cannot be read as a table', tables.from_csv, file, {})
  for content in ('', 'classifier,versus\n', 'a\n"'):
    file.write_text(content)
    refused(r'results\.csv cannot be read as a table', tables.from_csv, file, {})
  file.write_bytes(tables.to_csv(table())[:-30])
  refused('cannot be read', tables.from_csv, file, tables.facet_types(table()))


def test_a_facet_is_added_and_removed():
  results = table()
  by_seed = tables.assemble(
    [results, *(tables.with_facet(results, 'seed', seed) for seed in (0, 7))]
  )
  for seed in (None, 7):
    without = tables.assemble([tables.without_facet(by_seed, 'seed', seed)])
    pd.testing.assert_frame_equal(without[list(results.columns)], results)
  assert tables.without_facet(results, 'seed') is results
  assert tables.without_facet(results, 'seed', 7).empty


def test_values_in_a_log_are_named_by_classifier_quantity_and_facets():
  named = tables.named_values(tables.with_facet(table(), 'task', 'far'), 'results')
  assert 'results/first/top5_error/task=far/layer=007' in named
  assert 'results/second minus first/error/task=far/corruption=clean' in named
  assert not any('corruption' in name and 'severity' in name for name in named)
