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
  """The images that a classifier is loaded for.

  Attributes:
    shape: height, width and channels.
    class_names: the names of the classes, in the order of the labels.
    has_set_size: whether `config.data.crop` sets the size of images, so that all classifiers must
      take images with this size; otherwise images get the size that the classifier's weights need.
  """

  shape: tuple[int, int, int]
  class_names: tuple[str, ...]
  has_set_size: bool = False


@dataclasses.dataclass(frozen=True)
class ClassifierSettings:
  """A section of `config.classifiers`, or `config.classifier`.

  Attributes:
    name: an architecture of `robustness.models.catalog`, `FILE.py:NAME` for an architecture or a
      classifier in a Python file of the user's (see `robustness.classifiers.from_file`), or
      `timm:NAME` or `hf:REPOSITORY` for a network in PyTorch (see
      `robustness.classifiers.torch_library`).
    weights: a file with weights (.pth and other names of PyTorch's, .safetensors, .npz), a
      checkpoint folder of a run, or the name of published weights (`robustness list classifiers`);
      '' takes the architecture's published weights, if it has a default; 'random' draws them from
      the seed.
    train: whether to train the network in this workdir if `weights` is ''.
    initial_weights: weights that the training begins with, named as `weights` are; the last layer
      is drawn unless the classes are the same. '' draws all from the seed.
    positions: how a vision transformer's position embedding is resampled for images of another
      size than its weights were made for: 'bicubic' as timm does it, 'bilinear' as big_vision,
      'bicubic_pytorch' as transformers, or 'bicubic_dinov2' as DINOv2's authors.
    mean: number that is subtracted from images in [0, 1], one per channel or one for all. It is
      needed for a file of weights that does not state its normalisation; () takes the
      architecture's.
    std: number that the difference is divided by; given together with `mean`.
    label_space: a coarser label space to project predictions onto ('imagenet_vid', 'youtube_bb',
      'laion_c'), or 'data' for only the classes of the data, if the classifier has more; '' keeps
      the classes of the weights.
    merge: how the probabilities of fine classes are combined into one of a coarser label space:
      'max', 'sum' or 'mean'.
    augment: the augmentations of training images.
    attack: attack that turns training images into adversarial examples; None trains on the images.
    objective: the loss that the training minimises.
    input_filter: filter that is applied to images before normalisation, in training and evaluation.
    probe: small classifier on the features of the network that replaces its logits. It is fitted to
      the training rows (see `robustness.models.probes`); None keeps the logits.
    adaptation: how the classifier adapts to the images of a study at test time (see
      `robustness.models.adaptation`); None predicts each image independently of the others.
    training: duration and optimizer; keys that are left out come from `config.training`.
    data: the rows to train on; keys that are left out come from `config.data`, except `num_images`
      (all) and `split` (`training.split`).
    seed: the seed of the training: initial weights, order of the rows, augmentation.
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
    """Raises InputError for a value that is not valid, alone or with the other values."""
    check_fields(self, 'config.classifier')

    def require_key(key: str, is_valid: bool, valid: str) -> None:
      """Raises InputError for the value of `key` unless `is_valid`; `valid` says what is valid."""
      require(is_valid, f'config.classifier.{key}', getattr(self, key), valid)

    trained = f'the network is trained here ({KEYS.classifier.train}=True, no '
    valid = f"'' unless {trained}config.classifier.weights)"
    require_key('initial_weights', self.is_trained_here or not self.initial_weights, valid)
    valid = f'as many values as {KEYS.classifier.mean}, which has {len(self.mean)}'
    require_key('std', len(self.mean) == len(self.std), valid)
    valid = f"'max' unless {KEYS.classifier.label_space} is coarser than the classes of the weights"
    # without a label space, and with the classes of the data, no classes are merged
    require_key('merge', self.merge == 'max' or self.label_space not in ('', DATA), valid)

  @property
  def architecture(self) -> Architecture | None:
    """The architecture that `name` selects; None if it selects something else, as `timm:NAME`."""
    return catalog.find(self.name)

  @functools.cached_property
  def record(self) -> Weights | None:
    """The description of published weights: where they come from and how images are prepared.

    It is None for weights without a description, such as a user's weights.

    Raises:
      InputError: the weights are unknown or of another architecture, or their preparation of images
        cannot be reproduced.
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
    """Whether the weights are trained or drawn in this run."""
    return self.is_trained_here or self.weights == RANDOM

  @property
  def pipeline(self) -> Pipeline:
    """The augmentations, attack and objective of the training."""
    return Pipeline(self.augment, self.attack, self.objective)

  @property
  def shown_in_training(self) -> Facts:
    """The split of the training data, and augmentations, attack and objective, as JSON values."""
    return {'training_split': self.data.split, **self.pipeline.describe()}


@dataclasses.dataclass(frozen=True)
class ClassifierKind(ClassifierSettings, abc.ABC):
  """Base class of all kinds of classifiers; the fields are the keys of the classifier's section."""

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
    """Returns the classifier; if it is still to be trained, its weights are shapes only.

    Args:
      label: the name of the classifier in tables.
      images: the images that it will classify.
      precision: 'float32' or 'bfloat16', the arithmetic of the network.

    Raises:
      InputError: the weights do not exist, or do not fit the network or the images.
    """

  def fetch(self) -> None:
    """Downloads the weights, so that a run without them fails before it computes anything.

    Raises:
      InputError: the weights are not on this machine and cannot be downloaded.
    """

  @property
  def needs_mean(self) -> bool:
    """Whether only the config can state the normalisation of images, since the weights do not."""
    return False

  @property
  def resamples_positions(self) -> bool:
    """Whether position embeddings are resampled for images of another size."""
    return False

  def check(self, label: str, image_shape: tuple[int, int, int], precision: str) -> None:
    """Raises InputError for settings that have no effect on this kind or do not fit the images.

    Args:
      label: the name of the classifier in messages.
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
        fix='It is for weights, loaded or begun with, of a network of this project whose positions '
        f"are resampled for images of another size (docs/networks.md). Set it to '{BICUBIC}'.",
      )


def resolve_section(section: ClassifierSettings, **changes: object) -> ClassifierKind:
  """Converts a classifier's section to the subclass of `ClassifierKind` that it describes.

  For example, a section without weights becomes a `TrainedHere`. If `claims` is True for several
  subclasses, one with `is_fallback` False is chosen.

  Args:
    section: the section.
    **changes: {field: value in place of the section's value}.
  """
  names = [field.name for field in dataclasses.fields(ClassifierSettings)]
  values = {**{name: getattr(section, name) for name in names}, **changes}
  changed_section = ClassifierSettings(**values)
  kinds = subclasses_in_package(__name__, ClassifierKind)
  claiming = [kind for kind in kinds if kind.claims(changed_section)]
  kind = min(claiming, key=lambda kind: kind.is_fallback)  # False is below True
  return kind(**values)
