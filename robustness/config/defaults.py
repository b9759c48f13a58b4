"""Configs with every key at its default, for the files of `configs/` to change."""

from __future__ import annotations

import copy
import dataclasses
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ml_collections import ConfigDict
from ml_collections.config_dict import placeholder

from input_pipeline.settings import DataSettings
from robustness.classifiers import ClassifierSettings
from robustness.config.experiment import Execution
from robustness.config.recipe import KINDS, SECTIONS
from robustness.core.errors import nearest
from robustness.core.registry import is_reference, part_name
from robustness.core.typing import Facts
from robustness.evaluation import study
from robustness.training.settings import TrainingSettings


def nested(values: Mapping[str, Any]) -> ConfigDict:
  """Returns a ConfigDict that keeps the order of its keys at every depth: the first classifier is
  the baseline, and `ml_collections` sorts by default."""
  sections = {k: nested(v) if isinstance(v, Mapping) else v for k, v in values.items()}
  return ConfigDict(sections, sort_keys=False, convert_dict=False)


class UnknownVariantError(ValueError):
  """A config has no such variant; `known` are those that it has."""

  def __init__(self, variant: str, known: Iterable[str]):
    self.known = tuple(known)
    super().__init__(f'no variant {variant!r}; {nearest(variant, self.known)}')


def check_variant(variant: str, known: Iterable[str]) -> None:
  """Raises UnknownVariantError unless the variant is one of those known."""
  if variant not in known:
    raise UnknownVariantError(variant, known)


def choose(
  variant: str,
  *variants: Callable[[], ConfigDict],
  labelled: Callable[[tuple[str, ...]], ConfigDict] | None = None,
) -> ConfigDict:
  """Returns the config of the variant after the colon of `--config=FILE:variant`: what the function
  of this name returns; all are named if there is none. The function `labelled` is given the labels
  of classifiers that follow its name after commas, as in 'cifar10,natural,mine'."""
  name, *labels = variant.split(',')
  if labelled and name == labelled.__name__ and labels and all(labels):
    return labelled(tuple(labels))
  known = {function.__name__: function for function in variants}
  check_variant(variant, known)
  return known[variant]()


def recipes(config: ConfigDict) -> list[ConfigDict]:
  """Returns the sections of all classifiers of a config, or of its only one."""
  several = config.get('classifiers')
  return [*several.values()] if several else [config.classifier]


def train_small_networks(config: ConfigDict, epochs: float = 12.0) -> None:
  """Has every classifier of a config trained as a small CNN on digits, cropped at random."""
  for classifier in recipes(config):
    classifier.name = 'small_cnn'
    classifier.train = True
    classifier.augment.policy = ('crop',)
    classifier.augment.crop.padding = 2
  config.training.epochs = epochs
  config.training.checkpoint_every_steps = 100


def train_natural_and_gaussian(config: ConfigDict, epochs: float = 12.0) -> None:
  """Has small CNNs trained, `gaussian` with Gaussian noise of σ = .4 and `natural` without."""
  train_small_networks(config, epochs)
  config.classifiers.gaussian.augment.policy = ('crop', 'gaussian')
  config.classifiers.gaussian.augment.gaussian.sigma = 0.4


def read_cifar10(config: ConfigDict, num_images: int = 1000) -> None:
  """Has a config read CIFAR-10's test images by TFDS: a random choice of them; 0 takes all."""
  config.data.source = 'tfds'
  config.data.name = 'cifar10'
  config.data.num_images = num_images


