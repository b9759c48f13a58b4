"""Figures are saved reproducibly in the house style, which leaves the user's settings alone."""

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from robustness.estimates.quantity import ERROR
from robustness.present import style
from robustness.present.images import basis_figure, grid
from robustness.present.maps import FREQUENCIES, Panel, maps
from robustness.present.notation import Notation
from robustness.present.style import in_style, legend_above, percent, save
from tests.cases import cases


@pytest.mark.figures_as_saved
def test_save_writes_the_same_files_twice_and_leaves_nothing_else(tmp_path):
  kinds = {'png': b'\x89PNG', 'svg': b'<?xml', 'pdf': b'%PDF'}
  for name in 'ab':
    figure = basis_figure(np.ones((2, 2, 4, 4)))
    save(figure, tmp_path / 'new' / f'{name}.png', pdf=True)
  for kind, beginning in kinds.items():
    first, second = ((tmp_path / 'new' / f'{name}.{kind}').read_bytes() for name in 'ab')
    assert first == second and first.startswith(beginning) and len(first) > 1000
  assert {p.name for p in (tmp_path / 'new').iterdir()} == {f'{n}.{k}' for n in 'ab' for k in kinds}
  assert b'/FontType 3' not in (tmp_path / 'new' / 'a.pdf').read_bytes(), 'venues refuse it'


@pytest.mark.figures_as_saved
def test_a_pdf_is_written_where_there_is_one_already(tmp_path):
  pdf = tmp_path / 'a.pdf'
  save(basis_figure(np.ones((2, 2, 4, 4))), tmp_path / 'a.png')
  assert not pdf.exists()
  save(basis_figure(np.ones((2, 2, 4, 4))), tmp_path / 'a.png', pdf=True)
  first = pdf.read_bytes()
  save(basis_figure(np.zeros((2, 2, 4, 4))), tmp_path / 'a.png')
  assert pdf.read_bytes() != first


@pytest.mark.figures_as_saved
def test_a_large_map_is_pixels_within_a_small_vector_file(tmp_path):
  pairs = [(y, x) for y in range(-112, 1) for x in range(-112, 112)]
  rows = pd.DataFrame(pairs, columns=FREQUENCIES)
  rows = rows.assign(value=np.random.default_rng(0).random(len(rows)), marked=False)
  large = maps([Panel('net', rows, Notation(ERROR))], *FREQUENCIES)
  save(large, tmp_path / 'map.png', pdf=True)
  for kind in ('svg', 'pdf'):
    assert (tmp_path / f'map.{kind}').stat().st_size < 400_000, kind
  assert (tmp_path / 'map.svg').read_text().count('<image') >= 1
  assert (tmp_path / 'map.svg').read_text().count('<path') < 200, 'cells are no paths'


def test_settings_of_a_user_and_of_the_house_do_not_change_each_other_nor_after_an_error(tmp_path):
  def draw() -> Figure:
    return basis_figure(np.ones((1, 1, 4, 4)))

  save(draw(), tmp_path / 'house.png')
  with matplotlib.rc_context({'font.size': 30, 'axes.facecolor': 'red', 'savefig.dpi': 7}):
    save(draw(), tmp_path / 'user.png')
    assert matplotlib.rcParams['font.size'] == 30
  assert (tmp_path / 'house.png').read_bytes() == (tmp_path / 'user.png').read_bytes()

  @in_style
  def fail() -> None:
    assert matplotlib.rcParams['font.size'] == 8
    raise RuntimeError('stop')

  before = matplotlib.rcParams['font.size']
  with pytest.raises(RuntimeError, match='stop'):
    fail()
  assert matplotlib.rcParams['font.size'] == before


@pytest.fixture
def fonts(monkeypatch):
  """Returns a function that makes the files of fonts given to it the only ones installed."""
  cached = (style._fonts, style._is_drawn)

  def install(**names: str) -> None:
    for function in cached:
      function.cache_clear()
    folder = f'{matplotlib.get_data_path()}/fonts/ttf'
    files = {f'{file}.ttf': name for file, name in names.items()}
    monkeypatch.setattr(style, '_FURTHER_FONTS', files)
    monkeypatch.setattr(style, '_noted', set())
    paths = [f'{folder}/{file}' for file in files]
    monkeypatch.setattr(style.font_manager, 'findSystemFonts', lambda: paths)

  yield install
  for function in cached:
    function.cache_clear()


