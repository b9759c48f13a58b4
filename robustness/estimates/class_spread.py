"""The spread of accuracies over classes, without the spread that few images a class add.

Classes are taken for a sample: class c has the true accuracy a_c of variance τ², and the measured
one p_c of the further variance v_c. With weights w_c = 1 / (v_c + τ²) and their mean p̄,

  Q(τ²) = Σ w_c (p_c − p̄)²

has a chi-squared distribution with K − 1 degrees of freedom. The estimate of τ² has Q = K − 1, and
the ends of its interval have the quantiles of that distribution.

Reference: Paule and Mandel (1982) for the value; Viechtbauer, Confidence intervals for the amount
of heterogeneity in meta-analysis, Statistics in Medicine 26 (2007), for the interval.
"""

import numpy as np
from scipy import optimize, stats

from robustness.core.errors import InputError
from robustness.estimates.means import Estimate

Q_PROFILE = 'q-profile'


def between(values: np.ndarray, variances: np.ndarray, confidence: float = 0.95) -> np.ndarray:
  """Returns τ² and the ends of its interval, [3], of values [K] with known variances [K] above 0.

  Raises:
    InputError: there are fewer than two values, or a variance is not above 0.
  """
  count = len(values)
  if count < 2 or not (variances > 0).all():
    raise InputError(
      f'the spread of {count} values with variances from {variances.min(initial=np.inf):g}: give '
      'two or more, with variances above 0.'
    )

  def excess(variance: float, target: float) -> float:
    weight = 1 / (variances + variance)
    centre = (weight * values).sum() / weight.sum()
    return float((weight * (values - centre) ** 2).sum() - target)

  tail = (1 - confidence) / 2
  targets = count - 1, *stats.chi2.ppf([1 - tail, tail], count - 1)
  largest = ((values - values.mean()) ** 2).sum() / targets[2]  # Q is at most this sum / τ²
  return np.array(
    [
      optimize.brentq(excess, 0, 1.01 * largest, (target,)) if excess(0, target) > 0 else 0.0
      for target in targets
    ]
  )


def class_spread(right: np.ndarray, labels: np.ndarray, confidence: float = 0.95) -> Estimate:
  """Returns the standard deviation τ of true accuracies over the classes of N images.

  The variance of a measured accuracy is p (1 − p) / n with half a right and half a wrong answer
  added, so that a class without mistakes has one too.

  Args:
    right: bool [N].
    labels: int [N].
    confidence: of the interval.
  """
  _, place, count = np.unique(labels, return_inverse=True, return_counts=True)
  correct = np.bincount(place, right)
  smoothed = (correct + 0.5) / (count + 1)
  spread = np.sqrt(between(correct / count, smoothed * (1 - smoothed) / count, confidence))
  value, low, high = spread.tolist()
  return Estimate(value, low, high, len(labels), len(count), Q_PROFILE)
