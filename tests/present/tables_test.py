"""Tables have classifiers and differences as columns, and a text to copy."""

from __future__ import annotations

import csv
import io

import pandas as pd
import pytest

from robustness.estimates.quantity import ERROR, Quantity
from robustness.estimates.table import select
from robustness.present import tables
from robustness.present.notation import Notation
from robustness.results import Results, Table
from tests.present.made_results import made_results


@pytest.fixture(scope='module')
def results() -> Results:
  return made_results()


def test_tables_have_classifiers_and_differences_as_columns(results: Results) -> None:
  shown = {titled.title: titled for titled in tables.tables(results)}
  titled = shown['top-1 error (%) by corruption']
  assert titled.name == 'error_corruption'
  assert tuple(titled.table.columns) == ('corruption', 'first', 'second', 'second − first')
  row = select(results.table, 'error', corruption='snow').iloc[0]
  [cells] = [cells for cells in titled.table.rows if cells[0] == 'snow']
  assert cells[1] == Notation(ERROR).bare(row)


def test_what_is_too_long_for_a_table_is_named() -> None:
  quantity = Quantity('spread', 'spread of x')
  rows = made_results().table.iloc[:1].assign(quantity='spread')
  many = pd.concat([rows.assign(severity=k) for k in range(200)])
  results = Results('made', {'label': 'first'}, {}, {}, table=many, quantities=(quantity,))
  assert not list(tables.tables(results))
  assert tables.left_out(results, ()) == ['spread of x by severity: 200 rows']


def test_a_table_is_copied_as_csv_markdown_and_latex() -> None:
  table = Table(
    ('', 'a|b', 'c_d − a'), [['error (%)', '1.0 (0.5 to 2.0)', '−0.5'], ['x, y', '', 1]]
  )
  assert list(csv.reader(io.StringIO(tables.to_csv(table)))) == [
    list(table.columns),
    *([str(cell) for cell in row] for row in table.rows),
  ]
  assert tables.to_markdown(table).splitlines()[:3] == [
    '|  | a\\|b | c_d − a |',
    '| --- | --- | --- |',
    '| error (%) | 1.0 (0.5 to 2.0) | −0.5 |',
  ]
  latex = tables.to_latex(table)
  assert latex.startswith(
    '\\begin{tabular}{lrr}\n\\toprule\n & a$|$b & c\\_d $-$ a \\\\\n\\midrule\n'
  )
  assert 'error (\\%) & 1.0 (0.5 to 2.0) & $-$0.5 \\\\\n' in latex


@pytest.mark.parametrize(
  ('cell', 'markdown', 'latex'),
  [
    ('a\\|b', 'a\\\\\\|b', 'a\\textbackslash{}$|$b'),
    ('<b>*`', '\\<b>\\*\\`', '$<$b$>${*}`'),
    ('[1] 50%', '[1] 50%', '{[}1{]} 50\\%'),
    ('x^~y', 'x^~y', 'x\\textasciicircum{}\\textasciitilde{}y'),
    ('two\nlines', 'two lines', 'two lines'),
    ('ℓ∞ 4×5°', 'ℓ∞ 4×5°', '$\\ell$$\\infty$ 4$\\times$5$^\\circ$'),
  ],
)
def test_odd_text_stays_in_its_cell(cell: str, markdown: str, latex: str) -> None:
  table = Table((cell, ''), [[cell, 1]])
  assert tables.to_markdown(table).splitlines() == [
    f'| {markdown} |  |',
    '| --- | --- |',
    f'| {markdown} | 1 |',
  ]
  assert tables.to_latex(table).count(f'\n{latex} & ') == 2
  assert list(csv.reader(io.StringIO(tables.to_csv(table)))) == [[cell, ''], [cell, '1']]
