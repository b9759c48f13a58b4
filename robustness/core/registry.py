"""Named parts of a run: one file each in a package, or `FILE.py:NAME` in a file of the user's and
`package.module:NAME` in an installed package.

A part is a frozen dataclass: its fields are its settings, the keys of its section of the config,
and its methods are what it can do. Its name is that of its module: adding a file adds a part.
"""

import abc
import contextlib
import contextvars
import dataclasses
import functools
import hashlib
import importlib
import importlib.util
import inspect
import pathlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import ClassVar, Generic, TypeVar

from robustness.core import settings
from robustness.core.errors import InputError, key_name, nearest
from robustness.core.paths import expanded
from robustness.core.settings import Section
from robustness.core.typing import Facts, PlainValue

SEPARATOR = '.py:'
_IN_MODULE = re.compile(r'([^\W\d]\w*)(\.[^\W\d]\w*)+:[^\W\d]\w*')
V = TypeVar('V')
_RUNS_FILES = contextvars.ContextVar('runs_files', default=True)


class FileRefusedError(InputError):
  """A Python file is named where none is run, see `files_refused`."""


@dataclasses.dataclass(frozen=True)
class Part(abc.ABC):
  """Base class of parts that a config names.

  Attributes:
    name: of the module, unless the class sets another one; of a part in a user's file, the class's.
    section: the config section whose keys are named parts, for messages; set by each kind of part.
    file: of a part in a user's file, {'file': its name, 'file_sha256': its digest}; else empty.
  """

  name: ClassVar[str]
  section: ClassVar[str] = ''
  file: ClassVar[Mapping[str, str]] = {}

  def __init_subclass__(cls, **kwargs: object) -> None:
    super().__init_subclass__(**kwargs)
    if 'name' not in vars(cls):
      cls.name = cls.__module__.rpartition('.')[2]

  def __post_init__(self) -> None:
    """Raises InputError for a setting that is not as its `setting` says."""
    check_fields(self, f'{self.section}.{self.name}')

  @property
  def references(self) -> tuple[str, ...]:
    """Names in its settings that may be those of a user's code, besides those of parts here."""
    return ()

  @property
  def files(self) -> dict[str, PlainValue]:
    """`files`: of the user's code that `references` name, each with its digest; {} without any."""
    found = {part_name(n): load(n, self.section) for n in self.references if is_reference(n)}
    files = {n: {'file': own.path.name, 'file_sha256': own.digest} for n, own in found.items()}
    return {'files': files} if files else {}

  def describe(self) -> dict[str, PlainValue]:
    """Returns name and settings as plain values, for checkpoints and results."""
    return {'name': self.name, **self.file, **dataclasses.asdict(self), **self.files}

  def require(self, condition: bool, key: str, valid: str) -> None:
    """Raises InputError naming the key, its value and the valid ones unless `condition` holds."""
    settings.require(condition, self.key(key), getattr(self, key), valid)

  def choose(self, key: str, valid: Iterable[str]) -> None:
    """Raises InputError unless the word, or each of the words, under a key is a valid one."""
    words = getattr(self, key)
    for given in (words,) if isinstance(words, str) else words:
      settings.choice(self.key(key), given, valid)

  def key(self, key: str) -> str:
    """Returns the name of a setting in the user's config, for messages."""
    return key_name(f'{self.section}.{self.name}.{key}')


def setting(
  default: V,
  valid: str,
  holds: Callable[[V], bool],
  large: bool = False,
  only_with: tuple[str, ...] = (),
) -> V:
  """Returns a field of a part: its default, its valid values in words, and whether one is; a whole
  number is below 2**31 unless it may be `large`.

  `only_with` names the key, and values of it, without which the field has no effect; a key alone
  must be on. Such a field is not recorded at its default.
  """
  facts = {'valid': valid, 'holds': holds, 'large': large, 'only_with': only_with}
  return dataclasses.field(default=default, metadata=facts)


def word(default: str, words: Iterable[str], only_with: tuple[str, ...] = ()) -> str:
  """Returns a field of a part that is one of some words; see `setting` for `only_with`."""
  facts = {'words': tuple(words), 'only_with': only_with}
  return dataclasses.field(default=default, metadata=facts)


