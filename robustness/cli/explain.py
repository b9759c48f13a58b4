"""`robustness NAME --help`: what a config runs, its variants, and its keys with their meaning.

The meanings are what the docstrings of the dataclasses that check a config say of their attributes.
"""

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from absl import flags
from ml_collections import ConfigDict

from input_pipeline.settings import SOURCES, DataSettings
from robustness.classifiers import ClassifierSettings
from robustness.config import packaged
from robustness.config.experiment import Execution
from robustness.config.recipe import PART_KINDS
from robustness.core.errors import nearest
from robustness.core.registry import Registry
from robustness.core.user_code import part_name
from robustness.evaluation.study import STUDIES, ScoresPredictions
from robustness.training.settings import TrainingSettings

WIDTH = 100
_ATTRIBUTE = re.compile(r'^  (\w[\w, ]*): (.*(?:\n+    .*)*)', re.MULTILINE)
_CHOICE = 'a name, or FILE.py:NAME for one of yours'


class Key(NamedTuple):
  """A setting of a config as `--help` shows it.

  The same setting of several classifiers is shown once.

  Attributes:
    section: name of its section, such as 'config.study', or 'config.classifiers.{a,b}' for the
      classifiers a and b.
    name: name of the setting within the section, such as 'severity'.
    value: its value as text, or the different values of several classifiers.
    meaning: what the setting is for.
    note: text that is added to the heading of the section, about other sections with the same
      settings.
  """

  section: str
  name: str
  value: str
  meaning: str
  note: str


def explain(
  reference: str,
  variants: Sequence[str],
  config: ConfigDict,
  run_flags: Iterable[flags.Flag],
  word: str = '',
) -> Iterator[str]:
  """Yields the lines of a config's help: description, variants, flags, and settings.

  Args:
    reference: the config: `NAME[:VARIANT]`, or a file.
    variants: the variants of the file, the default first.
    config: the config with the changes on the command line. Settings of attacks and other
      exchangeable components are shown if the config selects the component.
    run_flags: the flags of a run.
    word: if given, only settings with this word in their name or meaning are shown.
  """
  name, _, variant = reference.partition(':')
  if word:
    yield from _matching_keys(list(_keys(config)), word)
    return
  file = packaged.find(name)
  if file.suffix == '.py':
    yield packaged.docstring(file)
  if variants:
    yield f'\nvariants ({name}:VARIANT), the default first: {", ".join(variants)}'
    yield f'shown below: {variant or variants[0]}'
  yield '\nflags'
  for flag in run_flags:
    yield from _wrapped_entry(f'--{flag.name}', flag.help)
  yield '\nkeys, as --config.KEY=VALUE, with their values here (--help=WORD shows those that match)'
  section = ''
  for key in _keys(config):
    if key.section != section:
      section = key.section
      yield f'\n{section}{key.note}'
    yield from _wrapped_entry(f'{key.name} = {key.value}', key.meaning)


def _matching_keys(keys: Sequence[Key], word: str) -> Iterator[str]:
  """Yields the help of the settings that have a word in their name or meaning.

  Settings with the word in their name come first. The help of a setting is '--config.data.source =
  VALUE' and its meaning.
  """
  lower = word.lower()
  in_name = [key for key in keys if lower in f'{key.section}.{key.name}'.lower()]
  in_meaning = [key for key in keys if lower in key.meaning.lower()]
  matching = dict.fromkeys([*in_name, *in_meaning])  # each key once
  for key in matching:
    yield from _wrapped_entry(f'--{key.section}.{key.name} = {key.value}', key.meaning)
  if not matching:
    hint = nearest(word, {key.name for key in keys})
    yield f'no key has {word!r}; {hint}; --help without a word lists the keys'


def meanings(cls: type) -> dict[str, str]:
  """Returns the descriptions of a class's attributes, as {attribute: description}.

  They are read from 'Attributes:' in the docstrings of the class and its bases. A line 'a, b: text'
  describes several attributes.
  """
  meaning_by_key: dict[str, str] = {}
  for base in reversed(cls.__mro__):  # a description in a subclass replaces the base's
    _, _, text = inspect.cleandoc(base.__doc__ or '').partition('Attributes:\n')
    attributes = re.split(r'\n+(?=\S)', text)[0]  # to the next line that is not indented
    for names, meaning in _ATTRIBUTE.findall(attributes):
      meaning_by_key.update({name.strip(): ' '.join(meaning.split()) for name in names.split(',')})
  return meaning_by_key


