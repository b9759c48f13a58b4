"""How far annotators agree.

Ratings are categories, whole numbers from 0 on, and −1 where a rater did not rate. Groups [N] say
which anchor each item is of (by default each item is its own group): pairs of one anchor are judged
alike, so that intervals take the groups as clusters.
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
RESAMPLES = 2000  # of the bootstrap of kappa


def percent_agreement(ratings: np.ndarray, groups: np.ndarray | None = None) -> Estimate:
  """The fraction of agreeing pairs of raters, over all items and pairs of raters that rated both.

  `ratings` are [N, R]. The interval is Korn and Graubard's; n is the number of items with at least
  two ratings, and all is NaN for n = 0.
  """
  counts, cluster = _counts(ratings, groups)
  total = counts.sum(1)
  agreeing = np.bincount(cluster, (counts * (counts - 1)).sum(1) / 2)
  compared = np.bincount(cluster, total * (total - 1) / 2)
  return share(Sums(agreeing, compared, len(counts), float(compared.sum())), CONFIDENCE)


def cohen_kappa(
  first: np.ndarray, second: np.ndarray, groups: np.ndarray | None = None
) -> Estimate:
  """Agreement of two raters [N] beyond chance, κ = (p_o − p_e)/(1 − p_e).

  p_o is the fraction of items on which they agree, p_e the chance of it if each rated independently
  with their own frequencies; κ is NaN where p_e = 1. The interval is a percentile bootstrap over
  groups; n is the number of items that both rated.

  Reference:
    Cohen, A coefficient of agreement for nominal scales, Educ. Psychol. Meas. 20 (1960).
  """
  both = np.stack([first, second], -1)
  known = np.asarray((both >= 0).all(1))
  both, cluster = both[known], _clusters(groups, known)
  size = int(both.max(initial=0)) + 1
  tables = np.zeros((cluster.max(initial=-1) + 1, size, size))
  np.add.at(tables, (cluster, both[:, 0], both[:, 1]), 1)

  def kappa(tables: np.ndarray) -> np.ndarray:
    total = tables.sum((-2, -1))
    observed = _ratio(np.trace(tables, axis1=-2, axis2=-1), total)
    expected = _ratio((tables.sum(-1) * tables.sum(-2)).sum(-1), total**2)
    return beyond_chance(observed, expected)

  return _bootstrapped(tables, kappa, tables.sum((1, 2)), len(both))


def fleiss_kappa(ratings: np.ndarray, groups: np.ndarray | None = None) -> Estimate:
  """Agreement of several raters [N, R] beyond chance, κ = (P − P_e)/(1 − P_e).

  P is the mean over items of the fraction of agreeing pairs of raters, P_e = Σ p_j² with p_j the
  share of category j among all ratings; κ is NaN where P_e = 1. Items may have different numbers of
  ratings; those with fewer than two are left out. The interval is that of `cohen_kappa`.

  Reference:
    Fleiss, Measuring nominal scale agreement among many raters, Psychol. Bull. 76 (1971).
  """
  counts, cluster = _counts(ratings, groups)
  total = counts.sum(1, keepdims=True)
  agreement = (counts * (counts - 1)).sum(1, keepdims=True) / (total * (total - 1))
  facts = np.concatenate([agreement, np.ones_like(agreement), counts], 1)
  sums = np.zeros((cluster.max(initial=-1) + 1, facts.shape[1]))
  np.add.at(sums, cluster, facts)

  def kappa(sums: np.ndarray) -> np.ndarray:
    observed, counts = _ratio(sums[..., 0], sums[..., 1]), sums[..., 2:]
    expected = _ratio((counts**2).sum(-1), counts.sum(-1) ** 2)
    return beyond_chance(observed, expected)

  return _bootstrapped(sums, kappa, sums[:, 1], len(counts))


def _ratio(over: np.ndarray, under: np.ndarray) -> np.ndarray:
  """over/under, NaN where `under` is 0."""
  return np.divide(over, under, out=np.full(np.shape(over), np.nan), where=under > 1e-12)


def _bootstrapped(
  sums: np.ndarray, kappa: Callable[[np.ndarray], np.ndarray], sizes: np.ndarray, n: int
) -> Estimate:
  """Returns κ of the summed groups [G, ...], of `sizes` items each, with a percentile interval over
  resampled groups."""
  if not len(sums):
    return Estimate(np.nan, np.nan, np.nan, n, 0, BOOTSTRAP)
  units = Units(np.empty((len(sums), 1)), sizes[:, None], n, images=n / len(sums))
  return bootstrap(
    lambda weights: kappa(np.tensordot(weights, sums, 1)), units, CONFIDENCE, resamples=RESAMPLES
  )[0]


def _counts(ratings: np.ndarray, groups: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
  """Returns ratings by category [M, C] and groups [M] of the items with two ratings or more."""
  categories = np.arange(ratings.max(initial=0) + 1)
  counts = (ratings[:, :, None] == categories).sum(1).astype(float)
  known = np.asarray(counts.sum(1) >= 2)
  return counts[known], _clusters(groups, known)


def _clusters(groups: np.ndarray | None, known: np.ndarray) -> np.ndarray:
  chosen = np.arange(len(known)) if groups is None else groups
  return np.unique(chosen[known], return_inverse=True)[1].reshape(-1)
