"""Weights that are loaded, published or of a file or workdir, and what a config says of them."""

import dataclasses
import pathlib
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

from input_pipeline.settings import Preparation
from robustness.config.experiment import Experiment
from robustness.config.recipe import ClassifierSettings
from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.core.rows import Rows
from robustness.core.typing import Facts, PyTree
from robustness.models import catalog, from_file, hub, label_space, torch_library, weights
from robustness.models.architecture import LOCAL, Architecture, Weights
from robustness.models.classifier import Classifier, from_linen
from robustness.models.vit import VisionTransformer
from robustness.training import initial_weights
from robustness.training.checkpoint import FACTS_NAME, progress
from robustness.training.initial_weights import InitialWeights

Shape = tuple[int, int, int]
KEPT_IN_FLOAT32 = 'weights, statistics of batch normalisation, logits and losses'


class Normalises(Protocol):
  """What has the mean and the standard deviation that images in [0, 1] are normalised by."""

  @property
  def mean(self) -> tuple[float, ...]:
    """Subtracted from images in [0, 1], one value a channel or one for all."""

  @property
  def std(self) -> tuple[float, ...]:
    """What the difference is then divided by."""


@dataclasses.dataclass(frozen=True)
class Loader:
  """Loads the weights that sections of a config name.

  Attributes:
    experiment: the checked config.
    rows: what will be evaluated; their classes and image shape stand where weights say nothing.
  """

  experiment: Experiment
  rows: Rows

  @property
  def _precision(self) -> str:
    return self.experiment.execution.precision

  def load(self, label: str, settings: ClassifierSettings) -> Classifier:
    """Returns the classifier of a section that trains nothing.

    Raises:
      InputError: weights that are not there, do not fit or need a training first.
    """
    from_library = settings.name.startswith(catalog.TORCH_LIBRARIES)
    if self._precision != 'float32' and (from_library or from_file.is_classifier(settings.name)):
      logging.warning('%s computes as it does elsewhere, not in %s.', label, self._precision)
    if from_library:
      side = torch_library.describe(settings.name, settings.weights).input_size
      return torch_library.load(
        settings.name,
        settings.weights,
        label,
        self.rows.image_shape if self.experiment.data.crop else (side, side, 3),
        self.rows.class_names,
        seed=settings.seed,
        headless=settings.probe is not None,
        input_filter=settings.input_filter,
      )
    if from_file.is_classifier(settings.name):
      if settings.weights or settings.train:
        raise InputError(
          f'{settings.name} brings its own weights: leave config.classifier.weights '
          'empty and config.classifier.train False.'
        )
      return from_file.load(settings.name, label)
    if settings.weights == catalog.RANDOM:
      return self._drawn(label, settings)
    path, entry = expanded(settings.weights), published(settings)
    if entry or not path.is_dir():
      return self._load_file(label, settings, path, entry)
    trained, facts = initial_weights.from_checkpoints(path, settings.name)
    _refuse_other_filter(path, facts, settings)
    warn_unfinished(label, trained)
    known, shape = {'weights': path.name, **progress(facts)}, tuple(facts['image_shape'])
    variables, names = trained.variables, trained.class_names
    return self.as_classifier(label, settings, variables, known, names, trained, shape)

  def _drawn(self, label: str, settings: ClassifierSettings) -> Classifier:
    """Returns a network with weights that its own initialisers draw from the seed."""
    architecture = catalog.get(settings.name)
    if architecture.fit:
      raise InputError(
        f'{settings.name} begins with variables that are computed from training images, and weights'
        " that are 'random' lack them: give --config.classifier.train=True, or another "
        '--config.classifier.name.'
      )
    module = architecture.build(len(self.rows.class_names) or 1)
    image = jnp.zeros((1, *self.rows.image_shape))
    variables = jax.jit(module.init)(random_keys.from_seed(settings.seed), image)
    facts, names = {'weights': f'random, seed {settings.seed}'}, self.rows.class_names or ('0',)
    return self.as_classifier(label, settings, variables, facts, names)

  def _load_file(
    self, label: str, settings: ClassifierSettings, path: pathlib.Path, entry: Weights | None
  ) -> Classifier:
    """Loads published weights, or those that nothing is known of but their file."""
    architecture = catalog.get(settings.name)
    facts: Facts = {'weights': path.name}
    shape = architecture.input_shape
    if entry:
      local = settings.weights and path.is_file()
      path, revision = hub.Fetched(path, 'a local file') if local else hub.fetch(entry)
      shape = (entry.input_size, entry.input_size, shape[2])
      facts = {
        'weights': entry.name,
        'file': path.name,
        'revision': revision,
        'preprocessing': entry.preprocessing,
        'licence': entry.licence,
      }
    if self.experiment.data.crop:  # the user decides what all networks see
      shape = self.rows.image_shape
    names, *others = self._possible_classes(settings, path, entry)
    # features need no classes, nor a head; where it is not known which, the file says how many
    count = None if settings.probe or others else len(names) or None
    variables, notes = weights.load_with_notes(path, architecture, count, shape, settings.positions)
    if count is None:
      if settings.probe:
        variables = weights.with_head(architecture, variables, shape)
      elif 'head' not in variables['params']:
        raise InputError(
          f'{path} has no last linear map, so it gives features and no classes: set '
          "config.classifier.probe.name to 'linear', 'knn' or 'prototype'."
        )
      count = jax.tree.leaves(variables['params']['head']['dense'])[0].shape[-1]
      fitting = (one for one in (names, *others) if len(one) == count)
      names = next(fitting, tuple(map(str, range(count))))
    how: Normalises | None = entry
    if entry is None:
      how, notes['normalised_as'] = _unrecorded(label, settings, notes.get('normalised_as', ''))
    facts = {**facts, **notes}
    return self.as_classifier(label, settings, variables, facts, names, how, shape)

  def _possible_classes(
    self, settings: ClassifierSettings, path: pathlib.Path, entry: Weights | None
  ) -> list[tuple[str, ...]]:
    """Returns the classes that weights are for, or several of which their number decides.

    Weights that do not say are for ImageNet's classes if the data have some of them, else for the
    classes of the data; in another label space for either.
    """
    own, imagenet = self.rows.class_names, label_space.get(label_space.IMAGENET).class_names
    if entry and entry.source != LOCAL:
      return [imagenet]
    if named := weights.saved_class_names(path) or (entry.class_names if entry else ()):
      return [named]
    if label_space.is_imagenet(own):
      return [imagenet]
    label_space.log_numbers(path.name, own)
    return [own, imagenet] if settings.label_space else [own]

  def as_classifier(
    self,
    label: str,
    settings: ClassifierSettings,
    variables: PyTree,
    provenance: Facts,
    class_names: tuple[str, ...],
    normalisation: Normalises | None = None,
    input_shape: Shape | None = None,
  ) -> Classifier:
    """Returns weights of a section's architecture as a classifier of images in [0, 1].

    For the arguments see `with_shapes` and `with_weights`.
    """
    classifier = self.with_shapes(
      label, settings, variables, class_names, normalisation, input_shape
    )
    return self.with_weights(classifier, settings, variables, provenance, normalisation)

  def with_weights(
    self,
    classifier: Classifier,
    settings: ClassifierSettings,
    variables: PyTree,
    provenance: Facts,
    normalisation: Normalises | None = None,
  ) -> Classifier:
    """Returns a classifier `with_shapes` with weights, and with what identifies them.

    Args:
      classifier: of this section, with the same normalisation.
      settings: the section.
      variables: the weights.
      provenance: what is known of them.
      normalisation: of the inputs; by default the architecture's.
    """
    architecture, input_filter = catalog.get(settings.name), settings.input_filter
    how: Normalises = normalisation or architecture
    facts: Facts = {
      'architecture': settings.name,
      **catalog.file_facts(settings.name),
      'preprocessing': {'mean': list(how.mean), 'std': list(how.std)},
      **provenance,
      'parameters': sum(int(np.size(leaf)) for leaf in jax.tree.leaves(variables['params'])),
      'sha256': weights.digest(variables),
      'precision': self._precision,
      **({} if self._precision == 'float32' else {'kept_in_float32': KEPT_IN_FLOAT32}),
      **({'input_filter': input_filter.describe()} if input_filter else {}),
    }
    _warn_of_borders(classifier.name, architecture, classifier.input_shape)
    placed = jax.device_put(variables)  # so that no evaluation copies them
    return dataclasses.replace(classifier, variables=placed, provenance=facts)

  def with_shapes(
    self,
    label: str,
    settings: ClassifierSettings,
    variables: PyTree,
    class_names: tuple[str, ...],
    normalisation: Normalises | None = None,
    input_shape: Shape | None = None,
  ) -> Classifier:
    """Returns a section's architecture, traced once, as a classifier that nothing identifies yet.

    Args:
      label: its name.
      settings: the section.
      variables: the weights, or their shapes.
      class_names: in the order of the logits.
      normalisation: of the inputs; by default the architecture's.
      input_shape: height, width and channels; by default those of the rows.
    """
    architecture, imagenet = catalog.get(settings.name), label_space.get(label_space.IMAGENET)
    how: Normalises = normalisation or architecture
    classifier = from_linen(
      architecture.build(len(class_names), jnp.dtype(self._precision)),
      variables,
      name=label,
      input_shape=input_shape or self.rows.image_shape,
      class_names=class_names,
      mean=how.mean,
      std=how.std,
      stages=architecture.stages,
      input_filter=settings.input_filter,
    )
    known = classifier.class_names == imagenet.class_names
    return dataclasses.replace(classifier, aliases=imagenet.aliases if known else {})


