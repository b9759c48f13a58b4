"""Estimates of functions of means: ratios, slopes, gaps, by one bootstrap and one linearisation.

A metric that is a function of means, such as mCE, is one pure function of the means by group of
views. All values of one unit (an image, an object) are resampled together: everything is paired.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from robustness.core.errors import InputError
from robustness.estimates.intervals import BOOTSTRAP, EXACT, LOG_RATIO, percentile_interval, t_value
from robustness.estimates.jackknife import FEWEST, effective_units, too_few
from robustness.estimates.means import Estimate, Row, means, part, row, share_difference
from robustness.estimates.outcomes import Group, Outcomes, joined_views
from robustness.estimates.quantity import Function, Quantity

ITSELF = 'the baseline itself'
"""The note of a value that is 1 because it is divided by itself."""
RESAMPLES = 1000
_AT_ONCE = 100  # bootstrap samples that are computed together
_ROUNDING = 1e-9  # means closer than this are equal
_STEP = 1e-30  # of a derivative along the imaginary axis, which has no rounding error

Statistic = Callable[[np.ndarray], np.ndarray]
"""Weights of the units [B, K], which sum to 1 -> value [B] or [B, G]."""


class Units(NamedTuple):
  """The contributions of K units to the means of G groups, for one classifier.

  Attributes:
    total: [K, G], Σ w x over the unit's rows and the group's views that count.
    weight: [K, G], Σ w of these.
    n: rows, or rows × views where units hold several rows.
    names: of the groups.
    images: in a unit, on average.
  """

  total: np.ndarray
  weight: np.ndarray
  n: int
  names: tuple[str, ...] = ()
  images: float = 1.0

  @property
  def clusters(self) -> float:
    """The effective number of units of equal size; all units where each is one image."""
    if self.images == 1:
      return float(len(self.weight))
    return float(effective_units(self.weight.sum(1)))

  @property
  def without_interval(self) -> str:
    """The note that says why there are no intervals over the units; '' where there are."""
    least = 2 if self.images == 1 else FEWEST
    return too_few(self.clusters) if self.clusters < least else ''

  def means(self, weights: np.ndarray) -> np.ndarray:
    """Returns the means [..., G] at weights [..., K] of the units; NaN where nothing counts."""
    with np.errstate(invalid='ignore', divide='ignore'):
      return np.asarray((weights @ self.total) / (weights @ self.weight))


def units(outcomes: Outcomes, label: str, groups: Sequence[Group]) -> Units:
  """Returns what each unit adds to the means of some groups of views, in the groups' order."""
  columns = [outcomes.columns(label, group) for group in groups]
  total, weight = (np.stack(parts, 1) for parts in zip(*columns, strict=True))
  names = tuple(' '.join(map(str, group.facets.values())) for group in groups)
  n = outcomes.observations(label, joined_views(groups))
  return Units(total, weight, n, names, len(outcomes.values[label]) / len(total))


