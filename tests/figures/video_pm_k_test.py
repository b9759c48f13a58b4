"""The figures of pm-k: which are drawn from what, and what they show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from robustness.figures import video_pm_k, video_testbed
from robustness.metrics import neighbor_sets as metrics
from robustness.metrics.accuracy import proportion
from robustness.results import Results, Table
from tests.metrics.neighbor_sets_test import made


def words(figure: Figure) -> str:
  texts = [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, 'get_text'))]
  return '\n'.join(texts)


def made_results(n: int = 4, k: int = 10, **arrays: Any) -> Results:
  outcomes = made([1, 1, 1, 0], [(0, -2, 1), (0, 1, 0), (1, 3, 0), (2, 1, 1)])
  share = np.linspace(1, 0.5, k + 1)
  curves = {
    f'{name}{end}': np.clip(values + shift, 0, 1)
    for name, values in (
      ('pm_k', share),
      ('pm_k_neighbors_only', share),
      ('conditional', share[1:]),
      ('offset_error', np.linspace(0.2, 0.5, 4)),
    )
    for end, shift in (('', 0), ('_low', -0.1), ('_high', 0.1))
  }
  columns = (
    'class',
    'n',
    *(f'{what}{end}' for what in ('anchor', 'pm-k', 'drop') for end in ('', ' low', ' high')),
  )
  table = Table(columns, [['dog', 3, 0.9, 0.8, 1, 0.5, 0.3, 0.7, 0.4, 0.2, 0.6]])
  numbers = {
    'accuracy_anchor': proportion(n * 3 // 4, n),
    f'accuracy_pm_{k}': proportion(n // 2, n),
  }
  return Results(
    'video_pm_k',
    {'label': 'net'},
    {},
    {'k': k, 'include_anchor': True, 'testbed': 'auto', 'confidence': 0.95},
    numbers,
    {'by_class': table},
    {
      'k': np.arange(k + 1),
      'offset': np.array([-2, 0, 1, 3]),
      **curves,
      'anchor_right': outcomes.anchor,
      'neighbor_right': outcomes.neighbor,
      'pair_group': outcomes.group,
      'pair_offset': outcomes.offset,
      **arrays,
    },
  )


def test_a_plain_run_draws_curves_and_classes() -> None:
  figures = video_pm_k.draw(made_results())
  assert set(figures) == {'pm_k', 'offset_error', 'conditional', 'by_class'}
  assert 'dog (3)' in words(figures['by_class'][0])
  for figure, caption in figures.values():
    assert caption.endswith('.') and 'net' in words(figure)
    assert all(axes.get_xlabel().endswith(')') for axes in figure.axes)


def test_ticks_are_frames_and_no_legend_covers_the_data() -> None:
  figures = video_pm_k.draw(made_results(k=3))
  for name in ('pm_k', 'offset_error', 'conditional'):
    figure = figures[name][0]
    figure.canvas.draw()
    ticks = figure.axes[0].get_xticks()
    np.testing.assert_array_equal(ticks, np.round(ticks))
  for figure, _ in figures.values():
    assert all(axes.get_legend() is None for axes in figure.axes) and len(figure.legends) == 1
  assert 'neighbors only' in words(figures['pm_k'][0])


def test_as_many_anchors_as_a_published_set_draw_its_testbed() -> None:
  figures = video_pm_k.draw(made_results(1109))
  text = words(figures['testbed'][0])
  assert 'net' in text and 'noise augmentation' in text and 'no drop' in text
  assert '45 published models' in figures['testbed'][1]
  assert 'testbed' not in video_pm_k.draw(made_results(1109, k=5)), 'published is pm-10'


def test_the_testbed_shows_every_model_and_ones_own() -> None:
  own = {'mine': (proportion(800, 1109), proportion(600, 1109))}
  figure = video_testbed.testbed_fit('ytbb_robust', own)
  points = [c for c in figure.axes[0].containers if len(c.lines[0].get_xdata()) == 1]
  assert len(points) == 61
  assert points[-1].lines[0].get_xdata()[0] == pytest.approx(100 * 800 / 1109)


def test_distances_draw_all_pairs_and_mistakes() -> None:
  figures = video_pm_k.draw(made_results(distance=np.array([0.1, 0.2, 0.3, 0.4])))
  text = words(figures['distance'][0])
  assert 'all pairs (4)' in text and 'net mistakes (2)' in text and 'reviewed' not in text
  figures = video_pm_k.draw(
    made_results(
      distance=np.array([0.1, 0.2, 0.3, 0.4]), pair_reviewed=np.array([True, True, False, True])
    )
  )
  text = words(figures['distance'][0])
  assert 'all pairs (4)' in text and 'reviewed pairs (3)' in text and 'net mistakes (1)' in text


def test_failures_show_predictions_and_offsets() -> None:
  columns = ('anchor', 'neighbor', 'offset', 'labels', 'a', 'b', 'c', 'd')
  table = Table(columns, [['v/1', 'v/0', -1, 'dog', 'dog', 0.91, 'giant_panda', 0.5]])
  figure = video_pm_k.failures(np.ones((1, 2, 4, 4, 3)), table)
  assert 'dog 91%' in words(figure) and 'giant panda 50% (−1)' in words(figure)
  assert len(figure.axes) == 2


def test_review_impact_draws_a_line_for_each() -> None:
  outcomes = made([1, 0], [(0, -1, 0), (1, 1, 1)])
  errors = metrics.error_by_offset(outcomes)
  figure = video_pm_k.review_impact({'all frames': errors, 'reviewed frames': errors})
  assert 'all frames' in words(figure) and 'reviewed frames' in words(figure)
  assert figure.axes[0].lines[0].get_ydata().tolist() == [100, 50, 0]
