"""Failure points: by hand, censored ones, their intervals, and what is refused."""

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.estimates.failure_point import failure_point, failure_severity

SEVERITIES = np.arange(1, 6)


@pytest.mark.parametrize(
  ('accuracy', 'expected'),
  [
    ((0.9, 0.8, 0.6, 0.2, 0.1), 3.25),  # from .6 to .2, half of clean is .5
    ((0.9, 0.5, 0.4, 0.3, 0.2), 2),  # at .5 itself it is not below yet
    ((0.4, 0.3, 0.2, 0.1, 0.0), 1),
    ((0.9, 0.8, 0.7, 0.6, 0.5), np.inf),
    ((0.9, 0.4, 0.9, 0.4, 0.1), 1.8),  # the first time
  ],
)
def test_by_hand(accuracy, expected):
  assert failure_severity(np.array(accuracy), 1.0, SEVERITIES, 0.5) == pytest.approx(expected)


def test_severities_between_the_five_and_many_at_once():
  table = np.array([[0.9, 0.6, 0.2], [0.9, 0.9, 0.9]])
  found = failure_severity(table, np.array([1, 1]), (1, 2.5, 3), 0.5)
  np.testing.assert_allclose(found, [2.625, np.inf])


def drawn(shares: tuple[float, ...], count: int = 400) -> np.ndarray:
  """Whether each image is right, all when clean; one right at a severity is so at lower ones."""
  return np.linspace(0, 1, count, endpoint=False)[:, None] < np.array((1.0, *shares))


def test_an_interval_holds_the_value_and_shrinks_with_images():
  widths = []
  for count in (100, 1600):
    right = drawn((0.9, 0.8, 0.6, 0.2, 0.1), count)
    number = failure_point(right, SEVERITIES, 0.5)
    assert number.value == pytest.approx(3.25, abs=0.05) and number.n == count
    assert number.low <= number.value <= number.high and number.note == ''
    widths.append(number.high - number.low)
  assert widths[1] < widths[0] / 2


def test_what_lies_beyond_the_severities_is_said():
  never = failure_point(drawn((0.9, 0.9, 0.9, 0.9, 0.9)), SEVERITIES, 0.5)
  assert np.isnan(never.value) and never.note == 'not reached by severity 5'
  at_once = failure_point(drawn((0.3, 0.2, 0.2, 0.1, 0.1)), SEVERITIES, 0.5)
  assert at_once.value == 1 and 'at or before' in at_once.note
  nearly = failure_point(drawn((0.9, 0.8, 0.7, 0.6, 0.49)), SEVERITIES, 0.5)
  assert nearly.high == 5 and 'not reached by 5 in' in nearly.note
  seldom = failure_point(drawn((0.9, 0.8, 0.7, 0.6, 0.51)), SEVERITIES, 0.5)
  assert np.isnan(seldom.value) and 'reached in' in seldom.note


def test_what_is_wrong_is_named():
  with pytest.raises(InputError, match='ascending'):
    failure_severity(np.ones(2), 1.0, (2, 1), 0.5)
  with pytest.raises(InputError, match='for 3 accuracies'):
    failure_severity(np.ones(3), 1.0, (1, 2), 0.5)
