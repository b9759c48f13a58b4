"""One study of some rows: records of every classifier, and the results they are reduced to."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import pandas as pd

from robustness import parallel as parallel_package
from robustness.classifiers.wrap import aligned
from robustness.config.experiment import Execution
from robustness.core import random_keys
from robustness.core.rows import Rows
from robustness.estimates.quantity import ACCURACY, CLEAN_ACCURACY, Quantity
from robustness.estimates.table import assemble, select
from robustness.evaluation import failures as listing
from robustness.evaluation import one_view
from robustness.evaluation.records import Records
from robustness.evaluation.rounds import SequentialRecords
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.sequential import (
  RoundSettings,
  evaluate_in_rounds,
  passes,
  places_of_rounds,
)
from robustness.evaluation.study import (
  IMAGES,
  EstimatesFromRows,
  Evaluation,
  Findings,
  Study,
  of_recorded,
  prefixes,
)
from robustness.models.classifier import Classifier
from robustness.parallel.meeting import meet
from robustness.results import FAILURE_IMAGES, WHICH_NUMBERS, Results
from robustness.training.checkpoint import PROGRESS


def measure(
  study: Study,
  execution: Execution,
  classifiers: Sequence[Classifier],
  rows: Rows,
  folder: pathlib.Path,
  compare: Callable[[Rows], Findings],
) -> Results:
  """Records what a study asks of every classifier, unless it is recorded, and reduces it.

  Args:
    study: what is measured.
    execution: seed, sizes and devices.
    classifiers: none for a study of images alone.
    rows: of the data; their classes are matched to each classifier's.
    folder: of the records.
    compare: returns further findings of the rows as the classifiers see them.

  Raises:
    InputError: rows that do not fit a classifier or the study.
  """
  parallel = parallel_package.create(execution.parallel)
  used = classifiers if study.needs_classifier else []
  evaluated: list[tuple[Classifier | None, Rows]] = [(c, aligned(rows, c)) for c in used]
  evaluated = evaluated or [(None, rows)]
  recorded = {
    c.name if c else IMAGES: _recorded(execution, study, c, own, parallel, folder)
    for c, own in evaluated
  }
  evaluations = of_recorded(recorded)
  rows = evaluated[0][1]
  findings = study.reduce(evaluations, rows.image_shape)
  compared = compare(rows)
  key = random_keys.stream(execution.seed, study.stream)
  failed = _failures(study, evaluations, evaluated, key, execution.seed)
  stated = study.provenance(evaluations, rows.image_shape)
  described = _described(study, used)
  parts = [*findings.estimates, *compared.estimates]
  if isinstance(study, EstimatesFromRows):
    parts += study.row_estimates(rows, evaluations)
  table = _with_classes(assemble(parts), failed.estimates)
  return Results(
    study.name,
    described[0] if len(described) == 1 else described,
    {
      **rows.description,
      'image_shape': list(rows.image_shape),
      'class_names': list(rows.class_names),
    },
    {**study.describe(), **dataclasses.asdict(execution)},
    tables={
      **findings.tables,
      **passes(evaluations),
      **compared.tables,
      **failed.tables,
      WHICH_NUMBERS: stated,
    },
    arrays={
      **findings.arrays,
      **compared.arrays,
      **failed.arrays,
      **study.sample_arrays(rows, key, findings),
    },
    table=table,
    quantities=_declared(study, table),
  )


def _with_classes(table: pd.DataFrame, by_class: Sequence[pd.DataFrame]) -> pd.DataFrame:
  """Adds accuracies by class, but for a quantity that a study gives by class itself."""
  further = assemble(by_class)
  own = [name for name in set(further.quantity) if len(select(table, name, None, **{'class': ...}))]
  return assemble([table, further[~further.quantity.isin(own)]])


def _declared(study: Study, table: pd.DataFrame) -> tuple[Quantity, ...]:
  """Returns the study's quantities, and those of accuracies by class that it does not declare."""
  known, there = {quantity.name for quantity in study.quantities}, set(table.quantity)
  further = (
    dataclasses.replace(quantity, headline=False)
    for quantity in (ACCURACY, CLEAN_ACCURACY)
    if quantity.name in there - known
  )
  return (*study.quantities, *further)