def _keys(config: ConfigDict) -> Iterator[Key]:
  """Yields the settings of a config with values and meanings.

  The order is battery, studies, classifiers, data, training, and settings outside of sections.
  """
  meanings_outside_sections = meanings(Execution)
  if 'battery' in config:
    summary = "what the report begins with: '' for the headlines of all tasks, or 'fourier_table'"
    battery_meanings = {'tasks': 'the tasks that run, in order', 'summary': summary}
    yield from _keys_of_section('config.battery', [config.battery], battery_meanings)
  for path, section in _studies_by_path(config).items():
    study = STUDIES.find(section.name, path)
    study_meanings = {**meanings(study), 'name': f'the study: {_CHOICE}'}
    yield from _keys_of_section(path, [section], study_meanings)
    # Exchangeable parts of the study, such as attacks, have sections with their settings.
    for key, parts in study.chosen_parts(section).items():
      for label, part in parts.items():
        yield from _keys_of_section(f'{path}.{key}.{label}', [section[key][label]], meanings(part))
    if 'predictions' in config and issubclass(study, ScoresPredictions):
      meanings_outside_sections |= meanings(study.prediction_settings)
  if 'classifier' in config:
    classifiers, path = [config.classifier], 'config.classifier'
  else:  # all classifiers are listed as one section, 'config.classifiers.{a,b}'
    by_label = config.get('classifiers', {})
    classifiers, path = [*by_label.values()], 'config.classifiers.{' + ','.join(by_label) + '}'
  if classifiers:
    yield from _keys_of_section(path, classifiers, meanings(ClassifierSettings))
    for kind, (key, registry) in PART_KINDS.items():
      sections = [classifier[kind] for classifier in classifiers]
      yield from _keys_of_parts(f'{path}.{kind}', sections, key, registry)
  for name, settings in (('data', DataSettings), ('training', TrainingSettings)):
    if name in config:
      note = f'; for one classifier: {path}.{name}' if classifiers else ''
      yield from _keys_of_section(f'config.{name}', [config[name]], meanings(settings), note)
  if 'data' in config:
    source = SOURCES.find(config.data.source, 'config.data.source')
    section = config.data[source.name]
    yield from _keys_of_section(f'config.data.{source.name}', [section], meanings(source))
  yield from _keys_of_section('config', [config], meanings_outside_sections)


def _studies_by_path(config: ConfigDict) -> dict[str, ConfigDict]:
  """Returns the sections of the studies in a config, as {name of the section: section}.

  For instance {'config.study': …}, or {'config.battery.TASK.study': …} for each study of a battery.
  """
  if 'battery' in config:
    tasks = {name: entry for name, entry in config.battery.items() if 'study' in entry}
    return {f'config.battery.{name}.study': entry.study for name, entry in tasks.items()}
  return {'config.study': config.study} if 'study' in config else {}


def _keys_of_section(
  path: str, sections: Sequence[ConfigDict], meaning: Mapping[str, str], note: str = ''
) -> Iterator[Key]:
  """Yields the settings of one section, or of several sections with the same settings.

  If several classifiers have different values of a setting, all values are shown in order.

  Args:
    path: name to show for the section, such as 'config.data'.
    sections: the sections.
    meaning: {setting: its meaning}.
    note: text about other sections with the same settings, which ends the heading.
  """
  for name, value in sections[0].items():
    if not isinstance(value, ConfigDict):
      texts = dict.fromkeys(repr(section.get(name)) for section in sections)
      # None stands for the value of the run.
      values = ' | '.join('(of the run)' if text == 'None' else text for text in texts)
      yield Key(path, name, values, meaning.get(name, ''), note)


def _keys_of_parts(
  path: str, sections: Sequence[ConfigDict], key: str, registry: Registry[Any]
) -> Iterator[Key]:
  """Yields the settings of a kind of components of a training, such as attacks.

  The first setting selects components, and its meaning lists all possible ones. The settings of the
  selected components follow.

  Args:
    path: name of the section of this kind, such as 'config.classifier.attack'.
    sections: this section of each classifier.
    key: the setting that selects components, such as 'name'. Its value is a name or a list of
      names.
    registry: all components of this kind.
  """
  meaning = f'{_CHOICE}: {", ".join(registry.classes())}'
  yield from _keys_of_section(path, sections, {key: meaning})
  names: dict[str, None] = {}  # of the parts that any classifier selects
  for section in sections:
    selected = section[key]
    names |= dict.fromkeys([selected] if isinstance(selected, str) else selected)
  for name in filter(None, names):
    part = part_name(name)  # NAME of FILE.py:NAME, which is the section with its settings
    settings = [section[part] for section in sections if part in section]
    yield from _keys_of_section(f'{path}.{part}', settings, meanings(registry.find(name, path)))


def _wrapped_entry(head: str, text: str) -> Iterator[str]:
  """Yields a heading and its text, wrapped and indented."""
  yield f'  {head}'
  indent = ' ' * 6
  yield from textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent)
