"""Kinds of classifiers that are a network in Flax Linen: its architecture and its weights."""

import abc
import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging
from flax import traverse_util

from robustness.classifiers import ClassifierKind
from robustness.core.errors import KEYS
from robustness.core.typing import Facts, Variables
from robustness.models import catalog, label_space, weights
from robustness.models.architecture import Architecture
from robustness.models.classifier import Classifier, from_linen
from robustness.models.naming import HEAD_BIAS
from robustness.models.position_embedding import is_resampled
from robustness.models.vit import VisionTransformer

LAST_LAYER = HEAD_BIAS[:-1]
KEPT_IN_FLOAT32 = 'weights, statistics of batch normalisation, logits and losses'


@dataclasses.dataclass(frozen=True)
class NetworkWeights:
  """The weights of a network, with what a classifier or a training needs to know of them.

  Attributes:
    name: what results call them.
    variables: the arrays, or their shapes where a training will make them.
    class_names: the classes of their outputs, in order; () where nothing says them.
    mean: subtracted from images in [0, 1], one value a channel or one for all.
    std: what the difference is then divided by.
    input_shape: height, width and channels of the images that they are for.
    facts: what else results say of them.
    trained_with: augmentations other than flips and crops, by name; None where they are not known.
    unfinished: how far their training came if it did not reach its end; '' otherwise.
    is_assumed: whether `mean` and `std` are the architecture's because nothing says them.
  """

  name: str
  variables: Variables
  class_names: tuple[str, ...]
  mean: tuple[float, ...]
  std: tuple[float, ...]
  input_shape: tuple[int, int, int]
  facts: Facts = dataclasses.field(default_factory=dict)
  trained_with: tuple[str, ...] | None = None
  unfinished: str = ''
  is_assumed: bool = False

  def for_classes(self, class_names: Sequence[str]) -> Variables:
    """Returns the initial variables of a training for these classes.

    The last layer is omitted, and so initialised at random, unless the classes are the same in the
    same order. Synonyms count as equal: a file of ImageNet may have 'tench' for 'n01440764'.
    """
    indices = label_space.words(self.class_names)
    if [indices.get(name) for name in class_names] == [*range(len(self.class_names))]:
      return dict(self.variables)
    flat = traverse_util.flatten_dict(dict(self.variables))
    return traverse_util.unflatten_dict(
      {path: value for path, value in flat.items() if path[: len(LAST_LAYER)] != LAST_LAYER}
    )


@dataclasses.dataclass(frozen=True)
class Network(ClassifierKind):
  """Base class of the kinds that are an architecture of this project or of a user's file."""

  @property
  def architecture(self) -> Architecture:
    """The architecture; an InputError where no architecture has this name."""
    return catalog.get(self.name)

  @property
  def has_positions(self) -> bool:
    """Whether variables of the network are resampled for images of another size."""
    return is_resampled(self.architecture.shapes(1))

  @property
  def architecture_facts(self) -> Facts:
    """The architecture's name, and the file that a user has it in."""
    return {'architecture': self.name, **catalog.file_facts(self.name)}

  def classifier(self, label: str, loaded: NetworkWeights, precision: str) -> Classifier:
    """Returns the network with these weights as a classifier of images in [0, 1]."""
    return self.with_weights(self.with_shapes(label, loaded, precision), loaded, precision)

  def with_shapes(self, label: str, loaded: NetworkWeights, precision: str) -> Classifier:
    """Returns the network, traced once, as a classifier; its variables may be shapes."""
    imagenet = label_space.get(label_space.IMAGENET)
    classifier = from_linen(
      self.architecture.build(len(loaded.class_names), jnp.dtype(precision)),
      loaded.variables,
      name=label,
      input_shape=loaded.input_shape,
      class_names=loaded.class_names,
      mean=loaded.mean,
      std=loaded.std,
      stages=self.architecture.stages,
      input_filter=self.input_filter,
    )
    is_imagenet = classifier.class_names == imagenet.class_names
    return dataclasses.replace(classifier, aliases=imagenet.aliases if is_imagenet else {})

  def with_weights(
    self, classifier: Classifier, loaded: NetworkWeights, precision: str
  ) -> Classifier:
    """Returns a classifier of `with_shapes` with its weights, and with what identifies these."""
    variables = loaded.variables
    facts: Facts = {
      **self.architecture_facts,
      'preprocessing': {'mean': list(loaded.mean), 'std': list(loaded.std)},
      **loaded.facts,
      'parameters': sum(int(np.size(leaf)) for leaf in jax.tree.leaves(variables['params'])),
      'sha256': weights.digest(variables),
      'precision': precision,
      **({} if precision == 'float32' else {'kept_in_float32': KEPT_IN_FLOAT32}),
      **({'input_filter': self.input_filter.describe()} if self.input_filter else {}),
    }
    _warn_of_borders(classifier.name, self.architecture, classifier.input_shape)
    placed = jax.device_put(variables)  # so that no evaluation copies them
    return dataclasses.replace(classifier, variables=placed, provenance=facts)


@dataclasses.dataclass(frozen=True)
class StoredNetwork(Network):
  """Base class of the kinds that read weights, which a training can begin with as well."""

  @abc.abstractmethod
  def read(self, image_shape: tuple[int, int, int]) -> NetworkWeights:
    """Returns the weights for images of a shape.

    Raises:
      InputError: there are no such weights, or they do not fit the network.
    """

  def warn(self, label: str, loaded: NetworkWeights) -> None:
    """Logs that the weights' training did not reach its end, or that normalisation is assumed."""
    if loaded.unfinished:
      logging.warning(
        '%s: the training of %s did not reach its end: %s', label, loaded.name, loaded.unfinished
      )
    if loaded.is_assumed:
      logging.warning(
        '%s: no record says how the images of %s are normalised; the mean %s and std %s of %s are '
        f'assumed: set --{KEYS.classifier.mean} and std, or put a record next to it.',
        *(label, self.weights, loaded.mean, loaded.std, self.architecture.name),
      )


def _warn_of_borders(label: str, architecture: Architecture, shape: tuple[int, int, int]) -> None:
  """Logs that a vision transformer ignores pixels at the border, if patches do not fill images."""
  network = architecture.network
  if isinstance(network, VisionTransformer) and any(side % network.patch for side in shape[:2]):
    height, width = (side - side % network.patch for side in shape[:2])
    logging.warning(
      '%s: of images of %d × %d pixels the patches of %d see %d × %d, the first of both sides',
      *(label, *shape[:2], network.patch, height, width),
    )
