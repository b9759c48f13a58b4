"""Tables of results, their CSV, Markdown and LaTeX, and the summary in the terminal."""

import csv
import dataclasses
import io
import math

import pandas as pd

from robustness.estimates.facets import Facet
from robustness.estimates.quantity import ACCURACY, ERROR, Quantity
from robustness.estimates.table import assemble, select
from robustness.present import tables, text
from robustness.present.notation import Notation
from robustness.present.selection import MAX_OVERALL_VALUES
from robustness.present.text import lines, summary
from robustness.results import Results, Table
from tests.cases import cases
from tests.present.headlines_test import made as headlined
from tests.present.made_results import made_results


def test_tables_have_classifiers_as_columns_and_too_long_ones_are_listed_as_left_out(results):
  by_title = {titled.title: titled for titled in tables.tables(results)}
  titled = by_title['top-1 error (%) by corruption']
  assert titled.name == 'error_corruption'
  assert tuple(titled.table.columns) == ('corruption', 'first', 'second', 'second − first')
  row = select(results.table, 'error', corruption='snow').iloc[0]
  [cells] = [cells for cells in titled.table.rows if cells[0] == 'snow']
  assert cells[1] == Notation(ERROR).bare(row)
  quantity = Quantity('spread', 'spread of x')
  rows = made_results().table.iloc[:1].assign(quantity='spread')
  many = pd.concat([rows.assign(severity=k) for k in range(200)])
  results = Results('made', [{'label': 'first'}], {}, {}, table=many, quantities=(quantity,))
  assert not list(tables.tables(results))
  assert tables.left_out(results, ()) == ['spread of x by severity: 200 rows']


def test_a_table_has_the_note_of_an_undefined_value():
  results = made_results()
  for column, note, cell in ((1, 'undefined; a draw', 'undefined'), (2, '', 'unknown')):
    index = select(results.table, 'error', corruption='snow').index[column - 1]
    results.table.loc[index, ['value', 'low', 'high']] = math.nan
    results.table.loc[index, 'note'] = note
    by_name = {titled.name: titled.table for titled in tables.tables(results)}
    [cells] = [row for row in by_name['error_corruption'].rows if row[0] == 'snow']
    assert cells[column] == cell


def test_rows_of_an_axis_ascend_with_a_minus_and_its_unit_is_in_the_head():
  [row] = made_results().table.iloc[:1].to_dict('records')
  rows = pd.DataFrame([{**row, 'offset': offset} for offset in (10, -4, 0)])
  offset = Facet('offset', 'distance from the anchor', 'frames', ordered=True)
  quantities = (dataclasses.replace(ERROR, facets=(offset,)),)
  results = Results('made', [], {}, {}, table=assemble([rows]), quantities=quantities)
  [titled] = tables.tables(results)
  assert titled.table.columns[0] == 'distance from the anchor (frames)'
  assert [cells[0] for cells in titled.table.rows] == ['−4', '0', '10']


def test_a_table_is_copied_as_csv_markdown_and_latex():
  rows = [['error (%)', '1.0 (0.5 to 2.0)', '−0.5'], ['x, y', '', 1]]
  table = Table(('', 'a|b', 'c_d − a'), rows)
  copied = [list(table.columns), rows[0], ['x, y', '', '1']]
  copied = [[cell.replace('−', '-') for cell in line] for line in copied]  # programs read numbers
  assert list(csv.reader(io.StringIO(tables.to_csv(table)))) == copied
  assert tables.to_markdown(table).splitlines()[:3] == [
    '|  | a\\|b | c_d − a |',
    '| --- | --- | --- |',
    '| error (%) | 1.0 (0.5 to 2.0) | −0.5 |',
  ]
  latex = tables.to_latex(table)
  head = '\\begin{tabular}{lrr}\n\\toprule\n & a$|$b & c\\_d $-$ a \\\\\n\\midrule\n'
  assert latex.startswith(head)
  assert 'error (\\%) & 1.0 (0.5 to 2.0) & $-$0.5 \\\\\n' in latex


