"""Errors about a user's input, which state the fix.

An error about a key of the config carries the key, its value, the valid values and the fix as data;
only `SettingError` writes the sentence. A part does not know the section of the config that it is
in: it names its keys as in a config with one study and one classifier, and the reader of the config
states the actual name of the section with `renaming_section`. A function that users call states
with `naming_arguments` that its keys are arguments; fixes then have the form of `for_caller` in
Python.
"""

import argparse
import contextlib
import contextvars
import difflib
import itertools
import os
import pathlib
import sysconfig
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

T = TypeVar('T')
_sections: contextvars.ContextVar[Mapping[str, str]] = contextvars.ContextVar('sections')
"""{section in errors: name of the section in the user's config}, see `renaming_section`."""


MAX_VALUE_LENGTH = 300
"""Most characters of a value in a sentence."""
MAX_REASON_LENGTH = 600
"""Most characters of the text of an error that a user's code raised."""
USERS_FILES: set[str] = set()
"""Files of installed packages that a name `package.module:NAME` refers to."""
_ROOT = pathlib.Path(__file__).parents[2]
OWN_FOLDERS = tuple(f'{_ROOT / name}{os.sep}' for name in ('robustness', 'input_pipeline'))
"""The folders with the code of this project."""


class InputError(ValueError):
  """Raised for a bad input of a user; the message has the bad value, valid values and the fix."""


class SettingError(InputError):
  """Raised for a key of the config with a value that cannot be used.

  Attributes:
    key: the full name of the key in the user's config, such as 'config.study.norm'.
    value: the bad value.
    valid: the valid values, as a phrase ('at least 0') or as a list of words.
    fix: the fix, as sentences.
    problem: the problem with the value, as a clause ('which is no file').
  """

  def __init__(
    self,
    key: 'str | KeyName',
    value: object,
    valid: str | Iterable[str] = '',
    fix: str = '',
    problem: str = '',
  ):
    """Composes the message: 'KEY is VALUE, PROBLEM; it must be VALID. FIX'.

    Args:
      key: the config key of the setting.
      value: its value, which is shortened in the message.
      valid: the valid values in words, or a list of them, of which the nearest ones are named.
      fix: sentences on what to do.
      problem: a clause on what is wrong.
    """
    self.key, self.value, self.fix, self.problem = key_name(str(key)), value, fix, problem
    self.valid = valid if isinstance(valid, str) else tuple(valid)
    printed = repr(value)
    if len(printed) > MAX_VALUE_LENGTH:
      printed = f'{printed[:MAX_VALUE_LENGTH]}...'
    sentence = f'{self.key} is {printed}'
    if problem:
      sentence += f', {problem}'
    if not isinstance(self.valid, str):
      sentence += f'; {nearest(str(value), self.valid)}'
    elif self.valid:
      sentence += f'; it must be {self.valid}'
    super().__init__(f'{sentence}. {fix}'.rstrip())

  def __reduce__(self) -> tuple[type, tuple[object, ...]]:
    """Returns the arguments with which the error is unpickled, in another process for example."""
    return type(self), (self.key, self.value, self.valid, self.fix, self.problem)


@contextlib.contextmanager
def set_within(variable: contextvars.ContextVar[T], value: T) -> Iterator[None]:
  """A context manager in which a context variable has a value."""
  token = variable.set(value)
  try:
    yield
  finally:
    variable.reset(token)


@contextlib.contextmanager
def renaming_section(section: str, actual: str) -> Iterator[None]:
  """A context manager that renames a section of the config in error messages.

  For example, within `renaming_section('config.study', 'config.battery.noise.study')` an error
  about 'config.study.norm' names 'config.battery.noise.study.norm'. If contexts for the same
  section are nested, the inner one applies.

  Args:
    section: name of the section in the code, such as 'config.study'.
    actual: name of the section in the user's config.
  """
  with set_within(_sections, {**_sections.get({}), section: key_name(actual)}):
    yield


