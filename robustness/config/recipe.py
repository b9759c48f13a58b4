"""A classifier's section of the config: architecture, weights or the whole recipe of a training."""

import dataclasses

from input_pipeline.settings import DataSettings
from robustness.attacks import ATTACKS, Attack
from robustness.augment import AUGMENTATIONS, policy
from robustness.augment.environment import Environment, refuse_leaks
from robustness.augment.policy import Policy
from robustness.core import settings
from robustness.core.errors import naming
from robustness.core.registry import Registry, check_fields, setting, word
from robustness.core.settings import require
from robustness.core.typing import Facts
from robustness.fourier.input_filters import INPUT_FILTERS
from robustness.models.adaptation import ADAPTATIONS, Adaptation
from robustness.models.inputs import InputFilter
from robustness.models.label_space import DATA, MERGES
from robustness.models.position_embedding import METHODS
from robustness.models.probes import PROBES, Probe
from robustness.objectives import OBJECTIVES, Objective
from robustness.objectives.cross_entropy import CrossEntropy
from robustness.training.settings import TrainingSettings
from robustness.training.training import Pipeline

KINDS: dict[str, tuple[str, Registry]] = {
  'augment': ('policy', AUGMENTATIONS),
  'attack': ('name', ATTACKS),
  'input_filter': ('name', INPUT_FILTERS),
  'objective': ('name', OBJECTIVES),
  'probe': ('name', PROBES),
  'adaptation': ('name', ADAPTATIONS),
}
"""Sections of named parts, the key that chooses, and where the parts are."""

SECTIONS = ('training', 'data', *KINDS)
"""Keys of a classifier that are sections; the first two hold what differs from the run."""


@dataclasses.dataclass(frozen=True)
class ClassifierSettings:
  """A section of `config.classifiers`, or `config.classifier`.

  Attributes:
    name: an architecture of `robustness.models.catalog`, `FILE.py:NAME` for an architecture or a
      classifier in a Python file of the user's (see `robustness.models.from_file`), or `timm:NAME`
      or `hf:REPOSITORY` for a network in PyTorch (see `robustness.models.torch_library`).
    weights: file with weights (.pth and other names of PyTorch's, .safetensors, .npz), a checkpoint
      folder of a run here, or the name of published ones (`robustness list classifiers`); '' takes
      those that come with the architecture, if any do; 'random' draws them from the seed.
    train: whether to train the network in this workdir if no weights are given.
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
    training: how long, by which optimizer; keys left out are those of `config.training`.
    data: the rows to train on; keys left out are those of `config.data`, except `num_images` (all)
      and `split` (`training.split`).
    seed: of the training: initial weights, order of the rows, augmentation.
  """

  name: str = 'small_cnn'
  weights: str = ''
  train: bool = False
  initial_weights: str = ''
  positions: str = word('bicubic', METHODS)
  mean: tuple[float, ...] = ()
  std: tuple[float, ...] = ()
  label_space: str = ''
  merge: str = word('max', MERGES)
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
      "'' unless the network is trained here (config.classifier.train=True, no "
      'config.classifier.weights)',
    )
    require(
      len(self.mean) == len(self.std),
      'config.classifier.std',
      self.std,
      f'as many values as config.classifier.mean, which has {len(self.mean)}',
    )
    require(
      self.merge == 'max' or self.label_space not in ('', DATA),
      'config.classifier.merge',
      self.merge,
      "'max' unless config.classifier.label_space is coarser than the classes of the weights",
    )

  @property
  def pipeline(self) -> Pipeline:
    """The named parts of the training."""
    return Pipeline(self.augment, self.attack, self.objective)

  @property
  def is_trained_here(self) -> bool:
    """Whether the network is trained in this workdir."""
    return self.train and not self.weights

  @property
  def shown_in_training(self) -> Facts:
    """What a training here shows, and how, as plain values."""
    return {'training_split': self.data.split, **self.pipeline.describe()}


def default_label(name: str) -> str:
  """Returns the label of a classifier that is given no other: of `MODULE:NAME` and `FILE.py:NAME`
  what follows the colon, of `hf:ACCOUNT/NAME` and a folder the last part."""
  label = name.rpartition(':')[2]
  return label.rstrip('/').rpartition('/')[2] if name.startswith('hf:') else label


CHOOSE_ROWS = {'num_images': 0, 'image_list': '', 'known_classes': True}
"""Keys of `config.data` that choose what is evaluated, and what a training has in their place."""


def parse_classifier(
  section: Facts, where: str, training: Facts, data: Facts, seed: int
) -> ClassifierSettings:
  """Checks a classifier's section, such as 'config.classifiers.natural' (`where`).

  What it leaves out is that of the run: `config.training`, `config.data` (without `num_images`,
  `image_list` and `known_classes`, which choose what is evaluated) and the seed.
  """
  settings.check_sections(section, SECTIONS, where)
  own = {name: section.get(name, {}) for name in SECTIONS}
  given_training = {**training, **own['training']}
  with naming('config.training', f'{where}.training'):  # the run's own have been checked
    own_training = settings.parse(TrainingSettings, given_training, f'{where}.training')
  of_training = {'split': own_training.split, **CHOOSE_ROWS}
  given_data = {**data, **of_training, **own['data']}
  with naming('config.data', f'{where}.data'):
    own_data = settings.parse(DataSettings, given_data, f'{where}.data')
  augment = policy.from_section(own['augment'], f'{where}.augment')
  parts = {
    kind: registry.optional(own[kind], f'{where}.{kind}')
    for kind, (key, registry) in KINDS.items()
    if key == 'name'
  }
  meant = own['augment'].get(Environment.name, {}).get('allow_leaks', False)
  stored = own_data.is_permitted_cells and not meant
  refuse_leaks(augment.augmentations, (parts['attack'], parts['input_filter']), where, stored)
  parts['objective'] = parts['objective'] or CrossEntropy()
  parsed = {'training': own_training, 'data': own_data, 'augment': augment, **parts}
  with naming('config.classifier.', f'{where}.'):
    return settings.parse(ClassifierSettings, {'seed': seed, **section, **parsed}, where)
