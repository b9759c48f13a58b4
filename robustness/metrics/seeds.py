"""Numbers of several trainings that differ in their seeds alone: each, and their mean."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from robustness.core.errors import InputError
from robustness.estimates.intervals import student_interval
from robustness.estimates.quantity import AMOUNT, RANGES, Quantity
from robustness.estimates.table import SUBJECT, assemble, facets_of, with_facet
from robustness.metrics.fixed_width import SEQUENTIAL
from robustness.results import Number, Results, Table

TABLE, SEED = 'seeds', 'seed'
METHOD = 'student over seeds'
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
  mean, name = float(np.mean(values)), f'{METHOD} {confidence:g}'
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
    seeds, or says which seeds it is of and which lack the number. The table of results has the
    estimates of each seed by the facet `seed`, and their means without it. Other tables and arrays
    of single seeds stay with them.
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
    table=_estimates(by_seed, confidence),
    quantities=first.quantities,
  )


def _estimates(by_seed: Mapping[int, Results], confidence: float) -> pd.DataFrame:
  """Returns the estimates of each seed, and the mean of those that two seeds or more have, with
  Student's interval within the quantity's range."""
  each = assemble([with_facet(of.table, SEED, seed) for seed, of in by_seed.items()])
  keys = [*SUBJECT, *(name for name in facets_of(each) if name != SEED)]
  own = each[each.family == 1].reset_index(drop=True)
  groups = own.groupby(keys, dropna=False, sort=False)
  place, values = groups.ngroup().to_numpy(), own['value'].to_numpy()
  count = np.bincount(place)
  mean = np.bincount(place, values) / count
  spread = np.bincount(place, (values - mean[place]) ** 2)
  std = np.sqrt(spread / np.maximum(count - 1, 1))
  low, high = student_interval(mean, std, count, confidence)
  means = own.drop_duplicates(keys).assign(
    seed=None, value=mean, n=count, clusters=count, method=METHOD, confidence=confidence, p=np.nan
  )
  known = {quantity.name: quantity for of in by_seed.values() for quantity in of.quantities}
  least, most = (
    np.array([_range(known.get(row.quantity), row.versus) for row in means.itertuples()])
    .reshape(-1, 2)
    .T
  )
  notes: dict[int, dict[int, Any]] = {}
  said = pd.Series(own.note != '').groupby(place).any().to_numpy() | (count < len(by_seed))
  chosen = said[place]
  for k, row in zip(place[chosen], own[chosen].itertuples(), strict=True):
    notes.setdefault(k, {})[row.seed] = row
  texts = [_note(notes[k], list(by_seed)) if k in notes else '' for k in range(len(count))]
  means = means.assign(low=np.clip(low, least, most), high=np.clip(high, least, most), note=texts)
  return assemble([each, means[count > 1]])


def _range(quantity: Quantity | None, versus: str) -> tuple[float, float]:
  """Returns the least and largest value of an estimate; infinite where it is not declared."""
  if quantity is None:
    return RANGES[AMOUNT]
  return quantity.difference_range if versus else quantity.range


def _mean(
  name: str, by_seed: Mapping[int, Number], seeds: Sequence[int], confidence: float
) -> Number:
  """Returns the mean of a number over the seeds that have it."""
  mean = student([number.value for number in by_seed.values()], confidence)
  least, most = possible(name, by_seed)
  low, high = (float(np.clip(end, least, most)) for end in (mean.low, mean.high))
  return dataclasses.replace(mean, low=low, high=high, note=_note(by_seed, seeds))


def possible(name: str, by_seed: Mapping[int, Number]) -> tuple[float, float]:
  """Returns the least and the largest value that a number can have; infinite where not known.

  Args:
    name: of the number.
    by_seed: its values.
  """
  if not by_seed:
    return -np.inf, np.inf
  values = [number.value for number in by_seed.values()]
  kind = next(iter(by_seed.values())).interval
  if 'mCE' in name:  # multiples of published errors, in differences of either sign
    return (0.0 if f'/{name}'.count('/mCE/') else -np.inf), np.inf
  least, most = -np.inf, np.inf
  if 'bonett-price' in kind or _DIFFERENCE.search(name):
    least, most = -1.0, 1.0
  elif kind.startswith(('clopper-pearson', 'korn-graubard', SEQUENTIAL)) or _SHARE.search(name):
    least, most = 0.0, 1.0
  return min(least, *values), max(most, *values)


def _note(by_seed: Mapping[int, Any], seeds: Sequence[int]) -> str:
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
