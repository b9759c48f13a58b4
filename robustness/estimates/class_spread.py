"""The spread of accuracies over classes, without the spread that few images per class add.

The classes are treated as a random sample: class c has a true accuracy a_c, and these have the
variance τ². The measured accuracy p_c has the additional sampling variance v_c. With weights w_c =
1 / (v_c + τ²) and the weighted mean p̄,

  Q(τ²) = Σ w_c (p_c − p̄)²

has a chi-squared distribution with K − 1 degrees of freedom for K classes of normal accuracies. The
estimate of τ² is the value at which Q = K − 1; the ends of its interval are those at which Q equals
a quantile of that distribution.

Reference: Paule and Mandel (1982) for the value; Viechtbauer, Confidence intervals for the amount
of heterogeneity in meta-analysis, Statistics in Medicine 26 (2007), for the interval; Shoemaker,
Fixing the F test for equal variances, The American Statistician 57 (2003), for degrees of freedom
where accuracies are not normal.
"""

import numpy as np
import scipy

from robustness.core.errors import InputError
from robustness.estimates.jackknife import degrees_of_freedom
from robustness.estimates.means import Estimate

Q_PROFILE = 'q-profile'
"""Name of the interval in the table of results."""
LARGEST = 0.5
"""Largest standard deviation of a population of accuracies, which are in [0, 1]."""


def variance_between_classes(
  values: np.ndarray, variances: np.ndarray, confidence: float = 0.95, freedom: float | None = None
) -> np.ndarray:
  """Returns the variance τ² of the true values of classes, with its interval.

  The values are only known from measurements: the measured value p_c of class c has the sampling
  variance v_c. With the weighted mean p̄, the statistic Q(τ²) = Σ (p_c − p̄)² / (v_c + τ²) is
  chi-squared with K − 1 degrees of freedom. The estimate of τ² solves Q = K − 1. At the ends of the
  interval, Q equals quantiles of this distribution.

  Args:
    values: [K], the measured values of K classes.
    variances: [K], the sampling variances, above 0.
    confidence: confidence level of the interval, in (0, 1).
    freedom: degrees of freedom f, so that f Q / (K − 1) is chi-squared; None takes K − 1.

  Returns:
    An array [3]: τ², and the low and the high end of its interval.

  Raises:
    InputError: there are fewer than two values, or a variance is not above 0.
  """
  count = len(values)
  if count < 2 or not (variances > 0).all():
    raise InputError(
      f'the spread of {count} values with variances from {variances.min(initial=np.inf):g}: give '
      'two or more, with variances above 0.'
    )

  def q_above(tau_squared: float, target: float) -> float:
    """Returns Q(τ²) − `target`."""
    weight = 1 / (variances + tau_squared)
    centre = (weight * values).sum() / weight.sum()
    return float((weight * (values - centre) ** 2).sum() - target)

  tail = (1 - confidence) / 2
  # Q falls with τ²: at the low end of the interval it is the upper quantile.
  freedom = count - 1 if freedom is None else freedom
  quantiles = scipy.stats.chi2.ppf([1 - tail, tail], freedom)
  q_at_low, q_at_high = quantiles * (count - 1) / freedom
  # Q is at most this sum / τ², and therefore below all targets at a τ² above `largest`.
  largest = ((values - values.mean()) ** 2).sum() / q_at_high
  solutions = []
  for q in (count - 1, q_at_low, q_at_high):
    has_solution = q_above(0, q) > 0  # else Q is below the target for every τ²
    solutions.append(scipy.optimize.brentq(q_above, 0, 1.01 * largest, q) if has_solution else 0.0)
  return np.array(solutions)


def class_spread(right: np.ndarray, labels: np.ndarray, confidence: float = 0.95) -> Estimate:
  """Returns the standard deviation τ of the classes' true accuracies, with its interval.

  The sampling variance of a class with n images is w / n, where w = Σ n p (1 − p) / Σ (n − 1) is
  the variance of an image within its class. To keep it above 0, one image of variance ¼ is added.
  All classes share w: with p (1 − p) / n of each class, classes that are accurate by chance would
  have the largest weights, which biases τ. The degrees of freedom are fewer than K − 1 if few
  classes have most of the spread. The interval is cut at `LARGEST` but always includes τ.

  Args:
    right: bool [N], whether each image is classified right.
    labels: int [N], the class of each image.
    confidence: confidence level of the interval, in (0, 1).
  """
  _, class_index, count = np.unique(labels, return_inverse=True, return_counts=True)
  accuracy, classes = np.bincount(class_index, right) / count, len(count)
  within = ((count * accuracy * (1 - accuracy)).sum() + 0.25) / (len(labels) - classes + 1)  # w
  variances = within / count  # the sampling variance of each class's accuracy, [K]
  # Weights of the classes in the statistic Q of `variance_between_classes`, and the terms of Q.
  weight = 1 / (variances + variance_between_classes(accuracy, variances)[0])
  deviation = np.sqrt(weight) * (accuracy - np.average(accuracy, weights=weight))
  # `degrees_of_freedom` is about K / 3 for normal deviations, which makes `freedom` K − 1, and less
  # if few classes have most of Q.
  inverse = 1 / degrees_of_freedom(deviation) - (classes - 3) / (classes * (classes - 1))
  freedom = float(np.fmin(2 / inverse, classes - 1))  # K − 1 also where accuracies are equal
  variance_and_ends = variance_between_classes(accuracy, variances, confidence, freedom)
  value, *ends = np.sqrt(variance_and_ends).tolist()  # standard deviations
  low, high = np.minimum(ends, LARGEST).tolist()
  return Estimate(value, low, max(high, value), len(labels), classes, Q_PROFILE)
