"""Code of users that a config refers to, as `FILE.py:NAME` or `package.module:NAME`.

A file is run like a script, and its digest is saved with results. The digest is also of the files
of the user's project that the file imports.
"""

import ast
import contextlib
import contextvars
import dataclasses
import functools
import hashlib
import importlib
import importlib.util
import inspect
import pathlib
import re
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Self, TypeGuard

from robustness.core import errors
from robustness.core.errors import USERS_FILES, InputError, key_name, nearest
from robustness.core.paths import expanded

SEPARATOR = '.py:'
"""Text that marks a name in a config as a reference FILE.py:NAME to a user's code."""
_IN_MODULE = re.compile(r'([^\W\d]\w*)(\.[^\W\d]\w*)+:[^\W\d]\w*')
"""Pattern of references package.module:NAME to an installed package."""
PACKAGES = ('robustness', 'input_pipeline', 'configs')
"""The packages of this project. A user's file may be in a clone and use the installed ones."""
_RUNS_FILES = contextvars.ContextVar('runs_files', default=True)
"""Whether `load` may run files, see `files_refused`."""


class FileRefusedError(InputError):
  """Raised by `load` within `files_refused`, where a user's Python file must not be run."""


class RecordedReference(str):
  """A reference `FILE.py:NAME` that was read from saved results. Its file is never run.

  Attributes:
    file: {'file': name of the file, 'file_sha256': its digest}, as saved in the results.
  """

  file: Mapping[str, str] = {}

  @classmethod
  def with_file(cls, reference: str, file: Mapping[str, str]) -> Self:
    """Returns the reference FILE.py:NAME with the file's name and digest from saved results.

    Args:
      reference: the text FILE.py:NAME.
      file: {'file': name of the file, 'file_sha256': its digest}.
    """
    recorded = cls(reference)
    recorded.file = file
    return recorded


@dataclasses.dataclass(frozen=True)
class FromFile:
  """An object loaded from user code by a reference such as FILE.py:NAME or package.module:NAME.

  Attributes:
    value: the object.
    name: the NAME in the reference.
    path: path of the file that defines the object.
    digest: SHA-256 of the file in hexadecimal. If the file imports other files of the user's
      project, this is the SHA-256 of the digests of all of them.
  """

  value: object
  name: str
  path: pathlib.Path
  digest: str

  @property
  def facts(self) -> dict[str, str]:
    """The file as saved with results: {'file': name of the file, 'file_sha256': its digest}."""
    return {'file': self.path.name, 'file_sha256': self.digest}


def files_refused() -> contextlib.AbstractContextManager[None]:
  """A context manager in which `load` raises `FileRefusedError` instead of running files.

  It is used where a name comes from data, such as the config of saved results, and not from the
  user.
  """
  return errors.set_within(_RUNS_FILES, False)


def is_reference(name: object) -> TypeGuard[str]:
  """Returns whether a name refers to a user's code: FILE.py:NAME or package:NAME.

  No other value does, such as a number that a config holds by mistake.
  """
  if not isinstance(name, str):
    return False
  return SEPARATOR in name or name.endswith('.py') or _IN_MODULE.fullmatch(name) is not None


def part_name(name: str) -> str:
  """Returns NAME for a reference to code such as `FILE.py:NAME`, and every other name unchanged."""
  return name.rpartition(':')[2] if is_reference(name) else name


def load(reference: str, key: str) -> FromFile:
  """Loads an object from user code by a reference FILE.py:NAME or package.module:NAME.

  A file is run like a script. It is run again only if its content has changed or after a call of
  `forget`. A module of an installed package is imported.

  Args:
    reference: the reference, as the user wrote it.
    key: config key that holds the reference, for error messages.

  Raises:
    InputError: the file, module or name is missing, or running the file raises an error or exits.
  """
  if isinstance(reference, RecordedReference) or not _RUNS_FILES.get():
    raise FileRefusedError(f'{key_name(key)} names {reference!r}: files of results are not run.')
  path, _, name = reference.rpartition(':')  # `path` is FILE.py or package.module
  if not path or not name:
    file_name = expanded(path or reference).name
    raise InputError(f'{reference}: say which name in it is meant, as {file_name}:NAME.')
  file = expanded(path)
  is_script = SEPARATOR in reference  # FILE.py, not package.module
  if is_script and not file.is_file():
    raise InputError(f'{key_name(key)} names {reference!r}: there is no file {file}.')
  try:
    if is_script:
      digest = hashlib.sha256(file.read_bytes()).hexdigest()
      module, package = _run(file, digest), ''
    else:
      module = importlib.import_module(path)
      file, package = pathlib.Path(inspect.getfile(module)), module.__package__ or ''
      USERS_FILES.add(str(file))
      digest = hashlib.sha256(file.read_bytes()).hexdigest()
    imports = _local_imports(file.absolute(), package)
    imported_digests = [_digest_when_imported(imported) for imported in imports]
  except InputError:
    raise
  except (Exception, SystemExit) as error:  # the file is the user's and may raise anything
    # package.module itself or its package is missing, and not a module that it imports
    if isinstance(error, ModuleNotFoundError) and f'{path}.'.startswith(f'{error.name}.'):
      raise InputError(
        f'{key_name(key)} names {reference!r}: no module {error.name!r} is installed.'
      ) from error
    message = f'{reference} raised {type(error).__name__}: {error}'
    raise errors.error_of_user(error) or InputError(message) from error
  if name not in vars(module):
    raise InputError(f'{file} has no {name!r}: {nearest(name, _defined_names(file), "defined")}')
  if imported_digests:  # the user's files that the file imports may change what it does
    digest = hashlib.sha256(' '.join([digest, *imported_digests]).encode()).hexdigest()
  return FromFile(vars(module)[name], name, file, digest)


