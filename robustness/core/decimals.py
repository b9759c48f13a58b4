"""Rounding of numbers that are computed from decimals.

Floats miss decimals by a little: 100 · .29 is 28.999999999999996, which `int` rounds to 28.
"""

import math

ROUNDING = 1e-9
"""Distance from a whole number within which a number counts as whole."""


def floor(number: float) -> int:
  """Returns a number rounded down to an integer; 28.999999999999996 counts as 29."""
  return math.floor(number + ROUNDING)


def ceil(number: float) -> int:
  """Returns a number rounded up to an integer; 29.000000000000004 counts as 29."""
  return math.ceil(number - ROUNDING)
