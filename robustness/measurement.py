"""Measures one study on images: records of every classifier, and the results computed from them.

In a sequential design views are shown in rounds until their intervals are narrow enough; the table
`passes` says how many passes (an image in a view) this saved.
"""

import dataclasses
import functools
import hashlib
import itertools
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import pandas as pd
from absl import logging

from robustness.classifiers import from_file
from robustness.config.experiment import Execution
from robustness.core import random_keys
from robustness.core.errors import KEYS, InputError
from robustness.core.precision import in_32_bits
from robustness.core.progress import phase
from robustness.core.rows import Rows, identity_of, random_order
from robustness.core.typing import Facts
from robustness.estimates.fixed_width import FixedWidth, fixed_size
from robustness.estimates.quantity import ACCURACY, CLEAN_ACCURACY, Quantity
from robustness.estimates.table import assemble
from robustness.evaluation import failures, one_view
from robustness.evaluation.adapting import AdaptingEvaluator
from robustness.evaluation.layout import even_part_size
from robustness.evaluation.outcomes import Evaluation, as_evaluations
from robustness.evaluation.provenance import IMAGE_DIGEST, require_same_images
from robustness.evaluation.records import Records
from robustness.evaluation.rounds import SequentialRecords
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.staged import StagedEvaluator
from robustness.evaluation.stored_pictures import stored_picture
from robustness.evaluation.study import IMAGES, EstimatesFromRows, StudiesTrainings, Study
from robustness.models.classifier import Classifier
from robustness.models.projection import match_labels
from robustness.parallel import KINDS, Parallel, create
from robustness.parallel.processes import barrier
from robustness.present.publish import Presentation
from robustness.results import (
  FAILURE_IMAGES,
  NO_CLASSIFIER,
  SINGLE,
  WHICH_NUMBERS,
  Findings,
  Results,
  Table,
)
from robustness.training.checkpoint import PROGRESS
from robustness.workdirs.finished_workdir import FinishedStudy

MAX_VIEWS_PER_STEP, MIN_CHUNKS = 32, 8
"""Most views in a step, and fewest chunks of views in a round with all views. The last chunk of a
round is padded, which wastes half a chunk on average.
"""
PASSES = 'passes'
"""Name of the table of passes."""


@in_32_bits()
def measure(
  study: Study,
  execution: Execution,
  classifiers: Sequence[Classifier],
  rows: Rows,
  folder: pathlib.Path,
  training: Mapping[str, Rows] | None = None,
  devices: Sequence[jax.Device] | None = None,
) -> Results:
  """Predicts images with every classifier as a study requires, and returns the results.

  Predictions are stored as records in `folder`. Existing records are not computed again.

  Args:
    study: the study.
    execution: seed, precision, batch size and parallelism.
    classifiers: the classifiers, the baseline first. Their classes are matched to the classes of
      the images.
    rows: the images.
    folder: folder of the records.
    training: {label of the classifier: images that it was trained on in this run}, for a study that
      compares them with `rows`.
    devices: devices of this process to use; None uses all.

  Raises:
    InputError: the images do not fit a classifier or the study.
  """
  parallel = create(execution.parallel) if devices is None else KINDS[execution.parallel](devices)
  needed = study.needed_rows(rows)
  if needed is not rows and len(classifiers) > 1:
    needed = needed.cached()  # the images of a selection are not decoded again by each classifier
  evaluated: list[tuple[Classifier | None, Rows]] = [(None, needed)]
  if classifiers and study.needs_classifier:
    evaluated = [(classifier, match_labels(needed, classifier)) for classifier in classifiers]
  records = {}
  for classifier, matched in evaluated:
    label = classifier.name if classifier else IMAGES
    records[label] = _record_answers(execution, study, classifier, matched, parallel, folder)
  evaluations = as_evaluations(records)
  with phase(f'{study.name}: estimates and pictures'):
    _check_same_images(evaluations)
    results = _results(study, execution, evaluated, evaluations, training)
  finished = FinishedStudy(folder, study, results, evaluations)
  # a function that returns {SINGLE: finished}, and can be pickled with the results, unlike a lambda
  results.studies = functools.partial(dict, {SINGLE: finished})
  return results


