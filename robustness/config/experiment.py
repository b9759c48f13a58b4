"""The whole config as one frozen dataclass: an experiment is data, classifiers and studies."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from input_pipeline.settings import DataSettings
from robustness.config.battery import Battery, Measurement, from_section, measurement
from robustness.config.recipe import ClassifierSettings, parse_classifier
from robustness.core import settings
from robustness.core.errors import InputError, nearest
from robustness.core.settings import choice, require
from robustness.evaluation.study import HasSmallChanges, Study
from robustness.parallel import KINDS
from robustness.training.settings import TrainingSettings

PRECISIONS = ('float32', 'bfloat16')
MOST_ROWS = 2**16
"""Rows, or views, of a shard: one is held in memory whole, and filled up to its size."""


@dataclasses.dataclass(frozen=True)
class Execution:
  """The top-level values of a config: how a run is carried out.

  Attributes:
    seed: of every random stream, in [0, 2**32).
    seeds: trains every classifier once with each of these seeds, at least two; () trains once, with
      `seed`. Rows and perturbations are those of `seed` for all, so that seeds are compared on the
      same images.
    parallel: 'jit' (over a mesh of devices) or 'pmap'; the numbers are the same.
    precision: 'float32' or 'bfloat16', of the network's arithmetic; weights, statistics of batch
      normalisation and losses are float32 in either case.
    batch_size: rows of a shard of records, and at most of a step; 0 takes up to 512.
    views_per_step: views of a shard and of a step; 0 chooses by the images' size.
    parallel_labels: with several processes, trains the classifiers (of all seeds) side by side, the
      i-th by process i mod P on its own devices, where all processes would train one after another.
  """

  seed: int = 0
  seeds: tuple[int, ...] = ()
  parallel: str = 'jit'
  precision: str = 'float32'
  batch_size: int = 0
  views_per_step: int = 0
  parallel_labels: bool = False

  def __post_init__(self) -> None:
    for key, values in (('seed', (self.seed,)), ('seeds', self.seeds)):
      valid = all(0 <= value < 2**32 for value in values)
      require(valid, f'config.{key}', getattr(self, key), 'in [0, 2**32)')
    require(
      len(self.seeds) != 1 and len(set(self.seeds)) == len(self.seeds),
      'config.seeds',
      self.seeds,
      'at least two distinct seeds, or () to train once with config.seed',
    )
    choice('config.parallel', self.parallel, KINDS)
    choice('config.precision', self.precision, PRECISIONS)
    for name in ('batch_size', 'views_per_step'):
      value = getattr(self, name)
      words = f'1 to {MOST_ROWS}, or 0 to choose by the size of images'
      require(0 <= value <= MOST_ROWS, f'config.{name}', value, words)


@dataclasses.dataclass(frozen=True)
class Experiment:
  """A checked config.

  Attributes:
    battery: what is measured on which rows; a config with `study` has a single part, named ''.
    data: the rows of parts that have none of their own, and what trainings take over.
    classifiers: whole recipes by label, in the order of the config; the first is the baseline of
      comparisons. Empty for a study of images alone.
    execution: seeds, devices, precision and sizes of steps.
  """

  battery: Battery
  data: DataSettings
  classifiers: Mapping[str, ClassifierSettings]
  execution: Execution

  @property
  def measurements(self) -> Mapping[str, Measurement]:
    """What is measured, by the name of the part."""
    return self.battery.measurements

  @property
  def is_single(self) -> bool:
    """Whether the config has one study, `config.study`, and not a battery."""
    return SINGLE in self.measurements

  @property
  def studies(self) -> list[Study]:
    """The studies of all parts."""
    return [part.study for part in self.measurements.values()]

  def section_of(self, data: DataSettings) -> str:
    """Returns the section of the config that gives some rows, such as 'config.data'."""
    parts = [name for name, part in self.measurements.items() if part.data == data]
    shared = data == self.data or self.is_single or not parts
    return 'config.data' if shared else f'config.battery.{parts[0]}.data'

  def with_seed(self, seed: int) -> Experiment:
    """Returns the experiment whose classifiers are all trained with this seed."""
    seeded = {
      label: dataclasses.replace(recipe, seed=seed) for label, recipe in self.classifiers.items()
    }
    return dataclasses.replace(self, classifiers=seeded)


SINGLE = ''
"""Name of the part where there is but one."""

SECTIONS = ('study', 'battery', 'data', 'classifier', 'classifiers', 'training')


def from_config(config: Mapping[str, Any]) -> Experiment:
  """Checks a config, key by key.

  Raises:
    InputError: an unknown key, a wrong type or a bad value; the message names it.
  """
  values = settings.without_inherited(config)
  settings.check_sections(values, SECTIONS, 'config')
  sections = {name: values.pop(name) for name in SECTIONS if name in values}
  valid = [field.name for field in dataclasses.fields(Execution)]
  for key in values:
    if key not in valid:
      raise InputError(f'unknown key config.{key}: {nearest(str(key), [*valid, *SECTIONS])}.')
  data = sections.get('data', {})
  parsed_data = settings.parse(DataSettings, data, 'config.data')
  if 'battery' not in sections:
    single = measurement(sections.get('study', {}), data, 'config.data')
    battery, parsed_data = Battery({SINGLE: single}, None), single.data
  elif 'study' in sections:
    raise InputError('give either config.study or config.battery (several studies, by name).')
  else:
    battery = from_section(sections['battery'], data)
  execution = settings.parse(Execution, values, 'config')
  studies = [part.study for part in battery.measurements.values()]
  experiment = Experiment(
    battery=battery,
    data=parsed_data,
    classifiers=_classifiers(sections, studies, execution),
    execution=execution,
  )
  _check_seeds(sections, experiment)
  for study in studies:
    refuse_what_is_lost(study, execution)
  if battery.summary:
    summary = battery.summary
    parts = {name: part.study for name, part in battery.measurements.items()}
    summary.module.check(summary.settings, list(experiment.classifiers), parts)
  return experiment


def refuse_what_is_lost(
  study: Study, execution: Execution, image_shape: tuple[int, int, int] | None = None
) -> None:
  """Raises InputError where a study measures what the config's precision rounds away.

  Args:
    study: see `HasSmallChanges`.
    execution: with the precision.
    image_shape: of the images, where they are opened.
  """
  lost = study.lost_in_bfloat16(image_shape) if isinstance(study, HasSmallChanges) else ''
  if execution.precision == 'bfloat16' and lost:
    raise InputError(
      f'config.precision is bfloat16, in which numbers have 8 bits, and {study.name} would '
      f'measure their rounding: {lost}, or set --config.precision=float32.'
    )


def _classifiers(
  sections: Mapping[str, Any], studies: Sequence[Study], execution: Execution
) -> dict[str, ClassifierSettings]:
  chosen = max(studies, key=lambda study: (study.needs_classifier, study.fewest_classifiers))
  if not chosen.needs_classifier:
    if 'classifier' in sections or 'classifiers' in sections:
      raise InputError(
        f'the study {chosen.name} measures images alone: leave out '
        'config.classifier and config.classifiers.'
      )
    return {}
  if ('classifier' in sections) == ('classifiers' in sections):
    raise InputError('give either config.classifier or config.classifiers (several, by label).')
  count = len(sections.get('classifiers', ('classifier',)))
  if 0 < count < chosen.fewest_classifiers:
    raise InputError(
      f'the study {chosen.name} compares classifiers with the first of config.classifiers: give at '
      f'least {chosen.fewest_classifiers}, not {count}.'
    )
  training = sections.get('training', {})
  settings.parse(TrainingSettings, training, 'config.training')

  def parsed(section: Mapping[str, Any], where: str) -> ClassifierSettings:
    return parse_classifier(section, where, training, sections.get('data', {}), execution.seed)

  if 'classifier' in sections:
    recipe = parsed(sections['classifier'], 'config.classifier')
    label = recipe.name.rpartition(':')[2]
    settings.check_name('config.classifier.name', label)
    return {label: recipe}
  if not sections['classifiers']:
    raise InputError('config.classifiers is empty: give at least one.')
  settings.check_sections(sections['classifiers'], sections['classifiers'], 'config.classifiers')
  for label in sections['classifiers']:
    settings.check_name('config.classifiers', label)
  return {
    label: parsed(section, f'config.classifiers.{label}')
    for label, section in sections['classifiers'].items()
  }


def _check_seeds(sections: Mapping[str, Any], experiment: Experiment) -> None:
  """Refuses several seeds where a classifier is not trained, or has a seed of its own."""
  if not experiment.execution.seeds:
    return
  if not experiment.classifiers:
    raise InputError(
      f'config.seeds is {experiment.execution.seeds}, but the study '
      f'{experiment.studies[0].name} trains nothing: leave it ().'
    )
  several = sections.get('classifiers', {'': sections.get('classifier', {})})
  for label, recipe in zip(several, experiment.classifiers.values(), strict=True):
    where = f'config.classifiers.{label}' if label else 'config.classifier'
    if recipe.weights or not recipe.train:
      raise InputError(
        f'config.seeds is {experiment.execution.seeds}, but {where} has given weights, which no '
        f'seed changes: set {where}.train=True and no weights, or leave config.seeds ().'
      )
    if 'seed' in several[label]:
      raise InputError(
        f'config.seeds is {experiment.execution.seeds} and {where}.seed is '
        f'{several[label]["seed"]}: leave one of them out.'
      )
