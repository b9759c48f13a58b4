"""Checks of studies, rows and classifiers before a run trains or measures anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from input_pipeline.settings import DataSettings
from robustness import parallel
from robustness.building.builder import ClassifierBuilder
from robustness.config import experiment as experiments
from robustness.config.experiment import Execution, Experiment
from robustness.core.errors import renaming_section
from robustness.core.rows import Rows, refuse_unknown_classes
from robustness.evaluation.study import Recipes, Study
from robustness.measurement import evaluator_for
from robustness.models.classifier import Classifier
from robustness.models.projection import match_labels


def check_studies(builder: ClassifierBuilder, rows: Mapping[DataSettings, Rows]) -> Recipes:
  """Checks that each study can be measured with its rows and the classifiers' trainings.

  Args:
    builder: the classifiers of the experiment.
    rows: the rows of each task, by their settings.

  Returns:
    {label of a classifier: description of its training images}. The description is {} for a
    classifier that is not trained in this run.

  Raises:
    InputError: the rows or a training do not suit a study; the message names its section.
  """
  experiment = builder.experiment
  recipes = {
    label: builder.shown_in_training(recipe) if recipe.is_trained_here else {}
    for label, recipe in experiment.classifiers.items()
  }
  tasks = {}  # {section of the task's study: task}
  for name, task in experiment.measurements.items():
    section = 'config' if experiment.is_single else f'{experiments.BATTERY}.{name}'
    tasks[f'{section}.study'] = task
  for section, task in tasks.items():
    with renaming_section('config.study', section):
      check_study(task.study, rows[task.data], recipes, experiment.execution)
  # last, because the classifiers may take long to read
  for section, task in tasks.items():
    with renaming_section('config.study', section):
      check_classes(task.study, [*builder.checked_classifiers.values()], rows[task.data])
  return recipes


def check_study(study: Study, rows: Rows, recipes: Recipes, execution: Execution) -> None:
  """Checks that rows and trainings allow a study to be measured.

  `recipes` is {label of a classifier: description of the images that it is trained on}, and
  `execution` has the precision, which may round away what the study measures.

  Raises:
    InputError: the rows or a training do not suit the study.
  """
  if study.needs_labels:
    refuse_unknown_classes(rows.description, f'the study {study.name}')
  # raises if the precision would round away what the study measures
  experiments.check_precision(study, execution, rows.image_shape)
  study.views(rows.image_shape)  # raises if the views do not suit the shape of the images
  study.check(rows, recipes)


def check_classes(study: Study, classifiers: Sequence[Classifier], rows: Rows) -> None:
  """Checks that there are images of the classes that a study names, for each classifier.

  Raises:
    InputError: a classifier has no such class, or the rows have no image of it.
  """
  if study.needs_classifier:
    for classifier in classifiers:
      study.check_classes(match_labels(rows, classifier))


def check_measurable(
  experiment: Experiment, classifiers: Sequence[Classifier], rows: Mapping[DataSettings, Rows]
) -> None:
  """Checks that the compiled step of every study can be traced for its rows and classifiers.

  Classifiers need not be trained yet, because tracing takes only shapes. Of the classifiers without
  test-time adaptation one is traced. All others are traced, since their adaptations may differ.

  Raises:
    InputError: the views do not fit the rows or a classifier, or a classifier cannot adapt.
  """
  for task in experiment.measurements.values():
    measured, _ = split_supported(task.study, classifiers, rows[task.data], experiment.is_single)
    adapting = [classifier for classifier in measured if classifier.adaptation]
    not_adapting = [classifier for classifier in measured if not classifier.adaptation]
    check_step(task.study, experiment.execution, not_adapting, rows[task.data])
    for classifier in adapting:
      section = experiment.section_of_classifier(classifier.name)
      with renaming_section('config.classifier', section):
        check_step(task.study, experiment.execution, [classifier], rows[task.data])


def check_step(
  study: Study, execution: Execution, classifiers: Sequence[Classifier], rows: Rows
) -> None:
  """Checks that a study can be evaluated, by tracing its compiled step for one of the classifiers.

  A classifier that only the host can call is preferred. It has no gradient, so that a step which
  suits it suits all. `execution` has the seed and the kind of parallelism.

  Raises:
    InputError: the views do not fit the rows or the classifier.
  """
  if classifiers and study.needs_classifier:
    # True, for a classifier on the host, is the larger key
    strictest = max(classifiers, key=lambda classifier: classifier.host_function is not None)
    matched, devices = match_labels(rows, strictest), parallel.create(execution.parallel)
    evaluator_for(execution, study, strictest, matched, devices).check(matched)


def split_supported(
  study: Study, classifiers: Sequence[Classifier], rows: Rows, is_single: bool
) -> tuple[list[Classifier], dict[str, str]]:
  """Separates the classifiers that a task can measure from the others.

  Views that call the classifier, as attacks do, need gradients, which a classifier that only the
  host can call does not have. A battery of studies leaves such a classifier out of the task. A
  config with a single study (`is_single`) separates none, and refuses it later.

  Returns:
    The classifiers to measure, and {name of a classifier that is left out: reason}.
  """
  if is_single or not study.views(rows.image_shape).uses_classifier:
    return list(classifiers), {}
  reason = 'it is a callable, which has no gradient'
  measured = [classifier for classifier in classifiers if not classifier.host_function]
  return measured, {c.name: reason for c in classifiers if c.host_function}
