"""Classifiers side by side: how values are written and which are the best."""

import pytest

from robustness.estimates.corruption_error import MCE
from robustness.estimates.means import Estimate, estimate_row, table_of_rows
from robustness.estimates.quantity import ERROR, Quantity
from robustness.estimates.systematic import DEGENERATE
from robustness.estimates.table import assemble
from robustness.present import side_by_side
from robustness.results import SINGLE, Results
from tests.refusals import refused

GAIN = Quantity('gain', 'gain', better='higher', low=-1)
WIDTHS = 0.2, 0.002, 0.00001  # half widths of the intervals of the first three networks


def test_tasks_of_a_battery_are_rows_where_they_are_asked_for():
  tasks = {
    name: Results(
      'made',
      [{'label': 'net'}],
      {},
      {},
      table=assemble(
        [table_of_rows([estimate_row('net', '', ERROR, {}, Estimate(x, x, x, 9, 9, 'wald'), 0.95)])]
      ),
      quantities=(ERROR,),
    )
    for name, x in (('clean', 0.25), ('heat_map', 0.5))
  }
  table, _ = side_by_side.arrange(tasks, rows=('task',), columns=('classifier',))
  assert [tuple(cells) for cells in table.rows] == [('clean', '25.0'), ('heat map', '50.0')]
  message = "'task' is no facet of these runs"
  refused(message, side_by_side.arrange, {SINGLE: tasks['clean']}, rows=('task',))


def test_a_note_says_where_the_extreme_of_many_conditions_is():
  errors = [Estimate(x / 10, x / 10, x / 10, 9, 9, 'wald') for x in range(9)]
  rows = [estimate_row('net', '', ERROR, {'severity': k}, x, 0.95) for k, x in enumerate(errors)]
  results = Results('made', [], {}, {}, table=assemble([table_of_rows(rows)]), quantities=(ERROR,))
  notes = side_by_side.notes_of(side_by_side.named_selections({SINGLE: results}))
  assert notes == ['highest top-1 error of 9 severities, net: at severity 8']
  table, _ = side_by_side.arrange({SINGLE: results}, intervals=True)
  assert table.rows[0][1] == '80.0 at severity 8'


@pytest.mark.parametrize(
  'facet, values', [('class', ('sea_lion', 'sea lion')), ('epsilon', (0.03081, 0.03119))]
)
def test_values_of_a_facet_with_one_text_have_a_column_each(facet, values):
  rows = [
    estimate_row('net', '', ERROR, {facet: value}, Estimate(x, x, x, 9, 9, 'wald'), 0.95)
    for value, x in zip(values, (0.25, 0.5), strict=True)
  ]
  results = Results('made', [], {}, {}, table=assemble([table_of_rows(rows)]), quantities=(ERROR,))
  table, _ = side_by_side.arrange({SINGLE: results}, columns=(facet,))
  assert table.columns[1:] == tuple(map(str, values)) and table.rows == [['net', '25.0', '50.0']]


def test_single_classes_follow_the_headlines_of_all_tasks():
  error = Estimate(0.5, 0.2, 0.8, 9, 9, 'wald')
  facets = {'clean': [{}, {'class': 'dog'}, {'class': 'cat'}], 'noisy': [{}]}
  by_class = Quantity('class_error', 'error', headline=True)
  overall = Quantity('error', 'error', headline=True)
  tasks = {}
  for task, of_task in facets.items():
    rows = [estimate_row('net', '', by_class if by else overall, by, error, 0.95) for by in of_task]
    table = assemble([table_of_rows([estimate]) for estimate in rows])
    quantities = overall, by_class
    tasks[task] = Results('made', [], {}, {}, table=table, quantities=quantities)
  heads = side_by_side.arrange(tasks)[0].columns[1:]
  assert [head.partition(' (')[0] for head in heads] == [
    *('clean: error', 'noisy: error', 'clean: error in class dog', 'clean: error in class cat')
  ]


def column(quantity: Quantity, values, intervals: bool = False) -> tuple[list[str], set[int]]:
  """Returns the texts of values with intervals of several widths, and the places of the best."""
  labels = [f'net {k}' for k in range(len(values))]
  rows = [
    estimate_row(
      label, '', quantity, {}, Estimate(value, value - width, value + width, 90, 90, 'wald'), 0.95
    )
    for label, value, width in zip(labels, values, WIDTHS, strict=False)
  ]
  described = [{'label': label} for label in labels]
  results = Results(
    'made', described, {}, {}, table=assemble([table_of_rows(rows)]), quantities=(quantity,)
  )
  table, best = side_by_side.arrange({SINGLE: results}, intervals=intervals)
  return [cells[1] for cells in table.rows], {cell[0] for cell in best}


@pytest.mark.parametrize(
  'quantity, values, texts',
  [
    (ERROR, (0.45, 0.73812, 0.829), ['45.0', '73.8', '82.9']),
    (ERROR, (0.0004, 0.00031, 0.0), ['0.040', '0.031', '0.000']),
    (GAIN, (0.176, -0.000029, -0.3), ['+17.6', '0.0', '−30.0']),
    (MCE, (0.68, 0.8981, 1.0), ['68.0', '89.8', '100.0']),
    (Quantity('norm', 'norm', 'amount'), (12.345, 0.5, 3.0), ['12.3', '0.5', '3.0']),
    (Quantity('rank', 'rank', 'count'), (12, 3, 4), ['12', '3', '4']),
  ],
)
def test_values_without_intervals_have_the_same_decimals_in_a_column(quantity, values, texts):
  assert column(quantity, values)[0] == texts
  with_intervals, _ = column(quantity, values, intervals=True)
  assert all('(' in text for text in with_intervals)


def test_values_that_print_as_the_best_are_marked_unless_all_print_the_same():
  assert column(ERROR, (0.3, 0.2, 0.20001))[1] == {1, 2}
  assert column(ERROR, (0.2, 0.2, 0.20001))[1] == set()
  assert column(GAIN, (0.1, 0.2))[1] == {1}


def test_a_degenerate_value_is_marked_and_not_the_best():
  estimates = [
    Estimate(value, 0.0, 1.0, 9, 9, 'wald', note=note)
    for value, note in ((0.4, ''), (1.0, f'{DEGENERATE}; few images'), (0.6, ''))
  ]
  rows = [
    estimate_row(f'net {k}', '', GAIN, {'environment': 'snow'}, estimate, 0.95)
    for k, estimate in enumerate(estimates)
  ]
  results = Results('made', [], {}, {}, table=assemble([table_of_rows(rows)]), quantities=(GAIN,))
  for intervals in (False, True):
    table, best = side_by_side.arrange(
      {SINGLE: results}, columns=('environment',), intervals=intervals
    )
    assert [DEGENERATE in cells[1] for cells in table.rows] == [False, True, False]
    assert best == {(2, 1)}
