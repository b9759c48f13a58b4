"""`robustness NAME --help`: what a config runs, its variants, and its keys with their meaning.

The meanings are what the docstrings of the dataclasses that check a config say of their attributes.
"""

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from absl import flags
from ml_collections import ConfigDict

from input_pipeline.settings import DataSettings
from robustness.config import packaged
from robustness.config.experiment import Execution
from robustness.config.recipe import KINDS, ClassifierSettings
from robustness.core.registry import Part, Registry, part_name
from robustness.evaluation.study import STUDIES, ScoresPredictions
from robustness.results import SUMMARIES
from robustness.training.settings import TrainingSettings

P = TypeVar('P', bound=Part)
WIDTH = 100
_ATTRIBUTE = re.compile(r'^  (\w[\w, ]*): (.*(?:\n+    .*)*)', re.MULTILINE)
_CHOICE = 'a name, or FILE.py:NAME for one of yours'


def explain(
  reference: str, variants: Sequence[str], config: ConfigDict, of_run: Iterable[flags.Flag]
) -> Iterator[str]:
  """Yields lines: what a config file says, its variants, flags, and every key with its meaning.

  Args:
    reference: the config as it is named: `NAME[:VARIANT]`, or a file.
    variants: of the file, the default first.
    config: its values, with what the command line changes; of the named parts that it can have,
      those that it chooses are shown with their keys.
    of_run: the flags of a run.
  """
  name, _, variant = reference.partition(':')
  file = packaged.find(name)
  if file.suffix == '.py':
    yield packaged.docstring(file)
  if variants:
    yield f'\nvariants ({name}:VARIANT), the default first: {", ".join(variants)}'
    yield f'shown below: {variant or variants[0]}'
  yield '\nflags'
  for flag in of_run:
    yield from _entry(f'--{flag.name}', flag.help)
  yield '\nkeys, as --config.KEY=VALUE, with their values here'
  yield from _keys(config)


def meanings(cls: type) -> dict[str, str]:
  """Returns what the docstrings of a dataclass and of its bases say of each attribute."""
  said: dict[str, str] = {}
  for base in reversed(cls.__mro__):
    attributes = inspect.cleandoc(vars(base).get('__doc__') or '').partition('Attributes:\n')[2]
    for names, text in _ATTRIBUTE.findall(re.split(r'\n+(?=\S)', attributes)[0]):
      said.update({name.strip(): ' '.join(text.split()) for name in names.split(',')})
  return said


def _keys(config: ConfigDict) -> Iterator[str]:
  run = meanings(Execution)
  studies = {'config.study': config.study} if 'study' in config else {}
  if 'battery' in config:
    yield from _section(
      'config.battery', [config.battery], {'tasks': 'the tasks that run, in order'}
    )
    yield from _parts('config.battery.summary', [config.battery.summary], 'name', SUMMARIES)
    tasks = {name: own for name, own in config.battery.items() if 'study' in own}
    studies = {f'config.battery.{name}.study': own.study for name, own in tasks.items()}
  for where, section in studies.items():
    study = STUDIES.find(section.name, where)
    yield from _section(where, [section], {**meanings(study), 'name': f'the study: {_CHOICE}'})
    if 'predictions' in config and issubclass(study, ScoresPredictions):
      run |= meanings(study.prediction_settings)
  several, alone = config.get('classifiers', {}), config.get('classifier')
  recipes, where = [*several.values()], f'config.classifiers.{{{",".join(several)}}}'
  if alone is not None:
    recipes, where = [alone], 'config.classifier'
  if recipes:
    yield from _section(where, recipes, meanings(ClassifierSettings))
    for kind, (key, registry) in KINDS.items():
      yield from _parts(f'{where}.{kind}', [own[kind] for own in recipes], key, registry)
  for name, settings in (('data', DataSettings), ('training', TrainingSettings)):
    if name in config:
      further = f'; for one classifier: {where}.{name}' if recipes else ''
      yield from _section(f'config.{name}', [config[name]], meanings(settings), further)
  yield from _section('config', [config], run)


def _section(
  where: str, sections: Sequence[ConfigDict], said: Mapping[str, str], further: str = ''
) -> Iterator[str]:
  """Yields a heading and the values of sections that have the same keys, those that differ in the
  order of the sections."""
  keys = [key for key, value in sections[0].items() if not isinstance(value, ConfigDict)]
  if keys:
    yield f'\n{where}{further}'
  for key in keys:
    values = dict.fromkeys(repr(section.get(key)) for section in sections)
    shown = ' | '.join('(of the run)' if value == 'None' else value for value in values)
    yield from _entry(f'{key} = {shown}', said.get(key, ''))


def _parts(
  where: str, sections: Sequence[ConfigDict], key: str, registry: Registry[P]
) -> Iterator[str]:
  """Yields the key that chooses parts, the names of those there are, and keys of the chosen."""
  named = [section[key] for section in sections]
  chosen = dict.fromkeys(x for of in named for x in ([of] if isinstance(of, str) else of) if x)
  said = f'{_CHOICE}: {", ".join(registry.classes())}'
  yield from _section(where, sections, {key: said})
  for name in chosen:
    own = [section[part_name(name)] for section in sections if part_name(name) in section]
    yield from _section(f'{where}.{part_name(name)}', own, meanings(registry.find(name, where)))


def _entry(head: str, text: str) -> Iterator[str]:
  yield f'  {head}'
  indent = ' ' * 6
  yield from textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent)
