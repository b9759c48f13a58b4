"""`charts.draw` draws a figure for each set of facets in a table of results."""

import itertools

import numpy as np
import pandas as pd
import pytest

from robustness.estimates.intervals import NEWCOMBE
from robustness.estimates.means import means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import ACCURACY, CLEAN_ERROR, ERROR, Quantity
from robustness.estimates.table import assemble, select, with_facet
from robustness.present import charts, sentences, style, tables
from robustness.results import NO_SPREAD, Results
from tests import faults
from tests.present.made_results import sentences_of

CHANGE = Quantity('change', 'change', 'amount')


def made(views: dict, *by, quantity: Quantity = ERROR, values=None, labels=('net',)) -> Results:
  """Returns results of a quantity with a row for each set of facets in `by`.

  Args:
    views: the facets of each view.
    *by: sets of facets; without any, all facets of the views.
    values: of each image and view, [50, V], or [labels, 50, V]; by default 40 % are wrong.
  """
  table = pd.DataFrame(views)
  if values is None:
    values = np.random.default_rng(0).random((len(labels), 50, len(table))) < 0.4
  elif len(labels) == 1:
    values = [values]
  outcomes = Outcomes(dict(zip(labels, values, strict=True)), table)
  parts = [means(quantity, outcomes, facets) for facets in by or (tuple(views),)]
  described = [{'label': label} for label in labels]
  return Results('made', described, {}, {}, table=assemble(parts), quantities=(quantity,))


def product(**facets) -> dict[str, list]:
  """Returns the facets of all combinations of values."""
  return dict(zip(facets, zip(*itertools.product(*facets.values()), strict=True), strict=True))


def drawn(table: pd.DataFrame, *quantities: Quantity) -> dict[str, charts.Picture]:
  labels = [{'label': label} for label in dict.fromkeys(table.classifier)]
  results = Results('made', labels, {}, {}, table=table, quantities=quantities or (ERROR,))
  return charts.draw(results)


@pytest.mark.parametrize('attacks', [('pgd',), ('pgd', 'fgsm')])
def test_names_of_two_lines_do_not_overlap_in_the_highest_figures(attacks):
  names = [f'a long name of the corruption number {number}' for number in range(38)]
  results = made(product(corruption=names, attack=attacks))
  ((figure, _caption),) = charts.draw(results).values()
  assert figure.get_figheight() > 8 and not [*faults.overlaps(figure)]


@pytest.mark.slow
@pytest.mark.parametrize('across', ['attack', 'severity'])
def test_heat_maps_of_many_classifiers_are_legible(across):
  labels = [f'network {number}' for number in range(30)]
  down = {'attack': 'corruption', 'severity': 'epsilon'}[across]
  values = {'attack': 'ab', 'corruption': 'abcdefgh', 'severity': range(3), 'epsilon': range(3)}
  figures = charts.draw(made(product(**{f: values[f] for f in (down, across)}), labels=labels))
  for figure, _caption in figures.values():
    assert not [*faults.overlaps(figure)]
    heights = [axes.get_position().height * figure.get_figheight() for axes in figure.axes]
    assert min(heights) > 0.7, 'inches'


def test_every_set_of_facets_is_a_picture_with_a_caption_and_names_have_points(results):
  figures = charts.draw(results)
  curve_names = 'error_corruption_severity', 'error_corruption_severity_difference'
  assert list(figures) == [*curve_names, 'error_corruption', 'error_severity']
  figure, caption = figures['error_corruption_severity']
  assert caption == 'Top-1 error by corruption and severity, n = 200; 95 % intervals.'
  assert {axes.get_title() for axes in figure.axes} == {'fog', 'snow'}
  rows = select(results.table, 'error', corruption='fog', severity=...)
  expected = 100 * rows[rows.classifier == 'first'].value
  np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), expected)
  figure, caption = figures['error_corruption']
  levels, difference = figure.axes
  assert levels.get_xlabel() == 'top-1 error (%)'
  assert difference.get_xlabel() == 'top-1 error minus that of first (points)'
  rows = select(results.table, 'error', 'first', corruption=...)
  points = difference.containers[0].lines[0].get_xdata()
  np.testing.assert_allclose(points, 100 * rows.value)
  assert caption.endswith(
    'Differences are from first, paired; a dot marks a significant one (false-discovery rate 5 % '
    'over 2 differences).'
  )
  curve = figures['error_severity'][0].axes[0].lines[1].get_color()
  assert curve == difference.containers[0].lines[0].get_color() == style.colour(1)


