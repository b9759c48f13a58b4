"""The whole config as one frozen dataclass: an experiment is data, classifiers and a study."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import ml_collections

from input_pipeline.settings import DataSettings
from robustness.augment.settings import AugmentSettings
from robustness.core import settings
from robustness.core.errors import InputError, nearest
from robustness.core.settings import choice, require
from robustness.evaluation import study
from robustness.models.position_embedding import METHODS
from robustness.parallel import KINDS
from robustness.training.settings import TrainingSettings

PRECISIONS = ('float32', 'bfloat16')


@dataclasses.dataclass(frozen=True)
class ClassifierSettings:
  """A section of `config.classifiers`, or `config.classifier`.

  Attributes:
    name: an architecture of `robustness.models.catalog`, or `FILE.py:NAME` for a classifier in a
      Python file of the user's (see `robustness.models.from_file`).
    weights: file with weights (.th, .pt, .pth, .safetensors, .npz), a checkpoint folder of a run
      here, or the name of published ones (`python -m robustness.models list`); '' takes those that
      come with the architecture, if any do.
    train: whether to train the network in this workdir if no weights are given.
    start: weights that the training begins with, named as `weights` are; the last layer is drawn
      anew unless the classes are the same. '' draws all from the seed.
    positions: how a vision transformer's position embedding is resampled for images of another
      size than its weights were made for: 'bicubic' as timm does it, or 'bilinear' as big_vision.
    label_space: a coarser label space to project predictions onto ('imagenet_vid', 'youtube_bb');
      '' keeps the classes of the weights.
    merge: 'max', 'sum' or 'mean' of the members' probabilities, where predictions are projected.
    augment: how training images are varied.
  """

  name: str = 'small_cnn'
  weights: str = ''
  train: bool = False
  start: str = ''
  positions: str = 'bicubic'
  label_space: str = ''
  merge: str = 'max'
  augment: AugmentSettings = AugmentSettings()

  def __post_init__(self) -> None:
    choice('config.classifier.positions', self.positions, METHODS)
    require(
      not self.start or (self.train and not self.weights),
      'config.classifier.start',
      self.start,
      "'' unless the network is trained here (config.classifier.train=True, no "
      'config.classifier.weights)',
    )


@dataclasses.dataclass(frozen=True)
class Execution:
  """The top-level values of a config: how a run is carried out.

  Attributes:
    seed: of every random stream, in [0, 2**32).
    parallel: 'jit' (over a mesh of devices) or 'pmap'; the numbers are the same.
    precision: 'float32' or 'bfloat16', of the network's arithmetic.
    batch_size: rows a step; 0 chooses by device.
    views_per_step: views a step; 0 chooses by device.
  """

  seed: int = 0
  parallel: str = 'jit'
  precision: str = 'float32'
  batch_size: int = 0
  views_per_step: int = 0

  def __post_init__(self) -> None:
    require(0 <= self.seed < 2**32, 'config.seed', self.seed, 'in [0, 2**32)')
    choice('config.parallel', self.parallel, KINDS)
    choice('config.precision', self.precision, PRECISIONS)
    for name in ('batch_size', 'views_per_step'):
      value = getattr(self, name)
      require(value >= 0, f'config.{name}', value, 'at least 1, or 0 to choose by device')


@dataclasses.dataclass(frozen=True)
class Experiment:
  """A checked config.

  Attributes:
    study: what is measured.
    data: the rows it is measured on.
    classifiers: by label, in the order of the config; the first is the baseline of comparisons.
      None for a study of images alone.
    training: how classifiers are trained that have no weights.
    execution: seed, devices, precision and sizes of steps.
  """

  study: study.Study
  data: DataSettings
  classifiers: Mapping[str, ClassifierSettings]
  training: TrainingSettings
  execution: Execution


SECTIONS = ('study', 'data', 'classifier', 'classifiers', 'training')


def from_config(config: Mapping[str, Any]) -> Experiment:
  """Checks a config, key by key.

  Raises:
    InputError: an unknown key, a wrong type or a bad value; the message names it.
  """
  values = dict(config)
  sections = {name: values.pop(name) for name in SECTIONS if name in values}
  valid = [field.name for field in dataclasses.fields(Execution)]
  for key in values:
    if key not in valid:
      raise InputError(f'unknown key config.{key}: {nearest(str(key), [*valid, *SECTIONS])}.')
  chosen = study.from_config(sections.get('study', {}))
  data = settings.parse(DataSettings, sections.get('data', {}), 'config.data')
  return Experiment(
    study=chosen,
    data=dataclasses.replace(data, canvas=data.canvas or getattr(chosen, 'canvas', 0)),
    classifiers=_classifiers(sections, chosen),
    training=settings.parse(TrainingSettings, sections.get('training', {}), 'config.training'),
    execution=settings.parse(Execution, values, 'config'),
  )


def _classifiers(sections: Mapping[str, Any], chosen: study.Study) -> dict[str, ClassifierSettings]:
  if not chosen.needs_classifier:
    if 'classifier' in sections or 'classifiers' in sections:
      raise InputError(
        f'the study {chosen.name} measures images alone: leave out '
        'config.classifier and config.classifiers.'
      )
    return {}
  if ('classifier' in sections) == ('classifiers' in sections):
    raise InputError('give either config.classifier or config.classifiers (several, by label).')
  if 'classifier' in sections:
    parsed = settings.parse(ClassifierSettings, sections['classifier'], 'config.classifier')
    return {parsed.name.rpartition(':')[2]: parsed}
  if not sections['classifiers']:
    raise InputError('config.classifiers is empty: give at least one.')
  return {
    label: settings.parse(ClassifierSettings, section, f'config.classifiers.{label}')
    for label, section in sections['classifiers'].items()
  }


def default_config(study_name: str, labels: tuple[str, ...] = ()) -> ml_collections.ConfigDict:
  """Returns a config with every key at its default, for a file in `configs/` to change.

  That of a study of images alone has neither classifiers nor a training.

  Args:
    study_name: a module of `robustness.studies`.
    labels: of several classifiers; none for a single `config.classifier`.
  """
  module = study.module(study_name)
  one = dataclasses.asdict(ClassifierSettings())
  several = {'classifiers': dict.fromkeys(labels, one)} if labels else {'classifier': one}
  trained = {**several, 'training': dataclasses.asdict(TrainingSettings())}
  return _in_given_order(
    {
      'study': {'name': study_name, **dataclasses.asdict(module.Study())},
      'data': dataclasses.asdict(DataSettings()),
      **(trained if module.Study.needs_classifier else {}),
      **dataclasses.asdict(Execution()),
    }
  )


def _in_given_order(values: Mapping[str, Any]) -> ml_collections.ConfigDict:
  """Returns a ConfigDict that keeps the order of its keys at every depth: the first classifier is
  the baseline, and ConfigDict sorts by default."""
  nested = {
    key: _in_given_order(value) if isinstance(value, Mapping) else value
    for key, value in values.items()
  }
  return ml_collections.ConfigDict(nested, sort_keys=False, convert_dict=False)
