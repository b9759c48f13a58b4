"""Medians over images of a value that may be infinite, with a bootstrap over the images."""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from robustness.estimates.means import Row, estimate_row, pairs_of, table_of_rows
from robustness.estimates.of_means import bootstrap, units_of_classifier
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity

INFINITE = 'infinite: half of the images or more have no finite value'
"""The note of a median that is infinite, which the table has as missing."""
_ROUNDING = 1e-9  # largest rounding error of a sum of shares


def medians(
  quantity: Quantity, outcomes: Outcomes, by: Sequence[str] = (), *, confidence: float = 0.95
) -> pd.DataFrame:
  """Returns a table with the median of a statistic for each classifier and view.

  A view is one way of perturbing all images. The first rows are the medians. The differences from
  the median of the first classifier follow. The median of an even number of images is the middle of
  the two central values. Intervals are percentiles of the bootstrap over independent units, see
  `of_means.bootstrap`.

  Args:
    quantity: the quantity that the median estimates.
    outcomes: the values of the statistic for all classifiers.
    by: facets (columns of `outcomes.views`) that together distinguish all views.
    confidence: confidence of each interval, in (0, 1).
  """
  outcomes.require(quantity)
  unit_of_row = np.arange(len(outcomes.values[outcomes.labels[0]]))
  if outcomes.clusters is not None:
    _, unit_of_row = np.unique(outcomes.clusters, return_inverse=True)
  rows: list[Row] = []
  for label, versus in pairs_of(outcomes.labels):
    for group in outcomes.groups(by):
      (view,) = group.views  # `by` has the facets that distinguish all views
      names = [label, versus] if versus else [label]
      columns = [outcomes.values[name][:, view] for name in names]
      statistic = functools.partial(_median_or_difference, columns, unit_of_row)
      (estimate,) = bootstrap(statistic, units_of_classifier(outcomes, label, [group]), confidence)
      if np.isnan(estimate.value):  # from `bootstrap` for an infinite median
        estimate = dataclasses.replace(estimate, note=INFINITE)
      rows.append(estimate_row(label, versus, quantity, group.facets, estimate, confidence))
  return table_of_rows(rows)


def _median_or_difference(
  columns: Sequence[np.ndarray], unit_of_row: np.ndarray, weights: np.ndarray
) -> np.ndarray:
  """Returns the weighted median of one column, or the difference of the medians of two, [B].

  Args:
    columns: one or two arrays [N] with a value per image. The median of the second is subtracted.
    unit_of_row: int [N], the index in 0..K − 1 of the independent unit that each image belongs to.
    weights: the weight of each unit in each of B bootstrap samples, [B, K].
  """
  row_weights = weights[:, unit_of_row]
  first, *subtracted = (_weighted_median(column, row_weights) for column in columns)
  with np.errstate(invalid='ignore'):  # two infinite medians have the difference NaN
    return first - subtracted[0] if subtracted else first


def _weighted_median(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
  """Returns the median of N values under each of B sets of weights, [B].

  If exactly half of the weight is on either side, the median is the middle of two values.

  Args:
    values: [N].
    weights: [B, N], at least 0.
  """
  order = np.argsort(values)
  share_up_to = weights[:, order].cumsum(1) / weights.sum(1, keepdims=True)
  low = (share_up_to < 0.5 - _ROUNDING).sum(1)  # index of the first value where it reaches ½
  high = (share_up_to < 0.5 + _ROUNDING).sum(1)  # of the first where it exceeds ½
  return np.asarray((values[order][low] + values[order][high]) / 2)