def test_dots_mark_differences_that_pass_the_test_together():
  generator = np.random.default_rng(0)
  first = generator.random((300, 6)) < 0.5
  second = np.concatenate([first[:, :3], first[:, 3:] & (generator.random((300, 3)) < 0.3)], 1)
  views = pd.DataFrame({'corruption': np.repeat(['fog', 'snow'], 3), 'severity': [1, 2, 3] * 2})
  outcomes = Outcomes({'a': first, 'b': second}, views)
  table = assemble([means(ERROR, outcomes, ('corruption', 'severity'), test=True)])
  figure, caption = drawn(table)['error_corruption_severity_difference']
  texts = [text.get_text() for text in figure.axes[0].texts]
  assert [text.endswith('•') for text in texts] == [False] * 3 + [True] * 3
  assert 'false-discovery rate 5 % over 6 differences' in caption


@pytest.mark.parametrize('quantity', [ERROR, ACCURACY])
def test_of_many_names_those_are_drawn_at_which_a_classifier_is_worst(quantity, monkeypatch):
  """The second classifier is right on no image of b; both are right on half of a, and on all of c
  and d."""
  monkeypatch.setattr(charts, 'MAX_POINTS', 2)
  is_right = np.ones((2, 50, 4), bool)
  is_right[:, ::2, 0], is_right[1, :, 1] = False, False
  values = is_right if quantity is ACCURACY else ~is_right
  results = made({'corruption': [*'abcd']}, values=values, labels=('one', 'two'), quantity=quantity)
  figure, caption = charts.draw(results)[f'{quantity.name}_corruption']
  assert 'over 4 differences' in caption  # the family has those that are not drawn
  assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ['b', 'a']


@pytest.mark.parametrize('facet', [{'corruption': ['fog', 'snow']}, {'severity': [1, 2]}])
def test_the_dot_of_a_significant_difference_has_an_edge_that_shows_on_a_black_point(facet):
  labels = [f'net {k}' for k in range(1 + style.COLOURS.index('#000000'))]
  values = np.arange(50)[:, None] < 8 * np.arange(len(labels))[:, None, None] + [0, 0]
  figure, _ = charts.draw(made(facet, values=values, labels=labels))[f'error_{next(iter(facet))}']
  dots = [line for line in figure.axes[1].lines if line.get_markeredgecolor() == 'white']
  assert sum(len(line.get_xdata()) for line in dots) == 2 * (len(labels) - 1)


def test_two_facets_on_axes_are_a_map_or_curves_where_one_has_few_values():
  wrong = np.random.default_rng(0).random((50, 12)) < 0.4
  figure, caption = charts.draw(made(product(y=range(3), x=range(4)), values=wrong))['error_y_x']
  assert 'a dot' not in caption
  np.testing.assert_allclose(figure.axes[0].images[0].get_array().ravel(), 100 * wrong.mean(0))
  wrong = wrong[:, :10]
  panels = charts.draw(made(product(far=(-1, 0), angle=range(5)), values=wrong))
  panels = panels['error_far_angle'][0].axes
  assert [axes.get_title() for axes in panels] == ['far −1', 'far 0']
  np.testing.assert_allclose(panels[1].lines[0].get_ydata(), 100 * wrong[:, 5:].mean(0))


