r"""The straight line through changes of accuracy against shares of high-frequency energy.

Of K corruptions, x_k is the share of high-frequency energy and y_k a classifier's accuracy minus
the baseline's; the line y = k x + c minimises Σ e_k², e_k = y_k - k x_k - c. A positive slope k is
robustness gained at high frequency and lost at low (Yin et al. 2019, section 4.2, figure 6, where k
and the residual r are in the legend; r is not defined there, and is here √(Σ e_k² / K), in the unit
of accuracy).
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from robustness.core.errors import InputError
from robustness.estimates.intervals import percentile_interval
from robustness.estimates.of_means import resampled
from robustness.results import Number


@dataclasses.dataclass(frozen=True)
class Lines:
  """Straight lines by least squares, each field of the shape [...].

  Attributes:
    slope: k, accuracy per unit of share.
    intercept: c, the change of accuracy at share 0.
    residual: r = √(mean e²).
  """

  slope: np.ndarray
  intercept: np.ndarray
  residual: np.ndarray

  def at(self, share: ArrayLike) -> np.ndarray:
    """Returns the lines at some shares [G], [..., G]."""
    return self.intercept[..., None] + self.slope[..., None] * np.asarray(share, float)


def fit_lines(share: ArrayLike, change: ArrayLike) -> Lines:
  """Returns the lines through points along the last axis.

  Args:
    share: [..., K], K ≥ 3: two points are always on a line.
    change: [..., K].

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


@dataclasses.dataclass(frozen=True)
class TradeOff:
  """A classifier's line with its intervals.

  Attributes:
    numbers: `slope`, `intercept` and `residual` with intervals over images, and
      `slope_over_corruptions`, the same slope with Student's interval over corruptions.
    line, low, high: [G], the line and its interval over images at `share`.
    share: [G], from the least to the largest share of a corruption: the line says nothing beyond.
  """

  numbers: dict[str, Number]
  share: np.ndarray
  line: np.ndarray
  low: np.ndarray
  high: np.ndarray


def trade_off(
  share: ArrayLike,
  baseline_error: ArrayLike,
  error: ArrayLike,
  confidence: float = 0.95,
  seed: int = 0,
) -> TradeOff:
  """Returns the line through the K corruptions' means, with intervals.

  Over images: bootstrap, in which an image's shares and errors under all corruptions and of both
  classifiers are resampled together. Slope, intercept and line have percentile intervals. The
  variance of means adds to r², in a resample as in the sample, so that r² has the basic interval,
  2 r² minus the quantiles, from 0 up; it is made to reach r itself.

  Over corruptions: Student's interval of a regression's slope with K - 2 degrees of freedom, which
  takes the K corruptions as drawn from many, with independent deviations from the line.

  Corruptions that change no image have no share and are left out, which the notes say; fewer than
  three others have no line.

  Args:
    share: [N, K] of each image under each corruption, in [0, 1]; NaN where it changes nothing.
    baseline_error: [N, K] shares of wrong severities, of the baseline.
    error: the same of the classifier.
    confidence: of all intervals.
    seed: of the resampling.
  """
  shares, gained = np.asarray(share, float), np.subtract(baseline_error, error).astype(float)
  changing = ~np.isnan(shares).all(0)
  note = ''
  if not changing.all():
    note = f'{(~changing).sum()} of {len(changing)} corruptions change no image and are left out'
  if changing.sum() < 3:
    return _no_line(len(shares), confidence, note)
  shares, gained = shares[:, changing], gained[:, changing]
  known = ~np.isnan(shares)
  filled, count = np.where(known, shares, 0), len(shares)

  def points(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    total = weights @ known
    return weights @ filled / np.where(total > 0, total, np.nan), weights @ gained

  x, y = points(np.full(count, 1 / count))
  grid = np.linspace(x.min(), x.max(), 25)

  def statistic(weights: np.ndarray) -> np.ndarray:
    lines = fit_lines(*points(weights))
    fields = np.stack([lines.slope, lines.intercept, lines.residual], -1)
    return np.concatenate([fields, lines.at(grid)], -1)

  fitted = fit_lines(x, y)
  drawn = resampled(statistic, count, seed)
  drawn = drawn[np.isfinite(drawn).all(1)]
  low, high = percentile_interval(drawn, count, confidence)
  name = f'bootstrap over images {confidence:g}'
  numbers = {
    field: Number(float(getattr(fitted, field)), float(low[i]), float(high[i]), count, name)
    for i, field in enumerate(('slope', 'intercept'))
  }
  numbers['residual'] = _residual(float(fitted.residual), low[2], high[2], count, confidence)
  numbers['slope_over_corruptions'] = slope_over_points(x, y, confidence)
  numbers = {field: dataclasses.replace(number, note=note) for field, number in numbers.items()}
  return TradeOff(numbers, grid, fitted.at(grid), low[3:], high[3:])


def _no_line(count: int, confidence: float, note: str) -> TradeOff:
  """Returns what is known of too few corruptions: nothing."""
  none = Number(np.nan, np.nan, np.nan, count, f'bootstrap over images {confidence:g}', note)
  fields = ('slope', 'intercept', 'residual', 'slope_over_corruptions')
  empty = np.zeros(0)
  return TradeOff(dict.fromkeys(fields, none), empty, empty, empty, empty)


def _residual(value: float, low: float, high: float, count: int, confidence: float) -> Number:
  ends = (np.sqrt(max(0.0, 2 * value**2 - float(end) ** 2)) for end in (high, low))
  name = f'basic bootstrap of squares over images {confidence:g}'
  return Number(value, min(value, float(next(ends))), max(value, float(next(ends))), count, name)


def slope_over_points(
  x: ArrayLike, y: ArrayLike, confidence: float = 0.95, points: str = 'corruptions'
) -> Number:
  """Returns the slope of K ≥ 3 points with Student's interval, K − 2 degrees of freedom; n is K.

  Args:
    x: [K].
    y: [K].
    confidence: in (0, 1).
    points: what they are, for the interval's name.
  """
  shares, changes = np.asarray(x, float), np.asarray(y, float)
  lines, count = fit_lines(shares, changes), len(shares)
  slope = float(lines.slope)
  spread = np.sqrt(lines.residual**2 * count / (count - 2) / ((shares - shares.mean()) ** 2).sum())
  half = float(stats.t.ppf((1 + confidence) / 2, count - 2) * spread)
  name = f'student over {points} {confidence:g}'
  return Number(slope, slope - half, slope + half, count, name)
