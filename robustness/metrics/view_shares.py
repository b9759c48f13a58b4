"""Error or accuracy by view with intervals, and paired differences of two classifiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from robustness.metrics.comparison import benjamini_hochberg, discordant, mcnemar, paired_difference
from robustness.metrics.intervals import clopper_pearson
from robustness.results import Table


def share_arrays(
  counted: ArrayLike, name: str = 'error', confidence: float = 0.95
) -> dict[str, np.ndarray]:
  """Returns {name, name_low, name_high}: the share of counted rows with exact intervals, [...].

  Args:
    counted: booleans [N, ...], one row an image: whether it is wrong, or whether it is right.
    name: of the share, such as 'error'.
    confidence: of the Clopper–Pearson intervals, in (0, 1).
  """
  table = np.asarray(counted, bool)
  counts = table.sum(0)
  low, high = clopper_pearson(counts, len(table), confidence)
  ends = {f'{name}_low': np.asarray(low), f'{name}_high': np.asarray(high)}
  return {name: counts / max(1, len(table)), **ends}


def difference_arrays(
  first: ArrayLike, second: ArrayLike, confidence: float = 0.95, rate: float = 0.05
) -> dict[str, np.ndarray]:
  """Returns the paired difference of two shares, second minus first, view by view.

  Args:
    first, second: booleans [N, V] of the same rows and views: whether each classifier is wrong, for
      a difference in error, or right, for one in accuracy.
    confidence: of the Bonett–Price intervals, in (0, 1).
    rate: false-discovery rate of Benjamini and Hochberg's procedure over the V tests.

  Returns:
    `difference`, `_low`, `_high`, `_p` (exact McNemar) and `_significant`, each [V].
  """
  b, c = discordant(~np.asarray(first, bool), ~np.asarray(second, bool))
  difference, low, high = paired_difference(b, c, len(np.asarray(first)), confidence)
  p_value = np.asarray(mcnemar(b, c))
  return {
    'difference': np.asarray(difference),
    'difference_low': np.asarray(low),
    'difference_high': np.asarray(high),
    'difference_p': p_value,
    'difference_significant': benjamini_hochberg(p_value, rate).significant,
  }


def comparison_table(
  quantity: str, first: str, others: Mapping[str, Mapping[str, np.ndarray]], views: Sequence[str]
) -> Table:
  """Returns the paired differences of every other classifier from the first, a row a view.

  Args:
    quantity: 'error' or 'accuracy'.
    first: label of the baseline.
    others: by label, of `difference_arrays`.
    views: their names [V].
  """
  fields = ('difference', 'difference_low', 'difference_high', 'difference_p')
  rows: list[list[Any]] = [
    [
      first,
      label,
      view,
      *(float(arrays[name][index]) for name in fields),
      bool(arrays['difference_significant'][index]),
    ]
    for label, arrays in others.items()
    for index, view in enumerate(views)
  ]
  columns = ('first', 'second', 'view', f'{quantity}, second - first', 'low', 'high', 'McNemar p')
  return Table((*columns, 'significant'), rows)
