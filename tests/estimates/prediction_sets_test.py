"""Tests prediction sets: scores and thresholds by hand, and coverage in simulation."""

import numpy as np
import pandas as pd
import pytest

from robustness.estimates import intervals, prediction_sets
from robustness.estimates.quantity import Quantity
from tests.cases import cases
from tests.refusals import refused

SHARES = Quantity('set_coverage', 'coverage')
P = np.array([[0.2, 0.5, 0.3]])


@cases(
  'kind, expected',
  ('lac', [0.8, 0.5, 0.7]),
  ('aps', [0.9, 0.25, 0.65]),
  ('raps', [1.9, 0.25, 1.15]),
)
def test_scores_by_hand(kind, expected):
  """The classes have the ranks 3, 1 and 2; the random U is ½, the penalty λ ½ and the rank k 1."""
  scores = prediction_sets.scores(kind, P, np.array([0.5]), penalty=0.5, rank=1)
  np.testing.assert_allclose(scores[0], expected)


def test_the_threshold_is_an_order_statistic():
  scores = np.arange(1, 20.0)[::-1]
  assert prediction_sets.threshold(scores, 0.1).q == 18, '⌈20 · 0.9⌉ of 19'
  assert prediction_sets.threshold(scores[:8], 0.1).q == np.inf, '⌈9 · 0.9⌉ = 9 of 8'
  assert prediction_sets.threshold(scores, 1 - 1e-12).q == 1, 'the smallest for α near 1'
  refused('0 scores', prediction_sets.threshold, scores[:0], 0.1)
  refused('α = 1.0', prediction_sets.threshold, scores, 1.0)


@pytest.mark.parametrize('kind', prediction_sets.SCORES)
def test_sets_contain_the_class_as_often_as_stated(kind):
  generator, held_out, tested, covered = np.random.default_rng(0), 59, 200, []
  for _ in range(300):
    p = generator.dirichlet(np.full(6, 0.4), held_out + tested)
    labels = (p.cumsum(1) > generator.random((len(p), 1))).argmax(1)
    overconfident = p**2 / (p**2).sum(1, keepdims=True)
    scores = prediction_sets.scores(kind, overconfident, generator.random(len(p)))
    true = scores[np.arange(len(p)), labels]
    covered.append((true[held_out:] <= prediction_sets.threshold(true[:held_out], 0.1).q).mean())
  error = np.std(covered) / np.sqrt(len(covered))
  assert abs(np.mean(covered) - 0.9) < 4 * error  # the exact coverage is ⌈60 · 0.9⌉ / 60


def test_gaps_of_coverage_by_size_of_set_and_by_class():
  covered = np.array([1, 1, 0, 1, 0, 0], bool)[:, None]
  size = np.array([1, 1, 1, 5, 5, 3])[:, None]
  gap = prediction_sets.size_stratified_violation(covered, size, 0.1)
  assert gap == pytest.approx(0.9), 'the set of 3 classes lacks the class'
  labels = np.array([0, 0, 0, 2, 2, 2])
  assert prediction_sets.class_coverage_gap(covered, labels, 0.5) == pytest.approx(1 / 6)


def rows_of_shares(shares, count):
  """Returns rows as of `means` for classifiers and for their differences from the first."""
  ends = [intervals.clopper_pearson(round(share * count), count) for share in shares]
  rows = [('', share, *map(float, end)) for share, end in zip(shares, ends, strict=True)]
  rows += [('a', share - shares[0], share - shares[0], share - shares[0]) for share in shares[1:]]
  return pd.DataFrame(rows, columns=['versus', 'value', 'low', 'high'])


@cases(
  'held_out, measured, alpha',
  *((50, 500, 0.1), (250, 5000, 0.02)),
  *(
    pytest.param(held_out, measured, 0.1, marks=pytest.mark.slow)
    for held_out, measured in ((250, 500), (250, 5000), (1000, 5000))
  ),
)
def test_intervals_of_coverage_include_the_draw_of_images_held_out(held_out, measured, alpha):
  generator, misses, draws = np.random.default_rng(1), np.zeros(2), 400
  misses_without_draw = 0
  for _ in range(draws):
    q = prediction_sets.threshold(generator.random(held_out), alpha)
    scores = generator.random(measured)
    share, *ends = ((scores <= end).mean() for end in q)
    rows = rows_of_shares([share], measured)
    ends = [np.array([end]) for end in ends]
    row = prediction_sets.with_threshold_draw(rows, ends, [1.0], SHARES).iloc[0]
    misses += row.low > 1 - alpha, row.high < 1 - alpha
    misses_without_draw += not rows.low[0] <= 1 - alpha <= rows.high[0]
  assert misses.sum() <= 0.083 * draws, '0.05 and three standard errors of 400 draws'
  assert misses_without_draw > 3 * misses.sum()


def test_the_draw_cancels_in_the_difference_of_equal_classifiers():
  estimates = rows_of_shares([0.9, 0.9], 1000)
  ends = [np.array([0.87, 0.87, 0.0]), np.array([0.92, 0.92, 0.0])]
  equal, independent = (
    prediction_sets.with_threshold_draw(estimates, ends, [1.0, rho], SHARES).iloc[2]
    for rho in (1.0, 0.0)
  )
  half = np.hypot(0.03, 0.02)
  np.testing.assert_allclose([independent.low, independent.high], [-half, half])
  assert abs(equal.low) < 0.011 and abs(equal.high) < 0.011
