"""The config that a run records: only the sections that it uses, with all their settings."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from input_pipeline.settings import DEFAULT, SOURCES, DataSettings, Source, moved_keys
from robustness.classifiers import ClassifierSettings
from robustness.config.recipe import INHERITED_SECTIONS, PART_KINDS, SECTIONS, TRAINING_PARTS
from robustness.core.errors import InputError
from robustness.core.registry import is_reference, part_name
from robustness.core.settings import Section, settings_in_use, without_inherited
from robustness.training.settings import TrainingSettings

SUMMARY, TASKS = 'summary', 'tasks'
"""Keys of `config.battery` that are no tasks."""


def recorded(config: Section) -> dict[str, Any]:
  """Returns the config that a run stores: the same experiment without what has no effect.

  These are left out:

  * settings of parts and image sources that no key chooses;
  * tasks that do not run, and the training of classifiers that are not trained;
  * settings of `config.data`, `config.training` and classifiers that have no effect, see
    `settings_in_use`.

  The result for a stored config is the same config. A value in the place of a section stays, so
  that the check of the config can report it.
  """
  values: dict[str, Any] = without_inherited(config)
  if 'predictions' in values:  # a study of files with predictions has no other sections
    return values
  classifiers, battery = _section(values, 'classifiers'), _section(values, 'battery')
  # config.classifier and config.classifiers.LABEL
  recipes = [_section(values, 'classifier'), *(_section(classifiers, k) for k in classifiers)]
  if not any(map(_needs_rows, recipes)):
    values.pop('training', None)
  for recipe in recipes:
    _remove_unused_parts(recipe)
  for name in set(battery) - {TASKS, SUMMARY, *_part_names(battery.get(TASKS))}:
    del battery[name]
  tasks = [_section(battery, name) for name in battery]
  _remove_unused_sources(values, [*tasks, *recipes])
  for name, settings in (('data', DataSettings), ('training', TrainingSettings)):
    if section := _section(values, name):
      values[name] = settings_in_use(settings, section)
  return values


def _section(values: Section, name: str) -> dict[str, Any]:
  """Returns the section `name` of a config or section; {} if there is none."""
  section: Any = values.get(name)
  return section if isinstance(section, dict) else {}


def _part_names(value: object) -> list[str]:
  """Returns the names of parts in the value of a key such as `attacks`: a name or several.

  FILE.py:NAME becomes NAME, under which the config has the settings of the part. '' and values that
  are no text are left out.
  """
  words = value if isinstance(value, tuple | list) else [value]
  return [part_name(word) for word in words if word and isinstance(word, str)]


def _is_trained(classifier: Section) -> bool:
  """Returns whether a classifier is trained in the run."""
  return bool(classifier.get('train')) and not classifier.get('weights')


def _needs_rows(classifier: Section) -> bool:
  """Returns whether a classifier needs training images, to train it or to fit a linear probe."""
  return _is_trained(classifier) or bool(_section(classifier, 'probe').get('name'))


def _remove_unused_parts(section: dict[str, Any]) -> None:
  """Removes what a classifier does not use from its section, which is changed.

  The settings of the parts that it chooses, such as its attack, stay; settings of other parts are
  removed. What only a training has, such as an attack or the section `data`, stays if it is
  trained.
  """
  plain_values = {key: value for key, value in section.items() if key not in SECTIONS}
  values = settings_in_use(ClassifierSettings, plain_values)
  for kind, (key, _registry) in PART_KINDS.items():  # such as 'attack', with the key 'name'
    parts = _section(section, kind)
    names = _part_names(parts.get(key))
    is_used = kind not in TRAINING_PARTS or _is_trained(section)
    if names and is_used:
      values[kind] = {name: value for name, value in parts.items() if name in (key, *names)}
  if _needs_rows(section):
    values |= {name: section[name] for name in INHERITED_SECTIONS if section.get(name)}
  section.clear()
  section.update(values)


def _remove_unused_sources(config: dict[str, Any], inheriting: Sequence[dict[str, Any]]) -> None:
  """Removes the settings of image sources that nothing reads from every section `data`.

  Args:
    config: the config; its section `data` keeps the sources that any section reads.
    inheriting: the sections of tasks and classifiers. Their sections `data` inherit the source of
      `config.data` unless they name another.
  """
  source = _section(config, 'data').get('source', DEFAULT)
  sources = [_section(section, 'data').get('source', source) for section in inheriting]
  _keep_sources(config, source, [source, *sources])
  for section, source_of_section in zip(inheriting, sources, strict=True):
    _keep_sources(section, source_of_section, [source_of_section])


def _keep_sources(parent: dict[str, Any], source: object, names: Sequence[object]) -> None:
  """Removes the settings of all image sources but `names` from the section `data` of `parent`.

  Empty sections are removed too. Keys of earlier versions are moved to where they are now.

  Args:
    parent: the config, or the section of a task or classifier.
    source: the name of the source that `parent` reads.
    names: the names of the sources to keep.
  """
  data = _section(parent, 'data')
  # a source in a user's file (a reference) has no keys of earlier versions; its file is not run
  if isinstance(source, str) and not is_reference(source):
    with contextlib.suppress(InputError):  # raised if no source has this name
      _move_keys(data, SOURCES.find(source, 'config.data.source'))
  sections_of_sources = [key for key, value in data.items() if isinstance(value, Mapping)]
  for key in sections_of_sources:
    if key not in _part_names(names) or not data[key]:
      del data[key]
  if parent.get('data') == {}:
    del parent['data']


def _move_keys(data: dict[str, Any], source: type[Source]) -> None:
  """Renames, in place, the keys that the section `data` had in earlier versions of the config.

  A key that is now a setting of the section's `source` moves there: `KEY` becomes `SOURCE.SETTING`.
  A key that is now a setting of another source is removed.
  """
  for key, new_key in moved_keys(source).items():
    section, _, setting = new_key.partition('.')
    if key in data and section == source.name:
      data.setdefault(section, {}).setdefault(setting, data[key])
    data.pop(key, None)