@pytest.mark.parametrize('side', [4, 5])
def test_a_fourier_map_has_each_frequency_and_its_mirror(side):
  """U_ij and U_−i−j have one value; the Nyquist frequency −N/2 equals its negative."""
  frequencies = np.fft.fftshift(np.fft.fftfreq(side, 1 / side)).astype(int)
  negative = {f: f if 2 * f == -side else -f for f in frequencies}
  expected = np.random.default_rng(0).random((side, side))
  half = []
  for y, x in itertools.product(range(side), repeat=2):
    pair = frequencies[y], frequencies[x]
    mirror = negative[pair[0]], negative[pair[1]]
    if pair <= mirror:
      half.append(pair)
      expected[tuple(np.searchsorted(frequencies, mirror))] = expected[y, x]
  views = dict(zip(('frequency_y', 'frequency_x'), np.transpose(half), strict=True))
  values = expected[tuple(np.searchsorted(frequencies, axis) for axis in views.values())]
  results = made(views, quantity=CHANGE, values=np.stack([values] * 2))
  figure, _ = charts.draw(results)['change_frequency_y_frequency_x']
  np.testing.assert_allclose(figure.axes[0].images[0].get_array(), expected)


def test_a_name_and_two_axes_are_maps_of_each_classifier_of_the_first_names():
  values = np.random.default_rng(0).random((2, 5, 24))
  views = product(layer=('stem', 'head'), y=range(3), x=range(4))
  figures = charts.draw(made(views, quantity=CHANGE, values=values, labels=('a', 'b')))
  assert list(figures) == ['change_layer_y_x_a', 'change_layer_y_x_b']
  assert all('Differences' not in caption for _, caption in figures.values())
  panels = figures['change_layer_y_x_a'][0].axes[:2]
  assert [axes.get_title() for axes in panels] == ['stem', 'head']
  many = product(layer=[f'layer {k}' for k in range(26)], y=range(3), x=range(3))
  [(_, caption)] = charts.draw(made(many)).values()
  assert caption.endswith(' The first 24 of 26.')


def test_two_names_are_a_grid_with_numbers_a_dash_without_one_and_zero_without_a_sign():
  views = {'environment': ['snow'] * 2 + ['fog'] * 2, 'class_group': ['A', 'B'] * 2}
  wrong = np.random.default_rng(0).random((50, 4)) < [0.1, 0.5, 0.9, 0.4]
  results = made(views, values=wrong)
  results.table['note'] = ['seen in training', '', '', '']
  figure, caption = charts.draw(results)['error_environment_class_group']
  axes = figure.axes[0]
  assert [text.get_text() for text in axes.texts] == [f'{100 * v:.0f}' for v in wrong.mean(0)]
  [outline] = axes.patches
  results.table['note'] = ['seen in training', NO_SPREAD, NO_SPREAD, '']
  figure, again = charts.draw(results)['error_environment_class_group']
  assert len(figure.axes[0].patches) == 1 and again == caption
  assert np.allclose(outline.get_xy(), -0.46) and caption.endswith('Outlined: seen in training.')
  views = product(environment=['fog', 'snow', 'rain'], class_group=['A', 'B', 'C'])
  values = np.array([[-0.04, 30, 30, -30, 30, 30, 30, 30, 30]] * 2)
  table = made(views, quantity=CHANGE, values=values).table
  without_corner = table[table['class_group'].ne('C') | table['environment'].ne('rain')]
  figure, _ = drawn(without_corner, CHANGE)['change_environment_class_group']
  texts = {text.get_position(): text.get_text() for text in figure.axes[0].texts}
  assert (texts[0, 0], texts[0, 1], texts[2, 2]) == ('0', '−30', '–')