def check_fields(parsed: object, where: str) -> None:
  """Raises InputError for a field of a dataclass, the config's section `where`, that is not as its
  `setting` or `word` says."""
  for field in dataclasses.fields(parsed):  # type: ignore[arg-type]
    key, value = f'{where}.{field.name}', vars(parsed)[field.name]
    if valid := field.metadata.get('valid'):
      settings.require(field.metadata['holds'](value), key, value, valid)
    elif words := field.metadata.get('words'):
      settings.choice(key, value, words)


P = TypeVar('P', bound=Part)


@dataclasses.dataclass(frozen=True)
class Registry(Generic[P]):
  """The parts of one kind.

  Attributes:
    package: the package whose modules hold the parts, for example 'robustness.augment'; a module
      may hold several, or none. A single module may take its place.
    base: the class that the parts derive from.
  """

  package: str
  base: type[P]

  def classes(self) -> Mapping[str, type[P]]:
    """Returns the parts of the package by name."""
    return _classes(self.package, self.base)

  def find(self, name: str, where: str) -> type[P]:
    """Returns the part called `name`, or that of `FILE.py:NAME`; messages name `where`."""
    if isinstance(name, str) and is_reference(name):
      return self._from_file(name, where)
    if isinstance(name, str) and (alone := _of_module(self.package, name, self.base)):
      return alone
    known = self.classes()
    if not isinstance(name, str) or name not in known:
      raise InputError(
        f'{key_name(where)} names {name!r}; {nearest(str(name), known)}. FILE.py:NAME or '
        'package.module:NAME takes one of your own.'
      )
    return known[name]

  def select(self, name: str, sections: Section, where: str, key: str = 'name') -> P:
    """Returns the named part with the settings of its own section, or its defaults.

    Messages call the sections `where`, such as 'config.classifier.augment'; the key `key`, such as
    'policy', gave the name.
    """
    found = self.find(name, f'{where}.{key}')
    return settings.parse(found, sections.get(found.name, {}), f'{where}.{found.name}')

  def optional(self, section: Section, where: str) -> P | None:
    """Returns the part that `section['name']` selects; None where it is ''."""
    name = section.get('name', '')
    self.check_sections(section, where, 'name', (name,) if name else ())
    return self.select(name, section, where) if name else None

  def check_sections(
    self, section: Section, where: str, key: str, names: tuple[str, ...] = ()
  ) -> None:
    """Raises InputError for a key of a section that is neither `key` nor a part.

    `key` names the selected parts; the sections of others are checked too, so that a misspelt key
    never passes.
    """
    selected = [self.find(name, f'{where}.{key}') for name in names]
    known = {**self.classes(), **{part.name: part for part in selected}}
    for name, values in section.items():
      if name == key:
        continue
      if name not in known:
        choices = nearest(str(name), [key, *known])
        raise InputError(f'unknown key {key_name(where)}.{name}: {choices}.')
      settings.parse(known[name], values, f'{where}.{name}')

  def default_sections(self) -> dict[str, Facts]:
    """Returns {name: its settings by default}, the sections of a config."""
    return {name: dataclasses.asdict(part()) for name, part in self.classes().items()}

  def _from_file(self, reference: str, where: str) -> type[P]:
    found = load(reference, where)
    value = found.value
    if not (inspect.isclass(value) and issubclass(value, self.base)):
      raise InputError(
        f'{key_name(where)} names {reference!r}, which is no subclass of {self.base.__module__}.'
        f'{self.base.__name__}.'
      )
    fields = {field.name for field in dataclasses.fields(value)}
    for name, kind in inspect.get_annotations(value).items():
      if name not in fields and 'ClassVar' not in str(kind):
        raise InputError(
          f'{key_name(where)} names {reference!r}, whose {name} is no setting: write '
          '@dataclasses.dataclass(frozen=True) above the class.'
        )
    if inspect.isabstract(value):
      lacks = ', '.join(sorted(value.__abstractmethods__))
      raise InputError(
        f'{key_name(where)} names {reference!r}, which does not define {lacks}: see '
        f'{self.base.__module__}.{self.base.__name__}.'
      )
    known = self.classes()
    if found.name in known or value in known.values():
      raise InputError(
        f'{key_name(where)} names {reference!r}, but {value.name!r} is a part that is here '
        'already: name it alone, or give yours another name.'
      )
    value.name = found.name
    value.file = {'file': found.path.name, 'file_sha256': found.digest}
    return value


