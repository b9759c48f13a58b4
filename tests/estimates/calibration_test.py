"""Tests calibration errors against other implementations and closed forms, and their intervals."""

import itertools

import numpy as np
import pytest

from robustness.estimates import calibration
from robustness.estimates.calibration import Draws, Predictions
from tests.refusals import refused


def drawn(count: int = 500) -> tuple[np.ndarray, np.ndarray]:
  """Returns the confidence of overconfident predictions and whether they are right."""
  generator = np.random.default_rng(0)
  confidence = np.round(generator.beta(3, 1, count), 3)
  return confidence, generator.random(count) < confidence**1.5


def test_errors_equal_those_of_torchmetrics_and_of_kumars_code():
  """Compares values of two packages on the same predictions.

  torchmetrics 1.9 (`multiclass_calibration_error`, 15 bins) returns 0.09241 for two classes, whose
  confidence is at least 0.5. uncertainty-calibration 0.1.4 of Kumar et al. returns 0.065656 with 5
  bins of equal width and 0.08154 with 15 of equal mass, which it also cuts between equal
  confidences. Its `normal_debiased_ce` draws 200,000 normal values in place of the closed form, and
  its `unbiased_l2_ce` is exact.
  """
  confidence, correct = drawn()
  folded = Predictions.sort(np.where(confidence >= 0.5, confidence, 1 - confidence), correct)
  ece = calibration.calibration_error(folded.binned(folded.equal_width(15)))
  assert ece == pytest.approx(0.092412, abs=1e-6)
  predictions = Predictions.sort(confidence, correct)
  bins = [predictions.binned(predictions.equal_width(5))]
  distinct = Predictions.sort(confidence - 1e-12 * np.arange(500), correct)
  bins.append(distinct.binned(distinct.equal_mass(15)))
  for function, expected, tolerance in (
    (calibration.calibration_error, [0.065656, 0.08154], 1e-9),
    (calibration.debiased_calibration_error, [0.0638244, 0.0641771], 1e-4),
  ):
    assert list(map(function, bins)) == pytest.approx(expected, abs=tolerance)
  squared = [calibration.squared_calibration_error(bin_set) for bin_set in bins]
  np.testing.assert_allclose(np.sqrt(squared), [0.06029617, 0.08038925], rtol=1e-6)


def test_bins_of_equal_width_are_open_below_and_bins_of_equal_mass_have_even_sizes():
  confidence = np.array([0.2, 0.200001, 0.4, 0.9, 1.0, 0.0, 0.61])
  predictions = Predictions.sort(confidence, confidence > 0.5)
  width = predictions.binned(predictions.equal_width(5))
  np.testing.assert_array_equal(width.size, [2, 1, 0, 2, 2])
  np.testing.assert_allclose(width.accuracy, [1, 1, 0, 0, 0])
  mass = predictions.binned(predictions.equal_mass(3))
  np.testing.assert_array_equal(mass.size, [2, 2, 3])
  assert Predictions.sort([0.5], [True]).equal_mass(3).tolist() == [0, 0, 0, 1]
  assert Predictions.sort([0.5, 1, 1, 1], np.ones(4, bool)).equal_mass(2).tolist() == [0, 3, 4]


def test_the_order_of_examples_changes_nothing():
  confidence, correct = np.round(drawn()[0], 1), drawn()[1]
  orders = np.arange(500), np.argsort(correct, kind='stable')
  first, second = (
    calibration.scores(
      Predictions.sort(confidence[order], correct[order]), Draws.generate(500, 2, 0)
    ).values
    for order in orders
  )
  assert second == pytest.approx(first)


def test_a_constant_confidence_has_closed_forms():
  """One bin has the ECE |ȳ - p| and the Brier score (p - 1)² ȳ + p² (1 - ȳ).

  All orders are equal, so that the area under risk and coverage is the error.
  """
  correct = np.arange(40) < 25
  scores = calibration.scores(
    Predictions.sort(np.full(40, 0.8), correct), Draws.generate(40, 20, 0)
  )
  assert scores.values['ece_biased'] == pytest.approx(0.8 - 25 / 40)
  assert scores.values['brier'] == pytest.approx(0.04 * 25 / 40 + 0.64 * 15 / 40)
  assert scores.values['aurc'] == pytest.approx(15 / 40)
  area = scores.drawn['aurc']
  np.testing.assert_allclose(scores.drawn['excess_aurc'], area - calibration.least_area(area))


