"""Intervals that hold for all of several numbers together, for what is chosen as the largest."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
from scipy import optimize, special

from robustness.core.errors import InputError
from robustness.estimates.intervals import clopper_pearson, proportion_interval, t_value, z_value
from robustness.metrics.fixed_width import MOST_LOOKS, SEQUENTIAL
from robustness.results import Number

_MOST = 1e12  # trials that an interval is taken to rest on at most


def simultaneous(number: Number, count: int) -> Number:
  """Returns one of `count` numbers with the interval that holds for all of them together.

  The worst of many views looks worse than it is. Its interval at confidence 1 − α/count
  (Bonferroni) holds whichever is chosen. It is made as the number's own was: Clopper–Pearson from
  the counts, of a sequential design at 1 − α/(count · looks); Korn–Graubard at the effective number
  of trials that the number's own ends tell; Bonett–Price and Student, symmetric around the
  estimate, by the ratio of the quantiles; those of a bootstrap or of joint draws by it on either
  side of the value. Where few clusters tell the spread, quantiles are Student's: they grow with
  the confidence as no normal quantile does.

  Args:
    number: with an interval of one of these kinds.
    count: how many numbers it was chosen from, at least 1.

  Raises:
    InputError: fewer than one, or an interval of another kind.

  Reference:
    Dunn (1961), Multiple comparisons among means, for the use of Bonferroni's inequality.
  """
  match = re.search(r'(0?\.\d+)', number.interval)
  if count < 1 or match is None:
    raise InputError(
      f'count is {count} and the interval {number.interval!r}: give at least 1, and an interval '
      "whose text names its confidence, such as 'clopper-pearson 0.95'."
    )
  confidence = float(match[1])
  joint = 1 - (1 - confidence) / count
  low, high = _ends(number, confidence, joint)
  text = f'{number.interval} for all {count}'
  return dataclasses.replace(number, low=float(low), high=float(high), interval=text)


def _ends(number: Number, confidence: float, joint: float) -> tuple[float, float]:
  if np.isnan(number.low) or np.isnan(number.high):
    return np.nan, np.nan
  if number.interval.startswith('clopper-pearson'):
    return clopper_pearson(round(number.value * number.n), number.n, joint)
  if number.interval.startswith(SEQUENTIAL):
    at_all_looks = 1 - (1 - joint) / MOST_LOOKS
    return clopper_pearson(round(number.value * number.n), number.n, at_all_looks)
  if number.interval.startswith('korn-graubard'):
    trials = _effective_trials(number, confidence)
    known = min(trials, number.n) if number.n > 1 else trials
    factor = z_value(joint) / z_value(confidence) / _ratio(number.n, confidence, joint)
    trials = max(trials * factor**2, known)
    return proportion_interval(number.value * trials, trials, joint)
  if 'bonett-price' in number.interval:
    centre, n = (number.low + number.high) / 2, number.n if ' over ' in number.interval else 0
  elif number.interval.startswith(('student', 'bootstrap', 'joint draws')):
    centre, n = number.value, number.n
  else:
    raise InputError(
      f'the interval is {number.interval!r}, which cannot be widened: give one of Clopper–Pearson, '
      'Korn–Graubard, Bonett–Price, Student, a bootstrap or joint draws.'
    )
  factor = _ratio(n, confidence, joint)
  low, high = centre - factor * (centre - number.low), centre + factor * (number.high - centre)
  if 'bonett-price' in number.interval:  # a difference of shares
    return max(low, min(-1, number.low)), min(high, max(1, number.high))
  return low, high


def _ratio(n: int, confidence: float, joint: float) -> float:
  """Returns how much larger a joint quantile is: Student's of n ≥ 2 clusters, else the normal."""
  if n < 2:
    return z_value(joint) / z_value(confidence)
  return float(t_value(n, joint) / t_value(n, confidence))


def _effective_trials(number: Number, confidence: float) -> float:
  """Returns the trials at which the ends of a Korn–Graubard interval are the number's own."""
  tail, p = (1 - confidence) / 2, number.value
  if p <= 0 or p >= 1:
    width = number.high - number.low
    return float(np.log(tail) / np.log1p(-width)) if 0 < width < 1 else float(number.n)

  def excess(logarithm: float) -> float:
    trials = np.exp(logarithm)
    return float(special.betaincinv(p * trials + 1, trials * (1 - p), 1 - tail) - number.high)

  lowest, highest = np.log(0.5), np.log(_MOST)
  if excess(lowest) <= 0 or excess(highest) >= 0:
    return float(number.n)
  return float(np.exp(optimize.brentq(excess, lowest, highest)))
