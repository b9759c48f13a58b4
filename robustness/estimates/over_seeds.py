"""Means of estimates over several trainings that differ in their seeds alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from robustness.estimates.intervals import student_interval
from robustness.estimates.quantity import AMOUNT, RANGES, Quantity
from robustness.estimates.table import OVER_SEEDS, SUBJECT, facets_of

NO_SPREAD = 'no interval: all seeds are equal'


def means_over(
  facet: str,
  each: pd.DataFrame,
  seeds: Sequence[int],
  quantities: Mapping[str, Quantity],
  confidence: float,
) -> pd.DataFrame:
  """Returns the means of the estimates that two seeds or more have, those of families left out.

  NaN in one seed makes a mean NaN. The interval is Student's, mean ± t·s/√n, cut to what the
  quantity can be: it covers what another training of the same recipe changes, on the same images,
  if the values are normal. Equal values, such as ρ cut to 1, show no spread: there is no interval
  then, for a point would claim that no training differs. Notes of a mean are those of its seeds,
  and say which seeds lack it.

  Args:
    facet: column of the seed.
    each: the table of all seeds.
    seeds: all of them.
    quantities: by name, those that are declared.
    confidence: of the intervals, in (0, 1).

  Reference:
    Student (1908), The Probable Error of a Mean.
  """
  keys = [*SUBJECT, *(name for name in facets_of(each) if name != facet)]
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
  for k, row in zip(place, own[[facet, 'note']].itertuples(index=False), strict=True):
    notes.setdefault(k, {})[row[0]] = row[1]
  texts = [_note(notes[k], seeds, alike[k]) for k in range(len(count))]
  spreads = {'low': low, 'high': high, 'n': count, 'clusters': count, 'method': OVER_SEEDS}
  means = firsts.assign(**{facet: None}, value=mean, **spreads)
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