def _defined_names(file: pathlib.Path) -> list[str]:
  """Returns the public names that a Python file defines, without those that it imports."""
  names = []
  for node in ast.parse(file.read_bytes()).body:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
      names.append(node.name)
    elif isinstance(node, ast.Assign | ast.AnnAssign):
      targets = node.targets if isinstance(node, ast.Assign) else [node.target]
      names += [target.id for target in targets if isinstance(target, ast.Name)]
  return [name for name in names if not name.startswith('_')]


def _imported_names(file: pathlib.Path, package: str = '') -> set[str]:
  """Returns the names of all modules that a Python file imports, from its `import` statements.

  'from a import b' counts as 'a' and 'a.b', because b may be a module.

  Args:
    file: path of the Python file, which is only parsed.
    package: package that relative imports start from.
  """
  names = []
  for node in ast.walk(ast.parse(file.read_bytes(), str(file))):
    if isinstance(node, ast.Import):
      names += [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
      parents = package.split('.')
      base = parents[: len(parents) - node.level + 1] if node.level else []
      module = '.'.join(filter(None, (*base, node.module)))
      names += [module, *(f'{module}.{alias.name}' for alias in node.names)]
  return set(names)


def _local_imports(file: pathlib.Path, package: str) -> list[pathlib.Path]:
  """Returns the files of the user's project that a file imports, directly or indirectly.

  The project is the outermost package that contains the file. For a script it also includes the
  script's folder.

  Args:
    file: path of the file.
    package: package that the file was imported from, or '' for a script.
  """
  # {name of an outermost package: folder that contains it} and, for a script, {'': its folder}
  folders = {}
  if package:  # the folder is x for x/a/b/c.py in the package a.b
    folders[package.partition('.')[0]] = file.parents[package.count('.') + 1]
  else:
    folders[''] = outermost = file.parent
    while (outermost / '__init__.py').is_file():  # the script is in a package
      folders = {'': file.parent, outermost.name: outermost.parent}
      outermost = outermost.parent
  found_files = [file]
  unread_files = [(file, package)]  # with the package of each file
  while unread_files:
    for name in _imported_names(*unread_files.pop()):
      for imported_file, its_package in _files_of_module(name, folders):
        if imported_file not in found_files and imported_file.is_file():
          found_files.append(imported_file)
          unread_files.append((imported_file, its_package))
  return sorted(found_files[1:])  # without the given file


def _files_of_module(
  name: str, folders: Mapping[str, pathlib.Path]
) -> Iterator[tuple[pathlib.Path, str]]:
  """Yields the files that Python may read when it imports a module of the user.

  'a.b' imports a and a.b. Each is a file, such as a/b.py, or a package, such as a/b/__init__.py.

  Args:
    name: name of the module. Without a folder for it, nothing is yielded.
    folders: {name of an outermost package: folder that contains it}. The folder of '' contains all
      other modules.

  Yields:
    (path, package that relative imports in the file start from). The file may be missing.
  """
  words = name.split('.')
  folder = folders.get(words[0], folders.get(''))
  if folder is None or words[0] in ('', *PACKAGES):  # not of the user
    return
  for count in range(1, len(words) + 1):
    path = folder.joinpath(*words[:count])
    yield path.with_suffix('.py'), '.'.join(words[: count - 1])
    yield path / '__init__.py', '.'.join(words[:count])


@functools.cache
def _digest_when_imported(file: pathlib.Path) -> str:
  """Returns the SHA-256 of an imported file at its first use in this process.

  The digest is cached because Python does not import a file again when it changes.
  """
  return hashlib.sha256(file.read_bytes()).hexdigest()


def _check_imports(file: pathlib.Path) -> None:
  """Raises InputError if Python would import a module of the same name instead of a local file.

  A file may import a module `data` from its own folder while Python finds another `data` first.

  Args:
    file: path of the Python file with the imports.
  """
  names = {name.partition('.')[0] for name in _imported_names(file)}
  for name in names.difference(PACKAGES, {''}):
    paths = file.parent / f'{name}.py', file.parent / name / '__init__.py'
    if not any(path.is_file() for path in paths):
      continue
    spec = importlib.util.find_spec(name)
    origin = spec.origin if spec else None  # the file that Python would import
    if origin and file.parent.resolve() not in pathlib.Path(origin).resolve().parents:
      raise InputError(
        f'{file} imports {name}, which is {origin} in this run and not the file beside it: '
        'rename the one beside it, because a run has one module of a name.'
      )


def forget() -> None:
  """Makes `load` run every file again, because files that it reads may have changed."""
  _run.cache_clear()


@functools.lru_cache(maxsize=8)
def _run(file: pathlib.Path, digest: str) -> ModuleType:
  """Runs a Python file and returns its module. Results are cached by path and content.

  Args:
    file: path of the file.
    digest: SHA-256 of its content, part of the key of the cache.
  """
  if str(file.parent) not in sys.path:
    sys.path.append(str(file.parent))  # modules in its folder can be imported, as in a script
  _check_imports(file)
  return run_file(file, f'{file.stem}_{digest[:8]}')


def run_file(file: pathlib.Path, name: str) -> ModuleType:
  """Runs a Python file and returns the resulting module under the name `name`."""
  spec = importlib.util.spec_from_file_location(name, file)
  assert spec is not None and spec.loader is not None
  module = importlib.util.module_from_spec(spec)
  sys.modules[spec.name] = module  # dataclasses look up the names in annotations there
  spec.loader.exec_module(module)
  return module
