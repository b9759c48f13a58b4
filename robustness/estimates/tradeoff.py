"""The straight line through changes of accuracy against shares of high-frequency energy.

For corruption k, x_k is the share of high-frequency energy in the change of the images, and y_k a
classifier's accuracy minus the baseline's. The line y = s x + c minimises Σ e_k² with residuals e_k
= y_k − s x_k − c. A positive slope s means that robustness is gained at high frequencies and lost
at low frequencies (Yin et al. 2019, section 4.2, figure 6; the legend of the figure calls the slope
k and has a residual r that is not defined there). Here r = √(Σ e_k² / K) for K corruptions, in the
unit of accuracy.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.estimates.intervals import BOOTSTRAP, REGRESSION
from robustness.estimates.means import Estimate, estimate_row, table_of_rows
from robustness.estimates.of_means import Units, bootstrap
from robustness.estimates.quantity import AMOUNT, Quantity

_MAX_ABS_VALUE = 100.0
"""Bound of intercepts and lines, which may be far outside [−1, 1]."""
_ROUNDING = 1e-9  # mean shares closer than this are equal
SLOPE = Quantity('slope', 'slope of accuracy by share of high frequency', AMOUNT, headline=True)
SLOPE_OVER_CORRUPTIONS = Quantity(
  'slope_over_corruptions',
  'slope of accuracy by share of high frequency, for corruptions drawn from many',
  AMOUNT,
  headline=True,
)
INTERCEPT = Quantity(
  'intercept',
  'accuracy on the line where a corruption has no high frequency',
  low=-_MAX_ABS_VALUE,
  high=_MAX_ABS_VALUE,
)
RESIDUAL = Quantity('residual', 'root mean square distance of changes of accuracy from the line')
LINE = Quantity(
  'line', 'accuracy on the line through the corruptions', low=-_MAX_ABS_VALUE, high=_MAX_ABS_VALUE
)
_SINGLE_VALUES = SLOPE, SLOPE_OVER_CORRUPTIONS, INTERCEPT, RESIDUAL
QUANTITIES = (*_SINGLE_VALUES, LINE)


@dataclasses.dataclass(frozen=True)
class Lines:
  """Lines of the change of accuracy against the share of high-frequency energy, by least squares.

  A change is the accuracy of a classifier minus the baseline's. Arrays have any shape [...].

  Attributes:
    slope: slope of the lines; 1 if the change rises by 1 while the share rises from 0 to 1.
    intercept: change of accuracy at share 0.
    residual: root mean square distance of the points from the line, in the unit of accuracy.
  """

  slope: np.ndarray
  intercept: np.ndarray
  residual: np.ndarray

  def at(self, share: ArrayLike) -> np.ndarray:
    """Returns the changes of accuracy on the lines at shares [G], as an array [..., G]."""
    return np.asarray(self.intercept[..., None] + self.slope[..., None] * np.asarray(share, float))


def fit_lines(share: ArrayLike, change: ArrayLike) -> Lines:
  """Returns the least-squares lines, each through K ≥ 3 points; NaN if all have the same share.

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
  """Returns rows with the line through mean changes of accuracy against mean shares of energy.

  The line is fitted by least squares to K points, one per corruption. A change is the accuracy of
  the classifier minus the accuracy of the baseline. The values are the slope, the intercept, the
  residual r (root mean square distance of the changes from the line) and the height of the line.

  There are two kinds of intervals:

  * Over images: a bootstrap, in which an image's shares and errors under all corruptions and of
    both classifiers are resampled together. Slope, intercept and line have percentile intervals;
    the line is given at 25 shares (the facet `high_frequency_share`) between the smallest and the
    largest share. The sampling variance of the means increases r², once in the data and again in
    each sample. Therefore r² has the basic interval, 2 r² minus the quantiles of its samples, at
    least 0 and extended to include r².
  * Over corruptions: Student's interval of the slope with K − 2 degrees of freedom, which treats
    the corruptions as a random sample with independent residuals.

  Corruptions that change no image are left out, with a note. If fewer than three corruptions
  remain, or all have the same mean share, all values are NaN.

  Args:
    label: label of the classifier.
    versus: label of the baseline.
    share: [N, K], the share of high-frequency energy of each image under each corruption, in [0,
      1]; NaN if the corruption changes nothing.
    baseline_error: [N, K], the share of severities at which the baseline is wrong.
    error: [N, K], the share of severities at which the classifier is wrong.
    confidence: confidence of all intervals, in (0, 1).
  """
  shares, changes = np.asarray(share, float), np.subtract(baseline_error, error).astype(float)
  is_changed, n = ~np.isnan(shares), len(shares)  # which corruptions change each image, [N, K]
  is_used = is_changed.any(0)  # corruptions that change an image
  left_out = f'{(~is_used).sum()} of {len(is_used)} corruptions change no image and are left out'
  note = '' if is_used.all() else left_out
  x = np.nanmean(shares[:, is_used], 0)  # mean share of each corruption
  has_one_share = len(x) >= 3 and np.ptp(x) < _ROUNDING
  if has_one_share:
    note = '; '.join(filter(None, (note, 'undefined: all corruptions have the same share')))
  if len(x) < 3 or has_one_share:  # no line: four values that are NaN
    undefined = Estimate(np.nan, np.nan, np.nan, n, n, BOOTSTRAP, note=note)
    over_corruptions = dataclasses.replace(undefined, method=REGRESSION)
    pairs = zip(_SINGLE_VALUES, (undefined, over_corruptions, undefined, undefined), strict=True)
    return table_of_rows(
      [estimate_row(label, versus, quantity, {}, e, confidence) for quantity, e in pairs]
    )
  # Both arrays have a column for the share under each corruption, and then for each change.
  # `weight` counts an image in a mean share only if the corruption changes it.
  total = np.concatenate([np.where(is_changed, shares, 0)[:, is_used], changes[:, is_used]], 1)
  weight = np.concatenate([is_changed[:, is_used], np.ones((n, is_used.sum()))], 1)
  units = Units(total, weight, n)
  y = changes[:, is_used].mean(0)  # mean changes
  grid = np.linspace(x.min(), x.max(), 25)

  def statistic(weights: np.ndarray) -> np.ndarray:
    """Returns slope, intercept, residual and the line at 25 shares, in B bootstrap samples.

    The result is [B, 28] for weights [B, N] of the images.
    """
    lines = fit_lines(*np.split(units.means(weights), 2, -1))
    fields = np.stack([lines.slope, lines.intercept, lines.residual], -1)
    return np.concatenate([fields, lines.at(grid)], -1)

  slope, intercept, residual, *line = bootstrap(statistic, units, confidence)
  over_corruptions = linear_fit(x, y, [], confidence).slope  # with Student's interval
  estimates = [slope, over_corruptions, intercept, _basic_of_squares(residual)]
  rows = []
  for quantity, estimate in zip(_SINGLE_VALUES, estimates, strict=True):
    noted = dataclasses.replace(estimate, note='; '.join(filter(None, (note, estimate.note))))
    rows.append(estimate_row(label, versus, quantity, {}, noted, confidence))
  for grid_share, estimate in zip(grid, line, strict=True):
    at_share = {'high_frequency_share': grid_share}
    rows.append(estimate_row(label, versus, LINE, at_share, estimate, confidence))
  return table_of_rows(rows)


