"""High passes: the square around the Nyquist frequency, its counts, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.fourier.filters import high_pass, lowest_kept


def test_the_published_high_pass_keeps_three_cycles_and_more() -> None:
  keep = high_pass(32, 32, 27)
  f = np.arange(32) - 16
  np.testing.assert_array_equal(keep, (abs(f) >= 3)[:, None] & (abs(f) >= 3))
  assert keep.sum() == 27**2
  np.testing.assert_array_equal(high_pass(32, 32), keep)
  assert high_pass(32, 32, 31).sum() == 32**2 - 63, 'only the row and column of zero go'


@pytest.mark.parametrize(
  ('side', 'bandwidth'), [(28, 23), (32, 27), (64, 53), (224, 183), (299, 244), (5, 4)]
)
def test_other_sides_in_proportion(side: int, bandwidth: int) -> None:
  assert high_pass(side, side).sum() == bandwidth**2
  np.testing.assert_array_equal(high_pass(side, side, bandwidth), high_pass(side, side))


def test_it_is_symmetric_and_scales_with_the_longer_side() -> None:
  for height, width in ((32, 48), (31, 50), (28, 28)):
    keep = np.fft.ifftshift(high_pass(height, width))
    mirrored = np.roll(keep[::-1, ::-1], 1, (0, 1))
    np.testing.assert_array_equal(keep, mirrored)
  assert lowest_kept(32, 64, 27) == (3, 6)


@pytest.mark.parametrize(
  ('side', 'bandwidth', 'message'),
  [
    (32, 26, 'takes an odd number in 1..31'),
    (31, 27, 'takes an even number'),
    (32, 33, 'bandwidth is 33'),
    (32, -1, 'or 0 for 27 of 32'),
  ],
)
def test_squares_that_are_not_symmetric_are_refused(
  side: int, bandwidth: int, message: str
) -> None:
  with pytest.raises(InputError, match=message):
    high_pass(side, side, bandwidth)
