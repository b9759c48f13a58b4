"""Sequential measurement of proportions: until the interval is narrow enough, with valid intervals.

Trials (images) come in rounds of equal size. After each round, called a look, a proportion is
finished if the half-width of its interval is at most w; the others continue. An interval that is
computed at every look covers the true proportion less often than its confidence says. Here the
level of the interval is raised until its exact coverage, computed over all paths that the count of
successes can take, is at least the confidence for every proportion.
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
"""Largest number of looks of a design."""

FEWEST_TRIALS = 16
"""Smallest number of trials in a round; fewer would leave the device idle."""

ERROR_SHARES = (*(k / 100 for k in range(90, 70, -1)), 0.7, 0.6, 0.5, 0.25)
"""Candidates for (1 − level) / (1 − confidence), descending; the first with enough coverage is
used.
"""

EARLY_SHARE = 0.02
"""The part of 1 − confidence that is spent on intervals of unfinished proportions."""


@dataclasses.dataclass(frozen=True)
class FixedWidth:
  """A sequential design: the looks at proportions, and their intervals at each look.

  The interval of a finished proportion is Clopper and Pearson's at `level`, from the trials up to
  the look at which it was finished. Before, it is Clopper and Pearson's at the higher
  `early_level`. All intervals of all looks cover the proportion together with probability ≥
  `confidence`, so that the interval is valid at whichever look a user stops (a confidence sequence
  over the planned looks; repeated confidence intervals in the words of Jennison and Turnbull).

  Attributes:
    half_width: w, the largest half-width of a finished proportion's interval, as a fraction.
    confidence: 1 − α, in (0, 1).
    level: confidence of finished intervals, at least `confidence`.
    trials: number n of trials in a round.
    looks: largest number of rounds; after the last one every proportion is finished.

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
    """The confidence of unfinished intervals; any of them misses with probability `EARLY_SHARE` ·
    α.
    """
    return 1 - EARLY_SHARE * (1 - self.confidence) / self.looks

  def finished(self, successes: ArrayLike, n: ArrayLike) -> np.ndarray:
    """Returns whether the intervals of k successes in n trials are narrow enough, bool [...]."""
    low, high = clopper_pearson(successes, n, self.level)
    return np.asarray((high - low) / 2 <= self.half_width)

  def interval(self, successes: ArrayLike, n: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Returns the intervals (low, high) of proportions at looks, [...] each.

    Args:
      successes: number of successes, [...].
      n: number of trials at the look, a multiple of `trials`, [...].
    """
    finished = self.finished(successes, n)
    levels = (self.level, self.early_level)
    narrow, wide = (clopper_pearson(successes, n, level) for level in levels)
    low, high = (np.where(finished, *ends) for ends in zip(narrow, wide, strict=True))
    return low[()], high[()]

  def other_interval(self, successes: ArrayLike, n: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Returns intervals of other proportions of the same trials, which do not decide when to stop,
    [...].

    They are Clopper and Pearson's at confidence 1 − α / looks, and by the union bound valid at all
    looks together. The arguments are the same as for `interval`.
    """
    return clopper_pearson(successes, n, 1 - (1 - self.confidence) / self.looks)

  def coverage(self, proportions: ArrayLike) -> np.ndarray:
    """Returns the exact probability [P] that the intervals of all looks contain p, for p [P] in (0,
    1).
    """
    p = np.asarray(proportions, float)[:, None]

    def holding(successes: np.ndarray, n: int) -> np.ndarray:
      """Returns whether the interval of `successes` in n trials contains p, bool [P, K]."""
      low, high = _at(_outcomes(self, n)[:2], successes)
      return (low <= p) & (p <= high)

    paths = self._paths(p[:, 0], holding)
    return np.asarray(
      np.sum([(probability * finished).sum(1) for _, probability, finished in paths], 0)
    )

  def expected_trials(self, proportions: ArrayLike) -> np.ndarray:
    """Returns the expected number of trials [P] until proportions p [P] in (0, 1) are finished."""
    paths = self._paths(np.asarray(proportions, float))
    return np.asarray(
      np.sum([n * (probability * finished).sum(1) for n, probability, finished in paths], 0)
    )

  def tested(self) -> np.ndarray:
    """Returns proportions in (0, ½), ascending, among which the coverage is lowest, up to rounding.

    Coverage is symmetric in p and 1 − p. It jumps at the ends of intervals and is lowest just
    outside them; the proportions are therefore all ends of the intervals of all looks.
    """
    looks = [_outcomes(self, self.trials * look) for look in range(1, self.looks + 1)]
    low, high = (np.concatenate([ends[side] for ends in looks]) for side in (0, 1))
    outside = np.unique([np.nextafter(low, 0), np.nextafter(high, 1)])
    return outside[(outside > 0) & (outside < 0.5)]

  def _paths(
    self, p: np.ndarray, holds: Callable[[np.ndarray, int], np.ndarray] | None = None
  ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yields the distribution of the number of successes at each look, for proportions p [P].

    Each item has the number n of trials; P(k successes, unfinished before) [P, K]; and bool [P, K],
    whether the count k is finished. The K counts are within 6 standard errors of n p.

    Args:
      p: proportions, [P].
      holds: called with counts [P, K] and n; only paths on which it is true at every look are
        followed. None follows all.
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
  """Returns distances of counts from their mean, up to 6 standard errors (at p = ½) on either
  side.
  """
  reach = math.ceil(3 * math.sqrt(trials))
  return np.arange(-reach, reach + 1)


def _at(by_count: Sequence[np.ndarray], counts: np.ndarray) -> list[np.ndarray]:
  """Returns the entries `counts`, clipped to 0..n, of each array in `by_count`, [n + 1]."""
  return [values[np.clip(counts, 0, len(values) - 1)] for values in by_count]


@functools.lru_cache(MOST_LOOKS)
def _outcomes(design: FixedWidth, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns low end, high end and whether a proportion is finished, by the count 0..n, [n + 1]
  each.
  """
  counts = np.arange(n + 1)
  low, high = design.interval(counts, n)
  return low, high, design.finished(counts, n) | (n == design.most_trials)


def fewest_trials(half_width: float, confidence: float) -> int:
  """Returns a lower bound of a design's trials: z² / (4 w²), from Wald's interval at p = ½."""
  z = float(special.ndtri((1 + confidence) / 2))
  return math.floor(min(z / (2 * half_width), 1e100) ** 2)


@functools.cache
def fixed_size(half_width: float, confidence: float) -> int:
  """Returns the fewest trials with a Clopper–Pearson interval never wider than ± `half_width`.

  The interval is widest for half successes.
  """

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
  """Returns the design in which intervals cover every proportion with probability ≥ `confidence`.

  Its level is the lowest that `ERROR_SHARES` offers with enough coverage at all proportions of
  `FixedWidth.tested`. Planning takes two seconds for a half-width of .03 and thirty for .01.

  Args:
    half_width: w, as a fraction.
    confidence: 1 − α, in (0, 1).

  Raises:
    InputError: the half-width or the confidence is out of range.
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
  """Returns the design with equal looks and the level 1 − `share` · (1 − `confidence`)."""
  level = 1 - share * (1 - confidence)
  needed = fixed_size(half_width, level)
  looks = min(MOST_LOOKS, needed // FEWEST_TRIALS)
  return FixedWidth(half_width, confidence, level, -(-needed // looks), looks)


def _holds(design: FixedWidth) -> bool:
  """Returns whether every proportion is covered often enough; a few are tested first to save
  time.
  """
  tested = design.tested()
  parts = [tested[::64], *np.array_split(tested, max(1, len(tested) // 128))]
  return all((design.coverage(part) >= design.confidence).all() for part in parts)
