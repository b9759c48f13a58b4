"""Reads a config and the changes to it on the command line; raises InputError with a fix for
mistakes.
"""

import ast
import inspect
import os
import pathlib
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import flags
from ml_collections import ConfigDict, config_flags

from input_pipeline.settings import DEFAULT, SOURCES, moved_keys
from robustness.config import defaults, packaged
from robustness.config.recipe import PART_KINDS, default_label
from robustness.config.recorded import SUMMARY, TASKS, recorded
from robustness.core import json_files, settings
from robustness.core.errors import KEYS, InputError, SettingError, nearest, renaming_section
from robustness.core.settings import Section
from robustness.core.user_code import run_file
from robustness.evaluation.study import STUDIES, default_section
from robustness.results import summary_name

# The forms of arguments that the functions below look for.
_LABEL = re.compile(r'--?config\.classifiers\.([^.=]+)\.name=')
_LIST = re.compile(r'--?config\.classifiers=(.*)', re.DOTALL)
_WORDS = re.compile(r'[^\s,\'"()\[\]]+(\s*,\s*[^\s,\'"()\[\]]+)*')
_STUDY_KEY = re.compile(r'--?(no)?config\.(battery\.[^.]+\.)?study\.[^.]+')
_NAMES_NETWORK_OR_DATA = re.compile(r'--?config\.(classifiers?\.([^.=]+\.)?(name|weights)|data\.)')
_SETS_TRAIN = re.compile(r'--?(no)?config\.classifiers?\.([^.=]+\.)?train\b')
_STUDY_NAME = re.compile(r'--?config\.((?:battery\.([^.]+)\.)?study)\.name=(.*)', re.DOTALL)


def read(arguments: Sequence[str]) -> tuple[ConfigDict | None, list[str]]:
  """Reads a config and applies the changes on the command line.

  A change is `--config.KEY=VALUE`, `--config.KEY=A,B` for a tuple, or `--config.KEY` or
  `--noconfig.KEY` for a boolean.

  Args:
    arguments: the command line, such as ['--config=FILE', '--config.seed=1'].

  Returns:
    (config, arguments that are no change). The config is None if there is no `--config=FILE`.
  """
  changes = [argument for argument in arguments if re.match(r'--?(no)?config\.', argument)]
  other_arguments = [argument for argument in arguments if argument not in changes]
  file = reference(other_arguments)
  if file is None:
    return None, other_arguments
  config = load_config(file)
  config, changes = choose_studies(config, changes)
  changes = choose_classifiers(config, changes)
  # Changes that name a part, such as an attack, come first: the section with the keys of the part
  # is then added, and other changes may set these keys.
  selections = [change for change in changes if _may_select_part(change)]
  other_changes = [change for change in changes if change not in selections]
  for group in (selections, other_changes):
    _apply_changes(config, group)
    defaults.add_sections(config)
  note_unchosen(config, changes)
  return config.lock(), other_arguments


def training_hint(config: ConfigDict, arguments: Sequence[str]) -> str:
  """Returns a hint for users who probably do not want the config to train a network.

  These users name a network or data on the command line, but do not set `train`, and the config
  sets it to True. The hint is '' for all others. It is also '' if the config has no variant `own`,
  which measures a user's network without training.

  Args:
    config: the config with the changes on the command line.
    arguments: the command line.
  """
  sections = [*config.get('classifiers', {}).values(), config.get('classifier', {})]
  trains = any(section.get('train') for section in sections)
  names_network_or_data = any(map(_NAMES_NETWORK_OR_DATA.match, arguments))
  sets_train = any(map(_SETS_TRAIN.match, arguments))
  if sets_train or not (trains and names_network_or_data):
    return ''
  file = (reference(arguments) or '').partition(':')[0]  # without the variant
  if not file or 'own' not in variants(str(packaged.find(file))):
    return ''
  name = pathlib.Path(file).stem
  return (
    f'note: train=True comes from the config {name}, which trains its network on the data. The '
    f'variant {name}:own measures yours as it is, as does --{KEYS.classifier.train}=False.'
  )


