"""Configs with every key at its default, for the files of `configs/` to change."""

import dataclasses
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ml_collections import ConfigDict
from ml_collections.config_dict import placeholder

from input_pipeline.settings import DEFAULT, SOURCES, DataSettings
from robustness.classifiers import ClassifierSettings
from robustness.config.experiment import Execution
from robustness.config.recipe import PART_KINDS, SECTIONS
from robustness.core.errors import nearest
from robustness.core.settings import field_types
from robustness.core.typing import Facts
from robustness.core.user_code import is_reference, part_name
from robustness.evaluation import study
from robustness.training.settings import TrainingSettings


def nested(values: Mapping[str, Any]) -> ConfigDict:
  """Converts nested dictionaries to a ConfigDict that keeps the order of keys.

  `ml_collections` sorts keys by default. The order matters, because the first classifier is the
  baseline.
  """
  sections = {k: nested(v) if isinstance(v, Mapping) else v for k, v in values.items()}
  return ConfigDict(sections, sort_keys=False, convert_dict=False)


class UnknownVariantError(ValueError):
  """Raised if a config does not have the variant in --config=FILE:VARIANT.

  Attributes:
    known: the variants that the config has.
  """

  def __init__(self, variant: str, variants: Iterable[str]):
    """Makes the message, which suggests the most similar variant."""
    self.known = tuple(variants)
    super().__init__(f'no variant {variant!r}; {nearest(variant, self.known)}')


def check_variant(variant: str, variants: Iterable[str]) -> None:
  """Raises UnknownVariantError unless `variant` is one of `variants`."""
  if variant not in variants:
    raise UnknownVariantError(variant, variants)


def variants(
  *functions: Callable[[], ConfigDict],
  labelled: Callable[[tuple[str, ...]], ConfigDict] | None = None,
  added: Mapping[str, Callable[[ConfigDict], None]] | None = None,
) -> Callable[..., ConfigDict]:
  """Returns a `get_config` function for a config file with variants.

  A user selects a variant by `--config=FILE:VARIANT`. A variant has the name of one of `functions`,
  and the first is the default.

  Args:
    *functions: functions that return the config of each variant.
    labelled: the function of a variant that also accepts labels of classifiers, as in
      'cifar10,natural,mine'. It is called with the labels.
    added: {word: function that changes a config}, for variants such as 'cifar10+methods'.
  """
  function_by_name = {function.__name__: function for function in functions}

  def get_config(variant: str = functions[0].__name__) -> ConfigDict:
    """Returns the config of a variant, for a config file that calls `variants`.

    `functions` return the configs of the variants, and `function_by_name` is {name: function}. Each
    function of `added`, {word: function}, changes a config. `labelled` is one of `functions` that
    also takes labels of classifiers, or None.

    Args:
      variant: 'NAME' is the name of one of `functions`. 'NAME+WORD' calls the function
        `added[WORD]` on its config. 'NAME,LABEL,...' passes labels to the function `labelled`.
    """
    first_word, *labels = variant.split(',')
    if labelled and first_word == labelled.__name__ and labels and '' not in labels:
      return labelled(tuple(labels))
    if not added or '+' not in variant:
      check_variant(variant, function_by_name)
      return function_by_name[variant]()
    name, _, word = variant.partition('+')
    check_variant(name, function_by_name)
    check_variant(word, added)
    config = function_by_name[name]()
    added[word](config)
    return config

  return get_config


def sections_of_classifiers(config: ConfigDict) -> list[ConfigDict]:
  """Returns the sections of all classifiers of a config.

  A config with a single section `classifier` has one.
  """
  classifiers = config.get('classifiers')
  return [*classifiers.values()] if classifiers else [config.classifier]


def default_config(study_name: str, labels: tuple[str, ...] = ()) -> ConfigDict:
  """Returns the config of one study with all settings at their defaults.

  A study of images without classifiers has no sections for classifiers and training.

  Args:
    study_name: name of the study.
    labels: labels of several classifiers; () for a single `config.classifier`.
  """
  study_class = study.STUDIES.find(study_name, 'config.study.name')
  shared = _common_sections(labels, study_class.needs_classifier)
  return nested({'study': study.default_section(study_name), **shared})


