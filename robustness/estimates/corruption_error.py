r"""Errors by corruption and severity: mCE, its relative form, and the severity of failure.

With E[k, s] the error under corruption k at severity s and E⁰ a baseline's,

  mCE = 1/K Σ_k (Σ_s E[k, s]) / (Σ_s E⁰[k, s]),
  relative mCE = 1/K Σ_k Σ_s (E[k, s] - E_clean) / Σ_s (E⁰[k, s] - E⁰_clean).

Both are ratios: 1 is the baseline itself (Hendrycks and Dietterich 2019, section 4.2, who print
them times 100; Yin et al. 2019, appendix A).
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.estimates.intervals import BOOTSTRAP, LOG_RATIO, percentile_interval
from robustness.estimates.means import Estimate, means, part, row, share_difference
from robustness.estimates.of_means import Units, of_means, resampled, units
from robustness.estimates.outcomes import Group, Outcomes
from robustness.estimates.published import PublishedErrors
from robustness.estimates.quantity import AMOUNT, RATIO, Quantity

BEFORE, NEVER = 'at or before the lowest severity', 'not reached'
NO_CLEAN = 'undefined: no clean image is right'
ROUNDING = 1e-9  # sums of errors closer than this are equal
MCE = Quantity('mCE', 'mean corruption error', RATIO, 'lower', headline=True)
RELATIVE_MCE = Quantity('relative_mCE', 'relative mean corruption error', AMOUNT, 'lower')


def mean_corruption_error(error: ArrayLike, baseline: ArrayLike) -> float:
  """Returns mCE as a ratio, of errors [K] or [K, S] and the same of the baseline.

  Raises:
    InputError: shapes differ, or the baseline makes no error under a corruption.
  """
  return float(corruption_errors(error, baseline).mean())


def corruption_errors(error: ArrayLike, baseline: ArrayLike) -> np.ndarray:
  """Returns the CE of each corruption, [K]: its error over the baseline's, severities summed."""
  own, reference = _over_severities(error), _over_severities(baseline)
  if own.shape != reference.shape:
    raise InputError(f'errors of {own.size} corruptions against a baseline of {reference.size}.')
  if np.any(reference <= 0):
    raise InputError(
      f'the baseline makes no error under corruption {int(np.argmin(reference))}: '
      'a ratio to it is undefined. Choose another baseline or more images.'
    )
  return np.asarray(own / reference)


def mean_ratio(own: np.ndarray, base: np.ndarray) -> np.ndarray:
  """Returns the mean over corruptions of errors over the baseline's, [..., K] -> [...]."""
  return np.asarray((own / base).mean(-1))


def excess_ratio(own: np.ndarray, base: np.ndarray) -> np.ndarray:
  """Returns the same of errors over and above the clean one, which comes first, [..., 1 + K] ->
  [...]; NaN where a corruption adds nothing to the baseline's."""
  excess, reference = own[..., 1:] - own[..., :1], base[..., 1:] - base[..., :1]
  ratios = np.full(excess.shape, np.nan)
  np.divide(excess, reference, out=ratios, where=reference > ROUNDING)
  return np.asarray(ratios.mean(-1))


def relative_to_baseline(
  quantity: Quantity,
  outcomes: Outcomes,
  facet: str,
  published: Mapping[str, float] | None = None,
  *,
  where: np.ndarray | None = None,
  confidence: float = 0.95,
  facets: Mapping[str, object] | None = None,
) -> pd.DataFrame:
  """Returns the mean over a facet of each classifier's means relative to a baseline's, such as mCE
  over corruptions, and differences from the first classifier, as rows of the table.

  Against the first classifier it is a ratio of means over the same images; against published means,
  which are of so many images that they count as exact, a weighted mean.

  Args:
    quantity: name of the value.
    outcomes: of all classifiers.
    facet: of views, such as `corruption`, empty where a view is in no mean.
    published: the baseline's means by value of the facet; None takes those of the first classifier.
    where: bool [V], which views are in; None: all.
    confidence: of each interval, in (0, 1).
    facets: {facet: value} that these estimates have.
  """
  given: dict[str, Any] = {'where': where, 'confidence': confidence, 'facets': facets}
  if published is None:
    first = outcomes.labels[0]
    given |= {'against': first, 'method': LOG_RATIO}
    return of_means(quantity, outcomes, mean_ratio, (facet,), **given)
  weighted, scale = _weighted(outcomes, facet, published, where)
  return means(quantity, weighted, scale=scale, **given)


