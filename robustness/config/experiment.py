"""The whole config as one frozen dataclass: classifiers, studies and how they are run.

The section `config.battery` has several studies of the same classifiers in one run, its tasks:

  config.battery.tasks = ('errors', 'heat_maps')      which tasks run, in order
  config.battery.errors.study.name = ...              a task's study, as `config.study`
  config.battery.heat_maps.data.num_images = 200      a value that differs from `config.data`
  config.battery.scenes.data.source = ...             images of another source, with all their keys
  config.battery.summary = ...                        the report on all tasks together

Classifiers are trained once; each task has its own records, results, figures and report.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

from absl import logging

from input_pipeline.settings import DEFAULT, DataSettings, Preparation
from robustness.classifiers import ClassifierKind, ClassifierSettings
from robustness.config.recipe import default_label, parse_classifier
from robustness.config.recorded import SUMMARY, TASKS
from robustness.core import settings
from robustness.core.errors import KEYS, InputError, SettingError, renaming_section
from robustness.core.registry import are_distinct_and_some, check_fields, setting, word
from robustness.core.settings import Section, merge_changes, require
from robustness.evaluation import study as studies
from robustness.evaluation.study import HasSmallChanges, Study
from robustness.parallel import KINDS
from robustness.results import SINGLE, SUMMARIES
from robustness.training.settings import PRECISIONS, TrainingSettings

BATTERY = 'config.battery'
MOST_ROWS = 2**16
"""Largest number of rows, or of views, of a shard, which is held in memory and padded."""
SEEDS = 'in [0, 2**32)'
SIZES = f'1 to {MOST_ROWS}, or 0 to choose by the size of images'
"""The valid values of seeds and of sizes, for messages."""


@dataclasses.dataclass(frozen=True)
class Execution:
  """Top-level settings of a config: seeds, devices, precision and sizes of steps.

  Attributes:
    seed: seed of all random numbers, in [0, 2**32).
    seeds: trains every classifier once with each of these seeds, at least two; () trains once, with
      `seed`. Images and perturbations depend on `seed` alone.
    parallel: 'jit' (over a mesh of devices) or 'pmap'; the numbers are the same.
    precision: 'float32' or 'bfloat16', of the network's arithmetic. Weights, statistics of batch
      normalisation and losses are always float32.
    batch_size: largest number of images in a compiled step, and number of images in each file of
      predictions; 0 takes up to 512.
    views_per_step: number of perturbations in a compiled step and in each file of predictions; 0
      chooses by the images' size.
  """

  # `large`, the last argument: seeds may be 2**31 or larger
  seed: int = setting(0, SEEDS, lambda x: 0 <= x < 2**32, large=True)
  seeds: tuple[int, ...] = setting((), SEEDS, lambda xs: all(0 <= x < 2**32 for x in xs), True)
  parallel: str = word('jit', KINDS)
  precision: str = word('float32', PRECISIONS)
  batch_size: int = setting(0, SIZES, lambda x: 0 <= x <= MOST_ROWS)
  views_per_step: int = setting(0, SIZES, lambda x: 0 <= x <= MOST_ROWS)

  def __post_init__(self) -> None:
    """Raises InputError for a value out of range, or a single or repeated value in `seeds`."""
    check_fields(self, 'config')
    is_valid = len(self.seeds) != 1 and len(set(self.seeds)) == len(self.seeds)
    valid = 'at least two distinct seeds, or () to train once with config.seed'
    require(is_valid, 'config.seeds', self.seeds, valid)


SETTINGS = tuple(field.name for field in dataclasses.fields(Execution))
"""Keys of a config that are values and not sections."""
RESERVED = (
  *SETTINGS,
  *('baseline', 'confidence', 'false_discovery_rate', 'image_shape', 'num_examples'),
)
"""Names that no task may have: results list tasks and facts of the whole run in one mapping."""


@dataclasses.dataclass(frozen=True)
class Measurement:
  """A study, and the settings of the images that it is measured on."""

  study: Study
  data: DataSettings


@dataclasses.dataclass(frozen=True)
class Experiment:
  """A config after all checks.

  Attributes:
    measurements: {name in the battery: study and settings of its images}, in the order in which
      they run. The name is `SINGLE` for a config with a single study.
    summary: the report on all studies of a battery, one of `robustness.results.SUMMARIES`.
    data: settings of the images, for studies that do not set others. Also the defaults for training
      images.
    training: the section `config.training`, the defaults of each training.
    classifiers: {label: settings of a classifier}, in the order of the config. The first is the
      baseline of comparisons. Empty for a study without classifiers.
    execution: seeds, devices, precision and sizes of steps.
    has_labels: whether the config has the section `classifiers`, by label, instead of a single
      `classifier`.
  """

  measurements: Mapping[str, Measurement]
  summary: str
  data: DataSettings
  training: TrainingSettings
  classifiers: Mapping[str, ClassifierKind]
  execution: Execution
  has_labels: bool

  @property
  def is_single(self) -> bool:
    """Whether the config has a single study, `config.study`, instead of a battery."""
    return SINGLE in self.measurements

  @property
  def studies(self) -> dict[str, Study]:
    """The studies, as {name in the battery: study}."""
    return {name: task.study for name, task in self.measurements.items()}

  def section_of(self, data: DataSettings) -> str:
    """Returns the name of the config section with these data settings, for messages.

    The name is 'config.data', or the section `data` of a study or classifier. The first section
    with equal settings counts.
    """
    if data != self.data:
      for name, task in self.measurements.items():
        if task.data == data:
          return f'{BATTERY}.{name}.data'
      for label, recipe in self.classifiers.items():
        if recipe.data == data:
          return f'{self.section_of_classifier(label)}.data'
    return 'config.data'

  def section_of_study(self, name: str) -> str:
    """Returns the name of a study's config section, such as 'config.battery.noise.study'."""
    return 'config.study' if self.is_single else f'{BATTERY}.{name}.study'

  def section_of_classifier(self, label: str) -> str:
    """Returns the name of a classifier's config section, such as 'config.classifiers.natural'."""
    return f'config.classifiers.{label}' if self.has_labels else 'config.classifier'

  def training_key(self, label: str, key: str) -> str:
    """Returns the full name of a training setting of a classifier, for messages.

    The name is 'config.training.KEY', or 'config.classifiers.LABEL.training.KEY' if the classifier
    has another value.

    Args:
      label: label of the classifier.
      key: name of the setting, such as 'epochs'.
    """
    is_inherited = vars(self.classifiers[label].training)[key] == vars(self.training)[key]
    section = 'config' if is_inherited else self.section_of_classifier(label)
    return f'{section}.training.{key}'

  def preparation(self) -> Preparation | None:
    """Returns how images are resized and cropped, as the classifiers' published weights expect.

    None if the config decides, if no published weights are used, or if images are resized on the
    device for each classifier.

    Raises:
      InputError: the weights expect different images, and the config does not decide.
    """
    if self.data.resize or self.data.crop or self.data.source.resized_on_device:
      return None
    # by size, crop and interpolation, with the name of the first weights that expect these
    preparations: dict[tuple[int, int, str, bool], Preparation] = {}
    unrecorded = []  # labels of classifiers with weights that do not state a preparation
    for label, classifier in self.classifiers.items():
      weights = classifier.record  # the description of published weights, or None
      if weights:
        expected = weights.input_size, weights.resize, weights.interpolation, weights.squash
        if expected not in preparations:
          name = f'{weights.name} ({weights.record})' if weights.record else weights.name
          preparations[expected] = Preparation(name, *expected)
      elif not classifier.depends_on_seed:
        unrecorded.append(label)
    if not preparations:
      return None
    preparation, *other_preparations = preparations.values()
    keys = f'{KEYS.data.resize:--} and {KEYS.data.crop:--}'  # as flags of the command line
    if other_preparations:
      sizes = ', '.join(f'{p.name}: {_size_in_words(p)}' for p in preparations.values())
      raise InputError(
        f'the classifiers want their images prepared differently ({sizes}): run them apart, or set '
        f'{keys} for all.'
      )
    if unrecorded:
      message = 'images are prepared as %s wants them (%s), and no record says how %s does: set %s'
      names, size = ', '.join(unrecorded), _size_in_words(preparation)
      logging.warning(f'{message} if otherwise.', preparation.name, size, names, keys)
    return preparation

  def with_seed(self, seed: int) -> Self:
    """Returns a copy in which all classifiers are trained with this seed."""
    recipes = self.classifiers.items()
    seeded = {label: dataclasses.replace(recipe, seed=seed) for label, recipe in recipes}
    return dataclasses.replace(self, classifiers=seeded)