def data_hint(config: ConfigDict, arguments: Sequence[str]) -> str:
  """Returns a hint that a run uses the default images, and how to choose others.

  The hint is for users who name a network or settings of data on the command line, but no source of
  images. For all others it is '', also if the config has another source than the default.

  Args:
    config: the config with the changes on the command line.
    arguments: the command line.
  """
  is_default = config.get('data', {}).get('source') == DEFAULT
  names_source = any('data.source=' in argument for argument in arguments)
  names_network_or_data = any(map(_NAMES_NETWORK_OR_DATA.match, arguments))
  if names_source or not (is_default and names_network_or_data):
    return ''
  return (
    f'note: no flag names a data source, so the images are the default {DEFAULT} (28 × 28 pixels, '
    f'grey). Name yours by --{KEYS.data.source}=folder --{KEYS.data.folder.path}=DIR; '
    '`robustness list sources` has other sources.'
  )


def tasks_hint(config: ConfigDict, arguments: Sequence[str]) -> str:
  """Returns a note with the names of the studies of a battery that this run leaves out.

  The note is '' if all of them run.

  Args:
    config: the config with the changes on the command line.
    arguments: the command line, which names the config file and may select studies by
      `--config.battery.tasks`.
  """
  file = reference(arguments)
  if not file or not any('config.battery.tasks' in argument for argument in arguments):
    return ''
  usual = load_config(file).get('battery', {}).get(TASKS, ())
  names = [name for name in usual if name not in config.battery.tasks]
  return f'note: not run here: {", ".join(names)}' if names else ''


def reference(arguments: Sequence[str]) -> str | None:
  """Returns FILE of the last `--config=FILE` or `--config FILE`, or None."""
  file = None
  for argument, following in zip(arguments, [*arguments[1:], None], strict=True):
    if argument in ('-config', '--config'):
      file = following
    elif re.match('--?config=', argument):
      file = argument.partition('=')[2]
  return file


def choose_studies(config: ConfigDict, changes: Sequence[str]) -> tuple[ConfigDict, list[str]]:
  """Replaces the studies of a config by those that the command line names.

  A study is named by `--config.study.name=NAME`, or in a battery by
  `--config.battery.TASK.study.name=NAME`. A new study has default settings. Sections of the config
  that it needs, such as a classifier, are added, and sections that it does not need are removed.

  Args:
    config: the config.
    changes: arguments of the command line that begin with `--config.`.

  Returns:
    (config, the other changes).
  """
  # ('study', None, NAME) or ('battery.TASK.study', 'TASK', NAME) of each change that names a study
  choices = [match.groups() for match in map(_STUDY_NAME.fullmatch, changes) if match]
  for section_key, task, name in choices:
    _check_key(config, f'{section_key}.name', f'={name}')
    if task:
      with renaming_section('config.study', f'config.{section_key}'):
        section = defaults.nested(default_section(name))
      if config.battery[task].study.name != name:
        config.battery[task].study = section
    elif config.study.name != name:
      config = defaults.with_study(config, name)
  return config, [change for change in changes if not _STUDY_NAME.fullmatch(change)]


def choose_classifiers(config: ConfigDict, changes: Sequence[str]) -> list[str]:
  """Adds and removes classifiers in a config as the command line says.

  `--config.classifiers.LABEL.name=NAME` with a new label adds a classifier.
  `--config.classifiers=LABEL,LABEL` removes all classifiers that are not listed.

  Args:
    config: the config, which is changed.
    changes: arguments of the command line that begin with `--config.`.

  Returns:
    The changes without `--config.classifiers=LABEL,LABEL`.
  """
  new_labels = [match[1] for match in map(_LABEL.match, changes) if match]
  if new_labels and 'classifier' in config and 'classifiers' not in config:
    # The only classifier of the config becomes the first of several.
    label = default_label(config.classifier.name).replace('.', '_')  # a key must not have a dot
    with config.unlocked():
      config.classifiers = defaults.nested({label: config.classifier})
      del config.classifier
  if 'classifiers' not in config:
    return list(changes)
  classifiers = config.classifiers
  _refuse_keys_of_one(classifiers, changes)
  with classifiers.unlocked():
    for label in new_labels:
      if label not in classifiers:
        classifiers[label] = defaults.nested(defaults.classifier_section())
  _keep_listed(config, changes)
  return [change for change in changes if not _LIST.fullmatch(change)]


def _refuse_keys_of_one(classifiers: Section, changes: Sequence[str]) -> None:
  """Raises InputError if a change sets a key of `config.classifier`.

  Configs with several classifiers have no such section.

  Args:
    classifiers: the section `config.classifiers`.
    changes: arguments of the command line, such as '--config.classifier.name=vit'.
  """
  for change in changes:
    _, _, key = change.partition('=')[0].partition('config.classifier.')
    if key:
      flags_of_all = ' '.join(f'--config.classifiers.{label}.{key}=…' for label in classifiers)
      raise InputError(
        f'this config has the classifiers {", ".join(classifiers)}, and no {KEYS.classifier}: '
        f'change theirs by {flags_of_all}, or name yours by --config.classifiers.mine.name=NAME, '
        'and leave those out by --config.classifiers=mine.'
      )


