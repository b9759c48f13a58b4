"""Shares and paired differences by view against SciPy and counts by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from robustness.metrics.view_shares import comparison_table, difference_arrays, share_arrays

GENERATOR = np.random.default_rng(0)
FIRST, SECOND = GENERATOR.random((50, 3)) < 0.3, GENERATOR.random((50, 3)) < [0.3, 0.5, 0.9]


def test_errors_have_exact_intervals() -> None:
  arrays = share_arrays(FIRST, 'error', 0.9)
  for view in range(3):
    exact = stats.binomtest(int(FIRST[:, view].sum()), 50).proportion_ci(0.9, 'exact')
    assert arrays['error'][view] == FIRST[:, view].mean()
    assert (arrays['error_low'][view], arrays['error_high'][view]) == pytest.approx(
      (exact.low, exact.high)
    )


def test_differences_are_second_minus_first() -> None:
  arrays = difference_arrays(FIRST, SECOND)
  np.testing.assert_allclose(arrays['difference'], SECOND.mean(0) - FIRST.mean(0), atol=1e-12)
  for view in range(3):
    only = (FIRST & ~SECOND)[:, view].sum(), (~FIRST & SECOND)[:, view].sum()
    expected = stats.binomtest(int(min(only)), int(sum(only))).pvalue
    assert arrays['difference_p'][view] == pytest.approx(expected)
  assert (arrays['difference_low'] <= arrays['difference']).all()
  assert arrays['difference_significant'][2] and not arrays['difference_significant'][0]
  table = comparison_table('error', 'a', {'b': arrays}, ['x', 'y', 'z'])
  assert [row[:3] for row in table.rows] == [['a', 'b', v] for v in 'xyz']
  assert table.rows[2][3] == pytest.approx(arrays['difference'][2]) and table.rows[2][-1] is True