def key_name(key: str) -> str:
  """Returns the name that a user knows for a key of the config.

  Sections are renamed by the surrounding `renaming_section`. For example, if 'config.study' is
  renamed to 'config.battery.noise.study', the key 'config.study.norm' becomes
  'config.battery.noise.study.norm'. If the section is renamed to '', the key becomes 'norm'.
  """
  names, section = _sections.get({}), key
  while section and section not in names:  # finds the longest renamed section that contains the key
    section, _, _ = section.rpartition('.')
  return (names[section] + key.removeprefix(section)).removeprefix('.') if section else key


@contextlib.contextmanager
def naming_arguments(data: str = 'data') -> Iterator[None]:
  """A context manager in which error messages name arguments of a Python function, not config keys.

  For example, 'config.study.norm' becomes 'norm', 'config.classifier.name' becomes 'model', and
  'config.data.crop' becomes 'data.crop'.

  Args:
    data: name of the argument that holds the images.
  """
  left_out = ('config', 'config.classifier', 'config.study', 'config.training')
  augment = 'config.classifier.augment'  # also the section of the settings of augmentations
  names_in_messages = {**dict.fromkeys(left_out, ''), 'config.study.name': 'study'}
  names_in_messages |= {augment: 'policy', f'{augment}.policy': 'policy'}
  names_in_messages |= {'config.classifier.name': 'model', 'config.data': data}
  with set_within(_sections, names_in_messages), users_errors_refused():
    yield


def for_caller(command: str, python: str) -> str:
  """Returns the wording of a message that suits how the user called the program.

  Args:
    command: wording for users of the command line.
    python: wording for callers of the Python functions, returned within `naming_arguments`.
  """
  # only `naming_arguments` renames the whole config, to ''
  return python if _sections.get({}).get('config') == '' else command


@contextlib.contextmanager
def importing(message: str) -> Iterator[None]:
  """A context manager that raises InputError with `message` if an import within it fails."""
  try:
    yield
  except (ImportError, RuntimeError) as error:  # torchvision raises RuntimeError for another torch
    raise InputError(f'{message} ({error}).') from error


@contextlib.contextmanager
def exits_refused() -> Iterator[None]:
  """A context manager that turns `sys.exit` in a user's file into an InputError.

  The error names the line that called `sys.exit`. Without it, `sys.exit(0)` would end an unfinished
  run with the exit status of success.
  """
  try:
    yield
  except SystemExit as error:
    frame = traceback.extract_tb(error.__traceback__)[-1]  # where `sys.exit` was called
    if frame.filename == argparse.__file__:  # after --help or a wrong flag
      raise
    raise InputError(
      f'{frame.filename}, line {frame.lineno}, called sys.exit({error.code!r}): a file that a run '
      'uses must return or raise an error.'
    ) from error


@contextlib.contextmanager
def users_errors_refused() -> Iterator[None]:
  """A context manager that turns an error in a user's code into an InputError.

  The message is made by `error_of_user`.
  """
  try:
    yield
  except Exception as error:
    if refused := error_of_user(error):
      raise refused from error
    raise


def error_of_user(error: BaseException) -> InputError | None:
  """Returns an InputError that names the line of the user's code that raised an error.

  In functions that JAX traces, the traceback buries this line under many frames.

  Args:
    error: the error with its traceback.

  Returns:
    The InputError, or None if no line of the user's code is at fault. None is also returned for an
    `InputError`, a `MemoryError` and a `JaxRuntimeError`.
  """
  is_excluded = isinstance(error, InputError | MemoryError)
  if is_excluded or not isinstance(error, Exception) or type(error).__name__ == 'JaxRuntimeError':
    return None
  calls = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
  # The traceback begins with the user's code that called this project, which is not at fault. The
  # code that this project called, such as a user's attack, follows.
  inner_calls = itertools.dropwhile(lambda call: is_users(call[0].co_filename), calls)
  users_calls = [(code, line) for code, line in inner_calls if is_users(code.co_filename)]
  if not users_calls:
    return None
  code, line = users_calls[-1]
  message_lines = str(error).splitlines()
  if type(error).__module__.startswith('jax'):
    # the first line has the reason; the others are about functions of JAX, except for a link
    links = [text for text in message_lines[1:] if text.startswith('See ')]
    message_lines = [*message_lines[:1], *links]
  reason = ' '.join(' '.join(message_lines).split())[:MAX_REASON_LENGTH]
  place = f'{code.co_filename}, line {line}, in {code.co_qualname}'
  return InputError(f'{place}, raised {type(error).__name__}: {reason}')