def _keep_listed(config: ConfigDict, changes: Sequence[str]) -> None:
  """Keeps only the classifiers that `--config.classifiers=LABEL,LABEL` lists.

  Nothing happens without this argument.

  Args:
    config: the config, which is changed.
    changes: arguments of the command line.

  Raises:
    InputError: a label is unknown, or the list is empty.
  """
  classifiers = config.classifiers
  lists = [match[1] for match in map(_LIST.fullmatch, changes) if match]
  for text in lists:
    # '(a, b)', 'a,b' and "['a', 'b']" are ['a', 'b']
    words = [word.strip(' \'"') for word in text.strip('()[] ').split(',')]
    labels = [word for word in words if word]
    valid = f'labels to keep, of {", ".join(classifiers)}'
    settings.require(bool(labels), '--config.classifiers', text, valid)
    for label in labels:
      settings.choice('--config.classifiers', label, classifiers)
    with config.unlocked():
      config.classifiers = defaults.nested({label: classifiers[label] for label in labels})


def _may_select_part(change: str) -> bool:
  """Returns whether a change may select a component of a config, such as an attack.

  Such changes are made first, because the component brings keys that other changes may set. For
  example, '--config.data.source=folder' brings the keys of the source `folder`. Any setting of a
  study counts as such a change.
  """
  key = change.partition('=')[0]
  part_keys = [f'.{section}.{name}' for section, (name, _) in PART_KINDS.items()]
  return key.endswith(('.data.source', *part_keys)) or _STUDY_KEY.fullmatch(key) is not None


def _apply_changes(config: ConfigDict, changes: Sequence[str]) -> None:
  """Sets the keys of a config that the command line changes.

  A value is converted to the type of its key by ml_collections, in a separate config with the
  single key `value`. Otherwise ml_collections would evaluate the names of keys as Python, and fail
  for names such as 'resnet-50'.

  Args:
    config: the config, which is changed.
    changes: arguments of the command line, such as '--config.data.split=test'.
  """
  for change in changes:
    name, equals, text = change.partition('=')
    flag, _, path = name.partition('.')  # '--config' or '--noconfig', and the key
    section, last_word = _check_key(config, path, f'{equals}{text}')
    kind = section.get_type(last_word)
    if not equals and kind is not bool:
      raise InputError(f'{name} has no value: give --config.{path}=VALUE.')
    if kind is type(None):
      raise InputError(
        f'config.{path} is None, so that the type of {text!r} is unknown: give the setting another '
        'default in your file, such as 0.0 or ().'
      )
    # For a tuple, a,b is typed without quotes and becomes ('a', 'b').
    python_text = _as_python_tuple(text) if kind is tuple else text
    arguments = ['', f'{flag}.value{equals}{python_text}']  # '' is in the place of the program
    separate = ConfigDict({'value': section.get_ref(last_word)})
    parser = flags.FlagValues()
    try:
      config_flags.DEFINE_config_dict('config', separate, flag_values=parser, sys_argv=arguments)
      parser(arguments)
      value = config_flags.get_override_values(parser['config'])['value']
      section[last_word] = value
    except (flags.Error, TypeError, ValueError) as error:
      raise SettingError(f'config.{path}', text, settings.type_name(kind)) from error
    if isinstance(value, tuple) and '' in value:
      fix = f'Leave the empty word out; --config.{path}= gives no words.'
      raise SettingError(f'config.{path}', value, fix=fix, problem='with an empty word')


def note_unchosen(config: ConfigDict, changes: Sequence[str]) -> None:
  """Prints a note for each changed setting that has no effect, for instance of an unused attack.

  Args:
    config: the config with the changes.
    changes: arguments of the command line.
  """
  values = recorded(config.to_dict())  # without the sections that the config does not use
  for change in changes:
    path = change.partition('=')[0].partition('.')[2]  # '--config.a.b=1' → 'a.b'
    section: Any = values
    for name in path.split('.')[:-1]:
      section = section.get(name)
      if section is None:
        print(f'note: config.{path} has no effect: the config does not choose it', file=sys.stderr)
        break