@dataclasses.dataclass(frozen=True)
class MeanRatio:
  """The mean over groups of a classifier's means relative to a baseline's, 1/K Σ_k m[k] / m⁰[k].

  Attributes:
    facet: its values make the groups; views without it are in none.
    is_excess: whether the mean of the views without the facet, the clean ones, is subtracted from
      all means; these views are then the first group: 1/K Σ_k (m[k] − m[0]) / (m⁰[k] − m⁰[0]).
  """

  facet: str
  is_excess: bool = False

  def __call__(self, means: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    """Returns [..., G] -> [...]; NaN where an excess of the baseline is not above 0."""
    if not self.is_excess:
      return np.asarray((means / baseline).mean(-1))
    excess, reference = (x[..., 1:] - x[..., :1] for x in (means, baseline))
    ratios = np.full(excess.shape, np.nan)
    np.divide(excess, reference, out=ratios, where=reference > _ROUNDING)
    return np.asarray(ratios.mean(-1))

  def groups(self, outcomes: Outcomes, where: np.ndarray | None) -> list[Group]:
    """Returns the groups of views in the order of the function's last axis."""
    groups = list(outcomes.groups((self.facet,), where))
    if not self.is_excess:
      return groups
    return [*outcomes.groups((), outcomes.views[self.facet].isna().to_numpy()), *groups]

  def why_undefined(self, baseline: Units) -> str:
    """Returns the note of an excess over a baseline that errs no more in some groups; or ''."""
    if not self.is_excess:
      return ''
    first, *corrupted = baseline.means(np.ones(len(baseline.weight)))
    pairs = zip(baseline.names[1:], corrupted, strict=True)
    flat = ', '.join(name for name, mean in pairs if mean - first <= _ROUNDING)
    return f'undefined: the baseline errs no more than when clean under {flat}' if flat else ''


def of_means(
  quantity: Quantity,
  outcomes: Outcomes,
  by: Sequence[str] = (),
  *,
  baseline: Mapping[str, float] | None = None,
  confidence: float = 0.95,
  where: np.ndarray | None = None,
  facets: Mapping[str, object] | None = None,
  each: bool = False,
) -> pd.DataFrame:
  """Returns a function of the means by group for every classifier, and its differences, as rows.

  A `MeanRatio` divides by the means of the first classifier, over the same images, or by known
  ones. Its interval is the interval of a weighted mean where the baseline is known, else the one of
  `log_ratio`. An excess has denominators that may be near 0; it and every other function has a
  bootstrap of the units.

  Args:
    quantity: with a function, see `Function`; NaN where it is undefined.
    outcomes: of its statistic, of all classifiers.
    by: facets of views that make the groups; a `MeanRatio` has its facet.
    baseline: of a `MeanRatio`: the known means by value of its facet, '' for the views without;
      None takes those of the first classifier.
    confidence: of each interval, in (0, 1).
    where: bool [V], which views are in; None: all.
    facets: {facet: value} that these estimates have.
    each: whether the function returns a value for each group, with the group's facets.
  """
  outcomes.require(quantity)
  function = quantity.function
  if function is None:
    raise InputError(f'the quantity {quantity.name} has no function of means.')
  ratio = function if isinstance(function, MeanRatio) else None
  groups = ratio.groups(outcomes, where) if ratio else list(outcomes.groups(by, where))
  if ratio and baseline is not None:
    return _relative_to_known(
      quantity, ratio, outcomes, groups, baseline, confidence=confidence, facets=facets
    )
  common = outcomes.common.counting_in(joined_views(groups))
  by_label = {label: units(common, label, groups) for label in outcomes.labels}
  first, *compared = by_label

  def value(measured: Units, base: Units, weights: np.ndarray) -> np.ndarray:
    return np.asarray(function(measured.means(weights), base.means(weights)))

  def difference(second: Units, reference: Units, weights: np.ndarray) -> np.ndarray:
    return np.asarray(value(second, second, weights) - value(reference, reference, weights))

  estimates: dict[tuple[str, str], list[Estimate]] = {}
  for label, measured in by_label.items():
    base = by_label[first] if ratio else measured
    if ratio and label == first:
      n, count = measured.n, len(measured.weight)
      estimates[label, ''] = [Estimate(1.0, 1.0, 1.0, n, count, EXACT, note=ITSELF)]
    elif ratio and not ratio.is_excess:
      estimates[label, ''] = [log_ratio(ratio, measured, base, confidence)]
    else:
      estimates[label, ''] = bootstrap(partial(value, measured, base), measured, confidence)
  if ratio and (note := ratio.why_undefined(by_label[first])):
    for label in compared:
      (estimate,) = estimates[label, '']
      if np.isnan(estimate.value):
        estimates[label, ''] = [dataclasses.replace(estimate, note=note)]
  for label in compared:
    if ratio:
      (estimate,) = estimates[label, '']
      less = {end: getattr(estimate, end) - 1 for end in ('value', 'low', 'high')}
      estimates[label, first] = [dataclasses.replace(estimate, **less)]
    else:
      change = partial(difference, by_label[label], by_label[first])
      estimates[label, first] = bootstrap(change, by_label[label], confidence)
  of_groups = [group.facets for group in groups] if each else [{}]
  rows: list[Row] = [
    row(label, versus, quantity, {**(facets or {}), **group}, estimate, confidence)
    for of_pairs in (False, True)
    for (label, versus), estimated in estimates.items()
    if bool(versus) == of_pairs
    for group, estimate in zip(of_groups, estimated, strict=True)
  ]
  return part(rows)


def _relative_to_known(
  quantity: Quantity,
  ratio: MeanRatio,
  outcomes: Outcomes,
  groups: Sequence[Group],
  baseline: Mapping[str, float],
  *,
  confidence: float,
  facets: Mapping[str, object] | None,
) -> pd.DataFrame:
  """Returns a `MeanRatio` to known means, such as published ones of many images.

  These count as exact, so that the ratio is linear in the means of the classifier: views have the
  weight 1/m⁰[k], and the ratio is the mean of these weights times the weighted mean. An excess is
  computed from the paired changes from the first group's view, and has no differences.
  """
  divided = groups[ratio.is_excess :]
  less = baseline[''] if ratio.is_excess else 0.0
  inverse = [1 / (baseline[str(group.facets[ratio.facet])] - less) for group in divided]
  weight = np.zeros(len(outcomes.views))
  for group, size in zip(divided, inverse, strict=True):
    weight[group.views] = size
  is_divided, scale = weight != 0, float(np.mean(inverse))
  if outcomes.weight is not None:
    weight = weight * outcomes.weight
  weighted = dataclasses.replace(outcomes, weight=weight)
  if not ratio.is_excess:
    return means(
      quantity, weighted, confidence=confidence, where=is_divided, facets=facets, scale=scale
    )
  rows, common = [], weighted.common
  for label, values in common.values.items():
    before = values[:, groups[0].views]
    pair = {'gained': values & ~before, 'lost': ~values & before}
    changed = dataclasses.replace(common, values=pair)
    (group,) = changed.groups(where=is_divided)
    gained, lost = (changed.sums(name, group) for name in changed.values)
    estimate = share_difference(gained, lost, confidence)
    rows.append(row(label, '', quantity, facets or {}, estimate, confidence, scale))
  return part(rows)


def bootstrap(
  statistic: Statistic, measured: Units, confidence: float = 0.95, resamples: int = RESAMPLES
) -> list[Estimate]:
  """Returns a statistic's value at equal weights of the units, one or G, with percentile intervals.

  A note says how many samples were undefined (NaN) and left out; there is no interval if the value
  itself is undefined, or more than 1 − confidence of the samples, or where units hold several
  images and fewer than `FEWEST` are effective: a handful of samples would be the percentiles.
  """
  count = len(measured.weight)
  values = np.atleast_1d(statistic(np.full((1, count), 1 / count))[0])
  drawn = resampled(statistic, count, resamples).reshape(-1, len(values))
  return [
    _percentiles(float(value), column, measured, confidence)
    for value, column in zip(values, drawn.T, strict=True)
  ]


def _percentiles(value: float, drawn: np.ndarray, measured: Units, confidence: float) -> Estimate:
  n, count = measured.n, len(measured.weight)
  if not np.isfinite(value):
    note = 'undefined: a denominator is not above 0'
    return Estimate(np.nan, np.nan, np.nan, n, count, BOOTSTRAP, note=note)
  finite = drawn[np.isfinite(drawn)]
  undefined = len(drawn) - len(finite)
  note = f'undefined in {undefined} of {len(drawn)} resamples' if undefined else ''
  if undefined > (1 - confidence) * len(drawn):
    note = f'{note}: too many for an interval'
    return Estimate(value, np.nan, np.nan, n, count, BOOTSTRAP, note=note)
  if measured.without_interval:
    return Estimate(value, np.nan, np.nan, n, count, BOOTSTRAP, note=measured.without_interval)
  low, high = percentile_interval(finite, measured.clusters, confidence)
  note = f'{note}, which are left out' if note else ''
  return Estimate(value, float(low), float(high), n, count, BOOTSTRAP, note=note)


def resampled(statistic: Statistic, count: int, resamples: int = RESAMPLES) -> np.ndarray:
  """Returns a statistic of bootstrap samples of `count` units, [B, ...]; see `bootstrap`."""
  generator = np.random.default_rng(0)
  values = []
  for _ in range(0, resamples, _AT_ONCE):
    counts = generator.multinomial(count, np.full(count, 1 / count), size=_AT_ONCE)
    values.append(statistic(counts / count))
  return np.concatenate(values)


def log_ratio(
  function: Function, measured: Units, base: Units, confidence: float = 0.95
) -> Estimate:
  """Returns a ratio of means over the same units, linearised on the scale of its logarithm.

  The interval is R̃ exp(± t s / R̃), with R̃ and the standard error s from the units and two added
  units of half an image, one with means 1 of the classifier and 0 of the baseline and one the
  reverse. s is the error of the linearised ratio (delta method), t Student's quantile at the
  effective number of units. The value is the ratio itself, and the interval includes it; it does
  not shrink to a point where all units are equal. Where a mean of the baseline is 0 the value is
  NaN, with a note; fewer than `FEWEST` effective units of several images have no interval.

  Args:
    function: a ratio, homogeneous of degree 0, smooth; see `Function`.
    measured: of the classifier; a unit has the same weight in every group, its number of rows.
    base: of the baseline.
    confidence: in (0, 1).

  Reference:
    Walter, The distribution of Levin's measure of attributable risk, Biometrika 62 (1975), for the
    logarithm of a ratio with ½ added.
  """
  a, b = measured.total / measured.weight, base.total / base.weight
  n, groups = a.shape
  is_zero_mean = b.sum(0) <= 0
  if is_zero_mean.any():
    zero = ', '.join(
      name for name, is_zero in zip(base.names, is_zero_mean, strict=True) if is_zero
    )
    note = f'undefined: the mean of the baseline is 0 in {zero}'
    return Estimate(np.nan, np.nan, np.nan, measured.n, n, LOG_RATIO, note=note)
  equal = np.full(n, 1 / n)
  value = float(function(measured.means(equal), base.means(equal)))
  if measured.without_interval:
    return Estimate(value, np.nan, np.nan, measured.n, n, LOG_RATIO, note=measured.without_interval)
  ones, size = np.ones((1, groups)), measured.weight[:, 0] / measured.weight[:, 0].mean()
  image = 1 / measured.images
  half = np.append(size, [image / 2] * 2)
  squares = np.append(size**2, [image**2 / 2] * 2)
  a, b = np.concatenate([a, ones, 0 * ones]), np.concatenate([b, 0 * ones, ones])
  means = half @ np.concatenate([a, b], 1) / (n + image)
  ratio = float(function(means[:groups], means[groups:]))
  steps = means + 1j * _STEP * np.eye(2 * groups)
  gradient = np.imag(function(steps[:, :groups], steps[:, groups:])) / _STEP
  linear = (np.concatenate([a, b], 1) - means) @ gradient
  error = np.sqrt(squares @ linear**2 / (n * (n + 1)))
  factor = np.exp(t_value(measured.clusters, confidence) * error / ratio)
  low, high = ratio / factor, ratio * factor
  return Estimate(value, float(min(low, value)), float(max(high, value)), measured.n, n, LOG_RATIO)
