"""Kinds of classifiers, such as published weights or a network that is trained in this run.

Each file of this folder defines one kind. The section of a classifier in the config is parsed once,
into the frozen dataclass of its kind: the fields are the keys of the section, and the methods load
the classifier and state which images it takes. Adding a file with a subclass of `ClassifierKind`
adds a kind.
"""

import abc
import dataclasses
import functools
from typing import ClassVar

from input_pipeline.settings import DataSettings
from robustness.attacks import Attack
from robustness.augment.policy import Policy
from robustness.core.errors import KEYS, SettingError
from robustness.core.registry import check_fields, setting, subclasses_in_package, word
from robustness.core.settings import require
from robustness.core.typing import Facts
from robustness.models import catalog, hub
from robustness.models.adaptation import Adaptation
from robustness.models.architecture import Architecture, Weights
from robustness.models.classifier import Classifier
from robustness.models.inputs import InputFilter
from robustness.models.label_space import DATA, MERGES
from robustness.models.position_embedding import BICUBIC, METHODS
from robustness.models.probes import Probe
from robustness.objectives import Objective
from robustness.objectives.cross_entropy import CrossEntropy
from robustness.training.settings import TrainingSettings
from robustness.training.training import Pipeline

RANDOM = 'random'
"""The value of `config.classifier.weights` that draws the weights from the seed."""


@dataclasses.dataclass(frozen=True)
class Images:
  """Properties of the images that a classifier must accept.

  Attributes:
    shape: height, width and channels.
    class_names: the names of the classes, in the order of the labels.
    has_set_size: whether the user set the size of images, by `config.data.crop`. If not, images are
      resized to what the classifier's weights need.
  """

  shape: tuple[int, int, int]
  class_names: tuple[str, ...]
  has_set_size: bool = False


@dataclasses.dataclass(frozen=True)
class ClassifierSettings:
  """Settings of one classifier, a section of `config.classifiers` or `config.classifier`.

  Attributes:
    name: the network. An architecture of `robustness.models.catalog`; `FILE.py:NAME` for an
      architecture or classifier in the user's file (`robustness.classifiers.from_file`); or
      `timm:NAME` or `hf:REPOSITORY` for a network in PyTorch
      (`robustness.classifiers.torch_library`).
    weights: A file of weights (.pth, .safetensors, .npz), a checkpoint folder of a run, or the name
      of published weights (`robustness list classifiers`). '' takes the default weights of the
      architecture, and 'random' draws random weights.
    train: whether to train the network in this workdir. Only if `weights` is ''.
    initial_weights: weights that the training begins with, in the forms of `weights`. If the
      classes differ, the last layer begins at random. '' begins with random weights.
    positions: how the position embedding of a vision transformer is resampled for images of another
      size: 'bicubic' (as in timm), 'bilinear' (big_vision), 'bicubic_pytorch' (transformers) or
      'bicubic_dinov2' (DINOv2).
    mean: subtracted from images in [0, 1]; one number, or one per channel. Needed for a file of
      weights that does not state its normalisation. () takes the normalisation of the architecture.
    std: divides the images after `mean` is subtracted; set together with `mean`.
    label_space: coarser classes that predictions are mapped to ('imagenet_vid', 'youtube_bb',
      'laion_c'), or 'data' to keep only the classes of the data. '' keeps the classes of the
      weights.
    merge: how probabilities of fine classes are combined into the probability of a coarse class of
      `label_space`: 'max', 'sum' or 'mean'.
    augment: augmentations of training images.
    attack: attack that makes adversarial examples to train on; None trains on the images
      themselves.
    objective: the loss that the training minimises.
    input_filter: filter of images before normalisation, in training and evaluation.
    probe: small classifier of the network's features, which replaces the network's logits. It is
      fitted to the training images (`robustness.models.probes`). None keeps the logits.
    adaptation: how the classifier adapts to the images at test time
      (`robustness.models.adaptation`). None predicts each image independently of the others.
    training: duration and optimizer. Keys that are left out come from `config.training`.
    data: the training images. Keys that are left out come from `config.data`, except `num_images`
      (all) and `split` (`training.split`).
    seed: seed of the training: of initial weights, order of the images and augmentation.
  """

  name: str = 'small_cnn'
  weights: str = ''
  train: bool = False
  initial_weights: str = ''
  positions: str = word(BICUBIC, METHODS)
  mean: tuple[float, ...] = ()
  std: tuple[float, ...] = ()
  label_space: str = ''
  merge: str = word('max', MERGES, only_with=('label_space',))
  augment: Policy = Policy()
  attack: Attack | None = None
  objective: Objective = CrossEntropy()
  input_filter: InputFilter | None = None
  probe: Probe | None = None
  adaptation: Adaptation | None = None
  training: TrainingSettings = TrainingSettings()
  data: DataSettings = DataSettings()
  seed: int = setting(0, 'in [0, 2**32)', lambda x: 0 <= x < 2**32, large=True)

  def __post_init__(self) -> None:
    """Raises InputError for settings of a classifier that are invalid or contradict each other.

    Initial weights are only for networks that are trained here. `mean` and `std` need equal
    lengths. `merge` says how probabilities of several classes are joined to a coarser one.
    """
    check_fields(self, 'config.classifier')

    def require_key(key: str, is_valid: bool, valid: str) -> None:
      """Raises InputError if a setting is not valid.

      Args:
        key: name of the setting.
        is_valid: whether its value is valid.
        valid: the valid values in words, for the message.
      """
      require(is_valid, f'config.classifier.{key}', getattr(self, key), valid)

    trained_here = f'trained here ({KEYS.classifier.train}=True, no config.classifier.weights)'
    valid_weights = f"'' unless the network is {trained_here}"
    require_key('initial_weights', self.is_trained_here or not self.initial_weights, valid_weights)
    valid_std = f'as many values as {KEYS.classifier.mean}, which has {len(self.mean)}'
    require_key('std', len(self.mean) == len(self.std), valid_std)
    label_space = KEYS.classifier.label_space
    valid_merge = f"'max' unless {label_space} is coarser than the classes of the weights"
    # with the classes of the data, no classes are merged
    require_key('merge', self.merge == 'max' or self.label_space != DATA, valid_merge)

  @property
  def architecture(self) -> Architecture | None:
    """The architecture called `name`; None for another kind of network, such as `timm:NAME`."""
    return catalog.find(self.name)

  @functools.cached_property
  def record(self) -> Weights | None:
    """Description of published weights: their source, and how images are prepared.

    None for weights without a description, such as a user's file.

    Raises:
      InputError: the weights are unknown or for another architecture, or their preparation of
        images cannot be reproduced.
    """
    if self.architecture is None or self.is_trained_here or self.weights == RANDOM:
      return None
    return hub.resolve(self.weights, self.architecture)

  @property
  def is_trained_here(self) -> bool:
    """Whether the network is trained in this workdir."""
    return self.train and not self.weights

  @property
  def depends_on_seed(self) -> bool:
    """Whether the weights depend on the seed, because they are trained here or random."""
    return self.is_trained_here or self.weights == RANDOM

  @property
  def pipeline(self) -> Pipeline:
    """The augmentations, attack and objective of the training."""
    return Pipeline(self.augment, self.attack, self.objective)

  @property
  def shown_in_training(self) -> Facts:
    """The data and components that the classifier is trained with, as JSON values.

    The entries are the split of the training data, augmentations, attack and objective.
    """
    return {'training_split': self.data.split, **self.pipeline.describe()}


