"""The first largest score, as NumPy's argmax has it: ties, dtypes, shapes and NaN."""

import numpy as np
import pytest

from robustness.estimates import largest
from robustness.estimates.largest import predicted
from tests.refusals import refused


@pytest.mark.parametrize(
  'shape',
  [(7,), (3, 5), (2, 3, 30), (1, 1), (9000, 30), (300, 1000), (5, 32), (5, 33), (0, 4), (0, 40)],
)
@pytest.mark.parametrize('dtype', [np.float32, np.float64, np.int32])
def test_equals_argmax_with_many_ties(shape, dtype):
  scores = np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)
  best = predicted(scores)
  assert best.shape == shape[:-1]
  np.testing.assert_array_equal(best, scores.argmax(-1))


def test_equals_argmax_on_any_numbers_layout_and_cut_into_blocks(monkeypatch):
  scores = np.random.default_rng(1).normal(size=(30, 4000)).T
  scores[5], scores[6, 3:] = -np.inf, -np.inf
  np.testing.assert_array_equal(predicted(scores), scores.argmax(-1))
  scores = np.random.default_rng(2).normal(size=(50, 7))
  monkeypatch.setattr(largest, '_BLOCK', 200)
  np.testing.assert_array_equal(predicted(scores), scores.argmax(-1))


@pytest.mark.parametrize('classes', [4, 40])
def test_what_has_no_largest_is_refused(classes):
  scores = np.zeros((2, 3, classes))
  scores[1, 2, 0] = np.nan
  refused(r'row \(1, 2\) hold NaN', predicted, scores)
  refused('at least one class', predicted, np.zeros((3, 0)))
