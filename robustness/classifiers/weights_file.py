"""Classifiers with the weights of a file, which may state how images are prepared for them."""

import dataclasses
import functools

import jax
from absl import logging

from robustness.classifiers import ClassifierSettings, Images
from robustness.classifiers.network import NetworkWeights, StoredNetwork
from robustness.core.errors import KEYS, InputError, nearest
from robustness.core.paths import expanded
from robustness.core.typing import Facts
from robustness.models import catalog, hub, label_space, weights
from robustness.models.architecture import Architecture, Weights
from robustness.models.classifier import Classifier
from robustness.models.naming import Scheme
from robustness.models.state_dict import check_weights_path


@dataclasses.dataclass(frozen=True)
class WeightsFile(StoredNetwork):
  """A network with the weights of a file, or of a folder downloaded from Hugging Face."""

  is_fallback = True  # takes sections with `weights` that no other kind claims

  @classmethod
  def claims(cls, section: ClassifierSettings) -> bool:
    """Returns whether the settings name weights."""
    return bool(section.weights)

  @property
  def needs_mean(self) -> bool:
    """Whether the weights do not state how images are normalised, so that the config must."""
    return self.record is None

  @property
  def resamples_positions(self) -> bool:
    """Whether the network has position embeddings, which are resampled for other image sizes."""
    return self.has_positions

  def fetch(self) -> None:
    """Downloads the file if it is not on this machine, or checks that a local file exists."""
    logging.debug('weights: %s', self.fetched.path)  # the first use of `fetched` downloads it

  @functools.cached_property
  def fetched(self) -> hub.Fetched:
    """The file of the weights, downloaded if `weights` is a published name.

    Raises:
      InputError: `weights` is no file with a supported suffix, or is written like a published
        name, such as 'torchvision:resnet50.IMAGENET1K_V1', but is neither one nor a file.
    """
    path = expanded(self.weights)
    if self.record and not path.is_file():  # a published name, or a folder with a weights file
      return hub.fetch(self.record)
    if ':' in self.weights and not path.exists():  # written like a published name
      valid = nearest(self.weights, catalog.WEIGHTS)
      raise InputError(f'unknown weights {self.weights!r}: {valid}')
    return hub.Fetched(check_weights_path(path), 'a local file')

  @functools.cached_property
  def class_names(self) -> tuple[str, ...]:
    """The class names that the file states, or the description next to it.

    () if neither does.
    """
    recorded = self.record.class_names if self.record else ()
    return tuple(weights.saved_facts(self.fetched.path).get('class_names', ())) or recorded

  def read(self, image_shape: tuple[int, int, int]) -> NetworkWeights:
    """Returns the weights to begin a training with, for images of shape [H, W, C]."""
    return self._read(image_shape, len(self.class_names) or None)

  def load(self, label: str, images: Images, precision: str) -> Classifier:
    """Returns the network with the weights of the file as a classifier.

    If there is a probe, which replaces the logits, the file needs no last layer and no class names.
    """
    possible_classes = self._possible_classes(images.class_names)
    names = possible_classes[0]
    shape = images.shape if images.has_set_size else self.architecture.input_shape
    if self.record and not images.has_set_size:  # the size that the weights are for
      shape = (self.record.input_size, self.record.input_size, shape[2])
    # whether the outputs must be the classes `names`; `_read` then checks their number
    is_certain = self.probe is None and len(possible_classes) == 1 and bool(names)
    loaded = self._read(shape, len(names) if is_certain else None)
    variables = loaded.variables
    if self.probe:
      variables = weights.with_head(self.architecture, variables, loaded.input_shape)
    if not is_certain:
      if 'head' not in variables['params']:
        raise InputError(
          f'{self.fetched.path} has no last linear map, so it gives features and no classes: set '
          f"{KEYS.classifier.probe.name} to 'linear', 'knn' or 'prototype'."
        )
      # the last axis of every array of the last layer is the axis of the outputs
      num_outputs = jax.tree.leaves(variables['params']['head']['dense'])[0].shape[-1]
      fitting = [names for names in possible_classes if len(names) == num_outputs]
      names = fitting[0] if fitting else tuple(map(str, range(num_outputs)))
    self.warn(label, loaded)
    named = dataclasses.replace(loaded, variables=variables, class_names=names)
    return self.classifier(label, named, precision)

  def _possible_classes(self, data_classes: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Returns the lists of class names that the outputs may have, the likeliest first.

    If the file states no class names, the data decide: WordNet identifiers of ImageNet stand for
    ImageNet's classes, and other class names for themselves. With the setting `label_space`,
    ImageNet's classes follow as a second possibility, because predictions are mapped from these.

    Args:
      data_classes: names of the classes of the data.
    """
    imagenet = label_space.get(label_space.IMAGENET).class_names
    if self.class_names:
      return [self.class_names]
    if label_space.is_imagenet(data_classes):
      return [imagenet]
    label_space.log_numbers(self.fetched.path.name, data_classes)
    return [data_classes, imagenet] if self.label_space else [data_classes]

  def _read(self, image_shape: tuple[int, int, int], num_classes: int | None) -> NetworkWeights:
    """Returns the weights with the normalisation of images, for images of shape [H, W, C].

    Mean and standard deviation come from the first of these that states them: the description of
    published weights, the config, the project that the file is from, such as torchvision, and the
    architecture.

    Args:
      image_shape: (H, W, C).
      num_classes: required number of outputs; None takes any.

    Raises:
      InputError: the file has another number of outputs.
    """
    path, revision = self.fetched
    variables, notes = weights.load_with_notes(
      path, self.architecture, num_classes, image_shape, self.positions
    )
    record, project = self.record, notes.get('normalised_as', '')
    facts: Facts = {'weights': path.name}
    normalisation: Weights | Architecture | Scheme | WeightsFile  # `mean` and `std` are its fields
    if record:
      normalisation = record
      facts = {'weights': record.name, 'file': path.name, 'revision': revision}
      facts |= {'preprocessing': record.preprocessing, 'licence': record.licence}
    elif self.mean:
      normalisation = self
      notes['normalised_as'] = 'config.classifier.mean and std'
    elif project:
      normalisation = self.architecture.scheme(project)
    else:
      normalisation = self.architecture
      notes['normalised_as'] = f'assumed: {self.name}'
    return NetworkWeights(
      facts['weights'],
      variables,
      class_names=self.class_names,
      mean=normalisation.mean,
      std=normalisation.std,
      input_shape=image_shape,
      facts={**facts, **notes},
      trained_with=record.trained_with if record else None,
      is_assumed=normalisation is self.architecture,
    )
