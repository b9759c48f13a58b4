"""Tables as text."""

import math

from robustness.report.text import lines
from robustness.results import Table


def test_columns_are_even_and_numbers_end_below_each_other() -> None:
  table = Table(
    ('', 'natural', 'published'), [['clean images', 0.5, 0.96259], ['mCE', math.nan, None]]
  )
  assert lines(table) == [
    '              natural  published',
    'clean images   0.5000     0.9626',
    'mCE                 -          -',
  ]
