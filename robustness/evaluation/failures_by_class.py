"""Accuracy class by class, which classes suffer most, and what each is most often taken for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from robustness.estimates.means import Row, row, share
from robustness.estimates.outcomes import Sums
from robustness.estimates.quantity import ACCURACY, CLEAN_ACCURACY
from robustness.evaluation.failure_tally import Tally

MOST = 50
"""Classes that the table has room for."""
COLUMNS = (
  'classifier',
  'class',
  'images',
  'views wrong',
  'of',
  'least accurate in',
  'most often taken for',
  'times',
)


def estimates(
  label: str, tally: Tally, names: Sequence[str], confidence: float = 0.95
) -> Iterator[Row]:
  """Yields the accuracy of every class that has images as rows of the table of results.

  `accuracy` is over all views but the clean one, each image's share of right views once, and
  `clean_accuracy` in that where there is one. The interval is Clopper and Pearson's for a single
  view, else Korn and Graubard's with the image as the cluster.

  Args:
    label: of the classifier.
    tally: of its records.
    names: of the classes, by label; a class without one is called by its number, and a name that
      several classes have is followed by the number of each.
    confidence: of the intervals.
  """
  for number, own in _members(tally):
    name, each = class_name(number, names), np.ones(len(own))
    facets = {'class': f'{name} ({number})' if list(names).count(name) > 1 else name}
    right = {ACCURACY: (1 - tally.wrong[own] / tally.shown[own], tally.shown[own])}
    if tally.clean is not None:
      right[CLEAN_ACCURACY] = tally.clean[own].astype(float), each
    for quantity, (shares, trials) in right.items():
      estimate = share(Sums(shares, each, len(own), float(trials.sum())), confidence)
      yield row(label, '', quantity, facets, estimate, confidence)


def most_affected(
  label: str, tally: Tally, names: Sequence[str], views: Sequence[str]
) -> list[list[Any]]:
  """Returns rows of `COLUMNS` of the `MOST` most affected classes.

  Those are the classes that lose most accuracy against the clean view, and where there is none the
  least accurate ones.
  """
  rows, lost = [], []
  for number, own in _members(tally):
    error = (tally.wrong[own] / tally.shown[own]).mean()
    lost.append(error if tally.clean is None else error - (~tally.clean[own]).mean())
    shown = tally.class_shown[number]
    right = np.where(shown > 0, tally.class_right[number] / np.maximum(shown, 1), 2)
    taken, times = 'none', 0
    made = tally.mistakes[tally.mistakes[:, 0] == number]
    if len(made):
      _, other, times = made[made[:, 2].argmax()].tolist()
      taken = class_name(other, names)
    counts = len(own), int(tally.wrong[own].sum()), int(tally.shown[own].sum())
    name = class_name(number, names)
    rows.append([label, name, *counts, views[int(right.argmin())], taken, times])
  return [rows[place] for place in np.argsort(-np.array(lost), kind='stable')[:MOST]]


def _members(tally: Tally) -> Iterator[tuple[int, np.ndarray]]:
  """Yields each class that has images that count, and which these are, int [n]."""
  counted = tally.shown > 0
  for number in np.unique(tally.labels[counted]):
    if number >= 0:
      yield int(number), np.flatnonzero(counted & (tally.labels == number).any(1))


def class_name(label: int, names: Sequence[str]) -> str:
  """Returns the name of a class, its number where it has none."""
  return str(names[label]) if 0 <= label < len(names) else str(label)
