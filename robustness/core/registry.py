"""Registries of a run's exchangeable components, called parts, which a config selects by name.

A part is a module of a package, `FILE.py:NAME` in a user's file, or `package.module:NAME` in an
installed package; studies, data sources and augmentations are parts, for example. It is a frozen
dataclass; its fields are its settings, the keys of its section of the config. Its name is the name
of its module, so that adding a file adds a part.
"""

import abc
import dataclasses
import functools
import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import ClassVar, Generic, TypeVar

from robustness.core import settings
from robustness.core.errors import InputError, SettingError, key_name, nearest
from robustness.core.settings import Section
from robustness.core.typing import Facts, PlainValue
from robustness.core.user_code import RecordedReference, is_reference, load, part_name

V = TypeVar('V')
"""Any type."""


@dataclasses.dataclass(frozen=True)
class Part(abc.ABC):
  """Base class of components that a config selects by name, such as attacks and augmentations.

  A component is a frozen dataclass. Its fields are its settings in the config.

  Attributes:
    name: name that selects the component in a config. By default it is the name of the module; in a
      user's file it is the name of the class.
    section: section of the config for components of this kind, such as 'config.study.attack'. The
      settings are in its subsection `name`. The base class of each kind sets it.
    file: {'file': name of the file, 'file_sha256': its digest} for a component in a user's file,
      and otherwise {}.
  """

  name: ClassVar[str]
  section: ClassVar[str] = ''
  file: ClassVar[Mapping[str, str]] = {}

  def __init_subclass__(cls, **kwargs: object) -> None:
    """Names a subclass like its module unless the class sets `name`."""
    super().__init_subclass__(**kwargs)
    if 'name' not in vars(cls):
      cls.name = cls.__module__.rpartition('.')[2]

  def __post_init__(self) -> None:
    """Raises InputError for a setting that is out of range or not one of its valid words."""
    check_fields(self, f'{self.section}.{self.name}')

  @property
  def references(self) -> tuple[str, ...]:
    """The values of settings that may refer to user code, as FILE.py:NAME; () by default."""
    return ()

  @property
  def files(self) -> dict[str, PlainValue]:
    """The user's files that the settings refer to, as saved with results.

    They are {'files': {NAME: {'file': name of the file, 'file_sha256': its digest}}} for settings
    such as FILE.py:NAME, or {} if no setting refers to user code.
    """
    files = {}
    for reference in self.references:
      if isinstance(reference, RecordedReference):
        files[part_name(reference)] = dict(reference.file)
      elif is_reference(reference):
        files[part_name(reference)] = load(reference, self.section).facts
    return {'files': files} if files else {}

  def describe(self) -> dict[str, PlainValue]:
    """Returns the name, settings and files of the component as JSON values, for results."""
    return {'name': self.name, **self.file, **dataclasses.asdict(self), **self.files}

  def require(self, condition: bool, key: str, valid: str) -> None:
    """Raises InputError for the value of a setting unless `condition` holds.

    `key` is the name of the setting and `valid` a phrase for its valid values.
    """
    settings.require(condition, self.key(key), getattr(self, key), valid)

  def refused(self, key: str, problem: str, fix: str = '') -> SettingError:
    """Returns the error for a setting with a value that cannot be used.

    `key` is the name of the setting, `problem` a clause such as 'which is no file', and `fix` the
    sentences that end the message.
    """
    return SettingError(self.key(key), getattr(self, key), fix=fix, problem=problem)

  def choose(self, key: str, valid: Iterable[str]) -> None:
    """Raises InputError if a setting has a value that is not in `valid`.

    Args:
      key: name of the setting; its value is a word or a tuple of words.
      valid: the valid words.
    """
    value = getattr(self, key)
    words = (value,) if isinstance(value, str) else value
    for name in words:
      settings.choice(self.key(key), name, valid)

  def key(self, key: str) -> str:
    """Returns the full name of a setting in the user's config, for messages."""
    return key_name(f'{self.section}.{self.name}.{key}')


def setting(
  default: V,
  valid: str,
  holds: Callable[[V], bool],
  large: bool = False,
  only_with: tuple[str | bool, ...] = (),
) -> V:
  """Returns a dataclass field for a setting of a component, with a check of its value.

  Args:
    default: default value.
    valid: phrase for the valid values in error messages, such as 'at least 0'.
    holds: function that is called with a value and returns whether it is valid.
    large: whether an integer may be 2**31 or more.
    only_with: another setting that this one depends on. With ('optimizer', 'sgd', 'lamb') this
      setting has an effect only if `optimizer` is 'sgd' or 'lamb', or is a tuple that contains one
      of them. With ('threshold',) it has an effect only if `threshold` is not 0, '', () or False.
      A setting without effect is left out of saved results; it must have its default value or be
      off (0, '', () or False), unless it may be inherited from another section.
  """
  checks = {'valid': valid, 'holds': holds, 'large': large, 'only_with': only_with}
  return dataclasses.field(default=default, metadata=checks)


