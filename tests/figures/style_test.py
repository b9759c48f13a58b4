"""Saving figures, and the house style's isolation."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from robustness.figures import basis_gallery, heat_map_panels, save
from robustness.figures.style import (
  add_box,
  dashed,
  legend_above,
  percent,
  percent_with_interval,
  styled,
  whole,
)
from robustness.results import Number


@pytest.mark.figures_as_saved
def test_save_writes_the_same_files_twice_and_leaves_nothing_else(tmp_path):
  kinds = {'png': b'\x89PNG', 'svg': b'<?xml', 'pdf': b'%PDF'}
  for name in 'ab':
    figure = basis_gallery(np.ones((2, 2, 4, 4)), [0, 1], [0, 1])
    save(figure, tmp_path / 'new' / f'{name}.png')
  for kind, beginning in kinds.items():
    first, second = ((tmp_path / 'new' / f'{name}.{kind}').read_bytes() for name in 'ab')
    assert first == second and first.startswith(beginning) and len(first) > 1000
  assert {p.name for p in (tmp_path / 'new').iterdir()} == {f'{n}.{k}' for n in 'ab' for k in kinds}
  assert b'/FontType 3' not in (tmp_path / 'new' / 'a.pdf').read_bytes(), 'venues refuse it'


@pytest.mark.figures_as_saved
def test_a_large_map_is_pixels_within_a_small_vector_file(tmp_path):
  values, axis = np.random.default_rng(0).random((224, 224)), np.arange(-112, 112)
  large = heat_map_panels({'net': values}, axis, axis)
  save(large, tmp_path / 'map.png')
  for kind in ('svg', 'pdf'):
    assert (tmp_path / f'map.{kind}').stat().st_size < 400_000, kind
  assert (tmp_path / 'map.svg').read_text().count('<image') >= 1
  assert (tmp_path / 'map.svg').read_text().count('<path') < 200, 'no path a cell'


@pytest.mark.parametrize('place', ['lower right', 'outside upper left', 'outside lower center'])
def test_small_print_lies_below_all_else(tmp_path, place: str):
  for name in ('plain', 'boxed'):
    figure = Figure(figsize=(3.4, 2.6), layout='constrained')
    figure.add_subplot().plot([0, 1], [0, 1], label='one')
    figure.legend(loc=place)
    if name == 'boxed':
      add_box(figure, 'small print ' * 20)
    save(figure, tmp_path / f'{name}.png')
  plain, boxed = (imread(tmp_path / f'{name}.png') for name in ('plain', 'boxed'))
  assert len(boxed) > len(plain) and (boxed[len(plain) :] < 1).any()
  assert (boxed[: len(plain)] != plain).mean() < 0.01, 'but for edges between pixels'


def test_a_users_settings_neither_change_the_figure_nor_are_changed(tmp_path):
  def draw() -> Figure:
    return basis_gallery(np.ones((1, 1, 4, 4)), [0], [0])

  save(draw(), tmp_path / 'house.png')
  with matplotlib.rc_context({'font.size': 30, 'axes.facecolor': 'red', 'savefig.dpi': 7}):
    save(draw(), tmp_path / 'user.png')
    assert matplotlib.rcParams['font.size'] == 30
  assert (tmp_path / 'house.png').read_bytes() == (tmp_path / 'user.png').read_bytes()


@pytest.mark.parametrize('count', [1, 4, 7])
@pytest.mark.parametrize('name', ['net', 'efficientnet_lite0_fine_tuned', 50 * 'long '])
def test_a_legend_lies_within_its_figure_and_above_the_axes(count: int, name: str):
  figure = Figure(figsize=(3.4, 2.6), layout='constrained')
  axes = figure.subplots()
  for index in range(count):
    axes.plot([0, 1], [index, 0], label=f'{name} {index}')
  legend_above(figure, [dashed('clean error')])
  figure.canvas.draw()
  (legend,) = figure.legends
  box = legend.get_window_extent()
  assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
  assert box.y0 >= axes.bbox.y1 and axes.bbox.height > 100
  assert [text.get_text() for text in legend.get_texts()][-1] == 'clean error'


def test_styled_restores_settings_after_an_error():
  @styled
  def fail() -> None:
    assert matplotlib.rcParams['font.size'] == 8
    raise RuntimeError('stop')

  before = matplotlib.rcParams['font.size']
  with pytest.raises(RuntimeError, match='stop'):
    fail()
  assert matplotlib.rcParams['font.size'] == before


def test_text_of_numbers():
  assert percent(0.0412) == '4.1%' and percent(float('nan')) == 'unknown'
  number = Number(0.041, 0.0296, 0.0552, 1000, '')
  assert percent_with_interval(number) == '4.1% [3.0, 5.5]'
  assert whole(-3) == '−3'
