"""The straight line through changes of accuracy against shares of high-frequency energy.

For corruption k, x_k is the share of high-frequency energy in the change of the images, and y_k a
classifier's accuracy minus the baseline's. The line y = s x + c minimises Σ e_k² with residuals e_k
= y_k − s x_k − c. A positive slope s means that robustness is gained at high frequencies and lost
at low frequencies (Yin et al. 2019, section 4.2, figure 6; the legend of the figure calls the slope
k and has a residual r that is not defined there). Here r = √(Σ e_k² / K) for K corruptions, in the
unit of accuracy.
"""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.estimates.intervals import BOOTSTRAP, REGRESSION
from robustness.estimates.means import Estimate, estimate_row, join_notes, table_of_rows
from robustness.estimates.of_means import Units, bootstrap
from robustness.estimates.quantity import AMOUNT, Quantity

_MAX_ABS_VALUE = 100.0
"""Bound of intercepts and lines, which may be far outside [−1, 1]."""
_ROUNDING = 1e-9  # mean shares closer than this are equal
_SLOPE = 'slope of accuracy by share of high frequency'
SLOPE = Quantity('slope', _SLOPE, AMOUNT, headline=True)
SLOPE_OVER_CORRUPTIONS = Quantity(
  'slope_over_corruptions', f'{_SLOPE}, for corruptions drawn from many', AMOUNT, headline=True
)
_height = functools.partial(Quantity, low=-_MAX_ABS_VALUE, high=_MAX_ABS_VALUE)
"""Returns a quantity, given its name and words: a height of the line, as an accuracy."""
INTERCEPT = _height('intercept', 'accuracy on the line where a corruption has no high frequency')
RESIDUAL = Quantity('residual', 'root mean square distance of changes of accuracy from the line')
LINE = _height('line', 'accuracy on the line through the corruptions')
_SINGLE_VALUES = SLOPE, SLOPE_OVER_CORRUPTIONS, INTERCEPT, RESIDUAL
QUANTITIES = (*_SINGLE_VALUES, LINE)


@dataclasses.dataclass(frozen=True)
class Lines:
  """Least-squares lines y = slope · x + intercept, each through one point per corruption.

  x is the share of high-frequency energy in the change that a corruption makes. y is the accuracy
  of a classifier under the corruption minus the baseline's. Arrays have any shape [...].

  Attributes:
    slope: slope of the lines; 1 if y rises by 1 while x rises from 0 to 1.
    intercept: y at x = 0.
    residual: root mean square distance of the points from the line, in the unit of accuracy.
  """

  slope: np.ndarray
  intercept: np.ndarray
  residual: np.ndarray

  def at(self, share: ArrayLike) -> np.ndarray:
    """Returns the heights of the lines at G values of x, [..., G].

    Args:
      share: x, shares of high-frequency energy, [G].
    """
    return np.asarray(self.intercept[..., None] + self.slope[..., None] * np.asarray(share, float))


def fit_lines(share: ArrayLike, change: ArrayLike) -> Lines:
  """Returns least-squares lines, each through K ≥ 3 points.

  A line is NaN if all its points have the same share.

  Args:
    share: shares of high-frequency energy of the points, in [0, 1], [..., K].
    change: changes of accuracy of the points, in [-1, 1], [..., K].

  Raises:
    InputError: there are fewer than three points.
  """
  x, y = np.broadcast_arrays(np.asarray(share, float), np.asarray(change, float))
  if x.shape[-1] < 3:
    raise InputError(f'a line through {x.shape[-1]} points has no residual: give at least 3.')
  centred = x - x.mean(-1, keepdims=True)
  squares = (centred**2).sum(-1)
  # NaN if all points have the same share.
  slope = (centred * y).sum(-1) / np.where(squares > 0, squares, np.nan)
  intercept = y.mean(-1) - slope * x.mean(-1)
  error = y - slope[..., None] * x - intercept[..., None]
  return Lines(slope, intercept, np.sqrt((error**2).mean(-1)))