def mce(
  outcomes: Outcomes, where: np.ndarray, published: PublishedErrors | None = None, **given: Any
) -> pd.DataFrame:
  """Returns mCE of whether each image is wrong, in the corrupted views `where`, by published errors
  or those of the first classifier; for what else is given see `relative_to_baseline`."""
  errors = published.corrupted if published else None
  return relative_to_baseline(MCE, outcomes, 'corruption', errors, where=where, **given)


def relative_mce(
  outcomes: Outcomes,
  where: np.ndarray,
  published: PublishedErrors | None = None,
  *,
  confidence: float = 0.95,
  facets: Mapping[str, object] | None = None,
) -> pd.DataFrame:
  """Returns relative mCE as rows of the table; the first view is that of clean images.

  Against the first classifier it is a ratio of differences, whose denominators may be near 0: a
  bootstrap, which says how many samples had no value. Against published errors it is a weighted
  mean of each classifier's paired differences to the clean image. `where` says which views are
  corrupted; for other arguments see `relative_to_baseline`.
  """
  if published is None:
    return _relative_to_first(outcomes, where, confidence, facets)
  excess = {name: error - published.clean for name, error in published.corrupted.items()}
  weighted, scale = _weighted(outcomes.common, 'corruption', excess, where)
  rows = []
  for label, wrong in weighted.values.items():
    before = wrong[:, :1]
    changed = dataclasses.replace(
      weighted, values={'gained': wrong & ~before, 'lost': ~wrong & before}
    )
    (group,) = changed.groups(where=where)
    gained, lost = (changed.sums(name, group) for name in changed.values)
    estimate = share_difference(gained, lost, confidence)
    rows.append(row(label, '', RELATIVE_MCE, facets or {}, estimate, confidence, scale))
  return part(rows)


def _relative_to_first(
  outcomes: Outcomes, where: np.ndarray, confidence: float, facets: Mapping[str, object] | None
) -> pd.DataFrame:
  shown, first = where | (np.arange(len(where)) == 0), outcomes.labels[0]
  named = dataclasses.replace(outcomes, views=outcomes.views.fillna({'corruption': ''}))
  given: dict[str, Any] = {'where': shown, 'confidence': confidence, 'facets': facets}
  rows = of_means(RELATIVE_MCE, named, excess_ratio, ('corruption',), against=first, **given)
  common = named.common
  clean, *others = common.groups(('corruption',), shown)
  errors = [common.values[first][:, group.views].mean() for group in (clean, *others)]
  flat = [
    str(group.facets['corruption'])
    for group, error in zip(others, errors[1:], strict=True)
    if error - errors[0] <= ROUNDING
  ]
  if flat:
    note = f'undefined: the baseline errs no more than when clean under {", ".join(flat)}'
    rows.loc[rows.value.isna(), 'note'] = note
  return rows


def _weighted(
  outcomes: Outcomes, facet: str, denominators: Mapping[str, float], where: np.ndarray | None
) -> tuple[Outcomes, float]:
  """Returns outcomes whose views weigh 1/d of their facet, and the mean of 1/d."""
  names = outcomes.views[facet]
  weight = np.array([1 / denominators.get(name, np.inf) for name in names])
  whole = weight if outcomes.weight is None else weight * outcomes.weight
  there = dict.fromkeys(names if where is None else names[where])
  scale = float(np.mean([1 / denominators[name] for name in there]))
  return dataclasses.replace(outcomes, weight=whole), scale


def _over_severities(error: ArrayLike) -> np.ndarray:
  array = np.asarray(error, float)
  if array.ndim not in (1, 2) or not array.size:
    raise InputError(
      f'errors have shape {array.shape}: give [corruptions] or [corruptions, severities].'
    )
  return array if array.ndim == 1 else array.mean(1)