def test_area_under_risk_and_coverage_and_selective_error_by_definition():
  confidence = np.array([0.9, 0.9, 0.9, 0.7, 0.5, 0.5, 0.2])
  correct = np.array([True, False, True, True, False, True, False])
  # The mean over all orders of predictions of equal confidence.
  runs = [np.flatnonzero(confidence == value) for value in sorted(set(confidence), reverse=True)]
  by_definition = [
    (np.cumsum(~correct[np.concatenate(order)]) / np.arange(1, len(confidence) + 1)).mean()
    for order in itertools.product(*map(itertools.permutations, runs))
  ]
  area = Predictions.sort(confidence, correct).area_under_risk_coverage()
  assert area == pytest.approx(np.mean(by_definition), rel=1e-12)
  correct = np.arange(2000) < 1500
  best = Predictions.sort(np.linspace(1, 0, 2000), correct).area_under_risk_coverage()
  assert best == pytest.approx(calibration.least_area(0.25), abs=1e-3)
  assert calibration.least_area(1.0) == 1 and calibration.least_area(0.0) == 0
  predictions = Predictions.sort([0.9, 0.5, 0.5, 0.1], [True, True, False, False])
  errors = predictions.selective_error(np.array([0.25, 0.5, 0.75, 1.0]))
  np.testing.assert_allclose(errors, [0, 0.25, 1 / 3, 0.5])


def test_to_resample_is_to_repeat_rows():
  confidence, correct = drawn(200)
  draws = Draws.generate(200, 4, 1)
  scored = calibration.scores(Predictions.sort(confidence, correct), draws)
  for index, count in enumerate(draws.counts):
    rows = np.repeat(np.arange(200), count)
    repeated = Predictions.sort(confidence[rows], correct[rows])
    assert scored.drawn['aurc'][index] == pytest.approx(repeated.area_under_risk_coverage())
    bins = repeated.binned(repeated.equal_width(15))
    assert scored.drawn['ece'][index] == pytest.approx(calibration.calibration_error(bins))


@pytest.mark.parametrize('power', [1.0, 1.2])
def test_debiasing_brings_the_estimate_to_the_truth_and_intervals_cover_it(power):
  """Confidences are the middles of 15 bins, so that the true error is a closed form."""
  middles = (np.arange(15) + 0.5) / 15
  truth = np.abs(middles - middles**power).mean()
  values, biased, covered = [], [], []
  for seed in range(60):
    generator = np.random.default_rng(seed)
    confidence = np.ceil(generator.random(400) * 15) / 15 - 1 / 30
    predictions = Predictions.sort(confidence, generator.random(400) < confidence**power)
    scored = calibration.scores(predictions, Draws.generate(400, 200, seed))
    estimate = scored.estimate('ece')
    values.append(estimate.value)
    biased.append(scored.values['ece_biased'])
    covered.append(estimate.low <= truth <= estimate.high)
  assert abs(np.mean(values) - truth) < 0.7 * abs(np.mean(biased) - truth)
  assert np.mean(covered) >= 0.9


def test_overconfidence_is_the_mean_gap_and_its_interval_is_wide_for_few_images():
  """A calibrated classifier is mostly right in twenty predictions of the confidence 0.9999."""
  confidence, correct = drawn(400)
  scored = calibration.scores(Predictions.sort(confidence, correct), Draws.generate(400, 100, 0))
  estimate = scored.estimate('overconfidence')
  assert estimate.value == pytest.approx(confidence.mean() - correct.mean())
  assert 0 < estimate.low < estimate.value < estimate.high
  certain = Predictions.sort(np.full(20, 0.9999), np.ones(20, bool))
  estimate = calibration.scores(certain, Draws.generate(20, 100, 0)).estimate('overconfidence')
  assert estimate.low <= estimate.value < 0 <= estimate.high


def test_intervals_stay_in_the_range_of_their_quantities():
  """Five predictions are wrong and certain, or right and uncertain."""
  draws = Draws.generate(5, 100, 0)
  cases = (0.99, False), (0.01, True)
  predictions = [Predictions.sort(np.full(5, p), np.full(5, y)) for p, y in cases]
  wrong, right = (calibration.scores(single_case, draws) for single_case in predictions)
  single = calibration.scores(Predictions.sort([0.9], [True]), Draws.generate(1, 20, 0))
  for name in calibration.QUANTITIES:
    estimate, difference = wrong.estimate(name), wrong.minus(right, name)
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    assert np.isnan([single.estimate(name).low, single.estimate(name).high]).all()
    assert -1 <= difference.low <= difference.value <= difference.high <= 1


def test_invalid_predictions_are_refused():
  refused('outside', Predictions.sort, [0.5, 1.2], [True, False])
  refused('NaN', Predictions.sort, [0.5, np.nan], [True, False])
  refused(r'shape \(1,\)', Predictions.sort, [0.5], [True, False])
  refused('N ≥ 1', Predictions.sort, [], [])
