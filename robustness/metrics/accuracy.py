"""Accuracy and error from the rank of the true class, and means, each with its interval."""

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


def top_k_correct(rank: ArrayLike, k: int) -> np.ndarray:
  """Whether the true class is among the k best: rank < k.

  Args:
    rank: number of classes that come before the true one (0: the prediction is right),
      whole numbers >= 0, any shape.
    k: at least 1. For k at or above the number of classes everything is correct.

  Returns:
    Booleans of the shape of `rank`.

  Raises:
    InputError: k < 1, or a rank that is negative or not a whole number.
  """
  if k < 1:
    raise InputError(f'k = {k!r} is not a positive whole number: give 1 for top-1.')
  ranks = np.asarray(rank)
  if ranks.dtype.kind not in 'iu':
    raise InputError(f'ranks have dtype {ranks.dtype}: give whole numbers (int32).')
  if ranks.size and ranks.min() < 0:
    raise InputError(f'rank {ranks.min()} is negative: mask padding rows before counting.')
  return ranks < k


def top_k_accuracy(rank: ArrayLike, k: int = 1, confidence: float = 0.95) -> Number:
  """Fraction of examples whose true class is among the k best.

  Args:
    rank: [N], see `top_k_correct`.
    k: at least 1.
    confidence: of the Clopper–Pearson interval, in (0, 1).
  """
  correct = top_k_correct(rank, k)
  return proportion(int(correct.sum()), correct.size, confidence)


def top_k_error(rank: ArrayLike, k: int = 1, confidence: float = 0.95) -> Number:
  """Fraction of examples whose true class is not among the k best: 1 − top-k accuracy.

  Args:
    rank: [N], see `top_k_correct`.
    k: at least 1.
    confidence: of the Clopper–Pearson interval, in (0, 1).
  """
  correct = top_k_correct(rank, k)
  return proportion(int(correct.size - correct.sum()), correct.size, confidence)
