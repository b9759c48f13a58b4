"""Error or accuracy by view with intervals, and paired differences of two classifiers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from robustness.estimates.comparison import (
  benjamini_hochberg,
  discordant,
  mcnemar,
  paired_difference,
)
from robustness.estimates.intervals import clopper_pearson
from robustness.evaluation.records import Records, Shard
from robustness.evaluation.rounds import Rounds
from robustness.metrics.fixed_width import SEQUENTIAL
from robustness.results import Number, Table


@dataclasses.dataclass(frozen=True)
class ViewShares:
  """The share of counted rows by view.

  Attributes:
    value, low, high: fractions [V].
    n: int [V], the rows that each rests on.
    interval: how `low` and `high` were made.
  """

  value: np.ndarray
  low: np.ndarray
  high: np.ndarray
  n: np.ndarray
  interval: str

  def number(self, view: int) -> Number:
    """Returns one of them."""
    value, low, high = (float(array[view]) for array in (self.value, self.low, self.high))
    return Number(value, low, high, int(self.n[view]), self.interval)

  def arrays(self, name: str) -> dict[str, np.ndarray]:
    """Returns {name, name_low, name_high}, each [V]."""
    return {name: self.value, f'{name}_low': self.low, f'{name}_high': self.high}


def table_shares(counted: ArrayLike, confidence: float = 0.95) -> ViewShares:
  """Returns the share of counted rows by view with exact intervals.

  Args:
    counted: booleans [N, V], one row an image: whether it is wrong, or whether it is right.
    confidence: of the Clopper–Pearson intervals, in (0, 1).
  """
  table = np.asarray(counted, bool)
  return _fixed_shares(table.sum(0), len(table), confidence)


def view_shares(
  records: Records | Rounds,
  counted: Callable[[Shard], np.ndarray],
  confidence: float = 0.95,
  decides: bool = True,
) -> ViewShares:
  """Returns the share of counted rows by view, with exact intervals.

  Args:
    records: of all rows in all views, or the rounds of a sequential design.
    counted: booleans [n, v] of a shard, such as which predictions are wrong.
    confidence: of the intervals, in (0, 1); that of rounds is their design's.
    decides: whether rounds ended by this share, or by the share of wrong predictions and this is
      another.
  """
  counts = records.sum_over_rows(counted)
  if isinstance(records, Rounds):
    n, design, name = records.shown, records.design, f'{SEQUENTIAL} {confidence:g}'
    low, high = (design.interval if decides else design.other_interval)(counts, n)
    return ViewShares(counts / n, np.asarray(low), np.asarray(high), n, name)
  return _fixed_shares(counts, records.layout.num_rows, confidence)


def _fixed_shares(counts: np.ndarray, n: int, confidence: float) -> ViewShares:
  low, high = clopper_pearson(counts, n, confidence)
  value, name = counts / max(1, n), f'clopper-pearson {confidence:g}'
  return ViewShares(value, np.asarray(low), np.asarray(high), np.full(counts.shape, n), name)


def share_arrays(
  counted: ArrayLike, name: str = 'error', confidence: float = 0.95
) -> dict[str, np.ndarray]:
  """Returns {name, name_low, name_high}: the share of counted rows with exact intervals, [...].

  Args:
    counted: booleans [N, ...], one row an image: whether it is wrong, or whether it is right.
    name: of the share, such as 'error'.
    confidence: of the Clopper–Pearson intervals, in (0, 1).
  """
  return table_shares(counted, confidence).arrays(name)


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


def compare_with_first(
  quantity: str,
  counted: Mapping[str, ArrayLike],
  views: Sequence[str],
  confidence: float = 0.95,
  rate: float = 0.05,
) -> tuple[dict[str, dict[str, np.ndarray]], Table]:
  """Returns the paired differences of every classifier but the first, by label, and their table.

  Args:
    quantity: 'error' or 'accuracy'.
    counted: booleans [N, V] by label, the baseline's first; see `difference_arrays`.
    views: their names [V].
    confidence: of the intervals, in (0, 1).
    rate: false-discovery rate over the views of one classifier.
  """
  first, *others = counted
  differences = {
    label: difference_arrays(counted[first], counted[label], confidence, rate) for label in others
  }
  return differences, comparison_table(quantity, first, differences, views)


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