def _as_python_tuple(value: str) -> str:
  """Returns words separated by commas as a Python tuple, as text: `a,b` becomes `('a', 'b')`.

  Empty text becomes `()`. All other text is unchanged, such as `(1, 2)`, which is Python already.
  """
  if not value.strip():
    return '()'
  try:
    ast.literal_eval(value)  # fails for words without quotes
  except (SyntaxError, ValueError):
    return repr(tuple(re.split(r'\s*,\s*', value))) if _WORDS.fullmatch(value) else value
  return value


def _check_key(config: ConfigDict, path: str, written: str) -> tuple[ConfigDict, str]:
  """Returns the section of a config that has a key, and the key's last word.

  For the key 'a.b.c' they are the section 'a.b' and 'c'.

  Args:
    config: the config.
    path: the key, such as 'a.b.c'.
    written: the value as the user typed it, such as '=3', for messages.

  Raises:
    InputError: the config has no such key (the message names the nearest ones), or the key is a
      section.
  """
  value: Any = config
  section, path_so_far = config, 'config'
  for name in path.split('.'):
    if not isinstance(value, ConfigDict):
      raise InputError(f'{path_so_far} is a single value; it has no key {name!r}.')
    section = value
    if name not in section:
      _refuse_moved(section, {name: written.removeprefix('=')}, path_so_far)
      raise InputError(f'unknown key {path_so_far}.{name}: {nearest(name, section.keys())}.')
    value, path_so_far = section[name], f'{path_so_far}.{name}'
  if isinstance(value, ConfigDict):
    raise InputError(f'{path_so_far}{written}: that is a section; its keys: {", ".join(value)}.')
  return section, name


def _refuse_moved(section: Section, values: Section, path: str) -> None:
  """Raises SettingError for settings of a study or of data that only earlier versions had.

  Args:
    section: the section of the config. Its `name` or `source` selects the study or the source of
      images.
    values: {key: value} that may have such settings.
    path: name of the section, such as 'config.study'. Sections of other names are not checked.
  """
  if path.endswith('.study'):
    settings.refuse_moved(STUDIES.find(section['name'], f'{path}.name').moved_keys, values, path)
  elif path.endswith('.data'):
    source = SOURCES.find(section.get('source') or DEFAULT, f'{path}.source')
    settings.refuse_moved(moved_keys(source), values, path)


def load_config(reference: str) -> ConfigDict:
  """Returns the config that a file describes.

  Args:
    reference: 'FILE' or 'FILE:VARIANT'. FILE is a Python file with a function `get_config`, the
      name of a packaged config, or a JSON file such as `config.json` of a workdir. `get_config` is
      called with the variant.
  """
  name, colon, variant = reference.partition(':')
  file = str(packaged.find(name))
  if file.endswith('.json'):
    return from_json(pathlib.Path(file))
  arguments = [variant] if colon else []
  try:
    get_config = _get_config(file, arguments)
    config = get_config(*arguments)
  except InputError:
    raise
  except ValueError as error:  # how a config refuses a variant
    raise InputError(f'{error} (config file {file}{_line_of_error(error, file)})') from error
  except Exception as error:  # the file is the user's and may raise anything
    raise InputError(
      f'config file {file}{_line_of_error(error, file)} raised {type(error).__name__}: {error}'
    ) from error
  if not isinstance(config, ConfigDict):
    raise InputError(
      f'config file {file}: get_config returned {config!r}; it must return an '
      'ConfigDict, such as that of robustness.config.defaults.default_config.'
    )
  defaults.add_sections(config)
  return config


def variants(file: str) -> tuple[str, ...]:
  """Returns the variants of a config file, the default first; () if it has none.

  A variant is an argument of `get_config` in the file, for instance the size of a network.
  """
  if file.endswith('.json'):
    return ()
  get_config = _get_config(file, [])
  parameters = inspect.signature(get_config).parameters.values()
  default = [parameter.default for parameter in parameters]  # [] or [the default variant]
  if not default:
    return ()
  try:
    get_config('')  # no variant has this name, so that the error lists all
  except defaults.UnknownVariantError as error:
    return tuple(dict.fromkeys([*default, *error.known]))
  return tuple(default)


