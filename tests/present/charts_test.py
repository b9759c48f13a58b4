"""What a table of results is drawn as follows from its facets."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from robustness.estimates.means import means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import CLEAN_ERROR, ERROR, Quantity
from robustness.estimates.table import assemble, select, with_facet
from robustness.present import charts, sentences, style, tables
from robustness.results import Results
from tests import said
from tests.present.made_results import made_results


@pytest.fixture(scope='module')
def results() -> Results:
  return made_results()


def drawn(table: pd.DataFrame, *quantities: Quantity) -> dict[str, charts.Picture]:
  """Returns the pictures of a table."""
  labels = [{'label': label} for label in dict.fromkeys(table.classifier)]
  return charts.draw(
    Results('made', labels, {}, {}, table=table, quantities=quantities or (ERROR,))
  )


def test_every_set_of_facets_is_a_picture_with_a_caption(results: Results) -> None:
  figures = charts.draw(results)
  assert list(figures) == [
    *('error_corruption_severity', 'error_corruption_severity_difference'),
    *('error_corruption', 'error_severity'),
  ]
  figure, caption = figures['error_corruption_severity']
  assert caption == 'Top-1 error by corruption and severity, n = 200; 95 % intervals.'
  assert {axes.get_title() for axes in figure.axes} == {'fog', 'snow'}
  rows = select(results.table, 'error', corruption='fog', severity=...)
  expected = 100 * rows[rows.classifier == 'first'].value
  np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), expected)


def test_names_have_points_with_their_differences_beside_them(results: Results) -> None:
  figure, caption = charts.draw(results)['error_corruption']
  own, difference = figure.axes
  assert own.get_xlabel() == 'top-1 error (%)'
  assert difference.get_xlabel() == 'difference in top-1 error (points)'
  rows = select(results.table, 'error', 'first', corruption=...)
  points = difference.containers[0].lines[0].get_xdata()
  np.testing.assert_allclose(points, 100 * rows.value)
  assert caption.endswith(
    'Differences are from first, paired; a dot marks one that is significant (its own interval '
    'leaves out 0).'
  )


def test_a_classifier_has_one_colour_in_all_pictures(results: Results) -> None:
  figures = charts.draw(results)
  curve = figures['error_severity'][0].axes[0].lines[1].get_color()
  points = figures['error_corruption'][0].axes[1].containers[0].lines[0].get_color()
  assert curve == points == style.colour(1)


def test_dots_mark_differences_that_pass_the_test_together() -> None:
  generator = np.random.default_rng(0)
  first = generator.random((300, 6)) < 0.5
  second = np.concatenate([first[:, :3], first[:, 3:] & (generator.random((300, 3)) < 0.3)], 1)
  views = pd.DataFrame({'corruption': np.repeat(['fog', 'snow'], 3), 'severity': [1, 2, 3] * 2})
  outcomes = Outcomes({'a': first, 'b': second}, views)
  table = assemble([means(ERROR, outcomes, ('corruption', 'severity'), test=True)])
  figure, caption = drawn(table)['error_corruption_severity_difference']
  texts = [text.get_text() for text in figure.axes[0].texts]
  assert [text.endswith('•') for text in texts] == [False] * 3 + [True] * 3
  assert 'false-discovery rate 5 % over the 6 of each classifier' in caption


def test_two_facets_on_axes_are_a_map() -> None:
  wrong = np.random.default_rng(0).random((50, 12)) < 0.4
  views = pd.DataFrame({'y': np.repeat(np.arange(3), 4), 'x': np.tile(np.arange(4), 3)})
  figure, caption = drawn(assemble([means(ERROR, Outcomes({'net': wrong}, views), ('y', 'x'))]))[
    'error_y_x'
  ]
  assert 'a dot' not in caption
  np.testing.assert_allclose(figure.axes[0].images[0].get_array().ravel(), 100 * wrong.mean(0))


@pytest.mark.parametrize('side', [4, 5])
def test_a_fourier_map_has_each_frequency_and_its_mirror(side: int) -> None:
  """Values of U_ij and U_−i−j are one; at the Nyquist frequency −N/2 is its own negative."""
  whole = np.fft.fftshift(np.fft.fftfreq(side, 1 / side)).astype(int)
  negative = {f: f if 2 * f == -side else -f for f in whole}
  expected = np.random.default_rng(0).random((side, side))
  half = []
  for y, x in itertools.product(range(side), repeat=2):
    pair = whole[y], whole[x]
    mirror = negative[pair[0]], negative[pair[1]]
    if pair <= mirror:
      half.append(pair)
      expected[tuple(np.searchsorted(whole, mirror))] = expected[y, x]
  views = pd.DataFrame(half, columns=['frequency_y', 'frequency_x'])
  values = expected[tuple(np.searchsorted(whole, views[name]) for name in views)]
  change = Quantity('change', 'change', 'amount')
  outcomes = Outcomes({'net': np.stack([values] * 2)}, views)
  table = assemble([means(change, outcomes, ('frequency_y', 'frequency_x'))])
  figure, _ = drawn(table, change)['change_frequency_y_frequency_x']
  np.testing.assert_allclose(figure.axes[0].images[0].get_array(), expected)


def test_a_name_and_two_axes_are_maps_of_each_classifier() -> None:
  views = pd.DataFrame(
    [(layer, y, x) for layer in ('stem', 'head') for y in range(3) for x in range(4)],
    columns=['layer', 'y', 'x'],
  )
  change = Quantity('change', 'change', 'amount')
  values = {label: np.random.default_rng(0).random((5, 24)) for label in ('a', 'b')}
  table = assemble([means(change, Outcomes(values, views), ('layer', 'y', 'x'), paired=False)])
  figures = drawn(table, change)
  assert list(figures) == ['change_layer_y_x_a', 'change_layer_y_x_b']
  paired = assemble([means(change, Outcomes(values, views), ('layer', 'y', 'x'))])
  assert all('Differences' not in caption for _, caption in drawn(paired, change).values())
  assert [axes.get_title() for axes in figures['change_layer_y_x_a'][0].axes[:2]] == [
    'stem',
    'head',
  ]


def test_two_names_are_a_grid_with_numbers() -> None:
  views = pd.DataFrame({'environment': ['snow'] * 2 + ['fog'] * 2, 'class_group': ['A', 'B'] * 2})
  wrong = np.random.default_rng(0).random((50, 4)) < [0.1, 0.5, 0.9, 0.4]
  table = assemble([means(ERROR, Outcomes({'net': wrong}, views), tuple(views.columns))])
  table['note'] = ['seen in training', '', '', '']
  figure, caption = drawn(table)['error_environment_class_group']
  axes = figure.axes[0]
  assert [text.get_text() for text in axes.texts] == [f'{100 * v:.0f}' for v in wrong.mean(0)]
  [outline] = axes.patches
  assert np.allclose(outline.get_xy(), -0.46) and caption.endswith('Outlined: seen in training.')


def test_a_grid_has_a_dash_without_a_value_and_zero_without_a_sign() -> None:
  pairs = list(itertools.product(['fog', 'snow', 'rain'], ['A', 'B', 'C']))
  views = pd.DataFrame(pairs, columns=['environment', 'class_group'])
  gain = Quantity('gain', 'gain', 'amount')
  values = np.array([-0.04, 30, 30, -30, 30, 30, 30, 30, 30])
  outcomes = Outcomes({'net': np.stack([values] * 2)}, views)
  table = assemble([means(gain, outcomes, tuple(views.columns))])
  figure, _ = drawn(table[table['class_group'].ne('C') | table['environment'].ne('rain')], gain)[
    'gain_environment_class_group'
  ]
  texts = {text.get_position(): text.get_text() for text in figure.axes[0].texts}
  assert (texts[0, 0], texts[0, 1], texts[2, 2]) == ('0', '−30', '–')


def test_the_value_without_a_perturbation_is_drawn_beside_the_others() -> None:
  wrong = np.random.default_rng(0).random((50, 3)) < 0.4
  views = pd.DataFrame({'severity': [0, 1, 2]})
  outcomes = Outcomes({'net': wrong}, views)
  only = np.arange(3) == 0
  table = assemble(
    [means(CLEAN_ERROR, outcomes, where=only), means(ERROR, outcomes, ('severity',), where=~only)]
  )
  figure, _ = drawn(table, ERROR, CLEAN_ERROR)['error_severity']
  assert 100 * wrong[:, 0].mean() in [line.get_ydata()[0] for line in figure.axes[0].lines]


def test_a_facet_with_one_value_is_told_in_the_caption() -> None:
  wrong = np.random.default_rng(0).random((50, 3)) < 0.4
  views = pd.DataFrame({'k': [10] * 3, 'class': ['a', 'b', 'c']})
  figures = drawn(assemble([means(ERROR, Outcomes({'net': wrong}, views), ('k', 'class'))]))
  assert figures['error_k_class'][1].startswith('Top-1 error by class at k = 10, n = 50')


def test_single_seeds_have_no_picture_of_their_own(results: Results) -> None:
  both = assemble([results.table, with_facet(results.table, 'seed', 1)])
  assert set(drawn(both)) == set(charts.draw(results))


def test_quantities_that_do_not_head_the_findings_are_drawn_where_they_say_so() -> None:
  wrong = np.random.default_rng(0).random((50, 3)) < 0.4
  outcomes = Outcomes({'net': wrong}, pd.DataFrame({'severity': [1, 2, 3]}))
  others = [Quantity('a', 'a'), Quantity('b', 'b', drawn=True)]
  table = assemble([means(q, outcomes, ('severity',)) for q in (ERROR, *others)])
  assert set(drawn(table, ERROR, *others)) == {'error_severity', 'b_severity'}
  assert set(drawn(table, *others[:1])) == {'a_severity'}


def test_values_over_all_are_drawn_where_there_are_no_others() -> None:
  wrong = np.random.default_rng(0).random((50, 1)) < 0.4
  outcomes = Outcomes({'a': wrong, 'b': ~wrong}, pd.DataFrame(index=range(1)))
  figures = drawn(assemble([means(ERROR, outcomes)]))
  assert list(figures) == ['levels'] and len(figures['levels'][0].axes) == 2


def test_the_only_value_of_a_facet_is_drawn_among_the_levels() -> None:
  wrong = np.random.default_rng(0).random((50, 1)) < 0.4
  outcomes = Outcomes({'a': wrong}, pd.DataFrame({'epsilon': [0.1]}))
  figures = drawn(assemble([means(ERROR, outcomes, ('epsilon',))]))
  assert 'Top-1 error at ε = 0.1' in figures['levels'][1]


def test_one_quantity_is_drawn_against_another() -> None:
  wrong = np.random.default_rng(0).random((50, 3)) < 0.4
  views = pd.DataFrame({'environment': ['clean', 'fog', 'snow']})
  outcomes = Outcomes({'a': wrong, 'b': ~wrong}, views)
  only = np.arange(3) == 0
  table = assemble(
    [
      means(CLEAN_ERROR, outcomes, where=only),
      means(ERROR, outcomes, ('environment',), where=~only),
    ]
  )
  results = Results('made', [{'label': 'a'}, {'label': 'b'}], {}, {}, table=table)
  [(name, (figure, _))] = charts.scatter(results, CLEAN_ERROR, ERROR, 'environment').items()
  assert name == 'error_against_clean_error'
  assert [axes.get_title() for axes in figure.axes] == ['fog', 'snow']
  point = figure.axes[0].containers[0].lines[0]
  assert point.get_xdata()[0] == pytest.approx(100 * wrong[:, 0].mean())
  assert point.get_ydata()[0] == pytest.approx(100 * wrong[:, 1].mean())
  assert not charts.scatter(results, CLEAN_ERROR, Quantity('none', 'none'))


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


@pytest.mark.parametrize('name', ['class', 'low pass', '_angle', 'a {b}'])
def test_a_facet_may_have_any_name(name: str) -> None:
  views = pd.DataFrame({name: ['b', 'a', 'c']})
  wrong = np.random.default_rng(0).random((50, 3)) < 0.4
  table = assemble([means(ERROR, Outcomes({'net': wrong}, views), (name,))])
  made = Results('made', {'label': 'net'}, {}, {}, table=table, quantities=(ERROR,))
  [shown] = tables.tables(made)
  assert [row[0] for row in shown.table.rows] == ['b', 'a', 'c']
  assert set(charts.draw(made)) == {f'error_{name}'}
  told = sentences.sentences(made)
  assert all(f'in {name.replace("_", " ")} ' in text for text in told) and told


def test_names_that_differ_by_an_underscore_have_curves_of_their_own() -> None:
  views = pd.DataFrame({'thing': np.repeat(['a_b', 'a b'], 3), 'severity': [1, 2, 3] * 2})
  wrong = np.random.default_rng(0).random((50, 6)) < 0.4
  table = assemble([means(ERROR, Outcomes({'net': wrong}, views), ('thing', 'severity'))])
  figure, _ = drawn(table)['error_thing_severity']
  assert [axes.get_title() for axes in figure.axes] == ['a b', 'a b']
  np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), 100 * wrong[:, :3].mean(0))


def test_long_names_leave_room_for_what_they_name() -> None:
  long = ['a long name of a class, and another ' * 2, 'n' * 90, 'short']
  pairs = list(itertools.product(long, ['fog', 'a rather long name of a kind'], [1, 2, 3]))
  views = pd.DataFrame(pairs, columns=['class', 'environment', 'severity'])
  labels = ('first ' * 16, 's' * 90)
  wrong = np.random.default_rng(0).random((2, 50, len(views))) < 0.4
  outcomes = Outcomes(dict(zip(labels, wrong, strict=True)), views)
  by = (('class', 'environment'), ('class', 'severity'))
  figures = drawn(assemble([means(ERROR, outcomes, facets) for facets in by]))
  assert len(figures) == 4
  for figure, _ in figures.values():
    assert list(said.overlaps(figure)) == []
    for axes in figure.axes:
      assert axes.bbox.height > 40
      assert all(name.get_window_extent().x0 >= 0 for name in axes.get_yticklabels())


def test_maps_leave_room_for_long_titles() -> None:
  pairs = list(itertools.product(range(-4, 4), range(-4, 1)))
  views = pd.DataFrame(pairs, columns=['frequency_y', 'frequency_x'])
  wrong = np.random.default_rng(0).random((2, 50, len(views))) < 0.4
  labels = ('word ' * 20, 'resnet50 augmix ' * 6)
  outcomes = Outcomes(dict(zip(labels, wrong, strict=True)), views)
  for figure, _ in drawn(
    assemble([means(ERROR, outcomes, ('frequency_y', 'frequency_x'))])
  ).values():
    assert list(said.overlaps(figure)) == []


def test_maps_of_the_first_of_many_names_say_so() -> None:
  pairs = itertools.product([f'layer {k}' for k in range(26)], range(3), range(3))
  views = pd.DataFrame(pairs, columns=['layer', 'y', 'x'])
  wrong = np.random.default_rng(0).random((50, len(views))) < 0.4
  [(_, caption)] = drawn(
    assemble([means(ERROR, Outcomes({'net': wrong}, views), ('layer', 'y', 'x'))])
  ).values()
  assert caption.endswith(' The first 24 of 26.')


def test_long_words_of_a_quantity_stay_within_the_picture() -> None:
  words = 'accuracy on classes that were not seen in this environment'
  views = pd.DataFrame({'environment': ['a rather long name', 'fog']})
  quantity = Quantity('unseen', words)
  wrong = np.random.default_rng(0).random((50, 2)) < 0.4
  table = assemble([means(quantity, Outcomes({'net': wrong}, views), ('environment',))])
  results = Results('made', {'label': 'net'}, {}, {}, table=table, quantities=(quantity,))
  both = charts.scatter(results, quantity, quantity, 'environment')
  for figure, _ in {**charts.draw(results), **both}.values():
    figure.draw_without_rendering()
    width, height = figure.get_size_inches() * figure.dpi
    labels = [figure.axes[0].xaxis.label, *figure.texts]
    for box in (text.get_window_extent() for text in labels):
      assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height