@dataclasses.dataclass(frozen=True)
class ClassifierKind(ClassifierSettings, abc.ABC):
  """Base class of all kinds of classifiers, such as published weights or a PyTorch network.

  The fields are the keys of the classifier's section in the config.
  """

  is_fallback: ClassVar[bool] = False
  """Whether this kind takes sections that no other kind claims."""

  @classmethod
  @abc.abstractmethod
  def claims(cls, section: ClassifierSettings) -> bool:
    """Returns whether the section of a config describes a classifier of this kind."""

  @property
  def channels(self) -> int:
    """The number of channels of the images that the classifier takes."""
    return self.architecture.input_shape[2] if self.architecture else 3

  @abc.abstractmethod
  def load(self, label: str, images: Images, precision: str) -> Classifier:
    """Loads the classifier.

    A classifier that is still to be trained has shapes in place of weights.

    Args:
      label: name of the classifier in tables.
      images: properties of the images that it must accept.
      precision: 'float32' or 'bfloat16', the arithmetic of the network.

    Raises:
      InputError: the weights do not exist, or do not fit the network or the images.
    """

  def fetch(self) -> None:
    """Downloads the weights if they are missing.

    Called first, so that a run without weights fails before it computes anything.

    Raises:
      InputError: the weights are not on this machine and cannot be downloaded.
    """

  @property
  def needs_mean(self) -> bool:
    """Whether the weights do not state how images are normalised, so that the config must."""
    return False

  @property
  def resamples_positions(self) -> bool:
    """Whether the position embedding is resampled for images of another size.

    True for vision transformers of this project.
    """
    return False

  def check(self, label: str, image_shape: tuple[int, int, int], precision: str) -> None:
    """Raises InputError for settings that do not fit the images or this kind of classifier.

    Args:
      label: name of the classifier, for messages.
      image_shape: height, width and channels of the images.
      precision: 'float32' or 'bfloat16', the arithmetic of the network.
    """
    if self.input_filter:
      self.input_filter.check(image_shape)
    if self.mean and not self.needs_mean:
      raise SettingError(
        KEYS.classifier.mean,
        self.mean,
        problem='which is for a weights file without a record only',
        fix='The mean of this classifier is known from its weights, file or architecture. Set '
        f'{KEYS.classifier.mean} and std to ().',
      )
    if self.positions != BICUBIC and not self.resamples_positions:
      raise SettingError(
        KEYS.classifier.positions,
        self.positions,
        problem='which changes nothing here',
        fix='It is for networks of this project that resample the position embeddings of their '
        f"weights for images of another size (docs/networks.md). Set it to '{BICUBIC}'.",
      )


def resolve_section(section: ClassifierSettings, **changes: object) -> ClassifierKind:
  """Converts a classifier's settings to the subclass of `ClassifierKind` that they describe.

  For example, settings without weights become a `TrainedHere`. If `claims` is True for several
  subclasses, one with `is_fallback` False is chosen.

  Args:
    section: the settings.
    **changes: new values of settings, as {name: value}.
  """
  names = [field.name for field in dataclasses.fields(ClassifierSettings)]
  values = {**{name: getattr(section, name) for name in names}, **changes}
  changed_section = ClassifierSettings(**values)
  kinds = subclasses_in_package(__name__, ClassifierKind)
  claiming = [kind for kind in kinds if kind.claims(changed_section)]
  kind = min(claiming, key=lambda kind: kind.is_fallback)  # False is below True
  return kind(**values)
