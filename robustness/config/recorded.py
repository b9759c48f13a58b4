"""What a run records of its config: the sections of chosen parts, with all their settings."""

from collections.abc import Mapping, Sequence
from typing import Any

from input_pipeline.settings import DEFAULT, DataSettings
from robustness.classifiers import ClassifierSettings
from robustness.config.recipe import INHERITING, KINDS, SECTIONS, TRAINED_WITH
from robustness.core.registry import part_name
from robustness.core.settings import Section, in_use, without_inherited
from robustness.training.settings import TrainingSettings

SUMMARY, TASKS = 'summary', 'tasks'
"""Keys of `config.battery` that are no tasks."""


def recorded(config: Section) -> dict[str, Any]:
  """Returns a config without the sections that it does not choose; it is the same experiment.

  Left out are named parts and sources of images that no key names, tasks that do not run, trainings
  of classifiers that are not trained, and settings of `config.data`, `config.training` and of
  classifiers that have no effect (see `in_use`). A recorded config is returned as it is, and values
  that are no section stay, for what checks a config to refuse.
  """
  values: dict[str, Any] = without_inherited(config)
  if 'predictions' in values:
    return values
  classifiers, battery = _section(values, 'classifiers'), _section(values, 'battery')
  recipes = [(values, 'classifier'), *((classifiers, label) for label in classifiers)]
  if not any(_needs_rows(_section(*recipe)) for recipe in recipes):
    values.pop('training', None)
  for holder, name in recipes:
    if section := _section(holder, name):
      holder[name] = _classifier(section)
  for name in {*battery} - {TASKS, SUMMARY, *_words(battery.get(TASKS))}:
    del battery[name]
  source = _section(values, 'data').get('source', DEFAULT)
  tasks = [_section(battery, name) for name in battery]
  trained = [_section(*recipe) for recipe in recipes]
  for holder in (*tasks, *trained):
    _leave_out_other_sources(holder, [source])
  inheriting = [_section(holder, 'data').get('source') for holder in trained]
  _leave_out_other_sources(values, [source, *inheriting])
  for name, settings in (('data', DataSettings), ('training', TrainingSettings)):
    if section := _section(values, name):
      values[name] = in_use(settings, section)
  return values


def _section(values: Section, name: str) -> dict[str, Any]:
  """Returns a section of some values; {} where there is none."""
  section: Any = values.get(name)
  return section if isinstance(section, dict) else {}


def _words(value: object) -> list[str]:
  """Returns the names that a key of a config chooses."""
  words = value if isinstance(value, tuple | list) else [value]
  return [part_name(word) for word in words if word and isinstance(word, str)]


def _is_trained(classifier: Section) -> bool:
  return bool(classifier.get('train')) and not classifier.get('weights')


def _needs_rows(classifier: Section) -> bool:
  """Whether a network, or what takes the place of its logits, is fitted to training rows."""
  return _is_trained(classifier) or bool(_section(classifier, 'probe').get('name'))


def _classifier(section: Section) -> dict[str, Any]:
  """Returns a classifier's section with the parts that it chooses."""
  chosen = in_use(ClassifierSettings, {k: v for k, v in section.items() if k not in SECTIONS})
  for kind, (key, _) in KINDS.items():
    part = _section(section, kind)
    names = _words(part.get(key))
    if names and (kind not in TRAINED_WITH or _is_trained(section)):
      chosen[kind] = {name: value for name, value in part.items() if name in (key, *names)}
  if _needs_rows(section):
    chosen |= {name: section[name] for name in INHERITING if section.get(name)}
  return chosen


def _leave_out_other_sources(holder: dict[str, Any], inherited: Sequence[object]) -> None:
  """Removes the settings of the sources of images that a section `data` does not choose.

  `inherited` are the sources of sections that inherit from it, or, where it names none, its own.
  """
  data = _section(holder, 'data')
  names = _words([data.get('source', inherited[0]), *inherited[1:]])
  for key in [key for key, value in data.items() if isinstance(value, Mapping)]:
    if key not in names:
      del data[key]
