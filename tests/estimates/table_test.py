"""The table of results: one type a column, the same after a way through CSV, errors by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from robustness.core.errors import InputError
from robustness.estimates.means import means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity
from robustness.estimates.table import (
  ESTIMATE,
  SUBJECT,
  assemble,
  facet_types,
  facets_of,
  from_csv,
  named_values,
  to_csv,
  with_facet,
  without_facet,
)
from tests.estimates.means_test import ERROR, made


def table() -> pd.DataFrame:
  outcomes = made()
  return assemble(
    [
      means(ERROR, outcomes, ('corruption', 'severity'), test=True),
      means(ERROR, outcomes, ('corruption',)),
      means(Quantity('top5_error', 'top-5 error'), outcomes, facets={'layer': '007'}, paired=False),
    ]
  )


def test_facets_stand_between_the_other_columns_and_empty_means_over_all():
  whole = table()
  assert list(whole.columns) == [*SUBJECT, 'corruption', 'severity', 'layer', *ESTIMATE]
  assert facets_of(whole) == ['corruption', 'severity', 'layer']
  assert whole.severity.dtype == 'Int64' and whole.n.dtype == 'Int64'
  assert whole.severity.isna().sum() == 3 * 3 + 2
  assert (whole.family == 1).all() and (whole.confidence == 0.95).all()


def test_a_table_is_the_same_after_a_way_through_csv(tmp_path):
  whole = table()
  file = tmp_path / 'results.csv'
  file.write_bytes(to_csv(whole))
  read = from_csv(file, facet_types(whole))
  pd.testing.assert_frame_equal(read, whole)
  assert to_csv(read) == to_csv(whole)
  assert np.array_equal(read.value.to_numpy(), whole.value.to_numpy())


def test_two_rows_of_one_estimate_are_refused():
  part = means(ERROR, made(), ('corruption',), paired=False)
  with pytest.raises(InputError, match='two rows of one estimate: .*quantity=error.*corruption='):
    assemble([part, part])


@pytest.mark.parametrize('content', ['', 'classifier,versus\n', None, 'a\n"'])
def test_files_that_are_no_tables_are_named(tmp_path, content):
  file = tmp_path / 'results.csv'
  if content is not None:
    file.write_text(content)
  with pytest.raises(InputError, match=r'results\.csv cannot be read as a table'):
    from_csv(file, {})


def test_a_truncated_file_is_named(tmp_path):
  file = tmp_path / 'results.csv'
  file.write_bytes(to_csv(table())[:-30])
  with pytest.raises(InputError, match='cannot be read'):
    from_csv(file, facet_types(table()))


def test_an_infinite_value_is_refused_with_its_quantity() -> None:
  loss = Quantity('loss', 'loss', kind='amount')
  outcomes = Outcomes({'net': np.array([[np.inf], [1.0]])}, pd.DataFrame(index=range(1)))
  with np.errstate(invalid='ignore'), pytest.raises(InputError, match='value of loss is infinite'):
    assemble([means(loss, outcomes)])


def test_a_facet_is_left_out_again() -> None:
  whole = table()
  each = assemble([whole, *(with_facet(whole, 'seed', seed) for seed in (0, 7))])
  for seed in (None, 7):
    own = assemble([without_facet(each, 'seed', seed)])
    pd.testing.assert_frame_equal(own[list(whole.columns)], whole)
  assert without_facet(whole, 'seed') is whole and without_facet(whole, 'seed', 7).empty


def test_names_in_a_log_say_what_a_value_is() -> None:
  named = named_values(with_facet(table(), 'part', 'far'), 'results')
  assert 'results/first/top5_error/part=far/layer=007' in named
  assert 'results/second minus first/error/part=far/corruption=clean' in named
  assert not any('corruption' in name and 'severity' in name for name in named)