def test_the_clean_error_is_drawn_as_level_lines_and_against_the_error():
  wrong = np.random.default_rng(0).random((50, 3)) < [0.4, 0.4, 0.95]
  outcomes = Outcomes({'a': wrong, 'b': ~wrong}, pd.DataFrame({'severity': [0, 1, 2]}))
  only = np.arange(3) == 0
  clean = means(CLEAN_ERROR, outcomes, where=only)
  table = assemble([clean, means(ERROR, outcomes, ('severity',), where=~only)])
  figure, caption = drawn(table, ERROR, CLEAN_ERROR)['error_severity']
  assert caption.endswith(' Dotted level lines: top-1 error on clean images.')
  assert 100 * wrong[:, 0].mean() in [line.get_ydata()[0] for line in figure.axes[0].lines]
  results = Results('made', [{'label': 'a'}, {'label': 'b'}], {}, {}, table=table)
  [(name, (figure, _))] = charts.scatter(results, CLEAN_ERROR, ERROR, 'severity').items()
  assert name == 'error_against_clean_error'
  assert [axes.get_title() for axes in figure.axes] == ['severity 1', 'severity 2']
  low, high = figure.axes[0].get_ylim()
  assert all(low <= axes.dataLim.y0 and axes.dataLim.y1 <= high for axes in figure.axes)
  point = figure.axes[0].containers[0].lines[0]
  expected = 100 * wrong[:, :2].mean(0)
  assert (point.get_xdata()[0], point.get_ydata()[0]) == pytest.approx(tuple(expected))
  assert not charts.scatter(results, CLEAN_ERROR, Quantity('none', 'none'), 'severity')


def test_the_axis_of_values_that_are_all_equal_is_the_range_of_the_quantity():
  rho = Quantity('rho', 'rho', 'ratio', high=1)
  views = product(thing=['a', 'b', 'c'], severity=[1, 2, 3])
  by = ('thing',), ('thing', 'severity')
  zero = charts.draw(made(views, *by, quantity=rho, values=np.zeros((9, 9))))
  assert zero['rho_thing'][0].axes[0].get_xlim() == (-0.05, 1.05)
  assert {axes.get_ylim() for axes in zero['rho_thing_severity'][0].axes} == {(-0.05, 1.05)}
  values = np.repeat([[0, 0, 0, 0.1, 0.1, 0.1, 0, 0, 0]], 9, 0)
  other = charts.draw(made(views, *by, quantity=rho, values=values))
  assert other['rho_thing'][0].axes[0].get_xlim()[1] < 0.2
  [low, high] = other['rho_thing_severity'][0].axes[0].get_ylim()
  assert low < 0 and 0.1 < high < 0.2


@pytest.mark.parametrize('of_classes', [True, False])
def test_the_reference_is_a_bar_for_each_name_or_one_dashed_line_over_all(of_classes):
  wrong = np.random.default_rng(0).random((50, 4)) < [0.4, 0.8, 0.1, 0.3]
  views = pd.DataFrame({'class': ['a', 'b'] * 2})
  outcomes, clean = Outcomes({'net': wrong}, views), np.arange(4) > 1
  parts = [means(CLEAN_ERROR, outcomes, where=clean)]
  parts += [means(CLEAN_ERROR, outcomes, ('class',), where=clean)] * of_classes
  table = assemble([*parts, means(ERROR, outcomes, ('class',), where=~clean)])
  figure, caption = drawn(table, ERROR, CLEAN_ERROR)['error_class']
  kind = 'Bars' if of_classes else 'Broken lines'
  assert caption.endswith(f' {kind}: top-1 error on clean images.')
  clean_wrong, lines = wrong[:, clean], figure.axes[0].lines
  [bars] = [line.get_xdata() for line in lines if line.get_marker() == '|']
  dashed = [line.get_xdata() for line in lines if line.get_linestyle() == '--']
  np.testing.assert_allclose(bars, 100 * clean_wrong.mean(0) if of_classes else [np.nan] * 2)
  np.testing.assert_allclose(dashed, [] if of_classes else [[100 * clean_wrong.mean()] * 2])
  [(_, caption)] = drawn(table[table['quantity'] == 'error'], ERROR, CLEAN_ERROR).values()
  assert 'Bars' not in caption and 'lines' not in caption