def is_users(file: str) -> bool:
  """Returns whether a source file was written by the user.

  Files of this project, of Python and of installed packages were not.

  Args:
    file: path of the source file, as in `code.co_filename` of a stack frame.
  """
  parts = pathlib.Path(file).parts
  if file.startswith('<') or 'site-packages' in parts or 'dist-packages' in parts:
    return file in USERS_FILES
  return not file.startswith((*OWN_FOLDERS, sysconfig.get_path('stdlib') + os.sep))


def or_column(name: str) -> str:
  """Returns the last words of an error message about a data column that is missing.

  Callers in Python are advised to pass `columns`. On the command line the words are only '.'.

  Args:
    name: name of the missing column.
  """
  return for_caller('.', f', or give columns={{{name!r}: ...}} with a value for each image.')


class KeyName:
  """A key of the config that prints under the name that the user knows.

  For example, `f'{KEYS.data.crop}'` is 'config.data.crop' for a user of the command line and
  'data.crop' for a caller in Python. `f'{KEYS.seed:--}'` is the flag '--config.seed' for a user of
  the command line and 'seed' for a caller in Python.
  """

  def __init__(self, key: str):
    self._key = key

  def __getattr__(self, name: str) -> 'KeyName':
    """Returns the key `name` of this section, for instance `KEYS.data.crop`."""
    return KeyName(f'{self._key}.{name}')

  def __str__(self) -> str:
    """Returns the full name of the key in the user's config."""
    return key_name(self._key)

  def __format__(self, dashes: str) -> str:
    """Returns the key's name for an f-string, such as '--config.seed' for `f'{KEYS.seed:--}'`.

    Args:
      dashes: prefix of the name on the command line, '--' or ''. It is left out for callers of the
        Python API, where the key is an argument.
    """
    return for_caller(dashes, '') + str(self)


KEYS, WORKDIR = KeyName('config'), KeyName('workdir')
"""The root of all names of keys, and the name of the folder of a run."""


def causes(error: BaseException) -> Iterator[BaseException]:
  """Yields an error, the error that caused it, and so on up to the first of the chain."""
  seen: list[BaseException] = []
  reason: BaseException | None = error
  while reason is not None and reason not in seen:
    yield reason
    seen.append(reason)
    reason = reason.__cause__ or reason.__context__


def first_names(names: Sequence[str], count: int = 8) -> str:
  """Returns the first `count` names as a phrase, such as 'cat, dog and 3 more'."""
  unlisted = f' and {len(names) - count} more' if len(names) > count else ''
  return ', '.join(names[:count]) + unlisted


MAX_LISTED = 60  # most valid words that a message lists


def nearest(word: str, valid: Iterable[str], state: str = 'valid') -> str:
  """Returns a phrase that suggests similar valid words and lists all valid words.

  For example, "did you mean 'norm'? valid: 'clip', 'norm', 'phase'". Long lists are replaced by the
  number of words.

  Args:
    word: the user's word.
    valid: the valid words.
    state: adjective for the words in the phrase, such as 'valid', or 'defined' for words in a file.
  """
  words = sorted(valid)
  same_letters = [name for name in words if name.lower() == word.lower()]
  longer = [name for name in words if word and name.startswith(word)]
  similar = same_letters or difflib.get_close_matches(word, words, n=3) or longer
  listed = f'{state}: {", ".join(map(repr, words))}'
  count = f'{len(words)} are {state}'
  if similar:
    suggestions = ' or '.join(map(repr, similar[:3]))
    all_words = listed if len(words) <= MAX_LISTED else f'({count})'
    return f'did you mean {suggestions}? {all_words}'
  return listed if len(words) <= 2 * MAX_LISTED else f'{count}, none is similar'
