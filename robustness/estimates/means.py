"""Estimates of means: a share or an amount by group of views, and its paired differences.

A trial is one image in one view. If every independent unit has one trial, the interval is exact. If
units have several trials (an image in many views, an object in many scenes), the interval includes
the similarity of trials of one unit. docs/intervals.md has the coverage of each interval in
simulations.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.estimates import intervals
from robustness.estimates.comparison import mcnemar, paired_difference, sign_flip
from robustness.estimates.outcomes import Group, Outcomes, Sums
from robustness.estimates.quantity import Quantity
from robustness.estimates.table import ESTIMATE, SUBJECT

RANGE_TOLERANCE = 1e-5
"""Largest relative distance of a mean outside the range of its quantity, from float32 rounding."""
Row = dict[str, object]
"""A row of the table of results, {column: value}."""


def means(
  quantity: Quantity,
  outcomes: Outcomes,
  by: Sequence[str] = (),
  *,
  confidence: float = 0.95,
  where: np.ndarray | None = None,
  facets: Mapping[str, object] | None = None,
  scale: float = 1.0,
  paired: bool = True,
  test: bool = False,
  decides: bool = True,
) -> pd.DataFrame:
  """Returns a table with the mean of a statistic for each classifier and group of views.

  A view is one way of perturbing all images, such as fog at severity 3. The mean over a group of
  views is Σ w x / Σ w, with the statistic x of an image in a view and the weight w of the view. The
  first rows are the means of all classifiers. The paired differences from the first classifier
  follow. Intervals treat images, or clusters of images (`Outcomes.clusters`), as independent:

  * A mean of booleans has Clopper and Pearson's interval if each cluster has one value, else Korn
    and Graubard's.
  * A difference of two means of booleans has Bonett and Price's interval.
  * A mean of floats, or their difference, has Student's interval, cut to the quantity's range.

  Args:
    quantity: the quantity that the mean estimates.
    outcomes: the values of the statistic for all classifiers.
    by: facets (columns of `outcomes.views`), such as 'corruption'. Each combination of their values
      is a group of views. () is the mean over all views.
    confidence: confidence of each interval, in (0, 1). In a sequential design, the interval of a
      single view has the confidence of the design instead.
    where: bool [V], the views that are included; None includes all.
    facets: {column: value} that is added to each row of the result.
    scale: factor that multiplies means and intervals.
    paired: whether the result has differences from the first classifier.
    test: whether differences have p-values: McNemar's exact test if each cluster has one value,
      else the sign-flip test over clusters. There is no sign-flip test, and no p-value, if weights
      of views are not whole numbers.
    decides: whether a sequential design stops when the interval of this statistic is narrow enough.
      If it stops by another statistic, intervals of single views are from
      `FixedWidth.other_interval`.
  """
  outcomes.require(quantity)
  rows: list[Row] = []
  groups = list(outcomes.groups(by, where))
  for label, versus in pairs_of(outcomes.labels):
    if versus and not paired:
      break  # the differences come last
    pair = outcomes.pair(versus, label) if versus else None
    for group in groups:
      if pair is None:
        estimate = mean(quantity, outcomes, label, group, confidence, decides)
      elif outcomes.is_share:
        gained, lost = pair.sums('gained', group), pair.sums('lost', group)
        estimate = share_difference(gained, lost, confidence, test)
      else:  # for an amount 'gained' is the whole difference
        gained = pair.sums('gained', group)
        estimate = mean_in_clusters(gained, quantity.difference_range, confidence)
      all_facets = {**(facets or {}), **group.facets}
      rows.append(estimate_row(label, versus, quantity, all_facets, estimate, confidence, scale))
  return table_of_rows(rows)


def pairs_of(labels: Sequence[str]) -> list[tuple[str, str]]:
  """Returns what is estimated of each classifier, as pairs of `classifier` and `versus`.

  The values of all classifiers come first, with '' in the second place. The differences from the
  first classifier follow.
  """
  first, *later = labels
  return [(label, '') for label in labels] + [(label, first) for label in later]


def published_row(label: str, quantity: Quantity, value: float, n: int, **facets: object) -> Row:
  """Returns a published value without an interval as a row of the table of results.

  Args:
    label: label of the classifier.
    quantity: quantity of the value.
    value: the published value.
    n: number of images that it was measured on.
    **facets: further columns of the row.
  """
  return estimate_row(label, '', quantity, facets, Estimate.without_interval(value, n), np.nan)


def arrays(
  quantity: Quantity,
  label: str,
  facets: pd.DataFrame,
  value: np.ndarray,
  *,
  n: int | np.ndarray,
  confidence: float,
) -> pd.DataFrame:
  """Returns G values without intervals, such as a curve or a map, as a table of results.

  Args:
    quantity: the quantity of all values.
    label: label of the classifier.
    facets: the facets of each value: G rows, with a column per facet such as 'frequency'.
    value: [G].
    n: number of independent observations behind each value, [G] or one number for all.
    confidence: confidence, in (0, 1), that is written to the table. Intervals of means over several
      seeds use it later.
  """
  missing = dict.fromkeys(('low', 'high', 'p'), np.nan)  # no interval and no test
  # A `family` of 1: an interval would hold for the estimate alone.
  texts = {'classifier': label, 'quantity': quantity.name, 'versus': '', 'method': '', 'note': ''}
  numbers = {'value': value, 'n': n, 'clusters': n, 'confidence': confidence, 'family': 1}
  return facets.reset_index(drop=True).assign(**texts, **numbers, **missing)


def table_of_rows(rows: Sequence[Row]) -> pd.DataFrame:
  """Returns rows of estimates as a table of results, with all columns even if there are no rows."""
  return pd.DataFrame(rows, columns=None if rows else [*SUBJECT, *ESTIMATE])


@dataclasses.dataclass(frozen=True)
class Estimate:
  """A value with its interval, and what the interval is based on.

  Attributes:
    value: the value; NaN if it is undefined.
    low, high: ends of the interval; NaN if there is none.
    n: number of observations.
    clusters: number of independent units that the observations are in.
    method: name of the interval, such as 'clopper-pearson'.
    p: p-value of a test that a difference is 0; NaN without a test.
    note: remarks, separated by '; '.
  """

  value: float
  low: float
  high: float
  n: int
  clusters: int
  method: str
  p: float = np.nan
  note: str = ''

  @classmethod
  def without_interval(cls, value: float, n: int) -> Self:
    """Returns an estimate without an interval, such as a published value of n images."""
    return cls(value, np.nan, np.nan, n, n, '')

  def with_notes(self, *notes: str) -> Self:
    """Returns the estimate with further remarks after its own; '' is no remark."""
    return dataclasses.replace(self, note=join_notes(self.note, *notes))


Measured = tuple[Quantity, Mapping[str, object], Estimate]
"""A quantity, the facets {name: value} of an estimate, and the estimate."""


def join_notes(*notes: str) -> str:
  """Joins notes on an estimate with '; ', without those that are ''."""
  return '; '.join(filter(None, notes))


def estimate_row(
  label: str,
  versus: str,
  quantity: Quantity,
  facets: Mapping[str, object],
  estimate: Estimate,
  confidence: float,
  scale: float = 1.0,
) -> Row:
  """Returns an estimate as a row of the table of results, {column: value}.

  Args:
    label: label of the classifier.
    versus: label of the classifier that is subtracted; '' if the estimate is no difference.
    quantity: quantity of the estimate.
    facets: further columns, such as {'corruption': 'fog'}.
    estimate: the value and its interval.
    confidence: confidence of the interval, in (0, 1).
    scale: factor that multiplies the value and its interval.
  """
  return {
    'classifier': label,
    'versus': versus,
    'quantity': quantity.name,
    **facets,
    **dataclasses.asdict(estimate),
    'value': scale * estimate.value,
    'low': scale * estimate.low,
    'high': scale * estimate.high,
    'confidence': confidence,
    'family': 1,  # the interval holds for this estimate alone
  }


def mean(
  quantity: Quantity,
  outcomes: Outcomes,
  label: str,
  group: Group,
  confidence: float = 0.95,
  decides: bool = True,
) -> Estimate:
  """Returns one classifier's mean of a statistic over a group of views, with an interval.

  The interval is from `share_in_clusters` if the statistic is boolean, else from
  `mean_in_clusters`. In a sequential design, a boolean statistic of a single view (a way of
  perturbing images) has the interval of the design.

  Args:
    quantity: the quantity that the mean estimates.
    outcomes: the values of the statistic.
    label: label of the classifier.
    group: the views and their weights.
    confidence: confidence of the interval, in (0, 1). A sequential design has its own for a single
      view.
    decides: whether a sequential design stops when the interval of this statistic is narrow enough,
      see `means`.

  Raises:
    InputError: the statistic is not boolean and the mean is outside `quantity.range`.
  """
  sums = outcomes.sums(label, group)
  if outcomes.is_share and outcomes.design is not None and len(group.views) == 1:
    successes, n = int(sums.total.sum()), sums.n
    interval = outcomes.design.interval if decides else outcomes.design.other_interval
    low, high = interval(successes, n)
    return Estimate(successes / n, float(low), float(high), n, n, intervals.SEQUENTIAL)
  if outcomes.is_share:
    return share_in_clusters(sums, confidence)
  estimate = mean_in_clusters(sums, quantity.range, confidence)
  nearest_valid = np.clip(estimate.value, *quantity.range)
  if abs(estimate.value - nearest_valid) > RANGE_TOLERANCE * max(1, abs(nearest_valid)):
    raise InputError(
      f'{quantity.name} of {label} is {estimate.value:.6g}, outside its range {quantity.range}: '
      f'it is declared with kind={quantity.kind!r}; give the kind, low or high of its statistic.'
    )
  return estimate


def share_in_clusters(sums: Sums, confidence: float = 0.95) -> Estimate:
  """Returns the share of successes among trials in K independent clusters, with an interval.

  A trial is one image in one view (a way of perturbing images); a cluster is, for example, a video.
  If every cluster has one trial, the interval is Clopper and Pearson's. Otherwise it is Korn and
  Graubard's, with the effective number of clusters and the variance

    K / (K − 1) · Σ (y_k − p m_k)² / (Σ m_k)²

  where m_k is the weight of the trials of cluster k, y_k the weight of its successful trials, and p
  = Σ y_k / Σ m_k the share.

  Args:
    sums: y_k (`total`) and m_k (`weight`) of each cluster, [K] each.
    confidence: confidence of the interval, in (0, 1).
  """
  count, weight = len(sums.weight), sums.weight.sum()
  # With one trial in each cluster both intervals are equal, and the simpler one is named.
  method = intervals.CLOPPER_PEARSON if sums.trials <= count else intervals.KORN_GRAUBARD
  if not count:
    return Estimate(np.nan, np.nan, np.nan, 0, 0, method)
  mean = min(max(float(sums.total.sum() / weight), 0.0), 1.0)
  effective = sums.clusters  # the effective number of clusters, at most `count`
  # Scaled so that std² / effective is the variance of the mean over the `count` clusters.
  std = _deviation(sums, mean) * np.sqrt(effective / count)
  trials_per_cluster = max(sums.trials / effective, 1)
  low, high = intervals.korn_graubard(mean, std, effective, trials_per_cluster, confidence)
  return Estimate(mean, float(low), float(high), sums.n, count, method)


def mean_in_clusters(sums: Sums, bounds: tuple[float, float], confidence: float = 0.95) -> Estimate:
  """Returns the weighted mean of values in K independent clusters, with Student's interval.

  For clusters of unequal weight, the interval uses their effective number.

  Args:
    sums: the weighted sum of values (`total`) and the sum of weights (`weight`) of each cluster,
      [K] each.
    bounds: the smallest and the largest possible mean; the interval is cut to them.
    confidence: confidence of the interval, in (0, 1).
  """
  count, weight = len(sums.weight), sums.weight.sum()
  if not count:
    return Estimate(np.nan, np.nan, np.nan, 0, 0, intervals.STUDENT)
  mean, effective = float(sums.total.sum() / weight), sums.clusters
  # Scaled so that std² / effective is the variance of a mean over `count` clusters.
  std = _deviation(sums, mean) * np.sqrt(effective / count)
  low, high = np.clip(intervals.student_interval(mean, std, effective, confidence), *bounds)
  return Estimate(mean, float(low), float(high), sums.n, count, intervals.STUDENT)


def _deviation(sums: Sums, mean: float) -> float:
  """Returns √K times the standard error of a weighted mean over K clusters.

  For equal weights it is the standard deviation of the means of the clusters. A single cluster has
  NaN.

  Args:
    sums: the weighted sum of values (`total`) and the sum of weights (`weight`) of each cluster,
      [K] each.
    mean: the mean over all clusters.
  """
  count = len(sums.weight)
  if count < 2:
    return np.nan
  spread = ((sums.total - mean * sums.weight) ** 2).sum() * count / (count - 1)
  # √spread / Σ weight is the standard error.
  return float(np.sqrt(spread * count) / sums.weight.sum())


def share_difference(
  gained: Sums, lost: Sums, confidence: float = 0.95, test: bool = False
) -> Estimate:
  """Returns the success rate of a second classifier minus the rate of a first, paired by trial.

  A trial is one image in one view, weighted by the weight of the view. The interval is Bonett and
  Price's at the effective number of trials, which accounts for clusters of dependent trials, such
  as frames of a video.

  Args:
    gained: weighted sums, by cluster, of the trials that succeed only with the second classifier.
    lost: weighted sums of the trials that succeed only with the first classifier.
    confidence: confidence of the interval, in (0, 1).
    test: whether the estimate has a p-value: of McNemar's exact test if each cluster has one trial,
      else of the sign-flip test over clusters. The sign-flip test needs sums that are whole
      numbers.
  """
  count, weight, method = len(gained.weight), gained.weight.sum(), intervals.BONETT_PRICE
  if not count:
    return Estimate(np.nan, np.nan, np.nan, 0, 0, method)
  share_gained = float(gained.total.sum() / weight)  # of all trials
  share_lost = float(lost.total.sum() / weight)
  change = share_gained - share_lost
  deviation = gained.total - lost.total - change * gained.weight  # of each cluster
  spread = (deviation**2).sum() / weight**2
  variance = spread * count / (count - 1) if count > 1 else np.nan
  trials = max(gained.trials, count)  # at least one trial in each cluster
  trial_variance = share_gained + share_lost - change**2  # of one trial, which adds 1, −1 or 0
  # The number of independent trials with this variance; the shares of these are gained and lost.
  n = intervals.effective_trials(trial_variance, variance, gained.clusters, trials, confidence)
  value, low, high = paired_difference(share_gained * n, share_lost * n, n, confidence)
  p_value = _p_value(gained, lost) if test else np.nan
  return Estimate(float(value), float(low), float(high), gained.n, count, method, p_value)


def _p_value(gained: Sums, lost: Sums) -> float:
  """Returns the p-value that two classifiers have the same success rate on paired trials.

  The test is McNemar's if each cluster has one trial, else the sign-flip test over clusters. The
  result is NaN if the sign-flip test would need sums that are not whole numbers.

  Args:
    gained: sums, by cluster, of the trials that succeed only with the second classifier.
    lost: sums of the trials that succeed only with the first classifier.
  """
  has_single_trials = gained.trials <= len(gained.weight)  # no more trials than clusters
  if has_single_trials:
    return float(mcnemar(gained.total.sum(), lost.total.sum()))
  difference = gained.total - lost.total
  is_whole = np.array_equal(difference, np.round(difference))
  return float(sign_flip(difference)) if is_whole else np.nan  # `sign_flip` needs integers


def energy_fraction(part: ArrayLike, total: ArrayLike) -> np.ndarray:
  """Returns the fraction of the energy of a change that a part of the change has, in [0, 1].

  The fraction is NaN where the total is 0. In Yin et al. (2019), section 4.2, `total` is ‖C(x) −
  x‖² for a corruption C, and `part` is ‖H(C(x) − x)‖² with a high-pass filter H.

  Args:
    part: energy of the part, at least 0, [...].
    total: energy of the whole change, at least 0, [...].
  """
  numerator, energy = np.asarray(part, float), np.asarray(total, float)
  # Rounding may let the part exceed the total.
  return np.minimum(numerator / np.where(energy > 0, energy, np.nan), 1.0)


def correlated(normals: np.ndarray, correlation: np.ndarray) -> np.ndarray:
  """Returns standard normal numbers with a given correlation, made from independent ones.

  Args:
    normals: independent standard normal numbers, [samples, Q].
    correlation: the correlation matrix of the result, [Q, Q]. Negative eigenvalues count as 0.

  Returns:
    The correlated numbers, [samples, Q].
  """
  eigenvalues, eigenvectors = np.linalg.eigh(correlation)
  root = eigenvectors * np.sqrt(np.maximum(eigenvalues, 0))  # root @ root.T is the correlation
  return np.asarray(normals @ root.T)


def known_mean(values: ArrayLike) -> np.ndarray:
  """Returns the mean over the last axis without NaN entries; NaN if all entries are NaN."""
  array = np.asarray(values, float)
  count = (~np.isnan(array)).sum(-1)
  divisor = np.where(count > 0, count, np.nan)
  return np.asarray(np.nansum(array, -1) / divisor)
