"""The severity at which a classifier fails: its accuracy falls below a share of clean accuracy."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.estimates.intervals import percentile_interval
from robustness.estimates.means import Estimate, part, row
from robustness.estimates.of_means import BOOTSTRAP, resampled
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity

BEFORE, NEVER = 'at or before the lowest severity', 'not reached'


def failure_severity(
  accuracy: np.ndarray, clean: np.ndarray | float, severities: ArrayLike, share: float
) -> np.ndarray:
  """Returns the first severity at which accuracy is below `share` × clean accuracy.

  Between the severities accuracy is taken as linear. What is below at the lowest severity gives
  that one: nothing is known of weaker corruptions.

  Args:
    accuracy: at each severity, fractions [..., S].
    clean: accuracy without corruption, [...].
    severities: ascending, [S].
    share: in (0, 1).

  Returns:
    float64 [...]; infinite where accuracy stays above.

  Raises:
    InputError: severities that do not ascend, or are no more than accuracies.
  """
  table, levels = np.asarray(accuracy, float), np.asarray(severities, float)
  if levels.ndim != 1 or (np.diff(levels) <= 0).any() or table.shape[-1] != len(levels):
    raise InputError(
      f'severities are {levels.tolist()} for {table.shape[-1]} accuracies; give one for each, '
      'ascending.'
    )
  threshold = share * np.asarray(clean, float)
  below = table < threshold[..., None]
  first = below.argmax(-1)
  before = np.maximum(first - 1, 0)
  high, low = (np.take_along_axis(table, k[..., None], -1)[..., 0] for k in (before, first))
  drop = high - low
  part = np.divide(high - threshold, drop, out=np.zeros_like(drop), where=(drop > 0) & (first > 0))
  found = levels[before] + part * (levels[first] - levels[before])
  return np.where(below.any(-1), found, np.inf)


def failure_points(
  quantity: Quantity, outcomes: Outcomes, share: float, confidence: float = 0.95
) -> pd.DataFrame:
  """Returns the failure severity of each classifier under each corruption, with bootstrap
  intervals over images, as rows of the table.

  The value is NaN where accuracy stays above, with a note. An interval that reaches beyond the
  highest severity ends there and says so.

  Args:
    quantity: what it is called.
    outcomes: whether each image is wrong; views have the facets `corruption` and `severity`, the
      clean one neither.
    share: of clean accuracy, in (0, 1).
    confidence: of the intervals.
  """
  common, rows = outcomes.common, []
  views = common.views.reset_index(drop=True)
  clean = int(np.flatnonzero(views.corruption.isna())[0])
  for label, wrong in common.values.items():
    for name, own in views.groupby('corruption', sort=False):
      own = own.sort_values('severity')
      right = ~wrong[:, [clean, *own.index]]
      estimate = failure_point(right, own.severity.to_numpy(float), share, confidence)
      rows.append(row(label, '', quantity, {'corruption': name}, estimate, confidence))
  return part(rows)


def failure_point(
  right: np.ndarray, severities: np.ndarray, share: float, confidence: float = 0.95
) -> Estimate:
  """Returns the failure severity of N images that are right or not, clean and at each severity.

  Args:
    right: bool [N, 1 + S], clean first.
    severities: ascending, [S].
    share: see `failure_points`.
    confidence: of the interval.
  """
  count, highest = len(right), severities[-1]

  def found(weights: np.ndarray) -> np.ndarray:
    accuracy = np.rint(weights * count) @ right.astype(float) / count
    return failure_severity(accuracy[:, 1:], accuracy[:, 0], severities, share)

  value = float(found(np.full((1, count), 1 / count))[0])
  drawn = resampled(found, count, 0)
  reached = np.isfinite(drawn).mean()
  if not np.isfinite(value):
    note = f'{NEVER} by severity {highest:g}'
    note += f'; reached in {100 * reached:.0f} % of bootstrap samples' if reached else ''
    return Estimate(np.nan, np.nan, np.nan, count, count, BOOTSTRAP, note=note)
  low, high = percentile_interval(np.minimum(drawn, highest), count, confidence)
  notes = [BEFORE] if value == severities[0] else []
  if reached < 1:
    notes.append(f'{NEVER} by {highest:g} in {100 * (1 - reached):.1f} % of bootstrap samples')
  ends = min(float(low), value), max(float(high), value)
  return Estimate(value, *ends, count, count, BOOTSTRAP, note='; '.join(notes))