def test_captions_say_which_differences_are_unpaired_and_name_all_baselines(results):
  plot = charts.values_and_differences(results.table, ERROR)[-1]
  for count, pairing in (
    (0, 'paired'),
    (1, 'paired on shared images'),
    (len(plot.rows), 'unpaired'),
  ):
    methods = [NEWCOMBE] * count + ['bonett-price'] * (len(plot.rows) - count)
    rows = plot.rows.assign(method=methods)
    assert f' from first, {pairing}; ' in charts.difference_words(plot._replace(rows=rows))
  unpaired = results.table.assign(method=NEWCOMBE)
  assert charts.values_and_differences(unpaired, ERROR)[-1].title == 'differences'
  rows = plot.rows.assign(versus=['other', *plot.rows.versus[1:]])
  assert ' from other or first, ' in charts.difference_words(plot._replace(rows=rows))


def test_captions_name_the_only_value_and_the_omitted_names_and_values_over_all_are_drawn():
  figures = charts.draw(made({'k': [10] * 3, 'class': ['a', 'b', 'c']}))
  assert figures['error_k_class'][1].startswith('Top-1 error by class at k = 10, n = 50')
  figures = charts.draw(made({'thing': [f'thing {k}' for k in range(60)]}))
  assert figures['error_thing'][1].endswith(' The 40 largest of 60.')
  wrong = np.random.default_rng(0).random((50, 1)) < 0.4
  outcomes = Outcomes({'a': wrong, 'b': ~wrong}, pd.DataFrame(index=range(1)))
  figures = drawn(assemble([means(ERROR, outcomes)]))
  assert list(figures) == ['levels'] and len(figures['levels'][0].axes) == 2
  assert 'Top-1 error at ε = 0.1' in charts.draw(made({'epsilon': [0.1]}))['levels'][1]


def test_single_seeds_are_not_drawn_and_minor_quantities_only_if_declared_or_alone(results):
  with_seed = assemble([results.table, with_facet(results.table, 'seed', 1)])
  assert set(drawn(with_seed)) == set(charts.draw(results))
  minor = [Quantity('a', 'a'), Quantity('b', 'b', drawn=True)]
  views = {'severity': [1, 2, 3]}
  table = assemble([made(views, quantity=q).table for q in (ERROR, *minor)])
  assert set(drawn(table, ERROR, *minor)) == {'error_severity', 'b_severity'}
  assert set(drawn(table, *minor[:1])) == {'a_severity'}


def test_overall_shares_without_differences_have_a_separate_figure():
  wrong = np.random.default_rng(0).random((50, 1)) < 0.4
  outcomes = Outcomes({'a': wrong, 'b': ~wrong}, pd.DataFrame(index=range(1)))
  part = Quantity('high', 'share of high frequency')
  table = assemble([means(ERROR, outcomes, test=True), means(part, outcomes, paired=False)])
  figures = drawn(table, ERROR, part)
  assert list(figures) == ['levels', 'levels_without_differences']
  axis_labels = [[axes.get_xlabel() for axes in figure.axes] for figure, _ in figures.values()]
  assert axis_labels == [['share (%)', 'share minus that of a (points)'], ['share (%)']]
  paired, unpaired = (caption for _, caption in figures.values())
  assert paired.startswith('Top-1 error, n = 50;') and 'a dot marks a significant one' in paired
  assert unpaired == 'Share of high frequency, n = 50; 95 % intervals.'
  [(name, _)] = drawn(table[table['quantity'] == 'high'], part).items()
  assert name == 'levels'


@pytest.mark.parametrize('name', ['class', 'low pass', '_angle', 'a {b}'])
def test_a_facet_may_have_any_name(name):
  results = made({name: ['b', 'a', 'c']})
  [titled] = tables.tables(results)
  assert [row[0] for row in titled.table.rows] == ['b', 'a', 'c']
  assert set(charts.draw(results)) == {f'error_{name}'}
  texts = sentences_of(results)
  assert all(f'in {name.replace("_", " ")} ' in text for text in texts) and texts


def test_names_that_differ_by_an_underscore_have_separate_curves():
  wrong = np.random.default_rng(0).random((50, 6)) < 0.4
  results = made(product(thing=['a_b', 'a b'], severity=[1, 2, 3]), values=wrong)
  figure, _ = charts.draw(results)['error_thing_severity']
  assert [axes.get_title() for axes in figure.axes] == ['a b', 'a b']
  np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), 100 * wrong[:, :3].mean(0))