def _size_in_words(preparation: Preparation) -> str:
  """Returns the sizes and interpolation for messages, such as '224 of 256 pixels, bicubic'.

  In this example images are resized to 256 pixels and their central 224 are kept.
  """
  return f'{preparation.side} of {preparation.resize} pixels, {preparation.interpolation}'


SECTIONS = ('study', 'battery', 'data', 'classifier', 'classifiers', 'training')
"""Keys of a config that are sections."""


def from_config(config: Section) -> Experiment:
  """Parses and checks a config.

  Raises:
    InputError: a setting is unknown or not valid, alone or together with others.
  """
  values = settings.without_inherited(config)
  settings.check_sections(values, SECTIONS, 'config')
  # `values` keeps the keys that are no sections, such as `seed`
  sections = {name: values.pop(name) for name in SECTIONS if name in values}
  settings.refuse_unknown(values, [*SETTINGS, *SECTIONS], 'config')
  data_section = sections.get('data', {})
  data = DataSettings.from_section(data_section)
  summary = ''
  if 'battery' not in sections:
    single = _parse_measurement(sections.get('study', {}), data_section, 'config.data')
    # the study may have changed settings of the source
    measurements, data = {SINGLE: single}, single.data
  elif 'study' in sections:
    raise InputError(f'give either {KEYS.study} or config.battery (several studies, by name).')
  else:
    summary = sections['battery'].get(SUMMARY, '')
    settings.choice(f'{BATTERY}.{SUMMARY}', summary, SUMMARIES)
    measurements = _parse_battery(sections['battery'], data_section)
  execution = settings.parse(Execution, values, 'config')
  all_studies = [task.study for task in measurements.values()]
  training = settings.parse(TrainingSettings, sections.get('training', {}), 'config.training')
  classifiers = _parse_classifiers(sections, all_studies, execution)
  has_labels = 'classifiers' in sections  # `config.classifiers.LABEL`, not `config.classifier`
  experiment = Experiment(measurements, summary, data, training, classifiers, execution, has_labels)
  _check_seeds(sections, experiment)
  _check_measured_along_training(experiment)
  _check_adaptations(experiment)
  for name, study in experiment.studies.items():
    check_precision(study, execution)
    with renaming_section('config.study', experiment.section_of_study(name)):
      study.check_labels(classifiers)
  return experiment


