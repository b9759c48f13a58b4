"""Medians over images of a value that may be infinite, with a bootstrap over the images."""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from robustness.estimates.means import Row, part, row
from robustness.estimates.of_means import bootstrap, units
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity

INFINITE = 'infinite: half of the images or more have no finite value'
"""The note of a median that is infinite, which the table has as missing."""
_ROUNDING = 1e-9  # of sums of shares


def medians(
  quantity: Quantity, outcomes: Outcomes, by: Sequence[str] = (), *, confidence: float = 0.95
) -> pd.DataFrame:
  """Returns rows with medians by classifier and view, and with differences from the first.

  The median of an even number of images is the middle of the two central values. Intervals are
  percentiles of bootstrap samples of the independent units, see `of_means.bootstrap`.

  Args:
    quantity: the quantity that the median estimates.
    outcomes: the values of its statistic, for all classifiers.
    by: facets of views that select one view with each combination of their values.
    confidence: confidence of each interval, in (0, 1).
  """
  outcomes.require(quantity)
  first, *compared = outcomes.labels
  clusters = outcomes.clusters
  place = slice(None) if clusters is None else np.unique(clusters, return_inverse=True)[1]
  pairs = [*((label, '') for label in outcomes.labels), *((label, first) for label in compared)]
  rows: list[Row] = []
  for label, versus in pairs:
    for group in outcomes.groups(by):
      columns = [outcomes.values[k][:, group.views[0]] for k in (label, versus) if k]
      statistic = functools.partial(_difference, columns, place)
      (estimate,) = bootstrap(statistic, units(outcomes, label, [group]), confidence)
      if np.isnan(estimate.value):
        estimate = dataclasses.replace(estimate, note=INFINITE)
      rows.append(row(label, versus, quantity, group.facets, estimate, confidence))
  return part(rows)


def _difference(
  columns: Sequence[np.ndarray], place: np.ndarray | slice, weights: np.ndarray
) -> np.ndarray:
  """Returns the median of the first column [N] minus that of the second, [B].

  With one column it is the median of that. `weights`, [B, K], are the weights of the K units in
  each bootstrap sample, and `place`, [N], has the index of each row's unit.
  """
  of_rows = weights[:, place]
  values = [_weighted(column, of_rows) for column in columns]
  with np.errstate(invalid='ignore'):
    return values[0] - values[1] if len(values) > 1 else values[0]


def _weighted(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
  """Returns the medians [B] of values [N] with weights [B, N]."""
  order = np.argsort(values)
  shares = weights[:, order].cumsum(1) / weights.sum(1, keepdims=True)
  low, high = ((shares < 0.5 + offset).sum(1) for offset in (-_ROUNDING, _ROUNDING))
  return np.asarray((values[order][low] + values[order][high]) / 2)
