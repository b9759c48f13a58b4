r"""Errors by corruption and severity: mCE, its relative form, and the severity of failure.

With E[k, s] the error under corruption k at severity s and E⁰ a baseline's,

  mCE = 1/K Σ_k (Σ_s E[k, s]) / (Σ_s E⁰[k, s]),
  relative mCE = 1/K Σ_k Σ_s (E[k, s] - E_clean) / Σ_s (E⁰[k, s] - E⁰_clean).

Both are ratios, and 1 for the baseline itself (Hendrycks and Dietterich 2019, section 4.2, who
print them times 100; Yin et al. 2019, appendix A).
"""

import functools

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.estimates.intervals import BOOTSTRAP, percentile_interval
from robustness.estimates.means import Estimate, estimate_row, table_of_rows
from robustness.estimates.of_means import MeanRatio, Units, bootstrap_samples, units_of_classifier
from robustness.estimates.outcomes import Group, Outcomes
from robustness.estimates.quantity import AMOUNT, RATIO, Quantity, declare_error

BEFORE, NEVER = 'at or before the lowest severity', 'not reached'
"""Notes on a failure severity at an end of the severities."""
NO_CLEAN = 'undefined: no clean image is right'
"""Note on a failure severity of a classifier without clean accuracy."""
_ratio = functools.partial(declare_error, kind=RATIO, unit='%', function=MeanRatio('corruption'))
"""Returns a quantity, given its name and words: the error relative to a baseline, averaged over
corruptions.
"""
MCE = _ratio('mCE', 'mean corruption error', headline=True)
_EXCESS_RATIO = MeanRatio('corruption', is_excess=True)
RELATIVE_MCE = _ratio(
  'relative_mCE', 'relative mean corruption error', kind=AMOUNT, function=_EXCESS_RATIO
)


def mean_corruption_error(error: ArrayLike, baseline: ArrayLike) -> float:
  """Returns mCE as a ratio: the mean over corruptions of the error divided by the baseline's error.

  Args:
    error: errors by corruption [K], or by corruption and severity [K, S].
    baseline: errors of the baseline, of the same shape.

  Raises:
    InputError: the shapes differ, or the baseline makes no error under a corruption.
  """
  shape, baseline_shape = np.shape(error), np.shape(baseline)
  if shape != baseline_shape or len(shape) not in (1, 2) or not np.size(error):
    raise InputError(
      f'errors have shape {shape} and those of the baseline {baseline_shape}: give [corruptions] '
      'or [corruptions, severities] of both.'
    )
  # The mean error under each corruption, [K].
  means = np.reshape(error, (shape[0], -1)).mean(1)
  reference = np.reshape(baseline, (shape[0], -1)).mean(1)
  if np.any(reference <= 0):
    raise InputError(
      f'the baseline makes no error under corruption {int(np.argmin(reference))}: '
      'a ratio to it is undefined. Choose another baseline or more images.'
    )
  return float(MeanRatio('corruption')(means, reference))


def failure_severity(
  accuracy: np.ndarray, clean: np.ndarray | float, severities: ArrayLike, share: float
) -> np.ndarray:
  """Returns the severity at which accuracy falls below the limit `share` · `clean`, [...].

  Accuracy is interpolated linearly between severities. The result is the lowest severity if
  accuracy is below the limit there already, and ∞ if it never is.

  Args:
    accuracy: accuracy at S severities, [..., S].
    clean: accuracy on clean images, [...] or a number.
    severities: [S], ascending.
    share: the share of clean accuracy, in (0, 1).
  """
  accuracy, levels = np.asarray(accuracy, float), np.asarray(severities, float)
  threshold = share * np.asarray(clean, float)
  is_below = accuracy < threshold[..., None]
  # The indices of the first severity below the threshold and of the severity before it, [...], and
  # the accuracies there. Without a severity below, both are 0 and the last line returns ∞.
  first = is_below.argmax(-1)
  before = np.maximum(first - 1, 0)
  at_first = np.take_along_axis(accuracy, first[..., None], -1)[..., 0]
  at_before = np.take_along_axis(accuracy, before[..., None], -1)[..., 0]
  drop = at_before - at_first
  # How far the crossing is from severity `before` to `first`, in [0, 1]; 0 at the lowest severity.
  is_between = (first > 0) & (drop > 0)
  share_of_step = np.divide(at_before - threshold, drop, out=np.zeros_like(drop), where=is_between)
  crossing = levels[before] + share_of_step * (levels[first] - levels[before])
  return np.where(is_below.any(-1), crossing, np.inf)


