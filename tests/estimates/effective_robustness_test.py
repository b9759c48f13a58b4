"""Effective robustness: points on a line have none, and what lies above it is what it is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from robustness.core.errors import InputError
from robustness.estimates.effective_robustness import effective_robustness, expected_accuracy

CLEAN = np.array([0.7, 0.8, 0.9, 0.95])
SHIFTED = special.expit(0.8 * special.logit(CLEAN) - 1.2)


def test_models_on_a_line_of_logits_have_none() -> None:
  np.testing.assert_allclose(effective_robustness(CLEAN, SHIFTED, 10**6), 0, atol=1e-12)


def test_a_model_above_the_line_of_the_others_has_its_height() -> None:
  shifted = SHIFTED + np.array([0, 0.07, 0, 0])
  assert effective_robustness(CLEAN, shifted, 10**6)[1] == pytest.approx(0.07)


def test_bootstrap_samples_are_fitted_one_by_one() -> None:
  several = np.stack([SHIFTED, SHIFTED + [0.1, 0, 0, 0]])
  values = effective_robustness(np.stack([CLEAN, CLEAN]), several, 10**6)
  np.testing.assert_allclose(values[0], effective_robustness(CLEAN, several[0], 10**6), atol=1e-12)
  np.testing.assert_allclose(values[1], effective_robustness(CLEAN, several[1], 10**6))


def test_the_ends_have_a_logit_and_equal_models_no_line() -> None:
  assert 0.9 < expected_accuracy([0.5, 0.8, 1.0], [0.5, 0.8, 1.0], 1.0, 1000) <= 1
  assert np.isnan(expected_accuracy([0.5] * 3, [0.1, 0.2, 0.3], 0.5, 100))
  with pytest.raises(InputError, match='at least 3 models, not 2'):
    expected_accuracy([0.5, 0.6], [0.4, 0.5], 0.5, 100)