def failure_severity(
  accuracy: np.ndarray, clean: np.ndarray | float, severities: ArrayLike, share: float
) -> np.ndarray:
  """Returns the first severity at which accuracy is below `share` × clean accuracy, [...].

  Between the ascending severities [S] accuracy [..., S] is taken as linear. What is below at the
  lowest severity gives that one; it is infinite where accuracy stays above.

  Raises:
    InputError: severities that do not ascend, or are no more than accuracies.
  """
  table, levels = np.asarray(accuracy, float), np.asarray(severities, float)
  if levels.ndim != 1 or (np.diff(levels) <= 0).any() or table.shape[-1] != len(levels):
    raise InputError(
      f'severities are {levels.tolist()} for {table.shape[-1]} accuracies; give one for each, '
      'ascending.'
    )
  threshold = share * np.asarray(clean, float)
  below = table < threshold[..., None]
  first = below.argmax(-1)
  before = np.maximum(first - 1, 0)
  high, low = (np.take_along_axis(table, k[..., None], -1)[..., 0] for k in (before, first))
  drop = high - low
  part = np.divide(high - threshold, drop, out=np.zeros_like(drop), where=(drop > 0) & (first > 0))
  found = levels[before] + part * (levels[first] - levels[before])
  return np.where(below.any(-1), found, np.inf)


def failure_points(
  quantity: Quantity, outcomes: Outcomes, share: float, confidence: float = 0.95
) -> pd.DataFrame:
  """Returns the failure severity, at a share in (0, 1) of clean accuracy, of each classifier under
  each corruption, with bootstrap intervals over images, as rows of the table.

  The value is NaN where accuracy stays above, with a note. An interval that reaches beyond the
  highest severity ends there and says so. Outcomes are whether each image is wrong; views have the
  facets `corruption` and `severity`, the clean one neither.
  """
  common, rows = outcomes.common, []
  right = dataclasses.replace(common, values={k: ~wrong for k, wrong in common.values.items()})
  views = right.views.reset_index(drop=True)
  clean = int(np.flatnonzero(views.corruption.isna())[0])
  for label in right.labels:
    for name, own in views.groupby('corruption', sort=False):
      own = own.sort_values('severity')
      groups = [Group({}, np.array([view]), np.ones(1)) for view in (clean, *own.index)]
      levels = own.severity.to_numpy(float)
      estimate = failure_point(units(right, label, groups), levels, share, confidence)
      rows.append(row(label, '', quantity, {'corruption': name}, estimate, confidence))
  return part(rows)


def failure_point(
  of: Units, severities: np.ndarray, share: float, confidence: float = 0.95
) -> Estimate:
  """Returns the failure severity, of what units have right clean and at S severities."""
  n, count, highest = of.n, len(of.weight), severities[-1]

  def found(weights: np.ndarray) -> np.ndarray:
    accuracy = of.means(np.rint(weights * count))
    return failure_severity(accuracy[:, 1:], accuracy[:, 0], severities, share)

  value = float(found(np.full((1, count), 1 / count))[0])
  drawn = resampled(found, count)
  reached = np.isfinite(drawn).mean()
  if not np.isfinite(value):
    if not of.total[:, 0].any():
      return Estimate(np.nan, np.nan, np.nan, n, count, BOOTSTRAP, note=NO_CLEAN)
    note = f'{NEVER} by severity {highest:g}'
    note += f'; reached in {100 * reached:.0f} % of bootstrap samples' if reached else ''
    return Estimate(np.nan, np.nan, np.nan, n, count, BOOTSTRAP, note=note)
  low, high = percentile_interval(np.minimum(drawn, highest), of.clusters, confidence)
  notes = [BEFORE] if value == severities[0] else []
  if reached < 1:
    notes.append(f'{NEVER} by {highest:g} in {100 * (1 - reached):.1f} % of bootstrap samples')
  ends = min(float(low), value), max(float(high), value)
  return Estimate(value, *ends, n, count, BOOTSTRAP, note='; '.join(notes))