def _results(
  study: Study,
  execution: Execution,
  evaluated: Sequence[tuple[Classifier | None, Rows]],
  evaluations: Sequence[Evaluation],
  training: Mapping[str, Rows] | None,
) -> Results:
  """Assembles the results of a study from the records of its classifiers.

  The study reduces the records to findings: tables of estimates, arrays and further tables. Tables
  of the most affected images and pictures for figures are added, and facts about classifiers, data
  and settings.

  Args:
    study: the study.
    execution: seed and other settings of the run.
    evaluated: each classifier with its images; None stands for no classifier.
    evaluations: the records of each classifier, in the same order.
    training: {label: images that the classifier was trained on in this run}; None if the study does
      not compare them.
  """
  _, rows = evaluated[0]
  classifiers = [classifier for classifier, _ in evaluated if classifier]
  shape, key = rows.image_shape, random_keys.stream(execution.seed, study.stream)
  findings = study.reduce(evaluations, shape)
  training_findings = Findings()  # what the evaluated rows have in common with training rows
  if training is not None and isinstance(study, StudiesTrainings):
    training_findings = study.training_findings(rows, training)
  most_affected = _most_affected(study, evaluations, evaluated, key, execution.seed)
  samples = study.sample_arrays(rows, key, findings)
  estimates = [*findings.estimates, *training_findings.estimates]
  if isinstance(study, EstimatesFromRows):
    estimates += study.row_estimates(rows, evaluations)
  table = failures.with_classes(assemble(estimates), most_affected.estimates)
  described, layers_and_outputs = [], []  # of each classifier
  for classifier in classifiers:
    layers = classifier.select_layers(study.layers)
    layers_and_outputs.append((*layers, *classifier.select_outputs(study.outputs)))
    described.append({'label': classifier.name, 'layers': list(layers), **classifier.provenance})
  table = _in_order_of_layers(table, layers_and_outputs)
  tables = findings.tables | passes_table(evaluations) | training_findings.tables
  tables |= most_affected.tables
  tables[WHICH_NUMBERS] = study.which_numbers(evaluations, shape)
  return Results(
    study.name,
    classifiers=described or [{'label': IMAGES, 'note': NO_CLASSIFIER}],
    data={**rows.description, 'image_shape': list(shape), 'class_names': list(rows.class_names)},
    settings={**study.describe(), **dataclasses.asdict(execution)},
    tables=tables,
    arrays={**findings.arrays, **training_findings.arrays, **most_affected.arrays, **samples},
    table=table,
    quantities=_quantities(study, table),
    presentation=Presentation.of_study(study),
  )


def _quantities(study: Study, table: pd.DataFrame) -> tuple[Quantity, ...]:
  """Returns the quantities that a table of results has: the study's and accuracies of classes.

  `accuracy` and `clean_accuracy` of classes are added unless the study declares them. If both are
  added, the words of `accuracy` say that it is the mean over all views but the clean one.
  """
  undeclared = set(table.quantity) - {quantity.name for quantity in study.quantities}
  accuracy = ACCURACY
  if {ACCURACY.name, CLEAN_ACCURACY.name} <= undeclared:
    words = f'{ACCURACY.words}, mean over all views but the clean one'
    accuracy = dataclasses.replace(ACCURACY, words=words)
  added = [quantity for quantity in (accuracy, CLEAN_ACCURACY) if quantity.name in undeclared]
  of_classes = [dataclasses.replace(quantity, headline=False) for quantity in added]
  return (*study.described_quantities, *of_classes)


