"""`maps.maps` and `maps.grids` draw values in cells, with scales, ticks, numbers and outlines."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from robustness.estimates.quantity import Quantity
from robustness.present import maps
from robustness.present.notation import Notation
from tests.cases import cases


def test_differences_begin_a_line_where_not_all_fit_one():
  assert maps._arrange_maps([3, 2]) == (5, [range(3), range(3, 5)])
  assert maps._arrange_maps([7, 6]) == (4, [range(7), range(8, 14)])
  assert maps._arrange_maps([13]) == (5, [range(13)])


@cases('distances', ([1.0, 2.0, 5.0, 20.0],), ([1.0, 2.0, 3.0, 4.0],), ([3.0],))
def test_a_cell_has_its_colour_at_its_coordinates(distances):
  y, x = np.meshgrid([100.0, 200.0, 1600.0], distances, indexing='ij')
  value = np.arange(x.size) / 100
  rows = pd.DataFrame({'iso': y.ravel(), 'distance': x.ravel(), 'value': value, 'marked': False})
  panel = maps.Panel('', rows, Notation(Quantity('error', 'error', better='lower')))
  figure = maps.maps([panel], 'iso', 'distance')
  canvas = FigureCanvasAgg(figure)
  canvas.draw()
  pixels = np.asarray(canvas.buffer_rgba())[::-1]
  across, up = figure.axes[0].transData.transform(np.stack([x.ravel(), y.ravel()], 1)).astype(int).T
  (drawn,) = [*figure.axes[0].images, *figure.axes[0].collections]
  expected = drawn.to_rgba(100 * value, bytes=True)
  np.testing.assert_allclose(pixels[up, across].astype(int), expected, atol=2)


@cases('better, draw', ('higher', maps.maps), ('lower', maps.maps), ('higher', maps.grids))
def test_a_difference_is_blue_where_the_classifier_is_better(better, draw):
  y, x = np.meshgrid([1.0, 2.0], [1.0, 2.0], indexing='ij')
  change = np.array([0.4, -0.4, 0.1, 0.0]) * (1 if better == 'higher' else -1)
  rows = pd.DataFrame({'row': y.ravel(), 'column': x.ravel(), 'value': change, 'marked': False})
  rows = rows.assign(note='', low=np.nan, high=np.nan)
  panel = maps.Panel('', rows, Notation(Quantity('q', 'q', better=better), difference=True))
  figure = draw([panel], 'row', 'column')
  (drawn,) = [*figure.axes[0].images, *figure.axes[0].collections]
  (red, _, blue, _), (much_red, _, less_blue, _) = drawn.to_rgba(100 * change[:2])
  assert blue > red and much_red > less_blue


@cases(
  'kind, value, ends',
  ('share', 1.0, (0, 100)),  # 100 % at every frequency is not drawn as the lowest colour
  ('share', 0.0, (0, 100)),
  ('amount', 3.0, (3, 4)),
)
def test_equal_values_have_the_scale_of_the_range_of_the_quantity(kind, value, ends):
  y, x = np.meshgrid([1.0, 2.0], [1.0, 2.0], indexing='ij')
  rows = pd.DataFrame({'row': y.ravel(), 'column': x.ravel(), 'value': value, 'marked': False})
  panel = maps.Panel('', rows, Notation(Quantity('q', 'q', kind)))
  (image,) = maps.maps([panel], 'row', 'column').axes[0].images
  assert image.get_clim() == ends


def test_scales_are_separate_and_next_to_the_maps_of_their_kind():
  y, x = np.meshgrid([1.0, 2.0], [1.0, 2.0], indexing='ij')
  rows = pd.DataFrame({'row': y.ravel(), 'column': x.ravel(), 'value': 0.5, 'marked': False})
  error = Quantity('error', 'error', better='lower')
  panels = [
    maps.Panel(f'map {k}', rows, Notation(error, difference=difference))
    for difference, count in ((False, 7), (True, 6))
    for k in range(count)
  ]
  figure = maps.maps(panels, 'row', 'column')
  figure.canvas.draw()
  left_edges = [axes.get_position().x0 for axes in figure.axes[:16]]
  np.testing.assert_allclose(np.reshape(left_edges, (4, 4)), [left_edges[:4]] * 4, atol=1e-3)
  bars = [axes.get_position() for axes in figure.axes[16:]]
  assert len(bars) == 2 and bars[0].y0 > bars[1].y1, 'neither covers the other'
  titles = [axes.get_title() for axes in figure.axes[:16]]
  assert titles[7] == '' and titles[8] == 'map 0'


@cases(
  'least, decades, ticks',
  (0.03, 0, ['0.05', '0.1', '0.2', '0.5', '1']),
  (1e-9, 4, ['10⁻⁴', '10⁻³', '10⁻²', '10⁻¹', '10⁰']),
)
def test_the_ticks_of_spectra_are_round(least, decades, ticks):
  magnitudes = np.geomspace(least, 1, 64).reshape(8, 8)
  figure = maps.spectrum_panels(['one'], [magnitudes], decades=decades)
  figure.canvas.draw()
  labels = [label.get_text() for label in figure.axes[1].get_yticklabels()]
  assert set(ticks) <= set(labels), 'and others beyond its ends'


def _constant_grid(value: float, down: int, across: int) -> maps.Panel:
  y, x = np.meshgrid(range(down), range(across), indexing='ij')
  rows = pd.DataFrame({'row': y.ravel(), 'column': x.ravel(), 'value': value, 'marked': False})
  notation = Notation(Quantity('error', 'error', better='lower'))
  return maps.Panel('', rows.assign(note='', low=np.nan, high=np.nan), notation)


@pytest.mark.slow
@cases('count, down, across', (9, 15, 5), (24, 2, 7))
def test_numbers_of_many_grids_are_legible(count, down, across):
  panel = _constant_grid(0.5, down, across)
  texts = [
    text for axes in maps.grids([panel] * count, 'row', 'column').axes for text in axes.texts
  ]
  assert {text.get_text() for text in texts} == {'50'}
  assert min(text.get_fontsize() for text in texts) >= maps.MIN_FONT_SIZE


@cases(
  'count, down, across, sizes',
  (43, 60, 7, [2] * 21 + [1]),
  (43, 60, 6, [6] * 7 + [1]),
  (9, 15, 5, [9]),
)
def test_many_grids_are_in_figures_of_at_most_two_pages(count, down, across, sizes):
  panels = [_constant_grid(0.5, down, across)] * count
  pages = maps.pages(panels, 'row', 'column')
  assert [len(page) for page in pages] == sizes


def test_grids_of_several_figures_have_one_colour_scale():
  panels = [_constant_grid(value, 2, 2) for value in (0.25, 0.75)]
  for panel in panels:
    bar = maps.grids([panel], 'row', 'column', scaled=panels).axes[-1]
    assert bar.get_ylim() == (0, 75)


def test_a_grid_whose_first_line_lacks_a_name_keeps_the_order_of_the_others():
  panel = _constant_grid(0.5, 3, 3)
  panel = panel._replace(rows=panel.rows[panel.rows.row + panel.rows.column > 0])
  axes = maps.grids([panel], 'row', 'column').axes[0]
  for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
    assert [label.get_text() for label in labels] == ['0', '1', '2']


def test_a_unit_has_a_separate_line_only_where_it_does_not_fit():
  y, x = np.meshgrid(np.arange(0.0, 4), np.arange(-3.0, 4), indexing='ij')
  rows = pd.DataFrame({'frequency_y': y.ravel(), 'frequency_x': x.ravel(), 'marked': False})
  quantity = Quantity('q', 'top-1 error under waves of norm 4')
  panel = maps.Panel('', rows.assign(value=x.ravel() / 10), Notation(quantity))
  axes, bar = maps.maps([panel], 'frequency_y', 'frequency_x').axes
  assert bar.get_ylabel().endswith('norm 4 (%)'), bar.get_ylabel()
  assert axes.get_xlabel() == 'horizontal frequency\n(cycles per image)'
  assert axes.get_ylabel() == 'vertical frequency\n(cycles per image)'


def test_a_low_grid_has_the_whole_name_of_a_facet():
  panel = _constant_grid(0.5, 2, 2)
  name = 'vertical_place_as_a_share_of_the_height'
  panel = panel._replace(rows=panel.rows.rename(columns={'row': name}))
  figure = maps.grids([panel], name, 'column')
  figure.draw_without_rendering()
  [box] = [text.get_window_extent() for text in figure.texts if 'vertical' in text.get_text()]
  assert box.y0 >= 0 and box.y1 <= figure.bbox.height


@cases('values, ticks', ([-1, 0], [-1, 0]), ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]))
def test_a_map_has_ticks_at_whole_numbers_where_its_cells_are(values, ticks):
  panel = _constant_grid(0.5, len(values), len(values))
  rows = panel.rows.assign(**{name: panel.rows[name] + values[0] for name in ('row', 'column')})
  axes, _ = maps.maps([panel._replace(rows=rows)], 'row', 'column').axes
  low, high = axes.get_xlim()
  assert [tick for tick in axes.get_xticks() if low < tick < high] == ticks


def test_the_name_of_a_bar_is_as_long_as_the_bar():
  y, x = np.meshgrid(np.arange(-4.0, 5), np.arange(-4.0, 5), indexing='ij')
  rows = pd.DataFrame({'frequency_y': y.ravel(), 'frequency_x': x.ravel(), 'marked': False})
  rows, quantity = rows.assign(value=x.ravel() / 10), Quantity('q', 'top-1 error under waves')
  name = 'wide_resnet28_10_gaussian_noise'
  values = maps.Panel(name, rows, Notation(quantity))
  differences = maps.Panel(f'{name} − {name}', rows, Notation(quantity, True, name))
  *_, bar = maps.maps([values] * 12 + [differences] * 11, 'frequency_y', 'frequency_x').axes
  assert bar.get_ylabel().count('\n') < 3, 'the bar is as high as two lines of maps'


def test_outlines_of_cells_are_white_where_the_cell_is_dark():
  rows = pd.DataFrame({'row': ['a', 'b'], 'column': ['x', 'x'], 'value': [0.0, 1.0]})
  rows = rows.assign(marked=False, note='noted', low=np.nan, high=np.nan)
  panel = maps.Panel('', rows, Notation(Quantity('q', 'q')))
  outlines = maps.grids([panel], 'row', 'column').axes[0].patches
  assert [patch.get_edgecolor()[:3] for patch in outlines] == [(1, 1, 1), (0, 0, 0)]
