"""What a sequential design spent, against the fixed design that guarantees the same intervals."""

from __future__ import annotations

from collections.abc import Sequence

from robustness.estimates.fixed_width import fixed_size
from robustness.evaluation.outcomes import Evaluation
from robustness.results import Table

NAME = 'passes'
COLUMNS = (
  'classifier',
  'half width',
  'views',
  'images of a view, fewest',
  'images of a view, most',
  'images that all views have',
  'passes',
  'images of the fixed design',
  'passes of the fixed design',
  'saved',
)


def passes(evaluations: Sequence[Evaluation]) -> dict[str, Table]:
  """Returns the table `passes`, a row a classifier; nothing of a design that is not sequential.

  A pass is one image in one view. The fixed design shows every view to the fewest images with which
  the Clopper–Pearson interval of no error is wider than ± the half width; `saved` is the share of
  its passes that were not needed, below 0 where more were.
  """
  rows = []
  for evaluation in evaluations:
    rounds = evaluation.rounds
    if rounds is None:
      continue
    design, shown = rounds.design, rounds.shown
    images = fixed_size(design.half_width, design.confidence)
    spent, fixed = int(shown.sum()), images * rounds.num_views
    extent = int(shown.min()), int(shown.max()), evaluation.records.layout.num_rows
    known = [evaluation.label, design.half_width, rounds.num_views, *extent]
    rows.append([*known, spent, images, fixed, 1 - spent / fixed])
  return {NAME: Table(COLUMNS, rows)} if rows else {}
