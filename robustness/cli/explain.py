"""`robustness NAME --help`: what a config runs, its variants, and its keys with their meaning.

The meanings are what the docstrings of the dataclasses that check a config say of their attributes.
"""

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from absl import flags
from ml_collections import ConfigDict

from input_pipeline.settings import SOURCES, DataSettings
from robustness.classifiers import ClassifierSettings
from robustness.config import packaged
from robustness.config.experiment import Execution
from robustness.config.recipe import KINDS
from robustness.core.errors import nearest
from robustness.core.registry import Part, Registry, part_name
from robustness.evaluation.study import STUDIES, ScoresPredictions
from robustness.training.settings import TrainingSettings

P = TypeVar('P', bound=Part)
WIDTH = 100
_ATTRIBUTE = re.compile(r'^  (\w[\w, ]*): (.*(?:\n+    .*)*)', re.MULTILINE)
_CHOICE = 'a name, or FILE.py:NAME for one of yours'


class Key(NamedTuple):
  """A key of a config as help lists it. Equal keys of several classifiers are one such entry.

  Attributes:
    section: name of its section, such as 'config.study', or 'config.classifiers.{a,b}' for the
      classifiers labelled a and b.
    name: the key within the section, such as 'severity'.
    value: its value as text; for several classifiers their different values.
    meaning: what the key is for.
    note: text about other sections that have the same keys, which the section's heading adds.
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
  """Yields the lines of a config's help: description, variants, flags, and keys with meanings.

  Args:
    reference: the config as it is named: `NAME[:VARIANT]`, or a file.
    variants: the variants of the file, the default first.
    config: the config with the changes on the command line. Of exchangeable components, such as
      attacks, only the chosen ones are shown with their keys.
    run_flags: the flags of a run.
    word: shows only the keys with this word in their full name or meaning; '' shows everything.
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
  """Yields help lines of the keys with `word` in their name, then of keys with it in the meaning.

  The lines of a key are '--config.data.source = VALUE' and its meaning.
  """
  lower = word.lower()
  in_name = [key for key in keys if lower in f'{key.section}.{key.name}'.lower()]
  matching = [*in_name, *(key for key in keys if lower in key.meaning.lower())]
  for key in dict.fromkeys(matching):  # each key once
    yield from _wrapped_entry(f'--{key.section}.{key.name} = {key.value}', key.meaning)
  if not matching:
    hint = nearest(word, {key.name for key in keys})
    yield f'no key has {word!r}; {hint}; --help without a word lists the keys'


def meanings(cls: type) -> dict[str, str]:
  """Returns {attribute: its description} from the docstrings of a dataclass and its bases.

  A line 'a, b: text' describes several attributes.
  """
  meaning_by_key: dict[str, str] = {}
  for base in reversed(cls.__mro__):
    _, _, text = inspect.cleandoc(vars(base).get('__doc__') or '').partition('Attributes:\n')
    attributes = re.split(r'\n+(?=\S)', text)[0]  # to the next line that is not indented
    for names, meaning in _ATTRIBUTE.findall(attributes):
      meaning_by_key.update({name.strip(): ' '.join(meaning.split()) for name in names.split(',')})
  return meaning_by_key


