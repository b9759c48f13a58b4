"""The evaluation of a sequential design round by round, and how much of the work it saved."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from robustness.core.rows import Rows, random_order
from robustness.estimates.fixed_width import fixed_size
from robustness.evaluation.outcomes import Evaluation
from robustness.evaluation.records import Layout, Records
from robustness.evaluation.rounds import Design, SequentialRecords
from robustness.evaluation.runner import Evaluator, even_part
from robustness.results import Table

MOST_VIEWS, FEWEST_CHUNKS = 32, 8
"""Of a step. Its last chunk is filled up, which costs half a chunk a round in the mean."""
PASSES = 'passes'
PASSES_COLUMNS = (
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


@dataclasses.dataclass(frozen=True)
class RoundSettings:
  """How rounds are carried out.

  Attributes:
    seed: of the order of the rows.
    batch_size, views_per_step: of `Execution`; 0 chooses.
    process, processes: this one and how many share the work.
    meet: returns when all processes have come to a point of that name.
  """

  seed: int
  batch_size: int = 0
  views_per_step: int = 0
  process: int = 0
  processes: int = 1
  meet: Callable[[str], None] = lambda name: None


def evaluate_in_rounds(
  evaluator: Evaluator,
  rows: Rows,
  directory: pathlib.Path,
  identity: Mapping[str, Any],
  design: Design,
  settings: RoundSettings,
) -> SequentialRecords:
  """Records rounds until all views are finished; those that are recorded are read.

  Round r shows places [r n, (r + 1) n) of the seeded order of rows, in which a random subset of a
  fixed design is chosen too: the rows of the first rounds are those that a fixed design with so
  many images, of the same seed and the same images in all, would show.

  Args:
    evaluator: of all views.
    rows: at least `design.most_trials`, with `at`.
    directory: of the rounds' folders.
    identity: of what is recorded.
    design: which views go on.
    settings: how.

  Raises:
    InputError: see `Evaluator.evaluate` and `Records`.
  """
  rounds = SequentialRecords(directory, design, len(evaluator.views))
  size = _size(evaluator, design, settings)
  while rounds.next_views.size:
    number, views = len(rounds.rounds), rounds.next_views
    layout = Layout(design.trials, len(views), size.block_rows, size.chunk_views)
    records = Records(rounds.folder(number), layout, rounds.identity_of_next(identity))
    if records.missing():
      logging.info(
        '%s: round %d of at most %d, %d of %d views',
        *(evaluator.name, number + 1, design.looks, len(views), rounds.num_views),
      )
      shown = rows.at(places_of_round(number, rows.num_examples, settings.seed, design))
      evaluator.of_views(views).evaluate(shown, records, settings.process, settings.processes)
    settings.meet(f'round {number + 1} of {evaluator.name}')
    rounds.add(records)
  return rounds


def places_of_round(number: int, num_examples: int, seed: int, design: Design) -> np.ndarray:
  """Returns which rows a round shows, int64 [n], ascending; see `evaluate_in_rounds`."""
  places = slice(number * design.trials, (number + 1) * design.trials)
  return np.sort(random_order(num_examples, seed)[places])


def places_of_rounds(count: int, num_examples: int, seed: int, design: Design) -> np.ndarray:
  """Returns which rows the first rounds show, in the order of their records."""
  return np.concatenate([places_of_round(k, num_examples, seed, design) for k in range(count)])


def _size(evaluator: Evaluator, design: Design, settings: RoundSettings) -> Layout:
  """Returns a layout with the size of the shards of every round."""
  count = len(evaluator.views)
  views = even_part(count, max(1, min(MOST_VIEWS, count // FEWEST_CHUNKS)))
  views = settings.views_per_step or views
  return evaluator.layout(design.trials, min(settings.batch_size, design.trials), views)


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
  return {PASSES: Table(PASSES_COLUMNS, rows)} if rows else {}