def predictions_config(study_name: str) -> ConfigDict:
  """Returns the config of a study that scores predictions in files, with default settings.

  The config has no classifiers and no data. Instead it has the study's `prediction_settings`, such
  as the paths of the files.

  Args:
    study_name: name of the study.
  """
  study_class = study.STUDIES.find(study_name, 'config.study.name')
  assert issubclass(study_class, study.ScoresPredictions)
  section = study.default_section(study_name)
  return nested({'study': section, **_field_defaults(study_class.prediction_settings)})


def with_study(config: ConfigDict, name: str) -> ConfigDict:
  """Returns the config with another study, which has default settings.

  Sections that the new study needs, such as a classifier, are added with defaults. Sections that it
  does not need are removed.

  Args:
    config: the config.
    name: name of the new study.
  """
  if 'predictions' in config:  # a study of files with predictions needs no classifier and no data
    config.study = nested(study.default_section(name))
    return config
  changed = default_config(name, tuple(config.get('classifiers', ())))
  # sections and values that both configs have, except the study, are taken from `config`
  for key in set(changed) & set(config) - {'study'}:
    changed[key] = config[key]
  return changed


def default_battery(
  tasks: Mapping[str, str], labels: tuple[str, ...] = (), summary: str = ''
) -> ConfigDict:
  """Returns the config of a battery with default settings.

  A battery is several studies of the same classifiers.

  Args:
    tasks: {name in the battery: name of the study}. All run, in this order.
    labels: labels of several classifiers; () for a single `config.classifier`.
    summary: the report on all studies together: 'fourier_table' for the tables of Yin et al.
      (2019), '' for the main results of each study.
  """
  sections = {
    name: {'study': study.default_section(study_name), 'data': inherited_data()}
    for name, study_name in tasks.items()
  }
  studies = [study.STUDIES.find(name, 'config.battery') for name in tasks.values()]
  shared = _common_sections(labels, any(study_class.needs_classifier for study_class in studies))
  return nested({'battery': {'tasks': tuple(tasks), 'summary': summary, **sections}, **shared})


def _common_sections(labels: tuple[str, ...], needs_classifier: bool) -> dict[str, Any]:
  """Returns the default sections and values that configs of studies and of batteries share.

  Args:
    labels: labels of several classifiers; () for a single section `classifier`.
    needs_classifier: whether there are sections for classifiers and training.
  """
  # with the settings of every image source
  data = {**vars(DataSettings()), 'source': DEFAULT, **SOURCES.default_sections()}
  sections: dict[str, Any] = {'data': data}
  if needs_classifier:
    recipes = {label: classifier_section() for label in labels}
    sections |= {'classifiers': recipes} if labels else {'classifier': classifier_section()}
    sections['training'] = dataclasses.asdict(TrainingSettings())
  return {**sections, **dataclasses.asdict(Execution())}


def classifier_section() -> dict[str, Any]:
  """Returns the section of a classifier with all settings at their defaults.

  It has the settings of every augmentation, attack and so on. `seed` and the keys of `training` and
  `data` are None, which stands for the value of the run, such as `config.training.epochs`.
  """
  settings = ClassifierSettings()
  # the settings that are values; sections and the seed follow
  section = {k: v for k, v in vars(settings).items() if k not in (*SECTIONS, 'seed')}
  # the parts that a classifier has by default; of other kinds, such as attacks, it has none ('')
  default_parts = {'augment': (), 'objective': settings.objective.name}
  for kind, (key, registry) in PART_KINDS.items():  # such as 'augment' and its key 'policy'
    section[kind] = {key: default_parts.get(kind, ''), **registry.default_sections()}
  section |= {'training': inherited_section(TrainingSettings), 'data': inherited_data()}
  return {**section, 'seed': placeholder(int)}  # `seed` is listed last


def add_sections(config: ConfigDict, values: Mapping[str, Any] | None = None) -> None:
  """Adds the settings of components in users' files, such as 'mine.py:Attack', to a config.

  A section `study` keeps only the settings of components that the study uses.

  Args:
    config: the config, which is changed.
    values: changes that are applied later and may name such components. None takes the names from
      the config.
  """
  values = config if values is None else values
  studies = [(), *(('battery', task) for task in config.get('battery', ()))]  # () of a single one
  for path in studies:
    section = _value_at(config, *path, 'study')
    if isinstance(section, ConfigDict) and 'name' in section:
      study_class = study.STUDIES.find(section.name, 'config.study.name')
      changed = {**section, **(_value_at(values, *path, 'study') or {})}
      for key, parts in study_class.sections_of_parts(changed).items():
        _add(section, key, parts)
  _add_parts(config, values, 'classifier')
  for label in config.get('classifiers', ()):
    _add_parts(config, values, 'classifiers', label)
  _add_sources(config, values)


