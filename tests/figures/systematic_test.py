"""Figures of the study `systematic`: what is drawn is what the results hold."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from robustness.figures import systematic
from robustness.results import Number, Results

ENVIRONMENTS = ('blur', 'snow')
LEVELS = np.array([[0.9, 0.6], [0.8, 0.2], [0.7, 0.35], [0.5, 0.5]])
RHO = np.array([2 / 3, 1 / 4, 1 / 2, 1])


def number(value: float) -> Number:
  return Number(value, value - 0.05, value + 0.04, 40, 'made up')


@pytest.fixture
def results() -> Results:
  """Two classifiers, `plain` without seen cells and `own` with; classes a, b, c in C1, C2, none."""
  values = {
    'plain/clean_accuracy': 0.9,
    'plain/accuracy_blur': 0.3,
    'plain/accuracy_snow': 0.4,
    'own/clean_accuracy': 0.8,
    'own/accuracy_blur': 0.55,
    'own/accuracy_snow': 0.45,
    'own/rho_blur': 0.5,
    'own/rho_snow': 0.75,
    'own/rho': 0.625,
  }
  grid = np.array([[0.9, 0.5, 0.4], [0.8, 0.85, 0.3], [0.7, 0.45, 0.65]])
  seen = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 1]], bool)
  arrays = {
    'environment': np.array(['clean', *ENVIRONMENTS]),
    'group': np.array(['left over', 'C1', 'C2']),
    'class': np.array(['a', 'b', 'c']),
    'class_group': np.array([1, 2, 0]),
    'level': np.array([1, 5, 1, 5]),
    'level_environment': np.array([1, 1, 2, 2]),
    'plain/grid': grid - 0.1,
    'plain/seen': np.zeros((3, 3), bool),
    'plain/by_class': grid[[1, 2, 0]] - 0.1,
    'own/grid': grid,
    'own/seen': seen,
    'own/by_class': grid[[1, 2, 0]],
    'own/by_level': LEVELS,
    'own/rho_by_level': RHO,
    'own/rho_by_level_low': RHO - 0.1,
    'own/rho_by_level_high': RHO,
  }
  classifiers = [{'label': 'plain', 'layers': []}, {'label': 'own', 'layers': []}]
  numbers = {name: number(value) for name, value in values.items()}
  return Results('systematic', classifiers, {}, {'confidence': 0.95}, numbers, {}, arrays)


def points(figure: Figure, panel: int) -> list[np.ndarray]:
  """Returns the points [K, 2] of every line with error bars in a panel."""
  bars = [c for c in figure.axes[panel].containers if isinstance(c, ErrorbarContainer)]
  return [np.asarray(bar.lines[0].get_xydata()) for bar in bars]


def test_every_figure_has_a_caption_and_those_of_rho_need_seen_cells(results: Results) -> None:
  drawn = systematic.draw(results)
  of_rho = {'rho', 'rho_by_level', 'levels', 'cells'}
  assert set(drawn) == {'grid', 'classes', 'effective_robustness', *of_rho}
  assert all(caption.endswith('.') for _, caption in drawn.values())
  plain = {name: n for name, n in results.numbers.items() if '/rho' not in name}
  without = Results('systematic', results.classifier, {}, {}, plain, {}, results.arrays)
  assert set(systematic.draw(without)) == {'grid', 'classes', 'effective_robustness'}


def test_accuracy_in_an_environment_stands_over_clean_accuracy(results: Results) -> None:
  figure = systematic.effective_robustness(results)
  plain, own = points(figure, 1)
  np.testing.assert_allclose([plain[0], own[0]], [[90, 40], [80, 45]])
  [line] = [line for line in figure.axes[0].lines if line.get_linestyle() == '--']
  np.testing.assert_array_equal(line.get_xydata(), [[0, 0], [100, 100]])


def test_rho_stands_over_the_severity_of_its_environment(results: Results) -> None:
  figure = systematic.rho_by_level(results)
  for panel in (0, 1):
    [own] = points(figure, panel)
    own_levels = slice(2 * panel, 2 * panel + 2)
    np.testing.assert_allclose(own, np.stack([[1, 5], RHO[own_levels]], 1))


def test_seen_classes_are_filled_where_they_differ_from_their_clean_accuracy(
  results: Results,
) -> None:
  axes = systematic.classes(results).axes[1]
  filled, hollow = axes.collections[:2]
  np.testing.assert_allclose(filled.get_offsets()[:, 1], [5])
  np.testing.assert_allclose(hollow.get_offsets()[:, 1], [-25, -40])


def test_cells_are_called_what_they_are(results: Results) -> None:
  figure, _ = systematic.draw(results)['cells']
  texts = [text.get_text() for text in figure.axes[0].texts]
  assert texts == [*('seen', 'held out', 'held out'), *('seen', 'seen', 'held out')] + [
    *('seen', 'held out', 'seen')
  ]
  labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
  assert labels == ['left over: c', 'C1: a', 'C2: b']
