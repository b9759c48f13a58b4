r"""Prediction sets that hold the true class with a stated probability: split conformal prediction.

A score s(x, y) says how little class y fits image x. Of n images held out, q is the
⌈(n + 1)(1 − α)⌉-th smallest score of the true class, ∞ where that exceeds n, and the set of an
image is {y: s(x, y) ≤ q}. It holds the true class with probability ≥ 1 − α for images that are
exchangeable with those held out; corrupted images are not.

With probabilities p in descending order, r the rank of y from 1 and U uniform in [0, 1):

  'lac'   1 − p_y
  'aps'   Σ_{j ≤ r} p_(j) − U p_y
  'raps'  the same + λ max(0, r − k)

Sets may be empty: forbidding it holds the class more often than stated.

Reference:
  Sadinle, Lei & Wasserman, Least ambiguous set-valued classifiers with bounded error levels, JASA
  114 (2019); Romano, Sesia & Candès, Classification with valid and adaptive coverage, NeurIPS 2020;
  Angelopoulos et al., Uncertainty sets for image classifiers using conformal prediction, ICLR 2021.
"""

from __future__ import annotations

import math

import numpy as np

from robustness.core.errors import InputError
from robustness.core.settings import choice

LAC, APS, RAPS = 'lac', 'aps', 'raps'
SCORES = (LAC, APS, RAPS)
SIZES = (0, 2, 4, 11, 101)
"""Where the strata of sizes begin: 0 to 1, 2 to 3, 4 to 10, 11 to 100, above."""


def scores(
  kind: str, probabilities: np.ndarray, uniform: np.ndarray, penalty: float = 0.01, rank: int = 5
) -> np.ndarray:
  """Returns s(x, y) of every class, [..., K].

  Args:
    kind: of `SCORES`.
    probabilities: [..., K].
    uniform: U, [...], the same for all classes of an image.
    penalty: λ.
    rank: k.
  """
  choice('score', kind, SCORES)
  p = np.asarray(probabilities, float)
  if kind == LAC:
    return np.asarray(1 - p)
  order = np.argsort(-p, -1, kind='stable')
  descending = np.take_along_axis(p, order, -1)
  ranked = np.cumsum(descending, -1) - uniform[..., None] * descending
  if kind == RAPS:
    ranked = ranked + penalty * np.maximum(np.arange(1, p.shape[-1] + 1) - rank, 0)
  by_class: np.ndarray = np.empty_like(ranked)
  np.put_along_axis(by_class, order, ranked, -1)
  return by_class


def threshold(of_true_class: np.ndarray, alpha: float) -> float:
  """Returns q of the scores [n] of the true classes of the images held out; ∞ of too few.

  Raises:
    InputError: no score, or α outside (0, 1).
  """
  count = len(of_true_class)
  if not count or not 0 < alpha < 1:
    raise InputError(f'{count} scores and α = {alpha!r}: give at least one and α in (0, 1).')
  place = math.ceil((count + 1) * (1 - alpha) - 1e-9)
  return math.inf if place > count else float(np.sort(of_true_class)[place - 1])


def size_stratified_violation(covered: np.ndarray, size: np.ndarray, alpha: float) -> np.ndarray:
  """Returns the largest |coverage − (1 − α)| over strata of set sizes (`SIZES`) that occur.

  Args:
    covered: booleans [N, ...], whether a set holds the true class.
    size: int [N, ...].
    alpha: α.

  Returns:
    [...], in [0, 1].
  """
  stratum = np.searchsorted(SIZES, size, side='right')
  gaps = [_miss(covered, stratum == k, alpha) for k in range(1, len(SIZES) + 1)]
  return np.asarray(np.max(gaps, 0))


def class_coverage_gap(covered: np.ndarray, labels: np.ndarray, alpha: float) -> np.ndarray:
  """Returns the mean over classes of |coverage − (1 − α)|, [...], of sets [N, ...] and labels [N].

  Reference: Ding et al., Class-conditional conformal prediction with many classes, NeurIPS 2023.
  """
  own = [np.abs(covered[labels == c].mean(0) - (1 - alpha)) for c in np.unique(labels)]
  return np.asarray(np.mean(own, 0))


def _miss(covered: np.ndarray, inside: np.ndarray, alpha: float) -> np.ndarray:
  """Returns |coverage − (1 − α)| of the images that are inside, 0 of none, [...]."""
  count = inside.sum(0)
  share = (covered & inside).sum(0) / np.maximum(count, 1)
  return np.where(count > 0, np.abs(share - (1 - alpha)), 0.0)
