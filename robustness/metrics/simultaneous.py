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
  of trials that the number's own ends tell, with Student's quantile in it of the joint confidence;
  Bonett–Price and Student, symmetric around the estimate, by the ratio of the quantiles, Student's
  where the difference is one over n clusters.

  Args:
    number: with an interval of one of these kinds; its n is the number of clusters, and where it is
      0 they are taken as many.
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
    trials = max(trials * _known(number.n, joint, confidence), min(trials, number.n))
    return proportion_interval(number.value * trials, trials, joint)
  if 'bonett-price' in number.interval:
    factor = z_value(joint) / z_value(confidence)
    if ' over ' in number.interval:
      factor /= np.sqrt(_known(number.n, joint, confidence))
    centre, reach = (number.low + number.high) / 2, max(1.0, -number.low, number.high)
    half = factor * (number.high - centre)
    return max(centre - half, -reach), min(centre + half, reach)
  if number.interval.startswith('student'):
    centre, factor = number.value, t_value(number.n, joint) / t_value(number.n, confidence)
  else:
    raise InputError(
      f'the interval is {number.interval!r}, which cannot be widened: give one of Clopper–Pearson, '
      'Korn–Graubard, Bonett–Price or Student.'
    )
  return centre - factor * (centre - number.low), centre + factor * (number.high - centre)


def _known(n: int, joint: float, confidence: float) -> float:
  """Returns how much fewer trials n clusters are worth at a joint confidence: their spread is known
  from n − 1 degrees of freedom, see `robustness.estimates.intervals.effective_trials`."""
  if n < 2:
    return 1.0
  ratio = (z_value(level) / t_value(n, level) for level in (joint, confidence))
  return float((next(ratio) / next(ratio)) ** 2)


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
