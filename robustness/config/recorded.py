"""The config that a run records: only the sections that it uses, with all their settings."""

from collections.abc import Mapping, Sequence
from typing import Any

from input_pipeline.settings import DEFAULT, SOURCES, DataSettings, Source, moved_keys
from robustness.classifiers import ClassifierSettings
from robustness.config.recipe import INHERITED_SECTIONS, PART_KINDS, SECTIONS, TRAINING_PARTS
from robustness.core.settings import Section, settings_in_use, without_inherited
from robustness.core.user_code import part_name
from robustness.training.settings import TrainingSettings

SUMMARY, TASKS = 'summary', 'tasks'
"""Keys of `config.battery` that are no tasks."""


def recorded(config: Section) -> dict[str, Any]:
  """Returns a config without settings that have no effect, as a run stores it.

  These are left out:

  * settings of attacks, image sources and other components that no setting selects;
  * studies of a battery that do not run, and the training of classifiers that are not trained;
  * settings of `config.data`, `config.training` and classifiers that have no effect
    (`settings_in_use`).

  A config that a run has stored is returned unchanged. A plain value in the place of a section also
  stays, so that the check of the config reports it.
  """
  values: dict[str, Any] = without_inherited(config)
  if 'predictions' in values:  # a study of files with predictions has no other sections
    return values
  classifiers, battery = _section(values, 'classifiers'), _section(values, 'battery')
  # config.classifier and config.classifiers.LABEL
  recipes = [_section(values, 'classifier'), *(_section(classifiers, k) for k in classifiers)]
  if not any(_needs_rows(recipe) for recipe in recipes):
    values.pop('training', None)
  for recipe in recipes:
    _remove_unused_parts(recipe)
  running_tasks = _part_names(battery.get(TASKS))
  for name in set(battery) - {TASKS, SUMMARY, *running_tasks}:
    del battery[name]
  tasks = [_section(battery, name) for name in battery]
  _remove_unused_sources(values, [*tasks, *recipes])
  for name, settings in (('data', DataSettings), ('training', TrainingSettings)):
    if section := _section(values, name):
      values[name] = settings_in_use(settings, section)
  return values


def _section(values: Section, name: str) -> dict[str, Any]:
  """Returns a section of a config or of another section; {} if there is none."""
  section: Any = values.get(name)
  return section if isinstance(section, dict) else {}


def _part_names(value: object) -> list[str]:
  """Returns the names of components in a setting such as `attacks`.

  'FILE.py:NAME' becomes NAME, as its section of the config is called. '' and values that are not
  text are left out.

  Args:
    value: A name or several names.
  """
  words = value if isinstance(value, tuple | list) else [value]
  return [part_name(word) for word in words if word and isinstance(word, str)]


def _is_trained(classifier: Section) -> bool:
  """Returns whether this run trains a classifier."""
  return bool(classifier.get('train')) and not classifier.get('weights')


def _needs_rows(classifier: Section) -> bool:
  """Returns whether a classifier needs training images, for its training or for a probe."""
  return _is_trained(classifier) or bool(_section(classifier, 'probe').get('name'))


def _remove_unused_parts(section: dict[str, Any]) -> None:
  """Removes the settings that a classifier does not use from its section, in place.

  These are the settings of attacks and other components that the classifier does not select. A
  classifier that is not trained also loses the settings of a training, such as the attack.
  """
  plain_values = {key: value for key, value in section.items() if key not in SECTIONS}
  values = settings_in_use(ClassifierSettings, plain_values)
  for kind, (key, _registry) in PART_KINDS.items():  # such as 'attack', with the key 'name'
    parts = _section(section, kind)
    selected = _part_names(parts.get(key))
    is_used = kind not in TRAINING_PARTS or _is_trained(section)
    if selected and is_used:
      values[kind] = {name: parts[name] for name in parts if name == key or name in selected}
  if _needs_rows(section):  # `training` and `data` only have an effect on training images
    values |= {name: section[name] for name in INHERITED_SECTIONS if section.get(name)}
  section.clear()
  section.update(values)


def _remove_unused_sources(config: dict[str, Any], inheriting: Sequence[dict[str, Any]]) -> None:
  """Removes the settings of unused image sources from every section `data`, in place.

  Args:
    config: the config. Its section `data` keeps the sources that any section uses.
    inheriting: the sections of studies and classifiers. Their sections `data` use the source of
      `config.data` unless they name another.
  """
  source = _section(config, 'data').get('source', DEFAULT)
  sources = [_section(section, 'data').get('source', source) for section in inheriting]
  _keep_sources(config, source, [source, *sources])
  for section, source_of_section in zip(inheriting, sources, strict=True):
    _keep_sources(section, source_of_section, [source_of_section])


def _keep_sources(parent: dict[str, Any], source: object, names: Sequence[object]) -> None:
  """Keeps only some image sources in a section `data`, and removes the settings of the others.

  Empty sections are removed too. Settings with a name from earlier versions are renamed.

  Args:
    parent: the config, or the section of a study or classifier, which has the section `data`.
    source: name of the source that this section uses.
    names: names of the sources to keep.
  """
  data = _section(parent, 'data')
  # sources in a user's file have no keys of earlier versions to rename
  packaged_sources = SOURCES.classes()
  if isinstance(source, str) and source in packaged_sources:
    _move_keys(data, packaged_sources[source])
  sections_of_sources = [key for key, value in data.items() if isinstance(value, Mapping)]
  for key in sections_of_sources:
    if key not in _part_names(names) or not data[key]:
      del data[key]
  if parent.get('data') == {}:
    del parent['data']


def _move_keys(data: dict[str, Any], source: type[Source]) -> None:
  """Renames the settings of a section `data` that had other names in earlier versions, in place.

  A setting `KEY` that now belongs to the section's source becomes `SOURCE.SETTING`. If it now
  belongs to another source, it is removed.

  Args:
    data: the section.
    source: the source of the section.
  """
  for key, new_key in moved_keys(source).items():
    section, _, setting = new_key.partition('.')
    if key in data and section == source.name:
      data.setdefault(section, {}).setdefault(setting, data[key])
    data.pop(key, None)
