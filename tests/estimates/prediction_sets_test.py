"""Prediction sets: scores and thresholds by hand, coverage in simulation."""

import numpy as np
import pytest

from robustness.estimates import prediction_sets
from tests.refusals import refused

P = np.array([[0.2, 0.5, 0.3]])


@pytest.mark.parametrize(
  'kind, expected',
  [('lac', [0.8, 0.5, 0.7]), ('aps', [0.9, 0.25, 0.65]), ('raps', [1.9, 0.25, 1.15])],
)
def test_scores_by_hand(kind, expected):
  """Ranks are 3, 1, 2; U is ½, λ ½ and k 1."""
  scores = prediction_sets.scores(kind, P, np.array([0.5]), penalty=0.5, rank=1)
  np.testing.assert_allclose(scores[0], expected)


def test_the_threshold_is_an_order_statistic():
  scores = np.arange(1, 20.0)[::-1]
  assert prediction_sets.threshold(scores, 0.1) == 18, '⌈20 · .9⌉'
  assert prediction_sets.threshold(scores[:8], 0.1) == np.inf, '⌈9 · .9⌉ = 9 of 8'
  refused('0 scores', prediction_sets.threshold, scores[:0], 0.1)
  refused('α = 1.0', prediction_sets.threshold, scores, 1.0)


@pytest.mark.parametrize('kind', prediction_sets.SCORES)
def test_sets_hold_the_class_as_often_as_stated(kind):
  generator, held_out, tested, covered = np.random.default_rng(0), 59, 200, []
  for _ in range(300):
    p = generator.dirichlet(np.full(6, 0.4), held_out + tested)
    labels = (p.cumsum(1) > generator.random((len(p), 1))).argmax(1)
    sharper = p**2 / (p**2).sum(1, keepdims=True)  # which is not calibrated
    scores = prediction_sets.scores(kind, sharper, generator.random(len(p)))
    own = scores[np.arange(len(p)), labels]
    covered.append((own[held_out:] <= prediction_sets.threshold(own[:held_out], 0.1)).mean())
  error = np.std(covered) / np.sqrt(len(covered))
  assert abs(np.mean(covered) - 0.9) < 4 * error  # ⌈60 · .9⌉ / 60


def test_gaps_of_coverage():
  covered = np.array([1, 1, 0, 1, 0, 0], bool)[:, None]
  size = np.array([1, 1, 1, 5, 5, 3])[:, None]
  gap = prediction_sets.size_stratified_violation(covered, size, 0.1)
  assert gap == pytest.approx(0.9), 'no set of 2 to 3 classes holds it'
  labels = np.array([0, 0, 0, 2, 2, 2])
  assert prediction_sets.class_coverage_gap(covered, labels, 0.5) == pytest.approx(1 / 6)
