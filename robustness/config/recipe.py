"""A classifier's section of the config: architecture, weights or the whole recipe of a training."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from input_pipeline.settings import DataSettings
from robustness.augment import policy
from robustness.augment.policy import Policy
from robustness.core import parts, settings
from robustness.core.parts import Part
from robustness.core.settings import choice, require
from robustness.environments.leaks import AUGMENTATION, refuse_leaks
from robustness.models.position_embedding import METHODS
from robustness.training.settings import TrainingSettings
from robustness.training.step import CROSS_ENTROPY, Pipeline

ATTACKS, FRONT_ENDS = 'robustness.attacks', 'robustness.front_ends'
OBJECTIVES, AUGMENT = 'robustness.objectives', policy.PACKAGE
SECTIONS = ('training', 'data', 'augment', 'attack', 'front_end', 'objective', 'seed')


@dataclasses.dataclass(frozen=True)
class ClassifierSettings:
  """A section of `config.classifiers`, or `config.classifier`.

  Attributes:
    name: an architecture of `robustness.models.catalog`, or `FILE.py:NAME` for an architecture or a
      classifier in a Python file of the user's (see `robustness.models.from_file`).
    weights: file with weights (.th, .pt, .pth, .safetensors, .npz), a checkpoint folder of a run
      here, or the name of published ones (`robustness models list`); '' takes those that
      come with the architecture, if any do.
    train: whether to train the network in this workdir if no weights are given.
    initial_weights: weights that the training begins with, named as `weights` are; the last layer
      is drawn anew unless the classes are the same. '' draws all from the seed.
    positions: how a vision transformer's position embedding is resampled for images of another
      size than its weights were made for: 'bicubic' as timm does it, or 'bilinear' as big_vision.
    label_space: a coarser label space to project predictions onto ('imagenet_vid', 'youtube_bb'),
      or 'data' for the classes of the data alone, where the classifier has more;
      '' keeps the classes of the weights.
    merge: 'max', 'sum' or 'mean' of the members' probabilities, where predictions are projected.
    augment: how training images are varied.
    attack: makes adversarial examples of them; None trains on the images.
    objective: what the training minimises.
    front_end: what is done to images before normalisation, in training and evaluation.
    training: how long, by which optimiser; keys left out are those of `config.training`.
    data: the rows to train on; keys left out are those of `config.data`, except `num_images` (all)
      and `split` (`training.split`).
    seed: of the training: initial weights, order of the rows, augmentation.
  """

  name: str = 'small_cnn'
  weights: str = ''
  train: bool = False
  initial_weights: str = ''
  positions: str = 'bicubic'
  label_space: str = ''
  merge: str = 'max'
  augment: Policy = Policy()
  attack: Part | None = None
  objective: Part = CROSS_ENTROPY
  front_end: Part | None = None
  training: TrainingSettings = TrainingSettings()
  data: DataSettings = DataSettings()
  seed: int = 0

  def __post_init__(self) -> None:
    choice('config.classifier.positions', self.positions, METHODS)
    require(
      not self.initial_weights or (self.train and not self.weights),
      'config.classifier.initial_weights',
      self.initial_weights,
      "'' unless the network is trained here (config.classifier.train=True, no "
      'config.classifier.weights)',
    )
    require(0 <= self.seed < 2**32, 'config.classifier.seed', self.seed, 'in [0, 2**32)')

  @property
  def pipeline(self) -> Pipeline:
    """The named parts of the training."""
    return Pipeline(self.augment, self.attack, self.objective)

  @property
  def is_trained_here(self) -> bool:
    """Whether the network is trained in this workdir."""
    return self.train and not self.weights

  @property
  def shown_in_training(self) -> dict[str, Any]:
    """What a training here shows, and how, as plain values."""
    return {'training_split': self.data.split, **self.pipeline.describe()}


@dataclasses.dataclass(frozen=True)
class _Plain:
  """The keys of a classifier's section that hold single values."""

  name: str = ClassifierSettings.name
  weights: str = ClassifierSettings.weights
  train: bool = ClassifierSettings.train
  initial_weights: str = ClassifierSettings.initial_weights
  positions: str = ClassifierSettings.positions
  label_space: str = ClassifierSettings.label_space
  merge: str = ClassifierSettings.merge


@dataclasses.dataclass(frozen=True)
class _Seed:
  seed: int = 0


def parse_classifier(
  section: Mapping[str, Any],
  where: str,
  training: Mapping[str, Any],
  data: Mapping[str, Any],
  seed: int,
) -> ClassifierSettings:
  """Checks a classifier's section; what its recipe leaves out is that of the run.

  Args:
    section: keys of `ClassifierSettings`; `augment`, `attack`, `objective` and `front_end` are
      sections of names, `training` and `data` hold what differs from the run.
    where: the section's name in messages, for example 'config.classifiers.natural'.
    training: the section `config.training`.
    data: the section `config.data`.
    seed: of the run.

  Raises:
    InputError: an unknown part or key (the nearest valid ones are named), or a bad value.
  """
  settings.check_sections(section, SECTIONS[:-1], where)
  given = dict(section)
  recipe = {name: given.pop(name) for name in SECTIONS if name in given}
  valid = [field.name for field in dataclasses.fields(ClassifierSettings)]
  settings.refuse_unknown(given, valid, where)
  own_training = settings.parse(
    TrainingSettings, {**training, **recipe.get('training', {})}, f'{where}.training'
  )
  given_data = {**data, 'split': own_training.split, 'num_images': 0, **recipe.get('data', {})}
  objective = parts.optional(OBJECTIVES, recipe.get('objective', {}), f'{where}.objective')
  own_data = settings.parse(DataSettings, given_data, f'{where}.data')
  augmentations = recipe.get('augment', {})
  augment = policy.from_section(augmentations, f'{where}.augment')
  attack = parts.optional(ATTACKS, recipe.get('attack', {}), f'{where}.attack')
  front_end = parts.optional(FRONT_ENDS, recipe.get('front_end', {}), f'{where}.front_end')
  meant = augmentations.get(AUGMENTATION, {}).get('allow_leaks', False)
  refuse_leaks(
    [*augment.augmentations, attack, front_end], where, own_data.is_permitted_cells and not meant
  )
  return ClassifierSettings(
    **dataclasses.asdict(settings.parse(_Plain, given, where)),
    augment=augment,
    attack=attack,
    objective=objective or CROSS_ENTROPY,
    front_end=front_end,
    training=own_training,
    data=own_data,
    seed=settings.parse(_Seed, {'seed': recipe.get('seed', seed)}, where).seed,
  )
