"""Agreement of annotators: percent agreement, Cohen's and Fleiss' kappa, with intervals.

Ratings are categories 0, 1, ..., or −1 if a rater did not rate an item. An item is a pair of an
anchor and a neighbor. Judgements of pairs of one anchor are correlated, so intervals treat the
items of an anchor as one cluster. The argument `groups`, int [N], has the number of the anchor of
each item; if it is None, every item is a cluster.
"""

from collections.abc import Callable

import numpy as np

from robustness.estimates.consistency import beyond_chance
from robustness.estimates.intervals import BOOTSTRAP
from robustness.estimates.means import Estimate, share_in_clusters
from robustness.estimates.of_means import Units, bootstrap, unless_equal
from robustness.estimates.outcomes import Sums

CONFIDENCE = 0.95
"""Coverage of the intervals."""
RESAMPLES = 2000
"""Bootstrap samples of an interval of kappa."""


def percent_agreement(ratings: np.ndarray, groups: np.ndarray | None = None) -> Estimate:
  """Returns how often two raters of the same item agree, over all pairs of raters.

  The estimate has Korn and Graubard's interval for clusters. Its n is the number of items with at
  least two ratings; without any, the estimate is NaN.

  Args:
    ratings: [N, R], categories that R raters assigned to N items, −1 if missing.
    groups: int [N], the cluster of each item; None makes every item a cluster.
  """
  counts, cluster = _tally(ratings, groups)
  total = counts.sum(1)
  # for each cluster, the pairs of equal ratings, c (c − 1) / 2 of each category, and all pairs
  agreeing = np.bincount(cluster, (counts * (counts - 1)).sum(1) / 2)
  compared = np.bincount(cluster, total * (total - 1) / 2)
  sums = Sums(total=agreeing, weight=compared, n=len(counts), trials=float(compared.sum()))
  return share_in_clusters(sums, CONFIDENCE)


def cohen_kappa(
  first: np.ndarray, second: np.ndarray, groups: np.ndarray | None = None
) -> Estimate:
  """Returns Cohen's kappa, the agreement of two raters beyond chance.

  κ = (p_o − p_e)/(1 − p_e), where p_o is the fraction of items on which the raters agree. p_e is
  its expectation for independent raters with the same category frequencies. κ is NaN if p_e = 1.
  The interval is a percentile bootstrap over clusters, and n is the number of items that both
  rated.

  Args:
    first: [N], the first rater's categories of N items, −1 if missing.
    second: [N], the second rater's categories of the same items.
    groups: int [N], the cluster of each item; None makes every item a cluster.

  Reference:
    Cohen, A coefficient of agreement for nominal scales, Educ. Psychol. Meas. 20 (1960).
  """
  ratings = np.stack([first, second], -1)
  is_rated = np.asarray((ratings >= 0).all(1))
  ratings, cluster = ratings[is_rated], _clusters(groups, is_rated)
  num_categories = int(ratings.max(initial=0)) + 1
  # Numbers of items of each cluster by the first and the second rater's category.
  tables = np.zeros((cluster.max(initial=-1) + 1, num_categories, num_categories))
  by_first, by_second = ratings.T
  np.add.at(tables, (cluster, by_first, by_second), 1)

  def kappa(tables: np.ndarray) -> np.ndarray:
    """Computes Cohen's κ, [...]: the agreement of two raters beyond chance.

    Args:
      tables: contingency tables, [..., categories, categories]: how many items the first rater puts
        in the category of the line and the second in the category of the column.
    """
    total = tables.sum((-2, -1))
    observed = _ratio(np.trace(tables, axis1=-2, axis2=-1), total)
    # sum over categories of the products of both raters' frequencies
    expected = _ratio((tables.sum(-1) * tables.sum(-2)).sum(-1), total**2)
    return beyond_chance(observed, expected)

  return _bootstrapped(tables, kappa, sizes=tables.sum((1, 2)), n=len(ratings))


