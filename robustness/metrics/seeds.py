"""Numbers of several trainings that differ in their seeds alone: each, and their mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from robustness.core.errors import InputError
from robustness.metrics.intervals import student_interval
from robustness.results import Number, Results, Table

TABLE = 'seeds'


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
    Results whose `numbers` are the means by their own names, with Student's intervals (n is the
    number of seeds), and `seed<k>/<name>` with the intervals over images; the table `seeds` has
    all. Tables and arrays of single seeds stay with them.
  """
  first = next(iter(by_seed.values()))
  names = [
    name for name in first.numbers if all(name in results.numbers for results in by_seed.values())
  ]
  means = {
    name: dataclasses.replace(
      student([results.numbers[name].value for results in by_seed.values()], confidence),
      note=first.numbers[name].note,
    )
    for name in names
  }
  single = {
    f'seed{seed}/{name}': number
    for seed, results in by_seed.items()
    for name, number in results.numbers.items()
  }
  columns = ('number', *(f'seed {seed}' for seed in by_seed), 'mean', 'low', 'high')
  rows = [
    [
      name,
      *(results.numbers[name].value for results in by_seed.values()),
      means[name].value,
      means[name].low,
      means[name].high,
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