def trade_off(
  label: str,
  versus: str,
  share: ArrayLike,
  baseline_error: ArrayLike,
  error: ArrayLike,
  confidence: float = 0.95,
) -> pd.DataFrame:
  """Returns a table with the line of changes of accuracy against shares of high frequency.

  The line is fitted by least squares to K points, one per corruption. A change is the accuracy of
  the classifier minus the accuracy of the baseline, averaged over N images. There are rows for

  * the slope, the intercept, and the height of the line at 25 shares (the column
    `high_frequency_share`) between the smallest and the largest share. Their intervals are from a
    bootstrap over images, with all corruptions and both classifiers together.
  * the residual r, the root mean square distance of the changes from the line. Its interval is from
    the same bootstrap, see `_with_basic_interval_of_square`.
  * the slope again, with Student's interval for K − 2 degrees of freedom. It treats the corruptions
    as a random sample with independent residuals.

  Corruptions that change no image are left out, with a note. If fewer than three corruptions
  remain, or all have the same mean share, all values are NaN.

  Args:
    label: label of the classifier.
    versus: label of the baseline.
    share: the share of high-frequency energy in the change of each image under each corruption, [N,
      K], in [0, 1]; NaN if the corruption changes nothing.
    baseline_error: the share of severities at which the baseline is wrong, [N, K].
    error: the share of severities at which the classifier is wrong, [N, K].
    confidence: confidence of all intervals, in (0, 1).
  """
  shares, changes = np.asarray(share, float), np.subtract(baseline_error, error).astype(float)
  is_used = ~np.isnan(shares).all(0)  # corruptions that change an image
  notes = []
  if not is_used.all():
    num_left_out = (~is_used).sum()
    notes.append(f'{num_left_out} of {len(is_used)} corruptions change no image and are left out')
  shares, changes = shares[:, is_used], changes[:, is_used]
  mean_shares, n = np.nanmean(shares, 0), len(shares)
  is_enough = len(mean_shares) >= 3
  if is_enough and np.ptp(mean_shares) >= _ROUNDING:
    slope, intercept, residual, heights_by_share = _bootstrapped_line(shares, changes, confidence)
    residual = _with_basic_interval_of_square(residual)
    # The same slope with Student's interval.
    slope_over_corruptions = linear_fit(mean_shares, changes.mean(0), [], confidence).slope
  else:  # there is no line
    slope = intercept = residual = Estimate(np.nan, np.nan, np.nan, n, n, BOOTSTRAP)
    slope_over_corruptions = dataclasses.replace(slope, method=REGRESSION)
    heights_by_share = {}
    if is_enough:
      notes.append('undefined: all corruptions have the same share')
  estimates = slope, slope_over_corruptions, intercept, residual
  rows = []
  for quantity, estimate in zip(_SINGLE_VALUES, estimates, strict=True):
    noted = dataclasses.replace(estimate, note=join_notes(*notes, estimate.note))
    rows.append(estimate_row(label, versus, quantity, {}, noted, confidence))
  for line_share, estimate in heights_by_share.items():
    at_share = {'high_frequency_share': line_share}
    rows.append(estimate_row(label, versus, LINE, at_share, estimate, confidence))
  return table_of_rows(rows)


def _bootstrapped_line(
  shares: np.ndarray, changes: np.ndarray, confidence: float
) -> tuple[Estimate, Estimate, Estimate, dict[float, Estimate]]:
  """Returns the line of changes of accuracy against shares, with bootstrap intervals.

  Intervals are percentiles of a bootstrap over images.

  Args:
    shares: the share of high-frequency energy of each image under each corruption, [N, K]. It is
      NaN, and not in the mean share, if the corruption does not change the image.
    changes: changes of accuracy, [N, K].
    confidence: confidence of the intervals, in (0, 1).

  Returns:
    Slope, intercept, residual and {share: height of the line at this share} for 25 shares.
  """
  is_changed = ~np.isnan(shares)
  # Columns: the share under each corruption, then the change under each corruption.
  total = np.concatenate([np.where(is_changed, shares, 0), changes], 1)
  weight = np.concatenate([is_changed, np.ones(changes.shape)], 1)
  units = Units(total, weight, len(shares))
  mean_shares = np.nanmean(shares, 0)
  grid = np.linspace(mean_shares.min(), mean_shares.max(), 25)

  def statistic(weights: np.ndarray) -> np.ndarray:
    """Fits a line in each of B bootstrap samples of images, for `bootstrap`.

    The line is of changes of accuracy against shares of high frequency, over K corruptions.

    Args:
      weights: how often each sample has each image, [B, N].

    Returns:
      Slope, intercept, residual and 25 heights of the line, [B, 28].
    """
    sampled_shares, sampled_changes = np.split(units.means(weights), 2, -1)  # [B, K] each
    lines = fit_lines(sampled_shares, sampled_changes)
    parameters = np.stack([lines.slope, lines.intercept, lines.residual], -1)
    return np.concatenate([parameters, lines.at(grid)], -1)

  slope, intercept, residual, *heights = bootstrap(statistic, units, confidence)
  return slope, intercept, residual, dict(zip(grid, heights, strict=True))