def _check_same_images(evaluations: Sequence[Evaluation]) -> None:
  """Raises InputError if classifiers on the same data were shown different images.

  This happens if files were changed before a run was resumed.
  """
  first, *later = (evaluation.records for evaluation in evaluations)
  for records in later:
    if records.identity['data'] == first.identity['data']:
      names = ('example_id', IMAGE_DIGEST)
      recorded = {name: records.column(name) for name in names}
      expected = {name: first.column(name) for name in names}
      require_same_images(recorded, expected, records.directory)


def _in_order_of_layers(table: pd.DataFrame, layers: Sequence[Sequence[str]]) -> pd.DataFrame:
  """Sorts estimates by the layer of the network; estimates without a layer come first.

  Args:
    table: table of results.
    layers: the names of the layers of each network, from input to output.
  """
  if 'layer' not in table:
    return table
  layer_names = dict.fromkeys(itertools.chain(*layers))
  index_by_layer = {name: index for index, name in enumerate(layer_names)}
  layer_index = table['layer'].map(index_by_layer).fillna(-1).to_numpy(int)  # -1: no layer
  return table.iloc[np.argsort(layer_index, kind='stable')].reset_index(drop=True)


def _positions_in_rounds(records: SequentialRecords, num_rows: int, seed: int) -> np.ndarray:
  """Returns the positions of the images that a sequential evaluation showed in all views, int [N].

  Args:
    records: the rounds of the evaluation.
    num_rows: number of all images.
    seed: the seed that decides which images are in a round.
  """
  rounds = range(records.num_full_rounds)
  return np.concatenate([indices_of_round(k, num_rows, seed, records.design) for k in rounds])


def _most_affected(
  study: Study,
  evaluations: Sequence[Evaluation],
  evaluated: Sequence[tuple[Classifier | None, Rows]],
  key: jax.Array,
  seed: int,
) -> Findings:
  """Returns the most affected classes and the most damaged images, as tables and pictures.

  Pictures are made only by process 0, which writes the results.

  Args:
    study: the study.
    evaluations: the records of each classifier.
    evaluated: each classifier with its images, in the same order; None stands for no classifier.
    key: root key of the study's random numbers.
    seed: the seed of the order of images in a sequential design.
  """
  if not (study.lists_failures and study.needs_classifier):
    return Findings()
  _, first_rows = evaluated[0]  # the images of all classifiers have the same shape
  findings, damaged_by_label = failures.findings(study, evaluations, first_rows.image_shape)
  for evaluation, (classifier, rows) in zip(evaluations, evaluated, strict=True):
    damaged = damaged_by_label[evaluation.label]  # int [F, 2], row and view of F images
    if not len(damaged) or classifier is None or jax.process_index():
      continue
    stored = [stored_picture(evaluation.records, row, view) for row, view in damaged.tolist()]
    if evaluation.rounds:  # row k of these records is not row k of the data
      positions = _positions_in_rounds(evaluation.rounds, rows.num_examples, seed)
      damaged[:, 0] = positions[damaged[:, 0]]
    prefix = '' if len(evaluations) == 1 else f'{evaluation.label}/'
    pictures = one_view.damaged_pictures(study, rows, damaged, key, classifier, stored)
    findings.arrays[prefix + FAILURE_IMAGES] = pictures
  return findings


def recording_name(study: Study, rows: Rows) -> str:
  """Returns a folder name STUDY-DIGEST for a study's records of some images.

  Studies with equal records have the same name. Several studies of one run therefore share records.
  """
  identity = {'study': study.recording, 'data': identity_of(rows)}
  encoded = json.dumps(identity, sort_keys=True, default=str).encode()
  return f'{study.stream}-{hashlib.sha256(encoded).hexdigest()[:8]}'