def _described(study: Study, classifiers: Sequence[Classifier]) -> list[dict[str, Any]]:
  """Returns what results say of each classifier."""
  return [
    {'label': c.name, 'layers': list(c.select_layers(study.layers)), **c.provenance}
    for c in classifiers
  ] or [{'label': IMAGES, 'note': 'no classifier is used'}]


def _identity(classifier: Classifier) -> dict[str, Any]:
  """Returns what tells a classifier's records from others'; the digest of weights says more than
  the step they were saved at, which records of earlier versions lack."""
  return {k: v for k, v in classifier.provenance.items() if k not in PROGRESS}


def _failures(
  study: Study,
  evaluations: Sequence[Evaluation],
  evaluated: Sequence[tuple[Classifier | None, Rows]],
  key: jax.Array,
  seed: int,
) -> Findings:
  """Returns the most affected classes and the most damaged images, these as pictures too.

  Pictures are made by process 0 alone, which leaves the results.
  """
  if not (study.lists_failures and study.needs_classifier):
    return Findings()
  findings, places = listing.findings(study, evaluations, evaluated[0][1].image_shape)
  for evaluation, (classifier, rows), prefix in zip(
    evaluations, evaluated, prefixes(evaluations), strict=True
  ):
    own = places[evaluation.label]
    if evaluation.rounds:
      common = evaluation.rounds.common, rows.num_examples, seed, evaluation.rounds.design
      own[:, 0] = places_of_rounds(*common)[own[:, 0]]
    if len(own) and classifier and jax.process_index() == 0:
      pictures = one_view.damaged(study, rows, own, key, classifier)
      findings.arrays[prefix + FAILURE_IMAGES] = pictures
  return findings


def recording_name(study: Study, rows: Rows) -> str:
  """Returns the folder of what a study records of rows: the same for studies that share it,
  whichever parts of a battery run."""
  fixed = {'study': study.recording, 'data': dict(rows.description)}
  plain = json.dumps(fixed, sort_keys=True, default=str)
  return f'{study.stream}-{hashlib.sha256(plain.encode()).hexdigest()[:8]}'


def evaluator_for(
  execution: Execution,
  study: Study,
  classifier: Classifier | None,
  rows: Rows,
  parallel: parallel_package.Parallel,
) -> Evaluator:
  """Returns what makes the records of a study."""
  return Evaluator(
    classifier,
    study.views(rows.image_shape),
    random_keys.stream(execution.seed, study.stream),
    parallel,
    classifier.select_layers(study.layers) if classifier else (),
    classifier.select_outputs(study.outputs) if classifier else (),
    study.name,
  )


def _recorded(
  execution: Execution,
  study: Study,
  classifier: Classifier | None,
  rows: Rows,
  parallel: parallel_package.Parallel,
  folder: pathlib.Path,
) -> Records | SequentialRecords:
  """Returns the complete records of a classifier, or of images alone."""
  evaluator = evaluator_for(execution, study, classifier, rows, parallel)
  identity = {
    'classifier': _identity(classifier) if classifier else None,
    'data': dict(rows.description),
    'study': study.recording,
    'seed': execution.seed,
    'classes': list(rows.class_names),
  }
  process, folder = (jax.process_index(), jax.process_count()), folder / evaluator.name
  if design := study.sequential_design:
    sizes = execution.batch_size, execution.views_per_step
    settings = RoundSettings(execution.seed, *sizes, *process, meet)
    return evaluate_in_rounds(evaluator, rows, folder, identity, design, settings)
  layout = evaluator.layout(rows.num_examples, execution.batch_size, execution.views_per_step)
  records = Records(folder, layout, identity)
  evaluator.evaluate(rows, records, *process)
  meet(f'the records of {evaluator.name}')
  return records
