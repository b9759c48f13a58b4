"""Student's intervals from the delete-one jackknife over independent units, such as sites.

A unit may hold several images. Its statistic moves with it, so the jackknife shows how much images
of a unit are alike, and how far units of unequal size lean on a few. What it shows with few units
or errors is uncertain: quantiles are Student's at the effective number of units, (Σm)² / Σm² for
units of m images (Kish 1965, 11.2), half an image of each kind is added, and no interval is
narrower than that of independent images.
"""

import numpy as np
from scipy import special

from robustness.estimates.intervals import t_value, z_value

FEWEST = 3
"""Effective units that an interval needs where units hold several images."""
TOO_FEW = 'no interval: too few clusters'


def effective_units(weight: np.ndarray) -> np.ndarray:
  """Returns how many units of one size vary as much as those of weights [K, ...], [...]."""
  total, squares = weight.sum(0), (weight**2).sum(0)
  return np.asarray(total**2 / np.where(squares > 0, squares, 1))


def too_few(units: float) -> str:
  """Returns the note of an estimate without an interval because of its effective units."""
  return f'{TOO_FEW}, effectively {units:.1f}'


def covariance(without: np.ndarray) -> np.ndarray:
  """Returns the jackknife's covariance [Q, Q] of statistics without each of K units, [K, Q]."""
  count = len(without)
  deviation = without - without.mean(0)
  return np.asarray((count - 1) / count * deviation.T @ deviation)


def drawn_shares(
  total: np.ndarray,
  weight: np.ndarray,
  units: float,
  confidence: float = 0.95,
  samples: int = 2000,
  seed: int = 0,
) -> np.ndarray:
  """Returns joint draws [samples, Q] of what Q shares might be with other units.

  A share with `yes` images of `yes + no`, half an image of either kind added, is drawn from
  Beta(yes / d, no / d), Jeffreys' posterior at the effective number of images. d ≥ 1 is the
  jackknife's variance of its log odds over that of independent images, times the squared ratio of
  Student's quantile and the normal one. Draws are correlated as the jackknife shows, a little less
  because images that have not been seen may set equal shares apart. Quantiles of a function of the
  draws are its interval.

  Args:
    total: Σ of what counts in each unit, [K, Q].
    weight: images of each unit that a share is of, [K, Q].
    units: effective number of units, above 1.
    confidence: of the interval, in (0, 1).
    samples, seed: of the draws.
  """
  yes, no = total.sum(0) + 0.5, (weight - total).sum(0) + 0.5
  variances = covariance(np.log((yes - total) / (no - weight + total)))
  variance = np.diag(variances)
  factor = (t_value(units, confidence) / z_value(confidence)) ** 2
  effect = np.maximum(variance * factor / (1 / yes + 1 / no), 1)
  seen = np.sqrt(1 - 2 / (yes + no + 1))
  scale = np.divide(seen, np.sqrt(variance), out=np.zeros_like(yes), where=variance > 0)
  correlation = variances * np.outer(scale, scale)
  np.fill_diagonal(correlation, 1)
  size, axes = np.linalg.eigh(correlation)
  scores = np.random.default_rng(seed).standard_normal((samples, len(yes)))
  normal = scores @ (axes * np.sqrt(np.maximum(size, 0))).T
  return np.asarray(special.betaincinv(yes / effect, no / effect, special.ndtr(normal)))
