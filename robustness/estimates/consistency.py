"""Error consistency: how often two classifiers are wrong together, beyond chance.

Reference:
  Geirhos, Meding and Wichmann, Beyond accuracy: quantifying trial-by-trial behaviour of CNNs and
  humans by measuring error consistency, NeurIPS 2020.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from robustness.estimates import jackknife
from robustness.estimates.intervals import JACKKNIFE, z_value
from robustness.estimates.means import Estimate
from robustness.estimates.of_means import Units

PRIOR = 3.0
"""Weight, in effective images, of the variance over independent images in the variance of κ."""
_MAX_KAPPA = 1 - 1e-9
"""Largest κ for which the transform artanh κ is computed; at 1 it is infinite."""


def beyond_chance(observed: np.ndarray, expected: np.ndarray) -> np.ndarray:
  """Returns κ = (p_o − p_e)/(1 − p_e), [...], NaN if p_e = 1.

  Args:
    observed: p_o, the share of images on which two classifiers agree, [...].
    expected: p_e, the share that is expected by chance, [...].
  """
  possible, kappa = 1 - np.asarray(expected, float), np.full(np.shape(expected), np.nan)
  np.divide(observed - expected, possible, out=kappa, where=possible > 1e-12)
  return kappa


def error_consistency(first: ArrayLike, second: ArrayLike, agreement: ArrayLike) -> np.ndarray:
  """Returns Cohen's κ of the right and wrong answers of two classifiers, [...] in [-1, 1].

  κ = (c − e) / (1 − e), where c is the share of images on which both are right or both are wrong,
  and e = p q + (1 − p)(1 − q) the expectation of c for independent classifiers with accuracies p
  and q (equations 1 to 3). κ is 1 if both are wrong on the same images, 0 if c is at chance, and
  NaN if both are always right or both always wrong.

  Args:
    first: p, the accuracy of the first classifier, [...].
    second: q, the accuracy of the second classifier, [...].
    agreement: the share c, [...].
  """
  p, q, agreed = (np.asarray(value, float) for value in (first, second, agreement))
  return beyond_chance(agreed, p * q + (1 - p) * (1 - q))


def estimates(units: Units, groups: np.ndarray, confidence: float = 0.95) -> list[Estimate]:
  """Returns the mean error consistency of each group of views, with jackknife intervals.

  κ is computed in each view and averaged over the group's views in which it is defined, as the
  authors' toolbox averages over conditions (model-vs-human, `ErrorConsistency.get_result_df`). κ of
  several views pooled would be above 0 for independent classifiers, because some views are harder
  for both.

  The interval is symmetric in Fisher's z = artanh κ and always includes the value.

  * Half an image, times the view's design effect d, is added to each cell of the 2 × 2 table of
    right and wrong answers. d is the variance of the cells' shares over the units, divided by the
    variance that they have over independent images (Rao and Scott 1981).
  * The variance is V' = (3 d V₀ + m V)/(3 + m), at least V₀. V₀ is the variance over independent
    images and V the variance of the jackknife over units. V is uncertain if both classifiers would
    be right, or both wrong, by chance on few images; m is the smaller of these two effective
    numbers of images.
  * The half-width is √(q² V₀ + t² (V' − V₀)). The normal quantile q is for the variance that images
    alone explain. Student's quantile t, at Satterthwaite's degrees of freedom of the jackknife, is
    for the variance that the units add.
  * If units hold several images, an interval needs `FEWEST` effective units.

  Args:
    units: totals [K, 3 V] of K units in V views: V numbers of images on which the first classifier
      is right, V numbers on which the second is right, and V numbers on which both are right or
      both are wrong. The weights are numbers of images, [K, 3 V].
    groups: weights of the views in each of G groups, [G, V]; 0 if a view is not in the group.
    confidence: confidence of each interval, in (0, 1).

  Reference:
    Rao and Scott, The analysis of categorical data from complex sample surveys, J. Am. Stat.
    Assoc. 76 (1981).
  """
  num_views = units.weight.shape[1] // 3
  images = units.weight[:, :num_views]
  # Images on which the first classifier is right, the second is right, and both answers are equal.
  first, second, equal = np.split(units.total, 3, 1)  # [K, V] each
  # first + second counts an image twice if both are right, and once if only one is right, which
  # (images − equal) are. Without these, twice the number of images with two right answers remains.
  right = (first + second + equal - images) / 2
  # Images on which both are right, only the first, only the second, and neither, [4, K, V].
  cells = np.stack([right, first - right, second - right, images - first - second + right])
  return [
    _group_estimate(cells[:, :, weights > 0], weights[weights > 0], units.n, confidence)
    for weights in groups
  ]


def _group_estimate(cells: np.ndarray, weight: np.ndarray, n: int, confidence: float) -> Estimate:
  """Returns the mean error consistency of a group of V views, see `estimates`.

  Args:
    cells: [4, K, V], numbers of images, see `_interval`.
    weight: weights of the views, [V].
    n: number of images.
    confidence: confidence of the interval, in (0, 1).
  """
  num_units = int((cells.sum(0) > 0).any(1).sum())  # that have images in these views
  kappa = _kappa_of_cells(cells.sum(1))
  is_defined = np.isfinite(kappa)
  if not is_defined.any():
    note = 'undefined: all alike'
    return Estimate(np.nan, np.nan, np.nan, n, num_units, JACKKNIFE, note=note)
  weight = weight[is_defined] / weight[is_defined].sum()
  value = float(kappa[is_defined] @ weight)
  low, high, reason = _interval(cells[:, :, is_defined], weight, value, confidence)
  num_undefined = int((~is_defined).sum())
  views = f'{num_undefined} view{"s" * (num_undefined > 1)}'
  undefined = f'undefined in {views}: all alike' if num_undefined else ''
  note = '; '.join(filter(None, (undefined, reason)))
  return Estimate(value, low, high, n, num_units, JACKKNIFE, note=note)


def _interval(
  cells: np.ndarray, weight: np.ndarray, value: float, confidence: float
) -> tuple[float, float, str]:
  """Returns the interval of Cohen's κ, averaged over views, or the reason why there is none.

  Args:
    cells: [4, K, V], the number of images of each of K resampled units, such as videos, in each of
      V views on which both classifiers are right, only the first, only the second, and neither.
    weight: weight of each view in the mean, [V].
    value: the mean κ.
    confidence: confidence of the interval, in (0, 1).

  Returns:
    Both ends, NaN if there is no interval, and the reason why there is none, else ''. For the
    method see `estimates`.
  """
  cells = cells[:, cells.any((0, 2))]  # units with images
  count = cells.shape[1]
  sizes = cells.sum(0)  # images of each unit and view
  is_clustered = (sizes > 1).any()
  units = float(jackknife.effective_units(sizes @ weight)) if is_clustered else float(count)
  if units < (jackknife.FEWEST if is_clustered else 2):
    return np.nan, np.nan, jackknife.too_few(units)
  effect, joint_effect = _design_effects(cells, weight)
  total = cells.sum(1)  # [4, V]
  filled = total + effect / 2  # half an image, times d, is added to each cell, [4, V]
  centre = _z(_kappa_of_cells(filled) @ weight)
  # The jackknife: z of the mean κ without each unit.
  deviation = jackknife.jackknife_deviations(_z(_kappa_of_cells(filled[:, None] - cells) @ weight))
  independent_variance = _independent_variance(filled, weight)  # V₀
  by_chance = _agreements_by_chance(total) / joint_effect  # m
  # (3 + m) V' = 3 d V₀ + m V; then V' − V₀.
  variance = PRIOR * joint_effect * independent_variance + by_chance * float((deviation**2).sum())
  excess = max(variance / (PRIOR + by_chance) - independent_variance, 0.0)
  freedom = np.nan_to_num(jackknife.degrees_of_freedom(deviation), nan=count - 1)
  student = special.stdtrit(freedom, (1 + confidence) / 2)
  half = float(np.sqrt(z_value(confidence) ** 2 * independent_variance + student**2 * excess))
  low, high = float(np.tanh(centre - half)), float(np.tanh(centre + half))
  return min(low, value), max(high, value), ''


def _independent_variance(cells: np.ndarray, weight: np.ndarray) -> float:
  """Returns the variance of z = artanh(mean κ) over independent images, by the delta method.

  The slope of z with respect to an image is −2 times the change of z if a cell has half an image
  less. The variance sums the squares of (slope − mean slope in the view) over all images.

  Args:
    cells: [4, V], the numbers of images in each cell of the 2 × 2 table of each view.
    weight: weight of each view in the mean, [V].
  """
  kappa = _kappa_of_cells(cells)
  half_image = np.eye(4)[:, :, None] / 2  # in one of four cells
  changed = _kappa_of_cells(np.moveaxis(cells - half_image, 1, 0)) - kappa  # [cell, view]
  slope = 2 * (_z(kappa @ weight + changed * weight) - _z(kappa @ weight))  # −slope: it is squared
  spread = slope - (cells * slope).sum(0) / cells.sum(0)
  return float((cells * spread**2).sum())


def _design_effect(variance: np.ndarray, independent: np.ndarray) -> np.ndarray:
  """Returns `variance` / `independent`, at least 1, [...]; 1 if all images have the same answers.

  Args:
    variance: variance over clusters of images, [...].
    independent: variance that independent images would have, [...]; 0 for equal answers.
  """
  effect = np.ones(np.shape(independent))
  np.divide(variance, independent, out=effect, where=independent > 0)
  return np.maximum(effect, 1)


def _z(kappa: np.ndarray) -> np.ndarray:
  """Returns Fisher's transformation artanh κ, finite at κ = ±1."""
  return np.asarray(np.arctanh(np.clip(kappa, -_MAX_KAPPA, _MAX_KAPPA)))


def _design_effects(cells: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, float]:
  """Returns the design effects d of the views, [V], and of the mean over views.

  d ≥ 1 is the variance of the shares of images in the four cells over the units, divided by their
  variance over independent images.

  Args:
    cells: numbers of images, [4, K, V], see `_interval`.
    weight: weight of each view in the mean, [V].
  """
  count = cells.shape[1]
  sizes = cells.sum(0)  # images of each unit and view
  n = sizes.sum(0)  # images of each view
  share = cells.sum(1) / n
  influence = (cells - share[:, None] * sizes) / n  # of each unit on each share, [4, K, V]
  independent = (share * (1 - share)).sum(0) / n
  effect = _design_effect((influence**2).sum((0, 1)) * count / (count - 1), independent)
  joint = ((influence @ weight) ** 2).sum() * count / (count - 1)
  return effect, float(_design_effect(joint, independent @ weight**2))


def _agreements_by_chance(cells: np.ndarray) -> float:
  """Returns the number of images on which independent classifiers would agree, added over views.

  In each view it is the smaller of two expected numbers: of images that both would have right, and
  of images that both would have wrong.

  Args:
    cells: numbers of images, [4, V], see `_kappa_of_cells`.
  """
  n = cells.sum(0)
  both_right, only_one, both_wrong = cells[0], cells[1:3], cells[3]
  right, wrong = (both_right + only_one) / n, (both_wrong + only_one) / n  # [2 classifiers, V]
  return float((n * np.minimum(right.prod(0), wrong.prod(0))).sum())


def _kappa_of_cells(cells: np.ndarray) -> np.ndarray:
  """Returns κ [...] of the 2 × 2 table of two classifiers' answers.

  Args:
    cells: [4, ...], the numbers of images on which both classifiers are right, only the first, only
      the second, and neither.
  """
  n = cells.sum(0)
  right, only_first, only_second, wrong = cells / np.where(n > 0, n, 1)
  return error_consistency(right + only_first, right + only_second, right + wrong)