def _keys(config: ConfigDict) -> Iterator[Key]:
  """Yields the keys of a config with values and meanings, section after section."""
  meanings_outside_sections = meanings(Execution)  # these keys come last
  if 'battery' in config:
    summary = "what the report begins with: '' for the headlines of all tasks, or 'fourier_table'"
    meaning = {'tasks': 'the tasks that run, in order', 'summary': summary}
    yield from _keys_of_section('config.battery', [config.battery], meaning)
  for path, section in _studies_by_path(config).items():
    study = STUDIES.find(section.name, path)
    yield from _keys_of_section(
      path, [section], {**meanings(study), 'name': f'the study: {_CHOICE}'}
    )
    # Exchangeable parts of the study, such as attacks, have sections with their settings.
    for key, parts in study.chosen_parts(section).items():
      for label, part in parts.items():
        yield from _keys_of_section(f'{path}.{key}.{label}', [section[key][label]], meanings(part))
    if 'predictions' in config and issubclass(study, ScoresPredictions):
      meanings_outside_sections |= meanings(study.prediction_settings)
  if 'classifier' in config:
    recipes, path_of_recipes = [config.classifier], 'config.classifier'
  else:  # all classifiers are one section with their different values, 'config.classifiers.{a,b}'
    classifiers = config.get('classifiers', {})
    recipes = [*classifiers.values()]
    path_of_recipes = f'config.classifiers.{{{",".join(classifiers)}}}'
  if recipes:
    yield from _keys_of_section(path_of_recipes, recipes, meanings(ClassifierSettings))
    for kind, (key, registry) in KINDS.items():
      yield from _keys_of_parts(
        f'{path_of_recipes}.{kind}', [r[kind] for r in recipes], key, registry
      )
  for name, settings in (('data', DataSettings), ('training', TrainingSettings)):
    if name in config:
      note = f'; for one classifier: {path_of_recipes}.{name}' if recipes else ''
      yield from _keys_of_section(f'config.{name}', [config[name]], meanings(settings), note)
  if 'data' in config:
    source = SOURCES.find(config.data.source, 'config.data.source')
    yield from _keys_of_section(
      f'config.data.{source.name}', [config.data[source.name]], meanings(source)
    )
  yield from _keys_of_section('config', [config], meanings_outside_sections)


def _studies_by_path(config: ConfigDict) -> dict[str, ConfigDict]:
  """Returns {path: section} of the study of a config, or of each task's study of its battery."""
  if 'battery' in config:
    tasks = {name: entry for name, entry in config.battery.items() if 'study' in entry}
    return {f'config.battery.{name}.study': entry.study for name, entry in tasks.items()}
  return {'config.study': config.study} if 'study' in config else {}


def _keys_of_section(
  section: str, values: Sequence[ConfigDict], meaning: Mapping[str, str], note: str = ''
) -> Iterator[Key]:
  """Yields the keys of one section, or of several sections with the same keys, such as classifiers.

  If sections have different values of a key, all are listed in the order of the sections.

  Args:
    section: the name of the section under which the keys are listed.
    values: the sections, such as the sections of all classifiers.
    meaning: {key: its meaning}.
    note: text about other sections with the same keys, which ends the heading.
  """
  for name, value in values[0].items():
    if not isinstance(value, ConfigDict):
      texts = dict.fromkeys(repr(single.get(name)) for single in values)
      # None stands for the value of the run.
      printed = ' | '.join('(of the run)' if text == 'None' else text for text in texts)
      yield Key(section, name, printed, meaning.get(name, ''), note)


def _keys_of_parts(
  section: str, values: Sequence[ConfigDict], key: str, registry: Registry[P]
) -> Iterator[Key]:
  """Yields the key that selects components, such as attacks, and the selected components' keys.

  The help text (`Key.meaning`) of the key names all components of its kind.

  Args:
    section: name of the section that has the key.
    values: the section, or the sections of several classifiers.
    key: the key, such as 'attack'; its value is a name or a list of names.
    registry: all components of this kind.
  """
  selected = [single[key] for single in values]  # for each section a name or a list of names
  names = [[name] if isinstance(name, str) else name for name in selected]
  distinct_names = dict.fromkeys(name for listed in names for name in listed if name)
  yield from _keys_of_section(section, values, {key: f'{_CHOICE}: {", ".join(registry.classes())}'})
  for name in distinct_names:
    part = part_name(name)  # NAME of FILE.py:NAME, which is the section with its settings
    settings = [single[part] for single in values if part in single]
    yield from _keys_of_section(
      f'{section}.{part}', settings, meanings(registry.find(name, section))
    )


def _wrapped_entry(head: str, text: str) -> Iterator[str]:
  """Yields a heading and its text, wrapped and indented."""
  yield f'  {head}'
  indent = ' ' * 6
  yield from textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent)
