"""Error consistency: how often two classifiers are wrong together, beyond chance.

Reference:
  Geirhos, Meding and Wichmann, Beyond accuracy: quantifying trial-by-trial behaviour of CNNs and
  humans by measuring error consistency, NeurIPS 2020.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from robustness.estimates import jackknife
from robustness.estimates.intervals import JACKKNIFE, z_value
from robustness.estimates.means import Estimate, join_notes

PRIOR = 3.0
"""Weight, in effective images, of the variance over independent images in the variance of κ."""
_MAX_KAPPA = 1 - 1e-9
"""Largest κ for which the transform artanh κ is computed; at 1 it is infinite."""


def beyond_chance(observed: np.ndarray, expected: np.ndarray) -> np.ndarray:
  """Returns Cohen's κ = (p_o − p_e)/(1 − p_e), [...], NaN if p_e = 1.

  Args:
    observed: p_o, the share of images on which two classifiers agree, [...].
    expected: p_e, the share on which they would agree by chance, [...].
  """
  possible, kappa = 1 - np.asarray(expected, float), np.full(np.shape(expected), np.nan)
  np.divide(observed - expected, possible, out=kappa, where=possible > 1e-12)
  return kappa


def error_consistency(first: ArrayLike, second: ArrayLike, agreement: ArrayLike) -> np.ndarray:
  """Returns Cohen's κ of the right and wrong answers of two classifiers, [...] in [-1, 1].

  κ = (c − e) / (1 − e), where c is the share of images on which both are right or both are wrong.
  The expectation of c for independent classifiers is e = p q + (1 − p)(1 − q), where p and q are
  the accuracies (equations 1 to 3). κ is 1 if both are wrong on the same images, 0 if c equals e,
  and NaN if both are always right or both always wrong.

  Args:
    first: p, the accuracy of the first classifier, [...].
    second: q, the accuracy of the second classifier, [...].
    agreement: the share c, [...].
  """
  p, q = np.asarray(first, float), np.asarray(second, float)
  by_chance = p * q + (1 - p) * (1 - q)
  return beyond_chance(np.asarray(agreement, float), by_chance)


def estimates(
  cells: np.ndarray, groups: np.ndarray, n: Sequence[int], confidence: float = 0.95
) -> list[Estimate]:
  """Returns the mean error consistency κ of two classifiers in each group of views, with intervals.

  A view is one way of showing all images, such as fog at severity 3. κ is computed in each view and
  averaged over the views of a group, as in the authors' toolbox (model-vs-human,
  `ErrorConsistency.get_result_df`). Views without a defined κ are left out. Pooling views instead
  would make κ positive for independent classifiers, because some views are harder for both.

  The interval is tanh(z ± √(q² V₀ + t² (V' − V₀))), extended to include the mean κ:

  * z is artanh of the mean κ. To each cell of a view's 2 × 2 table, d / 2 images are added first,
    where d is the view's design effect: the variance of the cells' shares over resampled units,
    divided by their variance over independent images (Rao and Scott 1981).
  * V₀ is the variance of z over independent images, and q the normal quantile.
  * V' = (3 d V₀ + m V)/(3 + m), but at least V₀, is the variance over units. V is the jackknife's
    variance, and d the design effect of the mean over views. V is uncertain if few images would be
    right for both classifiers by chance, or few wrong for both. m is the smaller of these effective
    numbers.
  * t is Student's quantile at Satterthwaite's degrees of freedom of the jackknife.

  If units contain several images, an interval needs `FEWEST` effective units.

  Args:
    cells: [4, K, V], numbers of images in each of K units, such as videos, and V views. The first
      axis is: right for both classifiers, only the first, only the second, neither.
    groups: weights of the views in each of G groups, [G, V]; 0 if a view is not in the group.
    n: number of images of each group, which the result states, [G].
    confidence: confidence level of the intervals, in (0, 1).

  Reference:
    Rao and Scott, The analysis of categorical data from complex sample surveys, J. Am. Stat. Assoc.
    76 (1981).
  """
  return [
    _group_estimate(cells[:, :, weight > 0], weight[weight > 0], num_images, confidence)
    for weight, num_images in zip(groups, n, strict=True)
  ]


def _group_estimate(cells: np.ndarray, weight: np.ndarray, n: int, confidence: float) -> Estimate:
  """Returns the mean error consistency of a group of V views, with its interval (see `estimates`).

  Args:
    cells: [4, K, V], numbers of images in the 2 × 2 tables, see `estimates`.
    weight: weights of the views (ways of perturbing images), [V].
    n: number of images to state in the result.
    confidence: confidence level of the interval, in (0, 1).
  """
  num_units = int(cells.any((0, 2)).sum())  # units with images in these views
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
  note = join_notes(undefined, reason)
  return Estimate(value, low, high, n, num_units, JACKKNIFE, note=note)


def _interval(
  cells: np.ndarray, weight: np.ndarray, value: float, confidence: float
) -> tuple[float, float, str]:
  """Returns the interval of κ averaged over views, or the reason why there is none.

  For the method, and the symbols in comments, see `estimates`.

  Args:
    cells: [4, K, V], numbers of images in the 2 × 2 tables, see `estimates`.
    weight: weight of each view (a way of perturbing images) in the mean, [V].
    value: the mean κ.
    confidence: confidence level of the interval, in (0, 1).

  Returns:
    (low, high, ''), or (NaN, NaN, reason) without an interval.
  """
  cells = cells[:, cells.any((0, 2))]  # units with images
  count = cells.shape[1]
  sizes = cells.sum(0)  # images of each unit and view
  is_clustered = (sizes > 1).any()
  effective = float(jackknife.effective_units(sizes @ weight)) if is_clustered else float(count)
  fewest_units = jackknife.FEWEST if is_clustered else 2
  if effective < fewest_units:
    return np.nan, np.nan, jackknife.too_few(effective)
  effect, effect_of_mean = _design_effects(cells, weight)
  total = cells.sum(1)  # [4, V]
  filled = total + effect / 2  # half an image, times d, is added to each cell, [4, V]
  z = _z(_kappa_of_cells(filled) @ weight)
  z_without_unit = _z(_kappa_of_cells(filled[:, None] - cells) @ weight)  # [K]
  deviation = jackknife.jackknife_deviations(z_without_unit)
  image_variance = _variance_over_images(filled, weight)  # V₀
  jackknife_variance = float((deviation**2).sum())  # V
  by_chance = _agreements_by_chance(total) / effect_of_mean  # m
  # V', the mean of d V₀ with the weight 3 and of V with the weight m.
  weighted_sum = PRIOR * effect_of_mean * image_variance + by_chance * jackknife_variance
  unit_variance = max(weighted_sum / (PRIOR + by_chance) - image_variance, 0.0)  # V' − V₀
  student = jackknife.student_quantile(deviation, confidence)
  half = float(np.sqrt(z_value(confidence) ** 2 * image_variance + student**2 * unit_variance))
  low, high = float(np.tanh(z - half)), float(np.tanh(z + half))
  return min(low, value), max(high, value), ''


def _variance_over_images(cells: np.ndarray, weight: np.ndarray) -> float:
  """Returns the variance of z = artanh(mean κ) over independent images, by the delta method.

  The slope of a cell is the change of z if the cell has another image. It is twice the change by
  half an image. The variance is the sum over images of (slope − mean slope in the view)².

  Args:
    cells: [4, V], the numbers of images in each cell of the 2 × 2 table of each view (a way of
      perturbing images).
    weight: weight of each view in the mean, [V].
  """
  kappa = _kappa_of_cells(cells)
  # Half an image is removed from one cell at a time, [4 cells, 4 reduced cells, V].
  reduced = cells[:, None] - np.eye(4)[:, :, None] / 2
  change = _kappa_of_cells(reduced) - kappa  # of κ in the view, [4 reduced cells, V]
  slope = 2 * (_z(kappa @ weight) - _z(kappa @ weight + change * weight))
  spread = slope - (cells * slope).sum(0) / cells.sum(0)
  return float((cells * spread**2).sum())


def _design_effect(variance: np.ndarray, independent: np.ndarray) -> np.ndarray:
  """Returns by what factor clustering of images increases a variance, at least 1, [...].

  This design effect is `variance` / `independent`.

  Args:
    variance: variance of a statistic over resampled units of images, such as videos, [...].
    independent: its variance if all images were independent, [...]. The design effect is 1 where
      this is 0.
  """
  effect = np.ones(np.shape(independent))
  np.divide(variance, independent, out=effect, where=independent > 0)
  return np.maximum(effect, 1)


def _z(kappa: np.ndarray) -> np.ndarray:
  """Returns Fisher's transformation artanh κ, finite at κ = ±1."""
  return np.asarray(np.arctanh(np.clip(kappa, -_MAX_KAPPA, _MAX_KAPPA)))


def _design_effects(cells: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, float]:
  """Returns the design effect of each view, [V], and of the mean over views.

  Clustering of images, such as frames of a video, increases a variance by this factor, at least 1.
  The variance is of shares of images: those in each cell of a table of two classifiers, right or
  wrong.

  Args:
    cells: [4, K, V], numbers of images in the 2 × 2 tables, see `estimates`.
    weight: weight of each view in the mean, [V].
  """
  count = cells.shape[1]
  sizes = cells.sum(0)  # images of each unit and view
  n = sizes.sum(0)  # images of each view
  share = cells.sum(1) / n
  influence = (cells - share[:, None] * sizes) / n  # of each unit on each share, [4, K, V]
  independent = (share * (1 - share)).sum(0) / n  # variance over images, added over the cells
  variance = (influence**2).sum((0, 1)) * count / (count - 1)
  variance_of_mean = ((influence @ weight) ** 2).sum() * count / (count - 1)
  effect_of_mean = _design_effect(variance_of_mean, independent @ weight**2)
  return _design_effect(variance, independent), float(effect_of_mean)


def _agreements_by_chance(cells: np.ndarray) -> float:
  """Returns how many images two independent classifiers would agree on by chance.

  In each view there are two expected numbers: images that both have right, and images that both
  have wrong. The smaller one is summed over views (ways of perturbing images).

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
