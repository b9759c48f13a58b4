"""What a table of results shows by default: sentences, pictures and tables follow from its rows."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from robustness.estimates.means import means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import ERROR, Quantity
from robustness.estimates.table import assemble, select
from robustness.present import charts, sentences, tables
from robustness.present.notation import MINUS, Notation, verdict
from robustness.results import Results
from tests.estimates.means_test import CHANGE, made

SPACE = '\N{NO-BREAK SPACE}'


@pytest.fixture(scope='module')
def results() -> Results:
  outcomes = made(n=200)
  corrupted = (outcomes.views.corruption != 'clean').to_numpy()
  table = assemble(
    [
      means(ERROR, outcomes, where=corrupted),
      means(ERROR, outcomes, ('corruption', 'severity'), test=True),
      means(ERROR, outcomes, ('corruption',), where=corrupted),
      means(ERROR, outcomes, ('severity',), where=corrupted, paired=False),
    ]
  )
  classifiers = [{'label': label} for label in outcomes.labels]
  return Results('made', classifiers, {}, {}, table=table, quantities=(ERROR,))


def test_sentences_give_the_level_the_difference_and_the_worst_of_many(results: Results) -> None:
  told = sentences.sentences(results)
  level, difference, worst = told[:3]
  own = select(results.table, 'error').set_index('classifier')
  value, low, high = (f'{100 * own.loc["first", end]:.0f}' for end in ('value', 'low', 'high'))
  assert level.startswith(f'Top-1 error: first {value}{SPACE}% ({low} to {high}); second ')
  row = select(results.table, 'error', 'first').iloc[0]
  assert difference.startswith('Top-1 error minus that of first, paired: second ')
  assert difference.endswith(f'{verdict(row, ERROR)}.')
  assert worst.startswith('The largest top-1 error by corruption: first under ')
  assert worst.count('for all 2 together') == 2


def test_the_interval_of_the_worst_is_wider_than_its_own(results: Results) -> None:
  rows = select(results.table, 'error', corruption=...)
  row = rows.iloc[0]
  widened = sentences.for_all(row, 15, ERROR)
  assert widened is not None and widened.family == 15
  assert widened.low < row.low < row.value < row.high < widened.high


def test_an_interval_that_is_widened_stays_in_the_range_of_its_quantity() -> None:
  views = pd.DataFrame({'angle': [0, 90, 180]})
  probability = Quantity('probability', 'probability', 'amount', 'higher', low=0, high=1)
  values = np.array([[0.1, 0.5, 0.9], [0.9, 0.2, 0.4], [0.2, 0.8, 0.7]])
  row = means(probability, Outcomes({'net': values}, views), ('angle',)).iloc[0]
  widened = sentences.for_all(row, 3, probability)
  assert widened is not None and (widened.low, widened.high) == (0, 1)


def test_a_share_times_a_factor_is_not_widened_as_a_share() -> None:
  views = pd.DataFrame({'corruption': ['fog', 'snow']})
  wrong = np.random.default_rng(0).random((40, 2)) < 0.5
  ratio = Quantity('mCE', 'mCE', 'ratio', 'lower')
  row = means(ratio, Outcomes({'net': wrong}, views), ('corruption',), scale=1.8).iloc[0]
  assert sentences.for_all(row, 2, ratio) is None
  resampled = sentences.for_all(pd.Series({**row, 'method': 'bootstrap'}), 2, ratio)
  assert resampled is not None and resampled.low < row.low < row.high < resampled.high


def test_every_set_of_facets_is_a_picture_with_a_caption(results: Results) -> None:
  figures = charts.draw(results)
  assert set(figures) == {
    *('error', 'error_difference', 'error_corruption', 'error_corruption_difference'),
    *('error_corruption_severity', 'error_corruption_severity_difference', 'error_severity'),
  }
  figure, caption = figures['error_corruption_severity']
  assert caption == 'Top-1 error by corruption and severity, on 200 images; 95 % intervals.'
  assert {axes.get_title() for axes in figure.axes} == {'fog', 'snow'}
  line = figure.axes[0].lines[0]
  rows = select(results.table, 'error', corruption='fog', severity=...)
  expected = 100 * rows[rows.classifier == 'first'].value
  np.testing.assert_allclose(line.get_ydata(), expected)


def test_a_classifier_has_one_colour_in_all_pictures(results: Results) -> None:
  figures = charts.draw(results)
  own = figures['error_severity'][0].axes[0].lines[1].get_color()
  pairs = figures['error_corruption_severity_difference'][0].axes[0].lines[0].get_color()
  assert own == pairs


def test_two_facets_on_axes_are_a_map() -> None:
  wrong = np.random.default_rng(0).random((50, 12)) < 0.4
  views = pd.DataFrame({'y': np.repeat(np.arange(3), 4), 'x': np.tile(np.arange(4), 3)})
  table = assemble([means(ERROR, Outcomes({'net': wrong}, views), ('y', 'x'))])
  figures = charts.draw(Results('made', {'label': 'net'}, {}, {}, table=table, quantities=(ERROR,)))
  assert 'a dot' not in figures['error_y_x'][1]
  mesh = figures['error_y_x'][0].axes[0].collections[0]
  np.testing.assert_allclose(mesh.get_array().ravel(), 100 * wrong.mean(0))


def test_a_map_of_differences_says_what_its_dots_are() -> None:
  wrong = np.random.default_rng(0).random((2, 50, 9)) < 0.4
  views = pd.DataFrame({'y': np.repeat(np.arange(3), 3), 'x': np.tile(np.arange(3), 3)})
  outcomes = Outcomes({'a': wrong[0], 'b': wrong[1]}, views)
  table = assemble([means(ERROR, outcomes, ('y', 'x'))])
  labels = [{'label': label} for label in outcomes.labels]
  figures = charts.draw(Results('made', labels, {}, {}, table=table, quantities=(ERROR,)))
  caption = figures['error_y_x_difference'][1]
  assert caption.endswith('intervals, a dot where that of the cell alone leaves out 0.')


def test_two_facets_of_which_one_has_few_values_are_curves() -> None:
  wrong = np.random.default_rng(0).random((50, 10)) < 0.4
  views = pd.DataFrame({'far': np.repeat([0, 1], 5), 'angle': np.tile(np.arange(5), 2)})
  table = assemble([means(ERROR, Outcomes({'net': wrong}, views), ('far', 'angle'))])
  figures = charts.draw(Results('made', {'label': 'net'}, {}, {}, table=table, quantities=(ERROR,)))
  panels = figures['error_far_angle'][0].axes
  assert [axes.get_title() for axes in panels] == ['far 0', 'far 1']
  np.testing.assert_allclose(panels[1].lines[0].get_ydata(), 100 * wrong[:, 5:].mean(0))


def test_a_picture_of_a_part_of_the_values_says_so() -> None:
  wrong = np.random.default_rng(0).random((50, 60)) < np.linspace(0.1, 0.9, 60)
  views = pd.DataFrame({'thing': [f'thing {k}' for k in range(60)]})
  table = assemble([means(ERROR, Outcomes({'net': wrong}, views), ('thing',))])
  figures = charts.draw(Results('made', {'label': 'net'}, {}, {}, table=table, quantities=(ERROR,)))
  assert figures['error_thing'][1].endswith(' The 40 largest of 60.')


def test_tables_have_classifiers_and_differences_as_columns(results: Results) -> None:
  shown = dict(tables.tables(results))
  table = shown['top-1 error (%) by corruption']
  assert tuple(table.columns) == ('corruption', 'first', 'second', 'second − first')
  row = select(results.table, 'error', corruption='snow').iloc[0]
  assert [cells for cells in table.rows if cells[0] == 'snow'][0][1] == Notation(ERROR).bare(row)


@pytest.mark.parametrize('name', ['class', 'low pass', '_angle'])
def test_a_facet_may_have_any_name(name: str) -> None:
  views = pd.DataFrame({name: ['b', 'a', 'c']})
  wrong = np.random.default_rng(0).random((50, 3)) < 0.4
  table = assemble([means(ERROR, Outcomes({'net': wrong}, views), (name,))])
  made = Results('made', {'label': 'net'}, {}, {}, table=table, quantities=(ERROR,))
  [(_, shown)] = tables.tables(made)
  assert [row[0] for row in shown.rows] == ['b', 'a', 'c']
  assert set(charts.draw(made)) == {f'error_{name}'}
  [told] = sentences.sentences(made)
  assert f': net in {name.replace("_", " ")} ' in told


@pytest.mark.parametrize(
  ('quantity', 'difference', 'ends', 'text'),
  [
    (ERROR, False, (0.312, 0.301, 0.324), f'31.2{SPACE}% (30.1 to 32.4)'),
    (ERROR, True, (-0.21, -0.24, 0.001), f'{MINUS}21{SPACE}points ({MINUS}24 to 0)'),
    (CHANGE, False, (1.5, 1.25, 1.75), '1.5 (1.2 to 1.8)'),
    (
      Quantity('mCE', 'mCE', 'ratio'),
      True,
      (0.0512, 0.049, 0.0534),
      '+0.0512 (+0.0490 to +0.0534)',
    ),
    (CHANGE, False, (1.5e-7, 1e-7, 2e-7), '0.00000015 (0.00000010 to 0.00000020)'),
    (ERROR, False, (0.5, np.nan, np.nan), f'50.0{SPACE}%'),
  ],
)
def test_numbers_have_one_notation(
  quantity: Quantity, difference: bool, ends: tuple[float, float, float], text: str
) -> None:
  row = dataclasses.make_dataclass('Row', ['value', 'low', 'high', 'family'])(*ends, 1)
  assert Notation(quantity, difference).full(row) == text