def _parse_measurement(section: Section, data: Section, path: str) -> Measurement:
  """Returns a checked study with the settings of the images that it is measured on.

  Args:
    section: the section `study`.
    data: the section `data`.
    path: name of the section `data`, such as 'config.data', for messages.
  """
  study, rows = studies.from_config(section), DataSettings.from_section(data, path)
  # the study may set settings of the source, such as the canvas of scenes
  source = rows.source.for_study(study.describe())
  return Measurement(study, dataclasses.replace(rows, source=source))


def _parse_battery(section: Section, data: Section) -> dict[str, Measurement]:
  """Returns the studies of a battery that run, {name: study and settings of its images}.

  These are the studies that `config.battery.tasks` lists. The others are only checked.

  Args:
    section: the section `config.battery`, with a section for each study.
    data: the section `config.data`, with the defaults for all studies.
  """
  sections = {name: task for name, task in section.items() if name not in (TASKS, SUMMARY)}
  for name in sections:
    settings.check_name(BATTERY, name)
    # in results, tasks and settings of the run are keys of one mapping: their names must differ
    if name in RESERVED:
      raise InputError(
        f'{BATTERY} names a task {name!r}, as results name a setting of the run: give it another '
        'name.'
      )
  names = section.get(TASKS, ())
  is_valid = isinstance(names, tuple | list) and are_distinct_and_some(names)
  valid = f'a tuple of different tasks: {", ".join(sections) or "none"}'
  require(is_valid, f'{BATTERY}.{TASKS}', names, valid)
  for name in names:
    settings.choice(f'{BATTERY}.{TASKS}', name, sections)
  measurements = {name: _parse_task(name, task, data) for name, task in sections.items()}
  return {name: measurements[name] for name in names}


