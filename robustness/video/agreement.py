"""Agreement of annotators: percent agreement, Cohen's and Fleiss' kappa, with intervals.

Ratings are categories 0, 1, ..., or −1 if a rater did not rate an item. An item is a pair of an
anchor and a neighbor. Judgements of pairs of one anchor are correlated, so intervals treat the
items of an anchor as one cluster; `groups` [N] numbers the anchor of each item (None: every item is
a cluster).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from robustness.estimates.consistency import beyond_chance
from robustness.estimates.intervals import BOOTSTRAP
from robustness.estimates.means import Estimate, share
from robustness.estimates.of_means import Units, bootstrap
from robustness.estimates.outcomes import Sums

CONFIDENCE = 0.95
"""Coverage of the intervals."""
RESAMPLES = 2000  # of the bootstrap of kappa


def percent_agreement(ratings: np.ndarray, groups: np.ndarray | None = None) -> Estimate:
  """Returns the fraction of agreeing pairs among all pairs of ratings of one item.

  `ratings` [N, R] are the categories that R raters gave N items, −1 if missing. The interval (Korn
  and Graubard) takes items of equal `groups` [N] as one cluster. n is the number of items with at
  least two ratings, and the estimate is NaN for n = 0.
  """
  counts, cluster = _counts(ratings, groups)
  total = counts.sum(1)
  agreeing = np.bincount(cluster, (counts * (counts - 1)).sum(1) / 2)
  compared = np.bincount(cluster, total * (total - 1) / 2)
  return share(Sums(agreeing, compared, len(counts), float(compared.sum())), CONFIDENCE)


def cohen_kappa(
  first: np.ndarray, second: np.ndarray, groups: np.ndarray | None = None
) -> Estimate:
  """Returns the agreement of two raters beyond chance, κ = (p_o − p_e)/(1 − p_e).

  `first` and `second` [N] are the raters' categories of N items, −1 if missing. p_o is the fraction
  of items on which they agree; p_e is its expectation if each rated independently at their observed
  frequencies; κ is NaN where p_e = 1. The interval is a percentile bootstrap over the clusters that
  `groups` [N] numbers (None: each item is one); n is the number of items that both rated.

  Reference:
    Cohen, A coefficient of agreement for nominal scales, Educ. Psychol. Meas. 20 (1960).
  """
  ratings = np.stack([first, second], -1)
  is_rated = np.asarray((ratings >= 0).all(1))
  ratings, cluster = ratings[is_rated], _clusters(groups, is_rated)
  size = int(ratings.max(initial=0)) + 1
  tables = np.zeros((cluster.max(initial=-1) + 1, size, size))
  np.add.at(tables, (cluster, *ratings.T), 1)

  def kappa(tables: np.ndarray) -> np.ndarray:
    total = tables.sum((-2, -1))
    observed = _ratio(np.trace(tables, axis1=-2, axis2=-1), total)
    expected = _ratio((tables.sum(-1) * tables.sum(-2)).sum(-1), total**2)
    return beyond_chance(observed, expected)

  return _bootstrapped(tables, kappa, tables.sum((1, 2)), len(ratings))


def fleiss_kappa(ratings: np.ndarray, groups: np.ndarray | None = None) -> Estimate:
  """Returns the agreement of R raters beyond chance, κ = (P − P_e)/(1 − P_e).

  `ratings` [N, R] are the categories of N items, −1 if missing. P is the mean over items of the
  fraction of agreeing pairs of raters. P_e = Σ_j p_j², with p_j the fraction of category j among
  all ratings, is its expectation by chance. κ is NaN if P_e = 1. Items may have different numbers
  of ratings; items with fewer than two are left out. The interval is a percentile bootstrap over
  the clusters that `groups` [N] numbers (None: each item is one).

  Reference:
    Fleiss, Measuring nominal scale agreement among many raters, Psychol. Bull. 76 (1971).
  """
  counts, cluster = _counts(ratings, groups)
  total = counts.sum(1, keepdims=True)
  agreement = (counts * (counts - 1)).sum(1, keepdims=True) / (total * (total - 1))
  item_values = np.concatenate([agreement, np.ones_like(agreement), counts], 1)
  sums = np.zeros((cluster.max(initial=-1) + 1, item_values.shape[1]))
  np.add.at(sums, cluster, item_values)

  def kappa(sums: np.ndarray) -> np.ndarray:
    observed, counts = _ratio(sums[..., 0], sums[..., 1]), sums[..., 2:]
    expected = _ratio((counts**2).sum(-1), counts.sum(-1) ** 2)
    return beyond_chance(observed, expected)

  return _bootstrapped(sums, kappa, sums[:, 1], len(counts))


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
  """Returns the quotient, NaN where the denominator is 0."""
  nan = np.full(np.shape(numerator), np.nan)
  return np.divide(numerator, denominator, out=nan, where=denominator > 1e-12)


def _bootstrapped(
  sums: np.ndarray, kappa: Callable[[np.ndarray], np.ndarray], sizes: np.ndarray, n: int
) -> Estimate:
  """Returns κ of the summed counts of G groups, with an interval over resampled groups.

  Args:
    sums: counts of each group, [G, ...].
    kappa: function from counts that are summed over groups, [resamples, ...], to κ [resamples].
    sizes: number of items of each group, int [G].
    n: number of all items.
  """
  if not len(sums):
    return Estimate(np.nan, np.nan, np.nan, n, 0, BOOTSTRAP)
  units = Units(np.empty((len(sums), 1)), sizes[:, None], n, images=n / len(sums))
  return bootstrap(
    lambda weights: kappa(np.tensordot(weights, sums, 1)), units, CONFIDENCE, resamples=RESAMPLES
  )[0]


def _counts(ratings: np.ndarray, groups: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
  """Returns category counts [M, C] and clusters [M] of the M items with at least two ratings."""
  categories = np.arange(ratings.max(initial=0) + 1)
  counts = (ratings[:, :, None] == categories).sum(1).astype(float)
  is_rated = np.asarray(counts.sum(1) >= 2)
  return counts[is_rated], _clusters(groups, is_rated)


def _clusters(groups: np.ndarray | None, is_rated: np.ndarray) -> np.ndarray:
  """Returns the group of each rated item, numbered from 0, int [rated items].

  `groups` [N] may be None for items that are all independent; `is_rated` is bool [N].
  """
  groups = np.arange(len(is_rated)) if groups is None else groups
  return np.unique(groups[is_rated], return_inverse=True)[1].reshape(-1)
