"""One study of some rows: records of every classifier, and the results they are reduced to."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Mapping, Sequence

import jax
import pandas as pd

from robustness.config.experiment import Execution
from robustness.core import random_keys
from robustness.core.rows import Rows
from robustness.estimates.quantity import ACCURACY, CLEAN_ACCURACY
from robustness.estimates.table import assemble, select
from robustness.evaluation import failures, one_view
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
  StudiesTrainings,
  Study,
  of_recorded,
  prefixes,
)
from robustness.models.classifier import Classifier
from robustness.models.from_variables import match_labels
from robustness.parallel import Parallel, create
from robustness.parallel.processes import barrier
from robustness.results import FAILURE_IMAGES, WHICH_NUMBERS, Findings, Results
from robustness.training.checkpoint import PROGRESS


def measure(
  study: Study,
  execution: Execution,
  classifiers: Sequence[Classifier],
  rows: Rows,
  folder: pathlib.Path,
  training: Mapping[str, Rows] | None = None,
) -> Results:
  """Records what a study asks of every classifier, unless it is recorded, and reduces it.

  Args:
    study: what is measured.
    execution: seed, sizes and devices.
    classifiers: none for a study of images alone.
    rows: of the data; their classes are matched to each classifier's.
    folder: of the records.
    training: by classifier, the rows it was trained on here; None if the study does not compare
      them.

  Raises:
    InputError: rows that do not fit a classifier or the study.
  """
  parallel = create(execution.parallel)
  used = classifiers if study.needs_classifier else []
  evaluated: list[tuple[Classifier | None, Rows]] = [(c, match_labels(rows, c)) for c in used]
  evaluated = evaluated or [(None, rows)]
  evaluations = of_recorded(
    {
      c.name if c else IMAGES: _recorded(execution, study, c, own, parallel, folder)
      for c, own in evaluated
    }
  )
  rows = evaluated[0][1]
  findings = study.reduce(evaluations, rows.image_shape)
  compared = Findings()
  if training is not None and isinstance(study, StudiesTrainings):
    compared = study.training_findings(rows, training)
  key = random_keys.stream(execution.seed, study.stream)
  failed = _failures(study, evaluations, evaluated, key, execution.seed)
  described = [
    {'label': c.name, 'layers': list(c.select_layers(study.layers)), **c.provenance} for c in used
  ] or [{'label': IMAGES, 'note': 'no classifier is used'}]
  estimates = [*findings.estimates, *compared.estimates]
  if isinstance(study, EstimatesFromRows):
    estimates += study.row_estimates(rows, evaluations)
  table = _with_classes(assemble(estimates), failed.estimates)
  known, there = {quantity.name for quantity in study.quantities}, set(table.quantity)
  by_class = [q for q in (ACCURACY, CLEAN_ACCURACY) if q.name in there - known]
  shape = rows.image_shape
  return Results(
    study.name,
    described[0] if len(described) == 1 else described,
    {**rows.description, 'image_shape': list(shape), 'class_names': list(rows.class_names)},
    {**study.describe(), **dataclasses.asdict(execution)},
    tables={
      **findings.tables,
      **passes(evaluations),
      **compared.tables,
      **failed.tables,
      WHICH_NUMBERS: study.provenance(evaluations, shape),
    },
    arrays={
      **findings.arrays,
      **compared.arrays,
      **failed.arrays,
      **study.sample_arrays(rows, key, findings),
    },
    table=table,
    quantities=(
      *study.quantities,
      *(dataclasses.replace(quantity, headline=False) for quantity in by_class),
    ),
  )


def _with_classes(table: pd.DataFrame, by_class: Sequence[pd.DataFrame]) -> pd.DataFrame:
  """Adds accuracies by class, but for a quantity that a study gives by class itself."""
  further = assemble(by_class)
  own = [name for name in set(further.quantity) if len(select(table, name, None, **{'class': ...}))]
  return assemble([table, further[~further.quantity.isin(own)]])


def _failures(
  study: Study,
  evaluations: Sequence[Evaluation],
  evaluated: Sequence[tuple[Classifier | None, Rows]],
  key: jax.Array,
  seed: int,
) -> Findings:
  """Returns the most affected classes and the most damaged images; pictures of these on process 0,
  which writes the results."""
  if not (study.lists_failures and study.needs_classifier):
    return Findings()
  findings, places = failures.findings(study, evaluations, evaluated[0][1].image_shape)
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
  """Returns the folder of what a study records of rows in a battery: the same for studies that
  share it, whichever tasks run."""
  fixed = {'study': study.recording, 'data': dict(rows.description)}
  plain = json.dumps(fixed, sort_keys=True, default=str)
  return f'{study.stream}-{hashlib.sha256(plain.encode()).hexdigest()[:8]}'


def evaluator_for(
  execution: Execution, study: Study, classifier: Classifier | None, rows: Rows, parallel: Parallel
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
  parallel: Parallel,
  folder: pathlib.Path,
) -> Records | SequentialRecords:
  """Returns the complete records of a classifier, or of images alone."""
  evaluator = evaluator_for(execution, study, classifier, rows, parallel)
  # the digest of the weights says more than the step, which records of earlier versions lack
  provenance = classifier.provenance.items() if classifier else ()
  identity = {
    'classifier': {k: v for k, v in provenance if k not in PROGRESS} if classifier else None,
    'data': dict(rows.description),
    'study': study.recording,
    'seed': execution.seed,
    'classes': list(rows.class_names),
  }
  process, folder = (jax.process_index(), jax.process_count()), folder / evaluator.name
  if design := study.sequential_design:
    sizes = execution.batch_size, execution.views_per_step
    settings = RoundSettings(execution.seed, *sizes, *process, barrier)
    return evaluate_in_rounds(evaluator, rows, folder, identity, design, settings)
  layout = evaluator.layout(rows.num_examples, execution.batch_size, execution.views_per_step)
  records = Records(folder, layout, identity)
  evaluator.evaluate(rows, records, *process)
  barrier(f'the records of {evaluator.name}')
  return records