def evaluator_for(
  execution: Execution, study: Study, classifier: Classifier | None, rows: Rows, parallel: Parallel
) -> Evaluator:
  """Returns the evaluator that computes the records of a study.

  Args:
    execution: settings of the run, such as the seed.
    study: the study.
    classifier: the classifier; None for a study of images alone. A classifier with test-time
      adaptation is reset before each part of a stored set, such as one corruption at one severity
      of CIFAR-10-C.
    rows: the images.
    parallel: the devices.

  Raises:
    InputError: the adaptation needs clean images, and the data are a stored set of corrupted
      images.
  """
  views = study.views(rows.image_shape)
  evaluator_class: type[Evaluator] = StagedEvaluator if views.stages else Evaluator
  options: dict[str, Any] = {}
  if classifier and classifier.adaptation:
    evaluator_class = AdaptingEvaluator
    options['stream_rows'] = rows.num_examples // rows.description.get('parts', 1)
    if classifier.adaptation.num_clean_images and 'parts' in rows.description:
      raise InputError(
        f'{KEYS.classifier.adaptation.name} is {classifier.adaptation.name!r}, which first takes '
        'clean images, and those of a stored set are corrupted: set '
        f'{classifier.adaptation.key("fisher_weight")}=0.'
      )
  elif classifier and study.lists_failures and views.uses_classifier and not views.image_shape:
    # attacks are slow to run again, so that the images of mistakes are stored with the records
    table = study.view_table(rows.image_shape)
    if table.counted is None:  # all rows count in all views
      options['pictured'] = table
  return evaluator_class(
    classifier,
    views,
    random_keys.stream(execution.seed, study.stream),
    parallel,
    layers=classifier.select_layers(study.layers) if classifier else (),
    outputs=classifier.select_outputs(study.outputs) if classifier else (),
    summarise_output=study.summarise_output,
    phase=study.name,
    **options,
  )


def _record_answers(
  execution: Execution,
  study: Study,
  classifier: Classifier | None,
  rows: Rows,
  parallel: Parallel,
  folder: pathlib.Path,
) -> Records | SequentialRecords:
  """Computes the missing records of one classifier, and returns the complete records.

  Args:
    execution: seed, batch size and views per file.
    study: the study.
    classifier: the classifier; None for a study of images alone.
    rows: the images.
    parallel: the devices.
    folder: the folder of all records. The classifier has a subfolder with its label.
  """
  evaluator = evaluator_for(execution, study, classifier, rows, parallel)
  identity = {
    'classifier': _identifying_facts(classifier) if classifier else None,
    'data': identity_of(rows),
    'study': study.recording,
    'seed': execution.seed,
    'classes': list(rows.class_names),
  }
  classifier_folder = folder / evaluator.name
  if design := study.sequential_design:
    return evaluate_in_rounds(evaluator, rows, classifier_folder, identity, design, execution)
  layout = evaluator.layout(rows.num_examples, execution.batch_size, execution.views_per_step)
  records = Records(classifier_folder, layout, identity)
  evaluator.evaluate(rows, records, jax.process_index(), jax.process_count())
  barrier(f'the records of {evaluator.name}')
  return records


def _identifying_facts(classifier: Classifier) -> Facts:
  """Returns the facts that identify a classifier's weights in records.

  They are the provenance of the classifier. If that has no digest of the weights, outputs for fixed
  images are added. The progress of a training is left out, because the weights identify it.
  """
  facts = classifier.provenance
  if 'sha256' not in facts and from_file.KEY not in facts:
    facts = {**facts, from_file.KEY: from_file.probe(classifier)}  # outputs on fixed images
  return {k: v for k, v in facts.items() if k not in PROGRESS}