def are_distinct(values: Sequence[object]) -> bool:
  """Returns whether no value is listed twice."""
  return len({*values}) == len(values)


def are_distinct_and_some(values: Sequence[object]) -> bool:
  """Returns whether there is at least one value, and no value is listed twice."""
  return bool(values) and are_distinct(values)


def have_distinct_names(parts: Sequence[type[Part]]) -> bool:
  """Returns whether different classes have different names."""
  return len({part.name for part in parts}) == len({*parts})


def word(default: str, words: Iterable[str], only_with: tuple[str | bool, ...] = ()) -> str:
  """Returns a dataclass field for a setting with a fixed set of valid words.

  Args:
    default: default value.
    words: the valid values.
    only_with: another setting that this one depends on, such as ('optimizer', 'sgd'), see
      `setting`.
  """
  checks = {'words': tuple(words), 'only_with': only_with}
  return dataclasses.field(default=default, metadata=checks)


def check_fields(parsed: object, section: str, inherits: bool = False) -> None:
  """Raises InputError if a field of a dataclass has an invalid value.

  The checks are stored in the fields by `setting` and `word`.

  Args:
    parsed: the dataclass instance.
    section: section of the config for error messages, such as 'config.study'.
    inherits: whether values may come from another section, as a training's do from the run. Those
      without an effect are then accepted, such as a momentum with 'adamw'.
  """
  for field in dataclasses.fields(parsed):  # type: ignore[arg-type]
    key, value = f'{section}.{field.name}', vars(parsed)[field.name]
    default = getattr(type(parsed), field.name, field.default)
    # A subclass has assigned the field without an annotation, so that the field keeps its default.
    if default is not field.default:
      raise InputError(
        f'{type(parsed).__name__} sets {field.name} = {default!r} without a type, which does not '
        f'change the default of {key_name(key)}: write {field.name}: TYPE = {default!r} and '
        '@dataclasses.dataclass(frozen=True) above the class.'
      )
    if value.__hash__ is None and not isinstance(value, Mapping):
      raise SettingError(key, value, 'a tuple, or another value that never changes')
    valid, words = field.metadata.get('valid'), field.metadata.get('words')
    if valid:
      if type(field.default) is int and isinstance(value, float):
        raise SettingError(key, value, settings.type_name(int))
      try:
        is_valid = field.metadata['holds'](value)
      except TypeError:  # a text or None, which cannot be compared with numbers
        is_valid = False
      settings.require(is_valid, key, value, valid)
    elif words:
      settings.choice(key, value, words)
    if not inherits and value and not settings.has_effect(field, vars(parsed)):
      other_key, *needed_values = field.metadata['only_with']
      is_tuple = needed_values and isinstance(getattr(parsed, other_key), tuple)
      needed = ' or '.join(map(repr, needed_values)) or 'set'
      verb = 'contains' if is_tuple else 'is'
      valid = f'{default!r} unless {key_name(f"{section}.{other_key}")} {verb} {needed}'
      settings.require(value == default, key, value, valid)


P = TypeVar('P', bound=Part)


