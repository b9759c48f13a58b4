"""mCE and relative mCE: the published figures come out of the published accuracies."""

from __future__ import annotations

import math

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.metrics.corruption_error import (
  bootstrap,
  mean_corruption_error,
  relative_mean_corruption_error,
)
from robustness.metrics.published import ALEXNET_ERRORS

# Yin et al. (2019), table 3: accuracy by corruption, mean over severities, in the table's order.
TABLE_3 = {
  'natural': (
    0.9493,
    0.8225,
    0.8456,
    0.8600,
    0.8997,
    0.7273,
    0.5677,
    0.5428,
    0.8009,
    0.8079,
    0.7317,
    0.6773,
    0.8505,
    0.7041,
    0.8046,
  ),
  'Gauss': (
    0.9244,
    0.5703,
    0.8371,
    0.8429,
    0.7194,
    0.7907,
    0.8046,
    0.8308,
    0.9078,
    0.7715,
    0.8983,
    0.9233,
    0.8835,
    0.9171,
    0.8163,
  ),
  'adversarial': (
    0.8705,
    0.7700,
    0.8355,
    0.8175,
    0.7263,
    0.8213,
    0.8017,
    0.6881,
    0.8541,
    0.8045,
    0.8531,
    0.8275,
    0.8258,
    0.8183,
    0.8279,
  ),
  'low pass': (
    0.8996,
    0.6917,
    0.9063,
    0.8838,
    0.8191,
    0.8929,
    0.8770,
    0.5999,
    0.8405,
    0.8605,
    0.9156,
    0.7447,
    0.8688,
    0.7502,
    0.8987,
  ),
  'high pass': (
    0.9275,
    0.7806,
    0.7489,
    0.7870,
    0.8811,
    0.6453,
    0.4735,
    0.3619,
    0.6395,
    0.7206,
    0.6234,
    0.5374,
    0.7929,
    0.5603,
    0.6514,
  ),
  'AutoAugment': (
    0.9635,
    0.9526,
    0.9229,
    0.8726,
    0.9463,
    0.8840,
    0.7621,
    0.8560,
    0.8142,
    0.8491,
    0.7066,
    0.7834,
    0.8939,
    0.8125,
    0.8994,
  ),
}
PRINTED = {
  'natural': 1.0,
  'Gauss': 0.9831,
  'adversarial': 1.0825,
  'low pass': 0.8924,
  'high pass': 1.4449,
  'AutoAugment': 0.6376,
}


@pytest.mark.parametrize('model', PRINTED)
def test_table_3_of_the_fourier_paper(model):
  error, baseline = (1 - np.array(TABLE_3[name]) for name in (model, 'natural'))
  assert mean_corruption_error(error, baseline) == pytest.approx(PRINTED[model], abs=3e-4)


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


def test_bootstrap_of_a_mean_agrees_with_the_normal_interval():
  values = np.random.default_rng(0).normal(size=400)
  number = bootstrap(lambda weights: weights @ values, 400, seed=1)
  half = 1.96 * values.std(ddof=1) / 20
  assert number.value == pytest.approx(values.mean())
  assert number.high - number.low == pytest.approx(2 * half, rel=0.1)
  assert number == bootstrap(lambda weights: weights @ values, 400, seed=1)