def channels(settings: ClassifierSettings) -> int:
  """Returns how many channels the images of a classifier have."""
  if settings.name.startswith(catalog.TORCH_LIBRARIES):
    return 3
  is_own = from_file.is_classifier(settings.name)
  one = from_file.load(settings.name, '') if is_own else catalog.get(settings.name)
  return one.input_shape[2]


def published(settings: ClassifierSettings) -> Weights | None:
  """Returns the published weights that the settings mean, or None."""
  if settings.train and not settings.weights:
    return None
  if settings.name.startswith(catalog.TORCH_LIBRARIES):
    return torch_library.describe(settings.name, settings.weights)
  return hub.resolve(settings.weights, settings.name)


def is_unrecorded(weights: str, architecture: str) -> bool:
  """Whether weights are a file, and no record says how its images are normalised."""
  if weights in ('', catalog.RANDOM) or architecture.startswith(catalog.TORCH_LIBRARIES):
    return False
  return hub.resolve(weights, architecture) is None and not expanded(weights).is_dir()


def _unrecorded(label: str, settings: ClassifierSettings, project: str) -> tuple[Normalises, str]:
  """Returns what normalises the images of a file without a record, and who says so: the config, the
  `project` whose names the file has, or nobody."""
  if settings.mean:
    return settings, 'config.classifier.mean and std'
  architecture = catalog.get(settings.name)
  if project:
    return architecture.scheme(project), project
  warn_assumed(label, settings.weights, architecture)
  return architecture, f'assumed: {settings.name}'


