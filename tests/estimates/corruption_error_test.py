"""mCE and relative mCE: the published figures come out of the published accuracies."""

from __future__ import annotations

import math

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.estimates.corruption_error import (
  mean_corruption_error,
  relative_mean_corruption_error,
)
from robustness.estimates.published import ALEXNET_ERRORS, TABLE_3


@pytest.mark.parametrize('model', TABLE_3.mce)
def test_table_3_of_the_fourier_paper(model):
  error, baseline = (
    1 - np.array(list(TABLE_3.corrupted[name].values())) for name in (model, 'natural')
  )
  assert mean_corruption_error(error, baseline) == pytest.approx(TABLE_3.mce[model], abs=3e-4)


def test_rounded_corruption_errors_of_resnet_50_give_its_published_mce():
  """Hendrycks and Dietterich (2019), table 1: CEs in percent of AlexNet's error; mCE 76.7."""
  printed = (80, 82, 83, 75, 89, 78, 80, 78, 75, 66, 57, 71, 85, 77, 77)
  alexnet = np.array(list(ALEXNET_ERRORS.values()))
  error = np.array(printed) / 100 * alexnet
  assert mean_corruption_error(error, alexnet) == pytest.approx(0.767, abs=0.005)


def test_severities_are_summed_before_the_ratio():
  error, baseline = np.array([[0.1, 0.5], [0.2, 0.2]]), np.array([[0.2, 0.2], [0.1, 0.3]])
  assert mean_corruption_error(error, baseline) == pytest.approx((0.6 / 0.4 + 0.4 / 0.4) / 2)


def test_relative_mce_subtracts_the_clean_errors():
  value = relative_mean_corruption_error([0.5, 0.3], 0.1, [0.6, 0.4], 0.2)
  assert value == pytest.approx((0.4 / 0.4 + 0.2 / 0.2) / 2)
  assert math.isnan(relative_mean_corruption_error([0.5], 0.1, [0.2], 0.2))


@pytest.mark.parametrize(
  ('error', 'baseline', 'message'),
  [
    ([0.1], [0.1, 0.2], 'errors of 1 corruptions against a baseline of 2'),
    ([0.1, 0.2], [0.1, 0], 'no error under corruption 1'),
    ([], [], 'have shape'),
  ],
)
def test_refuses(error, baseline, message):
  with pytest.raises(InputError, match=message):
    mean_corruption_error(error, baseline)
