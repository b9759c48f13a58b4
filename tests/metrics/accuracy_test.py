"""Accuracy from ranks, and means."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from robustness.core.errors import InputError
from robustness.metrics import average, proportion, top_k_accuracy, top_k_correct, top_k_error

RANK = np.array([0, 0, 1, 4, 5, 9], np.int32)


def test_top_k_counts_the_ranks_below_k():
  assert top_k_accuracy(RANK, 1).value == pytest.approx(2 / 6)
  assert top_k_accuracy(RANK, 5).value == pytest.approx(4 / 6)
  assert top_k_accuracy(RANK, 10).value == 1.0
  assert top_k_accuracy(RANK, 1).n == 6


def test_error_is_one_minus_accuracy_and_mirrors_its_interval():
  accuracy, error = top_k_accuracy(RANK, 5), top_k_error(RANK, 5)
  assert error.value == pytest.approx(1 - accuracy.value)
  assert error.low == pytest.approx(1 - accuracy.high)
  assert error.high == pytest.approx(1 - accuracy.low)


def test_accuracy_never_falls_with_k():
  values = [top_k_accuracy(RANK, k).value for k in range(1, 11)]
  assert values == sorted(values)


@pytest.mark.parametrize('rank', [np.array([-1, 0]), np.array([0.0, 1.0]), np.array([True])])
def test_ranks_must_be_counts(rank):
  with pytest.raises(InputError, match='rank'):
    top_k_correct(rank, 1)


def test_k_must_be_positive():
  with pytest.raises(InputError, match='k = 0'):
    top_k_correct(RANK, 0)


def test_proportion_reports_value_n_and_method():
  number = proportion(0, 10)
  assert (number.value, number.low, number.n) == (0.0, 0.0, 10)
  assert number.high == pytest.approx(0.3085, abs=5e-5)
  assert number.interval == 'clopper-pearson 0.95'
  assert math.isnan(proportion(0, 0).value)


def test_average_is_the_mean_with_students_interval():
  number = average([1.0, 2.0, 3.0, 4.0], 0.9)
  assert number.value == 2.5 and number.n == 4
  half = stats.t.ppf(0.95, 3) * np.std([1, 2, 3, 4], ddof=1) / 2
  assert number.high - number.value == pytest.approx(half)
  few = [0] * 19 + [1]
  assert average(few).low < 0 and average(few, lowest=0).low == 0
  assert average(few, lowest=0).high == average(few).high
  with pytest.raises(InputError, match='at least one'):
    average([])
