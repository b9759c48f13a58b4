"""`--dry_run`: what a run would do and take, measured in a short probe; writes nothing."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator

from absl import logging

from robustness import parallel, run
from robustness.classifiers.wrap import aligned
from robustness.config import experiment as experiments
from robustness.config.experiment import Experiment
from robustness.core.errors import InputError
from robustness.core.forecast import Forecast
from robustness.core.settings import Section, without_inherited
from robustness.evaluation import forecast as evaluation_forecast
from robustness.measure import evaluator_for, recording_name
from robustness.models.classifier import Classifier
from robustness.parallel.processes import ALONE
from robustness.present import text
from robustness.results import Table

UNUSED = pathlib.Path('unused')  # where a training would leave its checkpoints


def main(config: Section) -> int:
  """Shows what a config would take on this process's devices; returns the exit status."""
  run.set_logging()
  try:
    run.set_devices(ALONE)
    show(config)
  except InputError as error:
    return run.exit_with(run.BAD_INPUT, str(error))
  return 0


def show(config: Section) -> None:
  """Prints a table with a line for each piece of work, and the sums; refuses what a run does."""
  if 'predictions' in config:
    raise InputError('--dry_run: a run that scores predictions shows no images; just run it.')
  experiment = experiments.from_config(without_inherited(config))
  times = max(1, len(experiment.execution.seeds))
  pieces = []
  for piece in forecasts(experiment):
    logging.info('probed %s', piece.label)
    pieces.append(piece)
  rows = [
    (
      piece.label,
      piece.amount,
      f'{piece.images:,}',
      f'{piece.images_per_second:,.0f}',
      size(piece.record_bytes) if piece.record_bytes else '-',
      '-' if piece.memory_bytes is None else size(piece.memory_bytes),
      duration(piece.seconds),
    )
    for piece in pieces
  ]
  columns = ('work', 'amount', 'images', 'images/s', 'records', 'memory a device', 'time')
  for line in ('', *text.lines(Table(columns, rows)), ''):
    logging.info('%s', line)
  logging.info(
    'in all %s%s, records %s; nothing was written',
    duration(times * sum(piece.seconds for piece in pieces)),
    f' for {times} seeds' if times > 1 else '',
    size(times * sum(piece.record_bytes for piece in pieces)),
  )


def forecasts(experiment: Experiment) -> Iterator[Forecast]:
  """Yields what each training and evaluation of a run takes, in their order; of one seed.

  Tasks of a battery that share a recording count once, under the name of the first, and classifiers
  that a task cannot measure do not.
  """
  rows = run.OpenedRows(experiment)
  run.check_studies(experiment, rows)
  builder = run.builder_for(experiment, rows, UNUSED)
  run.check_measurable(experiment, list(builder.planned.values()), rows)
  classifiers: list[Classifier] = []
  trained = builder.to_train()
  for label, classifier in builder.planned.items():
    if label in trained:
      classifier, pieces = builder.training.forecast(label, trained[label])
      yield from pieces
    classifiers.append(classifier)
  execution, recordings = experiment.execution, set()
  ways = parallel.create(execution.parallel)
  for name, task in experiment.measurements.items():
    study, shown = task.study, rows[task.data]
    recording = recording_name(study, shown)
    if recording in recordings:
      continue
    recordings.add(recording)
    used, _ = run.split_supported(study, classifiers, shown, experiment.is_single)
    for measured in used if study.needs_classifier else [None]:
      own = aligned(shown, measured) if measured else shown
      evaluator = evaluator_for(execution, study, measured, own, ways)
      design = study.sequential_design
      count = design.most_trials if design else own.num_examples
      layout = evaluator.layout(count, execution.batch_size, execution.views_per_step)
      piece = evaluation_forecast.forecast(evaluator, own, layout)
      label = piece.label if experiment.is_single else f'{evaluator.name}: {name}'
      yield dataclasses.replace(piece, label=label)


def size(count: float) -> str:
  """Returns bytes as a reader wants them, such as `12.3 MiB`."""
  for unit in ('B', 'KiB', 'MiB', 'GiB'):
    if count < 1024:
      return f'{count:.0f} {unit}' if unit == 'B' else f'{count:.1f} {unit}'
    count /= 1024
  return f'{count:.1f} TiB'


def duration(seconds: float) -> str:
  """Returns a time in seconds, minutes or hours, such as `3 min`."""
  if seconds < 100:
    return f'{seconds:.0f} s'
  return f'{seconds / 60:.0f} min' if seconds < 6000 else f'{seconds / 3600:.1f} h'
