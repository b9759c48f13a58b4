"""Sequential measurement of proportions: until the interval is narrow enough, with valid intervals.

Trials (images) come in rounds of equal size. After each round, called a look, a proportion is
finished if the half-width of its interval is at most w; the others continue. An interval that is
computed at every look covers the true proportion less often than its confidence says. Here the
level of the interval is raised until its exact coverage, computed over all paths that the count of
successes can take, is at least the confidence for every proportion.
"""

import bisect
import dataclasses
import functools
import math
from collections.abc import Iterator

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

ERROR_SHARES = (*(percent / 100 for percent in range(90, 70, -1)), 0.7, 0.6, 0.5, 0.25)
"""Candidates for (1 − level) / (1 − confidence), descending; the first with enough coverage is
used. It sets the level of the intervals of finished proportions.
"""

EARLY_SHARE = 0.02
"""The part of α = 1 − confidence that is spent on intervals of unfinished proportions."""


@dataclasses.dataclass(frozen=True)
class FixedWidth:
  """A sequential design: proportions are measured in rounds until intervals are narrow enough.

  After each round of trials there is a check, called a look. A proportion is finished at the first
  look at which its interval has a half-width of at most w, or at the last look. A finished
  proportion has a Clopper-Pearson interval with the confidence `level`. An unfinished proportion
  has an interval with the higher confidence `early_level`.

  With probability ≥ `confidence` the intervals of all looks contain the proportion. The interval is
  therefore valid at whichever look a user stops. Such intervals are called a confidence sequence,
  or repeated confidence intervals (Jennison and Turnbull).

  Attributes:
    half_width: w, the largest half-width of a finished proportion's interval, as a fraction.
    confidence: 1 − α, in (0, 1).
    level: confidence of the interval of a finished proportion, at least `confidence`.
    trials: number n of trials in a round.
    looks: largest number of rounds; after the last one every proportion is finished.

  Reference:
    Frey, Fixed-width sequential confidence intervals for a proportion, The American Statistician 64
    (2010), for the level calibrated by the exact coverage over a grid of proportions; Jennison &
    Turnbull, Interim analyses: the repeated confidence interval approach, JRSS B 51 (1989).
  """

  half_width: float
  confidence: float
  level: float
  trials: int
  looks: int

  @property
  def most_trials(self) -> int:
    """The number of trials after the last round. A proportion near ½ may need all of them."""
    return self.looks * self.trials

  @property
  def early_level(self) -> float:
    """The confidence level of intervals that are not narrow enough yet, above `level`.

    It is 1 − `EARLY_SHARE` · α / `looks` with α = 1 − `confidence`. The probability that such an
    interval misses the proportion after any round is then at most `EARLY_SHARE` · α.
    """
    return 1 - EARLY_SHARE * (1 - self.confidence) / self.looks

  def finished(self, successes: ArrayLike, n: ArrayLike) -> np.ndarray:
    """Returns whether the intervals of proportions are narrow enough to stop, bool [...].

    They are Clopper–Pearson intervals of confidence `level`, and must be at most ± `half_width`
    wide.

    Args:
      successes: number of successes so far, [...].
      n: number of trials so far, [...].
    """
    low, high = clopper_pearson(successes, n, self.level)
    return np.asarray((high - low) / 2 <= self.half_width)

  def interval(self, successes: ArrayLike, n: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Returns the intervals (low, high) of proportions after a round of trials, [...] each.

    In this design trials are added in rounds until the interval of a proportion is narrow enough.
    An interval has the confidence `level` if it is narrow enough. Otherwise it has the higher
    confidence `early_level`, since the trials go on and it may be looked at again.

    Args:
      successes: number of successes so far, [...].
      n: number of trials so far, a multiple of `trials`, [...].
    """
    finished = self.finished(successes, n)
    final_low, final_high = clopper_pearson(successes, n, self.level)
    early_low, early_high = clopper_pearson(successes, n, self.early_level)
    low = np.where(finished, final_low, early_low)
    high = np.where(finished, final_high, early_high)
    return low[()], high[()]  # numbers instead of arrays [] for a single proportion

  def other_interval(self, successes: ArrayLike, n: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Returns the intervals (low, high) of proportions that do not decide when to stop, [...] each.

    Trials stop when the interval of one proportion, such as the error, is narrow enough. For
    another proportion of the same trials, such as the top-5 error, the Clopper-Pearson interval has
    the confidence 1 − α / `looks` with α = 1 − `confidence`. By the union bound, the intervals
    after all rounds contain this proportion with probability ≥ `confidence`.

    Args:
      successes: number of successes so far, [...].
      n: number of trials so far, [...].
    """
    return clopper_pearson(successes, n, 1 - (1 - self.confidence) / self.looks)

  def coverage(self, proportions: ArrayLike) -> np.ndarray:
    """Returns the exact probability that all intervals of a proportion contain it, [P].

    A proportion has an interval after each round of trials until it is finished.

    Args:
      proportions: [P], the true proportions, in (0, 1).
    """
    looks = self._looks(np.asarray(proportions, float), is_covered=True)
    finishes = [(probability * is_finished).sum(1) for _, probability, is_finished in looks]
    return np.asarray(np.sum(finishes, 0))  # the proportion is finished at one of the looks

  def expected_trials(self, proportions: ArrayLike) -> np.ndarray:
    """Returns the expected number of trials until the interval of a proportion is narrow, [P].

    Trials are added in rounds, and the interval is computed after each.

    Args:
      proportions: [P], the true proportions, in (0, 1).
    """
    looks = self._looks(np.asarray(proportions, float))
    trials = [n * (probability * is_finished).sum(1) for n, probability, is_finished in looks]
    return np.asarray(np.sum(trials, 0))  # over the rounds after which it may be finished

  def proportions_to_test(self) -> np.ndarray:
    """Returns the proportions at which the coverage may be lowest, ascending, in (0, ½).

    The design shows trials in rounds and stops when the interval of the share of successes is
    narrow enough. Its coverage is the probability that this interval contains the true proportion.
    As a function of the proportion, it jumps at the ends of intervals and is lowest just outside an
    interval. The result has the proportions just outside all possible intervals of all rounds
    (looks). Coverage is equal at p and 1 − p; p < ½ is therefore enough.
    """
    looks = [_intervals_by_count(self, self.trials * look) for look in range(1, self.looks + 1)]
    low = np.concatenate([low_by_count for low_by_count, _, _ in looks])
    high = np.concatenate([high_by_count for _, high_by_count, _ in looks])
    outside = np.unique([np.nextafter(low, 0), np.nextafter(high, 1)])  # next below and above
    return outside[(outside > 0) & (outside < 0.5)]

  def _looks(
    self, p: np.ndarray, is_covered: bool = False
  ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yields the probability of each number of successes after each round of trials.

    In this design each round adds `self.trials` trials of a proportion (a success rate). A
    proportion is finished, and gets no more rounds, if its interval is narrow enough. After a
    round, the distribution of successes is the distribution of the unfinished before it, convolved
    with a binomial.

    Args:
      p: true proportions, [P].
      is_covered: if true, the probability is that the intervals after this and all earlier rounds
        also contain p.

    Yields:
      (n, probability, is_finished). n is the number of trials so far. `probability` [P, K] is the
      joint probability that the proportion was not finished in earlier rounds and that there are k
      successes, for K whole numbers k within 6 standard deviations of n p. `is_finished`, bool [P,
      K], says whether the proportion is finished with k successes.
    """
    p = p[:, None]  # [P, 1]
    distances = _distances_from_mean(self.most_trials)
    successes_in_round = np.round(self.trials * p).astype(int) + _distances_from_mean(self.trials)
    round_probability = scipy.stats.binom.pmf(successes_in_round, self.trials, p)
    # Before the first round: 0 successes with probability 1. `lowest` [P, 1] is the number of
    # successes that column 0 of `unfinished` is the probability of.
    unfinished = np.ones((len(p), 1))
    lowest = np.zeros((len(p), 1), int)
    for n in range(self.trials, self.most_trials + 1, self.trials):
      # Probability of each sum of the successes before the round and in it. The maximum removes
      # rounding errors of the Fourier transform below 0.
      sums = np.maximum(scipy.signal.fftconvolve(unfinished, round_probability, axes=1), 0)
      successes = np.round(n * p).astype(int) + distances
      # Column 0 of `sums` is for the lowest number before the round plus the lowest number in it.
      lowest_sum = lowest + successes_in_round[:, :1]  # [P, 1]
      column = successes - lowest_sum  # of `sums`; numbers without a column have probability 0
      has_column = (column >= 0) & (column < sums.shape[1]) & (successes >= 0) & (successes <= n)
      column = np.where(has_column, column, 0)  # any valid column elsewhere
      probability = np.where(has_column, np.take_along_axis(sums, column, 1), 0)
      counts = np.clip(successes, 0, n)
      low, high, is_finished = (by_count[counts] for by_count in _intervals_by_count(self, n))
      if is_covered:
        probability = probability * ((low <= p) & (p <= high))
      yield n, probability, is_finished
      unfinished = probability * ~is_finished
      lowest = successes[:, :1]


def _distances_from_mean(trials: int) -> np.ndarray:
  """Returns the whole numbers from −6 to 6 standard deviations of a count at p = ½, int [K]."""
  reach = math.ceil(3 * math.sqrt(trials))  # the standard deviation is √trials / 2
  return np.arange(-reach, reach + 1)


@functools.lru_cache(MOST_LOOKS)
def _intervals_by_count(design: FixedWidth, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns the interval for each possible number of successes in n trials.

  Args:
    design: the sequential design.
    n: number of trials so far.

  Returns:
    (low, high, is_finished), [n + 1] each. `is_finished` says whether the proportion is finished.
    After the last round every proportion is.
  """
  counts = np.arange(n + 1)
  low, high = design.interval(counts, n)
  return low, high, design.finished(counts, n) | (n == design.most_trials)


def wald_lower_bound(half_width: float, confidence: float) -> int:
  """Returns a lower bound on the number of trials for an interval of ± `half_width`, rounded down.

  The bound z² / (4 w²) is the number of trials at which Wald's interval for p = ½ has the
  half-width w = `half_width`. z is the two-sided normal quantile at `confidence`.
  """
  z = float(special.ndtri((1 + confidence) / 2))
  return math.floor(min(z / (2 * half_width), 1e100) ** 2)  # finite for any half-width


@functools.cache
def fixed_size(half_width: float, confidence: float) -> int:
  """Returns the fewest trials with a Clopper–Pearson interval never wider than ± `half_width`.

  The interval, at `confidence`, is widest if half of the trials succeed.
  """

  def is_enough(n: int) -> bool:
    """Returns whether n trials of which half succeed have an interval within ± `half_width`."""
    low, high = clopper_pearson([n // 2, (n + 1) // 2], n, confidence)
    return not ((high - low) / 2 > half_width).any()

  # Bisection below a number that suffices, which is near the number of trials of Wald's interval.
  trials_of_wald = wald_lower_bound(half_width, confidence)
  enough = trials_of_wald + 1 + trials_of_wald // 8
  while not is_enough(enough):
    enough *= 2
  return bisect.bisect_left(range(enough), True, lo=1, key=is_enough)


@functools.cache
def plan(half_width: float, confidence: float) -> FixedWidth:
  """Returns a sequential design with a given half-width and a coverage of at least `confidence`.

  The confidence level of finished proportions is the lowest that suffices, among the candidates in
  `ERROR_SHARES`. If fewer than 2 · `FEWEST_TRIALS` trials are needed, there is a single round.
  Planning takes two seconds for a half-width of .03 and thirty for .01.

  Args:
    half_width: largest half-width of a finished proportion's interval, as a fraction.
    confidence: probability that all intervals of a proportion contain it, in (0, 1).

  Raises:
    InputError: the half-width or the confidence is out of range.
  """
  for name, value, end in (('half_width', half_width, 0.5), ('confidence', confidence, 1)):
    if not 0 < value < end:
      raise InputError(f'{name} = {value!r} is not in (0, {end:g}).')
  once = fixed_size(half_width, confidence)  # trials of a single look
  if once < 2 * FEWEST_TRIALS:
    return FixedWidth(half_width, confidence, level=confidence, trials=once, looks=1)
  # `ERROR_SHARES` descend, so that levels ascend: the first design that holds has the lowest level.
  designs = (_design(half_width, confidence, share) for share in ERROR_SHARES)
  return next(design for design in designs if _has_coverage(design))


def _design(half_width: float, confidence: float, error_share: float) -> FixedWidth:
  """Returns a sequential design with intervals of confidence 1 − s α for finished proportions.

  The number of rounds is the largest possible, up to `MOST_LOOKS`, with at least `FEWEST_TRIALS`
  trials in each.

  Args:
    half_width: largest half-width of a finished proportion's interval.
    confidence: 1 − α.
    error_share: s, the fraction of the error α that the interval of a finished proportion may have.
  """
  level = 1 - error_share * (1 - confidence)
  needed = fixed_size(half_width, level)  # trials with which any proportion is finished
  looks = min(MOST_LOOKS, needed // FEWEST_TRIALS)
  trials = -(-needed // looks)  # rounded up
  return FixedWidth(half_width, confidence, level=level, trials=trials, looks=looks)


def _has_coverage(design: FixedWidth) -> bool:
  """Returns whether the intervals cover every proportion with at least the design's confidence."""
  proportions = design.proportions_to_test()
  # Every 64th proportion first, which refuses most designs soon; then all, 128 at a time.
  parts = [proportions[::64], *np.array_split(proportions, max(1, len(proportions) // 128))]
  return all((design.coverage(part) >= design.confidence).all() for part in parts)