def _add_parts(config: ConfigDict, values: Mapping[str, Any], *path: str) -> None:
  """Adds the settings of attacks and other parts in users' files to the section of a classifier.

  A part is an attack, augmentation, probe or the like, which is selected by name and has a
  subsection of settings. Subsections of this project's parts exist already.

  Args:
    config: the config, which is changed.
    values: changes that are applied later and name the parts, such as 'attacks.py:MyAttack'.
    *path: keys that lead to the section of the classifier, which may be missing.
  """
  for kind, (key, registry) in PART_KINDS.items():  # such as 'attack', with the key 'name'
    section = _value_at(config, *path, kind)
    if not isinstance(section, ConfigDict):
      continue
    for reference in _references(_value_at(values, *path, kind, key)):
      if part_name(reference) not in section:  # not added before
        part = registry.find(reference, '.'.join(('config', *path, kind, key)))
        _add(section, part.name, _field_defaults(part))


def _add_sources(config: ConfigDict, values: Mapping[str, Any]) -> None:
  """Adds the settings of image sources in users' files to a config.

  Such a source is named by `data.source='FILE.py:NAME'`. `config.data` gets its default settings.
  In the sections `data` of studies and classifiers each setting is None, which stands for the value
  in `config.data`.

  Args:
    config: the config, which is changed.
    values: changes that are applied later and name the sources.
  """
  studies = [('battery', task) for task in config.get('battery', ())]
  classifiers = [('classifiers', label) for label in config.get('classifiers', ())]
  # keys that lead to the sections that may have a section `data`; () leads to the whole config
  paths: list[tuple[str, ...]] = [(), *studies, *classifiers, ('classifier',)]
  sections = [_value_at(config, *path, 'data') for path in paths]
  names = [_value_at(values, *path, 'data', 'source') for path in paths]
  for reference in dict.fromkeys(_references(names)):
    source = SOURCES.find(reference, 'config.data.source')
    for section in filter(None, sections):  # some sections have no `data`
      if source.name not in section:
        is_shared = section is config.get('data')
        keys = _field_defaults(source) if is_shared else inherited_section(source)
        _add(section, source.name, keys)


def _references(value: object) -> list[str]:
  """Returns the references 'FILE.py:NAME' in a name or in several names."""
  names = value if isinstance(value, tuple | list) else [value]
  return [name for name in names if is_reference(name)]


def _add(section: ConfigDict, key: str, values: Mapping[str, Any]) -> None:
  """Adds a section to a config section that is locked against new keys.

  Args:
    section: the locked section.
    key: name of the new section.
    values: content of the new section.
  """
  with section.unlocked():
    section[key] = nested(values)


def _field_defaults(settings: type) -> Facts:
  """Returns the defaults of a dataclass, as {field: default}.

  A field without a default gets a placeholder.
  """
  return {
    field.name: placeholder(object) if field.default is dataclasses.MISSING else field.default
    for field in dataclasses.fields(settings)
  }


def _value_at(values: Any, *path: str) -> Any:
  """Returns the value at a path of keys in nested dictionaries, or None."""
  for name in path:
    values = values.get(name) if isinstance(values, Mapping | ConfigDict) else None
  return values


def inherited_data() -> dict[str, Any]:
  """Returns a section `data` in which every setting is None.

  None stands for the value in `config.data`.
  """
  sources = {name: inherited_section(source) for name, source in SOURCES.classes().items()}
  return {**inherited_section(DataSettings), 'source': placeholder(str), **sources}


def inherited_section(settings: type) -> dict[str, Any]:
  """Returns a section with the fields of a dataclass as keys, all without a value.

  A key without a value takes the run's value. It has a placeholder with the type of its field, so
  that the config refuses values of other types.
  """
  section, types = {}, field_types(settings)
  for field in dataclasses.fields(settings):
    kind = types[field.name]
    section[field.name] = placeholder(typing.get_origin(kind) or kind)  # `tuple` of tuple[int, ...]
  return section