def warn_assumed(label: str, file: str, architecture: Architecture) -> None:
  """Logs that a file is normalised as its architecture usually is, for nothing says how."""
  logging.warning(
    '%s: no record says how the images of %s are normalised; the mean %s and std %s of %s are '
    'assumed: set --config.classifier.mean and std, or put a record beside it.',
    *(label, file, architecture.mean, architecture.std, architecture.name),
  )


def _warn_of_borders(label: str, architecture: Architecture, shape: Shape) -> None:
  """Logs which pixels a vision transformer sees of images that are not whole patches."""
  network = architecture.network
  if isinstance(network, VisionTransformer) and any(side % network.patch for side in shape[:2]):
    height, width = (side - side % network.patch for side in shape[:2])
    logging.warning(
      '%s: of images of %d × %d pixels the patches of %d see %d × %d, the first of both sides',
      *(label, *shape[:2], network.patch, height, width),
    )


def preparation(experiment: Experiment) -> Preparation | None:
  """Returns how published weights want their images; None if the config says it, or none are used,
  or images are resized for each classifier on the device.

  Raises:
    InputError: classifiers that want different images, and a config that does not say which.
  """
  data = experiment.data
  if data.resize or data.crop or data.resized_on_device:
    return None
  preparations: dict[tuple[int, int, str, bool], str] = {}
  silent = []
  for label, recipe in experiment.classifiers.items():
    entry, begun_with = published(recipe), recipe.initial_weights
    if not entry and begun_with:
      entry = hub.resolve(begun_with, recipe.name)
    if entry:
      how = (entry.input_size, entry.resize, entry.interpolation, entry.squash)
      record = f' ({entry.record})' if entry.record else ''
      preparations.setdefault(how, entry.name + record)
    elif not recipe.is_trained_here and recipe.weights != catalog.RANDOM:
      silent.append(label)
  if len(preparations) > 1:
    sizes = ', '.join(
      f'{name}: {side} of {resize} pixels, {interpolation}'
      for (side, resize, interpolation, _), name in preparations.items()
    )
    raise InputError(
      f'the classifiers want their images prepared differently ({sizes}): run '
      'them apart, or set --config.data.resize and --config.data.crop for all.'
    )
  for (side, resize, interpolation, _), name in preparations.items() if silent else ():
    logging.warning(
      'images are prepared as %s wants them (%d of %d pixels, %s), and no record says how %s does: '
      'set --config.data.resize and --config.data.crop if otherwise.',
      *(name, side, resize, interpolation, ', '.join(silent)),
    )
  return next((Preparation(name, *how) for how, name in preparations.items()), None)


def _refuse_other_filter(path: pathlib.Path, facts: Facts, settings: ClassifierSettings) -> None:
  input_filter = settings.input_filter
  here, there = input_filter.describe() if input_filter else None, facts.get('input_filter')
  if here != there:
    raise InputError(
      f'{path} was trained with the input filter {there or "none"} ({FACTS_NAME}); the config has '
      f'{here or "none"}: set config.classifier.input_filter as it was.'
    )


def warn_unfinished(label: str, weights: InitialWeights | None) -> None:
  """Logs that a training which others begin with did not reach its end."""
  if weights and weights.unfinished:
    logging.warning(
      '%s: the training of %s did not reach its end: %s', label, weights.name, weights.unfinished
    )
