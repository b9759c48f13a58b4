"""Accuracy class by class, the most affected first, and what each is most often taken for."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from robustness.metrics.accuracy import proportion
from robustness.metrics.shares import mean_share
from robustness.results import Number, Table

MOST = 50
"""Classes that a table has room for."""


@dataclasses.dataclass(frozen=True)
class Outcomes:
  """What a classifier made of N images in V views, by image and by class.

  Attributes:
    labels: int [N] or [N, L], in [0, C); -1 where an image has fewer than L. It counts in each of
      its classes.
    right: [N], the share of an image's views that are right.
    trials: how many views each share is of, [N], or one number for all; 1 for a single view.
    mistakes: int [P, 3], a label, a prediction that is wrong, and how often it was made.
    clean: bool [N], whether the image is right without what the views do to it; None where no view
      shows it so.
    by_view: [C, V], the share of a class that is right in each view, NaN where none is shown; None
      for a single view.
    view_names: of the V views.
  """

  labels: np.ndarray
  right: np.ndarray
  trials: ArrayLike
  mistakes: np.ndarray
  clean: np.ndarray | None = None
  by_view: np.ndarray | None = None
  view_names: Sequence[str] = ()


def by_class(outcomes: Outcomes, names: Sequence[str] = (), confidence: float = 0.95) -> Table:
  """Returns a row for each of the `MOST` most affected classes that have images.

  Those are the classes that lose most accuracy against the clean view, and where there is none the
  least accurate ones.

  Args:
    outcomes: of one classifier.
    names: of the classes, by label; a class without one is called by its number.
    confidence: of the intervals: Clopper and Pearson's for a single view, else Korn and Graubard's
      with the image as the cluster.
  """
  rows = [_row(outcomes, label, own, names, confidence) for label, own in _members(outcomes)]
  lost = 'lost' in rows[0]
  rows.sort(key=lambda row: -row['lost'] if lost else row['accuracy'])  # stable: else by label
  return Table(tuple(rows[0]), [list(row.values()) for row in rows[:MOST]])


class ClassAccuracy(NamedTuple):
  """Of the images of one class, in all views but the clean one, and in that where there is one."""

  name: str
  accuracy: Number
  clean: Number | None


def accuracies(
  outcomes: Outcomes, names: Sequence[str] = (), confidence: float = 0.95
) -> list[ClassAccuracy]:
  """Returns the accuracy of every class that has images, by label; see `by_class`.

  A name that several classes have is followed by the number of each.
  """
  return [
    ClassAccuracy(_distinct_name(label, names), *_numbers(outcomes, own, confidence))
    for label, own in _members(outcomes)
  ]


def _members(outcomes: Outcomes) -> Iterator[tuple[int, np.ndarray]]:
  """Yields each class that has images, and which these are, int [n]."""
  several = outcomes.labels.reshape(len(outcomes.right), -1)
  flat = several.ravel()
  order = np.argsort(flat, kind='stable')
  labels, starts = np.unique(flat[order], return_index=True)
  for label, places in zip(labels.tolist(), np.split(order, starts[1:]), strict=True):
    if label >= 0:
      yield label, np.unique(places // several.shape[1])


def _numbers(
  outcomes: Outcomes, own: np.ndarray, confidence: float
) -> tuple[Number, Number | None]:
  """Returns the accuracy of some images, int [n], and that when they are clean."""
  right, count = outcomes.right[own], len(own)
  trials = np.broadcast_to(outcomes.trials, len(outcomes.right))
  number = (
    proportion(int(right.sum()), count, confidence)
    if (trials == 1).all()
    else mean_share(right, float(trials.mean()), confidence)
  )
  if outcomes.clean is None:
    return number, None
  return number, proportion(int(outcomes.clean[own].sum()), count, confidence)


def _row(
  outcomes: Outcomes, label: int, own: np.ndarray, names: Sequence[str], confidence: float
) -> dict[str, Any]:
  count = len(own)
  number, clean = _numbers(outcomes, own, confidence)
  cells: dict[str, Any] = {
    'class': class_name(label, names),
    'images': count,
    'accuracy': number.value,
    'low': number.low,
    'high': number.high,
  }
  if clean:
    cells |= {'clean accuracy': clean.value, 'lost': clean.value - number.value}
  if outcomes.by_view is not None:
    worst = int(np.nanargmin(outcomes.by_view[label]))
    cells['least accurate in'] = outcomes.view_names[worst]
    cells['accuracy there'] = float(outcomes.by_view[label, worst])
  made = outcomes.mistakes[outcomes.mistakes[:, 0] == label]
  shown = np.broadcast_to(outcomes.trials, len(outcomes.right))[own].sum()
  most = made[made[:, 2].argmax()] if len(made) else None
  return cells | {
    'most often taken for': 'none' if most is None else class_name(int(most[1]), names),
    'share taken for it': 0.0 if most is None else float(most[2] / shown),
  }


def class_name(label: int, names: Sequence[str]) -> str:
  """Returns the name of a class, its number where it has none."""
  return str(names[label]) if 0 <= label < len(names) else str(label)


def _distinct_name(label: int, names: Sequence[str]) -> str:
  name = class_name(label, names)
  return f'{name} ({label})' if list(names).count(name) > 1 else name