def fleiss_kappa(ratings: np.ndarray, groups: np.ndarray | None = None) -> Estimate:
  """Returns Fleiss' kappa, the agreement of R raters beyond chance.

  κ = (P − P_e)/(1 − P_e), where P is the mean over items of the fraction of agreeing pairs of
  raters. P_e = Σ_j p_j² is its expectation by chance, with p_j the fraction of category j among all
  ratings. κ is NaN if P_e = 1. Items with fewer than two ratings are left out. The interval is a
  percentile bootstrap over clusters.

  Args:
    ratings: [N, R], the raters' categories of N items, −1 if missing.
    groups: int [N], the cluster of each item; None makes every item a cluster.

  Reference:
    Fleiss, Measuring nominal scale agreement among many raters, Psychol. Bull. 76 (1971).
  """
  counts, cluster = _tally(ratings, groups)
  total = counts.sum(1, keepdims=True)
  # fraction of agreeing pairs of raters of each item, [M, 1]
  agreement = (counts * (counts - 1)).sum(1, keepdims=True) / (total * (total - 1))
  # these values are summed over the items of each cluster, from which κ is computed
  item_values = np.concatenate([agreement, np.ones_like(agreement), counts], 1)
  sums = np.zeros((cluster.max(initial=-1) + 1, item_values.shape[1]))
  np.add.at(sums, cluster, item_values)

  def kappa(sums: np.ndarray) -> np.ndarray:
    """Computes Fleiss' κ, [...], from sums over items.

    Args:
      sums: [..., 2 + categories], the sum of agreements, the number of items, and the number of
        ratings in each category.
    """
    agreement, num_items, counts = sums[..., 0], sums[..., 1], sums[..., 2:]
    expected = _ratio((counts**2).sum(-1), counts.sum(-1) ** 2)
    return beyond_chance(_ratio(agreement, num_items), expected)

  return _bootstrapped(sums, kappa, sizes=sums[:, 1], n=len(counts))


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
  """Divides, with NaN where the denominator is 0 up to rounding."""
  nan = np.full(np.shape(numerator), np.nan)
  return np.divide(numerator, denominator, out=nan, where=denominator > 1e-12)


def _bootstrapped(
  sums: np.ndarray, kappa: Callable[[np.ndarray], np.ndarray], sizes: np.ndarray, n: int
) -> Estimate:
  """Returns κ of G clusters of items, with a bootstrap interval over clusters.

  There is no interval if all resamples are equal.

  Args:
    sums: additive statistics of each cluster, [G, ...].
    kappa: function from the sums of each resample, [resamples, ...], to κ, [resamples].
    sizes: number of items of each cluster, [G].
    n: number of all items.
  """
  if not len(sums):
    return Estimate(np.nan, np.nan, np.nan, n, 0, BOOTSTRAP)
  # `bootstrap` reads only the weights of the units, which are the sizes of the clusters
  units = Units(total=sizes[:, None], weight=sizes[:, None], n=n, images=n / len(sums))

  def kappa_of_resamples(weights: np.ndarray) -> np.ndarray:
    """Computes κ, [resamples], from the weights of clusters, [resamples, G]."""
    return kappa(np.tensordot(weights, sums, 1))

  (estimate,) = bootstrap(kappa_of_resamples, units, CONFIDENCE, resamples=RESAMPLES)
  return unless_equal(estimate)


def _tally(ratings: np.ndarray, groups: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
  """Counts the ratings of each item by category, for the M items with at least two.

  Args:
    ratings: [N, R], the raters' categories of N items, −1 if missing.
    groups: int [N], the cluster of each item; None makes every item a cluster.

  Returns:
    The number of ratings in each of C categories, [M, C], and the items' clusters, [M].
  """
  categories = np.arange(ratings.max(initial=0) + 1)
  counts = (ratings[:, :, None] == categories).sum(1).astype(float)  # −1 is no category
  is_rated = np.asarray(counts.sum(1) >= 2)
  return counts[is_rated], _clusters(groups, is_rated)


def _clusters(groups: np.ndarray | None, is_rated: np.ndarray) -> np.ndarray:
  """Returns the clusters of rated items, renumbered 0, 1, … without gaps.

  Args:
    groups: int [N], the cluster of each item; None makes every item a cluster.
    is_rated: bool [N], which items are rated. The result has only these.
  """
  groups = np.arange(len(is_rated)) if groups is None else groups
  _, clusters = np.unique(groups[is_rated], return_inverse=True)
  return clusters.reshape(-1)
