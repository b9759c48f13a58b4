"""The table of results of neighbor sets: accuracy on anchors and on the worst of their neighbors.

An anchor with its neighbors is the unit of all intervals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from robustness.estimates.means import means
from robustness.estimates.outcomes import Outcomes as Table
from robustness.estimates.quantity import Quantity
from robustness.metrics import neighbor_sets as metrics
from robustness.metrics.neighbor_sets import Outcomes

PAPER = 'shankar2021image'
ANCHOR = Quantity(
  'accuracy_anchor', 'accuracy on anchor frames', better='higher', headline=True, paper=PAPER
)
PM_K = Quantity(
  'accuracy_pm_k',
  'accuracy on the worst frame up to k frames away (pm-k)',
  better='higher',
  headline=True,
  paper=PAPER,
)
NEIGHBORS_ONLY = Quantity(
  'accuracy_pm_k_neighbors_only',
  'accuracy on the worst neighbor up to k frames away, without the anchor',
  better='higher',
)
DROP = Quantity(
  'drop_pm_k',
  'drop from the anchor to the worst frame up to k frames away',
  better='lower',
  low=-1,
  headline=True,
  paper=PAPER,
)
OFFSET_ERROR = Quantity('error', 'error by signed distance from the anchor', better='lower')
CONDITIONAL = Quantity(
  'conditional_accuracy', 'accuracy k frames from an anchor that is right', better='higher'
)
REVIEW = {
  'anchor': Quantity('review_anchor', 'change by review of accuracy on anchor frames', low=-1),
  'worst': Quantity('review_worst', 'change by review of accuracy pm-k', low=-1),
  'drop': Quantity('review_drop', 'change by review of the drop pm-k', low=-2, high=2),
}
"""What the review of frames changes, by its name in `neighbor_analysis.review_impact`."""
QUANTITIES = (ANCHOR, PM_K, NEIGHBORS_ONLY, DROP, OFFSET_ERROR, CONDITIONAL, *REVIEW.values())


def accuracies(
  outcomes: Mapping[str, Outcomes],
  k: int,
  include_anchor: bool = True,
  confidence: float = 0.95,
  facets: Mapping[str, Any] | None = None,
) -> list[pd.DataFrame]:
  """Returns accuracy on anchors, pm-k and the drop at k, with paired differences.

  Args:
    outcomes: by classifier, on the same sets.
    k: largest distance from the anchor, in frames.
    include_anchor: whether the anchor is among the frames of a set.
    confidence: of all intervals.
    facets: {facet: value} of these sets, such as a class.
  """
  at_k: dict[str, Any] = {'facets': {**(facets or {}), 'k': k}, 'confidence': confidence}
  anchor = {label: own.anchor[:, None] for label, own in outcomes.items()}
  worst = {
    label: metrics.worst_right(own, k, include_anchor)[:, None] for label, own in outcomes.items()
  }
  drop = {label: anchor[label] & ~worst[label] for label in outcomes}
  if not include_anchor:
    drop = {label: anchor[label].astype(float) - worst[label] for label in outcomes}
  one = pd.DataFrame(index=range(1))
  return [
    means(ANCHOR, Table(anchor, one), test=True, facets=facets, confidence=confidence),
    means(PM_K, Table(worst, one), test=True, **at_k),
    means(DROP, Table(drop, one), **at_k),
  ]


def curves(
  outcomes: Mapping[str, Outcomes], k: int, include_anchor: bool = True, confidence: float = 0.95
) -> list[pd.DataFrame]:
  """Returns pm-0 to pm-(k − 1), pm-0 to pm-k of neighbors alone, errors by signed distance, and
  the accuracy at exactly 1 to k frames from a right anchor; see `accuracies`."""
  distances = pd.DataFrame({'k': range(k + 1)})
  parts = []
  for quantity, with_anchor, last in ((PM_K, include_anchor, k), (NEIGHBORS_ONLY, False, k + 1)):
    right = {
      label: np.stack([metrics.worst_right(own, j, with_anchor) for j in range(last)], 1)
      for label, own in outcomes.items()
    }
    table = Table(right, distances[:last])
    parts.append(means(quantity, table, ('k',), confidence=confidence, paired=False))
  first = next(iter(outcomes.values()))
  offsets = np.unique(np.append(first.offset, 0))
  wrong = {label: _by_offset(own, ~own.neighbor, ~own.anchor) for label, own in outcomes.items()}
  there = _by_offset(first, np.ones(len(first.offset), bool), np.ones(first.num_anchors, bool))
  table = Table(wrong, pd.DataFrame({'offset': offsets}), dict.fromkeys(wrong, there))
  parts.append(means(OFFSET_ERROR, table, ('offset',), confidence=confidence, paired=False))
  near = (offsets != 0) & (np.abs(offsets) <= k)
  views = pd.DataFrame({'k': np.abs(offsets[near])})
  for label, own in outcomes.items():
    given = {label: there[:, near] & own.anchor[:, None]}
    table = Table({label: ~wrong[label][:, near]}, views, given)
    parts.append(means(CONDITIONAL, table, ('k',), confidence=confidence))
  return [part.sort_values('k', kind='stable') if 'k' in part else part for part in parts]


def _by_offset(outcomes: Outcomes, of_pairs: np.ndarray, of_anchors: np.ndarray) -> np.ndarray:
  """Returns booleans of pairs [P] and of anchors [A] by anchor and offset, [A, O]; False where
  there is no frame."""
  offsets, place = np.unique(np.append(outcomes.offset, 0), return_inverse=True)
  table = np.zeros((outcomes.num_anchors, len(offsets)), bool)
  table[outcomes.group, place[:-1]] = of_pairs
  table[:, place[-1]] = of_anchors
  return table
