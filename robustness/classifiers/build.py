"""From a config's classifier section to a classifier: weights loaded, or a network trained."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from absl import logging

from input_pipeline.settings import DataSettings, Preparation
from robustness.attacks import balls
from robustness.classifiers import initial_weights
from robustness.classifiers.initial_weights import InitialWeights
from robustness.classifiers.network_training import NetworkTraining
from robustness.classifiers.wrap import aligned, projected, wrap
from robustness.config.experiment import Experiment
from robustness.config.recipe import ClassifierSettings
from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.core.pixels import BFLOAT16_STEP
from robustness.core.rows import Rows
from robustness.evaluation.row_checks import check_fit
from robustness.models import catalog, from_file, hub, label_space, weights
from robustness.models.classifier import Classifier, from_linen
from robustness.models.inputs import Inputs
from robustness.models.pretrained import Weights
from robustness.training.checkpoint import FACTS_NAME, progress


@dataclasses.dataclass(frozen=True)
class ClassifierBuilder:
  """Builds the classifiers of a run.

  Attributes:
    training: the config, the rows to be evaluated, and how networks are trained on others.
    opened: the rows of the parts of a battery by their settings; parts that are not in it have the
      rows to be evaluated.
  """

  training: NetworkTraining
  opened: Mapping[DataSettings, Rows] = dataclasses.field(default_factory=dict)

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
      InputError: see `planned`.
    """
    trained = self.to_train()
    return [
      self.training.classifier(label, trained[label]) if label in trained else planned
      for label, planned in self.planned.items()
    ]

  def to_train(self) -> dict[str, ClassifierSettings]:
    """Returns the recipes that are trained here, by label."""
    return {
      label: recipe
      for label, recipe in self.experiment.classifiers.items()
      if not (recipe.weights or from_file.is_classifier(recipe.name) or published(recipe))
    }

  @property
  def begins(self) -> bool:
    """Whether a training will begin, of which there is no checkpoint yet."""
    return not all(map(self.training.is_begun, self.to_train()))

  @functools.cached_property
  def planned(self) -> dict[str, Classifier]:
    """Every classifier, checked: loaded, or, of one to be trained here, with shapes for weights.

    Raises:
      InputError: neither weights nor permission to train, weights that do not fit, classes of rows
        that a network does not have, a layer that the study asks for and a network does not have,
        or a training that would be refused when it begins.
    """
    settings, trained = self.experiment.classifiers, self.to_train()
    planned = {}
    for label, recipe in settings.items():
      _check_front_end(label, recipe, self.rows.image_shape)
      _check_attack(recipe, self._precision, self.rows.image_shape)
      planned[label] = (self._planned if label in trained else self._load)(label, recipe)
    for classifier in planned.values():
      for part in self.experiment.measurements.values():
        rows = self.opened.get(part.data, self.rows)
        if part.study.needs_classifier:
          check_fit(classifier, aligned(rows, classifier), part.study.views(rows.image_shape))
          classifier.select_layers(part.study.layers)
    for label, recipe in trained.items():
      if not recipe.training.validation:
        aligned(self.rows, planned[label])  # as the training measures it
      self.training.check(label, recipe)
    return planned

  def _planned(self, label: str, settings: ClassifierSettings) -> Classifier:
    """Returns the classifier that a training will give, with shapes for weights."""
    if not settings.train:
      known_weights = [entry.name for entry in catalog.get(settings.name).weights]
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
    initial = initial_weights.load(settings, shape)
    if initial:
      _tell_unfinished(label, initial)
    normalisation = initial or architecture
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
    if from_file.is_classifier(settings.name):
      return self._load_own(label, settings)
    path, entry = expanded(settings.weights), published(settings)
    if entry:
      classifier = self._load_published(label, settings, entry)
    elif path.is_dir():
      variables, facts = initial_weights.read_checkpoint(path)
      _refuse_other_training(path, facts, settings)
      trained = initial_weights.of_checkpoint(path, variables, facts)
      _tell_unfinished(label, trained)
      classifier = wrap(
        label,
        settings,
        self._precision,
        variables,
        tuple(facts['image_shape']),
        trained.class_names,
        {'weights': path.name, **progress(facts)},
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
    architecture, names = catalog.get(settings.name), label_space.get(entry.label_space)
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


def _tell_unfinished(label: str, weights: InitialWeights) -> None:
  if weights.unfinished:
    logging.warning(
      '%s: the training of %s did not reach its end: %s', label, weights.name, weights.unfinished
    )


def _check_front_end(
  label: str, recipe: ClassifierSettings, image_shape: tuple[int, int, int]
) -> None:
  """Refuses a front end that does not fit the images, or a classifier that takes none."""
  if not recipe.front_end:
    return
  if from_file.is_classifier(recipe.name):
    raise InputError(
      f'{label} is a classifier of a file, which brings its own front end: set '
      "config.classifier.front_end.name=''."
    )
  images = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)
  jax.eval_shape(Inputs(front_end=recipe.front_end), images)


def _check_attack(recipe: ClassifierSettings, precision: str, image_shape: tuple[int, ...]) -> None:
  """Refuses a training on adversarial examples whose changes bfloat16 rounds away."""
  if recipe.attack is None or not recipe.is_trained_here or precision != 'bfloat16':
    return
  settings = recipe.attack.settings
  epsilon, unit = settings.epsilon, balls.mean_change(settings.norm, 1.0, image_shape)
  if epsilon * unit < BFLOAT16_STEP:
    raise InputError(
      f'config.precision is bfloat16, in which numbers have 8 bits, and an attack of {epsilon:g} '
      f'would be rounded away: give config.classifier.attack.{recipe.attack.name}.epsilon of at '
      f'least {BFLOAT16_STEP / unit:.6f} (2**-8 a value), or set --config.precision=float32.'
    )


def channels(settings: ClassifierSettings) -> int:
  """Returns how many channels the images of a classifier have."""
  if from_file.is_classifier(settings.name):
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


def _refuse_other_training(
  path: os.PathLike[str], facts: Mapping[str, Any], settings: ClassifierSettings
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