def train_on_imagenet(config: ConfigDict) -> None:
  """Has every classifier of a config trained as ResNet-50 is on ImageNet (Goyal et al. 2017).

  90 epochs of 1024 random crops in bfloat16: a rate of .1 for 256 images, reached after 5 epochs
  and falling as a cosine, weight decay 1e-4. The validation images are resized to 256 and cropped
  to 224 pixels, and are measured in float32.
  """
  config.data.source = 'tfds'
  config.data.name = 'imagenet2012'
  config.data.split = 'validation'
  config.data.resize = 256
  config.data.crop = 224
  for classifier in config.classifiers.values():
    classifier.train = True
    classifier.name = 'resnet50'
    classifier.data.random_crop_area = 0.08
    classifier.augment.policy = tuple(n for n in classifier.augment.policy if n != 'crop')
  config.training.epochs = 90.0
  config.training.batch_size = 1024
  config.training.learning_rate = 0.4
  config.training.warmup_epochs = 5.0
  config.training.weight_decay = 1e-4
  config.training.checkpoint_every_steps = 1000
  config.training.precision = 'bfloat16'


def finetune_resnet50(config: ConfigDict) -> None:
  """Has every ResNet-50 of a config of `train_on_imagenet` begin with torchvision's weights."""
  for classifier in config.classifiers.values():
    classifier.initial_weights = 'torchvision:resnet50.IMAGENET1K_V1'
  config.training.epochs = 5.0
  config.training.learning_rate = 0.04
  config.training.warmup_epochs = 0.5


def finetune_on_frames(config: ConfigDict) -> None:
  """Has every classifier of a config fine-tuned as Shankar et al. do (2021, table 10): batches of
  32, 10 epochs and a rate that falls on plateaus. Optimizer, momentum and patience, which they do
  not state, are stochastic gradient descent, .9 and one epoch, without weight decay."""
  for classifier in recipes(config):
    classifier.train = True
  config.training.schedule = 'plateau'
  config.training.batch_size = 32
  config.training.epochs = 10.0
  config.training.nesterov = False
  config.training.weight_decay = 0.0


def train_airbench(config: ConfigDict, network: str = 'airbench94') -> None:
  """Has networks trained as airbench94 is on CIFAR-10 (Jordan 2024), rates for the mean loss.

  What is set is `config.training` and, of each classifier, network, flip, crop and objective.
  """
  for classifier in recipes(config):
    classifier.name = network
    classifier.train = True
    classifier.augment.policy = ('alternating_flip', 'crop')
    classifier.augment.crop.padding = 2
    classifier.augment.crop.border = 'reflect'
    for objective in classifier.objective.values():
      if 'label_smoothing' in objective:
        objective.label_smoothing = 0.2
  config.training.epochs = 12.0
  config.training.batch_size = 1000
  config.training.learning_rate = 1.5
  config.training.schedule = 'triangular'
  config.training.momentum = 0.85
  config.training.weight_decay = 1.33e-3
  config.training.decay = 'all'
  config.training.bias_rate = 64.0
  config.training.stem_epochs = 3.0
  config.training.lookahead = 5
  config.training.evaluate_every_epochs = 4.0
  config.training.checkpoint_every_steps = 50


def take_two_steps(classifier: ConfigDict) -> None:
  """Has adversarial training take two steps of PGD; with one, networks learn to read the label off
  the perturbation and PGD finds all their errors (docs/records/reproduction.md)."""
  classifier.attack.pgd.steps = 2
  classifier.attack.pgd.step_size = 5 / 255


def train_half_airbench(config: ConfigDict) -> None:
  """Has airbench94 at half its width trained on CIFAR-10, for systematic robustness.

  Flips are drawn at random: a batch that balances environments has no epochs to alternate in.
  """
  read_cifar10(config)
  train_airbench(config, 'airbench94_half')
  for classifier in config.classifiers.values():
    classifier.augment.policy = ('flip', 'crop')


def train_flipped_on_imagenet(config: ConfigDict) -> None:
  """Does what `train_on_imagenet` does, with random crops and flips."""
  for classifier in config.classifiers.values():
    classifier.augment.policy = ('flip',)
  train_on_imagenet(config)


def train_selectively(config: ConfigDict, environments: tuple[str, ...]) -> None:
  """Has `erm`, the second of two classifiers, trained on permitted cells: each environment is shown
  to one group of classes alone. The first, which is trained as it is, is the baseline."""
  config.study.environments = environments
  config.study.baseline, erm = config.classifiers
  config.data.random_class_groups = len(environments)
  for classifier in config.classifiers.values():
    classifier.augment.environment.transforms = environments
  config.classifiers[erm].augment.policy += ('environment',)


