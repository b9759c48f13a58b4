"""Checks of studies, rows and classifiers before a run trains or measures anything."""

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
  """Checks that every study of a run can be measured on its images and classifiers.

  Args:
    builder: the classifiers of the run.
    rows: {settings of data: images} for the studies.

  Returns:
    {name of a classifier: what it sees in training}. The value is {} for a classifier that this run
    does not train.

  Raises:
    InputError: the images or a training do not suit a study; the message names the section of the
      config.
  """
  experiment = builder.experiment
  recipes = {
    label: builder.shown_in_training(recipe) if recipe.is_trained_here else {}
    for label, recipe in experiment.classifiers.items()
  }
  measurements = experiment.measurements.items()
  tasks = {experiment.section_of_study(name): task for name, task in measurements}
  for section, task in tasks.items():
    with renaming_section('config.study', section):
      check_study(task.study, rows[task.data], recipes, experiment.execution)
  # last, because the classifiers may take long to read
  for section, task in tasks.items():
    with renaming_section('config.study', section):
      check_classes(task.study, [*builder.checked_classifiers.values()], rows[task.data])
  return recipes


def check_study(study: Study, rows: Rows, recipes: Recipes, execution: Execution) -> None:
  """Checks that a study can be measured on some images and classifiers.

  Args:
    study: the study.
    rows: the images.
    recipes: {name of a classifier: what it sees in training}.
    execution: settings of the run. Its precision must resolve the effects that the study measures.

  Raises:
    InputError: the images or a training do not suit the study.
  """
  if study.needs_labels:
    refuse_unknown_classes(rows.description, f'the study {study.name}')
  # raises if the precision would round away what the study measures
  experiments.check_precision(study, execution, rows.image_shape)
  study.views(rows.image_shape)  # raises if the views do not suit the shape of the images
  study.check_labels(recipes)
  study.check(rows, recipes)


def check_classes(study: Study, classifiers: Sequence[Classifier], rows: Rows) -> None:
  """Checks that every class named in a study's settings exists and has images.

  Raises:
    InputError: a classifier has no such class, or no image has this class.
  """
  if study.needs_classifier:
    for classifier in classifiers:
      study.check_classes(match_labels(rows, classifier))


def check_measurable(
  experiment: Experiment, classifiers: Sequence[Classifier], rows: Mapping[DataSettings, Rows]
) -> None:
  """Checks that JAX can trace the compiled step of every study, with all classifiers.

  Tracing takes shapes only, so that classifiers need not be trained yet. One classifier stands for
  all without test-time adaptation. Each classifier with such an adaptation is traced by itself.

  Raises:
    InputError: the perturbations do not fit the images or a classifier, or a classifier cannot
      adapt.
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
  """Checks that JAX can trace the compiled step of a study, with one of the classifiers.

  A classifier that is not written in JAX is preferred. It has no gradient, and what works without
  gradients works with all other classifiers.

  Args:
    study: the study.
    execution: settings of the run, such as seed and parallelism.
    classifiers: the classifiers to choose from.
    rows: the images.

  Raises:
    InputError: the perturbations do not fit the images or the classifier.
  """
  if classifiers and study.needs_classifier:
    # a classifier that is not written in JAX has a `host_function`; True is larger than False
    strictest = max(classifiers, key=lambda classifier: classifier.host_function is not None)
    matched, devices = match_labels(rows, strictest), parallel.create(execution.parallel)
    evaluator_for(execution, study, strictest, matched, devices).check(matched)


def split_supported(
  study: Study, classifiers: Sequence[Classifier], rows: Rows, is_single: bool
) -> tuple[list[Classifier], dict[str, str]]:
  """Separates the classifiers that a study can measure from the others.

  Studies with attacks need gradients. A classifier that is not written in JAX has none, and a
  battery of studies leaves it out of such a study.

  Args:
    study: the study.
    classifiers: all classifiers.
    rows: the images.
    is_single: whether the config has only one study. All classifiers are then returned, and an
      error follows later.

  Returns:
    (classifiers to measure, {name of a classifier that is left out: reason}).
  """
  # views that use the classifier, such as attacks, need its gradient
  if is_single or not study.views(rows.image_shape).uses_classifier:
    return list(classifiers), {}
  reason = 'it is a callable, which has no gradient'
  measured = [classifier for classifier in classifiers if not classifier.host_function]
  return measured, {c.name: reason for c in classifiers if c.host_function}