@dataclasses.dataclass(frozen=True)
class Registry(Generic[P]):
  """All components of one kind, such as all augmentations, from which a config selects by name.

  Attributes:
    package: package with the modules of the components, such as 'robustness.augment', or a single
      module. A module may define any number of components.
    base: base class of the components.
  """

  package: str
  base: type[P]

  def classes(self) -> Mapping[str, type[P]]:
    """Returns {name: class} of all components in the package."""
    return _classes(self.package, self.base)

  def find(self, name: str, key: str) -> type[P]:
    """Returns the class of a component, given its name in a config.

    Args:
      name: name of a component of the package, such as 'fog', or a reference such as FILE.py:NAME.
      key: config key that holds this name, for error messages.

    Raises:
      InputError: no component has this name.
    """
    if isinstance(name, str):  # a config may hold a number by mistake
      if is_reference(name):
        return self._from_file(name, key)
      part = _part_in_module(self.package, name, self.base) or self.classes().get(name)
      if part:
        return part
    raise InputError(
      f'{key_name(key)} names {name!r}; {nearest(str(name), self.classes())}. FILE.py:NAME or '
      'package.module:NAME takes one of your own.'
    )

  def select(self, name: str, sections: Section, path: str, key: str = 'name') -> P:
    """Returns the component `name` with its settings from a config.

    Settings that the config leaves out have their defaults.

    Args:
      name: name of the component, or a reference such as FILE.py:NAME.
      sections: {name of a component: {setting: value}}. Other components may be present.
      path: name of `sections` in the config for error messages, such as
        'config.classifier.augment'.
      key: key in `path` that holds `name`, for error messages, such as 'policy'.
    """
    part_class = self.find(name, f'{path}.{key}')
    values = sections.get(part_class.name, {})
    return settings.parse(part_class, values, f'{path}.{part_class.name}')

  def optional(self, section: Section, path: str) -> P | None:
    """Returns the component that `section['name']` selects, or None if this name is ''.

    Args:
      section: section of the config, with 'name' and a subsection for each component.
      path: name of the section in the config, for error messages.
    """
    name = section.get('name', '')
    self.check_sections(section, path, 'name', (name,) if name else ())
    return self.select(name, section, path) if name else None

  def check_sections(
    self,
    section: Section,
    path: str,
    key: str,
    names: tuple[str, ...] = (),
    other_keys: Iterable[str] = (),
  ) -> None:
    """Checks a section of the config that selects components, such as 'config.classifier.augment'.

    Args:
      section: the section. It may have `key`, `other_keys`, and a subsection for each component.
      path: name of the section, for error messages.
      key: key of the section that selects components.
      names: names of the selected components.
      other_keys: further keys that the section may have.

    Raises:
      InputError: a key of the section or of a subsection is unknown, or a value is invalid.
    """
    selected = [self.find(name, f'{path}.{key}') for name in names]
    if not have_distinct_names(selected):
      raise InputError(
        f'{key_name(f"{path}.{key}")} is {names}: two of these have the same NAME, and with it the '
        'same settings; rename one.'
      )
    # the parts of the package, and selected parts of users' files (FILE.py:NAME)
    parts = {**self.classes(), **{part.name: part for part in selected}}
    keys = {key, *other_keys}
    settings.refuse_unknown(section, [*keys, *parts], path)
    for name, values in section.items():
      if name not in keys:
        settings.parse(parts[name], values, f'{path}.{name}')

  def default_sections(self) -> dict[str, Facts]:
    """Returns {name of a component: {setting: default}} for all components of the package."""
    return {name: dataclasses.asdict(part()) for name, part in self.classes().items()}

  def _from_file(self, reference: str, key: str) -> type[P]:
    """Returns the class of a component in user code, with its `name` and `file` set.

    Args:
      reference: FILE.py:NAME or package.module:NAME.
      key: config key that holds the reference, for error messages.

    Raises:
      InputError: the class is not a concrete subclass of `base`, or a component of the package
        already has its name.
    """
    code = load(reference, key)
    part = code.value
    subject = f'{key_name(key)} names {reference!r}'
    base = f'{self.base.__module__}.{self.base.__name__}'
    if not (inspect.isclass(part) and issubclass(part, self.base)):
      raise InputError(f'{subject}, which is no subclass of {base}.')
    fields = {field.name for field in dataclasses.fields(part)}
    # A subclass without the decorator has the fields of its base class only: an annotation
    # `strength: float` in it would be no setting, without any error.
    for name, kind in inspect.get_annotations(part).items():
      if name not in fields and 'ClassVar' not in str(kind):
        fix = 'write @dataclasses.dataclass(frozen=True) above the class'
        raise InputError(f'{subject}, and its {name} is no setting: {fix}.')
    if inspect.isabstract(part):
      methods = ', '.join(sorted(part.__abstractmethods__))
      raise InputError(f'{subject}, which does not define {methods}: see {base}.')
    parts = self.classes()
    if code.name in parts or part in parts.values():
      problem = f'{subject}, but {part.name!r} is a part that is here already'
      raise InputError(f'{problem}: name it alone, or give yours another name.')
    part.name = code.name
    part.file = code.facts
    return part


@functools.cache
def _part_in_module(package: str, name: str, base: type[P]) -> type[P] | None:
  """Returns the class of a component that is in a module of the same name, or None.

  Only this module is imported, which is faster than a search in all modules of the package.

  Args:
    package: package with the components.
    name: name of the component and of its module.
    base: base class of the components.
  """
  is_package = '__path__' in vars(importlib.import_module(package))  # else a single module
  may_be_module = is_package and name.isidentifier()
  if not may_be_module or importlib.util.find_spec(f'{package}.{name}') is None:
    return None
  defined = _subclasses_in_module(importlib.import_module(f'{package}.{name}'), base)
  return next((part for part in defined if part.name == name), None)


@functools.cache
def _classes(package: str, base: type[P]) -> Mapping[str, type[P]]:
  """Returns {name: class} of all concrete subclasses of `base` in a package, sorted by name."""
  parts = sorted(subclasses_in_package(package, base), key=lambda part: part.name)
  return {part.name: part for part in parts}


@functools.cache
def subclasses_in_package(package: str, base: type[V]) -> tuple[type[V], ...]:
  """Returns the concrete subclasses of `base` in the modules of a package, or in one module."""
  parent = importlib.import_module(package)
  folders = vars(parent).get('__path__', ())  # () for a single module
  names = [entry.name for entry in pkgutil.iter_modules(folders)]
  modules = [importlib.import_module(f'{package}.{name}') for name in names] or [parent]
  return tuple(part for module in modules for part in _subclasses_in_module(module, base))


def _subclasses_in_module(module: ModuleType, base: type[V]) -> Iterator[type[V]]:
  """Yields the concrete subclasses of `base` that a module defines, without those it imports."""
  for value in vars(module).values():
    if not inspect.isclass(value) or value.__module__ != module.__name__:
      continue  # no class, or an imported one
    if issubclass(value, base) and value is not base and not inspect.isabstract(value):
      yield value