def test_long_names_and_words_leave_room_and_stay_within_the_picture():
  long = ['a long name of a class, and another ' * 2, 'n' * 90, 'short']
  kinds = ['fog', 'a rather long name of a kind']
  views = product(**{'class': long, 'environment': kinds, 'severity': [1, 2, 3]})
  by = (('class', 'environment'), ('class', 'severity'))
  figures = charts.draw(made(views, *by, labels=('first ' * 16, 's' * 90)))
  assert len(figures) == 4
  for figure, _ in figures.values():
    assert list(faults.overlaps(figure)) == []
    for axes in figure.axes:
      assert axes.bbox.height > 40
      assert all(name.get_window_extent().x0 >= 0 for name in axes.get_yticklabels())
  views = product(frequency_y=range(-4, 4), frequency_x=range(-4, 1))
  for figure, _ in charts.draw(made(views, labels=('word ' * 20, 'resnet50 augmix ' * 6))).values():
    assert list(faults.overlaps(figure)) == []
  words = 'accuracy on classes that were not seen in this environment'
  quantity = Quantity('unseen', words)
  views = product(environment=kinds, severity=[1, 2, 3])
  many = [f'{index} {"letters" * 4}' for index in range(20)]  # in a legend of many lines
  drawn = charts.draw(made(views, quantity=quantity, labels=many))
  figure, _ = drawn['unseen_environment_severity']
  assert list(faults.overlaps(figure)) == []
  environments, by = {'environment': ['a rather long name', 'fog']}, ((), ('environment',))
  results = made(environments, *by, quantity=quantity)
  scatter = charts.scatter(results, quantity, quantity, 'environment')
  for figure, _ in {**charts.draw(results), **scatter}.values():
    figure.draw_without_rendering()
    width, height = figure.get_size_inches() * figure.dpi
    labels = [figure.axes[0].xaxis.label, *figure.texts]
    for box in (text.get_window_extent() for text in labels):
      assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height


def test_equal_estimates_of_a_single_severity_have_one_picture_and_one_sentence():
  wrong = np.random.default_rng(0).random((2, 50, 8)) < 0.4
  views = {'corruption': [f'c{k}' for k in range(8)], 'severity': [3] * 8}
  results = made(
    views, ('corruption', 'severity'), ('corruption',), values=wrong, labels=('a', 'b')
  )
  assert list(charts.draw(results)) == ['error_corruption']
  largest = [finding for finding in sentences.findings(results) if 'largest' in finding.text]
  assert {finding.figure for finding in largest} == {'error_corruption'}


@pytest.mark.parametrize('by', ['corruption', 'severity'])
def test_a_degenerate_value_is_hollow_and_says_so(by):
  views = {by: ['fog', 'snow', 'frost'] if by == 'corruption' else [1, 2, 3]}
  results = made(views)
  first = results.table.index[0]
  results.table.loc[first, 'note'] = 'degenerate; a draw'
  figure, caption = charts.draw(results)[f'error_{by}']
  hollow = [line for line in figure.axes[0].lines if line.get_markerfacecolor() == 'white']
  assert [len(line.get_xdata()) for line in hollow] == [1]
  assert 'Hollow, without an interval: degenerate' in caption
  [titled] = tables.tables(results)
  assert [row[1].endswith('), degenerate') for row in titled.table.rows] == [True, False, False]


@pytest.mark.parametrize('share', [0.25, 1.0])
def test_dots_of_a_map_mark_every_significant_cell(share):
  right = np.zeros((50, 12), bool)
  wrong = right | (np.arange(12) >= 12 * (1 - share))
  results = made(product(y=range(3), x=range(4)), values=[right, wrong], labels=('a', 'b'))
  figure, caption = charts.draw(results)['error_y_x']
  [dots] = [line for line in figure.axes[2].lines if line.get_marker() == 'o']
  assert len(dots.get_xydata()) == 12 * share
  assert 'a dot marks a significant one' in caption
