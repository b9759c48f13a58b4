"""From a config's classifier section to a classifier: weights loaded, or a network trained."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from input_pipeline.settings import Preparation
from robustness.classifiers import initial_weights
from robustness.classifiers.initial_weights import InitialWeights
from robustness.classifiers.network_training import NetworkTraining
from robustness.classifiers.wrap import wrap
from robustness.config.experiment import Experiment
from robustness.config.recipe import ClassifierSettings
from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.core.rows import Rows
from robustness.evaluation.row_checks import check_fit
from robustness.labels import label_space
from robustness.models import catalog, from_file, hub, pretrained, weights
from robustness.models.classifier import Classifier, from_linen
from robustness.models.inputs import Inputs
from robustness.models.pretrained import Weights
from robustness.models.projection import project, restrict
from robustness.training.checkpoint import FACTS_NAME, load_variables


@dataclasses.dataclass(frozen=True)
class ClassifierBuilder:
  """Builds the classifiers of a run.

  Attributes:
    training: the config, the rows to be evaluated, and how networks are trained on others.
  """

  training: NetworkTraining

  @property
  def experiment(self) -> Experiment:
    """The checked config."""
    return self.training.experiment

  @property
  def rows(self) -> Rows:
    """What will be evaluated; fixes image shape and class names."""
    return self.training.rows

  def build(self) -> list[Classifier]:
    """Loads or trains every classifier of the config, in its order.

    All that can be refused is refused before the first training begins.

    Raises:
      InputError: see `loaded`.
    """
    loaded = self.loaded()
    return [
      loaded[label] if label in loaded else self.training.classifier(label, recipe)
      for label, recipe in self.experiment.classifiers.items()
    ]

  def to_train(self) -> dict[str, ClassifierSettings]:
    """Returns the recipes that are trained here, by label."""
    return {
      label: recipe
      for label, recipe in self.experiment.classifiers.items()
      if not (recipe.weights or from_file.is_reference(recipe.name) or published(recipe))
    }

  def loaded(self) -> dict[str, Classifier]:
    """Loads the classifiers that are not trained here, and checks all of them.

    Raises:
      InputError: neither weights nor permission to train, weights that do not fit, or a layer that
        the study asks for and a network does not have.
    """
    settings, trained = self.experiment.classifiers, self.to_train()
    loaded = {
      label: self._load(label, recipe) for label, recipe in settings.items() if label not in trained
    }
    for label, recipe in settings.items():
      _check_front_end(label, recipe, self.rows.image_shape)
      planned = loaded[label] if label in loaded else self._planned(label, recipe)
      for study in self.experiment.studies:
        if study.needs_classifier:
          check_fit(planned, aligned(self.rows, planned), study.views(self.rows.image_shape))
          planned.select_layers(study.layers)
    return loaded

  def _planned(self, label: str, settings: ClassifierSettings) -> Classifier:
    """Returns the classifier that a training will give, with shapes for weights."""
    if not settings.train:
      known_weights = [entry.name for entry in pretrained.of_architecture(settings.name)]
      known = f' or a name ({", ".join(known_weights)})' if known_weights else ''
      raise InputError(
        f'{label} has no weights: give --config.classifier.weights=FILE{known}, or '
        'train it in this workdir with --config.classifier.train=True.'
      )
    architecture, shape = catalog.get(settings.name), self.rows.image_shape
    names = self.training.class_names(settings)
    module = architecture.build(len(names))
    images = jax.ShapeDtypeStruct((1, *shape), jnp.float32)
    variables = jax.eval_shape(module.init, jax.random.key(0), images)
    normalisation = initial_weights.load(settings, shape) or architecture
    planned = from_linen(
      module,
      variables,
      name=label,
      input_shape=shape,
      class_names=names,
      mean=normalisation.mean,
      std=normalisation.std,
      stages=architecture.stages,
      front_end=settings.front_end,
    )
    return projected(planned, settings, self.rows.class_names)

  def _load(self, label: str, settings: ClassifierSettings) -> Classifier:
    if from_file.is_reference(settings.name):
      return self._load_own(label, settings)
    path, entry = expanded(settings.weights), published(settings)
    if entry:
      classifier = self._load_published(label, settings, entry)
    elif path.is_dir():
      variables, facts = load_variables(path)
      _refuse_other_training(path, facts, settings, self.rows.class_names)
      trained = InitialWeights(
        path.name, variables, tuple(facts['class_names']), tuple(facts['mean']), tuple(facts['std'])
      )
      classifier = wrap(
        label,
        settings,
        self._precision,
        variables,
        tuple(facts['image_shape']),
        self.rows.class_names,
        {'weights': path.name},
        trained,
      )
    else:
      classifier = self._load_file(label, settings, path)
    return projected(classifier, settings, self.rows.class_names)

  def _load_own(self, label: str, settings: ClassifierSettings) -> Classifier:
    """Returns the classifier of a user's Python file, which brings its own weights."""
    if settings.weights or settings.train:
      raise InputError(
        f'{settings.name} brings its own weights: leave config.classifier.weights '
        'empty and config.classifier.train False.'
      )
    return projected(from_file.load(settings.name, label), settings, self.rows.class_names)

  def _load_file(self, label: str, settings: ClassifierSettings, path: pathlib.Path) -> Classifier:
    """Loads weights that nothing is known of but their file; a network for ImageNet's classes if
    the data have some of them, else one for the classes of the data."""
    architecture, names = catalog.get(settings.name), self.rows.class_names
    own = weights.saved_class_names(path)
    if own:
      names = own
    elif label_space.is_imagenet(names) or settings.label_space:
      names = label_space.get(label_space.IMAGENET).class_names
    shape = self.rows.image_shape if self.experiment.data.crop else architecture.input_shape
    variables, notes = weights.load_with_notes(
      path, architecture, len(names), shape, settings.positions
    )
    return wrap(
      label, settings, self._precision, variables, shape, names, {'weights': path.name, **notes}
    )

  def _load_published(self, label: str, settings: ClassifierSettings, entry: Weights) -> Classifier:
    given = expanded(settings.weights)
    fetched = (
      hub.Fetched(given, 'a local file')
      if settings.weights and given.is_file()
      else hub.fetch(entry)
    )
    architecture, names = catalog.get(entry.architecture), label_space.get(entry.label_space)
    shape = (entry.input_size, entry.input_size, architecture.input_shape[2])
    if self.experiment.data.crop:  # the user decides what all networks see
      shape = self.rows.image_shape
    variables, notes = weights.load_with_notes(
      fetched.path, architecture, len(names.class_names), shape, settings.positions
    )
    facts = {
      'weights': entry.name,
      'file': fetched.path.name,
      'revision': fetched.revision,
      'preprocessing': entry.preprocessing,
      'licence': entry.licence,
      **notes,
    }
    return wrap(label, settings, self._precision, variables, shape, names.class_names, facts, entry)

  @property
  def _precision(self) -> str:
    return self.experiment.execution.precision


