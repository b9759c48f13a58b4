"""Estimates of functions of means, such as ratios and slopes, by the bootstrap and the delta
method.

A metric such as mCE is a pure function of the means over several groups of views. All values of one
unit (an image, or the scenes of one object) are resampled together, so that classifiers and views
are compared on the same images.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from robustness.core.errors import InputError
from robustness.estimates.intervals import BOOTSTRAP, EXACT, LOG_RATIO, percentile_interval, t_value
from robustness.estimates.jackknife import FEWEST, effective_units, too_few
from robustness.estimates.means import (
  Estimate,
  estimate_row,
  means,
  pairs_of,
  share_difference,
  table_of_rows,
)
from robustness.estimates.outcomes import Group, Outcomes, joined_views
from robustness.estimates.quantity import Function, Quantity

EQUAL = 'no interval: all resamples are equal'
"""The note of a value that is the same in all resamples."""
ITSELF = 'the baseline itself'
"""The note of a ratio that is 1 because it is the baseline's ratio to itself."""
RESAMPLES = 1000
"""Number of bootstrap samples of an interval."""
_RESAMPLES_PER_BATCH = 100
"""Bootstrap samples that are computed at once."""
_ROUNDING = 1e-9  # means closer than this are equal
_IMAGINARY_STEP = 1e-30
"""Step h of the complex-step derivative Im f(x + i·h) / h, which has no cancellation error at any
h.
"""

Statistic = Callable[[np.ndarray], np.ndarray]
"""A function of weights of the units [B, K], which sum to 1, that returns one value [B] or one for
each group [B, G].
"""


class Units(NamedTuple):
  """Weighted sums of a classifier's statistic, by independent unit and group of views.

  A unit is an image, or a cluster of images such as the scenes of one object. A group of views is,
  for example, all severities of fog. The statistic of an image in a view is x, and the weight of
  the view is w. The mean of group g is the sum of `total[:, g]` over the sum of `weight[:, g]`.

  Attributes:
    total: the sum of w x over the images of each unit and the views of each group, [K, G].
    weight: the sum of w over the same images and views, [K, G].
    n: number of images; number of pairs of an image and a view if units hold several images.
    names: names of the groups, such as 'fog'.
    images: average number of images in a unit.
  """

  total: np.ndarray
  weight: np.ndarray
  n: int
  names: tuple[str, ...] = ()
  images: float = 1.0

  @property
  def clusters(self) -> float:
    """The effective number of units (Kish); their plain number if each unit is one image."""
    if self.images == 1:  # per unit
      return float(len(self.weight))
    return float(effective_units(self.weight.sum(1)))

  @property
  def without_interval(self) -> str:
    """The reason for estimates without intervals if independent units are too few, else ''."""
    min_clusters = 2 if self.images == 1 else FEWEST
    return too_few(self.clusters) if self.clusters < min_clusters else ''

  def means(self, weights: np.ndarray) -> np.ndarray:
    """Returns the mean of each of G groups of views under weights of the K units, [..., G].

    The mean of a group without weight is NaN.

    Args:
      weights: weights of the units, such as their counts in bootstrap samples, [..., K].
    """
    with np.errstate(invalid='ignore', divide='ignore'):
      return np.asarray((weights @ self.total) / (weights @ self.weight))


def units_of_classifier(outcomes: Outcomes, label: str, groups: Sequence[Group]) -> Units:
  """Returns one classifier's sums of a statistic by independent unit and group of views.

  Args:
    outcomes: values of the statistic for each image and view. Its `clusters` are the K units;
      without clusters each image is a unit.
    label: label of the classifier.
    groups: the G groups of views, such as a group per corruption.

  Returns:
    `Units` with sums [K, G].
  """
  totals_of_groups = [outcomes.weighted_totals(label, group) for group in groups]
  total, weight = np.stack(totals_of_groups, -1)  # [K, G] each
  names = tuple(' '.join(map(str, group.facets.values())) for group in groups)
  n = outcomes.observations(label, joined_views(groups))
  num_images, num_units = len(outcomes.values[label]), len(total)
  return Units(total, weight, n, names, images=num_images / num_units)


