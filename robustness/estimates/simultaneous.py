"""Intervals that hold for many estimates together, and which differences are significant.

If one of many estimates is reported because it is the largest, its interval must hold for all of
them. All tests of differences control the false-discovery rate: the expected share of chance
findings among the differences that are called significant. The tests of one figure are one family,
whichever classifiers they compare.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike
from scipy import special

from robustness.core.errors import InputError
from robustness.estimates import intervals
from robustness.estimates.comparison import benjamini_hochberg
from robustness.estimates.fixed_width import MOST_LOOKS
from robustness.estimates.quantity import SHARE, Quantity
from robustness.estimates.stratified import METHOD as STRATIFIED
from robustness.estimates.table import OVER_SEEDS

RATE = 0.05
"""The false-discovery rate of studies without the setting `false_discovery_rate`."""
_AROUND_THE_VALUE = (
  intervals.THRESHOLD,
  intervals.STUDENT,
  STRATIFIED,
  intervals.BOOTSTRAP,
  intervals.BAYESIAN,
  intervals.JACKKNIFE,
  intervals.NEWCOMBE,
  'joint draws',
)
"""Beginnings of the names of methods with interval ends at the value plus or minus a quantile times
a standard error. Such an interval is widened by the ratio of two quantiles.
"""
_MAX_TRIALS = 1e12
"""Upper limit of the search in `_effective_trials`; no test set is that large."""


def widen_for_family(row: pd.Series, family: int, quantity: Quantity) -> pd.Series | None:
  """Returns an estimate with its interval widened so that it holds for a family of estimates.

  The largest of many estimates is too large by chance. With the confidence 1 − α of the row, and
  with `family` as the number of estimates, the interval at confidence 1 − α/family (Bonferroni;
  Dunn 1961) holds whichever estimate is selected. Let R be the ratio of Student's quantiles at the
  new and the old confidence. How the interval is widened depends on its method:

  * Clopper–Pearson is computed again from the counts; in a sequential design with several looks at
    the data, at confidence 1 − α/(family · looks).
  * Korn–Graubard is computed again from the effective number of trials that its ends imply.
  * Bonett–Price is symmetric around its middle: its half-width is multiplied by R. The same is done
    to the logarithm of a log-ratio interval.
  * Methods in `_AROUND_THE_VALUE`, such as the bootstrap, and Bonett–Price cut at ±1: the distance
    of each end from the value is multiplied by R.

  Student's quantiles grow faster with the confidence than normal ones: with few clusters the spread
  itself is uncertain.

  Args:
    row: row of the table of results.
    family: number of estimates in the family, at least 1.
    quantity: quantity of the estimate; its range limits the interval.

  Returns:
    The row with new `low`, `high` and `family`. None if the interval cannot be widened: its method
    is not listed above, or it is made from counts and the quantity is not a share.

  Raises:
    InputError: `family` is less than 1.
  """
  if family < 1:
    raise InputError(f'a family of {family} estimates: give at least 1.')
  is_from_counts = row.method.startswith(
    (intervals.CLOPPER_PEARSON, intervals.KORN_GRAUBARD, intervals.SEQUENTIAL)
  )
  if is_from_counts and quantity.kind != SHARE:
    return None
  ends = _widened_ends(row, 1 - (1 - row.confidence) / family)
  if ends is None:
    return None
  bounds = quantity.difference_range if row.versus else quantity.range
  low, high = np.clip(ends, *bounds)
  return pd.Series({**row, 'low': float(low), 'high': float(high), 'family': family})


def _widened_ends(row: pd.Series, joint: float) -> Sequence[float] | Sequence[np.ndarray] | None:
  """Returns the ends (low, high) of an estimate's interval, widened as `widen_for_family` says.

  They are NaN if the estimate has no interval. The result is None if it cannot be widened.

  Args:
    row: row of the table of results.
    joint: confidence of the widened interval, in (0, 1).
  """
  value, low, high, n = float(row.value), float(row.low), float(row.high), int(row.clusters)
  if np.isnan(low) or np.isnan(high):
    return np.nan, np.nan
  if row.method.startswith(intervals.CLOPPER_PEARSON):
    return intervals.clopper_pearson(round(value * n), n, joint)
  if row.method.startswith(intervals.SEQUENTIAL):
    # The union bound over all looks at which the measurement may have stopped.
    return intervals.clopper_pearson(round(value * n), n, 1 - (1 - joint) / MOST_LOOKS)
  widening = _t_quantile(n, joint) / _t_quantile(n, row.confidence)  # of half-widths
  if row.method.startswith(intervals.KORN_GRAUBARD):
    trials = _effective_trials(value, low, high, n, row.confidence)
    if n > 1:
      # `proportion_interval` widens by a ratio of normal quantiles; fewer trials make it Student's.
      normal_widening = intervals.z_value(joint) / intervals.z_value(row.confidence)
      reduced = trials * (normal_widening / widening) ** 2
      trials = max(reduced, min(trials, n))  # not reduced below the number of clusters
    return intervals.proportion_interval(value * trials, trials, joint)
  if row.method.startswith(intervals.LOG_RATIO):
    shift = 1.0 if row.versus else 0.0  # a difference of ratios is the ratio minus 1
    # The interval of the ratio is symmetric in the logarithm.
    ends = _log_ends(low + shift, high + shift, _t_quantile(n, row.confidence))
    low, high = np.exp(ends.mean() + widening * (ends - ends.mean())) - shift
    return min(low, value), max(high, value)
  if intervals.BONETT_PRICE in row.method:
    if not _is_cut(low, high):
      value = (low + high) / 2  # the centre of this interval, which is not the estimate
  elif not row.method.startswith(_AROUND_THE_VALUE):
    return None
  return value - widening * (value - low), value + widening * (high - value)


def significant(differences: pd.DataFrame, quantity: Quantity, rate: float = RATE) -> np.ndarray:
  """Returns which differences of one figure are significant, bool [n].

  Benjamini and Hochberg's procedure is applied to the p-values of all rows together. Differences
  without an interval are not tested and count as not significant. Neither are means over seeds of a
  quantity with `Quantity.biased`, because chance on the shared images adds the same bias to every
  seed.

  Args:
    differences: rows of the table of results that are paired differences.
    quantity: their quantity.
    rate: the false-discovery rate, in (0, 1).
  """
  p = p_values(differences)
  is_tested = ~np.isnan(p)
  if quantity.biased:
    is_tested &= (differences['method'] != OVER_SEEDS).to_numpy()
  is_significant = np.zeros(len(p), bool)
  if is_tested.any():
    is_significant[is_tested] = benjamini_hochberg(p[is_tested], rate)
  return is_significant


def p_values(differences: pd.DataFrame) -> np.ndarray:
  """Returns the p-value of the hypothesis that each difference is 0, [n].

  It is the value in the column `p` if there is one. Otherwise it is computed from the interval, as
  1 minus the confidence at which the interval would just reach 0, and NaN without an interval.

  The p-value is 2 F(−|d| q / h). F is Student's distribution with clusters − 1 degrees of freedom,
  and q its two-sided quantile at the interval's confidence. d is the centre of the interval, and h
  the distance from d to the end of the interval on the side of 0, so that h / q is the standard
  error. The centre depends on the method:

  * By default it is the difference itself.
  * For Bonett and Price's intervals it is the middle of the interval, unless this is cut at ±1.
  * For a ratio minus 1 it is the middle of the ends after the transformation ln(1 + end).

  Args:
    differences: rows of the table of results that are paired differences.
  """
  value, low, high = (differences[end].to_numpy(float) for end in ('value', 'low', 'high'))
  method, clusters = differences['method'].astype(str), differences['clusters'].to_numpy(float)
  is_ratio = method.str.startswith(intervals.LOG_RATIO).to_numpy()
  freedom = np.where(clusters > 1, clusters - 1, np.inf)  # ∞ is the normal distribution
  quantile = special.stdtrit(freedom, (1 + differences['confidence'].to_numpy(float)) / 2)
  ratio_low, ratio_high = (np.where(is_ratio, 1 + end, 1.0) for end in (low, high))
  log_ends = _log_ends(ratio_low, ratio_high, quantile)
  is_bonett_price = method.str.contains(intervals.BONETT_PRICE, regex=False).to_numpy()
  # Intervals that are symmetric around their middle instead of the value.
  is_symmetric = is_ratio | (is_bonett_price & ~_is_cut(low, high))
  low, high = np.where(is_ratio, log_ends, np.stack([low, high]))
  centre = np.where(is_symmetric, (low + high) / 2, value)
  half_width = np.where(centre > 0, centre - low, high - centre)  # on the side of 0
  with np.errstate(divide='ignore', invalid='ignore'):
    p_from_interval = 2 * special.stdtr(freedom, -np.abs(centre) / half_width * quantile)
  is_exactly_zero = (centre == 0) & (half_width == 0)  # 0/0 above
  p_from_interval = np.where(is_exactly_zero, 1.0, p_from_interval)
  p_from_test = differences['p'].to_numpy(float)
  return np.where(np.isnan(p_from_test), p_from_interval, p_from_test)


def _is_cut(low: ArrayLike, high: ArrayLike) -> np.ndarray:
  """Returns whether Bonett and Price's intervals are cut at −1 or 1.

  The middle of what is left is nearer to 0 than the centre of the interval was, and the centre is
  between this middle and the value.
  """
  return np.maximum(np.negative(low), high) >= 1


def _log_ends(low: ArrayLike, high: ArrayLike, quantile: ArrayLike) -> np.ndarray:
  """Returns the logarithms of both ends of the interval of a ratio by `of_means.log_ratio`, [2, …].

  The interval of the ratio 0 is extended to 0, which has the logarithm −∞. For this interval the
  lower end before the extension is returned, ln(high) − 2 t √2: for a classifier without wrong
  answers `log_ratio` adds half an image, with which the logarithm has a standard error of about √2.

  Args:
    low, high: ends of the intervals, at least 0.
    quantile: Student's quantile t at the confidence of the interval.
  """
  log_high, is_extended = np.log(high), np.equal(low, 0)
  with np.errstate(divide='ignore'):
    log_low = np.where(is_extended, log_high - 2 * np.sqrt(2) * np.asarray(quantile), np.log(low))
  return np.stack([log_low, log_high])


def _t_quantile(n: int, confidence: float) -> float:
  """Returns the two-sided quantile of Student's distribution with n − 1 degrees of freedom.

  n is the number of clusters. For n < 2, for which Student's distribution is not defined, the
  quantile of the normal distribution is returned.
  """
  return intervals.z_value(confidence) if n < 2 else float(intervals.t_value(n, confidence))


def _effective_trials(value: float, low: float, high: float, n: int, confidence: float) -> float:
  """Returns the number of independent trials that a Korn–Graubard interval was computed from.

  With this number, the interval of a share in (0, 1) ends at `high`, and the interval of 0 or 1
  has the width `high` − `low`. It is `n` if no number of trials gives this.

  Args:
    value: the share.
    low, high: the ends of its interval.
    n: the number of clusters.
    confidence: confidence of the interval, in (0, 1).
  """
  tail = (1 - confidence) / 2
  if value <= 0 or value >= 1:
    width = high - low
    # The interval of 0 successes in m trials ends at 1 − tail^(1/m); for m successes it is
    # mirrored.
    return float(np.log(tail) / np.log1p(-width)) if 0 < width < 1 else float(n)

  def excess(logarithm: float) -> float:
    """Returns the upper end of the interval of exp(`logarithm`) trials, minus `high`."""
    trials = np.exp(logarithm)
    return float(special.betaincinv(value * trials + 1, trials * (1 - value), 1 - tail) - high)

  lowest, highest = np.log(0.5), np.log(_MAX_TRIALS)
  has_root = excess(lowest) > 0 > excess(highest)  # more trials lower the upper end
  if not has_root:
    return float(n)
  return float(np.exp(scipy.optimize.brentq(excess, lowest, highest)))
