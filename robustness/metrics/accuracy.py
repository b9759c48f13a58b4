"""Proportions and means, each with its interval."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.estimates.intervals import clopper_pearson, student_interval
from robustness.results import Number


def proportion(successes: int, n: int, confidence: float = 0.95) -> Number:
  """The fraction successes/n with its Clopper–Pearson interval; NaN throughout for n = 0.

  Args:
    successes: how many of the n, in [0, n].
    n: number of examples.
    confidence: of the interval, in (0, 1).
  """
  low, high = clopper_pearson(successes, n, confidence)
  value = successes / n if n else np.nan
  name = f'clopper-pearson {confidence:g}'
  return Number(float(value), float(low), float(high), int(n), name)


def average(values: ArrayLike, confidence: float = 0.95, lowest: float = -np.inf) -> Number:
  """The mean of independent values of any range with Student's interval.

  Means of fractions have `robustness.metrics.shares.mean_share`.

  Args:
    values: [N], any unit.
    confidence: of the interval, in (0, 1).
    lowest: the least possible value, 0 for counts; the interval is cut there.
  """
  sample = np.asarray(values, float)
  if sample.ndim != 1 or not sample.size:
    raise InputError(f'values have shape {sample.shape}: give at least one value, as [N].')
  std = sample.std(ddof=1) if sample.size > 1 else np.nan
  low, high = student_interval(sample.mean(), std, sample.size, confidence)
  return Number(
    float(sample.mean()),
    float(np.maximum(low, lowest)),
    float(high),
    sample.size,
    f'student {confidence:g}',
  )
