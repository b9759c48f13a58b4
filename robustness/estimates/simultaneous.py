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
  *(intervals.THRESHOLD, intervals.STUDENT, STRATIFIED, intervals.BOOTSTRAP),
  *(intervals.BAYESIAN, intervals.JACKKNIFE, intervals.NEWCOMBE, 'joint draws'),
)
"""Beginnings of the names of methods with interval ends at the value plus or minus a quantile times
a standard error. Such an interval is widened by the ratio of two quantiles.
"""
_MAX_TRIALS = 1e12
"""Upper limit of the search in `_effective_trials`; no test set is that large."""


def widen_for_family(row: pd.Series, family: int, quantity: Quantity) -> pd.Series | None:
  """Returns an estimate with a wider interval that holds for many estimates together.

  Such a set of estimates is called a family. For instance, the largest of many estimates is too
  large by chance. The new interval has the confidence 1 − α/family (Bonferroni; Dunn 1961), where
  the row has the confidence 1 − α. It holds whichever estimate is selected. Let R be the ratio of
  Student's quantiles at the new and the old confidence. The method of the interval decides how it
  is widened:

  * Clopper–Pearson is computed again from the counts. In a sequential design with several looks at
    the data, the confidence is 1 − α/(family · looks).
  * Korn–Graubard is computed again from the effective number of trials, see `_effective_trials`.
  * Bonett–Price is symmetric around its middle; its half-width is multiplied by R. A log-ratio
    interval is widened in the same way on the scale of logarithms.
  * For methods in `_AROUND_THE_VALUE`, such as the bootstrap, the distance of each end from the
    value is multiplied by R. So is Bonett–Price clipped to [−1, 1].

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
  of_counts = (intervals.CLOPPER_PEARSON, intervals.KORN_GRAUBARD, intervals.SEQUENTIAL)
  if row.method.startswith(of_counts) and quantity.kind != SHARE:
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
  """Returns the ends of an estimate's interval at a higher confidence.

  `widen_for_family` lists how the method of the interval decides the ends.

  Args:
    row: row of the table of results.
    new_confidence: confidence of the widened interval, in (0, 1).

  Returns:
    (low, high), NaN if the estimate has no interval. None if the interval cannot be widened.
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
    # The same trials would widen the interval by the ratio of normal quantiles. It is to be widened
    # by Student's ratio, as by fewer trials. They are not reduced below the number of clusters.
    normal_ratio = intervals.z_value(new_confidence) / intervals.z_value(row.confidence)
    fewer_trials = trials * (normal_ratio / student_ratio) ** 2
    trials = max(fewer_trials, min(trials, n))
    return intervals.proportion_interval(value * trials, trials, new_confidence)
  if row.method.startswith(intervals.LOG_RATIO):
    shift = 1.0 if row.versus else 0.0  # a difference of ratios is the ratio minus 1
    log_ends = _log_ends(low + shift, high + shift, _t_quantile(n, row.confidence))
    middle = log_ends.mean()  # the interval of the ratio is symmetric in the logarithm
    low, high = np.exp(middle + student_ratio * (log_ends - middle)) - shift
    return min(low, value), max(high, value)
  is_bonett_price = intervals.BONETT_PRICE in row.method  # also 'paired bonett-price, stratified'
  if not is_bonett_price and not row.method.startswith(_AROUND_THE_VALUE):
    return None
  # Bonett and Price's interval is symmetric around its middle, which is not the value.
  centre = (low + high) / 2 if is_bonett_price and not _is_clipped(low, high) else value
  return centre - student_ratio * (centre - low), centre + student_ratio * (high - centre)


def significant(differences: pd.DataFrame, quantity: Quantity, rate: float = RATE) -> np.ndarray:
  """Returns which of n differences between classifiers are significant, bool [n].

  Benjamini and Hochberg's procedure is applied to the p-values of all n together. The following
  differences are not tested and count as not significant:

  * differences without an interval;
  * means over seeds if `quantity.biased`, because the shared test images bias every seed equally.

  Args:
    differences: rows of the table of results that are paired differences, such as all of a figure.
    quantity: quantity of all differences.
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
  """Returns the p-value of the hypothesis that a difference is 0, for each of n differences, [n].

  The p-value of a test is in the column `p`. Without a test, it is computed from the interval: 1
  minus the confidence at which the interval would just reach 0. It is NaN without an interval.

  Let d be the centre of the interval, s the standard error and F Student's distribution with
  clusters − 1 degrees of freedom. The p-value is 2 F(−|d| / s). The half-width of the interval on
  the side of 0 is q s, where q is the two-sided quantile of F at the interval's confidence. The
  centre depends on the method of the interval:

  * By default the centre is the difference itself.
  * For Bonett and Price's interval it is the middle of the interval, unless the interval is clipped
    to [−1, 1].
  * For a ratio minus 1 (`of_means.log_ratio`), ends are first transformed to ln(1 + end). The
    centre is the middle of the transformed interval.

  Args:
    differences: rows of the table of results that are paired differences.
  """
  value = differences['value'].to_numpy(float)
  low, high = np.array(differences['low'], float), np.array(differences['high'], float)
  method, clusters = differences['method'].astype(str), differences['clusters'].to_numpy(float)
  is_ratio = method.str.startswith(intervals.LOG_RATIO).to_numpy()
  is_bonett_price = method.str.contains(intervals.BONETT_PRICE, regex=False).to_numpy()
  # Intervals that are symmetric around their middle instead of the value.
  is_symmetric = is_ratio | (is_bonett_price & ~_is_clipped(low, high))
  freedom = np.where(clusters > 1, clusters - 1, np.inf)  # ∞ is the normal distribution
  quantile = special.stdtrit(freedom, (1 + differences['confidence'].to_numpy(float)) / 2)
  # The ends of ratios minus 1 become logarithms of the ratios.
  ratio_low, ratio_high = 1 + low[is_ratio], 1 + high[is_ratio]
  low[is_ratio], high[is_ratio] = _log_ends(ratio_low, ratio_high, quantile[is_ratio])
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
  """Returns the logarithms of the ends of intervals from `of_means.log_ratio`, [2, …].

  A ratio of 0 has an interval that begins at 0, which has no finite logarithm. Its lower end is
  replaced by ln(high) − 2 t s. The standard error s of the logarithm is about √2, because
  `log_ratio` adds half an image to the wrong answers, and there are no others.

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
  """Returns Student's two-sided quantile for a mean over n clusters (n − 1 degrees of freedom).

  For n < 2 it is the quantile of the normal distribution.
  """
  return intervals.z_value(confidence) if n < 2 else float(intervals.t_value(n, confidence))


def _effective_trials(value: float, low: float, high: float, n: int, confidence: float) -> float:
  """Returns the effective number of independent trials behind a Korn–Graubard interval.

  Clopper and Pearson's interval of this number of trials has the same end `high`. For a share of 0
  or 1 it has the same width `high` − `low`. If there is no such number, the result is `n`.

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