def failure_points(
  quantity: Quantity, outcomes: Outcomes, share: float, confidence: float = 0.95
) -> pd.DataFrame:
  """Returns the failure severity of each classifier under each corruption, as a table of results.

  The failure severity is where accuracy falls below `share` times the clean accuracy (see
  `failure_severity`). If accuracy stays above, the value is NaN with a note.

  Intervals are from a bootstrap over units of images, such as all images of an object. An interval
  that reaches beyond the highest severity ends there, with a note. If units contain several images,
  an interval needs `jackknife.FEWEST` effective units.

  Args:
    quantity: the quantity to write in the rows.
    outcomes: whether each image is classified right. Views are described by the columns
      `corruption` and `severity`; the clean view has neither.
    share: the share of clean accuracy below which a classifier fails, in (0, 1).
    confidence: confidence level of the intervals, in (0, 1).
  """
  outcomes.require(quantity)
  right, rows = outcomes.common, []
  views = right.views.reset_index(drop=True)  # the index of a row is the index of the view
  clean, *_ = np.flatnonzero(views.corruption.isna())  # the clean view
  for label in right.labels:
    for name, corrupted in views.groupby('corruption', sort=False):
      corrupted = corrupted.sort_values('severity')
      groups = [Group.of_view(view) for view in (clean, *corrupted.index)]
      levels = corrupted.severity.to_numpy(float)
      estimate = failure_point(units_of_classifier(right, label, groups), levels, share, confidence)
      rows.append(estimate_row(label, '', quantity, {'corruption': name}, estimate, confidence))
  return table_of_rows(rows)


def failure_point(
  measured: Units, severities: np.ndarray, share: float, confidence: float = 0.95
) -> Estimate:
  """Returns the severity at which accuracy falls below `share` times the clean accuracy.

  For intervals and notes see `failure_points`.

  Args:
    measured: number of right images in each unit, such as all images of an object, for clean images
      and then for S severities.
    severities: [S], ascending.
    share: the share of clean accuracy below which a classifier fails, in (0, 1).
    confidence: confidence level of the interval, in (0, 1).
  """
  count, highest = len(measured.weight), severities[-1]
  estimate = functools.partial(Estimate, n=measured.n, clusters=count, method=BOOTSTRAP)
  if not measured.total[:, 0].any():
    return estimate(np.nan, np.nan, np.nan, note=NO_CLEAN)

  def severity_at(weights: np.ndarray) -> np.ndarray:
    """Returns the failure severity in each of B bootstrap samples, [B].

    Args:
      weights: how often each of K units of images is in each sample, divided by K, [B, K].
    """
    # Accuracy on clean images, then at each severity, [B, 1 + S]; sums with whole weights are
    # exact.
    accuracy = measured.means(np.rint(weights * count))
    return failure_severity(accuracy[:, 1:], accuracy[:, 0], severities, share)

  value = float(severity_at(np.full((1, count), 1 / count))[0])
  drawn = bootstrap_samples(severity_at, count)
  reached = np.isfinite(drawn).mean()  # share of the samples in which the classifier fails
  if not np.isfinite(value):
    note = f'{NEVER} by severity {highest:g}'
    note += f'; reached in {100 * reached:.1f} % of bootstrap samples' if reached else ''
    return estimate(np.nan, np.nan, np.nan, note=note)
  notes = [BEFORE] if value == severities[0] else []
  if measured.without_interval:
    return estimate(value, np.nan, np.nan, note='; '.join([*notes, measured.without_interval]))
  # Samples in which the classifier never fails count with the highest severity.
  low, high = percentile_interval(np.minimum(drawn, highest), measured.clusters, confidence)
  if reached < 1:
    notes.append(f'{NEVER} by {highest:g} in {100 * (1 - reached):.1f} % of bootstrap samples')
  ends = min(float(low), value), max(float(high), value)
  return estimate(value, *ends, note='; '.join(notes))
