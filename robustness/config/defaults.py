"""Configs with every key at its default, for the files of `configs/` to change."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from input_pipeline.settings import DataSettings
from robustness.config.battery import SUMMARIES
from robustness.config.config_dict import ConfigDict, nested, placeholder
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
  'read_cifar10',
  'train_natural_and_gaussian',
  'train_small_networks',
]


class UnknownVariantError(ValueError):
  """A config has no such variant.

  Attributes:
    known: those that it has.
  """

  def __init__(self, variant: str, known: Iterable[str]):
    self.known = tuple(known)
    super().__init__(f'no variant {variant!r}; {nearest(variant, self.known)}')


def check_variant(variant: str, known: Iterable[str]) -> None:
  """Raises UnknownVariantError unless the variant is one of those known."""
  if variant not in known:
    raise UnknownVariantError(variant, known)


def choose(variant: str, *variants: Callable[[], ConfigDict]) -> ConfigDict:
  """Returns the config of a variant, for a file in `configs/`.

  Args:
    variant: what stands after the colon of `--config=FILE:variant`.
    *variants: functions by whose names they are called.

  Raises:
    UnknownVariantError: there is no such variant; all are named.
  """
  known = {function.__name__: function for function in variants}
  check_variant(variant, known)
  return known[variant]()


def train_small_networks(config: ConfigDict, epochs: float = 12.0) -> None:
  """Has every classifier of a config trained as a small CNN on digits, which are cropped at random.

  What the recipes differ in is set afterwards.

  Args:
    config: with `classifiers`; changed.
    epochs: of each training.
  """
  for classifier in config.classifiers.values():
    classifier.name = 'small_cnn'
    classifier.train = True
    classifier.augment.policy = ('crop',)
    classifier.augment.crop.padding = 2
  config.training.epochs = epochs
  config.training.checkpoint_every_steps = 100


def train_natural_and_gaussian(config: ConfigDict, epochs: float = 12.0) -> None:
  """Has small CNNs trained on digits, `gaussian` with Gaussian noise of σ = .4, `natural` without.

  Args:
    config: with these two `classifiers`; changed.
    epochs: of each training.
  """
  train_small_networks(config, epochs)
  config.classifiers.gaussian.augment.policy = ('crop', 'gaussian')
  config.classifiers.gaussian.augment.gaussian.sigma = 0.4


def read_cifar10(config: ConfigDict, num_images: int = 1000) -> None:
  """Has a config read CIFAR-10's test images by TFDS.

  Args:
    config: changed.
    num_images: a random choice of so many; 0 takes all.
  """
  config.data.source = 'tfds'
  config.data.name = 'cifar10'
  config.data.num_images = num_images


def default_config(study_name: str, labels: tuple[str, ...] = ()) -> ConfigDict:
  """Returns a config with every key at its default, for a file in `configs/` to change.

  That of a study of images alone has neither classifiers nor a training.

  Args:
    study_name: a module of `robustness.studies`, or `FILE.py:NAME`.
    labels: of several classifiers; none for a single `config.classifier`.
  """
  found = study.STUDIES.find(study_name, 'config.study.name')
  shared = _sections(labels, found.needs_classifier)
  return nested({'study': study.default_section(study_name), **shared})


def default_battery(
  parts: Mapping[str, str], labels: tuple[str, ...] = (), summary: str = ''
) -> ConfigDict:
  """Returns a config of several studies of the same classifiers, every key at its default.

  Args:
    parts: the study of each part, by the part's name; all of them run, in this order.
    labels: of several classifiers; none for a single `config.classifier`.
    summary: a module of `robustness.summaries`, or ''.
  """
  battery = {
    'parts': tuple(parts),
    'summary': {'name': summary, **part_settings.default_sections(SUMMARIES)},
    **{
      name: {'study': study.default_section(study_name), 'data': inherited(DataSettings)}
      for name, study_name in parts.items()
    },
  }
  needed = any(
    study.STUDIES.find(name, 'config.battery').needs_classifier for name in parts.values()
  )
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
  settings = ClassifierSettings()
  single = {
    field.name: getattr(settings, field.name)
    for field in dataclasses.fields(ClassifierSettings)
    if field.name not in SECTIONS
  }
  return {
    **single,
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
