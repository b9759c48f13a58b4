"""Variances from the delete-one jackknife over independent units, such as the sites of photographs.

A unit may hold several images. The jackknife recomputes a statistic without each unit in turn; its
variance therefore includes the similarity of images within a unit and the unequal sizes of units.
Student's quantile is taken at the effective number of units.
"""

import numpy as np
from scipy import special

FEWEST = 4
"""Fewest effective units for an interval, if units hold several images."""
TOO_FEW = 'no interval: too few clusters'
"""Beginning of the note of an estimate with fewer than `FEWEST` effective units."""
FEWEST_SEEDS = 3
"""Fewest trainings for an interval of their mean. Student's interval of two extends 12.7 standard
errors to either side, over most of the range of a share.
"""
TOO_FEW_SEEDS = 'no interval: too few seeds'
"""Beginning of the note of a mean over fewer than `FEWEST_SEEDS` trainings."""


def effective_units(weight: np.ndarray) -> np.ndarray:
  """Returns the effective number of K weighted units, Kish's (Σm)² / Σm² for the weights m.

  A unit is, for example, a video with several images. A mean over this number of units of equal
  weight has the same variance. For equal weights it is K.

  Args:
    weight: m, [K, ...].

  Returns:
    The effective numbers, [...]; 0 if all weights are 0.

  Reference:
    Kish, Survey sampling (1965), section 11.2.
  """
  total, squares = weight.sum(0), (weight**2).sum(0)
  return np.asarray(total**2 / np.where(squares > 0, squares, 1))


def too_few(units: float) -> str:
  """Returns the note for an estimate that has too few independent units for an interval.

  Args:
    units: the effective number of units, see `effective_units`.
  """
  return f'{TOO_FEW}, effectively {units:.1f}'


def jackknife_deviations(without: np.ndarray) -> np.ndarray:
  """Returns each unit's contribution to the random error of a statistic, [K, ...].

  It is √((K − 1)/K) (θ₍ₖ₎ − mean of θ₍ₖ₎), where θ₍ₖ₎ is the statistic without unit k. The sum of
  the squares over the units is the jackknife's variance of the statistic. The sum of the products
  with the contributions to another statistic is the covariance of the two statistics.

  Args:
    without: θ₍ₖ₎ of K units, [K, ...].
  """
  count = len(without)
  return np.asarray(np.sqrt((count - 1) / count) * (without - without.mean(0)))


def degrees_of_freedom(deviation: np.ndarray) -> float:
  """Returns Satterthwaite's degrees of freedom (Σd²)² / Σd⁴ of a statistic's variance.

  It is K if all K units contribute equally, 1 if a single unit causes the whole variance, and NaN
  if the statistic does not vary.

  Args:
    deviation: d [K], the `jackknife_deviations` of the statistic.
  """
  squares = deviation**2
  total = (squares**2).sum()
  return float(squares.sum() ** 2 / total) if total > 0 else np.nan


def student_quantile(deviation: np.ndarray, confidence: float) -> float:
  """Returns Student's two-sided quantile for the jackknife interval of a statistic.

  The degrees of freedom are `degrees_of_freedom(deviation)`, or K − 1 if the statistic does not
  vary.

  Args:
    deviation: the `jackknife_deviations` of the statistic for K units, [K].
    confidence: the probability between minus the quantile and the quantile, in (0, 1).
  """
  freedom = np.nan_to_num(degrees_of_freedom(deviation), nan=len(deviation) - 1)
  return float(special.stdtrit(freedom, (1 + confidence) / 2))
