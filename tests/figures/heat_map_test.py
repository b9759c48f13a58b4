"""Heat maps: what is drawn where, on which scale, with which words."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from robustness.core.errors import InputError
from robustness.figures import draw_difference_map, draw_heat_map, heat_map_panels, save
from robustness.figures.heat_map import rounded_up
from robustness.metrics import proportion


def centred(n: int) -> np.ndarray:
  return np.arange(n) - n // 2


def error_map(height: int, width: int, seed: int = 0) -> np.ndarray:
  return np.random.default_rng(seed).uniform(0, 0.6, (height, width))


def words(figure: Figure) -> str:
  texts = [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, 'get_text'))]
  return '\n'.join(texts).replace('\n', ' ')


@pytest.mark.parametrize(('height', 'width'), [(28, 28), (7, 7), (31, 32), (12, 30), (1, 1)])
def test_any_size_is_drawn_with_zero_frequency_on_its_cell(height, width, tmp_path):
  error = np.zeros((height, width))
  error[height // 2, width // 2] = 1.0
  figure = heat_map_panels({'plain': error}, centred(height), centred(width))
  axes = figure.axes[0]
  left, right, bottom, top = axes.images[0].get_extent()
  assert (left, right) == (-(width // 2) - 0.5, width - width // 2 - 0.5)
  assert (top, bottom) == (-(height // 2) - 0.5, height - height // 2 - 0.5)
  assert axes.get_aspect() == 1
  save(figure, tmp_path / 'map.png', dpi=60)
  assert (tmp_path / 'map.png').stat().st_size > 1000


def test_vertical_frequency_grows_downwards_as_in_an_image():
  axes = heat_map_panels({'plain': error_map(8, 8)}, centred(8), centred(8)).axes[0]
  bottom, top = axes.get_ylim()
  assert bottom > top


def test_two_classifiers_and_their_difference_side_by_side():
  first, second = error_map(8, 8), error_map(8, 8, seed=1)
  clean = {'plain': proportion(41, 1000), 'gaussian': proportion(52, 1000)}
  significant = {'gaussian': np.eye(8, dtype=bool)}
  figure = heat_map_panels(
    {'plain': first, 'gaussian': second}, centred(8), centred(8), clean, significant, rate=0.05
  )
  maps = [axes for axes in figure.axes if axes.images]
  assert [m.get_title().split('\n')[0] for m in maps[:2]] == ['plain', 'gaussian']
  shown = [axes.images[0] for axes in maps]
  assert shown[0].get_clim() == shown[1].get_clim() == (0.0, 1.0)
  np.testing.assert_allclose(shown[2].get_array(), second - first)
  low, high = shown[2].get_clim()
  assert low == -high and high >= np.abs(second - first).max()
  said = words(figure)
  for phrase in (
    'clean error 4.1% [3.0, 5.5]',
    'gaussian − plain',
    'top-1 error (%)',
    'horizontal frequency (cycles per image)',
    'vertical frequency (cycles per image)',
    '(percentage points)',
    'exact McNemar',
    'false-discovery rate 5%',
  ):
    assert phrase in said


def test_more_classifiers_put_differences_in_a_second_row():
  errors = {name: error_map(6, 6, seed) for seed, name in enumerate('abcd')}
  figure = heat_map_panels(errors, centred(6), centred(6))
  assert sum(bool(axes.images) for axes in figure.axes) == 7
  assert 'd − a' in words(figure) and 'McNemar' not in words(figure)


def test_a_shared_scale_reaches_the_largest_error():
  figure = heat_map_panels(
    {'a': np.full((3, 3), 0.12), 'b': np.full((3, 3), 0.31)}, centred(3), centred(3), highest=None
  )
  assert figure.axes[0].images[0].get_clim() == pytest.approx((0.0, 0.35))


def test_rounded_up_to_a_step_and_never_to_nothing():
  assert rounded_up([np.array([0.31, np.nan]), np.array([-0.5])]) == pytest.approx(0.5)
  assert rounded_up([np.zeros(3)]) == pytest.approx(0.05)


def test_cells_that_are_not_significant_are_hatched():
  significant = np.ones((4, 5), bool)
  significant[1, 2] = significant[3, 0] = False
  axes = Figure().subplots()
  draw_difference_map(axes, np.zeros((4, 5)), centred(4), centred(5), '', significant)
  (lines,) = [c for c in axes.collections if isinstance(c, LineCollection)]
  centres = {tuple(np.mean(segment, axis=0)) for segment in lines.get_segments()}
  assert centres == {(0.0, -1.0), (-2.0, 1.0)}


def test_missing_cells_are_drawn_grey_and_not_hatched():
  difference = np.full((2, 2), np.nan)
  axes = Figure().subplots()
  image = draw_difference_map(axes, difference, [0, 1], [0, 1], '', np.zeros((2, 2), bool))
  assert not axes.collections[0].get_segments()
  assert image.to_rgba(image.get_array())[0, 0, :3] == pytest.approx((0.85, 0.85, 0.85))


@pytest.mark.parametrize(
  ('error', 'frequencies', 'message'),
  [
    (np.full((3, 3), 41.0), centred(3), 'not percent'),
    (np.full((3, 3), -0.1), centred(3), 'not percent'),
    (np.zeros((3, 4)), centred(3), r'shape \(3, 4\)'),
    (np.zeros((3, 3)), np.array([0, 1, -1]), 'fftshift'),
  ],
)
def test_bad_maps_are_refused(error, frequencies, message):
  with pytest.raises(InputError, match=message):
    draw_heat_map(Figure().subplots(), error, frequencies, frequencies, 'plain')


def test_unknown_classifiers_are_refused_with_the_nearest():
  with pytest.raises(InputError, match="did you mean 'plain'"):
    heat_map_panels({'plain': np.zeros((3, 3))}, centred(3), centred(3), {'plan': proportion(1, 2)})
  with pytest.raises(InputError, match='at least one classifier'):
    heat_map_panels({}, centred(3), centred(3))


def test_significance_of_another_shape_is_refused():
  with pytest.raises(InputError, match='significant is'):
    draw_difference_map(
      Figure().subplots(), np.zeros((3, 3)), centred(3), centred(3), '', np.ones((2, 3), bool)
    )
