"""What is said of several trainings that differ in their seeds alone."""

from __future__ import annotations

import numpy as np

from robustness.metrics.seeds import possible
from robustness.results import Results
from robustness.wording.number_labels import label_of
from robustness.wording.phrases import NotReportedError, Reader, plain, told

PREFIX = 'seed'


def sentences(results: Results) -> list[str]:
  """Returns which number another seed changes most; see `robustness.metrics.seeds.over_seeds`."""
  return told(results, [_most_changed])


def _most_changed(reader: Reader) -> str:
  seeds = {seed: f'{PREFIX}{seed}/' for seed in reader.setting('seeds')}
  every = reader.results.numbers
  numbers = {
    name: number
    for name, number in reader.beginning('').items()
    if not name.startswith(tuple(seeds.values()))
    and np.isfinite(
      possible(name, {s: every[p + name] for s, p in seeds.items() if p + name in every})
    ).all()
  }
  if not numbers:
    raise NotReportedError('shares')
  name = max(numbers, key=lambda key: numbers[key].high - numbers[key].low)
  return (
    f'over {len(seeds)} seeds, the share that another seed changes most is '
    f'{label_of(reader.results, name)}: {plain(numbers[name])} in the mean'
  )
