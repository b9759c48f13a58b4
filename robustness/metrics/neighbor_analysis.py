"""Where models lose accuracy on neighbors: by class, frame type and rate, review, testbed, ℓ∞.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, section 3.3 and
appendices C, D, F, H and I.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.estimates.intervals import clopper_pearson, percentile_interval
from robustness.metrics.accuracy import proportion
from robustness.metrics.neighbor_sets import Outcomes, drop, worst_right
from robustness.metrics.tradeoff import fit_lines, slope_over_points
from robustness.neighbor_sets.metadata import FRAME_TYPES, NeighborSets
from robustness.results import Number

RESAMPLES = 1000

ACCURACY_COLUMNS = (
  'n',
  *(f'{what}{end}' for what in ('anchor', 'pm-k', 'drop') for end in ('', ' low', ' high')),
)
"""Of a table of `Accuracies`."""


class Accuracies(NamedTuple):
  """Accuracy on anchors, on the worst of each set, and the difference of the two."""

  anchor: Number
  worst: Number
  drop: Number


def accuracies(
  outcomes: Outcomes, k: int, include_anchor: bool = True, confidence: float = 0.95
) -> Accuracies:
  """Returns acc_orig, acc_pm-k and their difference for one model, each with its interval."""
  n = outcomes.num_anchors
  worst = worst_right(outcomes, k, include_anchor)
  return Accuracies(
    proportion(int(outcomes.anchor.sum()), n, confidence),
    proportion(int(worst.sum()), n, confidence),
    drop(outcomes, k, include_anchor, confidence),
  )


def by_class(
  outcomes: Outcomes,
  labels: np.ndarray,
  k: int,
  include_anchor: bool = True,
  confidence: float = 0.95,
) -> dict[int, Accuracies]:
  """Returns accuracies of the sets of each class; a set of several labels counts in each.

  Args:
    outcomes: outcomes of one model.
    labels: int [A, L], labels of the anchors, padded with −1.
    k, include_anchor, confidence: see `accuracies`.
  """
  classes = np.unique(labels[labels >= 0])
  return {
    int(c): accuracies(
      outcomes.of_anchors(np.flatnonzero((labels == c).any(1))), k, include_anchor, confidence
    )
    for c in classes
  }


def without_frame_types(outcomes: Outcomes, sets: NeighborSets) -> dict[str, Outcomes]:
  """Returns outcomes without the frames of one type of compression, by that type.

  Anchors of the type go with their pairs; neighbors of the type go alone (the paper's table 7).

  Raises:
    InputError: the sets carry no frame types.
  """
  if sets.frame_types is None:
    raise InputError(
      'the neighbor sets carry no frame types: give them in frames.json, as '
      '{path: {"frame_type": "i"}}.'
    )
  subsets = {}
  for kind in FRAME_TYPES:
    kept = outcomes.of_pairs(sets.frame_types[sets.pairs.frame] != kind)
    subsets[kind] = kept.of_anchors(np.flatnonzero(sets.frame_types[sets.anchors] != kind))
  return subsets


def by_fps(outcomes: Outcomes, sets: NeighborSets) -> dict[int, Outcomes]:
  """Returns outcomes of the videos of each frame rate, cut to whole frames a second.

  The paper's table 8 has 25, 29 and 30: 29.97 is 29.

  Raises:
    InputError: the sets carry no frame rates.
  """
  if sets.fps is None:
    raise InputError(
      'the neighbor sets carry no frame rates: give them in frames.json, as {path: {"fps": 29.97}}.'
    )
  rates = sets.fps[sets.anchors]
  whole = np.floor(rates)
  return {
    int(rate): outcomes.of_anchors(np.flatnonzero(whole == rate))
    for rate in np.unique(whole[np.isfinite(rates)])
  }


def review_impact(
  unreviewed: Outcomes,
  reviewed: Outcomes,
  positions: ArrayLike,
  k: int,
  include_anchor: bool = True,
  confidence: float = 0.95,
  seed: int = 0,
) -> dict[str, Number]:
  """Returns how the review of frames changes accuracies and the drop: reviewed − unreviewed.

  The videos are resampled together (percentile bootstrap); reviewed anchors are some of the
  unreviewed ones.

  Args:
    unreviewed: outcomes of one model on all A anchors and pairs.
    reviewed: its outcomes on the A' anchors and pairs that passed the review.
    positions: int [A'], where each reviewed anchor stands among the unreviewed.
    k, include_anchor, confidence: see `accuracies`.
    seed: of the resampling.

  Returns:
    `anchor`, `worst` and `drop`.
  """
  place = np.asarray(positions)
  if place.shape != (reviewed.num_anchors,) or len(np.unique(place)) != len(place):
    raise InputError(
      f'{place.shape} positions for {reviewed.num_anchors} reviewed anchors: give '
      'each its own place among the unreviewed.'
    )
  table = np.zeros((4, unreviewed.num_anchors))
  table[0], table[1] = unreviewed.anchor, worst_right(unreviewed, k, include_anchor)
  table[2, place], table[3, place] = reviewed.anchor, worst_right(reviewed, k, include_anchor)
  present = np.isin(np.arange(unreviewed.num_anchors), place)
  return _bootstrap_changes(table, present, confidence, seed)


def _bootstrap_changes(
  table: np.ndarray, present: np.ndarray, confidence: float, seed: int
) -> dict[str, Number]:
  total = table.shape[1]
  generator = np.random.default_rng(seed)
  counts = generator.multinomial(total, np.full(total, 1 / total), RESAMPLES)
  counts = np.concatenate([np.ones((1, total), int), counts])
  before = counts @ table[:2].T / total
  number = np.maximum(counts @ present, 1)[:, None]
  change = counts @ table[2:].T / number - before
  values = {'anchor': change[:, 0], 'worst': change[:, 1], 'drop': change[:, 0] - change[:, 1]}
  name = f'paired bootstrap {confidence:g}'
  return {
    key: _quantiles(drawn[0], drawn[1:], total, confidence, name) for key, drawn in values.items()
  }


def _quantiles(value: float, drawn: np.ndarray, n: int, confidence: float, name: str) -> Number:
  """Returns a value with the percentile interval of its bootstrap samples."""
  low, high = percentile_interval(drawn, n, confidence)
  return Number(float(value), float(low), float(high), n, name)


@dataclasses.dataclass(frozen=True)
class LinearFit:
  """The line y = slope·x + intercept through M models, with its band.

  Attributes:
    slope, intercept: with intervals; n is M.
    x: where the band is given, [G].
    y, low, high: the line and its pointwise band there, [G].
    r_squared: share of the variance of y that the line explains.
  """

  slope: Number
  intercept: Number
  x: np.ndarray
  y: np.ndarray
  low: np.ndarray
  high: np.ndarray
  r_squared: float


def linear_fit(x: ArrayLike, y: ArrayLike, grid: ArrayLike, confidence: float = 0.95) -> LinearFit:
  """Fits perturbed accuracy against original accuracy by least squares (the paper's figure 3).

  Intervals are Student's of a regression, with M − 2 degrees of freedom: the models are taken as
  drawn from many, with independent deviations from the line. Resampling few models shows too
  little: of three most samples hold one twice, and two points have no deviation.

  Args:
    x, y: accuracies of M ≥ 3 models, fractions; x not all equal.
    grid: [G], where the band is computed.
    confidence: of the intervals, in (0, 1).

  Raises:
    InputError: fewer than three models, or no two different x.
  """
  first, second, at = (np.asarray(v, float) for v in (x, y, grid))
  if first.shape != second.shape or first.ndim != 1 or len(first) < 3 or np.ptp(first) == 0:
    raise InputError(
      f'a line needs three models or more of different accuracy; got x of shape '
      f'{first.shape} and y of shape {second.shape}.'
    )
  line, count = fit_lines(first, second), len(first)
  slope = slope_over_points(first, second, confidence, 'models')
  half_slope = slope.high - slope.value
  variance = ((first - first.mean()) ** 2).mean()

  def half_at(point: np.ndarray) -> np.ndarray:
    return half_slope * np.sqrt(variance + (point - first.mean()) ** 2)

  intercept, half = float(line.intercept), float(half_at(np.array(0.0)))
  total = float(((second - second.mean()) ** 2).mean())
  explained = 1 - float(line.residual) ** 2 / total if total else float('nan')
  return LinearFit(
    slope,
    Number(intercept, intercept - half, intercept + half, count, slope.interval),
    at,
    line.at(at),
    line.at(at) - half_at(at),
    line.at(at) + half_at(at),
    explained,
  )


class Distribution(NamedTuple):
  """A cumulative distribution with its pointwise Clopper–Pearson band, each [G]; and n."""

  at: np.ndarray
  share: np.ndarray
  low: np.ndarray
  high: np.ndarray
  n: int


def cumulative(values: ArrayLike, grid: ArrayLike, confidence: float = 0.95) -> Distribution:
  """Returns the share of values at or below each point of a grid.

  Args:
    values: [n], such as ℓ∞ distances of pairs in [0, 1].
    grid: [G].
    confidence: of the band; pairs of one video are not independent, so it is a lower bound.

  Raises:
    InputError: a value that is not a number.
  """
  sample, at = np.sort(np.asarray(values, float)), np.asarray(grid, float)
  if np.isnan(sample).any():
    raise InputError(f'{int(np.isnan(sample).sum())} of {sample.size} distances are NaN.')
  counts = np.searchsorted(sample, at, side='right')
  low, high = clopper_pearson(counts, sample.size, confidence)
  share = counts / sample.size if sample.size else np.full(len(at), np.nan)
  return Distribution(at, share, np.asarray(low), np.asarray(high), sample.size)


def distance_curves(
  distances: np.ndarray,
  outcomes: Mapping[str, Outcomes],
  grid: ArrayLike,
  reviewed: np.ndarray | None = None,
) -> dict[str, Distribution]:
  """Returns the distributions of ℓ∞ distances of pairs (the paper's figure 10).

  Args:
    distances: [P], largest absolute difference of any value of the two frames, in [0, 1].
    outcomes: by model; a mistake is a wrong neighbor of a right anchor, in a reviewed pair.
    grid: [G].
    reviewed: bool [P], which pairs passed the review; None where all did.

  Returns:
    `all pairs`, `reviewed pairs` if given, and `<model> mistakes`.
  """
  curves = {'all pairs': cumulative(distances, grid)}
  if reviewed is not None:
    curves['reviewed pairs'] = cumulative(distances[reviewed], grid)
  for name, own in outcomes.items():
    mistakes = own.anchor[own.group] & ~own.neighbor & (True if reviewed is None else reviewed)
    curves[f'{name} mistakes'] = cumulative(distances[mistakes], grid)
  return curves