def choose_with_methods(variant: str, *variants: Callable[[], ConfigDict]) -> ConfigDict:
  """Returns what `choose` does; a variant such as 'cifar10+methods' has, beside `erm`, five further
  ways of training on the permitted cells of systematic robustness: every environment equally often
  in a batch, Group DRO, IRM and CORAL over environments, and mixup within each of them."""
  name, plus, further = variant.partition('+')
  if plus:
    check_variant(further, ('methods',))
  config = choose(name, *variants)
  if plus:
    add_methods(config)
  return config


def add_methods(config: ConfigDict) -> None:
  """Adds to the classifier `erm` those of `choose_with_methods`, the same but for the method."""
  own = config.classifiers
  for name in ('balanced', 'group_dro', 'irm', 'coral', 'mixup'):
    with own.unlocked():
      own[name] = copy.deepcopy(own.erm)
  for name in ('group_dro', 'irm', 'coral'):
    own[name].objective.name = name
    own[name].objective[name].column = 'environment'
  environments = 1 + config.data.random_class_groups
  own.balanced.training.balanced = 'environment'
  own.group_dro.objective.group_dro.groups = environments
  own.irm.objective.irm.environments = environments
  own.irm.objective.irm.penalty = 10.0
  own.irm.objective.irm.anneal_steps = config.training.steps // 4 or 100
  own.irm.objective.irm.rescale = True
  own.irm.training.clip_norm = 1.0  # squared logits explode at the first steps
  own.coral.objective.coral.environments = environments
  own.coral.objective.coral.pairs = 'same_classes'
  own.coral.training.balanced = 'environment'  # enough rows of each in a batch
  own.mixup.augment.policy = (*own.erm.augment.policy, 'mixup')
  own.mixup.augment.mixup.within = 'environment'


def default_config(study_name: str, labels: tuple[str, ...] = ()) -> ConfigDict:
  """Returns a config with every key at its default, for a file in `configs/` to change.

  That of a study of images alone has neither classifiers nor a training. Without `labels` there is
  a single `config.classifier`.
  """
  found = study.STUDIES.find(study_name, 'config.study.name')
  shared = _sections(labels, found.needs_classifier)
  return nested({'study': study.default_section(study_name), **shared})


def one_on_digits(study: str) -> ConfigDict:
  """Returns the config of a study of a small CNN that is trained on MNIST digits."""
  config = default_config(study)
  train_small_networks(config)
  return config


def two_on_digits(study: str, num_images: int = 0) -> ConfigDict:
  """Returns the config of a study of two small CNNs, `natural` and `gaussian`, on MNIST digits."""
  config = default_config(study, labels=('natural', 'gaussian'))
  config.data.num_images = num_images
  train_natural_and_gaussian(config)
  return config


def on_cifar10(study: str, num_images: int = 1000, labels: tuple[str, ...] = ()) -> ConfigDict:
  """Returns the config of a study of a ResNet-20, or of one a label, whose weights are given, on
  CIFAR-10."""
  config = default_config(study, labels)
  read_cifar10(config, num_images)
  for classifier in recipes(config):
    classifier.name = 'resnet20'
  return config


def with_study(config: ConfigDict, name: str) -> ConfigDict:
  """Returns the config with another study, its keys at their defaults.

  Classifiers and a training, which a study of images alone does not have, come at their defaults or
  are left out.
  """
  if 'predictions' in config:  # scores files: there is nothing else
    config.study = nested(study.default_section(name))
    return config
  changed = default_config(name, tuple(config.get('classifiers', ())))
  for key in set(changed) & set(config) - {'study'}:
    changed[key] = config[key]
  return changed


