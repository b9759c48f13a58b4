"""Kinds of classifiers: what a classifier's section of the config means, one kind a file.

A section is parsed once, into the frozen dataclass of its kind: its fields are the keys of the
section, and its methods load the classifier and say what images it takes. Adding a file with a
subclass of `ClassifierKind` adds a kind.
"""

import abc
import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp

from input_pipeline.settings import DataSettings
from robustness.attacks import Attack
from robustness.augment.policy import Policy
from robustness.core.errors import KEYS, SettingError
from robustness.core.registry import check_fields, defined_in, setting, word
from robustness.core.settings import require
from robustness.core.typing import Facts
from robustness.models import catalog, hub
from robustness.models.adaptation import Adaptation
from robustness.models.architecture import Architecture, Weights
from robustness.models.classifier import Classifier
from robustness.models.inputs import InputFilter, Inputs
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
    class_names: the names of their classes, in the order of labels.
    has_set_size: whether `config.data.crop` sets their size, so that all classifiers take it.
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
    mean: subtracted from images in [0, 1], one value a channel or one for all, where the weights
      are a file that no record says it of; () takes the architecture's.
    std: what the difference is then divided by; given with `mean`.
    label_space: a coarser label space to project predictions onto ('imagenet_vid', 'youtube_bb',
      'laion_c'), or 'data' for the classes of the data alone, where the classifier has more;
      '' keeps the classes of the weights.
    merge: 'max', 'sum' or 'mean' of the members' probabilities, where predictions are projected.
    augment: how training images are varied.
    attack: makes adversarial examples of them; None trains on the images.
    objective: what the training minimises.
    input_filter: what is done to images before normalisation, in training and evaluation.
    probe: what takes the place of the network's logits, fitted to the features of the training rows
      (see `robustness.models.probes`); None keeps them.
    adaptation: how the classifier adapts to the images that a study shows (see
      `robustness.models.adaptation`); None keeps each answer to its image.
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
    check_fields(self, 'config.classifier')
    require(
      not self.initial_weights or self.is_trained_here,
      'config.classifier.initial_weights',
      self.initial_weights,
      f"'' unless the network is trained here ({KEYS.classifier.train}=True, no "
      'config.classifier.weights)',
    )
    require(
      len(self.mean) == len(self.std),
      'config.classifier.std',
      self.std,
      f'as many values as {KEYS.classifier.mean}, which has {len(self.mean)}',
    )
    require(
      self.merge == 'max' or self.label_space not in ('', DATA),
      'config.classifier.merge',
      self.merge,
      f"'max' unless {KEYS.classifier.label_space} is coarser than the classes of the weights",
    )

  @property
  def architecture(self) -> Architecture | None:
    """The architecture that `name` means; None where it means something else."""
    return catalog.find(self.name)

  @functools.cached_property
  def record(self) -> Weights | None:
    """The record of published weights: their origin, and how images are prepared for these.

    It is None where no record is known.

    Raises:
      InputError: unknown or other architecture's weights, or a record that cannot be followed.
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
    """The named parts of the training."""
    return Pipeline(self.augment, self.attack, self.objective)

  @property
  def shown_in_training(self) -> Facts:
    """The rows and the parts of a training here, as plain values."""
    return {'training_split': self.data.split, **self.pipeline.describe()}


@dataclasses.dataclass(frozen=True)
class ClassifierKind(ClassifierSettings, abc.ABC):
  """A classifier's section as its kind: the base class of all kinds."""

  is_fallback: ClassVar[bool] = False
  """Whether this kind takes sections that no other kind claims."""

  @classmethod
  @abc.abstractmethod
  def claims(cls, section: ClassifierSettings) -> bool:
    """Whether a section is of this kind."""

  @property
  def channels(self) -> int:
    """How many channels the classifier's images have."""
    return self.architecture.input_shape[2] if self.architecture else 3

  @abc.abstractmethod
  def load(self, label: str, images: Images, precision: str) -> Classifier:
    """Returns the classifier with a label for tables; untrained weights are shapes only.

    Raises:
      InputError: there are no such weights, or they do not fit the network or the images.
    """

  def fetch(self) -> None:
    """Downloads what the classifier is loaded from, so that missing weights are refused early.

    Raises:
      InputError: there are no such weights here, nor can they be downloaded.
    """

  @property
  def needs_mean(self) -> bool:
    """Whether the normalisation of images comes from the config, or an assumption, only."""
    return False

  @property
  def resamples_positions(self) -> bool:
    """Whether position embeddings are resampled for images of another size."""
    return False

  def check(self, label: str, image_shape: tuple[int, int, int], precision: str) -> None:
    """Raises InputError for settings that change nothing here or do not fit images of a shape."""
    if self.input_filter:
      images = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)
      jax.eval_shape(Inputs(input_filter=self.input_filter), images)
    if self.mean and not self.needs_mean:
      raise SettingError(
        KEYS.classifier.mean,
        self.mean,
        problem='which is for a weights file without a record',
        fix='Published weights, records, checkpoints and classifiers of a library or file say '
        f"their own, and other networks have their architecture's. Set {KEYS.classifier.mean} "
        'and std to ().',
      )
    if self.positions != BICUBIC and not self.resamples_positions:
      raise SettingError(
        KEYS.classifier.positions,
        self.positions,
        problem='which changes nothing here',
        fix='It is for weights, loaded or begun with, of a network of this project whose positions '
        f"are resampled for images of another size (docs/networks.md). Set it to '{BICUBIC}'.",
      )


def resolved(section: ClassifierSettings, **changes: object) -> ClassifierKind:
  """Returns a section, with changes if any, as the dataclass of its kind."""
  names = [field.name for field in dataclasses.fields(ClassifierSettings)]
  values = {**{name: getattr(section, name) for name in names}, **changes}
  plain = ClassifierSettings(**values)
  kinds = sorted(defined_in(__name__, ClassifierKind), key=lambda kind: kind.is_fallback)
  return next(kind for kind in kinds if kind.claims(plain))(**values)
