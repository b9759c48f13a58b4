"""Accuracy class by class, the least accurate first, and what each is most often taken for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from robustness.metrics.intervals import clopper_pearson

COLUMNS = (
  'class',
  'images',
  'accuracy',
  'low',
  'high',
  'most often taken for',
  'share taken for it',
)
MOST = 50
"""Classes that a table has room for."""


def by_class(
  labels: np.ndarray,
  predictions: np.ndarray,
  right: np.ndarray,
  names: Sequence[str] = (),
  confidence: float = 0.95,
) -> list[list[Any]]:
  """Returns rows of `COLUMNS` for the `MOST` least accurate classes that have images.

  Args:
    labels: int [N], one an image.
    predictions: int [N].
    right: bool [N].
    names: of the classes, by label; a class without one is called by its number.
    confidence: of the Clopper–Pearson intervals.
  """
  rows: list[list[Any]] = []
  for label in np.unique(labels):
    own = labels == label
    count, correct = int(own.sum()), int(right[own].sum())
    low, high = clopper_pearson(correct, count, confidence)
    taken, times = np.unique(predictions[own & ~right], return_counts=True)
    mistake = int(times.argmax()) if len(times) else -1
    rows.append(
      [
        _name(int(label), names),
        count,
        correct / count,
        float(low),
        float(high),
        _name(int(taken[mistake]), names) if mistake >= 0 else 'none',
        float(times[mistake] / count) if mistake >= 0 else 0.0,
      ]
    )
  rows.sort(key=lambda row: row[2])  # stable: equal ones in the order of their labels
  return rows[:MOST]


def _name(label: int, names: Sequence[str]) -> str:
  return str(names[label]) if 0 <= label < len(names) else str(label)
