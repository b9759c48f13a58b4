"""The measurements of an experiment, part after part, and what is reported above them."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence

from absl import logging

from input_pipeline.settings import DataSettings
from robustness import summaries
from robustness.config.battery import PARTS
from robustness.config.experiment import SINGLE, Experiment
from robustness.core.errors import InputError
from robustness.core.rows import Rows
from robustness.evaluation.finished import LEFT_OUT
from robustness.evaluation.study import Findings, Study
from robustness.measure import evaluator_for, measure, recording_name
from robustness.models.classifier import Classifier
from robustness.models.from_variables import match_labels
from robustness.parallel import create
from robustness.present import text
from robustness.results import Results, Table
from robustness.summaries.joined import Joined

Leave = Callable[..., list[tuple[pathlib.Path, str]]]


def measure_parts(
  experiment: Experiment,
  classifiers: list[Classifier],
  rows: Mapping[DataSettings, Rows],
  path: pathlib.Path,
  leave: Leave,
  compare: Callable[[Study, Rows], Findings],
) -> Results:
  """Records and reduces part after part; leaves all in a folder.

  Args:
    experiment: its measurements: one, or the parts of a battery.
    classifiers: none for studies of images alone.
    rows: by the settings of each part's data.
    path: of the workdir, or of a seed in it.
    leave: writes results, figures and the report in a folder and returns the figures.
    compare: returns what a study finds of its rows and those of the trainings.

  Returns:
    The results of the one part, or those above all parts.

  Raises:
    InputError: no part can be measured, or see `robustness.measure.measure`.
  """
  parts, figures = {}, {}
  left_out: list[list[str]] = []
  for name, part in experiment.measurements.items():
    folder = path if experiment.is_single else path / PARTS / name
    if not experiment.is_single:
      logging.info('part %s: %s on %d images', name, part.study.name, rows[part.data].num_examples)
    used, excluded = divided(experiment, name, classifiers, rows[part.data].image_shape)
    for label, why in excluded.items():
      logging.info('part %s leaves out %s: %s', name, label, why)
      left_out.append([name, label, why])
    if classifiers and not used:
      continue
    records = path / 'records'
    if not experiment.is_single:
      records /= recording_name(part.study, rows[part.data])
    parts[name] = measure(
      part.study,
      experiment.execution,
      used,
      rows[part.data],
      records,
      functools.partial(compare, part.study),
    )
    figures[name] = leave(parts[name], folder, part.study)
  if experiment.is_single:
    return parts[SINGLE]
  if not parts:
    raise InputError(f'no part of the battery can be measured: {left_out[0][2]}.')
  joined = summaries.join(
    experiment.battery.summary, parts, dataclasses.asdict(experiment.execution)
  )
  if left_out:
    joined.tables[LEFT_OUT] = Table(('part', 'classifier', 'why'), left_out)
  for name, own in joined.tables.items():
    for line in (name, *text.lines(own)) if name.partition(': ')[0] not in parts else ():
      logging.info('%s', line)
  presented = Joined(experiment.battery.summary, experiment.battery.studies, parts)
  leave(joined, path, presented, further=summaries.captioned(figures))
  return joined


def check_parts(
  experiment: Experiment, classifiers: list[Classifier], rows: Mapping[DataSettings, Rows]
) -> None:
  """Refuses, before anything is trained, what parts would be refused for when they are measured.

  Args:
    experiment: its measurements.
    classifiers: with shapes for the weights of those that are not trained yet.
    rows: by the settings of each part's data.

  Raises:
    InputError: rows that a study cannot show, or a classifier that cannot be measured.
  """
  for name, part in experiment.measurements.items():
    used, _ = divided(experiment, name, classifiers, rows[part.data].image_shape)
    strictest = sorted(used, key=lambda classifier: not classifier.host_function)[:1]
    for classifier in strictest if part.study.needs_classifier else ():
      own = match_labels(rows[part.data], classifier)
      parallel = create(experiment.execution.parallel)
      evaluator_for(experiment.execution, part.study, classifier, own, parallel).check(own)


def divided(
  experiment: Experiment,
  name: str,
  classifiers: Sequence[Classifier],
  image_shape: tuple[int, int, int],
) -> tuple[list[Classifier], dict[str, str]]:
  """Returns the classifiers that a part can measure, and why not the others, by their names.

  A callable has no gradient: an attack of it alone is refused, in a battery it is passed over.
  """
  study = experiment.measurements[name].study
  if experiment.is_single or not study.views(image_shape).uses_classifier:
    return list(classifiers), {}
  why = 'it is a callable, of which there is no gradient'
  used = [classifier for classifier in classifiers if not classifier.host_function]
  return used, {classifier.name: why for classifier in classifiers if classifier.host_function}
