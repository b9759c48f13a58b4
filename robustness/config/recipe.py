"""Reads a classifier's section of the config: a network, its weights or the recipe of its
training.
"""

from input_pipeline.settings import DataSettings
from robustness.attacks import ATTACKS
from robustness.augment import AUGMENTATIONS, policy
from robustness.augment.environment import Environment, refuse_leaks
from robustness.classifiers import ClassifierKind, ClassifierSettings, resolve_section
from robustness.core import settings
from robustness.core.errors import renaming_section
from robustness.core.registry import Registry
from robustness.core.typing import Facts
from robustness.fourier.input_filters import INPUT_FILTERS
from robustness.models.adaptation import ADAPTATIONS
from robustness.models.probes import PROBES
from robustness.objectives import OBJECTIVES
from robustness.objectives.cross_entropy import CrossEntropy
from robustness.training.settings import TrainingSettings

PART_KINDS: dict[str, tuple[str, Registry]] = {
  'augment': ('policy', AUGMENTATIONS),
  'attack': ('name', ATTACKS),
  'input_filter': ('name', INPUT_FILTERS),
  'objective': ('name', OBJECTIVES),
  'probe': ('name', PROBES),
  'adaptation': ('name', ADAPTATIONS),
}
"""Sections of a classifier that choose a part by name: {section: (key with the name, registry)}."""

TRAINING_PARTS = ('augment', 'attack', 'objective')
"""Kinds of parts that a classifier has only while it is trained."""

INHERITED_SECTIONS = ('training', 'data')
"""Sections of a classifier with values that replace the run's values in the section so named."""

SECTIONS = (*INHERITED_SECTIONS, *PART_KINDS)
"""All keys of a classifier that are sections."""


def default_label(name: str) -> str:
  """Returns the default label of a classifier, from the name of its network.

  For `timm:NAME` and `FILE.py:NAME` the label is NAME. For `hf:ACCOUNT/NAME` or `hf:FOLDER` it is
  the last part of the path. Any other name is its own label.
  """
  label = name.rpartition(':')[2]
  return label.rstrip('/').rpartition('/')[2] if name.startswith('hf:') else label


CHOOSE_ROWS = {'num_images': 0, 'image_list': '', 'known_classes': True}
"""Keys of `config.data` that select the evaluated images, with the values that a training has
instead.
"""


def parse_classifier(
  section: Facts, path: str, training: Facts, data: Facts, seed: int
) -> ClassifierKind:
  """Parses a classifier's section of the config into a dataclass.

  The class depends on the network, such as an architecture of the catalogue or a user's file.
  Settings that the section leaves out are taken from the run. A classifier trains on all images of
  `training.split`, whatever images `config.data` selects for the evaluation.

  Args:
    section: the section.
    path: name of the section, such as 'config.classifiers.natural', for messages.
    training: the section `config.training`.
    data: the section `config.data`. Its keys in `CHOOSE_ROWS` are not inherited.
    seed: seed of the run.

  Raises:
    InputError: a setting is not valid. Also if an augmentation, the attack or the input filter
      shows a transform, such as blur, to classes that must not see it (`refuse_leaks`).
  """
  settings.check_sections(section, SECTIONS, path)
  sections = {name: section.get(name, {}) for name in SECTIONS}
  with (
    renaming_section('config.classifier', path),
    renaming_section('config.training', f'{path}.training'),
    renaming_section('config.data', f'{path}.data'),
  ):
    merged_training = {**training, **sections['training']}
    training_settings = settings.parse(TrainingSettings, merged_training, f'{path}.training')
    # `CHOOSE_ROWS` has the values that choose all images of the split
    inherited_data = {**data, 'split': training_settings.split, **CHOOSE_ROWS}
    merged_data = settings.merge_changes(inherited_data, sections['data'])
    data_settings = DataSettings.from_section(merged_data, f'{path}.data')
    augment = policy.from_section(sections['augment'], f'{path}.augment')
    parts = {  # the part of each kind or None; a classifier may have several augmentations
      kind: registry.optional(sections[kind], f'{path}.{kind}')
      for kind, (_key, registry) in PART_KINDS.items()
      if kind != 'augment'
    }
    allows_leaks = sections['augment'].get(Environment.name, {}).get('allow_leaks', False)
    # whether images are stored in environments, in which some classes lack some transforms
    is_stored = data_settings.is_permitted_cells and not allows_leaks
    refuse_leaks(augment.augmentations, (parts['attack'], parts['input_filter']), path, is_stored)
    parts['objective'] = parts['objective'] or CrossEntropy()
    parsed = {'training': training_settings, 'data': data_settings, 'augment': augment, **parts}
    values = {'seed': seed, **section, **parsed}  # the section may have another seed
    return resolve_section(settings.parse(ClassifierSettings, values, path))