def _with_basic_interval_of_square(residual: Estimate) -> Estimate:
  """Replaces the percentile interval of a residual r by a basic bootstrap interval.

  Sampling errors of means increase r² in the data, and again in each bootstrap sample. The basic
  interval corrects for this: it mirrors the percentile interval [low², high²] of r² at r². The new
  ends of r are √(2 r² − high²), or 0 if high² is larger, and √(2 r² − low²). They are extended to
  include r.

  Args:
    residual: r with its percentile interval, which may be NaN.
  """
  value = residual.value
  # Mirroring exchanges the ends.
  low = float(np.sqrt(max(2 * value**2 - residual.high**2, 0.0)))
  high = float(np.sqrt(max(2 * value**2 - residual.low**2, 0.0)))
  return dataclasses.replace(residual, low=min(low, value), high=max(high, value))


class LinearFit(NamedTuple):
  """A line through M points, with an interval of its height at each of G grid points.

  Attributes:
    slope, intercept: the parameters of y = slope·x + intercept, with intervals.
    y: [G], the height of the line.
    low, high: [G], the ends of its interval at each grid point.
  """

  slope: Estimate
  intercept: Estimate
  y: np.ndarray
  low: np.ndarray
  high: np.ndarray


def linear_fit(x: ArrayLike, y: ArrayLike, grid: ArrayLike, confidence: float = 0.95) -> LinearFit:
  """Returns the least-squares line through M points, with Student's intervals.

  Used, for example, for perturbed against clean accuracy of M models. The models are treated as a
  random sample with independent residuals and M − 2 degrees of freedom. A bootstrap of few points
  would have too narrow intervals: most samples of three points repeat a point, and two points have
  no residual.

  Args:
    x: abscissas of M ≥ 3 points, [M], not all equal.
    y: ordinates of the points, [M].
    grid: the abscissas at which the line and its interval are computed, [G].
    confidence: confidence of the intervals, in (0, 1).
  """
  x, y, grid = np.asarray(x, float), np.asarray(y, float), np.asarray(grid, float)
  fit, num_points = scipy.stats.linregress(x, y), len(x)
  student_quantile = float(scipy.stats.t.ppf((1 + confidence) / 2, num_points - 2))
  # Half widths of the intervals of the slope, t · s / (√M σ_x) for residuals s and abscissas of
  # standard deviation σ_x, and of the line, at x = 0 (the intercept) and on the grid.
  half_of_slope = student_quantile * fit.stderr
  half_of_intercept = half_of_slope * np.sqrt(x.var() + x.mean() ** 2)
  half_of_line = half_of_slope * np.sqrt(x.var() + (grid - x.mean()) ** 2)

  def estimate(value: float, half_width: float) -> Estimate:
    """Returns a parameter of the line with the interval value ± half_width."""
    low, high = value - half_width, value + half_width
    return Estimate(value, low, high, num_points, num_points, REGRESSION)

  slope = estimate(float(fit.slope), float(half_of_slope))
  intercept = estimate(float(fit.intercept), float(half_of_intercept))
  line = fit.intercept + fit.slope * grid
  return LinearFit(slope, intercept, y=line, low=line - half_of_line, high=line + half_of_line)