@functools.cache
def _of_module(package: str, name: str, base: type[P]) -> type[P] | None:
  """Returns the part in the module of its name, for which no other module is imported."""
  is_package = '__path__' in vars(importlib.import_module(package))
  if not is_package or not name.isidentifier():
    return None
  if importlib.util.find_spec(f'{package}.{name}') is None:
    return None
  defined = _defined(importlib.import_module(f'{package}.{name}'), base)
  return next((part for part in defined if part.name == name), None)


@functools.cache
def _classes(package: str, base: type[P]) -> Mapping[str, type[P]]:
  return {part.name: part for part in sorted(defined_in(package, base), key=lambda part: part.name)}


@functools.cache
def defined_in(package: str, base: type[V]) -> tuple[type[V], ...]:
  """Returns the subclasses of `base` that can be made, of the modules of a package or of a single
  module."""
  parent = importlib.import_module(package)
  modules = [
    importlib.import_module(f'{package}.{entry.name}')
    for entry in pkgutil.iter_modules(vars(parent).get('__path__', ()))
  ] or [parent]
  return tuple(part for module in modules for part in _defined(module, base))


def _defined(module: ModuleType, base: type[V]) -> Iterator[type[V]]:
  """Yields the subclasses of `base` that a module defines and that can be made."""
  for value in vars(module).values():
    own = inspect.isclass(value) and value is not base and value.__module__ == module.__name__
    if own and issubclass(value, base) and not inspect.isabstract(value):
      yield value


@dataclasses.dataclass(frozen=True)
class FromFile:
  """What a reference to code names: the object, with the path of its file and the SHA-256."""

  value: object
  name: str
  path: pathlib.Path
  digest: str


@contextlib.contextmanager
def files_refused() -> Iterator[None]:
  """A context in which `load` raises `FileRefusedError`, as names come from data."""
  token = _RUNS_FILES.set(False)
  try:
    yield
  finally:
    _RUNS_FILES.reset(token)


def is_reference(name: str) -> bool:
  """Whether a name in a config means an object in a Python file or in an installed package."""
  return SEPARATOR in name or name.endswith('.py') or _IN_MODULE.fullmatch(name) is not None


def part_name(name: str) -> str:
  """Returns what a part that a config names is called: NAME of `FILE.py:NAME`, else the name."""
  return name.rpartition(':')[2] if is_reference(name) else name


def load(reference: str, where: str) -> FromFile:
  """Returns what `FILE.py:NAME` or `package.module:NAME` is.

  A file is run as any script would be, once as long as its bytes are the same (see `forget`). A
  missing file, module or name, and an error or a `sys.exit` while it runs, are InputErrors; `where`
  is the key that gives it.
  """
  if not _RUNS_FILES.get():
    raise FileRefusedError(f'{key_name(where)} names {reference!r}: files of results are not run.')
  path, _, name = reference.rpartition(':')
  file = expanded(path or reference)
  in_module = SEPARATOR not in reference and path
  if not path or not name:
    raise InputError(f'{reference}: say which name in it is meant, as {file.name}:NAME.')
  if not in_module and not file.is_file():
    raise InputError(f'{key_name(where)} names {reference!r}: there is no file {file}.')
  try:
    imported = importlib.import_module(path) if in_module else None
    file = pathlib.Path(inspect.getfile(imported)) if imported else file
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    module = imported or _run(file, digest)
  except InputError:
    raise
  except (Exception, SystemExit) as error:  # the file is the user's and may raise anything
    if isinstance(error, ModuleNotFoundError) and f'{path}.'.startswith(f'{error.name}.'):
      raise InputError(
        f'{key_name(where)} names {reference!r}: no module {error.name!r} is installed.'
      ) from error
    raise InputError(f'{reference} raised {type(error).__name__}: {error}') from error
  held = vars(module)
  if name not in held:
    public = [word for word in held if not word.startswith('_')]
    raise InputError(f'{file} has no {name!r}: {nearest(name, public)}')
  return FromFile(held[name], name, file, digest)


def forget() -> None:
  """Lets every file be run again: files that it reads, such as weights, may have changed."""
  _run.cache_clear()


@functools.lru_cache(maxsize=8)
def _run(file: pathlib.Path, digest: str) -> ModuleType:
  spec = importlib.util.spec_from_file_location(f'{file.stem}_{digest[:8]}', file)
  assert spec is not None and spec.loader is not None
  module = importlib.util.module_from_spec(spec)
  sys.modules[spec.name] = module  # where dataclasses look up the names in annotations
  spec.loader.exec_module(module)
  return module
