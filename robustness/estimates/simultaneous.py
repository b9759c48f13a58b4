"""Many estimates together: intervals that hold for all, and which differences are significant.

An interval that holds for all of several estimates holds for the one that is chosen as the largest.
A difference is significant in one sense everywhere: at a false-discovery rate over all differences
that are shown together, of every classifier.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import optimize, special

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
"""Methods of intervals with ends at a multiple of a quantile from the value."""
_MAX_TRIALS = 1e12
"""Largest effective number of trials of an interval."""


def for_all(row: pd.Series, family: int, quantity: Quantity) -> pd.Series | None:
  """Returns one of `family` estimates with the interval that holds for all of them together.

  The worst of many views looks worse than it is. Its interval at confidence 1 − α/family
  (Bonferroni; Dunn 1961) holds whichever is chosen. The method of the estimate decides how the
  interval is widened: Clopper–Pearson is computed from the counts, of a sequential design at
  1 − α/(family · looks); Korn–Graubard at the effective number of trials that follows from the ends
  of the interval; Bonett–Price, Student and strata, which are symmetric around the estimate, are
  multiplied by the ratio of the quantiles, and a log-ratio likewise on its scale; a bootstrap, a
  jackknife, joint draws and independent shares on either side of the value. Quantiles are
  Student's, because few clusters decide the spread: they grow faster with the confidence than
  normal ones.

  Returns:
    The row with another interval, within the quantity's range, and family; None where the interval
    is of a kind that cannot be widened, or of a share times a factor.

  Raises:
    InputError: a family of less than one.
  """
  if family < 1:
    raise InputError(f'a family of {family} estimates: give at least 1.')
  if quantity.kind != SHARE and row.method.startswith(
    (intervals.CLOPPER_PEARSON, intervals.KORN_GRAUBARD, intervals.SEQUENTIAL)
  ):
    return None
  ends = _ends(row, 1 - (1 - row.confidence) / family)
  if ends is None:
    return None
  bounds = quantity.difference_range if row.versus else quantity.range
  low, high = np.clip(ends, *bounds)
  return pd.Series({**row, 'low': float(low), 'high': float(high), 'family': family})


def _ends(row: pd.Series, joint: float) -> Sequence[float] | Sequence[np.ndarray] | None:
  """Returns the ends of the interval of an estimate at the confidence `joint`; see `for_all`.

  They are NaN if the estimate has no interval; None is returned if its interval cannot be widened.
  """
  value, low, high, n = float(row.value), float(row.low), float(row.high), int(row.clusters)
  if np.isnan(low) or np.isnan(high):
    return np.nan, np.nan
  if row.method.startswith(intervals.CLOPPER_PEARSON):
    return intervals.clopper_pearson(round(value * n), n, joint)
  if row.method.startswith(intervals.SEQUENTIAL):
    return intervals.clopper_pearson(round(value * n), n, 1 - (1 - joint) / MOST_LOOKS)
  ratio = _quantile(n, joint) / _quantile(n, row.confidence)
  if row.method.startswith(intervals.KORN_GRAUBARD):
    trials = _effective_trials(value, low, high, n, row.confidence)
    min_trials = min(trials, n) if n > 1 else trials
    normal_ratio = intervals.z_value(joint) / intervals.z_value(row.confidence)
    trials = max(trials * (normal_ratio / ratio) ** 2, min_trials)
    return intervals.proportion_interval(value * trials, trials, joint)
  if row.method.startswith(intervals.LOG_RATIO):
    shift = 1.0 if row.versus else 0.0  # a difference of ratios is the ratio minus 1
    middle = np.sqrt((low + shift) * (high + shift))
    factor = ((high + shift) / middle) ** ratio
    return min(middle / factor - shift, value), max(middle * factor - shift, value)
  if intervals.BONETT_PRICE in row.method:
    value = (low + high) / 2
  elif not row.method.startswith(_AROUND_THE_VALUE):
    return None
  return value - ratio * (value - low), value + ratio * (high - value)


def significant(differences: pd.DataFrame, quantity: Quantity, rate: float = RATE) -> np.ndarray:
  """Returns which differences of one figure are significant, bool [n].

  The p-values of all of them, whichever classifier they are of, are one family of Benjamini and
  Hochberg's procedure. A difference without an interval is not tested; nor is, over seeds alone,
  one of a quantity to which chance on the same images adds (`Quantity.biased`).
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
  """Returns the p-value of each difference, [n]: by its test where it has one, else the level
  1 − confidence at which its interval begins to reach 0; NaN without an interval.

  With z the quantile of the interval's confidence, a value d and the distance h to the end nearer
  to 0, that level is 2·(1 − F(z·|d| / h)), F being Student's distribution of the clusters. d is the
  middle of Bonett and Price's interval, and of a log-ratio's on its scale.
  """
  value, low, high = (differences[end].to_numpy(float) for end in ('value', 'low', 'high'))
  method, clusters = differences['method'].astype(str), differences['clusters'].to_numpy(float)
  is_ratio = method.str.startswith(intervals.LOG_RATIO).to_numpy()
  low, high = (np.log1p(end, out=end.copy(), where=is_ratio) for end in (low, high))
  is_symmetric = is_ratio | method.str.contains(intervals.BONETT_PRICE, regex=False).to_numpy()
  value = np.where(is_symmetric, (low + high) / 2, value)
  reach = np.where(value > 0, value - low, high - value)
  degrees = np.where(clusters > 1, clusters - 1, np.inf)
  quantile = special.stdtrit(degrees, (1 + differences['confidence'].to_numpy(float)) / 2)
  with np.errstate(divide='ignore', invalid='ignore'):
    levels = 2 * special.stdtr(degrees, -np.abs(value) / reach * quantile)
  levels = np.where((value == 0) & (reach == 0), 1.0, levels)
  tests = differences['p'].to_numpy(float)
  return np.where(np.isnan(tests), levels, tests)


def _quantile(n: int, confidence: float) -> float:
  """Returns Student's quantile of n ≥ 2 clusters, else the normal one."""
  return intervals.z_value(confidence) if n < 2 else float(intervals.t_value(n, confidence))


def _effective_trials(value: float, low: float, high: float, n: int, confidence: float) -> float:
  """Returns the number of trials at which a Korn–Graubard interval has the ends `low` and `high`.

  It is the number n of clusters if no number of trials has these ends.
  """
  tail = (1 - confidence) / 2
  if value <= 0 or value >= 1:
    width = high - low
    return float(np.log(tail) / np.log1p(-width)) if 0 < width < 1 else float(n)

  def excess(logarithm: float) -> float:
    """Returns how far the upper end at exp(`logarithm`) trials is above `high`."""
    trials = np.exp(logarithm)
    return float(special.betaincinv(value * trials + 1, trials * (1 - value), 1 - tail) - high)

  lowest, highest = np.log(0.5), np.log(_MAX_TRIALS)
  if excess(lowest) <= 0 or excess(highest) >= 0:
    return float(n)
  return float(np.exp(optimize.brentq(excess, lowest, highest)))