def _check_front_end(
  label: str, recipe: ClassifierSettings, image_shape: tuple[int, int, int]
) -> None:
  """Refuses a front end that does not fit the images, or a classifier that takes none."""
  if not recipe.front_end:
    return
  if from_file.is_reference(recipe.name):
    raise InputError(
      f'{label} is a classifier of a file, which brings its own front end: set '
      "config.classifier.front_end.name=''."
    )
  images = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)
  jax.eval_shape(Inputs(front_end=recipe.front_end), images)


def projected(
  classifier: Classifier, settings: ClassifierSettings, class_names: tuple[str, ...]
) -> Classifier:
  """Returns the classifier in the label space that its settings name, if any.

  Args:
    classifier: with all its classes.
    settings: its recipe.
    class_names: of the evaluated rows, which the label space 'data' has.
  """
  if not settings.label_space:
    return classifier
  if settings.label_space == label_space.DATA:
    return restrict(classifier, class_names)
  return project(classifier, settings.label_space, settings.merge)


def channels(settings: ClassifierSettings) -> int:
  """Returns how many channels the images of a classifier have."""
  if from_file.is_reference(settings.name):
    return from_file.load(settings.name, settings.name).input_shape[2]
  return catalog.get(settings.name).input_shape[2]


def published(settings: ClassifierSettings) -> Weights | None:
  """Returns the published weights that the settings mean, or None."""
  if settings.train and not settings.weights:
    return None
  return hub.resolve(settings.weights, settings.name)


def preparation(experiment: Experiment) -> Preparation | None:
  """Returns how published weights want their images; None if the config says it, or none are used,
  or images are resized for each classifier on the device.

  Raises:
    InputError: classifiers that want different images, and a config that does not say which.
  """
  data = experiment.data
  if data.resize or data.crop or data.resized_on_device:
    return None
  sections = experiment.classifiers.values()
  known = [published(recipe) or initial_weights.published(recipe) for recipe in sections]
  entries = [entry for entry in known if entry]
  preparations: dict[tuple[int, int, str], str] = {}
  for entry in entries:
    preparations.setdefault((entry.input_size, entry.resize, entry.interpolation), entry.name)
  if len(preparations) > 1:
    sizes = ', '.join(
      f'{name}: {side} of {resize} pixels, {interpolation}'
      for (side, resize, interpolation), name in preparations.items()
    )
    raise InputError(
      f'the classifiers want their images prepared differently ({sizes}): run '
      'them apart, or set --config.data.resize and --config.data.crop for all.'
    )
  return next((Preparation(name, *how) for how, name in preparations.items()), None)


def aligned(rows: Rows, classifier: Classifier) -> Rows:
  """Returns the rows with labels that are positions among the classifier's classes."""
  return label_space.align(rows, classifier.class_names, classifier.aliases, classifier.name)


def _refuse_other_training(
  path: os.PathLike[str],
  facts: Mapping[str, Any],
  settings: ClassifierSettings,
  class_names: tuple[str, ...],
) -> None:
  name, front_end = settings.name, settings.front_end
  if facts['architecture'] != name:
    raise InputError(
      f'{path} holds {facts["architecture"]!r} ({FACTS_NAME}); the config asks '
      f'for {name!r}: --config.classifier.name={facts["architecture"]}.'
    )
  here, there = front_end.describe() if front_end else None, facts.get('front_end')
  if here != there:
    raise InputError(
      f'{path} was trained with the front end {there or "none"} ({FACTS_NAME}); the config has '
      f'{here or "none"}: set config.classifier.front_end as it was.'
    )
  if tuple(facts['class_names']) != tuple(class_names):
    raise InputError(
      f'{path} was trained on {len(facts["class_names"])} classes '
      f'({", ".join(facts["class_names"][:5])}, ...); the data have '
      f'{len(class_names)} ({", ".join(class_names[:5])}, ...).'
    )
