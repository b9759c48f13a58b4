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
  Row,
  estimate_row,
  means,
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
_Estimates = dict[tuple[str, str], list[Estimate]]
"""{(label, versus): [an estimate, or one for each group of views]}. `versus` is the label of the
classifier that is subtracted; '' for none.
"""


class Units(NamedTuple):
  """The contributions of K independent units to the means of G groups of views, for one classifier.

  A unit is an image, or a cluster of images such as the scenes of one object. The value of the
  statistic for an image (a row) in a view is x, and the weight of the view is w.

  Attributes:
    total: [K, G], the sum of w x over the rows of the unit and the views of the group that count.
    weight: [K, G], the sum of w over the same rows and views.
    n: number of rows that count, or of rows × views if units hold several rows.
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
    """The effective number of units (Kish), which is the number of units if each is one image."""
    if self.images == 1:
      return float(len(self.weight))
    return float(effective_units(self.weight.sum(1)))

  @property
  def without_interval(self) -> str:
    """A note with the reason if there are too few units for intervals; '' if there are enough."""
    min_clusters = 2 if self.images == 1 else FEWEST
    return too_few(self.clusters) if self.clusters < min_clusters else ''

  def means(self, weights: np.ndarray) -> np.ndarray:
    """Returns the means of the groups, [..., G], with the units weighted by `weights`, [..., K].

    The mean of a group without weight is NaN.
    """
    with np.errstate(invalid='ignore', divide='ignore'):
      return np.asarray((weights @ self.total) / (weights @ self.weight))


def units_of_classifier(outcomes: Outcomes, label: str, groups: Sequence[Group]) -> Units:
  """Returns a classifier's `Units`: sums of values of K units, and of their weights, [K, G] each.

  A unit is an image, or a cluster of images; the sums are over the views of each of G groups.

  Args:
    outcomes: values of a statistic for each image and view.
    label: label of the classifier.
    groups: the G groups of views.
  """
  totals_of_groups = [outcomes.weighted_totals(label, group) for group in groups]
  total, weight = np.stack(totals_of_groups, -1)  # [K, G] each
  names = tuple(' '.join(map(str, group.facets.values())) for group in groups)
  n = outcomes.observations(label, joined_views(groups))
  num_images, num_units = len(outcomes.values[label]), len(total)
  return Units(total, weight, n, names, images=num_images / num_units)


@dataclasses.dataclass(frozen=True)
class MeanRatio:
  """The mean of a classifier divided by the mean of a baseline, averaged over groups of views.

  With the means m_k of the classifier and b_k of the baseline in K groups, it is 1/K Σ_k m_k / b_k.
  This is mCE if the statistic is the error and each group has the views of one corruption.

  Attributes:
    facet: name of the facet that groups the views, such as 'corruption'. Views without a value of
      this facet are clean and in none of the K groups.
    is_excess: whether the means m₀ and b₀ of the clean views are subtracted, as in relative mCE:
      1/K Σ_k (m_k − m₀) / (b_k − b₀). The clean views are then an additional group, the first.
  """

  facet: str
  is_excess: bool = False

  def __call__(self, means: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    """Returns the average [...] over groups of m_k / b_k.

    If `is_excess`, it is of (m_k − m₀) / (b_k − b₀), and NaN if any b_k − b₀ is not above 0.

    Args:
      means: the classifier's means m by group, [..., G], in the order of `groups`; if `is_excess`,
        the first group has the clean views.
      baseline: the baseline's means b by group, [..., G].
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
    """Returns the groups of views in the order in which `__call__` takes their means.

    There is a group for each value of the facet; if `is_excess`, the first group has the clean
    views.

    Args:
      outcomes: outcomes with the facet.
      where: bool [V], the views that are grouped by the facet; None groups all. The clean views do
        not depend on it.
    """
    groups = list(outcomes.groups((self.facet,), where))
    if not self.is_excess:
      return groups
    is_clean = outcomes.views[self.facet].isna().to_numpy()
    return [*outcomes.groups(where=is_clean), *groups]

  def why_undefined(self, baseline: Units) -> str:
    """Returns a note on the groups because of which a ratio with `is_excess` is undefined.

    In these groups the baseline's mean is not above its clean mean, so that the difference is no
    valid denominator. The note is '' if there is no such group.

    Args:
      baseline: units of the baseline; the first group has the clean views.
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
  """Returns the table of a quantity that is a function of means over groups of views, such as mCE.

  It has the values of all classifiers, then their differences from the first classifier.

  A `MeanRatio` divides by the means of the first classifier on the same images, or by published
  means. With published means it has the interval of a weighted mean; otherwise the interval of
  `log_ratio`, or a bootstrap over the units if clean means are subtracted, because its denominators
  may then be near 0. All other functions have a bootstrap over the units too.

  Args:
    quantity: a quantity with a function, f(means, baseline's means), of means [..., G] over groups
      of views. f returns [...], or [..., G] with `by_group`, and NaN where it is undefined.
    outcomes: the statistic of the quantity, for all classifiers.
    by: facets of views; each combination of their values is a group. A `MeanRatio` uses its own
      facet instead.
    baseline: published means for a `MeanRatio`, by value of its facet, and by '' for views without;
      None divides by the first classifier.
    confidence: confidence of each interval, in (0, 1).
    where: bool [V], the views that are included; None includes all.
    facets: {facet: value} of these estimates.
    by_group: whether the function returns a value for each group; each then has a row with the
      facets of its group.
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
  units_by_label = {label: units_of_classifier(common, label, groups) for label in outcomes.labels}
  if ratio:
    estimates = _ratios_to_first(ratio, units_by_label, confidence)
  else:
    estimates = _functions_of_means(function, units_by_label, confidence)
  facets_of_groups = [group.facets for group in groups] if by_group else [{}]
  rows: list[Row] = []
  # Values, with '' in place of a subtracted classifier, come before differences.
  for label, versus in sorted(estimates, key=lambda labels: labels[1] != ''):
    for group_facets, estimate in zip(facets_of_groups, estimates[label, versus], strict=True):
      all_facets = {**(facets or {}), **group_facets}
      estimate = unless_equal(estimate)
      rows.append(estimate_row(label, versus, quantity, all_facets, estimate, confidence))
  return table_of_rows(rows)


def _ratios_to_first(
  ratio: MeanRatio, units_by_label: Mapping[str, Units], confidence: float
) -> _Estimates:
  """Returns the ratio of each classifier to the first classifier, and each ratio minus 1.

  The ratio minus 1 is the difference from the first classifier, which has the ratio 1. Ratios have
  the keys (label, ''), and differences (label, first label).

  Args:
    ratio: the function of means.
    units_by_label: {label: units of the classifier}, the first classifier first.
    confidence: confidence of each interval, in (0, 1).
  """
  first, *compared = units_by_label
  base = units_by_label[first]
  itself = Estimate(1.0, 1.0, 1.0, base.n, len(base.weight), EXACT, note=ITSELF)
  estimates: _Estimates = {(first, ''): [itself]}
  for label in compared:
    measured = units_by_label[label]
    if ratio.is_excess:  # its denominators may be near 0, where `log_ratio` has no valid interval
      statistic = functools.partial(_function_in_samples, ratio, measured, base)
      (estimate,) = bootstrap(statistic, measured, confidence)
      if np.isnan(estimate.value):
        note = ratio.why_undefined(base) or estimate.note
        estimate = dataclasses.replace(estimate, note=note)
    else:
      estimate = log_ratio(ratio, measured, base, confidence)
    value, low, high = estimate.value - 1, estimate.low - 1, estimate.high - 1
    difference = dataclasses.replace(estimate, value=value, low=low, high=high)
    estimates |= {(label, ''): [estimate], (label, first): [difference]}
  return estimates


def _functions_of_means(
  function: Function, units_by_label: Mapping[str, Units], confidence: float
) -> _Estimates:
  """Returns estimates of f(means) of each classifier, where f is `function`, and of differences.

  Keys of the result are (label, '') for f, and (label, first label) for f of a later classifier
  minus f of the first.

  Args:
    function: f.
    units_by_label: {label: units of the classifier}, the first classifier first.
    confidence: confidence of each interval, in (0, 1).
  """
  # Only a `MeanRatio` uses the means of a baseline: here they are the classifier's.
  statistics = {
    label: functools.partial(_function_in_samples, function, measured, measured)
    for label, measured in units_by_label.items()
  }
  first, *compared = units_by_label

  def difference(label: str, weights: np.ndarray) -> np.ndarray:
    """Returns f of a classifier minus f of the first classifier, at weights of the units."""
    return np.asarray(statistics[label](weights) - statistics[first](weights))

  estimates: _Estimates = {}
  for label, measured in units_by_label.items():
    estimates[label, ''] = bootstrap(statistics[label], measured, confidence)
  for label in compared:
    statistic = functools.partial(difference, label)
    estimates[label, first] = bootstrap(statistic, units_by_label[label], confidence)
  return estimates


def _function_in_samples(
  function: Function, measured: Units, base: Units, weights: np.ndarray
) -> np.ndarray:
  """Returns a function of means in B bootstrap samples, [B], or [B, G] by group of views.

  Args:
    function: f(means, baseline's means).
    measured: the units of the classifier.
    base: the units of the baseline.
    weights: [B, K], the weights of the units.
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
  """Returns rows with each classifier's `MeanRatio` to published means, such as mCE.

  Published means b_k are of many images and count as exact. The average of m_k / b_k over groups of
  views is then a weighted mean over all views of the groups, with the weight 1/b_k of a view in
  group k, times the average of all 1/b_k. It has the interval of this weighted mean.

  For the ratio of excesses (m_k − m₀) / (b_k − b₀), the statistic in a view is replaced by its
  change from the clean view, and b_k by b_k − b₀. There are then no differences between
  classifiers.

  Args:
    quantity: the quantity.
    ratio: its function.
    outcomes: the statistic of the quantity, for all classifiers.
    groups: groups of views from `ratio.groups`; with `ratio.is_excess` the first is the clean view.
    baseline: published means b_k by value of the facet, and the clean mean b₀ by ''.
    confidence: confidence of each interval, in (0, 1).
    facets: {facet: value} of these estimates.
  """
  corrupted_groups = groups[1:] if ratio.is_excess else groups
  clean_mean = baseline[''] if ratio.is_excess else 0.0
  published = [baseline[str(group.facets[ratio.facet])] for group in corrupted_groups]
  inverses = [1 / (mean - clean_mean) for mean in published]
  weight = np.zeros(len(outcomes.views))
  for group, inverse in zip(corrupted_groups, inverses, strict=True):
    weight[group.views] = inverse
  is_corrupted = weight != 0  # the views in one of the groups
  # A weighted mean divides by the sum of the weights; this factor makes it the average ratio.
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
  (corrupted,) = common.groups(where=is_corrupted)
  for label in common.labels:
    estimate = _mean_change(common, label, groups[0], corrupted, confidence)
    rows.append(estimate_row(label, '', quantity, facets or {}, estimate, confidence, scale))
  return table_of_rows(rows)


def _mean_change(
  outcomes: Outcomes, label: str, clean: Group, corrupted: Group, confidence: float
) -> Estimate:
  """Returns the mean change of a classifier's outcomes, true or false, from clean to other views.

  An outcome is gained if it is true only in the other view, and lost if it is true only in the
  clean view. The change is the share of gained minus the share of lost outcomes.

  Args:
    outcomes: boolean outcomes.
    label: label of the classifier.
    clean: the clean view.
    corrupted: the other views, with their weights in the mean.
    confidence: confidence of the interval, in (0, 1).
  """
  values = outcomes.values[label]
  clean_values = values[:, clean.views]
  changes = {'gained': values & ~clean_values, 'lost': ~values & clean_values}
  changed = dataclasses.replace(outcomes, values=changes)
  gained, lost = changed.sums('gained', corrupted), changed.sums('lost', corrupted)
  return share_difference(gained, lost, confidence)


def bootstrap(
  statistic: Statistic, measured: Units, confidence: float = 0.95, resamples: int = RESAMPLES
) -> list[Estimate]:
  """Returns the estimate of a statistic, or one for each group of views, with percentile intervals.

  The units are resampled; the value is the statistic at equal weights of the units. Bootstrap
  samples in which the statistic is undefined (NaN) are left out, and a note states their number. An
  estimate has no interval, and a note with the reason, if

  * the value is undefined, or the statistic is undefined in more than a share 1 − confidence of the
    samples;
  * so many samples are infinite that an end of the interval is infinite;
  * units hold several images and there are effectively fewer than `FEWEST` units, so that
    percentiles would rest on a handful of distinct samples.

  Args:
    statistic: a function of weights [B, K] of the units, which sum to 1, that returns [B], or [B,
      G] with a value for each group.
    measured: the units; only their number and sizes are used here.
    confidence: confidence of each interval, in (0, 1).
    resamples: number of bootstrap samples.
  """
  count = len(measured.weight)
  equal_weights = np.full((1, count), 1 / count)
  values = np.atleast_1d(statistic(equal_weights)[0])  # [1], or [G] with a value per group
  samples = bootstrap_samples(statistic, count, resamples).reshape(-1, len(values))
  return [
    _percentile_estimate(float(value), column, measured, confidence)
    for value, column in zip(values, samples.T, strict=True)
  ]


def _percentile_estimate(
  value: float, samples: np.ndarray, measured: Units, confidence: float
) -> Estimate:
  """Returns a value with the percentile interval of its bootstrap samples and a note, if any.

  For samples that are left out and values without an interval see `bootstrap`.

  Args:
    value: the value; NaN if it is undefined.
    samples: [B], the values in bootstrap samples; NaN if undefined.
    measured: the units that were resampled.
    confidence: confidence of the interval, in (0, 1).
  """
  count = len(measured.weight)
  estimate = functools.partial(Estimate, n=measured.n, clusters=count, method=BOOTSTRAP)
  if not np.isfinite(value):
    return estimate(np.nan, np.nan, np.nan, note='undefined: a denominator is not above 0')
  defined = samples[~np.isnan(samples)]
  num_undefined = len(samples) - len(defined)
  how_many = f'undefined in {num_undefined} of {len(samples)} resamples'
  if num_undefined > (1 - confidence) * len(samples):
    return estimate(value, np.nan, np.nan, note=f'{how_many}: too many for an interval')
  if measured.without_interval:
    return estimate(value, np.nan, np.nan, note=measured.without_interval)
  with np.errstate(invalid='ignore'):  # between an infinite sample and another, the end is NaN
    low, high = map(float, percentile_interval(defined, measured.clusters, confidence))
  if not np.isfinite(high - low):
    how_many = f'infinite in {np.isinf(samples).sum()} of {len(samples)} resamples'
    return estimate(value, np.nan, np.nan, note=f'{how_many}: an end of the interval is infinite')
  note = f'{how_many}, which are left out' if num_undefined else ''
  return estimate(value, low, high, note=note)


def unless_equal(estimate: Estimate) -> Estimate:
  """Returns an estimate; a bootstrap interval without width is replaced by NaN and a note.

  All resamples are then equal, such as resamples of a classifier without errors, and do not show
  how uncertain the value is.
  """
  if estimate.method != BOOTSTRAP or estimate.low != estimate.high:
    return estimate
  return dataclasses.replace(estimate, low=np.nan, high=np.nan, note=EQUAL)


def bootstrap_samples(statistic: Statistic, count: int, resamples: int = RESAMPLES) -> np.ndarray:
  """Returns a statistic in bootstrap samples of units, [resamples, ...].

  Every call for the same number of units draws the same samples, so that results can be paired.

  Args:
    statistic: a function of weights [B, K] of the units, which sum to 1, that returns [B, ...].
    count: the number K of units.
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
  """Returns a ratio R of means over the same units, with an interval by the delta method.

  The interval is symmetric on the scale of logarithms: R̃ exp(± t s / R̃), extended to include R.

  * R̃ is the ratio after two units of half an image are added: one in which the classifier has the
    mean 1 and the baseline the mean 0, and one with the means 0 and 1. Without them the interval
    would have no width if all units are equal.
  * s is the standard error of R̃, from its linear approximation in the means.
  * t is Student's quantile at the effective number of units.

  If a mean of the baseline is 0, the value is NaN with a note. If units hold several images and
  there are effectively fewer than `FEWEST`, there is no interval.

  Args:
    function: f(means, baseline's means), [..., G] each → [...], a smooth ratio that does not change
      if all means are scaled.
    measured: the units of the classifier; a unit has the same weight in every group, its number of
      rows.
    base: the units of the baseline, over the same rows.
    confidence: confidence of the interval, in (0, 1).

  Reference:
    Walter, The distribution of Levin's measure of attributable risk, Biometrika 62 (1975), for the
    logarithm of a ratio with ½ added.
  """
  count, groups = measured.total.shape
  estimate = functools.partial(Estimate, n=measured.n, clusters=count, method=LOG_RATIO)
  is_zero = (base.total / base.weight).sum(0) <= 0
  if is_zero.any():
    names = ', '.join(np.array(base.names)[is_zero])
    note = f'undefined: the mean of the baseline is 0 in {names}'
    return estimate(np.nan, np.nan, np.nan, note=note)
  equal_weights = np.full(count, 1 / count)
  value = float(function(measured.means(equal_weights), base.means(equal_weights)))
  if measured.without_interval:
    return estimate(value, np.nan, np.nan, note=measured.without_interval)
  # Rows: the units, then the two added ones. Columns: the classifier's means, then the baseline's.
  unit_means = np.zeros((count + 2, 2 * groups))
  unit_means[:count, :groups] = measured.total / measured.weight
  unit_means[:count, groups:] = base.total / base.weight
  unit_means[count, :groups] = 1
  unit_means[count + 1, groups:] = 1
  # Sizes of the units, in multiples of their mean size; each added unit is half an image. The sizes
  # have the sum count + image_size.
  size = measured.weight[:, 0] / measured.weight[:, 0].mean()  # the same in every group
  image_size = 1 / measured.images
  sizes = np.append(size, [image_size / 2] * 2)
  means = sizes @ unit_means / (count + image_size)
  # In the variance an added unit is half of the square of an image: image_size²/2, although its
  # size is image_size/2.
  squared_sizes = np.append(size**2, [image_size**2 / 2] * 2)
  ratio = float(function(means[:groups], means[groups:]))
  # The gradient by complex steps: row i of `steps` has a step in mean i.
  steps = means + 1j * _IMAGINARY_STEP * np.eye(2 * groups)
  gradient = np.imag(function(steps[:, :groups], steps[:, groups:])) / _IMAGINARY_STEP
  linearised = (unit_means - means) @ gradient
  error = np.sqrt(squared_sizes @ linearised**2 / (count * (count + 1)))
  factor = np.exp(t_value(measured.clusters, confidence) * error / ratio)
  return estimate(value, float(min(ratio / factor, value)), float(max(ratio * factor, value)))