@in_style
def _titled(title: str) -> Figure:
  figure = Figure(figsize=(2, 1), layout='constrained')
  figure.subplots().set_title(title)
  return figure


@pytest.mark.figures_as_saved
def test_characters_that_no_font_has_are_logged_once_and_not_warned_of(tmp_path, fonts, caplog):
  fonts()
  for name in 'ab':
    save(_titled('模型 − ρ'), tmp_path / f'{name}.png')
  (record,) = caplog.records
  assert '型 模' in record.getMessage() and 'ρ' not in record.getMessage()


@pytest.mark.figures_as_saved
def test_installed_fonts_draw_what_the_usual_one_lacks_and_change_nothing_else(
  tmp_path, fonts, caplog
):
  files: dict[str, list[bytes]] = {'ℊ ⌖': [], 'plain − ρ': []}
  for installed in ({}, {'STIXGeneral': 'STIXGeneral'}):
    fonts(**installed)
    caplog.clear()
    for title, written in files.items():
      save(_titled(title), tmp_path / 'figure.png')
      written.append((tmp_path / 'figure.png').read_bytes())
  assert not caplog.records
  assert files['ℊ ⌖'][0] != files['ℊ ⌖'][1]
  assert files['plain − ρ'][0] == files['plain − ρ'][1]


@cases(
  'count, name',
  *((1, 'net'), (1, 'efficientnet_lite0_fine_tuned'), (7, 'efficientnet_lite0_fine_tuned')),
  *((1, 50 * 'long '), (7, 50 * 'long ')),
)
def test_a_legend_lies_within_its_figure_and_above_the_axes(count, name):
  figure = Figure(figsize=(3.4, 2.6), layout='constrained')
  axes = figure.subplots()
  for index in range(count):
    axes.plot([0, 1], [index, 0], label=f'{name} {index}')
  legend_above(figure)
  figure.canvas.draw()
  (legend,) = figure.legends
  box = legend.get_window_extent()
  assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
  assert box.y0 >= axes.bbox.y1 and axes.bbox.height > 100


def test_a_legend_has_labels_that_begin_with_an_underscore():
  figure = Figure(layout='constrained')
  axes = figure.subplots()
  axes.plot([0, 1], [0, 1], label='_mine')
  axes.errorbar([0], [1], [0.5], label='_theirs')
  axes.plot([0, 1], [1, 1])
  axes.bar([0], [1], label='_')
  axes.fill_between([0, 1], [0, 0], [1, 1])
  legend_above(figure)
  (legend,) = figure.legends
  assert [text.get_text() for text in legend.get_texts()] == ['_mine', '_theirs', '_']


def test_text_of_numbers_and_text_that_is_broken_where_words_are_joined():
  assert percent(0.0412) == '4%' and percent(float('nan')) == 'unknown'
  assert style.wrapped('efficientnet_lite0_fine tuned', 14) == 'efficientnet_\nlite0_fine\ntuned'
  assert style.wrapped('within k frames (pm-k)', 20) == 'within k frames\n(pm-k)'
  assert style.wrapped('abcdefgh', 3) == 'abc\ndef\ngh'
  assert style.wrapped('', 5) == ''
  assert style.wrapped('ab', 0) == 'a\nb', 'one letter a line without room'


def test_no_two_classifiers_look_the_same():
  assert len({style.colour(k) for k in range(14)}) == 14
  assert len({(style.colour(k), style.marker(k)) for k in range(100)}) == 100


def test_a_dollar_is_a_letter(tmp_path):
  """Matplotlib would read a dollar in labels, class names and folders as mathematics."""
  figure = grid({'$a_{': {'$\\frac': np.zeros((4, 4, 1))}}, 'folder: /tmp/$x_/$')
  save(figure, tmp_path / 'figure.png')


@in_style
def test_logarithmic_axes_need_no_mathematics():
  figure = Figure()
  axes = figure.subplots()
  axes.plot([1, 2], [1e-3, 1e2])
  style.log_scale(axes)
  figure.draw_without_rendering()
  labels = [text.get_text() for text in axes.get_yticklabels() if text.get_text()]
  assert '10⁻²' in labels and '10⁰' in labels and not any('$' in text for text in labels)
  axes.set_ylim(0.02, 0.08)
  figure.draw_without_rendering()
  assert '4×10⁻²' in [text.get_text() for text in axes.get_yminorticklabels()]