def evaluate_in_rounds(
  evaluator: Evaluator,
  rows: Rows,
  directory: pathlib.Path,
  identity: Facts,
  design: FixedWidth,
  execution: Execution,
) -> SequentialRecords:
  """Predicts images in rounds until the error in each view is known precisely enough.

  This is a sequential evaluation. Each round has the next n = `design.trials` images in a random
  order. It shows them only in the views (ways of perturbing images) with an error that is not
  precise enough yet. Rounds that are recorded already are not computed again. A fixed number of
  images with the same seed has the first images of the same order.

  Args:
    evaluator: the evaluator of all views.
    rows: at least `design.most_trials` images.
    directory: folder of the rounds' folders.
    identity: the settings that identify the records.
    design: the stopping rule, which decides which views the next round has.
    execution: has the seed of the order of the images, and the numbers of images and views in a
      file. The number 0 chooses by the size of the images, or by the number of all views.

  Returns:
    The records of all rounds.

  Raises:
    InputError: the images differ from recorded ones, or the folder has other or damaged records.
  """
  num_views, trials = len(evaluator.views), design.trials
  rounds = SequentialRecords(directory, design, num_views)
  views_per_step = execution.views_per_step
  if not views_per_step:
    largest = min(MAX_VIEWS_PER_STEP, num_views // MIN_CHUNKS)
    views_per_step = even_part_size(num_views, largest)
  # All rounds have shards of the same size, so that the step is compiled once.
  first_layout = evaluator.layout(trials, min(execution.batch_size, trials), views_per_step)
  while rounds.next_views.size:  # until every view is finished
    number, round_views = len(rounds.rounds), rounds.next_views
    layout = dataclasses.replace(first_layout, num_views=len(round_views))
    records = Records(rounds.folder(number), layout, rounds.identity_of_next(identity))
    missing = records.missing()
    if missing:
      title = f'{evaluator.name}: round {number + 1} of at most {design.looks}'
      logging.info('%s, %d of %d views', title, len(round_views), num_views)
    round_rows = rows.at(indices_of_round(number, rows.num_examples, execution.seed, design))
    # A complete round is evaluated only to compare its images with the records: the first round
    # always, the others if image files may have changed.
    if missing or number == 0 or round_rows.may_have_changed(records.begun, slice(None)):
      evaluator_of_round = evaluator.with_views(round_views)
      evaluator_of_round.evaluate(round_rows, records, jax.process_index(), jax.process_count())
    barrier(f'round {number + 1} of {evaluator.name}')
    rounds.add(records)
  return rounds


def indices_of_round(number: int, num_examples: int, seed: int, design: FixedWidth) -> np.ndarray:
  """Returns the indices of the images in a round of a sequential evaluation, int64 [n].

  They are in ascending order.

  Args:
    number: number of the round, from 0.
    num_examples: number of all images.
    seed: seed of the order of the images.
    design: the design with n trials in a round.
  """
  in_round = slice(number * design.trials, (number + 1) * design.trials)
  return np.sort(random_order(num_examples, seed)[in_round])


def passes_table(evaluations: Sequence[Evaluation]) -> dict[str, Table]:
  """Returns a table that says how much prediction a sequential evaluation has saved.

  A pass is the prediction of one image in one view (a way of perturbing images). The passes are
  compared with a fixed design of the same precision, which shows the same number of images in every
  view. This number is the smallest with which no Clopper–Pearson interval is wider than ± the
  half-width. `saved` is the saved share of passes, negative if more were needed.

  Returns:
    {'passes': table with a row per classifier}; {} if no evaluation was sequential.
  """
  lines = []
  for evaluation in evaluations:
    rounds = evaluation.rounds
    if rounds is None:
      continue
    design, images_by_view = rounds.design, rounds.shown
    fixed_images = fixed_size(design.half_width, design.confidence)
    num_passes, fixed_passes = int(images_by_view.sum()), fixed_images * rounds.num_views
    line = {
      'classifier': evaluation.label,
      'half width': design.half_width,
      'views': rounds.num_views,
      'images of a view, fewest': int(images_by_view.min()),
      'images of a view, most': int(images_by_view.max()),
      'images that all views have': evaluation.records.layout.num_rows,
      'passes': num_passes,
      'images of the fixed design': fixed_images,
      'passes of the fixed design': fixed_passes,
      'saved': 1 - num_passes / fixed_passes,
    }
    lines.append(line)
  return {PASSES: Table.from_lines(lines)} if lines else {}