@dataclasses.dataclass(frozen=True)
class MeanRatio:
  """A classifier's mean divided by a baseline's mean, averaged over groups of views (as mCE).

  With the means m_k of the classifier and b_k of the baseline in K groups, the ratio is 1/K Σ_k m_k
  / b_k. It is mCE if the statistic is the error and each group has the views of one corruption.

  Attributes:
    facet: name of the facet that groups the views, such as 'corruption'. Views without a value of
      this facet are clean and in none of the K groups.
    is_excess: whether the means m₀ and b₀ of the clean views are subtracted, as in relative mCE:
      1/K Σ_k (m_k − m₀) / (b_k − b₀). The clean views are then an additional group, the first.
  """

  facet: str
  is_excess: bool = False

  def __call__(self, means: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    """Returns the average over groups of views of the classifier's mean over the baseline's.

    The average is of m_k / b_k. With `is_excess` it is of (m_k − m₀) / (b_k − b₀), where group 0
    has the clean views. The result is then NaN if any b_k − b₀ is not above 0.

    Args:
      means: m, the classifier's mean in each group, [..., G], in the order of `groups`.
      baseline: b, the baseline's mean in each group, [..., G].

    Returns:
      The average ratio, [...].
    """
    if not self.is_excess:
      return np.asarray((means / baseline).mean(-1))
    # [..., 1:] has the groups k ≥ 1, and [..., :1] the clean means m₀ and b₀.
    excess = means[..., 1:] - means[..., :1]
    reference = baseline[..., 1:] - baseline[..., :1]
    ratios = np.full(excess.shape, np.nan)
    np.divide(excess, reference, out=ratios, where=reference > _ROUNDING)
    return np.asarray(ratios.mean(-1))

  def groups(self, outcomes: Outcomes, where: np.ndarray | None) -> list[Group]:
    """Returns groups of views: one for each value of the facet, such as each corruption.

    `self` is a ratio of means: the mean of a statistic over each group is divided by a baseline's.
    With `is_excess`, the mean over clean views is subtracted first; their group then comes before
    the others. Clean views have no value of the facet.

    Args:
      outcomes: outcomes with the facet as a column of `views`.
      where: bool [V], the views that are grouped by the facet; None groups all. It does not
        restrict the clean views.
    """
    groups = list(outcomes.groups((self.facet,), where))
    if not self.is_excess:
      return groups
    is_clean = outcomes.views[self.facet].isna().to_numpy()
    return [*outcomes.groups(where=is_clean), *groups]

  def why_undefined(self, baseline: Units) -> str:
    """Returns a note that names the groups in which the baseline is no worse than when clean.

    A ratio with `is_excess` divides by this excess, and is undefined if it is 0 or negative. The
    note is '' if there is no such group.

    Args:
      baseline: sums of the baseline, see `Units`. The first group has the clean views.
    """
    clean, *means = baseline.means(np.ones(len(baseline.weight)))
    named_means = zip(baseline.names[1:], means, strict=True)
    undefined = [name for name, mean in named_means if mean - clean <= _ROUNDING]
    reason = 'undefined: the baseline errs no more than when clean under'
    return f'{reason} {", ".join(undefined)}' if undefined else ''


def function_of_means(
  quantity: Quantity,
  outcomes: Outcomes,
  by: Sequence[str] = (),
  *,
  baseline: Mapping[str, float] | None = None,
  confidence: float = 0.95,
  where: np.ndarray | None = None,
  facets: Mapping[str, object] | None = None,
  by_group: bool = False,
) -> pd.DataFrame:
  """Returns a table with a function of means over groups of views, such as mCE, per classifier.

  The first rows are the values of all classifiers. The differences from the first classifier
  follow. Intervals are from a bootstrap over independent units. A `MeanRatio` is an exception:

  * Relative to published means it has the interval of a weighted mean.
  * Relative to the first classifier on the same images it has the interval of `log_ratio`. With
    `MeanRatio.is_excess` its denominators may be near 0, and it has a bootstrap too.

  Args:
    quantity: the quantity. Its `function` is called with the classifier's means and the baseline's
      means, [..., G] each, over G groups of views. It returns [...], or [..., G] with `by_group`,
      and NaN where it is undefined.
    outcomes: values of the quantity's statistic for all classifiers.
    by: facets (columns of `outcomes.views`), such as 'severity'. Each combination of their values
      is a group of views. A `MeanRatio` uses its own facet instead.
    baseline: {value of the facet: published mean} for a `MeanRatio`, for instance {'fog': .82}. The
      key '' has the mean of the clean views. None divides by the first classifier.
    confidence: confidence of each interval, in (0, 1).
    where: bool [V], the views that are included; None includes all.
    facets: {column: value} that is added to each row of the result.
    by_group: whether the function returns a value for each group. The result then has a row per
      group, with the facets of the group.

  Raises:
    InputError: the quantity has no function.
  """
  outcomes.require(quantity)
  function = quantity.function
  if function is None:
    raise InputError(f'the quantity {quantity.name} has no function of means.')
  ratio = function if isinstance(function, MeanRatio) else None
  groups = ratio.groups(outcomes, where) if ratio else list(outcomes.groups(by, where))
  if ratio and baseline is not None:
    return _relative_to_published(quantity, ratio, outcomes, groups, baseline, confidence, facets)
  common = outcomes.common.with_rows_counted_in(joined_views(groups))
  units = {label: units_of_classifier(common, label, groups) for label in outcomes.labels}
  ratios = _ratios_to_first(ratio, units, confidence) if ratio else {}
  facets_of_groups = [group.facets for group in groups] if by_group else [{}]
  rows = []
  for label, versus in pairs_of(outcomes.labels):
    if ratio:
      estimate = ratios[label]
      if versus:  # the first classifier has the ratio 1, which is subtracted
        low, high = estimate.low - 1, estimate.high - 1
        estimate = dataclasses.replace(estimate, value=estimate.value - 1, low=low, high=high)
      estimates = [estimate]
    else:
      estimates = _function_of_means(function, units[label], units.get(versus), confidence)
    for group_facets, estimate in zip(facets_of_groups, estimates, strict=True):
      all_facets = {**(facets or {}), **group_facets}
      estimate = unless_equal(estimate)  # an interval of width 0 becomes NaN
      rows.append(estimate_row(label, versus, quantity, all_facets, estimate, confidence))
  return table_of_rows(rows)


def _ratios_to_first(
  ratio: MeanRatio, units: Mapping[str, Units], confidence: float
) -> dict[str, Estimate]:
  """Returns the ratio of each classifier to the first classifier, {label: ratio}.

  Args:
    ratio: the ratio of means, such as mCE.
    units: {label: sums of the classifier}, the first classifier first.
    confidence: confidence of each interval, in (0, 1).
  """
  first, *compared = units
  base = units[first]
  ratios = {first: Estimate(1.0, 1.0, 1.0, base.n, len(base.weight), EXACT, note=ITSELF)}
  for label in compared:
    if ratio.is_excess:  # its denominators may be near 0, where `log_ratio` has no valid interval
      statistic = functools.partial(_function_in_samples, ratio, units[label], base)
      (estimate,) = bootstrap(statistic, units[label], confidence)
      reason = ratio.why_undefined(base) if np.isnan(estimate.value) else ''
      ratios[label] = dataclasses.replace(estimate, note=reason or estimate.note)
    else:
      ratios[label] = log_ratio(ratio, units[label], base, confidence)
  return ratios


def _function_of_means(
  function: Function, measured: Units, subtracted: Units | None, confidence: float
) -> list[Estimate]:
  """Returns f(means) of a classifier, or its difference from another classifier.

  Args:
    function: f, a function of means over groups of views.
    measured: sums of the classifier by unit.
    subtracted: sums of the other classifier; None subtracts nothing.
    confidence: confidence of each interval, in (0, 1).

  Returns:
    One estimate, or one for each group.
  """

  def statistic(weights: np.ndarray) -> np.ndarray:
    """Returns f of a classifier's means, or its difference, in bootstrap samples, for `bootstrap`.

    Args:
      weights: weights of the units (images or clusters of images) in B samples, [B, K].

    Returns:
      [B], or [B, G] if f has a value for each group.
    """
    # f is called with a baseline's means too, but only a `MeanRatio` uses them.
    value = _function_in_samples(function, measured, measured, weights)
    if subtracted is None:
      return value
    return np.asarray(value - _function_in_samples(function, subtracted, subtracted, weights))

  return bootstrap(statistic, measured, confidence)


def _function_in_samples(
  function: Function, measured: Units, base: Units, weights: np.ndarray
) -> np.ndarray:
  """Returns a function of means in B bootstrap samples, [B], or [B, G] with a value per group.

  Args:
    function: called with the means of the classifier and of the baseline, [B, G] each.
    measured: sums of the classifier by unit.
    base: sums of the baseline by unit.
    weights: the weights of the K units in each sample, [B, K].
  """
  return np.asarray(function(measured.means(weights), base.means(weights)))


def _relative_to_published(
  quantity: Quantity,
  ratio: MeanRatio,
  outcomes: Outcomes,
  groups: Sequence[Group],
  baseline: Mapping[str, float],
  confidence: float,
  facets: Mapping[str, object] | None,
) -> pd.DataFrame:
  """Returns a table with the ratio of each classifier's means to published means, such as mCE.

  Published means b_k count as exact, because they are of many images. The average of m_k / b_k over
  groups k is a weighted mean over all views, times the average of 1/b_k. A view in group k has the
  weight 1/b_k. The ratio has the interval of this weighted mean.

  With `ratio.is_excess`, the ratio is (m_k − m₀) / (b_k − b₀). The statistic of a view is then its
  change from the clean view, and b_k − b₀ takes the place of b_k. There are then no differences
  between classifiers.

  Args:
    quantity: the quantity of the result.
    ratio: the function of means of the quantity.
    outcomes: values of the quantity's statistic for all classifiers.
    groups: groups of views from `ratio.groups`. With `ratio.is_excess` the first is the clean view.
    baseline: {value of the facet: published mean b_k}, with the clean mean b₀ at ''.
    confidence: confidence of each interval, in (0, 1).
    facets: {column: value} that is added to each row of the result.
  """
  corrupted_groups, subtracted_mean = groups, 0.0
  if ratio.is_excess:  # the first group is the clean view
    corrupted_groups, subtracted_mean = groups[1:], baseline['']
  published = [baseline[str(group.facets[ratio.facet])] for group in corrupted_groups]
  inverses = [1 / (mean - subtracted_mean) for mean in published]
  weight = np.zeros(len(outcomes.views))
  for group, inverse in zip(corrupted_groups, inverses, strict=True):
    weight[group.views] = inverse
  is_corrupted = weight != 0  # false for views outside of these groups
  # `means` divides by the sum of the weights. Times their average it is the average ratio.
  scale = float(np.mean(inverses))
  if outcomes.weight is not None:  # views count unequally within their groups
    weight = weight * outcomes.weight
  weighted = dataclasses.replace(outcomes, weight=weight)
  if not ratio.is_excess:
    return means(
      quantity, weighted, confidence=confidence, where=is_corrupted, facets=facets, scale=scale
    )
  rows = []
  common = weighted.common
  (corrupted,) = common.groups(where=is_corrupted)  # without facets there is one group
  for label, values in common.values.items():
    # Where the boolean statistic is true only in the other view, and only in the clean view.
    clean_values = values[:, groups[0].views]
    changes = {'gained': values & ~clean_values, 'lost': ~values & clean_values}
    changed = dataclasses.replace(common, values=changes)
    gained, lost = changed.sums('gained', corrupted), changed.sums('lost', corrupted)
    estimate = share_difference(gained, lost, confidence)
    rows.append(estimate_row(label, '', quantity, facets or {}, estimate, confidence, scale))
  return table_of_rows(rows)


def bootstrap(
  statistic: Statistic, measured: Units, confidence: float = 0.95, resamples: int = RESAMPLES
) -> list[Estimate]:
  """Returns the estimates of a statistic with percentile intervals of a bootstrap over units.

  A unit is an image, or a cluster of images. The value is the statistic at equal weights of all
  units. Bootstrap samples in which the statistic is NaN are left out, and a note states their
  number. An estimate has no interval, and a note with the reason, in these cases:

  * The value is NaN or infinite, or more than a share 1 − confidence of the samples is NaN.
  * An end of the interval is infinite.
  * Units hold several images and their effective number is below `FEWEST`. Percentiles would then
    come from a few distinct samples.

  Args:
    statistic: called with weights of the units, [B, K], which sum to 1 in each of B samples. It
      returns [B], or [B, G] with a value for each of G groups.
    measured: the units; only their number and sizes are used here.
    confidence: confidence of each interval, in (0, 1).
    resamples: number of bootstrap samples.

  Returns:
    One estimate, or G estimates.
  """
  count = len(measured.weight)
  # with equal weights: [1], or [G] with a value per group
  values = np.atleast_1d(statistic(np.full((1, count), 1 / count))[0])
  samples = bootstrap_samples(statistic, count, resamples).reshape(-1, len(values))
  return [
    _percentile_estimate(float(value), column, measured, confidence)
    for value, column in zip(values, samples.T, strict=True)
  ]


def _percentile_estimate(
  value: float, samples: np.ndarray, measured: Units, confidence: float
) -> Estimate:
  """Returns an estimate with the percentile interval of its bootstrap samples.

  Samples that are NaN are left out, and a note states their number. `bootstrap` lists the reasons
  for an estimate without an interval.

  Args:
    value: the value; NaN if it is undefined.
    samples: the value in each bootstrap sample, [B]; NaN if undefined.
    measured: the units that were resampled.
    confidence: confidence of the interval, in (0, 1).
  """
  num_units, num_samples = len(measured.weight), len(samples)
  new_estimate = functools.partial(Estimate, n=measured.n, clusters=num_units, method=BOOTSTRAP)
  if not np.isfinite(value):
    return new_estimate(np.nan, np.nan, np.nan, note='undefined: a denominator is not above 0')
  defined = samples[~np.isnan(samples)]
  num_undefined = num_samples - len(defined)
  note = f'undefined in {num_undefined} of {num_samples} resamples' if num_undefined else ''
  if num_undefined > (1 - confidence) * num_samples:
    return new_estimate(value, np.nan, np.nan, note=f'{note}: too many for an interval')
  if measured.without_interval:
    return new_estimate(value, np.nan, np.nan, note=measured.without_interval)
  with np.errstate(invalid='ignore'):  # an end between a finite and an infinite sample is NaN
    ends = np.array(percentile_interval(defined, measured.clusters, confidence))
  if not np.isfinite(ends).all():
    infinite = f'infinite in {np.isinf(samples).sum()} of {num_samples} resamples'
    note = f'{infinite}: an end of the interval is infinite'
    return new_estimate(value, np.nan, np.nan, note=note)
  if num_undefined:
    note += ', which are left out'
  # An end that differs from 0 by rounding alone would show a difference where there is none.
  low, high = np.where(np.abs(ends) > _ROUNDING * np.ptp(ends), ends, 0).tolist()
  return new_estimate(value, low, high, note=note)


def unless_equal(estimate: Estimate) -> Estimate:
  """Returns an estimate, with NaN and a note in place of a bootstrap interval of width 0.

  The width is 0 if all resamples are equal, for instance for a classifier without errors. Such
  resamples do not show how uncertain the value is.
  """
  if estimate.method != BOOTSTRAP or estimate.low != estimate.high:
    return estimate
  return dataclasses.replace(estimate, low=np.nan, high=np.nan, note=EQUAL)


def bootstrap_samples(statistic: Statistic, count: int, resamples: int = RESAMPLES) -> np.ndarray:
  """Returns the values of a statistic in bootstrap samples of K units, [samples, ...].

  Every call for the same K draws the same samples, so that two statistics can be paired by sample.

  Args:
    statistic: called with weights of the units, [B, K], which sum to 1 in each sample. It returns
      [B, ...].
    count: K, the number of units.
    resamples: number of samples, which is rounded up to a multiple of 100.
  """
  generator = np.random.default_rng(0)
  values = []
  for _ in range(0, resamples, _RESAMPLES_PER_BATCH):
    counts = generator.multinomial(count, np.full(count, 1 / count), size=_RESAMPLES_PER_BATCH)
    values.append(statistic(counts / count))
  return np.concatenate(values)


def log_ratio(
  function: Function, measured: Units, base: Units, confidence: float = 0.95
) -> Estimate:
  """Returns a ratio of means over the same units, with an interval from the delta method.

  A unit is an image, or a cluster of images. If a mean of the baseline is 0, the value is NaN with
  a note. If units hold several images and their effective number is below `FEWEST`, there is no
  interval.

  The interval is symmetric on the scale of logarithms: R̃ exp(± t s / R̃). It is extended if it
  does not contain the value.

  * R̃ is the ratio after two units of half an image are added. In one unit the classifier has the
    mean 1 and the baseline the mean 0; in the other the classifier has 0 and the baseline 1.
    Without them the interval would have no width if all units are equal.
  * s is the standard error of R̃, from its linear approximation in the means.
  * t is Student's quantile at the effective number of units.

  Args:
    function: called with the classifier's means and the baseline's means over G groups of views
      (ways of perturbing images), [..., G] each. It returns a smooth ratio, [...], that does not
      change if all means are scaled. Its arguments may be complex.
    measured: sums of the classifier by unit and group. The weight of a unit is its number of
      images, equal in every group.
    base: sums of the baseline over the same images.
    confidence: confidence of the interval, in (0, 1).

  Reference:
    Walter, The distribution of Levin's measure of attributable risk, Biometrika 62 (1975), for the
    logarithm of a ratio with ½ added.
  """
  num_units, num_groups = measured.total.shape
  new_estimate = functools.partial(Estimate, n=measured.n, clusters=num_units, method=LOG_RATIO)
  is_zero = (base.total / base.weight).sum(0) <= 0
  if is_zero.any():
    names = ', '.join(np.array(base.names)[is_zero])
    note = f'undefined: the mean of the baseline is 0 in {names}'
    return new_estimate(np.nan, np.nan, np.nan, note=note)
  equal_weights = np.full(num_units, 1 / num_units)
  value = float(function(measured.means(equal_weights), base.means(equal_weights)))
  if measured.without_interval:
    return new_estimate(value, np.nan, np.nan, note=measured.without_interval)
  # The means of the units, followed by the two added units, [K + 2, G] each.
  zeros, ones = np.zeros(num_groups), np.ones(num_groups)
  classifier_means = np.vstack([measured.total / measured.weight, ones, zeros])
  baseline_means = np.vstack([base.total / base.weight, zeros, ones])
  unit_means = np.hstack([classifier_means, baseline_means])  # [K + 2, 2 G]
  # Sizes of the units, in multiples of their mean size; each added unit is half an image. The sizes
  # have the sum num_units + image_size.
  size = measured.weight[:, 0] / measured.weight[:, 0].mean()  # the same in every group
  image_size = 1 / measured.images
  sizes = np.append(size, [image_size / 2] * 2)
  means = sizes @ unit_means / (num_units + image_size)
  # In the variance an added unit is half of the square of an image: image_size²/2, although its
  # size is image_size/2.
  squared_sizes = np.append(size**2, [image_size**2 / 2] * 2)
  ratio_with_added = float(function(means[:num_groups], means[num_groups:]))
  # The gradient by complex steps: row i of `steps` has a step in mean i.
  steps = means + 1j * _IMAGINARY_STEP * np.eye(2 * num_groups)
  gradient = np.imag(function(steps[:, :num_groups], steps[:, num_groups:])) / _IMAGINARY_STEP
  linearised = (unit_means - means) @ gradient
  error = np.sqrt(squared_sizes @ linearised**2 / (num_units * (num_units + 1)))
  factor = np.exp(t_value(measured.clusters, confidence) * error / ratio_with_added)
  low, high = ratio_with_added / factor, ratio_with_added * factor
  return new_estimate(value, float(min(low, value)), float(max(high, value)))
