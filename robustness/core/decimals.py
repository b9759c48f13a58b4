"""Rounding of numbers that are computed from decimals.

Floats miss decimals by a little: 100 · .29 is 28.999999999999996, which `int` rounds to 28.
"""

import math

ROUNDING = 1e-9
"""Distance from a whole number within which a number counts as whole."""


def floor(number: float) -> int:
  """Returns the largest whole number up to a number; 28.999999999999996 counts as 29."""
  return math.floor(number + ROUNDING)


def ceil(number: float) -> int:
  """Returns the smallest whole number from a number on; 29.000000000000004 counts as 29."""
  return math.ceil(number - ROUNDING)
