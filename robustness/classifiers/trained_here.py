"""Classifiers with a network that is trained in the workdir of the run."""

import dataclasses
import functools

from robustness.attacks import balls
from robustness.augment.policy import Policy
from robustness.classifiers import ClassifierSettings, Images, resolve_section
from robustness.classifiers.network import Network, NetworkWeights, StoredNetwork
from robustness.core.errors import KEYS, InputError, SettingError, for_caller
from robustness.core.pixels import BFLOAT16_STEP
from robustness.core.typing import Facts, Variables
from robustness.models.architecture import Weights
from robustness.models.classifier import Classifier


@dataclasses.dataclass(frozen=True)
class TrainedHere(Network):
  """A network that this run trains.

  Settings without weights also belong to this class if `train` is not set. `check` then raises an
  error that names possible weights.
  """

  is_fallback = True  # takes sections that no other kind claims

  @classmethod
  def claims(cls, section: ClassifierSettings) -> bool:
    """Returns whether the settings name no weights."""
    return not section.weights

  @functools.cached_property
  def initial_network(self) -> StoredNetwork | None:
    """The kind of classifier that reads `initial_weights`, such as a `CheckpointFolder`.

    None if the training begins with random weights.

    Raises:
      InputError: a training cannot begin with weights of this kind.
    """
    if not self.initial_weights:
      return None
    # the kind of a classifier with these weights that is not trained
    network = resolve_section(self, weights=self.initial_weights, initial_weights='', train=False)
    if not isinstance(network, StoredNetwork):
      valid = (
        'a file, a checkpoint folder, the name of published weights, or '
        "'' to draw all weights from the seed"
      )
      raise SettingError(KEYS.classifier.initial_weights, self.initial_weights, valid=valid)
    return network

  @functools.cached_property
  def record(self) -> Weights | None:
    """Description of `initial_weights` if they are published weights, else None."""
    return self.initial_network.record if self.initial_network else None

  @property
  def needs_mean(self) -> bool:
    """Whether `initial_weights` do not state how images are normalised, so that the config must."""
    return self.initial_network is not None and self.initial_network.needs_mean

  @property
  def resamples_positions(self) -> bool:
    """Whether position embeddings in `initial_weights` are resampled for the size of the images."""
    return self.initial_network is not None and self.has_positions

  def check(self, label: str, image_shape: tuple[int, int, int], precision: str) -> None:
    """Raises InputError for settings with which the training cannot work.

    Classifiers without `train` are refused, since they have no weights. Adversarial training in
    bfloat16 is refused if ε is so small that rounding removes it.

    Args:
      label: name of the classifier, for messages.
      image_shape: height, width and channels of the images.
      precision: 'float32' or 'bfloat16', the arithmetic of the network.
    """
    super().check(label, image_shape, precision)
    if not self.train:
      names = [entry.name for entry in self.architecture.weights]
      published = f' or a name ({", ".join(names)})' if names else ''
      fix = for_caller(  # the fix for users of the command line, and the one for callers in Python
        f'give --{KEYS.classifier.weights}=FILE{published}, or train it in this workdir with '
        f'--{KEYS.classifier.train}=True',
        f'give robustness.classifier({self.name!r}, variables=FILE){published}, or what '
        f'robustness.train({self.name!r}, ...) returns',
      )
      raise InputError(f'{label} has no weights: {fix}.')
    if self.attack is None or (self.training.precision or precision) != 'bfloat16':
      return
    # on average, an attack with ε changes a pixel by ε · unit
    epsilon, unit = self.attack.epsilon, balls.mean_change(self.attack.norm, 1.0, image_shape)
    if epsilon * unit < BFLOAT16_STEP:
      raise InputError(
        f'the training is in bfloat16, in which numbers have 8 bits, and an attack of {epsilon:g} '
        f'would be rounded away: give {KEYS.classifier.attack}.{self.attack.name}.epsilon of at '
        f'least {BFLOAT16_STEP / unit:.6f} (2**-8), or set {KEYS.training.precision:--}=float32.'
      )

  def load(self, label: str, images: Images, precision: str) -> Classifier:
    """Returns the classifier before its training, with shapes and types in place of weights.

    The classifier has the classes of the training images. Logs a warning if the initial weights are
    from an unfinished training, or if their normalisation is only assumed.
    """
    initial = self.read_initial_weights(images.shape)
    if self.initial_network and initial:
      self.initial_network.warn(label, initial)
    shapes = self.architecture.abstract_variables(len(images.class_names), images.shape)
    planned = self.weights_of_training(shapes, images, initial, facts={})
    return self.traced_classifier(label, planned, precision)

  def read_initial_weights(self, image_shape: tuple[int, int, int]) -> NetworkWeights | None:
    """Returns the weights that the training begins with, for images of shape [H, W, C].

    None stands for random weights. The weights are read once and cached.
    """
    if self.initial_network and image_shape not in self._weights_by_shape:
      self._weights_by_shape[image_shape] = self.initial_network.read(image_shape)
    return self._weights_by_shape.get(image_shape)

  @functools.cached_property
  def _weights_by_shape(self) -> dict[tuple[int, int, int], NetworkWeights]:
    """Cache of `read_initial_weights`, {shape of images: weights}."""
    return {}

  def weights_of_training(
    self, variables: Variables, images: Images, initial: NetworkWeights | None, facts: Facts
  ) -> NetworkWeights:
    """Returns the variables of a training with class names, normalisation and provenance.

    Args:
      variables: the trained arrays, or their shapes before the training.
      images: the training images, which decide class names and image size.
      initial: weights that the training begins with, which decide the normalisation of images. If
        it is None, the architecture decides.
      facts: further facts about the training for results, such as its last step; {} before it.
    """
    normalisation = initial or self.architecture
    begun_with = facts_of_initial(initial) if initial else {}
    return NetworkWeights(
      'trained here',
      variables,
      class_names=images.class_names,
      mean=normalisation.mean,
      std=normalisation.std,
      input_shape=images.shape,
      facts={'weights': 'trained here', **begun_with, **facts},
    )


def facts_of_initial(initial: NetworkWeights) -> Facts:
  """Returns facts for results about the weights that a training began with.

  Returns:
    A dictionary with the keys:

    * `initial_weights`: name of the weights;
    * `initial_weights_trained_with`: names of the augmentations in their training, None if unknown;
    * `initial_weights_resemble`: names of the image transforms, such as 'blur', that these
      augmentations look like, None if unknown;
    * `initial_weights_unfinished`: for weights from an unfinished training, how far it came.
  """
  trained_with, resembles = initial.trained_with, None
  if trained_with is not None:
    policy = Policy.of(**{name: {} for name in trained_with})
    resembles = sorted({name for part in policy.augmentations for name in part.resembles})
  facts = {
    'initial_weights': initial.name,
    'initial_weights_trained_with': None if trained_with is None else [*trained_with],
    'initial_weights_resemble': resembles,
  }
  if initial.unfinished:
    facts['initial_weights_unfinished'] = initial.unfinished
  return facts
