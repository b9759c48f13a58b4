"""Base classes of the kinds of classifiers that are a Flax Linen network with weights."""

import abc
import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging
from flax import traverse_util

from robustness.classifiers import ClassifierKind
from robustness.core.errors import KEYS
from robustness.core.typing import Facts, PlainValue, Variables
from robustness.models import catalog, imagenet_names, label_space, weights
from robustness.models.architecture import Architecture
from robustness.models.classifier import Classifier, from_linen
from robustness.models.naming import LAST_LAYERS
from robustness.models.position_embedding import is_resampled
from robustness.models.vit import VisionTransformer


@dataclasses.dataclass(frozen=True)
class NetworkWeights:
  """The weights of a network, and facts about them that a classifier or a training needs.

  Attributes:
    name: name of the weights in results.
    variables: the arrays, or their shapes if the network is still to be trained.
    class_names: names of the outputs, in order; () if they are not known.
    mean: subtracted from images in [0, 1]; one number, or one per channel.
    std: divides the images after `mean` is subtracted.
    input_shape: height, width and channels of the images that the weights are for.
    facts: further facts about the weights for results, such as licence and SHA-256.
    trained_with: names of the augmentations in their training, other than flips and crops; None if
      they are not known.
    unfinished: for weights from an unfinished training, how far it came, such as 'step 100 of 188';
      else ''.
    is_assumed: whether `mean` and `std` are only assumed. They are then the numbers of the
      architecture.
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

  def has_other_classes(self, class_names: Sequence[str]) -> bool:
    """Returns whether the weights are for other classes, or for the classes in another order.

    False if the weights do not name their classes.
    """
    return bool(self.class_names) and not _are_same(self.class_names, class_names)

  def for_classes(self, class_names: Sequence[str]) -> Variables:
    """Returns the variables to begin a training with, for the given classes.

    If the classes are the same as the weights', in the same order, these are all variables.
    Otherwise the last layer is left out, and the training begins with a random one. Synonyms are
    the same, such as 'tench' and 'n01440764' in ImageNet.

    Weights may not name their classes. If `class_names` are WordNet identifiers of ImageNet, the
    weights are then assumed to be for ImageNet, otherwise for `class_names`. The last layer is left
    out if its number of outputs differs.
    """
    flat = traverse_util.flatten_dict(dict(self.variables))
    # a path is (collection, *layer, name of the array)
    last_layer = {path: x for path, x in flat.items() if path[1:-1] in LAST_LAYERS}
    names = self.class_names
    if not names:
      names = imagenet_names.NAMES if label_space.is_imagenet(class_names) else tuple(class_names)
      # the last axis of every array of the last layer, kernel and bias, is the axis of the outputs
      num_outputs = {np.shape(x)[-1] for x in last_layer.values()}
      if num_outputs != {len(names)}:
        names = ()  # the assumption is wrong: the classes are unknown, and none of `class_names`
    if _are_same(names, class_names):
      return dict(self.variables)
    other_layers = {path: value for path, value in flat.items() if path not in last_layer}
    return traverse_util.unflatten_dict(other_layers)


def _are_same(names: Sequence[str], synonyms: Sequence[str]) -> bool:
  """Returns whether two lists name the same classes in the same order, or synonyms of them."""
  index_by_name = label_space.index_by_name(names)
  return [index_by_name.get(name) for name in synonyms] == [*range(len(names))]


@dataclasses.dataclass(frozen=True)
class Network(ClassifierKind):
  """Base class of classifiers with a Flax architecture, from this project or a user's file."""

  @property
  def architecture(self) -> Architecture:
    """The architecture of the network.

    Raises InputError if there is no architecture of this name.
    """
    return catalog.get(self.name)

  @property
  def has_positions(self) -> bool:
    """Whether the network has position embeddings, which are resampled for other image sizes."""
    return is_resampled(self.architecture.shapes(1))

  @property
  def architecture_facts(self) -> Facts:
    """The name of the architecture, and the file that defines it if it is a user's."""
    return {'architecture': self.name, **catalog.file_facts(self.name)}

  def classifier(self, label: str, loaded: NetworkWeights, precision: str) -> Classifier:
    """Returns the network with given weights as a classifier of images in [0, 1].

    Args:
      label: name of the classifier.
      loaded: the weights.
      precision: 'float32' or 'bfloat16', the arithmetic of the network.
    """
    return self.with_weights(self.traced_classifier(label, loaded, precision), loaded, precision)

  def traced_classifier(self, label: str, loaded: NetworkWeights, precision: str) -> Classifier:
    """Returns the network as a classifier that cannot be evaluated yet.

    `with_weights` adds the weights. Tracing the network takes about a second and needs shapes only,
    so `loaded.variables` may be shapes.

    Args:
      label: name of the classifier.
      loaded: the weights, or their shapes.
      precision: 'float32' or 'bfloat16', the arithmetic of the network.
    """
    _warn_of_borders(label, self.architecture, loaded.input_shape)
    return from_linen(
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

  def with_weights(
    self, classifier: Classifier, loaded: NetworkWeights, precision: str
  ) -> Classifier:
    """Returns the classifier with its weights, on the device, and its provenance.

    Args:
      classifier: the classifier without weights, from `traced_classifier`.
      loaded: the weights, with values.
      precision: 'float32' or 'bfloat16', the arithmetic of the network.
    """
    variables = loaded.variables
    facts: dict[str, PlainValue] = {
      **self.architecture_facts,
      'preprocessing': {'mean': list(loaded.mean), 'std': list(loaded.std)},
      **loaded.facts,
      'parameters': sum(int(np.size(leaf)) for leaf in jax.tree.leaves(variables['params'])),
      'sha256': weights.digest(variables),
      'precision': precision,
    }
    if precision != 'float32':
      facts['kept_in_float32'] = 'weights, statistics of batch normalisation, logits and losses'
    if self.input_filter:
      facts['input_filter'] = self.input_filter.describe()
    placed = jax.device_put(variables)  # so that no evaluation copies them
    return dataclasses.replace(classifier, variables=placed, provenance=facts)


@dataclasses.dataclass(frozen=True)
class StoredNetwork(Network):
  """Base class of classifiers with stored weights, which a training can also begin with."""

  @abc.abstractmethod
  def read(self, image_shape: tuple[int, int, int]) -> NetworkWeights:
    """Returns the weights for images of shape [H, W, C].

    Raises:
      InputError: the weights do not exist, or do not fit the network.
    """

  def warn(self, label: str, loaded: NetworkWeights) -> None:
    """Logs a warning if the weights are from an unfinished training.

    Also warns if the normalisation of their images is only assumed.
    """
    if loaded.unfinished:
      warn_once(
        f'{label}: the training of {loaded.name} did not reach its end: {loaded.unfinished}'
      )
    if loaded.is_assumed:
      warn_once(
        f'{label}: no record says how the images of {self.weights} are normalised; the mean '
        f'{loaded.mean} and std {loaded.std} of {self.architecture.name} are assumed. If it '
        f'was trained with others, set {KEYS.classifier.mean:--} and std.'
      )


@functools.lru_cache
def warn_once(message: str) -> None:
  """Logs a warning, but only once in a run.

  Several classifiers may begin with the same weights. The cache of this function is cleared when a
  run starts.
  """
  logging.warning('%s', message)


def _warn_of_borders(label: str, architecture: Architecture, shape: tuple[int, int, int]) -> None:
  """Logs a warning if the patches of a vision transformer leave out pixels at the image border."""
  network = architecture.network
  height, width, _ = shape
  if isinstance(network, VisionTransformer) and (height % network.patch or width % network.patch):
    covered = [side - side % network.patch for side in (height, width)]
    logging.warning(
      '%s: of images of %d × %d pixels the patches of %d see %d × %d, the first of both sides',
      *(label, height, width, network.patch, *covered),
    )