def default_battery(
  tasks: Mapping[str, str], labels: tuple[str, ...] = (), summary: str = ''
) -> ConfigDict:
  """Returns a config of several studies of the same classifiers, every key at its default.

  Args:
    tasks: the study of each task, by the task's name; all of them run, in this order.
    labels: of several classifiers; none for a single `config.classifier`.
    summary: of `robustness.results.SUMMARIES`, or ''.
  """
  sections = {
    name: {'study': study.default_section(of), 'data': inherited(DataSettings)}
    for name, of in tasks.items()
  }
  found = [study.STUDIES.find(name, 'config.battery') for name in tasks.values()]
  shared = _sections(labels, any(one.needs_classifier for one in found))
  return nested({'battery': {'tasks': tuple(tasks), 'summary': summary, **sections}, **shared})


def _sections(labels: tuple[str, ...], needs_classifier: bool) -> dict[str, Any]:
  """Returns what configs of one study and of a battery share."""
  data = {'data': dataclasses.asdict(DataSettings())}
  if not needs_classifier:
    return {**data, **dataclasses.asdict(Execution())}
  recipes = {label: classifier() for label in labels}
  several = {'classifiers': recipes} if labels else {'classifier': classifier()}
  training = {'training': dataclasses.asdict(TrainingSettings())}
  return {**data, **several, **training, **dataclasses.asdict(Execution())}


def classifier() -> dict[str, Any]:
  """Returns a classifier's section: all parts' settings; nothing differs from the run."""
  settings = ClassifierSettings()
  single = {k: v for k, v in vars(settings).items() if k not in (*SECTIONS, 'seed')}
  chosen = {'augment': (), 'objective': settings.objective.name}
  parts = {
    kind: {key: chosen.get(kind, ''), **registry.default_sections()}
    for kind, (key, registry) in KINDS.items()
  }
  inheriting = {'training': inherited(TrainingSettings), 'data': inherited(DataSettings)}
  return {**single, **parts, **inheriting, 'seed': placeholder(int)}


def add_sections(config: ConfigDict, values: Mapping[str, Any] | None = None) -> None:
  """Adds the sections of parts in the user's files, which `values` or it names, to a config; those
  of parts in studies are the chosen ones' alone."""
  values = config if values is None else values
  for section, chosen in _studies(config, values):
    found = study.STUDIES.find(section.name, 'config.study.name')
    for key, parts in found.sections_of_parts(chosen).items():
      with section.unlocked():
        section[key] = nested(parts)
  recipes = {'classifier': (config, values)}
  several = (config.get('classifiers'), values.get('classifiers'))
  recipes |= {f'classifiers.{label}': several for label in several[0] or ()}
  for path, (own, given) in recipes.items():
    label = path.rpartition('.')[2]
    for kind, (key, registry) in KINDS.items():
      section, named = _at(own, label, kind), _at(given, label, kind, key)
      names = named if isinstance(named, tuple | list) else [named]
      for name in names if isinstance(section, Mapping | ConfigDict) else ():
        if isinstance(name, str) and is_reference(name) and part_name(name) not in section:
          found = registry.find(name, f'config.{path}.{kind}.{key}')
          defaults = {
            f.name: placeholder(object) if f.default is dataclasses.MISSING else f.default
            for f in dataclasses.fields(found)
          }
          with section.unlocked():
            section[found.name] = nested(defaults)


def _studies(config: ConfigDict, values: Mapping[str, Any]) -> Iterator[tuple[ConfigDict, Facts]]:
  """Yields each section `study` of a config, with the keys that `values` change in it."""
  tasks = [(task, _at(values, 'battery', name)) for name, task in config.get('battery', {}).items()]
  for holder, given in [(config, values), *tasks]:
    section = _at(holder, 'study')
    if isinstance(section, ConfigDict) and 'name' in section:
      yield section, {**section, **(_at(given, 'study') or {})}


def _at(values: Any, *path: str) -> Any:
  for name in path:
    values = values.get(name) if isinstance(values, Mapping | ConfigDict) else None
  return values


def inherited(settings: type) -> dict[str, Any]:
  """Returns a section whose keys have types but no values: None stands for the run's value."""
  return {
    name: placeholder(typing.get_origin(kind) or kind)
    for name, kind in typing.get_type_hints(settings).items()
  }