def _get_config(file: str, arguments: Sequence[str]) -> Callable[..., object]:
  """Runs a config file and returns its function `get_config`, without calling it.

  Args:
    file: path of the Python file.
    arguments: the arguments that `get_config` must accept: [VARIANT], or [] without a variant.

  Raises:
    InputError: the file has no such function, or the function does not accept `arguments`.
  """
  if not file.endswith('.py'):
    raise InputError(f'config file {file} is no Python file: its name must end in .py.')
  get_config = getattr(run_file(pathlib.Path(file), 'config_of_a_run'), 'get_config', None)
  if not callable(get_config):
    raise InputError(
      f'config file {file} has no function get_config that returns the config; see '
      'configs/accuracy.py.'
    )
  try:
    inspect.signature(get_config).bind(*arguments)
  except TypeError as error:
    fix = f'it needs a variant: give --config={file}:VARIANT.'
    if arguments:
      fix = f'it has no variants: give --config={file} alone.'
    raise InputError(f'config file {file}: get_config cannot be called ({error}); {fix}') from error
  return get_config


def _line_of_error(error: Exception, file: str) -> str:
  """Returns the line of a file at which an error occurred, as ', line N'.

  '' if the error occurred elsewhere.
  """
  path = os.path.abspath(file)
  frames = traceback.extract_tb(error.__traceback__)
  lines = [frame.lineno for frame in frames if os.path.abspath(frame.filename) == path]
  return f', line {lines[-1]}' if lines else ''


def from_json(path: pathlib.Path) -> ConfigDict:
  """Returns the config in a JSON file.

  Missing keys get their defaults, except in the config of a run that scores files of predictions.
  """
  values = json_files.read(path, advice='Give a config such as config.json of a workdir.')
  settings.check_sections(settings.without_inherited(values), ('battery', 'classifiers'), 'config')
  if 'predictions' in values:
    _study_name(values, 'config', path)  # refuses a config without a study
    return defaults.nested(values)
  battery = values.get('battery')
  # Earlier versions wrote a section, such as {'name': 'fourier_table'}, in place of the name.
  if isinstance(battery, Mapping) and isinstance(battery.get(SUMMARY), Mapping):
    values['battery'] = {**battery, SUMMARY: summary_name(battery[SUMMARY])}
  config = _defaults(values, path)
  defaults.add_sections(config, values)  # with the keys of the parts that `values` names
  _fill_section(config, values, 'config')
  return config


def _defaults(values: Mapping[str, object], path: pathlib.Path) -> ConfigDict:
  """Returns a default config with the studies and classifiers that a JSON file names.

  Args:
    values: content of the JSON file.
    path: path of the JSON file, for messages.
  """
  classifiers, battery = values.get('classifiers'), values.get('battery')
  labels = tuple(classifiers) if isinstance(classifiers, Mapping) else ()
  for label in labels:
    settings.check_name('config.classifiers', label)
  if not isinstance(battery, Mapping):
    return defaults.default_config(_study_name(values, 'config', path), labels)
  for name in battery:
    settings.check_name('config.battery', name)
  studies = {
    name: _study_name(task, f'config.battery.{name}', path)
    for name, task in battery.items()
    if name not in (TASKS, SUMMARY)
  }
  return defaults.default_battery(studies, labels)


def _study_name(section: object, key: str, path: pathlib.Path) -> str:
  """Returns the name of the study in a section of a config.

  Args:
    section: the section, from JSON.
    key: name of the section, for messages.
    path: path of the JSON file, for messages.

  Raises:
    InputError: the section names no study.
  """
  study = section.get('study') if isinstance(section, dict) else None
  if not isinstance(study, dict) or not isinstance(study.get('name'), str):
    raise InputError(
      f'config file {path} has no {key}.study.name; expected a JSON object such as config.json '
      'of a workdir.'
    )
  return study['name']


def _fill_section(config: ConfigDict, values: Mapping[str, object], path: str) -> None:
  """Sets the keys of a config section to values from JSON, where tuples are lists.

  Args:
    config: the section, which is changed.
    values: {key: value}, nested like the section.
    path: name of the section for messages, such as 'config.study'.

  Raises:
    InputError: the section has no such key, or the value has another type.
  """
  unknown = {key: value for key, value in values.items() if key not in config}
  # First refuse keys of earlier versions, with an error that says what replaces them. Which keys
  # these are depends on the study or source that `values` names, else on the one of `config`.
  _refuse_moved({**config, **values}, unknown, path)
  settings.refuse_unknown(values, config, path)
  for key, value in values.items():
    if isinstance(config[key], ConfigDict) and isinstance(value, Mapping):
      _fill_section(config[key], value, f'{path}.{key}')
      continue
    try:
      config[key] = tuple(value) if isinstance(value, list) else value
    except TypeError as error:
      raise InputError(f'{path}.{key} is {value!r}: {error}.') from error
