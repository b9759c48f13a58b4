"""Effective robustness: points on a line have none, and what lies above it is what it is."""

import numpy as np
import pytest
from scipy import special

from robustness.estimates.effective_robustness import effective_robustness, expected_accuracy
from tests.refusals import refused

CLEAN = np.array([0.7, 0.8, 0.9, 0.95])
SHIFTED = special.expit(0.8 * special.logit(CLEAN) - 1.2)


def test_models_on_a_line_of_logits_have_none_and_one_above_it_its_height():
  np.testing.assert_allclose(effective_robustness(CLEAN, SHIFTED, 10**6), 0, atol=1e-12)
  shifted = SHIFTED + np.array([0, 0.07, 0, 0])
  assert effective_robustness(CLEAN, shifted, 10**6)[1] == pytest.approx(0.07)


def test_bootstrap_samples_are_fitted_one_by_one_and_equal_models_have_no_line():
  several = np.stack([SHIFTED, SHIFTED + [0.1, 0, 0, 0]])
  values = effective_robustness(np.stack([CLEAN, CLEAN]), several, 10**6)
  np.testing.assert_allclose(values[0], effective_robustness(CLEAN, several[0], 10**6), atol=1e-12)
  np.testing.assert_allclose(values[1], effective_robustness(CLEAN, several[1], 10**6))
  assert 0.9 < expected_accuracy([0.5, 0.8, 1.0], [0.5, 0.8, 1.0], 1.0, 1000) <= 1
  assert np.isnan(expected_accuracy([0.5] * 3, [0.1, 0.2, 0.3], 0.5, 100))
  refused('at least 3 models, not 2', expected_accuracy, [0.5, 0.6], [0.4, 0.5], 0.5, 100)
