"""Tests weighted sums of shares over strata: values, coverage, and the trials a width needs."""

import numpy as np
import pytest

from robustness.estimates import stratified
from tests.cases import cases
from tests.refusals import refused

GENERATOR = np.random.default_rng(0)


@cases('shares, size', ((0.05, 0.6), 6), ((0, 0.1), 12), ((0.4, 0.6), 4))
def test_intervals_cover_and_are_no_wider_than_planned(shares, size):
  """The chances of 40 strata lie between two shares; a stratum has `size` trials on average."""
  weights = GENERATOR.uniform(0.5, 2, 40) / 40
  p = GENERATOR.uniform(*shares, (2, 40))
  trials = stratified.allocated(weights, 40 * size)
  assert trials.sum() == 40 * size and (abs(trials - 40 * size * weights / weights.sum()) < 1).all()
  strata = np.repeat(np.arange(40), trials)
  covered, widths = [], []
  for _ in range(400):
    first, second = GENERATOR.random((2, len(strata))) < p[:, strata]
    mean = stratified.estimate(first, strata, weights)
    change = stratified.difference(first, second, strata, weights)
    truth = weights @ p[0], weights @ (p[1] - p[0])
    covered.append([e.low <= t <= e.high for e, t in zip((mean, change), truth, strict=True)])
    widths.append((mean.high - mean.low) / 2)
  assert (np.mean(covered, 0) > 0.92).all()
  half_width = 1.96 * np.sqrt(0.25 * (weights**2 / trials).sum())
  assert max(widths) <= half_width
  assert half_width < 1.01 * 1.96 * 0.5 * weights.sum() / np.sqrt(40 * size)
  needed = stratified.trials_needed(weights, half_width + 1e-5)
  assert 40 * size - 3 <= needed <= 40 * size
  narrow, wide = (
    1.96 * np.sqrt(0.25 * (weights**2 / stratified.allocated(weights, n)).sum())
    for n in (needed, needed - 1)
  )
  assert narrow <= half_width + 1e-5 < wide


def test_values_are_weighted_sums():
  strata, wrong = np.array([0, 0, 1, 1, 1, 7]), np.array([1, 0, 1, 1, 0, 1], bool)
  mean = stratified.estimate(wrong, strata, np.array([2.0, 3.0]))
  assert (mean.value, mean.n) == (pytest.approx(2 * 0.5 + 3 * 2 / 3), 5)
  wrong_second = np.array([0, 0, 1, 1, 1, 0], bool)
  difference = stratified.difference(wrong, wrong_second, strata, np.array([2.0, 3.0]))
  assert difference.value == pytest.approx(-2 * 0.5 + 3 / 3)
  assert stratified.trials_needed(np.array([1.0]), 0.1) == 97
  refused('1 of 2 strata have no trial', stratified.estimate, wrong[:2], strata[:2], np.ones(2))
