"""Subsets, review, fits and distributions against counts by hand and against SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from robustness.core.errors import InputError
from robustness.metrics import neighbor_analysis as analysis
from robustness.metrics.neighbor_sets import outcomes
from robustness.neighbor_sets import metadata
from tests.metrics.neighbor_sets_test import made, random_outcomes

SETS = {'a/1.jpg': ['a/2.jpg', 'a/3.jpg'], 'b/5.jpg': ['b/6.jpg'], 'c/9.jpg': ['c/8.jpg']}
LABELS = {
  'a/1.jpg': [0],
  'a/2.jpg': [0],
  'a/3.jpg': [0],
  'b/5.jpg': [1],
  'b/6.jpg': [1],
  'c/9.jpg': [0, 1],
  'c/8.jpg': [0, 1],
}
FACTS = {
  'a/1.jpg': {'frame_type': 'i', 'fps': 29.97},
  'a/2.jpg': {'frame_type': 'p'},
  'a/3.jpg': {'frame_type': 'b'},
  'b/5.jpg': {'frame_type': 'p', 'fps': 25},
  'b/6.jpg': {'frame_type': 'i'},
  'c/9.jpg': {'frame_type': 'p', 'fps': 29.0},
  'c/8.jpg': {'frame_type': 'p'},
}
PREDICTIONS = np.array([0, 1, 0, 1, 0, 0, 5])  # frames in the order of their paths


def sets_and_outcomes(facts: Any = FACTS) -> Any:
  sets = metadata.from_mappings(SETS, LABELS, (), facts)
  return sets, outcomes(sets, PREDICTIONS)


def test_accuracies_by_class_count_a_set_in_each_of_its_classes() -> None:
  sets, outcomes = sets_and_outcomes()
  table = analysis.by_class(outcomes, sets.labels[sets.anchors], 10)
  assert {c: (a.anchor.n, a.anchor.value, a.worst.value) for c, a in table.items()} == {
    0: (2, 0.5, 0.0),
    1: (2, 0.5, 0.0),
  }
  whole = analysis.accuracies(outcomes, 10)
  assert whole.drop.value == pytest.approx(whole.anchor.value - whole.worst.value)


def test_frame_types_leave_anchors_and_neighbors_out() -> None:
  sets, outcomes = sets_and_outcomes()
  subsets = analysis.without_frame_types(outcomes, sets)
  assert {kind: (single.num_anchors, len(single.group)) for kind, single in subsets.items()} == {
    'i': (2, 1),
    'p': (1, 1),
    'b': (3, 3),
  }
  assert subsets['i'].group.tolist() == [1]


def test_rates_are_cut_to_whole_frames_a_second() -> None:
  sets, outcomes = sets_and_outcomes()
  assert {rate: single.num_anchors for rate, single in analysis.by_fps(outcomes, sets).items()} == {
    25: 1,
    29: 2,
  }


def test_unknown_types_and_rates_are_an_error() -> None:
  sets, outcomes = sets_and_outcomes(None)
  with pytest.raises(InputError, match='no frame types'):
    analysis.without_frame_types(outcomes, sets)
  with pytest.raises(InputError, match='no frame rates'):
    analysis.by_fps(outcomes, sets)


def test_review_changes_both_accuracies() -> None:
  before = made([1, 1, 0, 1], [(0, 1, 0), (1, 1, 1), (3, 1, 0), (3, 2, 1)])
  after = made([1, 1, 1], [(1, 1, 1), (2, 2, 1)])  # anchor 2 and two neighbors were discarded
  change = analysis.review_impact(before, after, [0, 1, 3], 10)
  assert change['anchor'].value == pytest.approx(1 - 3 / 4)
  assert change['worst'].value == pytest.approx(1 - 1 / 4)
  assert change['drop'].value == pytest.approx(0 - 2 / 4)
  for number in change.values():
    assert number.low <= number.value <= number.high and number.n == 4
  with pytest.raises(InputError, match='its own place'):
    analysis.review_impact(before, after, [0, 1, 1], 10)


def test_a_review_that_discards_nothing_changes_nothing() -> None:
  outcomes = random_outcomes(0)
  single = type(outcomes)(outcomes.anchor[0], outcomes.neighbor[0], outcomes.group, outcomes.offset)
  for number in analysis.review_impact(single, single, np.arange(40), 10).values():
    assert (number.value, number.low, number.high) == (0, 0, 0)


def test_the_line_is_that_of_scipy() -> None:
  generator = np.random.default_rng(0)
  x = generator.uniform(0.4, 0.9, 45)
  y = 1.1 * x - 0.2 + generator.normal(0, 0.01, 45)
  fit = analysis.linear_fit(x, y, [0.5, 0.7])
  expected = stats.linregress(x, y)
  assert fit.slope.value == pytest.approx(expected.slope, rel=1e-12)
  assert fit.intercept.value == pytest.approx(expected.intercept, rel=1e-12)
  assert fit.r_squared == pytest.approx(expected.rvalue**2, rel=1e-12)
  assert fit.slope.low < 1.1 < fit.slope.high and fit.slope.n == 45
  assert (fit.low < fit.y).all() and (fit.y < fit.high).all()
  for number, error in ((fit.slope, expected.stderr), (fit.intercept, expected.intercept_stderr)):
    half = stats.t.ppf(0.975, 43) * error
    assert (number.low, number.high) == pytest.approx((number.value - half, number.value + half))


@pytest.mark.parametrize('models', [3, 4])
def test_intervals_of_a_line_through_few_models_hold_as_often_as_they_say(models: int) -> None:
  """Three standard errors of 2000 samples are .0146; resampled models held in .66 and .93."""
  generator = np.random.default_rng(models)
  inside = np.zeros(3)
  for _ in range(2000):
    x = generator.normal(0.7, 0.09, models)
    fit = analysis.linear_fit(x, 1.1 * x - 0.2 + generator.normal(0, 0.02, models), [0.6])
    inside += [
      fit.slope.low <= 1.1 <= fit.slope.high,
      fit.intercept.low <= -0.2 <= fit.intercept.high,
      fit.low[0] <= 0.46 <= fit.high[0],
    ]
  np.testing.assert_allclose(inside / 2000, 0.95, atol=0.0147)


def test_points_on_a_line_have_no_band() -> None:
  x = np.linspace(0, 1, 6)
  fit = analysis.linear_fit(x, 2 * x + 1, [0.5])
  np.testing.assert_allclose([fit.low, fit.high], [[2], [2]], atol=1e-9)


@pytest.mark.parametrize('x', [[0.1, 0.2], [0.1, 0.1, 0.1]])
def test_no_line_through_too_little(x: list[float]) -> None:
  with pytest.raises(InputError, match='three models or more'):
    analysis.linear_fit(x, x, [0.5])


def test_cumulative_distribution() -> None:
  outcomes = analysis.cumulative([0.3, 0.1, 0.2, 0.2], [0, 0.1, 0.2, 0.25, 1])
  assert outcomes.share.tolist() == [0, 0.25, 0.75, 0.75, 1]
  assert (outcomes.low <= outcomes.share).all() and (outcomes.share <= outcomes.high).all()
  with pytest.raises(InputError, match='1 of 2 distances are NaN'):
    analysis.cumulative([0.1, np.nan], [0])


def test_mistakes_are_wrong_neighbors_of_right_anchors() -> None:
  outcomes = made([1, 0], [(0, 1, 0), (0, 2, 1), (1, 1, 0)])
  distances = np.array([0.1, 0.2, 0.3])
  curves = analysis.distance_curves(
    distances, {'net': outcomes}, [0.15, 1], np.array([True, False, True])
  )
  assert {name: curve.n for name, curve in curves.items()} == {
    'all pairs': 3,
    'reviewed pairs': 2,
    'net mistakes': 1,
  }
  assert curves['net mistakes'].share.tolist() == [1, 1]
