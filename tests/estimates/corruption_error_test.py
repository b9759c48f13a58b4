"""Tests mCE against published values, and failure points and their intervals."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from robustness.corruptions.names import SETS
from robustness.estimates.corruption_error import (
  RELATIVE_MCE,
  failure_point,
  failure_severity,
  mean_corruption_error,
)
from robustness.estimates.of_means import Units, units_of_classifier
from robustness.estimates.outcomes import Group, Outcomes
from robustness.estimates.published import ALEXNET_ERRORS, TABLE_1, TABLE_3, TABLE_4
from tests.refusals import refused


def test_published_errors_give_the_published_mce():
  """Uses table 3 of the Fourier paper, and table 1 of Hendrycks and Dietterich (2019).

  The latter has rounded errors of ResNet-50 in percent of AlexNet's, and the mCE 76.7.
  """
  for model, mce in TABLE_3.mce.items():
    error, natural = (1 - np.array(list(TABLE_3.corrupted[k].values())) for k in (model, 'natural'))
    assert mean_corruption_error(error, natural) == pytest.approx(mce, abs=3e-4), model
  printed = (80, 82, 83, 75, 89, 78, 80, 78, 75, 66, 57, 71, 85, 77, 77)
  alexnet = np.array(list(ALEXNET_ERRORS.values()))
  error = np.array(printed) / 100 * alexnet
  assert mean_corruption_error(error, alexnet) == pytest.approx(0.767, abs=0.005)


def test_severities_are_summed_before_the_ratio_and_relative_mce_subtracts_the_clean_errors():
  error, baseline = np.array([[0.1, 0.5], [0.2, 0.2]]), np.array([[0.2, 0.2], [0.1, 0.3]])
  assert mean_corruption_error(error, baseline) == pytest.approx((0.6 / 0.4 + 0.4 / 0.4) / 2)
  relative = RELATIVE_MCE.function
  value = relative(np.array([0.1, 0.5, 0.3]), np.array([0.2, 0.6, 0.5]))
  assert value == pytest.approx((0.4 / 0.4 + 0.2 / 0.3) / 2)
  assert math.isnan(relative(np.array([0.1, 0.5]), np.array([0.2, 0.2])))
  counts = r'have shape \(1,\) and those of the baseline \(2,\)'
  refused(counts, mean_corruption_error, [0.1], [0.1, 0.2])
  refused('no error under corruption 1', mean_corruption_error, [0.1, 0.2], [0.1, 0])
  refused('have shape', mean_corruption_error, [], [])


def test_published_tables_agree_with_the_text_of_the_paper():
  names = set(TABLE_3.corrupted['natural'])
  assert names - {*SETS['official']} == {'gaussian_blur', 'speckle_noise'}
  assert {*SETS['official']} - names == {'gaussian_noise', 'frost'}
  assert set(TABLE_4.corrupted['natural']) < {*SETS['official']}
  for label, accuracies in TABLE_4.corrupted.items():
    assert np.mean([*accuracies.values()]) == pytest.approx(TABLE_4.average[label], abs=6e-5), label
  gains = [
    {name for name, value in table.corrupted['high_pass'].items() if value > natural[name]}
    for table in (TABLE_3, TABLE_4)
    for natural in [table.corrupted['natural']]
  ]
  assert gains == [set(), {'contrast', 'fog'}]
  lost = np.subtract(*TABLE_1.values())
  assert lost[[0, -1]] == pytest.approx([0.0516, 0.2803]) and (np.diff(lost) > 0).all()
  assert np.mean(TABLE_1['natural']) == pytest.approx(TABLE_3.corrupted['natural']['fog'], abs=5e-5)


SEVERITIES = np.arange(1, 6)


def test_failure_severities_by_hand():
  for accuracy, expected in (
    ((0.9, 0.8, 0.6, 0.2, 0.1), 3.25),  # a quarter of the way from 0.6 to 0.2 is 0.5
    ((0.9, 0.5, 0.4, 0.3, 0.2), 2),  # reaches 0.5 at a severity
    ((0.4, 0.3, 0.2, 0.1, 0.0), 1),
    ((0.9, 0.8, 0.7, 0.6, 0.5), np.inf),
    ((0.9, 0.4, 0.9, 0.4, 0.1), 1.8),  # falls below 0.5 twice: the first time counts
  ):
    assert failure_severity(np.array(accuracy), 1.0, SEVERITIES, 0.5) == pytest.approx(expected)
  table = np.array([[0.9, 0.6, 0.2], [0.9, 0.9, 0.9]])
  severities = failure_severity(table, np.array([1, 1]), (1, 2.5, 3), 0.5)
  np.testing.assert_allclose(severities, [2.625, np.inf])


def drawn(shares: tuple[float, ...], count: int = 400) -> np.ndarray:
  """Returns whether images are right [count, 6]: all when clean, then these shares of them.

  An image that is right at a severity is right at lower ones.
  """
  return np.linspace(0, 1, count, endpoint=False)[:, None] < np.array((1.0, *shares))


def units_of(right: np.ndarray, versions: int = 1) -> Units:
  """Returns the units of answers [rows, 6], in which each image has this number of rows."""
  images = None if versions == 1 else np.arange(len(right)) // versions
  outcomes = Outcomes({'net': right}, pd.DataFrame(index=range(6)), clusters=images)
  return units_of_classifier(outcomes, 'net', [Group.of_view(k) for k in range(6)])


def test_the_interval_contains_the_value_and_is_narrower_for_more_images():
  widths = []
  for count in (100, 1600):
    right = drawn((0.9, 0.8, 0.6, 0.2, 0.1), count)
    number = failure_point(units_of(right), SEVERITIES, 0.5)
    assert number.value == pytest.approx(3.25, abs=0.05) and number.n == count
    assert number.low <= number.value <= number.high and number.note == ''
    widths.append(number.high - number.low)
  assert widths[1] < widths[0] / 2


def test_versions_of_an_image_are_resampled_together():
  right = drawn((0.9, 0.8, 0.6, 0.2, 0.1), 60)
  once = failure_point(units_of(right), SEVERITIES, 0.5)
  often = failure_point(units_of(right[np.arange(60).repeat(10)], 10), SEVERITIES, 0.5)
  expected = {**dataclasses.asdict(once), 'n': 60 * 10 * 6}
  np.testing.assert_equal(dataclasses.asdict(often), expected)  # p is NaN, unequal to itself


def test_failures_outside_the_severities_have_a_note():
  never = failure_point(units_of(drawn((0.9, 0.9, 0.9, 0.9, 0.9))), SEVERITIES, 0.5)
  assert np.isnan(never.value) and never.note == 'not reached by severity 5'
  at_once = failure_point(units_of(drawn((0.3, 0.2, 0.2, 0.1, 0.1))), SEVERITIES, 0.5)
  assert at_once.value == 1 and 'at or before' in at_once.note
  nearly = failure_point(units_of(drawn((0.9, 0.8, 0.7, 0.6, 0.49))), SEVERITIES, 0.5)
  assert nearly.high == 5 and 'not reached by 5 in' in nearly.note
  seldom = failure_point(units_of(drawn((0.9, 0.8, 0.7, 0.6, 0.51))), SEVERITIES, 0.5)
  assert np.isnan(seldom.value) and 'reached in' in seldom.note
  once = failure_point(units_of(drawn((0.9, 0.8, 0.75, 0.7, 0.57))), SEVERITIES, 0.5)
  assert once.note.endswith('reached in 0.1 % of bootstrap samples')
