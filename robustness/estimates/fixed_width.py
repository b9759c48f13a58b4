"""Proportions measured until their interval is narrow enough, with intervals that stay valid.

Trials come in rounds of equal size. After each, a proportion is finished if the half width of its
interval is at most w; the others continue. An interval of the usual level that is computed
repeatedly holds the proportion less often than stated. Here the level is raised until the exact
probability of holding it, computed over all paths of the count, is at least the confidence for
every proportion.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import scipy
from numpy.typing import ArrayLike
from scipy import special

from robustness.core.errors import InputError
from robustness.estimates.intervals import clopper_pearson

MOST_LOOKS = 12
"""The largest number of looks of a design."""

FEWEST_TRIALS = 16
"""The least number of trials in a round: fewer are not worth a step on a device."""

ERROR_SHARES = (*(k / 100 for k in range(90, 70, -1)), 0.7, 0.6, 0.5, 0.25)
"""Values of (1 − level) / (1 − confidence); the first with sufficient exact coverage is taken."""

EARLY_SHARE = 0.02
"""The share of 1 − confidence that is left to the intervals of unfinished proportions."""


@dataclasses.dataclass(frozen=True)
class FixedWidth:
  """A sequential design: the looks at proportions, and their intervals at each look.

  The interval of a finished proportion is Clopper and Pearson's at `level`, from the trials up to
  the look that finished it; before, it is the same at the higher `early_level`. The sequence of
  intervals holds at all looks together with probability ≥ `confidence`, so that whoever stops at
  a look, for whatever reason, has a valid interval (a confidence sequence over the planned looks;
  repeated confidence intervals in the words of Jennison and Turnbull).

  Attributes:
    half_width: w, at most of a finished proportion's interval; a fraction.
    confidence: 1 − α.
    level: confidence of finished intervals, at least `confidence`.
    trials: n of a round.
    looks: how many rounds there are at most; after the last every proportion is finished.

  Reference:
    Frey, Fixed-width sequential confidence intervals for a proportion, The American Statistician
    64 (2010), for the level calibrated by the exact coverage over a grid of proportions; Jennison &
    Turnbull, Interim analyses: the repeated confidence interval approach, JRSS B 51 (1989).
  """

  half_width: float
  confidence: float
  level: float
  trials: int
  looks: int

  @property
  def most_trials(self) -> int:
    """The number of trials at the last look, which a proportion near ½ may need."""
    return self.looks * self.trials

  @property
  def early_level(self) -> float:
    """The level of unfinished intervals, with which all looks miss with probability
    `EARLY_SHARE` · α."""
    return 1 - EARLY_SHARE * (1 - self.confidence) / self.looks

  def finished(self, successes: ArrayLike, n: ArrayLike) -> np.ndarray:
    """Whether the intervals of k of n trials are narrow enough, [...]."""
    low, high = clopper_pearson(successes, n, self.level)
    return np.asarray((high - low) / 2 <= self.half_width)

  def interval(self, successes: ArrayLike, n: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Returns (low, high) of proportions that were looked at after n trials, [...]."""
    finished = self.finished(successes, n)
    levels = (self.level, self.early_level)
    narrow, wide = (clopper_pearson(successes, n, level) for level in levels)
    low, high = (np.where(finished, *ends) for ends in zip(narrow, wide, strict=True))
    return low[()], high[()]

  def other_interval(self, successes: ArrayLike, n: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Returns intervals of proportions of the same trials that do not decide when to stop, [...].

    Clopper and Pearson's at 1 − α / looks: by the union bound they hold at all looks together.
    """
    return clopper_pearson(successes, n, 1 - (1 - self.confidence) / self.looks)

  def coverage(self, proportions: ArrayLike) -> np.ndarray:
    """Returns the exact probability [P] that the intervals of all looks hold p in (0, 1)."""
    p = np.asarray(proportions, float)[:, None]

    def holding(successes: np.ndarray, n: int) -> np.ndarray:
      """Returns whether the interval at a look after n trials holds p, for counts of successes."""
      low, high = _at(_outcomes(self, n)[:2], successes)
      return (low <= p) & (p <= high)

    paths = self._paths(p[:, 0], holding)
    return np.asarray(
      np.sum([(probability * finished).sum(1) for _, probability, finished in paths], 0)
    )

  def expected_trials(self, proportions: ArrayLike) -> np.ndarray:
    """Returns the mean n [P] at which proportions p [P] in (0, 1) are finished."""
    paths = self._paths(np.asarray(proportions, float))
    return np.asarray(
      np.sum([n * (probability * finished).sum(1) for n, probability, finished in paths], 0)
    )

  def tested(self) -> np.ndarray:
    """Returns proportions in (0, ½) that include one of the lowest coverage, up to rounding.

    Coverage is symmetric in p and 1 − p, jumps at the ends of intervals and is lowest just outside
    them: the proportions are all ends of all looks, ascending.
    """
    looks = [_outcomes(self, self.trials * look) for look in range(1, self.looks + 1)]
    low, high = (np.concatenate([ends[side] for ends in looks]) for side in (0, 1))
    outside = np.unique([np.nextafter(low, 0), np.nextafter(high, 1)])
    return outside[(outside > 0) & (outside < 0.5)]

  def _paths(
    self, p: np.ndarray, holds: Callable[[np.ndarray, int], np.ndarray] | None = None
  ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yields n of each look, P(k successes, unfinished before) [P, K], and bool [P, K] of the
    counts that are finished.

    The K counts are within 6 standard errors of n p; only paths with `holds(k [P, K], n)` are
    followed.
    """
    p, around = p[:, None], _around(self.most_trials)
    around_round = np.round(self.trials * p).astype(int) + _around(self.trials)
    of_round = scipy.stats.binom.pmf(around_round, self.trials, p)
    unfinished, first = np.ones((len(p), 1)), np.zeros((len(p), 1), int)
    for n in range(self.trials, self.most_trials + 1, self.trials):
      sums = np.maximum(scipy.signal.fftconvolve(unfinished, of_round, axes=1), 0)
      successes = np.round(n * p).astype(int) + around
      place = successes - first - around_round[:, :1]
      inside = (place >= 0) & (place < sums.shape[1]) & (successes >= 0) & (successes <= n)
      probability = np.where(inside, np.take_along_axis(sums, place * inside, 1), 0)
      if holds is not None:
        probability = probability * holds(successes, n)
      [finished] = _at(_outcomes(self, n)[2:], successes)
      yield n, probability, finished
      unfinished, first = probability * ~finished, successes[:, :1]


def _around(trials: int) -> np.ndarray:
  """Returns distances of counts from their mean, up to 6 standard errors of ½ on either side."""
  reach = math.ceil(3 * math.sqrt(trials))
  return np.arange(-reach, reach + 1)


def _at(by_count: Sequence[np.ndarray], counts: np.ndarray) -> list[np.ndarray]:
  """Returns values by count [n + 1] at some counts, which are clipped to 0..n."""
  return [values[np.clip(counts, 0, len(values) - 1)] for values in by_count]


@functools.lru_cache(MOST_LOOKS)
def _outcomes(design: FixedWidth, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns low and high ends by count 0..n of a look, and whether it is finished, [n + 1] each."""
  counts = np.arange(n + 1)
  low, high = design.interval(counts, n)
  return low, high, design.finished(counts, n) | (n == design.most_trials)


def fewest_trials(half_width: float, confidence: float) -> int:
  """Returns a lower bound of a design's trials: n of Wald's interval of ½, z² / (4 w²)."""
  z = float(special.ndtri((1 + confidence) / 2))
  return math.floor(min(z / (2 * half_width), 1e100) ** 2)


@functools.cache
def fixed_size(half_width: float, confidence: float) -> int:
  """Returns the fewest trials with a Clopper–Pearson interval of at most ± `half_width`, whatever
  the number of successes; the interval is widest at half successes."""

  def wide(n: int) -> bool:
    """Returns whether the interval of n trials is wider than ± `half_width` at half successes."""
    low, high = clopper_pearson([n // 2, (n + 1) // 2], n, confidence)
    return bool(((high - low) / 2 > half_width).any())

  low = max(1, fewest_trials(half_width, confidence))
  high = low + 1 + low // 8
  while wide(high):
    low, high = high, 2 * high
  while high - low > 1:
    middle = (low + high) // 2
    low, high = (middle, high) if wide(middle) else (low, middle)
  return high


@functools.cache
def plan(half_width: float, confidence: float) -> FixedWidth:
  """Returns the design with intervals that hold every proportion with probability ≥ `confidence`.

  Its level is the lowest of `ERROR_SHARES` with enough coverage where that is lowest
  (`FixedWidth.tested`). It takes two seconds at w = .03 and some thirty at .01.

  Raises:
    InputError: w or the confidence is out of range.
  """
  for name, value, end in (('half_width', half_width, 0.5), ('confidence', confidence, 1)):
    if not 0 < value < end:
      raise InputError(f'{name} = {value!r} is not in (0, {end:g}).')
  once = fixed_size(half_width, confidence)
  if once < 2 * FEWEST_TRIALS:  # a single look
    return FixedWidth(half_width, confidence, confidence, once, 1)
  designs = (_with_error(half_width, confidence, share) for share in ERROR_SHARES)
  return next(design for design in designs if _holds(design))


def _with_error(half_width: float, confidence: float, share: float) -> FixedWidth:
  """Returns the design with equal looks, each at confidence 1 − `share` · (1 − `confidence`)."""
  level = 1 - share * (1 - confidence)
  needed = fixed_size(half_width, level)
  looks = min(MOST_LOOKS, needed // FEWEST_TRIALS)
  return FixedWidth(half_width, confidence, level, -(-needed // looks), looks)


def _holds(design: FixedWidth) -> bool:
  """Whether every proportion is covered often enough; a few are tested first."""
  tested = design.tested()
  parts = [tested[::64], *np.array_split(tested, max(1, len(tested) // 128))]
  return all((design.coverage(part) >= design.confidence).all() for part in parts)
