"""Configs with every key at its default, for the files of `configs/` to change."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ml_collections import ConfigDict
from ml_collections.config_dict import placeholder

from input_pipeline.settings import DataSettings
from robustness.config.experiment import Execution
from robustness.config.recipe import (
  ATTACKS,
  AUGMENT,
  FRONT_ENDS,
  OBJECTIVES,
  SECTIONS,
  ClassifierSettings,
)
from robustness.core import parts as part_settings
from robustness.core.errors import nearest
from robustness.evaluation import study
from robustness.results import SUMMARIES
from robustness.training.settings import TrainingSettings
from robustness.training.step import CROSS_ENTROPY

__all__ = [
  'ConfigDict',
  'UnknownVariantError',
  'check_variant',
  'choose',
  'classifier',
  'default_battery',
  'default_config',
  'inherited',
  'nested',
  'read_cifar10',
  'train_natural_and_gaussian',
  'train_small_networks',
]


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


def choose(variant: str, *variants: Callable[[], ConfigDict]) -> ConfigDict:
  """Returns the config of the variant after the colon of `--config=FILE:variant`: what the function
  of this name returns; all are named if there is none."""
  known = {function.__name__: function for function in variants}
  check_variant(variant, known)
  return known[variant]()


def train_small_networks(config: ConfigDict, epochs: float = 12.0) -> None:
  """Has every classifier of a config trained as a small CNN on digits, which are cropped at random.

  What the recipes differ in is set afterwards.
  """
  for classifier in config.classifiers.values():
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


def default_config(study_name: str, labels: tuple[str, ...] = ()) -> ConfigDict:
  """Returns a config with every key at its default, for a file in `configs/` to change.

  That of a study of images alone has neither classifiers nor a training.

  Args:
    study_name: a module of `robustness.studies`.
    labels: of several classifiers; none for a single `config.classifier`.
  """
  settings = study.module(study_name).Study()
  shared = _sections(labels, settings.needs_classifier)
  return nested({'study': {'name': study_name, **dataclasses.asdict(settings)}, **shared})


def default_battery(
  tasks: Mapping[str, str], labels: tuple[str, ...] = (), summary: str = ''
) -> ConfigDict:
  """Returns a config of several studies of the same classifiers, every key at its default.

  Args:
    tasks: the study of each task, by the task's name; all of them run, in this order.
    labels: of several classifiers; none for a single `config.classifier`.
    summary: of `robustness.results.SUMMARIES`, or ''.
  """
  modules = {name: study.module(study_name) for name, study_name in tasks.items()}
  battery = {
    'parts': tuple(tasks),
    'summary': {'name': summary, **SUMMARIES.default_sections()},
    **{
      name: {
        'study': {'name': tasks[name], **dataclasses.asdict(module.Study())},
        'data': inherited(DataSettings),
      }
      for name, module in modules.items()
    },
  }
  needed = any(module.Study.needs_classifier for module in modules.values())
  return nested({'battery': battery, **_sections(labels, needed)})


def _sections(labels: tuple[str, ...], needs_classifier: bool) -> dict[str, Any]:
  """Returns what configs of one study and of a battery share."""
  several = (
    {'classifiers': {label: classifier() for label in labels}}
    if labels
    else {'classifier': classifier()}
  )
  trained = {**several, 'training': dataclasses.asdict(TrainingSettings())}
  return {
    'data': dataclasses.asdict(DataSettings()),
    **(trained if needs_classifier else {}),
    **dataclasses.asdict(Execution()),
  }


def classifier() -> dict[str, Any]:
  """Returns a classifier's section: all parts' settings; nothing differs from the run."""
  return {
    **{key: value for key, value in vars(ClassifierSettings()).items() if key not in SECTIONS},
    'augment': {'policy': (), **part_settings.default_sections(AUGMENT)},
    'attack': {'name': '', **part_settings.default_sections(ATTACKS)},
    'front_end': {'name': '', **part_settings.default_sections(FRONT_ENDS)},
    'objective': {'name': CROSS_ENTROPY.name, **part_settings.default_sections(OBJECTIVES)},
    'training': inherited(TrainingSettings),
    'data': inherited(DataSettings),
    'seed': placeholder(int),
  }


def inherited(settings: type) -> dict[str, Any]:
  """Returns a section whose keys have types but no values: None stands for the run's value."""
  return {
    name: placeholder(typing.get_origin(kind) or kind)
    for name, kind in typing.get_type_hints(settings).items()
  }
