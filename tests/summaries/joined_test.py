"""Results above the parts of a battery: their estimates are one table."""

from __future__ import annotations

import pathlib

import pandas as pd

from robustness import summaries
from robustness.estimates.means import means
from robustness.estimates.quantity import ERROR, Quantity
from robustness.estimates.table import assemble, facets_of
from robustness.present import charts, sentences, tables
from robustness.results import Results
from tests.estimates.means_test import made

CHANGED = Quantity('changed', 'changed answers', better='lower')
LABELS = [{'label': label} for label in made().labels]


def part(quantity: Quantity, by: tuple[str, ...]) -> Results:
  table = assemble([means(quantity, made(), by)])
  described = {'num_examples': 5}
  return Results('made', LABELS, described, {}, table=table, quantities=(ERROR, quantity))


def test_the_table_of_a_battery_has_that_of_each_part(tmp_path: pathlib.Path) -> None:
  parts = {'clean': part(ERROR, ()), 'far': part(CHANGED, ('corruption', 'severity'))}
  joined = summaries.join(None, parts, {})
  joined.write(tmp_path)
  read = Results.read(tmp_path)
  assert facets_of(read.table) == ['part', 'corruption', 'severity']
  for name, of in parts.items():
    own = read.table[read.table.part == name].reset_index(drop=True)
    pd.testing.assert_frame_equal(own[list(of.table.columns)], of.table, check_dtype=False)
  assert len(read.table) == sum(len(of.table) for of in parts.values())
  assert read.quantities == (ERROR, CHANGED)


def test_what_parts_show_is_not_shown_again_above_them() -> None:
  joined = summaries.join(None, {'one': part(ERROR, ('corruption',))}, {})
  assert not charts.draw(joined) and not sentences.sentences(joined)
  assert not list(tables.tables(joined))