def _parse_task(name: str, section: Any, data: Section) -> Measurement:
  """Returns a study of a battery (a run of several studies), with the settings of its images.

  Its section `data` may replace values of `config.data`. With another `source` it inherits none of
  these values, because they are for other images.

  Args:
    name: name of the study in the battery.
    section: the section of this name in the battery, with `study` and `data`.
    data: the section `config.data`.
  """
  path = f'{BATTERY}.{name}'
  if not isinstance(section, Mapping):
    raise InputError(f'{path} must be a section with a study; got {section!r}.')
  settings.refuse_unknown(section, ('study', 'data'), path)
  settings.check_sections(section, ('study', 'data'), path)
  changes, source = section.get('data', {}), data.get('source', DEFAULT)
  has_same_source = changes.get('source', source) == source
  inherited = data if has_same_source else {}
  with renaming_section('config.study', f'{path}.study'):
    merged = merge_changes(inherited, changes)
    return _parse_measurement(section.get('study', {}), merged, f'{path}.data')


def check_precision(
  study: Study, execution: Execution, image_shape: tuple[int, int, int] | None = None
) -> None:
  """Raises InputError if bfloat16 would round away a study's small changes of images.

  Args:
    study: the study. Only studies with `HasSmallChanges` can be refused.
    execution: top-level settings, which have the precision.
    image_shape: height, width and channels of the images; None if they are not known yet.
  """
  advice = study.lost_in_bfloat16(image_shape) if isinstance(study, HasSmallChanges) else ''
  if execution.precision == 'bfloat16' and advice:
    raise InputError(
      f'config.precision is bfloat16, in which numbers have 8 bits, and {study.name} would '
      f'measure their rounding: {advice}, or set --config.precision=float32.'
    )


def _parse_classifiers(
  sections: Section, studies: Sequence[Study], execution: Execution
) -> dict[str, ClassifierKind]:
  """Returns the classifiers of a config, as {label: settings}, in order.

  {} if no study needs a classifier.

  Args:
    sections: the sections of the config.
    studies: all studies of the config.
    execution: top-level settings, which have the default seed.

  Raises:
    InputError: there are no classifiers, fewer than a study needs, or some that no study needs, or
      a section is not valid.
  """
  has_one, has_several = 'classifier' in sections, 'classifiers' in sections
  with_classifier = [study for study in studies if study.needs_classifier]
  if not with_classifier:
    if has_one or has_several:
      raise InputError(
        f'the study {studies[0].name} measures images alone: leave out '
        f'{KEYS.classifier} and config.classifiers.'
      )
    return {}
  if has_one == has_several:  # both or none
    raise InputError(f'give either {KEYS.classifier} or config.classifiers (several, by label).')
  strictest = max(with_classifier, key=lambda study: study.fewest_classifiers)
  count = 1 if has_one else len(sections['classifiers'])
  if 0 < count < strictest.fewest_classifiers:  # 0 is refused below
    raise InputError(
      f'the study {strictest.name} compares classifiers with the first of config.classifiers: give '
      f'at least {strictest.fewest_classifiers}, not {count}.'
    )
  # the values of the run for what the section of a classifier leaves out
  inherited = sections.get('training', {}), sections.get('data', {}), execution.seed
  if has_one:
    section = sections['classifier']
    label = default_label(str(section.get('name', ClassifierSettings.name)))
    settings.check_name('config.classifier.name', label, is_key=False)
    return {label: parse_classifier(section, 'config.classifier', *inherited)}
  path, by_label = 'config.classifiers', sections['classifiers']
  if not by_label:
    raise InputError(f'{path} is empty: give at least one.')
  settings.check_sections(by_label, by_label, path)
  for label in by_label:
    settings.check_name(path, label)
  return {
    label: parse_classifier(section, f'{path}.{label}', *inherited)
    for label, section in by_label.items()
  }


