"""Estimates of several trainings that differ in their seeds alone: each, and their means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from robustness.core.errors import InputError
from robustness.estimates.intervals import student_interval
from robustness.estimates.means import OVER_SEEDS
from robustness.estimates.quantity import AMOUNT, RANGES, Quantity
from robustness.estimates.table import SUBJECT, assemble, facets_of, with_facet
from robustness.results import SEED, Results

NO_SPREAD = 'no interval: all seeds are equal'


def over_seeds(by_seed: Mapping[int, Results], confidence: float = 0.95) -> Results:
  """Returns the estimates of every seed by the facet `seed`, and without it their means.

  A mean is over the seeds that have the estimate, two or more; NaN in one makes it NaN. The
  interval is Student's, mean ± t·s/√n, cut to what the quantity can be: it covers what another
  training of the same recipe changes, on the same images, if the values are normal. Equal values,
  such as ρ cut to 1, show no spread: there is no interval then, for a point would claim that no
  training differs.
  Notes of a mean are those of its seeds, and say which seeds lack it. Facts and pictures of single
  seeds stay with them.

  Args:
    by_seed: results of one study or battery, at least two.
    confidence: of the means' intervals, in (0, 1).

  Raises:
    InputError: fewer than two seeds.

  Reference:
    Student (1908), The Probable Error of a Mean.
  """
  if len(by_seed) < 2:
    raise InputError(f'{len(by_seed)} value has no spread: give at least two seeds.')
  first = next(iter(by_seed.values()))
  each = assemble([with_facet(of.table, SEED, seed) for seed, of in by_seed.items()])
  quantities = {quantity.name: quantity for of in by_seed.values() for quantity in of.quantities}
  return Results(
    first.study,
    _classifiers(by_seed),
    first.data,
    {**first.settings, 'seeds': list(by_seed)},
    table=assemble([each, _means(each, quantities, list(by_seed), confidence)]),
    quantities=first.quantities,
    parts=first.parts,
  )


def _means(
  each: pd.DataFrame, quantities: Mapping[str, Quantity], seeds: Sequence[int], confidence: float
) -> pd.DataFrame:
  """Returns the means of the estimates that two seeds or more have, those of families left out."""
  keys = [*SUBJECT, *(name for name in facets_of(each) if name != SEED)]
  own = each[each.family == 1].reset_index(drop=True)
  place = own.groupby(keys, dropna=False, sort=False).ngroup().to_numpy()
  values, count = own['value'].to_numpy(), np.bincount(place)
  mean = np.bincount(place, values) / count
  spread = np.bincount(place, (values - mean[place]) ** 2)
  std = np.sqrt(spread / np.maximum(count - 1, 1))
  low, high = student_interval(mean, std, count, confidence)
  firsts = own.drop_duplicates(keys)
  alike = np.bincount(place, values == firsts.value.to_numpy()[place]) == count
  ranges = [_range(quantities.get(row.quantity), row.versus) for row in firsts.itertuples()]
  least, most = np.array(ranges).reshape(-1, 2).T
  low, high = (np.where(alike, np.nan, np.clip(end, least, most)) for end in (low, high))
  notes: dict[int, dict[int, str]] = {}
  for k, row in zip(place, own[[SEED, 'note']].itertuples(), strict=True):
    notes.setdefault(k, {})[row.seed] = row.note
  texts = [_note(notes[k], seeds, alike[k]) for k in range(len(count))]
  means = firsts.assign(
    seed=None, value=mean, low=low, high=high, n=count, clusters=count, method=OVER_SEEDS
  )
  return means.assign(confidence=confidence, p=np.nan, note=texts)[count > 1]


def _range(quantity: Quantity | None, versus: str) -> tuple[float, float]:
  """Returns the least and largest value of an estimate; infinite where it is not declared."""
  if quantity is None:
    return RANGES[AMOUNT]
  return quantity.difference_range if versus else quantity.range


def _note(by_seed: Mapping[int, str], seeds: Sequence[int], alike: bool) -> str:
  """Returns the seeds' notes, once where they are the same, and which seeds lack the estimate."""
  notes = list(by_seed.values())
  same = len(set(notes)) == 1
  said = [notes[0]] if same else [f'seed {s}: {note}' for s, note in by_seed.items() if note]
  lacking = [str(seed) for seed in seeds if seed not in by_seed]
  without = f'without seed {", ".join(lacking)}, which has no such number' if lacking else ''
  return '; '.join(filter(None, (*said, without, NO_SPREAD if alike else '')))


def _classifiers(by_seed: Mapping[int, Results]) -> list[dict[str, Any]] | dict[str, Any]:
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
