"""mCE and relative mCE: the published figures come out of the published accuracies."""

from __future__ import annotations

import math

import numpy as np
import pytest

from robustness.errors import InputError
from robustness.metrics.corruption_error import (
    bootstrap,
    mean_corruption_error,
    relative_mean_corruption_error,
)
from robustness.metrics.published import ALEXNET_ERRORS

# Yin et al. (2019), table 3: accuracy by corruption, mean over severities, in the table's order.
TABLE_3 = {
    'natural': (.9493, .8225, .8456, .8600, .8997, .7273, .5677, .5428, .8009, .8079, .7317, .6773,
                .8505, .7041, .8046),
    'Gauss': (.9244, .5703, .8371, .8429, .7194, .7907, .8046, .8308, .9078, .7715, .8983, .9233,
              .8835, .9171, .8163),
    'adversarial': (.8705, .7700, .8355, .8175, .7263, .8213, .8017, .6881, .8541, .8045, .8531,
                    .8275, .8258, .8183, .8279),
    'low pass': (.8996, .6917, .9063, .8838, .8191, .8929, .8770, .5999, .8405, .8605, .9156,
                 .7447, .8688, .7502, .8987),
    'high pass': (.9275, .7806, .7489, .7870, .8811, .6453, .4735, .3619, .6395, .7206, .6234,
                  .5374, .7929, .5603, .6514),
    'AutoAugment': (.9635, .9526, .9229, .8726, .9463, .8840, .7621, .8560, .8142, .8491, .7066,
                    .7834, .8939, .8125, .8994),
}
PRINTED = {'natural': 1.0, 'Gauss': .9831, 'adversarial': 1.0825, 'low pass': .8924,
           'high pass': 1.4449, 'AutoAugment': .6376}


@pytest.mark.parametrize('model', PRINTED)
def test_table_3_of_the_fourier_paper(model):
  error, baseline = (1 - np.array(TABLE_3[name]) for name in (model, 'natural'))
  assert mean_corruption_error(error, baseline) == pytest.approx(PRINTED[model], abs=3e-4)


def test_rounded_corruption_errors_of_resnet_50_give_its_published_mce():
  """Hendrycks and Dietterich (2019), table 1: CEs in percent of AlexNet's error; mCE 76.7."""
  printed = (80, 82, 83, 75, 89, 78, 80, 78, 75, 66, 57, 71, 85, 77, 77)
  alexnet = np.array(list(ALEXNET_ERRORS.values()))
  error = np.array(printed) / 100 * alexnet
  assert mean_corruption_error(error, alexnet) == pytest.approx(.767, abs=.005)


def test_severities_are_summed_before_the_ratio():
  error, baseline = np.array([[.1, .5], [.2, .2]]), np.array([[.2, .2], [.1, .3]])
  assert mean_corruption_error(error, baseline) == pytest.approx((.6 / .4 + .4 / .4) / 2)


def test_relative_mce_subtracts_the_clean_errors():
  value = relative_mean_corruption_error([.5, .3], .1, [.6, .4], .2)
  assert value == pytest.approx((.4 / .4 + .2 / .2) / 2)
  assert math.isnan(relative_mean_corruption_error([.5], .1, [.2], .2))


@pytest.mark.parametrize(('error', 'baseline', 'message'), [
    ([.1], [.1, .2], 'errors of 1 corruptions against a baseline of 2'),
    ([.1, .2], [.1, 0], 'no error under corruption 1'),
    ([], [], 'have shape')])
def test_refuses(error, baseline, message):
  with pytest.raises(InputError, match=message):
    mean_corruption_error(error, baseline)


def test_bootstrap_of_a_mean_agrees_with_the_normal_interval():
  values = np.random.default_rng(0).normal(size=400)
  number = bootstrap(lambda weights: weights @ values, 400, seed=1)
  half = 1.96 * values.std(ddof=1) / 20
  assert number.value == pytest.approx(values.mean())
  assert number.high - number.low == pytest.approx(2 * half, rel=.1)
  assert number == bootstrap(lambda weights: weights @ values, 400, seed=1)
