"""Numbers of several trainings that differ in their seeds alone: each, and their mean."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

import numpy as np

from robustness.core.errors import InputError
from robustness.estimates.intervals import student_interval
from robustness.metrics.fixed_width import SEQUENTIAL
from robustness.results import Number, Results, Table

TABLE = 'seeds'
_SHARE = re.compile(
  r'(^|/)((rho|seen|unseen|baseline)(_[^/]*)?|(detection|localisation)/mAP_[^/]*'
  r'|(ece|ece_equal_mass|rms_calibration_error|brier|aurc|excess_aurc)/[^/]*)$'
)
"""Names of numbers in [0, 1] whose intervals are bootstraps."""
_DIFFERENCE = re.compile(r'(^|/)(\w+_difference|overconfidence)/[^/]*$|(^|/)gap$')
"""Names of differences of such numbers."""


def student(values: Sequence[float], confidence: float = 0.95) -> Number:
  """Returns the mean of a few values with Student's interval, mean ± t·s/√n.

  It covers what another training of the same recipe changes, on the same images. The values are
  taken as normal; the interval is not cut to the range of a proportion. Equal values, such as ρ cut
  to 1, show no spread: there is no interval then, for a point would claim that no training differs.

  Args:
    values: n ≥ 2 numbers; NaN in one makes the mean NaN.
    confidence: in (0, 1).

  Raises:
    InputError: fewer than two values.

  Reference:
    Student (1908), The Probable Error of a Mean.
  """
  count = len(values)
  if count < 2:
    raise InputError(f'{count} value has no spread: give at least two seeds.')
  mean, name = float(np.mean(values)), f'student over seeds {confidence:g}'
  if min(values) == max(values):
    return Number(mean, np.nan, np.nan, count, f'{name} (none: all are equal)')
  low, high = student_interval(mean, float(np.std(values, ddof=1)), count, confidence)
  return Number(mean, float(low), float(high), count, name)


def over_seeds(by_seed: Mapping[int, Results], confidence: float = 0.95) -> Results:
  """Returns the numbers of every seed, and over all seeds their means.

  Args:
    by_seed: results of one study, at least two.
    confidence: of the means' intervals.

  Returns:
    Results whose `numbers` are the means by their own names, with Student's intervals within what
    each number can be (n is the number of seeds that have it, at least two), and `seed<k>/<name>`
    with the intervals over images; the table `seeds` has all. A note of a mean is that of all its
    seeds, or says which seeds it is of and which lack the number. Tables and arrays of single seeds
    stay with them.
  """
  first = next(iter(by_seed.values()))
  names = list(dict.fromkeys(name for results in by_seed.values() for name in results.numbers))
  of_name = {
    name: {seed: own.numbers[name] for seed, own in by_seed.items() if name in own.numbers}
    for name in names
  }
  means = {
    name: _mean(name, own, list(by_seed), confidence)
    for name, own in of_name.items()
    if len(own) > 1
  }
  none = Number(np.nan, np.nan, np.nan, 1, '')
  single = {
    f'seed{seed}/{name}': number
    for seed, results in by_seed.items()
    for name, number in results.numbers.items()
  }
  columns = ('number', *(f'seed {seed}' for seed in by_seed), 'mean', 'low', 'high')
  rows = [
    [
      name,
      *(results.numbers.get(name, none).value for results in by_seed.values()),
      *(getattr(means.get(name, none), end) for end in ('value', 'low', 'high')),
    ]
    for name in names
  ]
  return Results(
    first.study,
    _classifiers(by_seed),
    first.data,
    {**first.settings, 'seeds': list(by_seed)},
    {**means, **single},
    {TABLE: Table(columns, rows)},
  )


def _mean(
  name: str, by_seed: Mapping[int, Number], seeds: Sequence[int], confidence: float
) -> Number:
  """Returns the mean of a number over the seeds that have it."""
  mean = student([number.value for number in by_seed.values()], confidence)
  least, most = _possible(name, by_seed)
  low, high = (float(np.clip(end, least, most)) for end in (mean.low, mean.high))
  return dataclasses.replace(mean, low=low, high=high, note=_note(by_seed, seeds))


def _possible(name: str, by_seed: Mapping[int, Number]) -> tuple[float, float]:
  """Returns the least and the largest value that a number can have; infinite where not known."""
  values = [number.value for number in by_seed.values()]
  kind = next(iter(by_seed.values())).interval
  if 'mCE' in name:  # multiples of published errors
    return -np.inf, np.inf
  least, most = -np.inf, np.inf
  if 'bonett-price' in kind or _DIFFERENCE.search(name):
    least, most = -1.0, 1.0
  elif kind.startswith(('clopper-pearson', 'korn-graubard', SEQUENTIAL)) or _SHARE.search(name):
    least, most = 0.0, 1.0
  return min(least, *values), max(most, *values)


def _note(by_seed: Mapping[int, Number], seeds: Sequence[int]) -> str:
  """Returns the seeds' notes, once where they are the same, and which seeds lack the number."""
  notes = [number.note for number in by_seed.values()]
  same = len(set(notes)) == 1
  said = [notes[0]] if same else [f'seed {s}: {n.note}' for s, n in by_seed.items() if n.note]
  lacking = [str(seed) for seed in seeds if seed not in by_seed]
  without = f'without seed {", ".join(lacking)}, which has no such number' if lacking else ''
  return '; '.join(filter(None, (*said, without)))


def _classifiers(by_seed: Mapping[int, Results]) -> list[dict] | dict:
  """Returns by label what describes the network of each seed."""
  described = {
    seed: results.classifier if isinstance(results.classifier, list) else [results.classifier]
    for seed, results in by_seed.items()
  }
  labels = [entry['label'] for entry in next(iter(described.values()))]
  joined = [
    {'label': label, 'seeds': {str(seed): entries[i] for seed, entries in described.items()}}
    for i, label in enumerate(labels)
  ]
  return joined[0] if len(joined) == 1 else joined
