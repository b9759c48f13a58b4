"""Variances from the delete-one jackknife over independent units, such as sites.

A unit may hold several images. The jackknife recomputes a statistic without each unit, so its
variance includes how similar images of one unit are and how unequal the units are. The number of
units that it effectively rests on sets Student's quantile.
"""

import numpy as np

FEWEST = 4
"""Effective units that an interval needs where units hold several images."""
TOO_FEW = 'no interval: too few clusters'


def effective_units(weight: np.ndarray) -> np.ndarray:
  """Returns (Σm)² / Σm² of the weights m [K, ...] of K units, [...] (Kish 1965, section 11.2).

  The mean of this number of equal units has the same variance.
  """
  total, squares = weight.sum(0), (weight**2).sum(0)
  return np.asarray(total**2 / np.where(squares > 0, squares, 1))


def too_few(units: float) -> str:
  """Returns the note of an estimate that has no interval because of its effective units."""
  return f'{TOO_FEW}, effectively {units:.1f}'


def deviations(without: np.ndarray) -> np.ndarray:
  """Returns √((K − 1)/K) (θ₍ₖ₎ − mean), [K, ...], of statistics θ₍ₖ₎ without unit k, [K, ...].

  The sum of their squares over the units is the jackknife's variance, and the sum of their products
  its covariance.
  """
  count = len(without)
  return np.asarray(np.sqrt((count - 1) / count) * (without - without.mean(0)))


def degrees_of_freedom(deviation: np.ndarray) -> float:
  """Returns Satterthwaite's (Σd²)² / Σd⁴ of the `deviations` d [K] of one statistic.

  It is K where all units contribute equally, 1 where a single unit makes the whole variance, and
  NaN where the statistic does not vary.
  """
  squares = deviation**2
  total = (squares**2).sum()
  return float(squares.sum() ** 2 / total) if total > 0 else np.nan
