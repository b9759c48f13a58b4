"""Errors by view with intervals, and paired differences of two classifiers, view by view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from robustness.metrics.comparison import benjamini_hochberg, discordant, mcnemar, paired_difference
from robustness.metrics.intervals import clopper_pearson
from robustness.results import Table

COMPARISON = (
  'first',
  'second',
  'view',
  'error, second - first',
  'low',
  'high',
  'McNemar p',
  'significant',
)


def error_arrays(wrong: ArrayLike, confidence: float = 0.95) -> dict[str, np.ndarray]:
  """Returns `error`, `error_low` and `error_high`, the share of wrong rows with exact intervals.

  Args:
    wrong: booleans [N, ...], one row an image.
    confidence: of the Clopper–Pearson intervals, in (0, 1).
  """
  table = np.asarray(wrong, bool)
  counts = table.sum(0)
  low, high = clopper_pearson(counts, len(table), confidence)
  return {
    'error': counts / max(1, len(table)),
    'error_low': np.asarray(low),
    'error_high': np.asarray(high),
  }


def difference_arrays(
  first: ArrayLike, second: ArrayLike, confidence: float = 0.95, rate: float = 0.05
) -> dict[str, np.ndarray]:
  """Returns the paired difference in error, second minus first, view by view.

  Args:
    first, second: whether each classifier is wrong, booleans [N, V], the same rows and views.
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
  first: str, others: Mapping[str, Mapping[str, np.ndarray]], views: Sequence[str]
) -> Table:
  """Returns the paired differences of every other classifier from the first, a row a view.

  Args:
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
  return Table(COMPARISON, rows)