def _basic_of_squares(percentile: Estimate) -> Estimate:
  """Returns a residual r with the square root of the basic bootstrap interval of r².

  The basic interval mirrors the ends of the percentile interval: it is [2 r² − high², 2 r² − low²],
  here not below 0. NaN stays NaN.

  Args:
    percentile: r with its percentile interval.
  """
  value, mirrored_ends = percentile.value, (percentile.high, percentile.low)
  low, high = (float(np.sqrt(max(2 * value**2 - end**2, 0.0))) for end in mirrored_ends)
  return dataclasses.replace(percentile, low=min(low, value), high=max(high, value))


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
  """Returns the line through M points by least squares, such as perturbed against clean accuracy.

  Intervals are Student's for a regression with M − 2 degrees of freedom: the points (models) are
  treated as a random sample with independent residuals. A bootstrap of few points would have too
  narrow intervals: most samples of three points repeat a point, and two points have no residual.

  Args:
    x: [M], abscissas of M ≥ 3 points, not all equal.
    y: [M], ordinates of the points.
    grid: [G], the abscissas at which the line and its interval are computed.
    confidence: confidence of the intervals, in (0, 1).
  """
  abscissas, ordinates, grid = (np.asarray(values, float) for values in (x, y, grid))
  fit, count = scipy.stats.linregress(abscissas, ordinates), len(abscissas)
  # Half the width of the slope's interval, t · s / (√M σ_x), for residuals s and abscissas of
  # standard deviation σ_x.
  half_of_slope = float(scipy.stats.t.ppf((1 + confidence) / 2, count - 2)) * fit.stderr

  def half_width(at: np.ndarray) -> np.ndarray:
    """Returns half the width of the line's interval at abscissas, in an array of their shape."""
    return np.asarray(half_of_slope * np.sqrt(abscissas.var() + (at - abscissas.mean()) ** 2))

  def estimate(value: float, half: float) -> Estimate:
    """Returns a parameter of the line with the interval value ± half."""
    return Estimate(value, value - half, value + half, count, count, REGRESSION)

  slope = estimate(float(fit.slope), float(half_of_slope))
  intercept = estimate(float(fit.intercept), float(half_width(np.array(0.0))))
  line, half = fit.intercept + fit.slope * grid, half_width(grid)
  return LinearFit(slope, intercept, y=line, low=line - half, high=line + half)
