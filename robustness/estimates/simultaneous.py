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
  * Korn–Graubard is computed again from the effective number of trials, see `_effective_trials`.
  * Bonett–Price is symmetric around its middle: its half-width is multiplied by R. The same is done
    to the logarithm of a log-ratio interval.
  * Methods in `_AROUND_THE_VALUE`, such as the bootstrap, and Bonett–Price clipped to [−1, 1]: the
    distance of each end from the value is multiplied by R.

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


def _widened_ends(
  row: pd.Series, new_confidence: float
) -> Sequence[float] | Sequence[np.ndarray] | None:
  """Returns the ends (low, high) of an estimate's interval, widened as `widen_for_family` says.

  They are NaN if the estimate has no interval. The result is None if it cannot be widened.

  Args:
    row: row of the table of results.
    new_confidence: confidence of the widened interval, in (0, 1).
  """
  value, low, high, n = float(row.value), float(row.low), float(row.high), int(row.clusters)
  if np.isnan(low) or np.isnan(high):
    return np.nan, np.nan
  if row.method.startswith(intervals.CLOPPER_PEARSON):
    return intervals.clopper_pearson(round(value * n), n, new_confidence)
  if row.method.startswith(intervals.SEQUENTIAL):
    # The union bound over all looks at which the measurement may have stopped.
    return intervals.clopper_pearson(round(value * n), n, 1 - (1 - new_confidence) / MOST_LOOKS)
  student_ratio = _t_quantile(n, new_confidence) / _t_quantile(n, row.confidence)
  if row.method.startswith(intervals.KORN_GRAUBARD):
    trials = _effective_trials(value, low, high, n, row.confidence)
    # With the same trials, `proportion_interval` would widen the interval by the ratio of normal
    # quantiles. Fewer trials, but at least the number of clusters, widen it by Student's ratio.
    normal_ratio = intervals.z_value(new_confidence) / intervals.z_value(row.confidence)
    reduced = trials * (normal_ratio / student_ratio) ** 2
    trials = max(reduced, min(trials, n))
    return intervals.proportion_interval(value * trials, trials, new_confidence)
  if row.method.startswith(intervals.LOG_RATIO):
    shift = 1.0 if row.versus else 0.0  # a difference of ratios is the ratio minus 1
    # The interval of the ratio is symmetric in the logarithm.
    ends = _log_ends(low + shift, high + shift, _t_quantile(n, row.confidence))
    low, high = np.exp(ends.mean() + student_ratio * (ends - ends.mean())) - shift
    return min(low, value), max(high, value)
  is_bonett_price = intervals.BONETT_PRICE in row.method
  if not is_bonett_price and not row.method.startswith(_AROUND_THE_VALUE):
    return None
  # Bonett and Price's interval is symmetric around its middle, which is not the value.
  centre = (low + high) / 2 if is_bonett_price and not _is_clipped(low, high) else value
  return centre - student_ratio * (centre - low), centre + student_ratio * (high - centre)


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
  is_significant[is_tested] = benjamini_hochberg(p[is_tested], rate)
  return is_significant


def p_values(differences: pd.DataFrame) -> np.ndarray:
  """Returns the p-value of the hypothesis that each difference is 0, [n].

  It is the value in the column `p` if a test has written one. Otherwise it is computed from the
  interval, as 1 minus the confidence at which the interval would just reach 0, and NaN without an
  interval.

  The end of the interval on the side of 0 is taken as d ± q s, with the centre d, the standard
  error s, and the two-sided quantile q of Student's distribution F with clusters − 1 degrees of
  freedom at the interval's confidence. This yields s and the p-value 2 F(−|d| / s). The centre d
  depends on the method of the interval:

  * By default it is the difference itself.
  * For Bonett and Price's it is the middle of the interval, or the difference if it is clipped.
  * For a ratio minus 1 (`of_means.log_ratio`), the interval is first transformed to ln(1 + end); d
    is the middle of the transformed interval.

  Args:
    differences: rows of the table of results that are paired differences.
  """
  value, low, high = (differences[end].to_numpy(float) for end in ('value', 'low', 'high'))
  method, clusters = differences['method'].astype(str), differences['clusters'].to_numpy(float)
  is_ratio = method.str.startswith(intervals.LOG_RATIO).to_numpy()
  is_bonett_price = method.str.contains(intervals.BONETT_PRICE, regex=False).to_numpy()
  # Intervals that are symmetric around their middle instead of the value.
  is_symmetric = is_ratio | (is_bonett_price & ~_is_clipped(low, high))
  freedom = np.where(clusters > 1, clusters - 1, np.inf)  # ∞ is the normal distribution
  quantile = special.stdtrit(freedom, (1 + differences['confidence'].to_numpy(float)) / 2)
  # Other differences than ratios may be below −1: 1 takes their place in the logarithm.
  ratio_low, ratio_high = (np.where(is_ratio, 1 + end, 1.0) for end in (low, high))
  log_ends = _log_ends(ratio_low, ratio_high, quantile)
  low, high = np.where(is_ratio, log_ends, np.stack([low, high]))
  centre = np.where(is_symmetric, (low + high) / 2, value)
  half_width = np.where(centre > 0, centre - low, high - centre)  # on the side of 0
  with np.errstate(divide='ignore', invalid='ignore'):
    p_from_interval = 2 * special.stdtr(freedom, -np.abs(centre) / half_width * quantile)
  is_exactly_zero = (centre == 0) & (half_width == 0)  # 0/0 above
  p_from_interval = np.where(is_exactly_zero, 1.0, p_from_interval)
  p_from_test = differences['p'].to_numpy(float)
  return np.where(np.isnan(p_from_test), p_from_interval, p_from_test)


def _is_clipped(low: ArrayLike, high: ArrayLike) -> np.ndarray:
  """Returns whether Bonett and Price's intervals were clipped to [−1, 1], the range of differences.

  A clipped interval is no longer symmetric: clipping moves its middle towards 0.
  """
  return (np.asarray(low) <= -1) | (np.asarray(high) >= 1)


def _log_ends(low: ArrayLike, high: ArrayLike, quantile: ArrayLike) -> np.ndarray:
  """Returns ln(low) and ln(high) of the intervals of ratios from `of_means.log_ratio`, [2, …].

  `log_ratio` extends the interval of the ratio 0 to 0, which has no finite logarithm. In its place
  is the lower end before the extension, ln(high) − 2 t s. The standard error s of the logarithm is
  about √2, because `log_ratio` adds half an image to the wrong answers, of which there are none.

  Args:
    low, high: ends of the intervals, at least 0.
    quantile: Student's quantile t at the confidence of the interval.
  """
  log_high, is_extended = np.log(high), np.equal(low, 0)
  log_low_before_extension = log_high - 2 * np.asarray(quantile) * np.sqrt(2)
  with np.errstate(divide='ignore'):
    log_low = np.where(is_extended, log_low_before_extension, np.log(low))
  return np.stack([log_low, log_high])


def _t_quantile(n: int, confidence: float) -> float:
  """Returns the two-sided quantile of Student's distribution with n − 1 degrees of freedom.

  n is the number of clusters. For n < 2, for which Student's distribution is not defined, the
  quantile of the normal distribution is returned.
  """
  return intervals.z_value(confidence) if n < 2 else float(intervals.t_value(n, confidence))


def _effective_trials(value: float, low: float, high: float, n: int, confidence: float) -> float:
  """Returns the effective number of independent trials that a Korn–Graubard interval came from.

  It is the number m for which Clopper and Pearson's interval of m trials ends at `high`, or, for a
  share of 0 or 1, has the width `high` − `low`. If there is no such number, it is `n`.

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