@cases(
  'cell, markdown, latex',
  ('a\\|b', 'a\\\\\\|b', 'a\\textbackslash{}$|$b'),
  ('<b>*`', '\\<b>\\*\\`', '$<$b$>${*}`'),
  ('[1] 50%', '[1] 50%', '{[}1{]} 50\\%'),
  ('x^~y', 'x^~y', 'x\\textasciicircum{}\\textasciitilde{}y'),
  ('two\nlines', 'two lines', 'two lines'),
  ('ℓ∞ 4×5°', 'ℓ∞ 4×5°', '$\\ell$$\\infty$ 4$\\times$5$^\\circ$'),
  ('π ≥ σ', 'π ≥ σ', '$\\pi$ $\\ge$ $\\sigma$'),
)
def test_odd_text_stays_in_its_cell(cell, markdown, latex):
  table = Table((cell, ''), [[cell, 1]])
  expected = [f'| {markdown} |  |', '| --- | --- |', f'| {markdown} | 1 |']
  assert tables.to_markdown(table).splitlines() == expected
  assert tables.to_latex(table).count(f'\n{latex} & ') == 2
  assert list(csv.reader(io.StringIO(tables.to_csv(table)))) == [[cell, ''], [cell, '1']]


def test_columns_are_even_and_numbers_end_below_each_other():
  rows = [['clean images', 0.5, 0.96259], ['mCE', math.nan, None]]
  table = Table(('', 'natural', 'published'), rows)
  assert lines(table) == [
    '              natural  published',
    'clean images   0.5000     0.9626',
    'mCE                 -          -',
  ]


def test_a_summary_has_values_and_differences_with_intervals_and_each_note_once():
  slope = Quantity('slope', 'slope', kind='amount', headline=True)
  hidden = Quantity('aside', 'aside')
  values = {ACCURACY: {'a': (0.5,), 'b': (0.7,)}, slope: {'a': (2,)}, hidden: {'a': (1,)}}
  results = headlined(values)
  results.table.loc[results.table.classifier == 'a', 'note'] = 'few images'
  head, first, second, slope_line, note = summary(results)
  assert head.split() == ['value', 'minus', 'a']
  assert first.startswith('top-1 accuracy (%)  a') and first.endswith('50 (36 to 64) [1]')
  assert second.split('  ')[-2:] == ['70 (55 to 82)', '+20 (+7 to +31)']
  assert slope_line.startswith('slope               a') and 'aside' not in slope_line
  assert note == '[1] few images' and len({line.rindex('(') for line in (first, second)}) == 2
  assert summary(Results('fourier_preview', [], {}, {})) == [], 'there are no estimates'


def test_a_summary_without_a_headline_points_to_the_report():
  by_layer = Quantity('amplitude', 'amplitude', kind='amount')
  results = headlined({by_layer: {'a': (1,)}})
  layers = [
    results.table.assign(layer=f'block{number}') for number in range(MAX_OVERALL_VALUES + 1)
  ]
  results = dataclasses.replace(results, table=pd.concat(layers, ignore_index=True))
  assert summary(results) == [
    f'{MAX_OVERALL_VALUES + 1} estimates, too many to print: see the report.'
  ]


def test_the_first_sentences_are_wrapped_to_the_lines_of_a_terminal():
  clauses = 'On clean images,\nfirst errs on 4 % (3 to 5);\nsecond errs on 5 % (4 to 6).'
  long = f'{30 * "word "}end.'
  printed = text.findings([clauses, long, 'Three.', 'Four.', 'Five.', 'Six.'])
  assert printed[:2] == ['* On clean images,', '    first errs on 4 % (3 to 5);']
  assert printed[2] == '    ' + clauses.split('\n')[2]
  assert printed[3].startswith('* word') and printed[4].startswith('    word')
  assert max(map(len, printed)) <= text.WIDTH
  assert printed[-3:] == ['* Three.', '* Four.', '... and 2 more in the report']
  assert text.findings([]) == []
