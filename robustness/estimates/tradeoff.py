r"""The straight line through changes of accuracy against shares of high-frequency energy.

Of K corruptions, x_k is the share of high-frequency energy and y_k a classifier's accuracy minus
the baseline's; the line y = k x + c minimises Σ e_k², e_k = y_k - k x_k - c. A positive slope k is
robustness gained at high frequency and lost at low (Yin et al. 2019, section 4.2, figure 6, where k
and the residual r are in the legend; r is not defined there, and is here √(Σ e_k² / K), in the unit
of accuracy).
"""

import dataclasses
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.estimates.intervals import BOOTSTRAP, REGRESSION
from robustness.estimates.means import Estimate, part, row
from robustness.estimates.of_means import Units, bootstrap
from robustness.estimates.quantity import AMOUNT, Quantity

_MAX_ABS_VALUE = 100.0  # of slopes and lines, which may leave [−1, 1] by far
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
QUANTITIES = SLOPE, SLOPE_OVER_CORRUPTIONS, INTERCEPT, RESIDUAL, LINE


@dataclasses.dataclass(frozen=True)
class Lines:
  """Straight lines by least squares, each field of the shape [...]: the slope k in accuracy per
  unit of share, the change of accuracy c at share 0, and the residual r = √(mean e²)."""

  slope: np.ndarray
  intercept: np.ndarray
  residual: np.ndarray

  def at(self, share: ArrayLike) -> np.ndarray:
    """Returns the lines at some shares [G], [..., G]."""
    return np.asarray(self.intercept[..., None] + self.slope[..., None] * np.asarray(share, float))


def fit_lines(share: ArrayLike, change: ArrayLike) -> Lines:
  """Returns the lines through points along the last axis, [..., K] with K ≥ 3.

  Raises:
    InputError: fewer than three points.
  """
  x, y = np.broadcast_arrays(np.asarray(share, float), np.asarray(change, float))
  if x.shape[-1] < 3:
    raise InputError(f'a line through {x.shape[-1]} points has no residual: give at least 3.')
  centred = x - x.mean(-1, keepdims=True)
  squares = (centred**2).sum(-1)
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
  """Returns the line through the K corruptions' means as rows of the table of results.

  Over images: bootstrap, in which an image's shares and errors under all corruptions and of both
  classifiers are resampled together. Slope, intercept and line have percentile intervals; the line
  is given at 25 shares (the facet `high_frequency_share`) from the least to the largest of a
  corruption. The variance of means adds to r², in a resample as in the sample, so that r² has the
  basic interval, 2 r² minus the quantiles, from 0 up; it is made to reach r itself.

  Over corruptions: Student's interval of a regression's slope with K - 2 degrees of freedom, which
  takes the K corruptions as drawn from many, with independent deviations from the line.

  Corruptions that change no image are left out, with a note; fewer than three others have no line.

  Args:
    label: label of the classifier.
    versus: label of the baseline.
    share: [N, K], the share of high frequency of each image under each corruption, in [0, 1]; NaN
      where the corruption changes nothing.
    baseline_error: [N, K], the share of severities at which the baseline is wrong.
    error: [N, K], the share at which the classifier is wrong.
    confidence: confidence of all intervals, in (0, 1).
  """
  shares, changes = np.asarray(share, float), np.subtract(baseline_error, error).astype(float)
  is_changed, n = ~np.isnan(shares), len(shares)
  changing = is_changed.any(0)
  left_out = f'{(~changing).sum()} of {len(changing)} corruptions change no image and are left out'
  note = '' if changing.all() else left_out
  if changing.sum() < 3:
    methods = BOOTSTRAP, REGRESSION, BOOTSTRAP, BOOTSTRAP
    estimates = [Estimate(np.nan, np.nan, np.nan, n, n, method, note=note) for method in methods]
    pairs = zip(QUANTITIES[:-1], estimates, strict=True)
    return part([row(label, versus, name, {}, undefined, confidence) for name, undefined in pairs])
  total = np.concatenate([np.where(is_changed, shares, 0)[:, changing], changes[:, changing]], 1)
  weight = np.concatenate([is_changed[:, changing], np.ones((n, changing.sum()))], 1)
  units = Units(total, weight, n)
  x, y = np.split(units.means(np.full(n, 1 / n)), 2)
  grid = np.linspace(x.min(), x.max(), 25)

  def statistic(weights: np.ndarray) -> np.ndarray:
    """Returns slope, intercept, residual and the line, [B, 28], at weights [B, N] of images."""
    lines = fit_lines(*np.split(units.means(weights), 2, -1))
    fields = np.stack([lines.slope, lines.intercept, lines.residual], -1)
    return np.concatenate([fields, lines.at(grid)], -1)

  slope, intercept, residual, *line = bootstrap(statistic, units, confidence)
  over_corruptions = linear_fit(x, y, [], confidence).slope
  estimates = [slope, over_corruptions, intercept, _basic_of_squares(residual)]
  rows = []
  for quantity, estimate in zip(QUANTITIES[:-1], estimates, strict=True):
    noted = dataclasses.replace(estimate, note='; '.join(filter(None, (note, estimate.note))))
    rows.append(row(label, versus, quantity, {}, noted, confidence))
  for at, estimate in zip(grid, line, strict=True):
    rows.append(row(label, versus, LINE, {'high_frequency_share': at}, estimate, confidence))
  return part(rows)


def _basic_of_squares(percentile: Estimate) -> Estimate:
  """Returns r with the basic interval of r², from its percentile interval; NaN stays NaN."""
  value, ends = percentile.value, (percentile.high, percentile.low)
  low, high = (float(np.sqrt(max(2 * value**2 - end**2, 0.0))) for end in ends)
  return dataclasses.replace(percentile, low=min(low, value), high=max(high, value))


class LinearFit(NamedTuple):
  """The line y = slope·x + intercept through M points, and its pointwise band on a grid [G]."""

  slope: Estimate
  intercept: Estimate
  y: np.ndarray
  low: np.ndarray
  high: np.ndarray


def linear_fit(x: ArrayLike, y: ArrayLike, grid: ArrayLike, confidence: float = 0.95) -> LinearFit:
  """Fits a line by least squares, such as perturbed against original accuracy of models.

  Intervals are Student's of a regression, with M − 2 degrees of freedom: the points are taken as
  drawn from many, with independent deviations from the line. Resampling few points shows too
  little: of three most samples hold one twice, and two points have no deviation.

  Args:
    x: [M], of M ≥ 3 points, not all equal.
    y: [M], of the same points.
    grid: [G], where the band is computed.
    confidence: confidence of the intervals, in (0, 1).
  """
  first, second, at = (np.asarray(v, float) for v in (x, y, grid))
  fit, count = scipy.stats.linregress(first, second), len(first)
  reach = float(scipy.stats.t.ppf((1 + confidence) / 2, count - 2)) * fit.stderr

  def half(point: np.ndarray) -> np.ndarray:
    """Returns half the width of the band of the line at a point."""
    return np.asarray(reach * np.sqrt(first.var() + (point - first.mean()) ** 2))

  numbers = (float(fit.slope), float(reach)), (float(fit.intercept), float(half(np.array(0.0))))
  slope, intercept = (Estimate(v, v - w, v + w, count, count, REGRESSION) for v, w in numbers)
  line = fit.intercept + fit.slope * at
  return LinearFit(slope, intercept, line, line - half(at), line + half(at))
