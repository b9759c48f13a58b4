"""Tests the figures of accuracy on a static set and by class, from a table of results."""

import numpy as np
import pandas as pd
import pytest

from robustness.estimates.means import means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity
from robustness.estimates.table import assemble
from robustness.results import Results
from robustness.video import accuracy_figures

N = 20
LABELS = ['first', 'second']
STATIC = 'accuracy_static_against_accuracy_anchor'
# Right answers of N by both classifiers, and on anchors and at pm-10 of the first by class.
CORRECT = {'accuracy_anchor': (16, 12), 'accuracy_pm_k': (10, 4), 'accuracy_static': (13, 6)}
BY_CLASS = {'dog': (15, 9), 'red_fox': (18, 17), 'zebra': (10, 3)}


def estimates(name: str, correct: tuple[int, ...], **facets) -> pd.DataFrame:
  """Returns rows of a quantity for as many classifiers as there are counts of right answers."""
  right = {
    label: np.arange(N)[:, None] < count for label, count in zip(LABELS, correct, strict=False)
  }
  outcomes = Outcomes(right, pd.DataFrame(index=range(1)))
  return means(Quantity(name, name, low=-1), outcomes, facets=facets, paired=False)


@pytest.fixture
def results() -> Results:
  """Results of two classifiers, of which the first has accuracies by class."""
  parts = [estimates(name, correct) for name, correct in CORRECT.items()]
  parts.append(estimates('drop_pm_k', (6, 8), k=10))
  for name, (anchor, worst) in BY_CLASS.items():
    parts.append(estimates('accuracy_anchor', (anchor,), **{'class': name}))
    parts.append(estimates('accuracy_pm_k', (worst,), k=10, **{'class': name}))
  parts.append(estimates('accuracy_pm_k', CORRECT['accuracy_pm_k'], k=10))
  described = [{'label': label} for label in LABELS]
  return Results('video_pm_k', described, {}, {}, table=assemble(parts))


def test_the_static_set_is_drawn_beside_pm_k(results):
  figure, caption = accuracy_figures.draw(results)[STATIC]
  anchor, worst, static = (np.array(CORRECT[name]) * 100 / N for name in CORRECT)
  for axes, expected in zip(figure.axes, (static, worst), strict=True):
    points = [bar.lines[0].get_xydata()[0] for bar in axes.containers]
    np.testing.assert_allclose(points, np.stack([anchor, expected], 1))
  assert [axes.get_title() for axes in figure.axes] == ['one static set', 'pm-10']
  assert 'accuracy at pm-10' in caption and 'n = 20' in caption


def test_one_classifier_has_no_static_set_and_is_drawn_by_class(results):
  results.table = results.table[results.table['quantity'] != 'accuracy_static']
  assert set(accuracy_figures.draw(results)) == {'accuracies_class_first'}, (
    'the second classifier has no accuracies by class'
  )


def test_two_accuracies_of_each_class_are_one_figure(results, monkeypatch):
  figure, caption = accuracy_figures.draw(results)['accuracies_class_first']
  axes = figure.axes[0]
  assert [text.get_text() for text in axes.get_yticklabels()] == ['red fox', 'dog', 'zebra']
  points = [sorted(bar.lines[0].get_xdata().tolist()) for bar in axes.containers]
  assert points == [[50, 75, 90], [15, 45, 85]], 'on anchors, and at pm-10'
  assert 'Drop in points: 30.0 over all sets and 30.0 the median class' in caption
  monkeypatch.setattr(accuracy_figures, 'MAX_CLASSES', 2)
  figure, caption = accuracy_figures.draw(results)['accuracies_class_first']
  assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ['dog', 'zebra']
  assert caption.endswith('The 2 classes with the largest drops.')


def test_a_table_without_pm_k_has_no_figure(results):
  results.table = results.table[results.table['quantity'] != 'accuracy_pm_k']
  assert accuracy_figures.draw(results) == {}
