r"""Mean corruption error, and its relative form, from errors by corruption and severity.

With E[k, s] the error under corruption k at severity s and E⁰ a baseline's,

  mCE = 1/K Σ_k (Σ_s E[k, s]) / (Σ_s E⁰[k, s]),
  relative mCE = 1/K Σ_k (Σ_s E[k, s] - E_clean) / (Σ_s E⁰[k, s] - E⁰_clean).

Both are ratios: 1 is the baseline itself (Hendrycks and Dietterich 2019, section 4.2, who print
them times 100; Yin et al. 2019, appendix A).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.estimates.means import means, part, row, share_difference
from robustness.estimates.of_means import LOG_RATIO, of_means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.published import PublishedErrors
from robustness.estimates.quantity import AMOUNT, RATIO, Quantity

ROUNDING = 1e-9  # sums of errors closer than this are equal
PAPER = 'hendrycks2019benchmarking'
MCE = Quantity('mCE', 'mean corruption error', RATIO, 'lower', headline=True, paper=PAPER)
RELATIVE_MCE = Quantity(
  'relative_mCE', 'relative mean corruption error', AMOUNT, 'lower', paper=PAPER
)


def mean_corruption_error(error: ArrayLike, baseline: ArrayLike) -> float:
  """Returns mCE as a ratio.

  Args:
    error: [K] or [K, S] errors, fractions; one value a corruption is its mean over severities.
    baseline: the same for the baseline.

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


def relative_mean_corruption_error(
  error: ArrayLike, clean: float, baseline: ArrayLike, baseline_clean: float
) -> float:
  """Returns the relative mCE: errors over and above the clean error, as a ratio.

  Args:
    error: [K] mean errors over severities, or [K, S].
    clean: error on clean images.
    baseline: the mean errors of the baseline, of the shape of `error`.
    baseline_clean: its error on clean images.

  Returns:
    The ratio; NaN if the baseline loses nothing, on average, under some corruption.
  """
  own, reference = _over_severities(error), _over_severities(baseline)
  return float(excess_ratio(np.append(clean, own), np.append(baseline_clean, reference)))


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


def mce(
  outcomes: Outcomes, where: np.ndarray, published: PublishedErrors | None = None, **given: Any
) -> pd.DataFrame:
  """Returns mCE of each classifier, and its differences from the first, as rows of the table.

  Against the first classifier it is a ratio of means over the same images; against published
  errors, which are of so many images that they count as exact, a weighted mean of shares.

  Args:
    outcomes: whether each image is wrong; views have the facet `corruption`, empty where clean.
    where: bool [V], the corrupted views that are in.
    published: the baseline's errors; None takes those of the first classifier.
    **given: `confidence` and `facets` of `robustness.estimates.means.means`.
  """
  if published is None:
    first = outcomes.labels[0]
    return of_means(
      MCE,
      outcomes,
      mean_ratio,
      ('corruption',),
      against=first,
      method=LOG_RATIO,
      where=where,
      **given,
    )
  weighted, scale = _weighted(outcomes, where, published.corrupted)
  return means(MCE, weighted, where=where, scale=scale, **given)


def relative_mce(
  outcomes: Outcomes,
  where: np.ndarray,
  published: PublishedErrors | None = None,
  *,
  confidence: float = 0.95,
  facets: Mapping[str, Any] | None = None,
) -> pd.DataFrame:
  """Returns relative mCE as rows of the table; the first view is that of clean images.

  Against the first classifier it is a ratio of differences, whose denominators may be near 0: a
  bootstrap, which says how many samples had no value. Against published errors it is a weighted
  mean of each classifier's paired differences to the clean image. Args: see `mce`.
  """
  if published is None:
    return _relative_to_first(outcomes, where, confidence, facets)
  clean = published.clean
  excess = {name: error - clean for name, error in published.corrupted.items()}
  weighted, scale = _weighted(outcomes.common, where, excess)
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
  outcomes: Outcomes, where: np.ndarray, confidence: float, facets: Mapping[str, Any] | None
) -> pd.DataFrame:
  shown, first = where | (np.arange(len(where)) == 0), outcomes.labels[0]
  named = dataclasses.replace(outcomes, views=outcomes.views.fillna({'corruption': ''}))
  rows = of_means(
    RELATIVE_MCE,
    named,
    excess_ratio,
    ('corruption',),
    against=first,
    where=shown,
    confidence=confidence,
    facets=facets,
  )
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
  outcomes: Outcomes, where: np.ndarray, denominators: Mapping[str, float]
) -> tuple[Outcomes, float]:
  """Returns outcomes whose views weigh 1/d of their corruption, and the mean of these weights."""
  names = outcomes.views.corruption
  weight = np.array([1 / denominators.get(name, np.inf) for name in names])
  scale = float(np.mean([1 / denominators[name] for name in dict.fromkeys(names[where])]))
  return dataclasses.replace(outcomes, weight=weight), scale


def _over_severities(error: ArrayLike) -> np.ndarray:
  array = np.asarray(error, float)
  if array.ndim not in (1, 2) or not array.size:
    raise InputError(
      f'errors have shape {array.shape}: give [corruptions] or [corruptions, severities].'
    )
  return array if array.ndim == 1 else array.mean(1)