def _check_measured_along_training(experiment: Experiment) -> None:
  """Raises InputError if a training cannot measure what its setting `measure` names.

  The setting names studies of the config that are measured between the steps of a training.
  """
  measurements = experiment.measurements
  # studies of a battery have names of their own; a single study is called by its kind
  names = [measurements[SINGLE].study.name] if experiment.is_single else measurements
  for label, classifier in experiment.classifiers.items():
    if not classifier.is_trained_here:
      continue
    key = experiment.training_key(label, 'measure')
    for name in classifier.training.measure:
      settings.choice(key, name, names)
    if classifier.training.measure and classifier.probe:
      problem = 'and the probe of this classifier is fitted after the training'
      fix = f'Leave it or {experiment.section_of_classifier(label)}.probe.name empty.'
      raise SettingError(key, classifier.training.measure, problem=problem, fix=fix)


def _check_adaptations(experiment: Experiment) -> None:
  """Raises InputError if the config does not allow test-time adaptation of its classifiers.

  A study must have `allows_adaptation`. It must not record outputs of `layers`, nor stop as soon as
  its intervals have a `half_width`. The config must not set `batch_size` or `views_per_step`,
  because they would cut the sequence of images to adapt to.
  """
  adapting = [label for label, c in experiment.classifiers.items() if c.adaptation]
  if not adapting:
    return
  path = f'{experiment.section_of_classifier(adapting[0])}.adaptation'
  for name, study in experiment.studies.items():
    section = experiment.section_of_study(name)
    if not study.allows_adaptation:
      raise InputError(
        f'{section}.name is {study.name!r}, which needs answers that do not depend on the images '
        f"shown together; the classifier of {path} adapts to these: set {path}.name=''."
      )
    require(not study.layers, f'{section}.layers', study.layers, f'() where {path} is given')
    valid_width = f'0.0 where {path} is given'
    require(not study.half_width, f'{section}.half_width', study.half_width, valid_width)
  valid_size = f'0 where {path} is given, whose streams it would cut'
  for key in ('batch_size', 'views_per_step'):
    size = getattr(experiment.execution, key)
    require(size == 0, f'config.{key}', size, valid_size)


def _check_seeds(sections: Section, experiment: Experiment) -> None:
  """Raises InputError if `config.seeds` would not change every classifier.

  A classifier does not change if it is not trained, or if its section sets a seed.
  """
  if not experiment.execution.seeds:
    return
  seeds = f'config.seeds is {experiment.execution.seeds}'
  if not experiment.classifiers:
    study = next(iter(experiment.studies.values()))
    raise InputError(f'{seeds}, but the study {study.name} trains nothing: leave it ().')
  for label, recipe in experiment.classifiers.items():
    path = experiment.section_of_classifier(label)
    if not (recipe.depends_on_seed or recipe.probe):
      raise InputError(
        f'{seeds}, but {path} has given weights, which no seed changes: set {path}.train=True '
        'and no weights, or leave config.seeds ().'
      )
    section = sections['classifiers'][label] if experiment.has_labels else sections['classifier']
    if 'seed' in section:
      raise InputError(f'{seeds} and {path}.seed is {section["seed"]}: leave one of them out.')
