"""Results above the parts of a battery: their estimates are one table."""

from __future__ import annotations

import dataclasses
import pathlib

import pandas as pd

from robustness.estimates.means import means
from robustness.estimates.quantity import ERROR, Quantity
from robustness.estimates.table import assemble, facets_of
from robustness.present import charts, tables
from robustness.present.summary import of_battery
from robustness.results import Results, joined
from tests.estimates.means_test import made

CHANGED = Quantity('changed', 'changed answers', better='lower')
LABELS = [{'label': label} for label in made().labels]


def part(quantity: Quantity, by: tuple[str, ...]) -> Results:
  table = assemble([means(quantity, made(), by)])
  described = {'num_examples': 5}
  declared = (quantity,) if quantity.name == 'error' else (ERROR, quantity)
  return Results('made', LABELS, described, {'name': 'made'}, table=table, quantities=declared)


def test_the_table_of_a_battery_has_that_of_each_part(tmp_path: pathlib.Path) -> None:
  parts = {'clean': part(ERROR, ()), 'far': part(CHANGED, ('corruption', 'severity'))}
  joined(parts, {}).write(tmp_path)
  read = Results.read(tmp_path)
  assert facets_of(read.table) == ['part', 'corruption', 'severity']
  for name, of in parts.items():
    own = read.table[read.table.part == name].reset_index(drop=True)
    pd.testing.assert_frame_equal(own[list(of.table.columns)], of.table, check_dtype=False)
  assert len(read.table) == sum(len(of.table) for of in parts.values())
  assert read.quantities == (ERROR, CHANGED)


def test_parts_are_found_again_with_what_each_declares(tmp_path: pathlib.Path) -> None:
  """Of two declarations of one name each part has its own."""
  own = dataclasses.replace(ERROR, words='error over all scenes')
  parts = {'one': part(ERROR, ('corruption',)), 'two': part(own, ())}
  joined(parts, {}).write(tmp_path)
  read = Results.read(tmp_path)
  assert read.quantities == (ERROR, own)
  for name, of in parts.items():
    found = read.by_part[name]
    assert found.quantities == of.quantities and found.study == 'made'
    pd.testing.assert_frame_equal(found.table, of.table)


def test_what_parts_show_is_told_behind_their_names_and_not_drawn_again() -> None:
  whole = joined({'one': part(ERROR, ('corruption',))}, {})
  assert not charts.draw(whole) and not list(tables.tables(whole))
  presented = of_battery(None, {})
  first, *_, last = (finding.text for finding in presented.findings(whole))
  assert first.startswith('Of all parts first is worst in one: ') and last.startswith('one: ')
  assert list(presented.figures(whole)) == ['overview_share_lower']
